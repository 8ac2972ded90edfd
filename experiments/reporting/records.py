"""The runs that are kept, grouped by setting: a Config, whatever its seed and its backend."""

import copy
import dataclasses
import functools
import json
import math
from collections import Counter
from pathlib import Path

from experiments import study
from npdl.training.recipes import RECIPES
from npdl.training.config import Config

NAMES = {"lstm": "LSTM", "gpt": "GPT"}
GRID = 100                  # evaluations after step 100 are so many steps apart
UNKNOWN = "code that was not recorded"
LABELS = Path(__file__).parents[1] / "results" / "labels.json"      # see tests/experiments/test_replay.py


def origin(made):
    """What computed a run, as far as its record (study.made) says."""
    if "engine" not in made:
        return UNKNOWN
    return (f"engine {made['engine']}, {made.get('processor', '?')}, {made['blas']} with the "
            f"kernels of {made.get('kernels', '?')}")


def labels():
    """What is said of records by an engine (None for UNKNOWN) and of a model: a list of dicts."""
    return json.loads(LABELS.read_text(encoding="utf-8")) if LABELS.exists() else []


def label_of(run):
    """The label (dict) of a run's records, or {}."""
    return next((label for label in labels() if label["engine"] == run.made.get("engine")
                 and label["model"] == run.config.model), {})


class Run:
    """A kept run: `config`, `made` (study.made, or nothing), and `columns`, one for each number."""

    def __init__(self, stored):
        self.config = Config.from_json(stored["config"])
        self.made = stored.get("made", {})
        self.origin = origin(self.made)
        self.columns = stored["records"]

    @functools.cache                    # noqa: B019  (a report reads each run once)
    def points(self, metric):
        """[(step, value)] of the evaluations that have one."""
        return [(step, value) for step, value in zip(self.columns["step"],
                                                     self.columns[metric], strict=True)
                if value is not None]

    @functools.cache                    # noqa: B019
    def _best(self, metric, until):
        sign = 1 if "loss" in metric else -1
        points = [(sign * v, t) for t, v in self.points(metric) if until is None or t <= until]
        value, step = min(points)
        return sign * value, step

    def best(self, metric, until=None):
        """The lowest loss or highest accuracy, of the steps up to `until`."""
        return self._best(metric, until)[0]

    def first(self, metric, until=None):
        """t_f: the first step of that lowest loss or highest accuracy."""
        return self._best(metric, until)[1]

    def reach(self, metric, threshold):
        """The first step with at least that accuracy, or infinity."""
        return next((t for t, value in self.points(metric) if value >= threshold), math.inf)

    def shortfall(self, metric="validation_accuracy"):
        """How unsteady an accuracy is: how far, on average over the evaluations on the grid of
        100 steps, it lies below the highest value that it had before."""
        best, missing = 0.0, []
        for step, value in self.points(metric):
            best = max(best, value)
            if step % GRID == 0:
                missing.append(best - value)
        return math.fsum(missing) / len(missing)

    def roughness(self, metric="train_loss"):
        """The same for a loss, in decades above the lowest value before; from step 100 on."""
        best, above = math.inf, []
        for step, value in self.points(metric):
            best = min(best, value)
            if step % GRID == 0:
                above.append(math.log10(value / best))
        return math.fsum(above) / len(above)

    def drop(self, metric="validation_accuracy"):
        """The largest fall of an accuracy below the highest value that it had before."""
        best, worst = 0.0, 0.0
        for _, value in self.points(metric):
            best = max(best, value)
            worst = max(worst, best - value)
        return worst


@dataclasses.dataclass(frozen=True)
class Spread:
    """Mean and population standard deviation of some seeds' values; None without any."""

    mean: float | None
    std: float | None
    values: tuple

    @classmethod
    def of(cls, values):
        values = tuple(values)
        if not values:
            return cls(None, None, ())
        mean = math.fsum(values) / len(values)
        return cls(mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)),
                   values)


def setting(config):
    """A run's Config without its seed and the place where it was computed."""
    return dataclasses.replace(config, seed=0, backend="numpy")


class Store:
    """All kept runs of a folder. Raises InputError for a file that cannot be read.

    settings  {setting: {seed: [Run, ...]}}: one for each engine that made it, the preferred first
    recipe    that a Config of the default recipe is looked up by: one of the RECIPES
    origins   {model: origin}: runs that something else computed are left out, so that no table
              mixes two; {} leaves none out
    """

    def __init__(self, folder=None):
        self.settings, self.recipe, self.origins = {}, "default", {}
        for path in sorted(Path(folder or study.RESULTS).glob("*.json.gz")):
            run = Run(study.read_kept(path))
            seeds = self.settings.setdefault(setting(run.config), {})
            seeds.setdefault(run.config.seed, []).append(run)
        for run_lists in self.settings.values():
            for runs in run_lists.values():
                runs.sort(key=lambda run: study.recent(run.made), reverse=True)

    def every(self):
        """Every Run that is kept, whatever made it."""
        return [run for seeds in self.settings.values() for runs in seeds.values() for run in runs]

    def chosen(self, configs, recipes=tuple(RECIPES)):
        """The same Store by the first recipe of which it has every run of `configs`, or else the
        most; for each model, by the one origin that most of these runs have."""
        views = [self.by(configs, recipe) for recipe in recipes]
        gone = [sum(len(view.missing(config)) for config in configs) for view in views]
        return views[gone.index(min(gone))]

    def by(self, configs, recipe):
        """The same Store by a recipe, with the origins that most runs of `configs` have."""
        view = copy.copy(self)
        view.recipe, view.origins = recipe, {}
        counts = {}
        for config in configs:
            for seed, runs in view.settings.get(view.place(config), {}).items():
                for run in runs:
                    weight = 1000 if seed in study.SEEDS else 1
                    counts.setdefault(config.model, Counter())[
                        run.origin, study.recent(run.made)] += weight
        view.origins = {model: max(sorted(found), key=lambda by, found=found: (found[by], by[1]))[0]
                        for model, found in counts.items()}
        return view

    def others(self, configs):
        """Views by the other recipes of which every run of `configs` is there."""
        views = [self.by(configs, recipe) for recipe in RECIPES if recipe != self.recipe]
        return [view for view in views
                if not any(view.missing(config) for config in configs)
                and any(view.place(config) != self.place(config) for config in configs)]

    def place(self, config):
        """The setting that a Config stands for, by this Store's recipe."""
        if config == study.with_recipe(config, "default"):
            config = study.with_recipe(config, self.recipe)
        return setting(config)

    def found(self, config):
        """{seed: Run} of a setting, by the wanted origin."""
        wanted = self.origins.get(config.model)
        found = {seed: [run for run in runs if wanted in (None, run.origin)]
                 for seed, runs in self.settings.get(self.place(config), {}).items()}
        return {seed: runs[0] for seed, runs in found.items() if runs}

    def runs(self, config):
        """{seed: Run} of a setting, with the document's seeds: figures and tables are of these."""
        found = self.found(config)
        return {seed: found[seed] for seed in study.SEEDS if seed in found}

    def all_runs(self, config):
        """The same with every seed that is kept, the document's first."""
        found = self.found(config)
        return self.runs(config) | {seed: found[seed] for seed in sorted(found)}

    def missing(self, config):
        """The study's seeds that a setting has no run of."""
        return [seed for seed in study.SEEDS if seed not in self.runs(config)]

    def words(self, configs):
        """A paragraph: by which recipe the runs of a section are, and what computed them."""
        said = []
        for model in dict.fromkeys(config.model for config in configs):
            mine = [config for config in configs if config.model == model]
            kept = [run for c in mine for run in self.runs(c).values()]
            if not kept:
                continue
            left = sum(seed in study.SEEDS and seed not in self.runs(c)
                       for c in mine for seed in self.settings.get(self.place(c), {}))
            note = label_of(kept[0]).get("words", "")
            said.append(f"{NAMES[model]}, {recipe_words(self.place(mine[0]))}: {len(kept)} runs by "
                        f"{kept[0].origin}" + (f" ({note})" if note else "")
                        + (f"; {left} by other code are left out" if left else ""))
        if not said:
            return ""
        apart = len({self.origins.get(c.model) for c in configs if c.model in self.origins}) > 1
        return ("*Runs.* " + "; ".join(said) + "."
                + (" The two models' runs are by different code." if apart else ""))

    def spread(self, config, of):
        """Spread of `of(run)` over a setting's runs."""
        return Spread.of(of(run) for run in self.runs(config).values())

    def curve(self, config, metric):
        """{x, seeds}: the steps that every run of a setting has evaluated, and its seeds'
        values."""
        runs = [dict(run.points(metric)) for run in self.runs(config).values()]
        steps = [step for step in (runs[0] if runs else ()) if all(step in run for run in runs)]
        return {"x": steps, "seeds": [[run[step] for step in steps] for run in runs]}


def recipe_words(config):
    """What a run adds to what the document's text says."""
    clip = "no clipping" if config.clip is None else f"clipped at norm {config.clip:g}"
    start = {"torch": "PyTorch's start", "xavier": "Glorot's gates"}.get(config.init, config.init)
    return f"{clip}, {start}"


def variant(model, **settings):
    """The study's Config of the default recipe with some settings changed."""
    return dataclasses.replace(study.BASE, model=model, **study.READ[model], **settings)


def parameters(config):
    """P: the number of parameters without embeddings, of the study's models."""
    L, d, V = config.layers, config.width, config.p + 5
    layer = 8 * d * d + 4 * d if config.model == "lstm" else 12 * d * d + 8 * d
    return L * layer + V * d + V


def missing_words(store, configs, name):
    """"not run: ..." for the runs that are missing of some settings, or nothing.

    name(config) is what a setting is called.
    """
    gaps = {}
    for config in configs:
        gaps.setdefault(tuple(store.missing(config)), []).append(name(config))
    words = []
    for seeds, names in gaps.items():
        if seeds:
            word = "seeds" if len(seeds) > 1 else "seed"
            words.append(f"{', '.join(names)} ({word} {', '.join(map(str, seeds))})")
    return f"Not run: {'; '.join(words)}." if words else ""

"""The runs that are kept, grouped by setting: a Config, whatever its seed and its backend."""

import dataclasses
import functools
import math
from pathlib import Path

import study

from npdl.training.config import Config

NAMES = {"lstm": "LSTM", "gpt": "GPT"}
GRID = 100                  # evaluations after step 100 are so many steps apart


class Run:
    """A kept run: `config`, `made` (study.made, or nothing), and `columns`, one for each number."""

    def __init__(self, stored):
        self.config = Config.from_json(stored["config"])
        self.made = stored.get("made", {})
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
    """All kept runs of a folder. Raises InputError for a file that cannot be read."""

    def __init__(self, folder=None):
        self.settings = {}
        for path in sorted(Path(folder or study.RESULTS).glob("*.json.gz")):
            run = Run(study.read_kept(path))
            self.settings.setdefault(setting(run.config), {})[run.config.seed] = run

    def runs(self, config):
        """{seed: Run} of a setting, with the document's seeds: figures and tables are of these."""
        found = self.settings.get(setting(config), {})
        return {seed: found[seed] for seed in study.SEEDS if seed in found}

    def all_runs(self, config):
        """The same with every seed that is kept, the document's first."""
        found = self.settings.get(setting(config), {})
        return self.runs(config) | {seed: found[seed] for seed in sorted(found)}

    def missing(self, config):
        """The study's seeds that a setting has no run of."""
        return [seed for seed in study.SEEDS if seed not in self.runs(config)]

    def spread(self, config, of):
        """Spread of `of(run)` over a setting's runs."""
        return Spread.of(of(run) for run in self.runs(config).values())

    def curve(self, config, metric):
        """{step, mean, std}: columns over the evaluations that every run of a setting has."""
        runs = [dict(run.points(metric)) for run in self.runs(config).values()]
        steps = [step for step in (runs[0] if runs else ()) if all(step in run for run in runs)]
        spreads = [Spread.of(run[step] for run in runs) for step in steps]
        return {"step": steps, "mean": [s.mean for s in spreads], "std": [s.std for s in spreads]}


def variant(model, **settings):
    """The study's Config of the default recipe, as study.READ reads it, with some settings
    changed."""
    return dataclasses.replace(study.BASE, model=model, **study.READ[model], **settings)


def as_stated(model):
    """The default recipe with nothing added to what the document's text says."""
    return dataclasses.replace(study.BASE, model=model)


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

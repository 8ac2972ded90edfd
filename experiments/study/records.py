"""The study's runs as they are kept: settings, files, and the records grouped by setting."""

import dataclasses
import functools
import gzip
import json
import math
import os
from pathlib import Path

from experiments.keeping import UNREADABLE, read_record, short, write_record
from npdl.errors import InputError
from npdl.files import read_json, reason
from npdl_train.runs.config import Config
from npdl_train.runs.metrics import METRICS
from npdl_train.runs.recipes import RECIPES
from npdl_train.runs.summary import read_summary
from npdl_train.runs.sweep import folder_of, load_records
from npdl_train.runs.versions import engine_digest

RESULTS = Path(__file__).parents[1] / "results" / "study"
LABELS = RESULTS.with_name("labels.json")
SEEDS = (0, 42)                     # the document's
FURTHER = (1, 2, 3)                 # for what those two leave open in the default recipe
NAMES = {"lstm": "LSTM", "gpt": "GPT"}
BASE = Config(threads=1, save_every=2000)
GRID = 100                          # evaluations after step 100 are so many steps apart
UNKNOWN = "code that was not recorded"


# --- settings -------------------------------------------------------------------------------------
def variant(model, **settings):
    """The Config of the default recipe with some settings changed."""
    return dataclasses.replace(BASE, model=model, **RECIPES["default"][model], **settings)


def with_recipe(config, recipe):
    """The same run by another of the RECIPES."""
    return dataclasses.replace(config, **{"init": "torch", **RECIPES[recipe][config.model]})


@functools.cache
def setting(config):
    """A run's Config without its seed and the place where it was computed."""
    return dataclasses.replace(config, seed=0, backend="numpy")


def parameters(config):
    """P: the number of parameters without embeddings, of the study's models."""
    L, d, V = config.layers, config.width, config.p + 5
    layer = 8 * d * d + 4 * d if config.model == "lstm" else 12 * d * d + 8 * d
    return L * layer + V * d + V


# --- files ----------------------------------------------------------------------------------------
def path_of(config, engine=None):
    """The file that a run's records are kept in: the first ones, or those by another engine."""
    name = folder_of("", config).name
    return RESULTS / (f"{name}-{engine}.json.gz" if engine else f"{name}.json.gz")


def keep(root, config):
    """Store a finished run's records, compactly; the same run folder gives the same bytes.

    The file is JSON, compressed: `config`, the settings; `made`, steps, seconds and the versions
    that computed it; `records`, a column for each number of an evaluation, to five digits. What
    another engine made of the same settings stays, in a file of its own.
    """
    records = load_records(root, config)
    if records is None:
        return
    how = made(folder_of(root, config))
    known = {path: stored.get("made", {}) for path, stored in kept_by(config).items()}
    if any(by and by.get("engine") == how.get("engine") for by in known.values()):
        return
    columns = {key: [short(record.get(key)) for record in records] for key in records[0]}
    value = {"config": config.to_json(), "made": how, "records": columns}
    other = how.get("engine") if known.get(path_of(config)) else None   # the oldest have no `made`
    write_record(path_of(config, other), value)


def is_done(config, anew=False):
    """Whether a run is kept; with `anew`, by the engine of today."""
    known = kept(config)
    return known is not None and (
        not anew or known.get("made", {}).get("engine") == engine_digest())


def made(folder):
    """What a finished run took, and what computed it."""
    summary = read_summary(folder / "summary.json")
    try:
        versions = dict(read_json(folder / "config.json")["versions"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder / 'config.json'}: does not say what computed the run "
                         f"({reason(error)}); restore it from a copy") from error
    return {"steps": summary["steps"], "seconds": round(summary["seconds"]), **versions}


def kept_by(config):
    """{path: what `keep` stored} of a run, by each engine that has made it."""
    first = path_of(config)
    stem = first.name.removesuffix(".json.gz")
    paths = [first] * os.path.lexists(first) + sorted(RESULTS.glob(f"{stem}-*.json.gz"))
    return {path: read_kept(path) for path in paths}


def kept(config):
    """What `keep` stored of a run, the newest engine's, or None."""
    return max(kept_by(config).values(), key=lambda stored: recent(stored.get("made", {})),
               default=None)


def recent(made):
    """How much a record is to be preferred to another of the same run: today's engine's, then the
    newest by the order of the labels; one without a label is newer than they."""
    engine, known = made.get("engine"), [label["engine"] for label in labels()]
    return engine == engine_digest(), known.index(engine) if engine in known else len(known)


@functools.cache
def labels():
    """What is said of the records by an engine (None: not recorded) and of a model: dicts, the
    oldest engine's first."""
    return json.loads(LABELS.read_text(encoding="utf-8")) if LABELS.exists() else []


def read_kept(path):
    """What `keep` wrote into a file; InputError for anything else."""
    try:
        stored = read_record(path)
        Config.from_json(stored["config"])
        columns = stored["records"]
        steps = columns["step"]
        for name in (*METRICS, *columns):
            kinds = {int} if name == "step" else {int, float, type(None)}
            if len(columns[name]) != len(steps) or not set(map(type, columns[name])) <= kinds:
                raise ValueError(f"its {name} is not a number for each step")
        if type(stored.get("made", {}).get("seconds", 0)) is not int:
            raise ValueError("its seconds are not a number")
        return stored
    except UNREADABLE as error:
        raise InputError(f"{path.name}: is not a kept run ({reason(error)}); remove it and run "
                         "python -m experiments.study") from error


def stored_in(path):
    """What a file of kept records has, without a check."""
    return json.loads(gzip.decompress(path.read_bytes()))


# --- runs -----------------------------------------------------------------------------------------
class KeptRun:
    """A kept run: `config`, `made` (how it was computed, or nothing), and `columns`, one for each
    number of an evaluation."""

    def __init__(self, stored):
        self.config = Config.from_json(stored["config"])
        self.made = stored.get("made", {})
        self.columns = stored["records"]

    @property
    def older(self):
        """Whether the code that made it was not recorded."""
        return "engine" not in self.made

    @property
    def computed_by(self):
        """What computed it, as far as its record says."""
        return computed_by(self.made)

    @functools.cache                    # noqa: B019  (a report reads each run once)
    def points(self, metric):
        """[(step, value)] of the evaluations that have one."""
        return [(step, value) for step, value in zip(self.columns["step"],
                                                     self.columns[metric], strict=True)
                if value is not None]

    @functools.cache                    # noqa: B019
    def _best(self, metric, until):
        sign = 1 if "loss" in metric else -1
        value, step = min((sign * v, t) for t, v in self.points(metric)
                          if until is None or t <= until)
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


def computed_by(made):
    """What computed a record, as far as it says."""
    if "engine" not in made:
        return UNKNOWN
    if "card" in made:
        return f"engine {made['engine']}, {made['card']}, CuPy {made['cupy']}"
    return (f"engine {made['engine']}, {made.get('processor', '?')}, {made['blas']} with the "
            f"kernels of {made.get('kernels', '?')}")


class Store:
    """All kept runs of a folder: of each setting and seed the newest engine's.

    Raises InputError for a file that cannot be read.
    """

    def __init__(self, folder=None):
        found = {}
        for path in sorted(Path(folder or RESULTS).glob("*.json.gz")):
            run = KeptRun(read_kept(path))
            seeds = found.setdefault(setting(run.config), {})
            seeds.setdefault(run.config.seed, []).append(run)
        self.settings = {key: {seed: max(runs, key=lambda run: recent(run.made))
                               for seed, runs in seeds.items()} for key, seeds in found.items()}

    def every(self):
        """Every Run, one for each setting and seed."""
        return [run for seeds in self.settings.values() for run in seeds.values()]

    @functools.cache                    # noqa: B019
    def runs(self, config, recipe="default"):
        """{seed: Run} of a setting by a recipe, the document's seeds first; {} where none is."""
        found = self.settings.get(setting(with_recipe(config, recipe)), {})
        return {seed: found[seed] for seed in dict.fromkeys([*SEEDS, *sorted(found)])
                if seed in found}

    def by_seed(self, configs, recipes):
        """{seed: {key: Run}} for {key: Config}, of the seeds that every setting has.

        recipes   {model: recipe}
        """
        found = {key: self.runs(config, recipes[config.model]) for key, config in configs.items()}
        common = [seed for seed in next(iter(found.values()))
                  if all(seed in runs for runs in found.values())]
        return {seed: {key: runs[seed] for key, runs in found.items()} for seed in common}

"""The stored runs: one table of runs and one file of curves for each question.

experiments/results/study/QUESTION.csv has a row for each run: its settings, how it was computed,
and its best values. QUESTION.npz has the evaluations of the same runs in the same order:
`step` (E,), and for each metric an array (runs, E), float32, rounded to five digits.
"""

import csv
import functools
import itertools
from pathlib import Path

import numpy as np

from npdl.errors import InputError

RESULTS = Path(__file__).parents[1] / "results" / "study"
SEEDS = (0, 42, 1, 2, 3)            # the assignment requires 0 and 42
NAMES = {"lstm": "LSTM", "gpt": "GPT"}
L_TRAIN, L_VAL = "train_loss", "validation_loss"
A_TRAIN, A_VAL = "train_accuracy", "validation_accuracy"
NORM = "l2_norm"
METRICS = (L_TRAIN, L_VAL, A_TRAIN, A_VAL)
LABELS = {L_TRAIN: "L_train", L_VAL: "L_val", A_TRAIN: "A_train", A_VAL: "A_val", NORM: "‖θ‖₂"}
# The settings that the questions vary, with the assignment's defaults; `orders`: 2 or "2 3".
DEFAULTS = {"steps": 10001, "p": 31, "orders": "2", "r_train": 0.5, "layers": 2, "width": 128,
            "batch": 512, "weight_decay": 1.0}
GRID = 100          # from step 100 on, runs are evaluated every GRID steps
MEMORISED = 0.99    # A_train of a model that has memorised its training set (question 3 (d))
GENERAL = 0.9       # A_val of a model that generalises (question 3 (d))
OVERFITS = 0.5      # a model only overfits up to this A_val (question 3 (d))
ALL_RIGHT = 0.9995  # an accuracy of 100 % (rounds to 1.000)


def count_parameters(model, layers, width, p=31):
    """Return P, the number of parameters without embeddings."""
    vocabulary = p + 5
    layer = 8 * width**2 + 4 * width if model == "lstm" else 12 * width**2 + 8 * width
    return layers * layer + vocabulary * (width + 1)


class Curves:
    """The evaluations of some runs.

    step    (E,) the steps of the evaluations
    seeds   the n seeds
    values  {metric: (..., n, E)}, with one leading axis for each setting that varies
    """

    def __init__(self, step, seeds, values):
        self.step, self.seeds, self.values = step, seeds, values
        self.on_grid = step % GRID == 0

    def __getitem__(self, index):
        """Select along the leading axes (the settings)."""
        return Curves(self.step, self.seeds, {m: v[index] for m, v in self.values.items()})

    def _values_to_minimise(self, metric, last_step):
        """Return a metric up to a step. Accuracies are negated, and missing values are inf."""
        values = self.values[metric]
        values = values if last_step is None else values[..., self.step <= last_step]
        return np.nan_to_num(values if "loss" in metric else -values, nan=np.inf, posinf=np.inf)

    def best(self, metric, until=None):
        """Return the lowest loss or highest accuracy of each run (..., n), up to step `until`."""
        best = self._values_to_minimise(metric, until).min(-1).astype(float)
        return best if "loss" in metric else -best

    def best_step(self, metric, until=None):
        """Return t_f: the first step at which each run has its best value (..., n)."""
        return self.step[self._values_to_minimise(metric, until).argmin(-1)].astype(float)

    def first_step_at(self, metric, threshold):
        """Return the first step with at least this accuracy (..., n); inf if there is none."""
        there = self.values[metric] >= np.float32(threshold)
        return np.where(there.any(-1), self.step[there.argmax(-1)], np.inf)

    def generalisation_step(self):
        """Return the first step (..., n) at which each run generalises; inf if it never does."""
        return self.first_step_at(A_VAL, GENERAL)

    def log10_generalisation_step(self):
        """Return log10 of generalisation_step, or of the last step if a run never generalises."""
        return np.log10(np.minimum(self.generalisation_step(), self.step[-1]))

    def memorisation_step(self):
        """Return the first step (..., n) at which each run has memorised its training set."""
        return self.first_step_at(A_TRAIN, MEMORISED)

    def fall_below_best(self, metric=A_VAL):
        """Return the mean distance (..., n) of an accuracy below its highest value so far.

        It measures how unsteady the accuracy is, with one evaluation every GRID steps.
        """
        values = self.values[metric].astype(float)
        return (np.maximum.accumulate(values, -1) - values)[..., self.on_grid].mean(-1)

    def rise_above_best(self, metric=L_TRAIN):
        """Return the mean height of a loss above its lowest value so far, in factors of ten."""
        values = np.log10(self.values[metric].astype(float))
        return (values - np.minimum.accumulate(values, -1))[..., self.on_grid].mean(-1)


class Study:
    """All stored runs of a folder. Raises InputError if a table doesn't fit its curves."""

    def __init__(self, folder=RESULTS):
        self.rows, self.evaluations = [], {}
        for path in sorted(Path(folder).glob("*.csv")):
            self._load_table(path)

    def _load_table(self, path):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        with np.load(path.with_suffix(".npz")) as arrays:
            curves = dict(arrays)
        step = curves.pop("step")
        for metric, values in curves.items():
            if values.shape != (len(rows), len(step)):
                raise InputError(f"{path.name} has {len(rows)} runs, but {metric} has the shape "
                                 f"{values.shape}; restore both files from version control")
        for i, row in enumerate(rows):
            key = make_run_key(row["model"], row["recipe"], row)
            seeds = self.evaluations.setdefault(key, {})
            seeds[int(row["seed"])] = step, {m: values[i] for m, values in curves.items()}
            self.rows.append({"question": path.stem, **row})

    @functools.cache  # noqa: B019 (one Study lives as long as the program)
    def curves(self, model, recipe="default", **settings):
        """Return the Curves of a model. A setting given as a tuple becomes a leading axis.

        The seeds are those that are stored for every setting, the assignment's first.
        """
        axes = {name: values for name, values in settings.items() if isinstance(values, tuple)}
        places = [{**settings, **dict(zip(axes, point, strict=True))}
                  for point in itertools.product(*axes.values())]
        kept = [self.evaluations.get(make_run_key(model, recipe, place), {}) for place in places]
        seeds = [seed for seed in dict.fromkeys([*SEEDS, *sorted(kept[0])])
                 if all(seed in runs for runs in kept)]
        if not seeds:
            raise InputError(f"no seed has all runs of {NAMES[model]}, {recipe}, {settings}; make "
                             "them with python -m experiments.study")
        step = kept[0][seeds[0]][0]
        shape = (*map(len, axes.values()), len(seeds), len(step))
        values = {metric: np.stack([runs[seed][1][metric] for runs in kept for seed in seeds])
                  .reshape(shape) for metric in kept[0][seeds[0]][1]}
        return Curves(step, seeds, values)

    def curves_of_both(self, lstm_recipe, **settings):
        """Return (Curves of the LSTM by `lstm_recipe`, Curves of the GPT) for common seeds."""
        both = self.curves("lstm", lstm_recipe, **settings), self.curves("gpt", **settings)
        seeds = [seed for seed in both[0].seeds if seed in both[1].seeds]
        return [Curves(one.step, seeds, {
            metric: values[..., [one.seeds.index(seed) for seed in seeds], :]
            for metric, values in one.values.items()}) for one in both]


def make_run_key(model, recipe, settings):
    """Return the identity of a run without its seed. Missing settings get their defaults."""
    return (model, recipe, *(type(default)(settings.get(name, default))
                             for name, default in DEFAULTS.items()))

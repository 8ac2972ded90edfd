"""The runs of each reading of the recipe, and whether they come near the document's numbers."""

import dataclasses

import numpy as np

from experiments import study
from experiments.reporting import readings, sanity
from experiments.reporting.records import origin
from npdl.training.summary import summarise

LOSSES = ("train_loss", "validation_loss")
SHORT = {key: sanity.ROWS[key] for key in (*LOSSES, "t_f_train_accuracy")}   # what is looked at
DOCUMENT = {model: {key: rows[key] for key in SHORT} for model, rows in sanity.DOCUMENT.items()}
NEAR = {"train_loss": 3, "validation_loss": 3, "t_f_train_accuracy": 1.25}     # factors, see fits
JUMP, BEFORE = 3.0, 10              # a spike: so many times the median of so many evaluations


@dataclasses.dataclass(frozen=True)
class Reading:
    """One reading for one model: summaries of the runs there are, and their training losses.

    The runs are of one origin: those that most of them have.
    """

    name: str
    model: str
    steps: int
    runs: list          # of dicts: npdl.training.summary, with seed, spikes, level, norm
    curves: list        # of (steps, training losses)
    origin: str = ""

    def values(self, key):
        return [run[key] for run in self.runs]

    def each(self, key, form=""):
        """The value of every run, as text."""
        return " / ".join(f"{value:{form}}" for value in self.values(key))

    def mean(self, key):
        """Over the seeds: of a loss the geometric mean."""
        values = np.array(self.values(key), float)
        return float(np.exp(np.log(values).mean()) if key in LOSSES else values.mean())

    def near(self, key, value=None, times=1):
        """True when the mean, or `value`, is within the `bound` of the range that the
        document's two seeds span, mean - std to mean + std; a step may be one evaluation
        off."""
        mean, std = DOCUMENT[self.model][key]
        value, factor = self.mean(key) if value is None else value, bound(key, times)
        slack = 0 if key in LOSSES else sanity.slack(self.model, key)
        return (mean - std) / factor - slack <= value <= (mean + std) * factor + slack

    def fits(self, times=1):
        """Lowest losses and step of memorising are all near the document's."""
        return bool(self.runs) and all(self.near(key, times=times) for key in DOCUMENT[self.model])


def bound(key, times):
    """The factor NEAR with what it has above 1 multiplied."""
    return 1 + (NEAR[key] - 1) * times


def gathered(name, model):
    """The Reading of that name."""
    configs = readings.runs_of(name, model)
    runs, curves = [], []
    kept = [(config, found) for config in configs if (found := study.kept(config)) is not None]
    origins = [origin(found.get("made", {})) for _, found in kept]
    most = max(sorted(set(origins)), key=origins.count, default="")
    for config, found in kept:
        if origin(found.get("made", {})) != most:
            continue
        columns = found["records"]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        spikes, level = spikes_of(columns["step"], columns["train_loss"])
        runs.append({**summarise(rows), "seed": config.seed, "spikes": spikes, "level": level,
                     "norm": columns["l2_norm"][-1]})
        curves.append((columns["step"], columns["train_loss"]))
    return Reading(name, model, configs[0].steps, runs, curves, most)


def spikes_of(steps, losses):
    """(spikes after memorising, median training loss of the last ten evaluations).

    Memorised is from the first loss below 0.1 on; a spike is a loss above JUMP times the median
    of the BEFORE evaluations before it, counted once until the loss is back.
    """
    start = next((i for i, loss in enumerate(losses) if loss < 0.1), len(losses))
    count, up = 0, False
    for i in range(start + BEFORE, len(losses)):
        above = losses[i] > JUMP * float(np.median(losses[i - BEFORE : i])) and steps[i] > 100
        count += above and not up
        up = above
    return count, float(np.median(losses[-BEFORE:]))

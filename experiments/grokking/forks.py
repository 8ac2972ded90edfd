"""How much of the step of generalising is rounding alone? Forks of one run by one last digit.

  python experiments/grokking/forks.py --list      the trials and their minutes
  python experiments/grokking/forks.py             make what is not made yet
  python experiments/report.py                     the answer, from what there is

An LSTM of the study's question 5 (one layer, d = 64, the release recipe, float32, one thread). The
trunk is its run with seed 0. A fork is the same run after one number of the recurrent matrix, a
place drawn by the fork's number, is one unit in the last place larger at step 0. A seed is the
trunk's recipe with another seed: other split, other start.

Predicted before any of these was run (26 November 2026): (1) every fork leaves the trunk; (2) all
forks generalise; (3) the deviation of log10 of the step at which A_val reaches 0.9 is for forks
between a third and the whole of that for seeds: a seed is not what decides the step to better than
that, and half of what is called the luck of a seed is the luck of rounding; (4) which number was
moved does not matter: the forks' steps are not told from one bell curve.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys

import numpy as np

from experiments.study.figures import Figure
from experiments.study.judge import spread
from experiments.study.measures import A_VAL, GENERAL, L_TRAIN, span
from experiments.study.records import variant, with_recipe
from experiments.trials import Trial, columns_of, evaluations, first_step, main, records, settings
from npdl_study.plots import style
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/forks"
MOVED = "lstm.layers.0.cell.W_h"
FORKS, SEEDS = range(20), range(1, 11)
ENOUGH = 0.95               # A_val that ends a trial
CONFIG = with_recipe(variant("lstm", layers=1, width=64), "release")


def nudge(model, fork):
    """Make one number of a model larger by one unit in the last place."""
    W = dict(model.params())[MOVED].data
    place = np.unravel_index(np.random.default_rng(fork).integers(W.size), W.shape)
    W[place] = np.nextafter(W[place], W.dtype.type(np.inf))


def train(fork=None, **changed):
    """The columns of a training: step, losses, accuracies, norm."""
    trainer, rows = Trainer(dataclasses.replace(CONFIG, **changed)), []
    if fork is not None:
        nudge(trainer.model, fork)
    for row in evaluations(trainer):
        rows.append(row)
        if row[A_VAL] >= ENOUGH:
            break
    return columns_of(rows)


def trial(name, **facts):
    return Trial(name, {**settings(CONFIG), "seed": 0, "moved": MOVED, **facts}, 0.5,
                 lambda: train(**facts))


TRIALS = [trial("trunk"), *(trial(f"fork{number}", fork=number) for number in FORKS[:10]),
          *(trial(f"seed{seed}", seed=seed) for seed in SEEDS[:5]),
          *(trial(f"fork{number}", fork=number) for number in FORKS[10:]),
          *(trial(f"seed{seed}", seed=seed) for seed in SEEDS[5:])]


# --- what the page has ----------------------------------------------------------------------------
def kept():
    """{"roundings": {name: columns}, "seeds": ..} of what is kept; the trunk is of both."""
    found = {name: record["columns"] for name, record in records(FOLDER, TRIALS).items()}
    return {"roundings": {n: c for n, c in found.items() if not n.startswith("seed")},
            "seeds": {n: c for n, c in found.items() if not n.startswith("fork")}}


def steps():
    """{"roundings": [step of A_val = GENERAL, infinite if never], "seeds": ..}, the trunk first."""
    return {kind: [first_step(c, A_VAL, lambda a: a >= GENERAL) for c in found.values()]
            for kind, found in kept().items()}


def deviations():
    """{"roundings": deviation of log10 of the step, never counted as the last, "seeds": ..}."""
    return {kind: spread([math.log10(min(step, CONFIG.steps)) for step in found])
            for kind, found in steps().items()}


def left_trunk():
    """The first evaluation at which each fork's training loss differs in five digits."""
    trunk, *forks = kept()["roundings"].values()
    return [next((step for step, ours, its in zip(c["step"], c[L_TRAIN], trunk[L_TRAIN],
                                                  strict=False) if ours != its), math.inf)
            for c in forks]


def values():
    trunk, *forks = steps()["roundings"]
    made = {"forks": str(len(forks)), "forks left": span(left_trunk(), "{:.0f}"),
            "forks trunk": f"{trunk:,}", "forks steps": span(forks, "{:,.0f}"),
            "forks seeds": str(len(steps()["seeds"])),
            "forks seeds steps": span(steps()["seeds"], "{:,.0f}"),
            "forks late": str(sum(step >= trunk for step in forks))}
    both = deviations()
    return made | {"forks by rounding": f"{both['roundings']:.3f}",
                   "forks by seed": f"{both['seeds']:.3f}",
                   "forks ratio": f"{both['roundings'] / both['seeds']:.2f}",
                   "forks share": f"{100 * (both['roundings'] / both['seeds']) ** 2:.0f}"}


def facts():
    trunk, *forks = steps()["roundings"]
    return {"every fork leaves the trunk and generalises": max(forks + left_trunk()) < math.inf,
            "rounding moves the step by a third to half of what seeds do":
                1 / 3 <= deviations()["roundings"] / deviations()["seeds"] < 1 / 2,
            "few forks are as late as the trunk": sum(step >= trunk for step in forks)
                <= len(forks) / 4}


def figures():
    return [Figure("forks", "L6", "", {kind: [{"step": c["step"], "accuracy": c[A_VAL]}
                                              for c in found.values()]
                                       for kind, found in kept().items()}, draw, (10, 3.8))]


def draw(figure, data):
    """A panel for the roundings of seed 0 and one for seeds: A_val over the steps."""
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, colour, (kind, curves) in zip(panels, style.LINES, data.items(), strict=False):
        for curve in curves:
            axes.plot(curve["step"], curve["accuracy"], color=colour, linewidth=0.9, alpha=0.8)
        axes.set_xlim(2000, CONFIG.steps)
        style.dress(axes, "training step", "A_val", kind)


if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))

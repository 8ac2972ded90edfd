"""Where the loss of a memorised training set jumped up again."""

import dataclasses

from experiments.reporting.measures import MEMORISED
from experiments.reporting.parts import Table

FACTOR = 100                # a training loss that rises by this factor between two evaluations
UNIT = 2.0**-23             # float32's spacing just above 1
ROUNDED = 4 * UNIT          # a loss of which each token's part is mostly rounding


@dataclasses.dataclass(frozen=True)
class Jump:
    """Columns of a run at the evaluation before a jump of the training loss, and at the next."""

    before: dict
    after: dict


def jump_places(columns):
    """The places in a run's columns after which the training loss of a memorised set jumps."""
    losses = columns["train_loss"]
    known = next((i for i, accuracy in enumerate(columns["train_accuracy"])
                  if accuracy >= MEMORISED), len(losses))
    return [i for i, (before, after) in enumerate(zip(losses, losses[1:], strict=False))
            if i >= known and None not in (before, after) and after > FACTOR * before > 0]


def jumps(run):
    """The Jumps of a Run after it has memorised its training set, in their order."""
    names = ("step", "train_loss", "validation_accuracy", "l2_norm")

    def row(i):
        return {name: run.columns[name][i] for name in names}

    return [Jump(row(i), row(i + 1)) for i in jump_places(run.columns)]


def parts(runs):
    """The table and what follows from it, for [(name, seed, Run)]; nothing without a jump."""
    found = [(name, seed, c) for name, seed, run in runs for c in jumps(run)]
    if not found:
        return []
    rows = [[name, str(seed), when(c),
             arrow(c, "train_loss", ".2g"), arrow(c, "validation_accuracy", ".3f"),
             arrow(c, "l2_norm", ".1f")] for name, seed, c in found]
    table = Table(
        f"Jumps: the training loss of a memorised set rises more than {FACTOR}-fold between two "
        "evaluations.", ("weight decay", "seed", "steps", "L_train", "A_val", "norm"), rows, left=3)
    low = sum(c.before["train_loss"] < ROUNDED for *_, c in found)
    stay = [f"{name} with seed {seed}" for name, seed, run in runs
            if run.best("train_loss") < ROUNDED
            and not any(c.before["train_loss"] < ROUNDED for c in jumps(run))]
    if stay:
        others = f" As low, without a jump from there: weight decay {', '.join(stay)}."
    else:
        others = " Every run that came so low jumped." if low else ""
    return [table, (
        "How low a training loss can be. The runs compute in float32. Close to p = 1 its -log p "
        f"is 0 or a multiple of 2^-23 = {UNIT:.1e}, and p - 1, the gradient at the right token, "
        "comes in the same steps: at a loss of about that size each token's part is mostly "
        f"rounding. {low} of the {len(found)} jumps begin below four such steps, "
        f"{ROUNDED:.1e}.{others} Whether the jumps come from AdamW's eps, the "
        "[laboratory](grokking/REPORT.md) asks, in float64."
    )]


def when(jump):
    return f"{jump.before['step']} to {jump.after['step']}"


def arrow(jump, name, form):
    return f"{jump.before[name]:{form}} → {jump.after[name]:{form}}"

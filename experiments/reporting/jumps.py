"""Where the loss of a memorised training set jumped up again, and float32's share in that."""

import dataclasses

from reporting.measures import MEMORISED
from reporting.parts import Table

FACTOR = 100                # a training loss that rises by this factor between two evaluations
UNIT = 2.0**-23             # float32's spacing just above 1
ROUNDED = 4 * UNIT          # a loss that is mostly rounding


@dataclasses.dataclass(frozen=True)
class Jump:
    """Columns of a run at the evaluation before a jump of the training loss, and at the next."""

    before: dict
    after: dict


def jumps(run):
    """The Jumps of a Run after it has memorised its training set, in their order."""
    names = ("step", "train_loss", "validation_accuracy", "l2_norm")
    rows = [dict(zip(names, values, strict=True))
            for values in zip(*(run.columns[name] for name in names), strict=True)]
    memorised = run.reach("train_accuracy", MEMORISED)
    return [Jump(before, after) for before, after in zip(rows, rows[1:], strict=False)
            if before["step"] >= memorised and after["train_loss"] > FACTOR * before["train_loss"]]


def parts(runs):
    """The table and what follows from it, for [(name, seed, Run)]; nothing without a jump."""
    found = [(name, seed, c) for name, seed, run in runs for c in jumps(run)]
    if not found:
        return []
    rows = [[name, str(seed), f"{c.before['step']} to {c.after['step']}",
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
        f"comes in the same steps: a loss of about that size is mostly rounding. {low} of the "
        f"{len(found)} jumps begin below four such steps, {ROUNDED:.1e}.{others}"
    )]


def precisions(runs, exact, until):
    """The same runs in float32, {seed: Run}, and in float64: a table and what follows from it."""
    rows, jumped = [], {"float32": [], "float64": []}
    for seed in sorted(exact.keys() & runs.keys()):
        for dtype, run in (("float32", runs[seed]), ("float64", exact[seed])):
            steps = [c.after["step"] for c in jumps(run) if c.after["step"] <= until]
            jumped[dtype].append(bool(steps))
            rows.append([str(seed), dtype, f"{run.best('train_loss', until):.2g}",
                         f"{run.best('validation_accuracy', until):.3f}",
                         ", ".join(map(str, steps)) or "none"])
    if not rows:
        return []
    if all(jumped["float32"]) and not any(jumped["float64"]):
        words = "What is rounded in float32 makes these jumps: in float64 none comes up to there."
    elif all(jumped["float64"]):
        words = "Rounding does not make the jumps: in float64 they come as well."
    else:
        words = "These seeds do not decide whether rounding makes the jumps."
    return [Table(
        f"Weight decay 1/4 in both precisions, up to step {until}: the lowest training loss, the "
        "best validation accuracy, and the steps of the jumps.",
        ("seed", "dtype", "L_train", "A_val", "jumps"), rows, left=2), words]


def arrow(jump, name, form):
    return f"{jump.before[name]:{form}} → {jump.after[name]:{form}}"

"""Where the loss of a memorised training set jumped up again, and what that comes from."""

import dataclasses
import math

from reporting.measures import MEMORISED
from reporting.parts import Table

FACTOR = 100                # a training loss that rises by this factor between two evaluations
UNIT = 2.0**-23             # float32's spacing just above 1
ROUNDED = 4 * UNIT          # a loss of which each token's part is mostly rounding
LAST = 4000                 # steps before the lowest loss in which its fall is measured
FALL = (
    " Of a memorised set the gradient has only to make good what the decay takes, m / (sqrt(v) + "
    "eps) = decay times weight. So m stays far below sqrt(v), which does nothing but forget: by a "
    "factor e in 2 / (1 - beta2) = {:.0f} steps, and gradient and loss follow it down. Below eps, "
    "sqrt(v) no longer counts: the same gradient is needed at every step, and the fall slows. What "
    "then sets off a jump, the records do not tell.")


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
        f"{ROUNDED:.1e}.{others}"
    )]


def suspects(plain, wide, small, until):
    """What may make the jumps, changed one at a time: a table and what follows from it.

    Each is {seed: Run}: as the study has them; in float64, without float32's rounding; in
    float64 with a smaller eps, too. Looked at up to a step.
    """
    tried = [runs for runs in (plain, wide, small) if runs]
    seeds = sorted(set.intersection(*(set(runs) for runs in tried))) if wide and plain else []
    if not seeds:
        return []
    rows, jumped = [], [[] for _ in tried]
    for seed in seeds:
        for runs, those in zip(tried, jumped, strict=True):
            run = runs[seed]
            found = [c for c in jumps(run) if c.after["step"] <= until]
            those.append(bool(found))
            rows.append([
                str(seed), run.config.dtype, f"{run.config.eps:g}",
                f"{run.best('train_loss', until):.2g}", str(run.first("train_loss", until)),
                f"{folding(run, until):.0f}",
                f"{run.best('validation_accuracy', until):.3f}",
                "; ".join(f"{when(c)}: {arrow(c, 'train_loss', '.2g')}" for c in found) or "none"])
    words, fall = [blamed("float32's rounding", "in float64", *jumped[:2])], ""
    if small:
        config = small[seeds[0]].config
        words.append(blamed("AdamW's eps", f"with {config.eps:g} in its place", *jumped[1:]))
        fall = FALL.format(2 / (1 - config.betas[1]))
    return [Table(
        f"Weight decay 1/4 with what may make the jumps changed, up to step {until}: the lowest "
        "training loss and its step, the steps in which it fell by a factor e, in the "
        f"{LAST} before that, the best validation accuracy, and the jumps.",
        ("seed", "dtype", "eps", "L_train", "t_f(L_train)", "factor e", "A_val", "jumps"), rows,
        left=3), f"Where the jumps come from: {'; '.join(words)}.{fall}"]


def folding(run, until):
    """In how many steps the training loss fell by a factor e, over LAST steps to its lowest."""
    lowest, last = run.best("train_loss", until), run.first("train_loss", until)
    step, loss = next((t, v) for t, v in run.points("train_loss") if t >= last - LAST)
    return (last - step) / math.log(loss / lowest) if loss > lowest else math.inf


def blamed(suspect, changed, before, after):
    """What follows for a suspect from which seeds jumped before and after it was changed."""
    if all(before) and not any(after):
        return (f"perhaps from {suspect}, for {changed} none comes up to there with these "
                f"{len(after)} seeds (it may come later)")
    if all(after):
        return f"not from {suspect}, for {changed} they come as well"
    return f"whether from {suspect}, these seeds do not decide"


def when(jump):
    return f"{jump.before['step']} to {jump.after['step']}"


def arrow(jump, name, form):
    return f"{jump.before[name]:{form}} → {jump.after[name]:{form}}"

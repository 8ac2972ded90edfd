"""The answer of phases.py on late jumps: do they come from AdamW's eps?"""

import math

from paired import COLOURS, of_arm, paired, plot_seeds
from phases import EPS, LONG, TRIALS
from reporting.jumps import jump_places
from reporting.measures import span
from reporting.parts import Figure, Section, Table

from npdl.study import plots_style as style
from npdl.training.config import Config

BETA2 = Config().betas[1]
LAST = 4000                 # steps before the lowest loss in which its fall is measured
FOLD = 2 / (1 - BETA2)      # steps in which the rule lets the loss fall by a factor e
CLOSE = 1.5                 # a factor within which a number is as expected
RULE = (
    "Expected: once a set is memorised, an update has only to give back what the weight decay "
    "takes, so m / (sqrt(v) + eps) stays at decay times weight, far below 1. Gradients that small "
    "add nothing to v: sqrt(v) only shrinks, by a factor e in 2 / (1 - beta2) = "
    f"{FOLD:.0f} steps, and the gradient and the loss shrink with it. That ends where sqrt(v) "
    "comes down to eps. ")


def jumped(columns):
    """The step before the first hundredfold rise of a memorised training loss, or infinity."""
    return next((columns["step"][i] for i in jump_places(columns)), math.inf)


def folding(columns):
    """In how many steps the training loss fell by a factor e, over LAST steps to its lowest."""
    steps, losses = columns["step"], columns["train_loss"]
    low = min(range(len(steps)), key=losses.__getitem__)
    early = next(i for i, step in enumerate(steps) if step >= steps[low] - LAST)
    fall = math.log(losses[early] / losses[low])
    return (steps[low] - steps[early]) / fall if fall > 0 else math.inf


def jumps_section(records):
    """The Section on AdamW's eps and the jumps."""
    made = Section("4. Late jumps and AdamW's eps")
    found = {eps: of_arm(records, kind="jumps", eps=eps) for eps in EPS}
    if not all(found.values()):
        of = sum(trial.facts["kind"] == "jumps" for trial in TRIALS)
        made.parts.append(f"Tried so far: {sum(map(len, found.values()))} of {of}; without both "
                          "eps nothing follows.")
        return made
    rows = [(f"{eps:g}", str(seed), f"{jumped(c):g}" if math.isfinite(jumped(c)) else "none",
             str(c["step"][-1]), f"{min(c['train_loss']):.2g}", f"{folding(c):.0f}")
            for eps, seeds in found.items() for seed, c in seeds.items()]
    made.parts += [jumps_answer(found), Table(
        "The LSTM with decay 1/4 in float64: the last evaluation before its training loss rises "
        "more than a hundredfold, the last step watched, the lowest training loss, and the "
        f"steps in which it fell by a factor e, in the {LAST} before that.",
        ("eps", "seed", "jump after", "watched to", "lowest L_train", "factor e in"), rows),
        jumps_figure(found)]
    return made


def jumps_answer(found):
    (usual, a), (small, b) = ((eps, {s: jumped(c) for s, c in seeds.items()})
                              for eps, seeds in found.items())
    pairs = paired(a, b)
    _, first, _ = pairs.signs()                         # the smaller eps is later
    many = [sum(map(math.isfinite, steps.values())) for steps in (a, b)]
    expected = FOLD * math.log(usual / small)
    return (f"**Do the jumps come from AdamW's eps?** {RULE}An eps of {small:g} is reached "
            f"{expected:,.0f} steps later than {usual:g}.\n\n"
            f"Found: with eps {usual:g} {many[0]} of {len(a)} "
            f"seeds jump (after step {span(a.values(), '{:g}')}); with {small:g} {many[1]} of "
            f"{len(b)} up to step {LONG} (after {span(b.values(), '{:g}')}); the larger eps jumps "
            f"first in {first} of {len(pairs.before)} pairs{delay(expected, pairs.pairs())}. "
            f"{jumps_verdict(pairs)} {fall(found[small])}")


def jumps_verdict(pairs):
    """What the pairs say of eps, and how sure it is."""
    of = len(pairs.before)
    _, first, p = pairs.signs()
    if first == of > 0:
        what = "when they come" if any(map(math.isfinite, pairs.after)) else (
            "whether they come, up to that step")
        if p <= 0.05:
            return f"So eps decides {what}."
        return (f"It looks as if eps decided {what}; {of} pairs cannot prove it (sign test "
                f"p = {p:.2g}).")
    if all(map(math.isfinite, pairs.before + pairs.after)) and 2 * first <= of:
        return "So eps does not decide it."
    return "So these seeds leave it open."


def delay(expected, steps):
    """The steps between both jumps, expected and found, for [(step, step)] of the seeds."""
    late = [b - a for a, b in steps if math.isfinite(a + b)]
    if not late:
        least = [LONG - a for a, b in steps if math.isfinite(a)]
        return f", and for {span(least, '{:g}')} steps no other follows" if least else ""
    near = sum(expected / CLOSE <= one <= expected * CLOSE for one in late)
    return (f", by {span(late, '{:g}')} steps: in {near} of {len(late)} pairs within a factor "
            f"{CLOSE:g} of what is expected")


def fall(seeds):
    """How fast the loss falls where eps is small, against the rule."""
    folds = [folding(c) for c in seeds.values()]
    near = sum(FOLD / CLOSE <= fold <= FOLD * CLOSE for fold in folds)
    return (f"With the smaller eps the loss falls by a factor e in {span(folds, '{:.0f}')} steps, "
            + ("as expected." if near == len(folds) else
               f"as expected in {near} of {len(folds)} seeds." if near else
               "which is not what is expected: the explanation fails."))


def jumps_figure(found):
    data = {f"eps {eps:g}": [{"step": c["step"], "loss": c["train_loss"]} for c in seeds.values()]
            for eps, seeds in found.items()}
    return Figure("jumps", "L4", "Training loss of the LSTM with decay 1/4 in float64, to some "
                  "evaluations after its first jump.", data, draw_jumps, (10, 3.8))


def draw_jumps(figure, data):
    axes = figure.subplots()
    for colour, (name, curves) in zip(COLOURS, data.items(), strict=False):
        plot_seeds(axes, [(c["step"], c["loss"]) for c in curves], colour, name)
    axes.set_yscale("log")
    style.dress(axes, "training step", "training loss", "")
    axes.legend(frameon=False, fontsize=8.5)

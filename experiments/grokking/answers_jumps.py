"""The answer of phases.py on late jumps: do they come from AdamW's eps?"""

import math

from experiments.grokking.paired import COLOURS, LEVEL, of_arm, paired, plot_seeds
from experiments.grokking.phases import EPS, LONG, TRIALS
from experiments.reporting.jumps import jump_places
from experiments.reporting.measures import span
from experiments.reporting.parts import Figure, Section, Table
from npdl.training.config import Config
from npdl_study.plots import style

BETA2 = Config().betas[1]
HIGH, ABOVE = 1e-4, 100     # the fall is measured from this loss to so many times the lowest
FOLD = 2 / (1 - BETA2)      # steps in which the rule lets the loss fall by a factor e
CLOSE = 1.5                 # a factor within which a number is as expected
RULE = (
    "Expected: once a set is memorised, an update has only to give back what the weight decay "
    "takes, so m / (sqrt(v) + eps) stays at decay times weight, far below 1. Gradients that small "
    "add nothing to v: sqrt(v) only shrinks, by a factor e in 2 / (1 - beta2) = "
    f"{FOLD:.0f} steps, and the gradient and the loss shrink with it. That ends where sqrt(v) "
    "comes down to eps; the loss then stays at a level in proportion to eps. ")


def jumped(columns):
    """The step before the first hundredfold rise of a memorised training loss, or infinity."""
    return next((columns["step"][i] for i in jump_places(columns)), math.inf)


def folding(columns):
    """In how many steps the training loss fell by a factor e, once memorised and before it levels
    off; infinity where no such fall is seen."""
    steps, losses = columns["step"], columns["train_loss"]
    begun, ended = (next(i for i, loss in enumerate(losses) if loss <= limit)
                    for limit in (max(HIGH, min(losses)), ABOVE * min(losses)))
    if begun >= ended:
        return math.inf
    return (steps[ended] - steps[begun]) / math.log(losses[begun] / losses[ended])


def jumps_section(records):
    """The Section on AdamW's eps and the jumps."""
    made = Section("4. Late jumps and AdamW's eps")
    found = {eps: of_arm(records, kind="jumps", eps=eps) for eps in EPS}
    if not set.intersection(*map(set, found.values())):
        of = sum(trial.facts["kind"] == "jumps" for trial in TRIALS)
        made.parts.append(f"Tried so far: {sum(map(len, found.values()))} of {of}; no seed has "
                          "both values of eps, which are to be compared.")
        return made
    rows = [(f"{eps:g}", str(seed), span([jumped(c)], "{:g}"), str(c["step"][-1]),
             f"{min(c['train_loss']):.2g}", span([folding(c)], "{:.0f}"))
            for eps, seeds in found.items() for seed, c in seeds.items()]
    made.parts += [jumps_answer(found), Table(
        "The LSTM with decay 1/4 in float64: the last evaluation before its training loss rises "
        "more than a hundredfold, the last step watched, the lowest training loss, and the "
        f"steps in which it fell by a factor e, from {HIGH:g} to {ABOVE} times the lowest.",
        ("eps", "seed", "jump after", "watched to", "lowest L_train", "factor e in"), rows),
        jumps_figure(found)]
    return made


def jumps_answer(found):
    (usual, a), (small, b) = ((eps, {s: jumped(c) for s, c in seeds.items()})
                              for eps, seeds in found.items())
    pairs = paired(a, b)
    expected = FOLD * math.log(usual / small)
    seen = "; ".join(f"with eps {eps:g}, watched to step {LONG[eps]}, {counted(steps.values())}"
                     for eps, steps in ((usual, a), (small, b)))
    folds = "; ".join(f"with eps {eps:g} {fall(seeds)}" for eps, seeds in found.items())
    return (f"**Do the jumps come from AdamW's eps?** {jumps_verdict(pairs, expected)}\n\n"
            f"{RULE}An eps of {small:g} is reached {expected:,.0f} steps later than {usual:g}."
            f"\n\nFound: {seen}. The larger eps jumps first in {pairs.signs()[1]} of "
            f"{len(pairs.before)} pair{'s' * (len(pairs.before) > 1)}"
            f"{delay(expected, pairs.pairs())}. Where the loss falls, it does so by a factor e "
            f"{folds}. {floors(found, usual / small)}")


def counted(steps):
    """How many seeds jump, and when those do."""
    there = [step for step in steps if math.isfinite(step)]
    return f"{len(there)} of {len(steps)} jump" + (
        f" (after step {span(there, '{:g}')})" if there else "")


def jumps_verdict(pairs, expected):
    """What the pairs say of eps, and how sure it is."""
    of = len(pairs.before)
    sooner, first, p = pairs.signs()                    # of the smaller eps
    later = [b - a for a, b in pairs.pairs()]
    if first == of:
        what = ("when they come" if any(map(math.isfinite, pairs.after)) else
                "whether they come, as long as they were watched"
                if max(unseen(pairs.pairs())) >= expected else "when they come, or whether")
        if p <= LEVEL:
            return f"Eps decides {what}."
        return (f"It looks as if eps decided {what}; {of} pair{'s' * (of > 1)} cannot prove it "
                f"(sign test p = {p:.2g}).")
    if sooner == of:
        return "The smaller eps jumps first with every seed, the opposite of what is expected."
    if all(map(math.isfinite, later)):
        return "Not from eps alone: with the smaller one they come no later with every seed."
    return "These seeds leave it open."


def unseen(steps):
    """How long the smaller eps was watched after the jump of the larger one, without its own."""
    return [LONG[EPS[1]] - a for a, b in steps if math.isfinite(a) and math.isinf(b)]


def delay(expected, steps):
    """The steps between both jumps, expected and found, for [(step, step)] of the seeds."""
    late, said = [b - a for a, b in steps if math.isfinite(a + b)], ""
    if late:
        near = sum(expected / CLOSE <= one <= expected * CLOSE for one in late)
        said = (f"; where both do, the smaller one's comes {span(late, '{:g}')} steps later: in "
                f"{near} of {len(late)} within a factor {CLOSE:g} of what is expected")
    if least := unseen(steps):
        said += (f"; where the smaller one does not, it was watched for {span(least, '{:g}')} "
                 "steps more" + ("" if min(least) >= expected else ", fewer than expected, which "
                                 "cannot tell a delay from an absence"))
    return said


def floors(found, expected):
    """The lowest losses with the larger eps over those with the smaller one, seed by seed."""
    a, b = found.values()
    times = [min(a[seed]["train_loss"]) / min(b[seed]["train_loss"]) for seed in a if seed in b]
    return (f"With the larger eps the lowest training loss is {span(times, '{:,.0f}')} times that "
            f"with the smaller one; {expected:,.0f} times are expected where both level off before "
            "they jump.")


def fall(seeds):
    """How fast the loss falls with an eps, against the rule."""
    folds = [folding(c) for c in seeds.values()]
    there = [fold for fold in folds if math.isfinite(fold)]
    if not there:
        return "it is not seen to"
    near = sum(FOLD / CLOSE <= fold <= FOLD * CLOSE for fold in there)
    return (f"in {span(there, '{:.0f}')} steps, "
            + ("as expected" if near == len(there) else
               f"as expected with {near} of {len(there)} seeds" if near else
               "which is not what is expected: the explanation fails"))


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

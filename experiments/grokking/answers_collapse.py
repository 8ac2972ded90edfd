"""The answer of collapse.py: does rounding stop a network before it groks?"""

import math

from collapse import ARMS, PRINTED, SEEDS
from paired import COLOURS, NOTHING, of_arm, plot_seeds
from reporting.measures import GENERAL, MEMORISED, span
from reporting.parts import Figure, Section, Table

from npdl.study import plots_style as style

COLLAPSED = 0.5             # a softmax has collapsed when so many pairs have a probability of 1
PAPER = {                   # what the paper says of each arm, at 40 %
    "float16": "stops soonest", "float32": "stops before it generalises",
    "float64": "goes on for longest", "stablemax": "generalises without weight decay",
    "orthogonal": f"generalises within {PRINTED} epochs",
}


def first(columns, name, limit):
    return next((step for step, value in zip(columns["step"], columns[name], strict=True)
                 if value is not None and value >= limit), math.inf)


def collapse_section(records):
    """The Section of question 1."""
    made = Section("1. Softmax collapse (arXiv:2501.04697)")
    arms = {arm: of_arm(records, arm=arm) for arm in ARMS}
    made.parts += [answer(arms), table(arms), figure(arms)] if records else [NOTHING]
    return made


def answer(arms):
    return " ".join([
        "**Does float32 stop before it groks?** " + stops(arms["float32"]),
        "**Does more precision help?** " + precision(arms),
        "**Does StableMax grok without weight decay?** " + groks(arms["stablemax"]),
        f"**Does the orthogonal gradient grok at once** (the paper: {PRINTED} epochs)**?** "
        + groks(arms["orthogonal"], PRINTED)])


def stops(found):
    if not found:
        return "Not tried yet."
    collapsed = {seed: first(c, "collapsed", COLLAPSED) for seed, c in found.items()}
    best = [max(c["validation_accuracy"]) for c in found.values()]
    many = sum(map(math.isfinite, collapsed.values()))
    general = sum(value >= GENERAL for value in best)
    return (f"In {many} of {len(found)} seeds half of the training pairs get a probability that is "
            "rounded to 1, and no gradient at the right logit (from epoch "
            f"{span(collapsed.values())} on); {general} generalise, and the best validation "
            f"accuracy is {span(best)}. "
            + ("So it does, here." if many == len(found) and not general else
               "So it does not, in these epochs." if not many else "So the seeds differ."))


def precision(arms):
    said = []
    for arm in ("float16", "float32", "float64"):
        found = arms[arm]
        if found:
            at = [first(c, "collapsed", COLLAPSED) for c in found.values()]
            said.append(f"{arm}: collapsed from epoch {span(at)}, best A_val "
                        f"{span(max(c['validation_accuracy']) for c in found.values())}")
    return "; ".join(said) + "." if len(said) == 3 else "Not tried yet in all three."


def groks(found, within=None):
    if not found:
        return "Not tried yet."
    at = {seed: first(c, "validation_accuracy", GENERAL) for seed, c in found.items()}
    soon = sum(step <= (within or math.inf) and math.isfinite(step) for step in at.values())
    limit = f" within {within} epochs" if within else ""
    return (f"{'Yes' if soon == len(at) else 'No' if not soon else 'Not always'}: {soon} of "
            f"{len(at)} seeds reach A_val ≥ {GENERAL:g}{limit}, at epoch {span(at.values())}.")


def table(arms):
    rows = []
    for arm, found in arms.items():
        columns = found.values()
        rows.append((arm, f"{len(found)} of {len(SEEDS)}",
                     span(first(c, "train_accuracy", MEMORISED) for c in columns),
                     span(first(c, "collapsed", COLLAPSED) for c in columns),
                     span(first(c, "validation_accuracy", GENERAL) for c in columns),
                     span(max(c["validation_accuracy"]) for c in columns),
                     span(max(v for v in c["along"] if v is not None) for c in columns),
                     PAPER[arm]))
    return Table("The first epochs with A_train ≥ 0.99, with half of the training pairs at a "
                 "probability rounded to 1, and with A_val ≥ 0.9; the best validation accuracy; "
                 "the largest cosine of the descent direction with the weights (1: it only scales "
                 "them). Least to largest of the seeds.",
                 ("arm", "seeds", "memorised", "collapsed", "generalised", "best A_val",
                  "along the weights", "the paper"), rows)


def figure(arms):
    data = {arm: [{name: c[name] for name in ("step", "validation_accuracy", "collapsed")}
                  for c in found.values()] for arm, found in arms.items()}
    return Figure("collapse", "L1", "Validation accuracy, and the share of the training pairs "
                  "whose probability is rounded to 1. A line is a seed.", data, draw, (11, 4))


def draw(figure, data):
    panels = figure.subplots(1, 2)
    for colour, (arm, curves) in zip(COLOURS, data.items(), strict=True):
        for axes, name in zip(panels, ("validation_accuracy", "collapsed"), strict=True):
            plot_seeds(axes, [(c["step"], c[name]) for c in curves], colour, arm)
    for axes, label in zip(panels, ("validation accuracy", "share rounded to 1"), strict=True):
        axes.set_xscale("log")
        style.dress(axes, "epoch (log scale)", label, "")
    if any(data.values()):
        panels[0].legend(frameon=False, fontsize=8.5)

"""The answer of collapse.py: does rounding stop a network before it groks?"""

import math

from experiments.grokking.collapse import ARMS
from experiments.grokking.paired import (
    COLOURS,
    LEVEL,
    NOTHING,
    of_arm,
    paired,
    plot_seeds,
    wait_for,
)
from experiments.reporting.draw import write_in
from experiments.reporting.measures import GENERAL, MEMORISED, span
from experiments.reporting.parts import Figure, Section, Table
from experiments.trials import first_step
from npdl_study.plots import style

COLLAPSED = 0.4         # a softmax has collapsed when so many pairs have a probability of 1: the
                        # share that the published plot of 40 % of the data marks
COLUMNS = {             # of the figure: {title: arms}
    "gradient, 40 % of the pairs": ("plain", "orthogonal", "published", "decay"),
    "precision, 70 %": ("float16-70", "float32-70", "float64-70"),
    "precision, 40 %": ("float32", "float64"),
    "StableMax, 40 %": ("softmax64", "stablemax"),
}
CLEAR = 0.05            # a difference of validation accuracies that says something
PAPER_EPOCHS = 80_000   # of the published run with StableMax
PUBLISHED = {
    "orthogonal": "all right within the 300 epochs of its run; rerun, at 125 (Chou 2025)",
    "published": "those 300 epochs' own code",
    "decay": "all right at 143 (Chou 2025)",
    **dict.fromkeys(("float16-70", "float32-70", "float64-70"),
                    "more precision, more accuracy before it stops"),
    "stablemax": f"generalises within {PAPER_EPOCHS:,} epochs",
    "float32": "collapses, then nothing more; rerun, below 40 % (Chou 2025)",
    "float64": "as float32; rerun, below 50 % (Chou 2025)",
}


def collapse_section(records):
    """The Section of question 1."""
    made = Section("1. Softmax collapse (arXiv:2501.04697)")
    arms = {arm: of_arm(records, arm=arm) for arm in ARMS}
    made.parts += [answer(arms), CODE, table(arms), figure(arms)] if records else [NOTHING]
    return made


CODE = (
    "The published code differs from the paper in two places that matter here: its orthogonal "
    "AdamW never gets the beta2 and eps of the command line and scales the projected gradient back "
    "to its old norm (our arm *published* does the same), and the run whose caption names "
    "StableMax beside the orthogonal gradient has softmax. That orthogonal AdamW takes 300 epochs "
    "is only the length of its run. Our moments are float32, as the paper's are: below a gradient "
    "of about 1e-23 its square is 0, and eps alone divides.")


def answer(arms):
    return "\n\n".join([
        f"A softmax has *collapsed* where the probability of {COLLAPSED:.0%} of the training pairs "
        "is rounded to 1.",
        "**Does float32 stop before it groks?** With 40 % of the pairs to train on: "
        + stops("float32", "float64", arms, stable=True)
        + " With 70 %: " + stops("float32-70", "float64-70", arms),
        "**Does more precision help?** With 70 %: " + precision(arms),
        "**Does StableMax grok without weight decay?** " + groks("stablemax", "softmax64", arms)
        + unfinished(arms["stablemax"]),
        "**Does the orthogonal gradient grok at once?** " + groks("orthogonal", "plain", arms)
        + " As published: " + said("published", arms) + " With weight decay in its place, tuned: "
        + said("decay", arms) + rival(arms)])


# --- what the seeds of an arm did -----------------------------------------------------------------
def general(found):
    """{seed: the first epoch with A_val >= GENERAL, or infinity}."""
    return {seed: first_step(c, "validation_accuracy", lambda a: a >= GENERAL)
            for seed, c in found.items()}


def best(found, until=math.inf):
    """{seed: the best A_val up to an epoch}."""
    return {seed: max(a for step, a in zip(c["step"], c["validation_accuracy"], strict=True)
                      if step <= until) for seed, c in found.items()}


def watched(found, arm):
    """How long the seeds of an arm were watched: for ever where a trial ended before its time,
    because nothing could change any more."""
    return min((c["step"][-1] for c in found.values() if c["step"][-1] == ARMS[arm].epochs),
               default=math.inf)


def died(found, arm):
    """How many seeds ended because no pair had a gradient any more."""
    return sum(c["step"][-1] < ARMS[arm].epochs and math.isinf(at)
               for c, at in zip(found.values(), general(found).values(), strict=True))


def all_general(found):
    return bool(found) and all(map(math.isfinite, general(found).values()))


def none_general(found):
    return bool(found) and not any(map(math.isfinite, general(found).values()))


def said(arm, arms):
    """Whether the seeds of an arm generalise, and when."""
    found = arms[arm]
    if not found:
        return NOTHING
    at = general(found)
    there = [step for step in at.values() if math.isfinite(step)]
    last = max(c["step"][-1] for c in found.values())
    if not there:
        end = f"; in {gone} no gradient was left" if (gone := died(found, arm)) else ""
        return (f"not within {last:,} epochs: {seeds(0, at)} A_val ≥ {GENERAL:g}, the best is "
                f"{span(best(found).values())}{end}.")
    return f"{seeds(len(there), at)} A_val ≥ {GENERAL:g}, at epoch {span(there, '{:,}')}."


def seeds(many, of):
    return f"{many} of {len(of)} seed{'s' if len(of) > 1 else ''} reach{'es' * (len(of) == 1)}"


# --- the questions --------------------------------------------------------------------------------
def stops(arm, higher, arms, stable=False):
    """Whether an arm in float32 stops: `higher` is the same in float64; if `stable`, StableMax
    counts, too, where softmax at its settings does not generalise."""
    found = arms[arm]
    if not found:
        return NOTHING
    shares = {seed: max(c["collapsed"]) for seed, c in found.items()}
    many, of = sum(share >= COLLAPSED for share in shares.values()), len(found)
    known = sum(map(math.isfinite, general(found).values()))
    last = max(c["step"][-1] for c in found.values())
    numbers = (
        f"{known} of {of} generalise within {last:,} epochs (best A_val "
        f"{span(best(found).values())}). The largest share of training pairs whose probability is "
        f"rounded to 1 is {span(shares.values(), '{:.0%}')}."
        + (f" In {gone} no gradient was left." if (gone := died(found, arm)) else ""))
    return f"{stop_verdict(found, many, known, arms[higher], arms if stable else None)} {numbers}"


def stop_verdict(found, many, known, higher, arms):
    of, higher = len(found), {seed: c for seed, c in higher.items() if seed in found}
    if known == of:
        return "No, it generalises."
    if known:
        return "The seeds differ."
    if 0 < many < of:
        half = sum(max(c["collapsed"]) >= COLLAPSED / 2 for c in found.values())
        return (f"Open: it does not generalise; at least {COLLAPSED:.0%} of the training pairs are "
                f"rounded to 1 with {many} of {of} seeds, at least {COLLAPSED / 2:.0%} with "
                f"{half}.")
    if not many:
        return "Open: it does not generalise, but does not collapse either."
    why = [f"{name}{one_seed(seeds)}" for name, seeds, true in (
        ("float64", higher, all_general(higher)),
        ("StableMax", arms and arms["stablemax"], arms and all_general(arms["stablemax"])
         and needed("stablemax", "softmax64", arms))) if true]
    if why:
        return (f"Yes: it collapses and does not generalise, and {' and '.join(why)} "
                f"do{'es' * (len(why) == 1)}.")
    return "It collapses and does not generalise; that the one is the other's cause is not shown."


def one_seed(found):
    return " (one seed)" * (len(found) == 1)


def precision(arms):
    """Each precision against the next lower one, by the best A_val of the same seeds in the
    epochs that both were watched."""
    return "; ".join(f"{high[:7]} over {low[:7]}: {gain(low, high, arms)}" for low, high in (
        ("float16-70", "float32-70"), ("float32-70", "float64-70"))) + "."


def gain(low, high, arms):
    until = min(watched(arms[low], low), watched(arms[high], high))
    pairs = paired(best(arms[low], until), best(arms[high], until))
    if not pairs.before:
        return "not tried"
    gains = [b - a for a, b in pairs.pairs()]
    word = ("one seed alone, nothing follows" if len(gains) == 1 else
            f"yes in all {len(gains)} pairs" if min(gains) > CLEAR else
            f"no, it is worse in all {len(gains)} pairs" if max(gains) < -CLEAR else
            "no difference" if max(map(abs, gains)) <= CLEAR else "the seeds differ")
    within = f" within {until:,} epochs" if math.isfinite(until) else ""
    return f"{word} (best A_val{within} {span(pairs.before)} and {span(pairs.after)})"


def groks(arm, control, arms):
    """Whether an arm generalises, and whether its control, which lacks one thing, does so too."""
    found, other = arms[arm], arms[control]
    if not found:
        return NOTHING
    yes = "Yes, in the one seed tried: " if len(found) == 1 else "Yes: "
    head = yes if all_general(found) else "" if none_general(found) else "Not always: "
    words = f"{head}{said(arm, arms)} The control, {control}: {said(control, arms)}"
    words = words[0].upper() + words[1:]
    if other and none_general(found):
        return words + further(arm, control, arms)
    if not other:
        return words
    return words + {
        True: " So the settings alone do not do it in that time.",
        False: " So the settings alone can do it, too.",
        None: " It was watched for too short a time to say that its lack matters."}[
            needed(arm, control, arms)]


def further(arm, control, arms):
    """Whether an arm that does not generalise comes further than its control all the same."""
    until = min(watched(arms[arm], arm), watched(arms[control], control))
    pairs = paired(best(arms[control], until), best(arms[arm], until))
    if not pairs.before or min(b - a for a, b in pairs.pairs()) <= CLEAR:
        return ""
    within = f" within {until:,} epochs" if math.isfinite(until) else ""
    return (f" But it comes further: best A_val{within} {span(pairs.after)} against "
            f"{span(pairs.before)}.")


def unfinished(found):
    """How StableMax stood at the end, against the longer run of the paper."""
    if not none_general(found):
        return ""
    half = max(c["step"][-1] for c in found.values()) / 2
    rising = all(a - b > CLEAR for a, b in zip(best(found).values(), best(found, half).values(),
                                               strict=True))
    return (f" The paper's run has {PAPER_EPOCHS:,} epochs, so that this does not contradict it"
            + ("; in the later half the accuracy was still rising." if rising else "."))


def needed(arm, control, arms):
    """Whether the control, watched for as long, does not generalise as the arm does; None where
    that is not known."""
    found, other = arms[arm], arms[control]
    if not found or not other or none_general(found):
        return None
    if not none_general(other):
        return False
    at = max(step for step in general(found).values() if math.isfinite(step))
    return True if watched(other, control) >= at else None


def rival(arms):
    """The orthogonal gradient against weight decay, over the seeds of both."""
    pairs = paired(general(arms["decay"]), general(arms["orthogonal"]))
    if not pairs.before:
        return ""
    sooner, later, _ = pairs.signs()
    n = len(pairs.before)
    return (f" The orthogonal gradient is sooner in {sooner} and later in {later} of "
            f"{n} pairs{': so few cannot tell them apart' * (LEVEL * 2**n < 2)}.")


# --- table and figure -----------------------------------------------------------------------------
def table(arms):
    rows = []
    for name, found in arms.items():
        columns, arm = found.values(), ARMS[name]
        rows.append((name, f"{arm.share:.0%}", f"{len(found)} of {arm.seeds}",
                     span((first_step(c, "train_accuracy", lambda a: a >= MEMORISED)
                            for c in columns), "{:,}"),
                     span((first_step(c, "collapsed", lambda share: share >= COLLAPSED)
                            for c in columns), "{:,}"),
                     span((max(c["collapsed"]) for c in columns), "{:.0%}"),
                     span(general(found).values(), "{:,}"), span(best(found).values()),
                     span((c["step"][-1] for c in columns), "{:,}"),
                     span(max(v for v in c["along"] if v is not None) for c in columns),
                     PUBLISHED.get(name, "")))
    return Table(f"The first epochs with A_train ≥ {MEMORISED:g}, with {COLLAPSED:.0%} of the "
                 f"training pairs at a probability rounded to 1, and with A_val ≥ {GENERAL:g}; the "
                 "largest share so rounded; the best validation accuracy; the last epoch; the "
                 "largest cosine of the descent direction with the weights (1: it only scales "
                 "them). Least to largest of the seeds; an arm with one seed is a check, no claim.",
                 ("arm", "pairs", "seeds", "memorised", "collapsed", "rounded", "generalised",
                  "best A_val", "last epoch", "along the weights", "published"), rows)


def figure(arms):
    data = {arm: [{name: c[name] for name in ("step", "validation_accuracy", "collapsed")}
                  for c in found.values()] for arm, found in arms.items()}
    return Figure("collapse", "L1", "Validation accuracy (above), and the share of the training "
                  "pairs whose probability is rounded to 1 (below), a column for each question. A "
                  f"line is a seed; dotted: generalised (A_val ≥ {GENERAL:g}) and collapsed "
                  f"({COLLAPSED:.0%} rounded).", data, draw, (14, 6.2))


def draw(figure, data):
    panels = figure.subplots(2, len(COLUMNS), sharex="col", sharey="row")
    for (above, below), (title, names) in zip(panels.T, COLUMNS.items(), strict=True):
        for colour, arm in zip(COLOURS, names, strict=False):
            for axes, name in ((above, "validation_accuracy"), (below, "collapsed")):
                plot_seeds(axes, [(c["step"], c[name]) for c in data[arm]], colour, arm)
        style.dress(above, "", "", title)
        style.dress(below, "epoch (log scale)", "")
        wait_for(above, GENERAL)
        below.axhline(COLLAPSED, color=style.INK, linewidth=1, linestyle=":")
        below.set_ylim(-0.03, 1.03)
        below.set_xscale("log")
        if any(data[arm] for arm in names):
            below.set_xlim(left=10)
            below.legend(frameon=False, fontsize=8.5, loc="upper left")
        else:
            write_in(above, "not tried yet")
    panels[0, 0].set_ylabel("A_val (widened near 1)")
    panels[1, 0].set_ylabel("share rounded to 1")

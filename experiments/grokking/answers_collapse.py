"""The answer of collapse.py: does rounding stop a network before it groks?"""

import math

from collapse import ARMS
from paired import COLOURS, NOTHING, of_arm, paired, plot_seeds
from reporting.measures import GENERAL, MEMORISED, span
from reporting.parts import Figure, Section, Table
from trials import first_step

from npdl.study import plots_style as style

COLLAPSED = 0.4         # a softmax has collapsed when so many pairs have a probability of 1: the
                        # share that the published plot of 40 % of the data marks
CLEAR = 0.05            # a difference of validation accuracies that says something
PUBLISHED = {
    "orthogonal": "all right within the 300 epochs of its run; rerun, at 125 (Chou 2025)",
    "published": "those 300 epochs' own code",
    "decay": "all right at 143 (Chou 2025)",
    **dict.fromkeys(("float16-70", "float32-70", "float64-70"),
                    "more precision, more accuracy before it stops"),
    "stablemax": "generalises within 80,000 epochs",
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
        "**Does float32 stop before it groks?** At 40 % of the pairs: "
        + stops(arms["float32"], arms["float64"], arms)
        + " At 70 %: " + stops(arms["float32-70"], arms["float64-70"]),
        "**Does more precision help?** At 70 %: " + precision(arms),
        "**Does StableMax grok without weight decay?** " + groks("stablemax", "softmax64", arms),
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
def stops(found, higher, arms=None):
    """Whether float32 stops: `higher` is the same in float64; with `arms` StableMax counts, too,
    where softmax at its settings does not generalise."""
    if not found:
        return NOTHING
    shares = {seed: max(c["collapsed"]) for seed, c in found.items()}
    many, of = sum(share >= COLLAPSED for share in shares.values()), len(found)
    known = sum(map(math.isfinite, general(found).values()))
    last = max(c["step"][-1] for c in found.values())
    numbers = (
        f"{known} of {of} generalise within {last:,} epochs (best A_val "
        f"{span(best(found).values())}). The largest share of training pairs whose probability is "
        f"rounded to 1 is {span(shares.values(), '{:.0%}')}.")
    return f"{stop_verdict(found, many, known, higher, arms)} {numbers}"


def stop_verdict(found, many, known, higher, arms):
    of = len(found)
    if known == of:
        return "No, it generalises."
    if known or 0 < many < of:
        return "The seeds differ."
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
            "yes" if min(gains) > CLEAR else "no, it is worse" if max(gains) < -CLEAR else
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
    if not other or none_general(found):
        return words
    return words + {
        True: " So the settings alone do not do it in that time.",
        False: " So the settings alone can do it, too.",
        None: " It was watched for too short a time to say that its lack matters."}[
            needed(arm, control, arms)]


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
    return (f" The orthogonal gradient is sooner in {sooner} and later in {later} of "
            f"{len(pairs.before)} pairs.")


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
    return Figure("collapse", "L1", "Validation accuracy, and the share of the training pairs "
                  "whose probability is rounded to 1. A line is a seed.", data, draw, (13, 4.5))


def draw(figure, data):
    panels = figure.subplots(1, 2)
    for i, (arm, curves) in enumerate(data.items()):
        colour, line = COLOURS[i % len(COLOURS)], ("-", "--", ":")[i // len(COLOURS)]
        for axes, name in zip(panels, ("validation_accuracy", "collapsed"), strict=True):
            plot_seeds(axes, [(c["step"], c[name]) for c in curves], colour, arm, line)
    for axes, label in zip(panels, ("validation accuracy", "share rounded to 1"), strict=True):
        axes.set_xscale("log")
        style.dress(axes, "epoch (log scale)", label, "")
    if any(data.values()):
        panels[0].legend(frameon=False, fontsize=8)

"""The answer of faster.py: do Grokfast and Muon make npdl's models generalise sooner?"""

import math

from experiments import study
from experiments.grokking.faster import ARMS, FASTER, seeds_of
from experiments.grokking.paired import LEVEL, NOTHING, of_arm, paired, plot_seeds, wait_for
from experiments.reporting.measures import GENERAL, span
from experiments.reporting.parts import Figure, Section, Table
from experiments.reporting.records import NAMES
from experiments.trials import first_step
from npdl_study.plots import style

PAPER = {"grokfast": "39,890 updates to 910 with decay 0.005, where the baseline has none (790: "
                     "another filter, decay 0.01)",
         "muon": "epoch 153 to 103; no clear gain: Essential AI (20 June 2025), Chou (July 2025)"}
SAME = 0.95             # the validation accuracy that both papers wait for


def faster_section(records):
    """The Section of question 2."""
    made = Section("2. Grokfast (arXiv:2405.20233) and Muon (arXiv:2504.16041)")
    arms = {model: {arm: of_arm(records, model=model, arm=arm) for arm in ARMS}
            for model in NAMES}
    made.parts += [answer(arms), table(arms), figure(arms)] if records else [NOTHING]
    return made


def steps_of(found, share=SAME):
    return {seed: first_step(columns, "validation_accuracy", lambda a: a >= share)
            for seed, columns in found.items()}


def against(found, arm, other="adamw"):
    """The Paired of an arm against another."""
    return paired(steps_of(found[other]), steps_of(found[arm]))


def answer(arms):
    comparisons = len(NAMES) * (len(ARMS) - 1 + len(CONTROL_OF))
    return "\n\n".join([
        f"**Do they make npdl's models generalise sooner?** {in_short(arms)}.",
        *(f"**{arm.capitalize()}{WHAT.get(arm, '')}.** " + by_model(arms, arm) for arm in ARMS[1:]),
        f"Steps are those to A_val ≥ {SAME:g}, as in both papers; a factor below 1 is sooner, in "
        "brackets its 95 % interval (Student's, of the logarithms paired by seed). Where a seed "
        "never gets there, signs alone decide, and never counts as the latest. Of "
        f"{comparisons} such comparisons at most {LEVEL * comparisons:.1f} would be expected to "
        "show a difference by luck. All arms have the learning rate of AdamW's recipe, but Muon "
        f"moves its matrices {FASTER:g} times as fast; none was tuned. Grokfast's paper changes "
        "weight decay together with the filter; here all arms have decay 1, which leaves less to "
        "gain."])


CONTROL_OF = {"grokfast": "momentum", "muon": "matched"}
SAID = {"grokfast": "Grokfast", "muon": "Muon", "matched": "Muon with updates of AdamW's size"}
WHAT = {"momentum": " (the control of Grokfast: as slow a mean, not amplified)",
        "matched": f" ({SAID['matched']})"}


def in_short(arms):
    """The verdicts of the arms that are no control, against AdamW."""
    return "; ".join(f"{name}: " + ", ".join(
        f"the {NAMES[model]} {against(found, arm).verdict().partition(' (')[0]}"
        for model, found in arms.items()) for arm, name in SAID.items())


def by_model(arms, arm):
    """An arm against AdamW, and against its control where it has one, for each model."""
    words = "; ".join(f"{NAMES[model]}: {words_of(against(found, arm))}"
                      for model, found in arms.items())
    control = CONTROL_OF.get(arm)
    if control is None:
        return f"{words}."
    beside = "; ".join(f"{NAMES[model]}: {short(against(found, arm, control), control)}"
                       for model, found in arms.items())
    return f"{words}. Against {control}: {beside}."


def short(pairs, name):
    """The verdict of a Paired, and its factor where it has one."""
    factor = pairs.factor()
    return f"{pairs.verdict()}" + (f", {factor} times {name}'s steps" if factor != "-" else "")


def words_of(pairs):
    """What a Paired against AdamW says."""
    if not pairs.before:
        return pairs.verdict()
    after, before, of = pairs.count()
    told = abs(pairs.mean) > pairs.half
    unseen = "" if told or math.isinf(pairs.half) or len(pairs.logs) < of else (
        f"; a change by less than a factor {10**pairs.half:.2f} could not be told from none")
    return (f"{short(pairs, 'AdamW')}; {after} of {of} seeds get there by step "
            f"{study.BASE.steps}, with AdamW {before}{unseen}")


def table(arms):
    rows = []
    for model, found in arms.items():
        for arm in ARMS:
            at = steps_of(found[arm])
            ratio = "1" if arm == "adamw" else against(found, arm).factor()
            rows.append((NAMES[model], arm, f"{len(at)} of {len(seeds_of(model, arm))}",
                         span(steps_of(found[arm], GENERAL).values(), "{:g}"),
                         span(at.values(), "{:g}"), ratio, PAPER.get(arm, "")))
    return Table(f"The first steps with A_val ≥ {GENERAL:g} and ≥ {SAME:g}, least to largest of "
                 "the seeds, and the paired factor of the second against AdamW's with its 95 % "
                 "interval, where every seed of both gets there.",
                 ("model", "arm", "seeds", f"A_val ≥ {GENERAL:g}", f"A_val ≥ {SAME:g}", "factor",
                  "published"), rows, left=2)


def figure(arms):
    data = {NAMES[model]: {arm: [{"step": c["step"], "accuracy": c["validation_accuracy"]}
                                 for c in columns.values()] for arm, columns in found.items()}
            for model, found in arms.items()}
    return Figure("faster", "L2", "Validation accuracy until all of it is right: AdamW (grey) "
                  f"against each other arm. A line is a seed; dotted: A_val = {SAME:g}.", data,
                  draw, (14, 6.2))


def draw(figure, data):
    panels = figure.subplots(len(data), len(ARMS) - 1, sharex=True, sharey=True)
    colours = (style.BLUE, style.VERMILION, style.GREEN, style.ORANGE)
    for row, (model, found) in zip(panels, data.items(), strict=True):
        for axes, arm, colour in zip(row, ARMS[1:], colours, strict=True):
            for name, own in ((ARMS[0], "#b9b9b9"), (arm, colour)):
                plot_seeds(axes, [(c["step"], c["accuracy"]) for c in found[name]], own, name)
            style.dress(axes, "", "", f"{model}: {arm}")
            wait_for(axes, SAME)
        row[0].set_ylabel("A_val (widened near 1)")
    for axes in panels[-1]:
        axes.set_xlabel("training step")

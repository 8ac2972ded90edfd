"""The answer of faster.py: do Grokfast and Muon make npdl's models generalise sooner?"""

from faster import ARMS, SEEDS, reached
from paired import COLOURS, NOTHING, factor_text, of_arm, paired, plot_seeds, verdict
from reporting.measures import GENERAL, span
from reporting.parts import Figure, Section, Table
from reporting.records import NAMES

from npdl.study import plots_style as style

PAPER = {"adamw": "", "momentum": "",
         "grokfast": "39,890 updates to 790 or 910 (modular multiplication)",
         "muon": "epoch 153 to 103; denied by others"}


def faster_section(records):
    """The Section of question 2."""
    made = Section("2. Grokfast (arXiv:2405.20233) and Muon (arXiv:2504.16041)")
    arms = {model: {arm: of_arm(records, model=model, arm=arm) for arm in ARMS}
            for model in NAMES}
    made.parts += [answer(arms), table(arms), figure(arms)] if records else [NOTHING]
    return made


def steps_of(found):
    return {seed: reached(columns, GENERAL) for seed, columns in found.items()}


def answer(arms):
    said = []
    for arm in ("grokfast", "muon", "momentum"):
        each = []
        for model, found in arms.items():
            seeds, mean, half = paired(steps_of(found["adamw"]), steps_of(found[arm]))
            words = verdict(mean, half)
            each.append(f"{NAMES[model]}: {words}" + (
                f", {factor_text(mean, half)} times AdamW's steps over {len(seeds)} paired seeds"
                if seeds else ""))
        said.append(f"**{arm.capitalize()}.** {'; '.join(each)}.")
    return " ".join(said) + (
        " A factor below 1 is sooner; in brackets its 95 % interval (Student's, of the paired "
        f"logarithms of the first step with A_val ≥ {GENERAL:g}). Momentum is the control: it "
        "slows the mean of the gradient as much as Grokfast, without amplifying it. All arms have "
        "the learning rate of AdamW's recipe; none was tuned. The papers' baselines have little or "
        "no weight decay, which leaves far more to gain than this recipe does.")


def table(arms):
    rows = []
    for model, found in arms.items():
        base = steps_of(found["adamw"])
        for arm in ARMS:
            at = steps_of(found[arm])
            ratio = "1" if arm == "adamw" else factor_text(*paired(base, at)[1:])
            rows.append((NAMES[model], arm, f"{len(at)} of {len(SEEDS)}", span(at.values(), "{:g}"),
                         span((reached(c, 0.95) for c in found[arm].values()), "{:g}"), ratio,
                         PAPER[arm]))
    return Table("The first steps with A_val ≥ 0.9 and ≥ 0.95, least to largest of the seeds, and "
                 "the paired factor of the first against AdamW's with its 95 % interval.",
                 ("model", "arm", "seeds", "A_val ≥ 0.9", "A_val ≥ 0.95", "factor", "the paper"),
                 rows, left=2)


def figure(arms):
    data = {NAMES[model]: {arm: [{"step": c["step"], "accuracy": c["validation_accuracy"]}
                                 for c in columns.values()] for arm, columns in found.items()}
            for model, found in arms.items()}
    return Figure("faster", "L2", "Validation accuracy until all of it is right. A line is a seed.",
                  data, draw, (11, 4))


def draw(figure, data):
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (model, found) in zip(panels, data.items(), strict=True):
        for colour, (arm, curves) in zip(COLOURS, found.items(), strict=False):
            plot_seeds(axes, [(c["step"], c["accuracy"]) for c in curves], colour, arm)
        style.dress(axes, "training step", "", model)
        if any(found.values()):
            axes.legend(frameon=False, fontsize=8.5)
    panels[0].set_ylabel("validation accuracy")

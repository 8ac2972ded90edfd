"""The loss puzzle: which reading of the recipe gives document 004's losses, and why.

Built from the kept records of the question "puzzle" (experiments/study.py), and from what
reporting.mechanism shows.
"""

import math

import numpy as np

from experiments.reporting import mechanism, readings, sanity
from experiments.reporting.draw import WINDOW, running_median
from experiments.reporting.parts import (
    FAILS,
    HOLDS,
    MISSING,
    OPEN,
    Figure,
    Section,
    Table,
    Verdict,
    verdict_table,
)
from experiments.reporting.puzzle_runs import (
    BEFORE,
    DOCUMENT,
    JUMP,
    LOSSES,
    NEAR,
    SHORT,
    bound,
    gathered,
)
from experiments.reporting.rules import TIMES, compare, half_and_twice
from npdl_study.plots import style

NAMES = {"gpt": "GPT", "lstm": "LSTM"}
OTHERS = {                          # A_val, t_f(L_val), t_f(A_train), t_f(A_val) of the document
    "lstm": ("1.0000", "10001", "300", "7850 ± 350"),
    "gpt": ("0.9979 ± 0.0021", "9100 ± 500", "82.5 ± 5.5", "8400 ± 200"),
}
STATED, CLIPPED = "as stated", "clip at norm 1"
RELEASED = "Glorot's gates, clip at norm 1"     # as the course's published starter code has it
JUDGED = {"lstm": (STATED, CLIPPED, RELEASED), "gpt": (STATED, CLIPPED)}
VALIDATION = 481                    # equations, of 961


# --- the section ----------------------------------------------------------------------------------
def section():
    """The Section on the puzzle."""
    found = {(model, name): gathered(name, model) for model in readings.BOTH
             for name, (models, _, _) in readings.READINGS.items() if model in models}
    made = Section("The loss puzzle")
    made.parts += [beside_stated(found), arithmetic(), readings_table(found.values()),
                   answer(found), judged_table(found), curves_figure(found.values()),
                   *mechanism.parts(found["gpt", STATED], found["gpt", CLIPPED])]
    return made


def beside_stated(found):
    """Which of the document's lowest losses its recipe, as its text states it, does not give."""
    said = {}
    for model in readings.BOTH:
        reading = found[model, STATED]
        for key in LOSSES if reading.runs else ():
            verdict, _ = compare(sanity.printed(model, key), reading.values(key))
            lower = DOCUMENT[model][key][0] < reading.mean(key)
            words = {HOLDS: "They are alike", OPEN: "Not decided by these seeds"}.get(
                verdict, f"The document's are {'lower' if lower else 'higher'}")
            said.setdefault(words, []).append(
                f"{NAMES[model]} {SHORT[key]} ({plus_minus(DOCUMENT[model], key)}, here "
                f"{reading.each(key, '.2g')})")
    return " ".join([
        "Beside the document's lowest losses stand those of its recipe with nothing added to the "
        "text; the rule is that of question 2's table.",
        *(f"{words}: {', '.join(losses)}." for words, losses in said.items() or [
            ("Not compared", ["that recipe was not run"])])])


def arithmetic():
    """What needs no run to be ruled out."""
    wrong = [round((1 - 0.9979 + sign * 0.0021) * VALIDATION) for sign in (-1, 1)]
    return (
        "Arithmetic rules out these reasons for the difference. *Other tokens in the mean*: with "
        "the operands counted, no loss on the validation set could fall below 2 ln 31 / 6 = "
        f"{2 * math.log(31) / 6:.2f}; without EOS, "
        "losses would be up to twice as high, not lower. *Batches*: 480 equations are fewer than "
        "512, so that every batch is the whole training set, and neither its order nor a dropped "
        "remainder plays a part. *Evaluations*: 82.5 ± 5.5 are the steps 77 and 88, so that each "
        "of the first 100 steps was evaluated, as here. *Seeds*: two of them with 0.9979 ± 0.0021 "
        f"of {VALIDATION} equations right have {wrong[0]} and {wrong[1]} wrong, and with "
        "0.0035 ± 0.0031 losses of 0.0004 and 0.0066: one of the document's GPTs generalised "
        "fully. *A floor from weight decay*: under a gradient of constant sign AdamW's weights go "
        "to about 1 / decay = 1 each, which leaves logits of tens and losses far below 0.0001. So "
        "the level of the loss is not set by where the decay lets weights rest, but by how fast "
        "the update renews what the decay takes."
    )


def readings_table(found):
    found = list(found)
    letters = {by: letter for by, letter in zip(
        dict.fromkeys(reading.origin for reading in found if reading.runs), "abcdefgh",
        strict=False)}
    rows = []
    for reading in found:
        cut = f" ({reading.steps} steps)" if reading.steps < readings.WHOLE else ""
        name = reading.name + cut
        if not reading.runs:
            rows.append((NAMES[reading.model], name, "not run", *[""] * 9))
            continue
        rows.append((
            NAMES[reading.model], name, reading.each("seed"),
            *(reading.each(key, ".2g") for key in LOSSES),
            reading.each("validation_accuracy", ".4f"),
            *(reading.each(f"t_f_{key}") for key in (
                "validation_loss", "train_accuracy", "validation_accuracy")),
            reading.each("spikes"), reading.each("level", ".2g"), letters[reading.origin]))
    for model, values in DOCUMENT.items():
        rows.append((NAMES[model], "*the document*", "0 / 42", *(
            plus_minus(values, key) for key in LOSSES), *OTHERS[model], "", "", ""))
    return Table(
        "Readings of the recipe, one value for each seed: lowest losses, best validation accuracy, "
        "the first steps of the lowest validation loss and of the best accuracies, spikes "
        f"(evaluations above {JUMP:g} times the median of the {BEFORE} before, once memorised) and "
        f"the median training loss of the last {BEFORE} evaluations. All of them: "
        "`python experiments/study.py puzzle`. By code: "
        + "; ".join(f"{letter}, {by}" for by, letter in letters.items()) + ".",
        ("model", "reading", "seeds", "L_train", "L_val", "A_val", "t_f(L_val)", "t_f(A_train)",
         "t_f(A_val)", "spikes", "last L_train", "code"), rows, left=3)


def plus_minus(values, key):
    return "{:.4f} ± {:.4f}".format(*values[key])


def answer(found):
    """Which readings fit, and in what, said by the rule."""
    said = []
    for model in readings.BOTH:
        for reading in (r for (m, _), r in found.items() if m == model):
            if not reading.runs or reading.steps < readings.WHOLE:
                continue
            fit = [SHORT[key] for key in DOCUMENT[model] if reading.near(key)]
            seeds = f", {len(reading.runs)} seed" + "s" * (len(reading.runs) > 1)
            said.append(f"{NAMES[model]}, {reading.name}{seeds}: "
                        + ("all three" if reading.fits() else ", ".join(fit) or "none"))
    return (
        "The answer. The document's text does not say that its gradients are clipped, nor how its "
        "gates start. The starter code that its course has published says both: it clips the "
        "gradient at global norm 1 before every update, and starts an LSTM's gates "
        "Xavier-uniform (Glorot & Bengio 2010) with biases of 0. That reading is *release*; "
        "npdl's default clips alike and leaves the gates at PyTorch's start. A reading is held "
        "against three numbers: the lowest training and "
        f"validation loss, within a factor {NEAR['train_loss']} of what the document's two seeds "
        "span, and the first step with all of the training set right, within a factor "
        f"{NEAR['t_f_train_accuracy']:g} and one evaluation (these bounds were set when the first "
        "runs were seen, the evaluation and the geometric mean of losses, both as in question 2, "
        "when the verdicts were; a reading holds or fails by its mean over the seeds, with no "
        "third outcome: what it does at half and at twice of these bounds, "
        f"{' and '.join(map(bounds, TIMES))}, and what the rule of question 2's table says of "
        "each number, stand beside it). "
        f"What fits: {'; '.join(said) or 'nothing was run'}. The "
        "validation loss of a model that is still generalising at the last step depends on when "
        "its seed began to, and so differs between seeds far more than the other two."
        + start_words(found)
    )


def start_words(found):
    """What the LSTM's two starts, both clipped, have for and against them."""
    pair = [found["lstm", name] for name in (RELEASED, CLIPPED)]
    if not all(reading.runs for reading in pair):
        return ""
    step, loss = (DOCUMENT["lstm"][key][0] for key in ("t_f_train_accuracy", "validation_loss"))
    (a, n), (b, m) = ((sum(value == step for value in reading.values("t_f_train_accuracy")),
                       len(reading.runs)) for reading in pair)
    means = [reading.mean("validation_loss") for reading in pair]
    far = [abs(math.log(mean / loss)) for mean in means]
    split = (a * m - b * n) * (far[1] - far[0]) <= 0
    return (f" The LSTM's two starts, both clipped: t_f(A_train) is the document's {step:g} in {a} "
            f"of {n} runs with Glorot's gates and in {b} of {m} with PyTorch's; the geometric mean "
            f"of L_val is {means[0]:.2g} and {means[1]:.2g}, the document's {loss:g}."
            + " So which start the document had stays open." * split)


def bounds(times):
    """"2 with 1.125": the factors for losses and steps."""
    return f"{bound('train_loss', times):g} with {bound('t_f_train_accuracy', times):g}"


def curves_figure(found):
    data = [{"model": NAMES[r.model], "name": r.name,
             "curves": [{"steps": list(steps), "loss": list(loss)} for steps, loss in r.curves]}
            for r in found if r.steps == readings.WHOLE and r.curves]
    return Figure("puzzle-training-loss", "P1",
                  "Training loss under the readings that were run to the end, a line for each "
                  f"seed. Strong: the median of {WINDOW} evaluations around a step; faint: each "
                  "evaluation. Dotted: the lowest loss that the document prints.", data,
                  draw_curves, size=(11, 4.6))


def draw_curves(figure, data):
    panels = figure.subplots(1, 2, sharey=True)
    colours = ("#8a8a8a", style.BLUE, style.ORANGE, style.GREEN)
    for axes, model in zip(panels, ("LSTM", "GPT"), strict=True):
        shown = [one for one in data if one["model"] == model]
        for one, colour in zip(shown, colours, strict=False):
            for i, curve in enumerate(one["curves"]):
                steps, loss = (np.array(curve[key]) for key in ("steps", "loss"))
                steps, loss = steps[steps >= 100], loss[steps >= 100]
                axes.plot(steps, loss, color=colour, linewidth=0.4, alpha=0.35, zorder=1)
                axes.plot(steps, running_median(loss), color=colour, linewidth=1.1,
                          label=None if i else words_of(one))
        axes.axhline(0.0001, color=style.INK, linestyle=":", linewidth=1)
        axes.set_yscale("log")
        axes.set_ylim(5e-5, 60)
        style.dress(axes, "step", "", model)
        if shown:
            axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    panels[0].set_ylabel("training loss")


def words_of(one):
    many = len(one["curves"])
    return f"{one['name']}, {many} seed{'s' * (many > 1)}"


def judged_table(found):
    """The readings that are judged: no claims of the document's, and so counted nowhere."""
    return verdict_table(
        [judged(found, model, name) for model in readings.BOTH for name in JUDGED[model]],
        "Whether a reading gives the document's numbers. The readings are npdl's own, and question "
        "2 has judged the numbers: none of these is counted as a claim.")


def judged(found, model, name):
    """The Verdict on one reading: does it give the document's losses, and its memorising?"""
    reading, values = found[model, name], DOCUMENT[model]
    document = (f"L_train {plus_minus(values, 'train_loss')}, L_val "
                f"{plus_minus(values, 'validation_loss')}, t_f(A_train) {OTHERS[model][2]}")
    where, claim = "table of 2", f"{NAMES[model]}: these follow under the reading: {name}"
    if not reading.runs:
        return Verdict(where, claim, document, "no run", MISSING)

    def verdict(times=1):
        return HOLDS if reading.fits(times) else FAILS

    ours = (f"{reading.each('train_loss', '.2g')}; {reading.each('validation_loss', '.2g')}; "
            f"{reading.each('t_f_train_accuracy')}")
    beside = half_and_twice(True, verdict) + ["by the rule of question 2's table: " + ", ".join(
        f"{SHORT[key]}: {compare(sanity.printed(model, key), reading.values(key))[0]}"
        for key in values)]
    return Verdict(where, claim, document, ours, verdict(), "; ".join(beside))

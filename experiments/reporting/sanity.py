"""Question 2 of Problem 4: the default recipe, and the document's two tables beside ours."""

import dataclasses

from experiments import study
from experiments.reporting.measures import MEMORISED
from experiments.reporting.parts import AGAIN, HOLDS, Section, Table
from experiments.reporting.records import NAMES, Spread, variant
from experiments.reporting.rules import Printed, compare, judge_number, silent
from experiments.reporting.shapes import figure, number, plus_minus, scale_of, steps_axis, y_of
from npdl.training.recipes import RECIPES

TABLE = "2, table"          # where the printed numbers stand
CONFIGS = {model: variant(model) for model in NAMES}
STEPS = study.BASE.steps

# What the document prints: mean, deviation. It prints none for the delays; theirs are the larger
# of the two that its other rows allow (exercises/LEDGER.md, "delay deviations").
DOCUMENT = {
    "lstm": {"train_loss": (0.0001, 0.0), "validation_loss": (0.0008, 0.0004),
             "train_accuracy": (1.0, 0.0), "validation_accuracy": (1.0, 0.0),
             "t_f_train_loss": (10001, 0), "t_f_validation_loss": (10001, 0),
             "t_f_train_accuracy": (300, 0), "t_f_validation_accuracy": (7850, 350),
             "delta_loss": (0, 0), "delta_accuracy": (7550, 350)},
    "gpt": {"train_loss": (0.0001, 0.0), "validation_loss": (0.0035, 0.0031),
            "train_accuracy": (1.0, 0.0), "validation_accuracy": (0.9979, 0.0021),
            "t_f_train_loss": (9750, 150), "t_f_validation_loss": (9100, 500),
            "t_f_train_accuracy": (82.5, 5.5), "t_f_validation_accuracy": (8400, 200),
            "delta_loss": (-650, 650), "delta_accuracy": (8318, 205.5)},
}
ROWS = {"train_loss": "L_train", "validation_loss": "L_val", "train_accuracy": "A_train",
        "validation_accuracy": "A_val", "t_f_train_loss": "t_f(L_train)",
        "t_f_validation_loss": "t_f(L_val)", "t_f_train_accuracy": "t_f(A_train)",
        "t_f_validation_accuracy": "t_f(A_val)", "delta_loss": "Δt(L)", "delta_accuracy": "Δt(A)"}
DELAYS = {"delta_loss": "t_f(L_val) less t_f(L_train)",
          "delta_accuracy": "t_f(A_val) less t_f(A_train)"}
EASY = 2 / 3                    # of a model's runs: a row that as many satisfy says little
TAU = {"lstm": (0.05, 0.25), "gpt": (0.06, 0.40)}       # seconds a step: with a GPU, without
ROUNDING = 0.00005              # of the tables' four decimals


def value(run, row):
    """The number that a row of the table has for a run."""
    if row.startswith("delta_"):
        name = row.removeprefix("delta_")
        return run.first(f"validation_{name}") - run.first(f"train_{name}")
    return run.first(row[4:]) if row.startswith("t_f_") else run.best(row)


def slack(model, row):
    """How far a printed number may be off: its rounding, or the grid of evaluations."""
    if not row.startswith(("t_f", "delta")):
        return ROUNDING
    if model == "gpt" and row == "t_f_train_accuracy":
        return 1.0              # both within the first 100 steps, which are all evaluated
    return 100.0


def section(store):
    """The Section on the sanity check."""
    every = list(CONFIGS.values())
    store = store.chosen(every, ("default",))
    made = Section("Sanity check (questions 1 and 2)")
    made.parts.append(
        "The default recipe: addition modulo 31, r_train = 0.5, two layers of width 128, AdamW "
        "with weight decay 1, T = 10001. Three readings of what the text leaves open: *default*, "
        "*release* (as the published starter code of the course has it) and *stated* (nothing "
        "added). The verdicts are on the default, with the others beside them. "
        + store.words(every))
    made.parts += [curves_figure(store, model, label) for model, label in (("lstm", "1"),
                                                                          ("gpt", "2"))]
    made.parts += [comparison(store), easy_rows(store), seconds_words(store)]
    made.verdicts = [silent(f"Figure {i + 1}", f"loss and accuracy of the {NAMES[model]}")
                     for i, model in enumerate(CONFIGS)]
    made.verdicts += numbers(store)
    return made


def seconds_words(store):
    """npdl's own seconds a step beside the document's τ."""
    said = []
    for model, (gpu, cpu) in TAU.items():
        runs = [run for run in store.all_runs(CONFIGS[model]).values() if "seconds" in run.made]
        if runs:
            each = [run.made["seconds"] / run.config.steps for run in runs]
            said.append(f"{NAMES[model]} {min(each):.3f} to {max(each):.3f} s (the document: "
                        f"{gpu:g} s with a GPU, {cpu:.2f} s without)")
    return ("τ, the seconds of a step with its evaluations, of npdl's runs, one core each, two "
            f"at a time: {'; '.join(said) or 'no run says'}. Machines differ: this is no verdict. "
            "(The document's minutes are judged, as arithmetic, in the ledger.)")


def printed(model, row):
    """What the document prints in a row, as the rule of printed numbers takes it."""
    return Printed(*DOCUMENT[model][row], slack(model, row), row.startswith("delta"),
                   row.endswith("loss") and not row.startswith(("t_f", "delta")))


def numbers(store):
    return [once(row, judge_number(
        store, TABLE, f"{NAMES[model]} {name}", printed(model, row), CONFIGS[model],
        lambda run, row=row: value(run, row), lambda v, row=row: shown(row, v)))
        for model in CONFIGS for row, name in ROWS.items()]


def once(row, verdict):
    """The Verdict of a row, as said before where two other rows say it: a delay is between two."""
    if row not in DELAYS:
        return verdict
    return dataclasses.replace(verdict, verdict=AGAIN, ours=(
        f"as {DELAYS[row]}; by itself: {verdict.verdict}, {verdict.ours}"))


def easy_rows(store):
    """Which rows most runs that memorise satisfy, as a sentence."""
    said, many = [], []
    for model in CONFIGS:
        runs = [run for run in store.every() if run.best("train_accuracy") >= MEMORISED
                and (run.config.model, run.config.steps) == (model, STEPS)]
        many.append(f"{len(runs)} of the {NAMES[model]}")
        for row, name in ROWS.items():
            true = sum(compare(printed(model, row), [value(run, row)])[0] == HOLDS for run in runs)
            if row not in DELAYS and true and true >= EASY * len(runs):
                said.append(f"{NAMES[model]} {name} ({true})")
    return (f"A row that most runs satisfy says little. Of all kept runs of {STEPS} steps that "
            f"memorise (A_train ≥ {MEMORISED:g}), whatever their setting and recipe "
            f"({', '.join(many)}), at least two in three, each by itself, satisfy "
            f"{', '.join(said) or 'no row'}.")


def shown(row, value):
    """A number as the document's tables have it, or a small loss to two digits."""
    if row.startswith(("t_f", "delta")):
        return number("t_f", value)
    return number(row, value) if value else "0.0000"


def curves_figure(store, model, label):
    config = CONFIGS[model]
    panels = []
    for what in ("loss", "accuracy"):
        lines = []
        for part in ("train", "validation"):
            lines.append({"label": {"train": "training"}.get(part, part),
                          **store.curve(config, f"{part}_{what}")})
        metric = f"train_{what}"
        panels.append({"title": what, "y": y_of(metric).replace("_train", ""),
                       "scale": scale_of(metric), "lines": lines})
    data = {"shape": [1, 2], "x": steps_axis(config.steps),
            "bar": None, "panels": panels}
    return figure(store, label, f"fig{int(label):02}-sanity-{model}",
                  f"{NAMES[model]}: loss (left) and accuracy (right) over the training steps.",
                  data, [config], lambda c: NAMES[c.model], (10, 3.8))


def comparison(store):
    """The document's tables beside ours by each recipe; of the default's, the better in bold."""
    columns, rows = [], []
    for model, config in CONFIGS.items():
        for recipe in RECIPES:
            if model == "lstm" or recipe != "release":      # a GPT's release is its default
                columns.append((model, recipe, store.by([config], recipe).all_runs(config)))
    for row, name in ROWS.items():
        kind, cells = "t_f" if row.startswith("delta") else row, {}
        for model, recipe, runs in columns:
            spread = Spread.of(value(run, row) for run in runs.values())
            cells[model, recipe] = spread.mean, plus_minus(kind, spread)
        means = [cells[model, "default"][0] for model in CONFIGS]
        better = max if "accuracy" in row and not row.startswith("t_f") else min
        known = None not in means and means[0] != means[1] and not row.startswith("delta")
        best = better(means) if known else None
        texts = [name]
        for model in CONFIGS:
            texts += [f"**{text}**" if mean == best and best is not None
                      and recipe == "default" else text
                      for (m, recipe), (mean, text) in cells.items() if m == model]
            texts.append(printed_text(row, Spread(*DOCUMENT[model][row], (0, 0))))
        rows.append(texts)
    heading = [""]
    for model in CONFIGS:
        heading += [f"{NAMES[model]}, {recipe} ({seeds_count(runs)})"
                    for m, recipe, runs in columns if m == model]
        heading.append(f"{NAMES[model]}, document")
    apart = sorted({run.origin for *_, runs in columns for run in runs.values()})
    return Table(
        "Best losses and accuracies over all steps, the first steps t_f that reached them, and the "
        "delays Δt = t_f(val) - t_f(train): mean ± population standard deviation over the seeds. "
        "Bold: the better of our two models by the default recipe. A GPT's release is its default."
        + (f" The columns are by different code ({'; '.join(apart)}); no column mixes two."
           if len(apart) > 1 else ""), heading, rows)


def in_brief(table):
    """The Table of `comparison` in a few numbers, a row for each model and recipe."""
    names = ["L_train", "L_val", "A_val", "t_f(A_train)", "t_f(A_val)"]
    rows = [[cell.replace("*", "") for cell in row] for row in table.rows if row[0] in names]
    return Table("", ("", *(row[0] for row in rows)),
                 [(head, *(row[i] for row in rows)) for i, head in enumerate(table.heading) if i])


def seeds_count(runs):
    return "no run" if not runs else f"{len(runs)} seed{'s' * (len(runs) > 1)}"


def printed_text(row, spread):
    if row.startswith("delta"):
        return number("t_f", spread.mean)
    return f"{shown(row, spread.mean)} ± {shown(row, spread.std)}"

"""Question 2 of Problem 4: the default recipe, and the document's two tables beside ours."""

from reporting.parts import Section, Table
from reporting.records import NAMES, Spread, as_stated, variant
from reporting.rules import Printed, judge_number, silent
from reporting.shapes import figure, number, plus_minus, scale_of, steps_axis, y_of

CONFIGS = {model: variant(model) for model in NAMES}

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
    made = Section("Sanity check (questions 1 and 2)")
    made.parts.append(
        "The default recipe: addition modulo 31, r_train = 0.5, two layers of width 128, AdamW "
        "with weight decay 1, T = 10001, and what the reading adds to it. The table also has the "
        "recipe with nothing added, *as stated*; the verdicts are on the reading.")
    made.parts += [curves_figure(store, model, label) for model, label in (("lstm", "1"),
                                                                          ("gpt", "2"))]
    made.parts.append(comparison(store))
    made.verdicts = [silent(f"Figure {i + 1}", f"loss and accuracy of the {NAMES[model]}")
                     for i, model in enumerate(CONFIGS)]
    made.verdicts += numbers(store)
    return made


def numbers(store):
    return [judge_number(
        store, "2, table", f"{NAMES[model]} {name}",
        Printed(*DOCUMENT[model][row], slack(model, row), row.startswith("delta")), CONFIGS[model],
        lambda run, row=row: value(run, row), lambda v, row=row: shown(row, v))
        for model in CONFIGS for row, name in ROWS.items()]


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
            curve = store.curve(config, f"{part}_{what}")
            lines.append({"label": {"train": "training"}.get(part, part), "x": curve["step"],
                          "mean": curve["mean"], "std": curve["std"]})
        metric = f"train_{what}"
        panels.append({"title": what, "y": y_of(metric).replace("_train", ""),
                       "scale": scale_of(metric), "lines": lines})
    data = {"shape": [1, 2], "x": steps_axis(config.steps),
            "bar": None, "panels": panels}
    return figure(store, label, f"fig{int(label):02}-sanity-{model}",
                  f"{NAMES[model]}: loss (left) and accuracy (right) over the training steps.",
                  data, [config], lambda c: NAMES[c.model], (10, 3.8))


def comparison(store):
    """The document's tables and ours, side by side; of ours, the better model in bold."""
    rows = []
    for row, name in ROWS.items():
        def of(run, row=row):
            return value(run, row)

        spreads = [store.spread(CONFIGS[m], of) for m in CONFIGS]
        means = [spread.mean for spread in spreads]
        better = max if "accuracy" in row and not row.startswith("t_f") else min
        known = None not in means and means[0] != means[1] and not row.startswith("delta")
        best = better(means) if known else None
        cells = [name]
        for model, spread in zip(CONFIGS, spreads, strict=True):
            text = plus_minus("t_f" if row.startswith("delta") else row, spread)
            cells += [f"**{text}**" if best is not None and spread.mean == best else text,
                      plus_minus("t_f" if row.startswith("delta") else row,
                                 store.spread(as_stated(model), of)),
                      printed_text(row, Spread(*DOCUMENT[model][row], (0, 0)))]
        rows.append(cells)
    return Table(
        "Best losses and accuracies over all steps, the first steps t_f that reached them, and the "
        "delays Δt = t_f(val) - t_f(train): mean ± population standard deviation over the seeds. "
        "Bold: the better of our two models, under the reading.",
        ("", *(f"{NAMES[model]}, {who}" for model in CONFIGS
               for who in ("ours", "as stated", "document"))), rows)


def printed_text(row, spread):
    if row.startswith("delta"):
        return number("t_f", spread.mean)
    return f"{shown(row, spread.mean)} ± {shown(row, spread.std)}"

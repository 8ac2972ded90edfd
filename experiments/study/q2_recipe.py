"""Questions 1 and 2: the default recipe, and the numbers that the document prints of it."""

import itertools
import math
from functools import partial

from experiments.study.judge import JUDGED, Claim
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    APART,
    GENERAL,
    L_TRAIN,
    L_VAL,
    MEMORISED,
    NEAR,
    TWICE,
    lower,
    mean,
    ranks,
    sooner,
    span,
    when,
)
from experiments.study.pages import Table
from experiments.study.panels import both_parts, figure, number, plus_minus
from experiments.study.records import FURTHER, GRID, NAMES, SEEDS, variant

CONFIGS = {model: variant(model) for model in NAMES}
# What the document prints: mean, deviation. It prints none for the delays; theirs are the larger
# of the two that its other rows allow.
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


def counts(row):
    """Whether a row counts steps."""
    return row.startswith("t_f")


def bounds(model, row):
    """(lowest, highest) that is as good as the printed mean ± deviation, the range of the
    document's own two runs, with what rounding hides of it and a tolerance."""
    mean, deviation = DOCUMENT[model][row]
    if row.endswith("accuracy") and not counts(row):
        return mean - deviation - ROUNDING - NEAR, mean + deviation + ROUNDING + NEAR
    if not counts(row):
        return (mean - deviation - ROUNDING) / TWICE, (mean + deviation + ROUNDING) * TWICE
    low, high = mean - deviation, mean + deviation
    grid = 1.5 * (1 if mean <= GRID else GRID)
    return min(low / APART, low - grid), max(high * APART, high + grid)


def agrees(model, row, runs):
    """Two parts: our number is not below the bounds, and not above them."""
    (low, high), ours = bounds(model, row), value(runs[model], row)
    if row.endswith("accuracy") and not counts(row):
        return [ours - low, high - ours], [ours]
    if counts(row):
        first, last, at = math.log10(low), math.log10(high), when(ours, CONFIGS[model].steps)
        return [sooner((first, first), at), sooner(at, (last, last))], [ours]
    return [lower(low, ours), lower(ours, high)], [ours]


def ranks_among(model, row, seeds):
    """The ranks of the document's two values among ours by default, and how often two of so many
    alike values lie so far out."""
    mean, deviation = DOCUMENT[model][row]
    both = [mean - deviation, mean + deviation]
    every = ranks([*both, *(value(runs[model], row) for runs in seeds.values())])
    pairs = [a + b for a, b in itertools.combinations(every, 2)]
    middle = len(every) + 1
    chance = sum(abs(pair - middle) >= abs(every[0] + every[1] - middle) - 1e-9
                 for pair in pairs) / len(pairs)
    return (f"ranks {every[0]:g} and {every[1]:g} of {len(every)} by default, by chance in "
            f"{100 * chance:.0f} %")


def claims():
    return [Claim("2, table", f"{NAMES[model]} {name}", text(model, row), {model: CONFIGS[model]},
                  partial(agrees, model, row), "seeds 0 and 42",
                  note=partial(ranks_among, model, row))
            for model in CONFIGS for row, name in ROWS.items() if not row.startswith("delta")]


def text(model, row):
    mean, deviation = DOCUMENT[model][row]
    return f"{mean:g} ± {deviation:g}" if counts(row) else f"{mean:.4f} ± {deviation:.4f}"


RUNS = [variant(model, seed=seed) for seed in SEEDS for model in NAMES]
MORE = [variant(model, seed=seed) for seed in FURTHER for model in NAMES]


# --- figures, table, numbers ----------------------------------------------------------------------
COLUMNS = (("lstm", "default"), ("lstm", "release"), ("lstm", "stated"), ("gpt", "default"),
           ("gpt", "stated"))


def figures(store):
    return [figure(f"fig0{i}-sanity-{model}", str(i), f"{NAMES[model]}: loss and accuracy over the "
                   "training steps.", both_parts(store, CONFIGS[model]), (10, 3.8))
            for i, model in enumerate(CONFIGS, 1)]


def table(store):
    """The document's tables beside ours by each recipe; the better model by default is bold."""
    heading, columns, bold = [""], [], better(store)
    for model, recipe in COLUMNS:
        runs = store.runs(CONFIGS[model], recipe).values()
        heading.append(f"{NAMES[model]}, {recipe} ({len(runs)} seeds)")
        cells = {row: plus_minus("t_f" if row.startswith("delta") else row,
                                 [value(run, row) for run in runs]) for row in ROWS}
        columns.append([f"**{cell}**" if recipe == "default" and bold.get(row) == model else cell
                        for row, cell in cells.items()])
        if recipe == "stated":              # the last of a model: then what the document prints
            heading.append(f"{NAMES[model]}, document")
            columns.append([printed(model, row) for row in ROWS])
    return Table(heading, [[name, *cells] for name, *cells in zip(ROWS.values(), *columns,
                                                                  strict=True)])


def better(store):
    """{row: the model that is better in it by default}, where one is."""
    made = {}
    for row in ROWS:
        means = {model: mean(value(run, row) for run in store.runs(config).values())
                 for model, config in CONFIGS.items()}
        best = max if row.endswith("accuracy") and not counts(row) else min
        if not row.startswith("delta") and len(set(means.values())) > 1:
            made[row] = best(means, key=means.get)
    return made


def printed(model, row):
    if row.startswith("delta"):
        return number("t_f", DOCUMENT[model][row][0])
    return text(model, row)


def values(store):
    """What the page on this question has of numbers."""
    made = {"2 table": table(store)}
    for model, config in CONFIGS.items():
        runs = store.runs(config).values()
        for name, metric, limit in (("known", A_TRAIN, MEMORISED), ("general", A_VAL, GENERAL)):
            steps = [run.reach(metric, limit) for run in runs]
            made[f"2 {model} {name}"] = span(steps, "{:,.0f}")
    clipped, stated = ([run.best(L_TRAIN) for run in store.runs(CONFIGS["gpt"], recipe).values()]
                       for recipe in JUDGED["gpt"])
    made |= {"2 gpt clipped": span(clipped), "2 gpt stated": span(stated)}
    for recipe in JUDGED["lstm"]:
        runs = store.runs(CONFIGS["lstm"], recipe).values()
        made[f"2 {recipe} 300"] = f"{sum(run.first(A_TRAIN) == 300 for run in runs)} of {len(runs)}"
        made[f"2 {recipe} loss"] = f"{10 ** mean(math.log10(run.best(L_VAL)) for run in runs):.2g}"
    return made


def starts_differ(store):
    """Whether the LSTM's two starts are each nearer to the document in one number."""
    far = {}
    for recipe in JUDGED["lstm"]:
        runs = store.runs(CONFIGS["lstm"], recipe).values()
        loss = mean(math.log(run.best(L_VAL) / DOCUMENT["lstm"][L_VAL][0]) for run in runs)
        far[recipe] = abs(loss), mean(abs(run.first(A_TRAIN) - 300) for run in runs)
    (a, b), (c, d) = far["default"], far["release"]
    return a < c and d < b


def facts(store):
    """{what the page says beside its numbers: whether it is so}."""
    every = {model: store.runs(config).values() for model, config in CONFIGS.items()}
    stated = store.runs(CONFIGS["gpt"], "stated").values()
    return {
        "both models generalise with every seed": all(
            run.best(A_VAL) >= GENERAL for runs in every.values() for run in runs),
        "thousands of steps after they know their training set": all(
            run.reach(A_VAL, GENERAL) - run.reach(A_TRAIN, MEMORISED) >= 2000
            for runs in every.values() for run in runs),
        "they know it within some hundred steps": all(
            run.reach(A_TRAIN, MEMORISED) <= 500 for runs in every.values() for run in runs),
        "t_f(A_train) speaks for the release start, L_val for the default's": starts_differ(store),
        "without clipping the GPT's loss stays a hundred times above the document's": all(
            70 <= run.best(L_TRAIN) / DOCUMENT["gpt"][L_TRAIN][0] <= 200 for run in stated),
    }

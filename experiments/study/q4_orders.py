"""Question 4: sums of two and of three numbers modulo 11, learned together."""

import math

from experiments.study.judge import Claim
from experiments.study.measures import APART, GENERAL, MEMORISED, middle, sooner, when, within
from experiments.study.pages import Table
from experiments.study.panels import (
    LABELS,
    TITLES,
    both_parts,
    curve,
    figure,
    panel,
    plus_minus,
    steps_axis,
)
from experiments.study.records import GRID, NAMES, SEEDS, variant
from npdl_train.runs.metrics import METRICS

CONFIGS = {model: variant(model, p=11, orders=(2, 3), stratified=True) for model in NAMES}
RUNS = [variant(m, p=11, orders=(2, 3), stratified=True, seed=seed) for seed in SEEDS
        for m in NAMES]
ORDERS = {2: "binary", 3: "ternary"}
SPOKEN = (("gpt", "default"), ("lstm", "default"), ("lstm", "release"))


def reached(run, part):
    """The steps at which each order's accuracy reaches the limit of a part of the data."""
    limit = {"train": MEMORISED, "validation": GENERAL}[part]
    return [run.reach(f"{part}_accuracy_order{order}", limit) for order in ORDERS]


def times(run, part):
    return [when(step, run.config.steps) for step in reached(run, part)]


def binary_first(part):
    """Is the accuracy on binary operations the first to reach the limit?"""
    return lambda runs: ([sooner(*times(runs["gpt"], part))], reached(runs["gpt"], part))


def steadier_on_binary(runs):
    lost = [runs["gpt"].shortfall(f"validation_accuracy_order{order}") for order in ORDERS]
    return [lost[1] - lost[0]], lost


def less_steady(runs):
    lost = [runs[model].shortfall() for model in NAMES]
    return [lost[0] - lost[1]], lost


def no_preference(runs):
    run, data = runs["lstm"], ("train", "validation")
    parts = [part for of in data for part in within(sooner(*times(run, of)), math.log10(APART))]
    return parts, [step for of in data for step in reached(run, of)]


def claims():
    gpt, lstm = {"gpt": CONFIGS["gpt"]}, {"lstm": CONFIGS["lstm"]}
    steps = "steps, binary, ternary"
    return [
        Claim("4 (c)", "the GPT memorises binary operations sooner than ternary ones",
              "binary are learned faster", gpt, binary_first("train"), steps),
        Claim("4 (c)", "the GPT generalises on binary operations sooner than on ternary ones",
              "binary are learned faster", gpt, binary_first("validation"), steps),
        Claim("4 (c)", "the GPT's A_val is steadier on binary operations",
              "more stably than ternary", gpt, steadier_on_binary,
              "mean shortfall, binary, ternary"),
        Claim("4 (c)", "the LSTM's learning is less steady than the GPT's",
              "unstable learning overall, in contrast", CONFIGS, less_steady,
              "mean shortfall, LSTM, GPT"),
        Claim("4 (c)", "the LSTM has no clear preference for either order",
              "no clear preference or efficiency", lstm, no_preference,
              "steps to A_train and to A_val, binary, ternary"),
    ]


# --- figures, table, numbers ----------------------------------------------------------------------
PLACES = (("lstm", "", "6"), ("gpt", "", "7"), ("gpt", "_order2", "8"), ("gpt", "_order3", "9"),
          ("lstm", "_order2", "10"), ("lstm", "_order3", "11"))
WHICH = {"": "all", "_order2": "binary", "_order3": "ternary"}


def figures(store):
    return [*(figure(f"fig{int(label):02}-mixed-{model}{suffix.replace('_', '-')}", label,
                     f"{NAMES[model]}, p = 11: loss and accuracy on {WHICH[suffix]} equations.",
                     both_parts(store, CONFIGS[model], suffix), (10, 3.8))
              for model, suffix, label in PLACES),
            figure("mixed-orders", "Q4", "Accuracy on binary and on ternary equations, p = 11.",
                   beside(store), (10, 6.2))]


def beside(store):
    """Data of binary beside ternary sums, which the answer compares."""
    panels = [panel(f"{NAMES[model]}: {TITLES[metric]}", metric,
                    [{"label": name, **curve(store, config, f"{metric}_order{order}")}
                     for order, name in ORDERS.items()])
              for metric in ("train_accuracy", "validation_accuracy")
              for model, config in CONFIGS.items()]
    return {"shape": [2, 2], "x": steps_axis(CONFIGS["gpt"].steps), "bar": None, "panels": panels}


def table(store):
    rows = [(NAMES[model], name, *(plus_minus(m, [run.best(m + suffix) for run in store.runs(
        config).values()]) for m in METRICS))
        for model, config in CONFIGS.items() for suffix, name in WHICH.items()]
    return Table(("model", "equations", *(LABELS[m] for m in METRICS)), rows, left=2)


def steps_table(store):
    """When the runs know, and generalise on, either order."""
    rows = []
    for model, recipe in SPOKEN:
        runs = store.runs(CONFIGS[model], recipe).values()
        cells = [middle(steps, "{:.0f}") for part in ("train", "validation")
                 for steps in zip(*(reached(run, part) for run in runs), strict=True)]
        rows.append((NAMES[model], recipe, *cells, first(runs)))
    return Table(("model", "recipe", *(
        f"{name}, {of} ≥ {limit:g}" for of, limit in (("A_train", MEMORISED), ("A_val", GENERAL))
        for name in ORDERS.values()), "ternary first"), rows, left=2)


def first(runs):
    """In how many runs the model generalises on ternary sums first."""
    before = [three < two for two, three in (reached(run, "validation") for run in runs)]
    return f"{sum(before)} of {len(before)}"


def values(store):
    config = CONFIGS["gpt"]
    low = [min(v for t, v in run.points(f"validation_accuracy_order{order}") if t >= at)
           for run in store.runs(config).values() for order in ORDERS
           if math.isfinite(at := run.reach(f"validation_accuracy_order{order}", GENERAL))]
    return {"4 table": steps_table(store), "4 gpt lowest": f"{min(low):.2f}",
            "4 gpt first": first(store.runs(config).values()),
            "4 binary held out": f"{round(config.p**2 * (1 - config.r_train))}"}


def facts(store):
    gpt = [reached(run, "validation") for run in store.runs(CONFIGS["gpt"]).values()]
    lstm = [reached(run, "validation") for recipe in ("default", "release")
            for run in store.runs(CONFIGS["lstm"], recipe).values()]
    known = [reached(run, "train") for model, recipe in SPOKEN
             for run in store.runs(CONFIGS[model], recipe).values()]
    return {"both orders are known within one evaluation of each other": all(
                abs(a - b) <= GRID for a, b in known),
            "the GPT generalises on ternary sums first, with every seed but one": sum(
                three < two for two, three in gpt) == len(gpt) - 1,
            "the LSTM's order differs between its runs": len({a < b for a, b in lstm}) == 2}

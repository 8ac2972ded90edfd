"""Question 4 of Problem 4: sums of two and of three numbers modulo 11, learned together."""

import math

from experiments.reporting.measures import GENERAL, MEMORISED, relaxed, steps
from experiments.reporting.parts import Section, Table
from experiments.reporting.records import NAMES, Spread, variant
from experiments.reporting.rules import Statement, judge, silent
from experiments.reporting.shapes import (
    figure,
    plus_minus,
    scale_of,
    steps_axis,
    title_of,
    y_of,
)
from npdl.training.metrics import METRICS

CONFIGS = {model: variant(model, p=11, orders=(2, 3), stratified=True) for model in NAMES}
ORDERS = {2: "binary", 3: "ternary"}
APART = 1.25                # a preference: one needs so many times the other's steps
NEAR = 0.05                 # accuracies that near are equal
PLACES = (("gpt", 2, "8"), ("gpt", 3, "9"), ("lstm", 2, "10"), ("lstm", 3, "11"))


def section(store):
    """The Section on mixed orders."""
    both = list(CONFIGS.values())
    store = store.chosen(both)
    made = Section("Binary and ternary sums together (question 4)", [store.words(both)])
    for label, model in (("6", "lstm"), ("7", "gpt")):
        made.parts.append(picture(store, label, model, "", "all equations"))
    for model, order, label in PLACES:
        made.parts.append(picture(store, label, model, f"_order{order}",
                                  f"{ORDERS[order]} equations"))
    made.parts += [orders_picture(store), order_table(store)]
    names = {"6": "the LSTM's curves", "7": "the GPT's curves"}
    names |= {label: f"the {NAMES[m]}'s curves on {ORDERS[order]} operations"
              for m, order, label in PLACES}
    made.verdicts = [silent(f"Figure {label}", name) for label, name in names.items()]
    made.verdicts += [judge(store, statement) for statement in statements()]
    return made


def picture(store, label, model, suffix, what):
    config = CONFIGS[model]
    panels = []
    for quantity in ("loss", "accuracy"):
        lines = []
        for part, name in (("train", "training"), ("validation", "validation")):
            metric = f"{part}_{quantity}{suffix}"
            lines.append({"label": name, **store.curve(config, metric)})
        metric = f"train_{quantity}"
        panels.append({"title": title_of(metric + suffix).replace("training ", ""),
                       "y": y_of(metric).replace("_train", ""), "scale": scale_of(metric),
                       "lines": lines})
    data = {"shape": [1, 2], "x": steps_axis(config.steps),
            "bar": None, "panels": panels}
    tail = suffix.replace("_order", "-order")
    return figure(store, label, f"fig{int(label):02}-mixed-{model}{tail}",
                  f"{NAMES[model]}, p = 11, both orders in training: loss and accuracy on {what}.",
                  data, [config], lambda c: NAMES[c.model], (10, 3.8))


def orders_picture(store):
    """Binary beside ternary: a figure of our own, for what the answer compares."""
    panels = []
    for metric in ("train_accuracy", "validation_accuracy"):
        for model, config in CONFIGS.items():
            lines = [{"label": name, **store.curve(config, f"{metric}_order{order}")}
                     for order, name in ORDERS.items()]
            panels.append({"title": f"{NAMES[model]}: {title_of(metric)}", "y": y_of(metric),
                           "scale": scale_of(metric), "lines": lines})
    both = list(CONFIGS.values())
    data = {"shape": [2, 2], "x": steps_axis(both[0].steps), "bar": None, "panels": panels}
    return figure(store, "Q4", "mixed-orders", "Accuracy on binary and on ternary equations, both "
                  "in training, p = 11.", data, both, lambda c: NAMES[c.model], (10, 6.2))


def order_table(store):
    rows = []
    for model, config in CONFIGS.items():
        for order, name in (("", "both"), ("_order2", "binary"), ("_order3", "ternary")):
            cells = [NAMES[model], name]
            cells += [plus_minus(m, store.spread(config, lambda run, m=m + order: run.best(m)))
                      for m in METRICS]
            for part, limit in (("train", MEMORISED), ("validation", GENERAL)):
                found = [run.reach(f"{part}_accuracy{order}", limit)
                         for run in store.runs(config).values()]
                cells.append(reached(found))
            rows.append(cells)
    return Table(
        "Best values over all steps, and the first step with an accuracy of at least "
        f"{MEMORISED:g} in training and {GENERAL:g} in validation: mean ± deviation over the "
        "seeds.",
        ("model", "equations", "L_train", "L_val", "A_train", "A_val", f"A_train ≥ {MEMORISED:g}",
         f"A_val ≥ {GENERAL:g}"), rows, left=2)


def reached(found):
    """Steps of the seeds as mean ± deviation, or what there is to say."""
    if not found:
        return "not run"
    if any(map(math.isinf, found)):
        return steps(found)
    return plus_minus("t_f", Spread.of(found))


# --- statements ---------------------------------------------------------------------------------
def statements():
    gpt, lstm = {"gpt": CONFIGS["gpt"]}, {"lstm": CONFIGS["lstm"]}
    return [
        Statement("4 (c)", "the GPT memorises binary operations sooner than ternary ones",
                  "binary are learned faster", gpt,
                  lambda runs, times=1: sooner(runs["gpt"], "train", MEMORISED, times),
                  threshold=True),
        Statement("4 (c)", "the GPT generalises on binary operations sooner than on ternary ones",
                  "binary are learned faster", gpt,
                  lambda runs, times=1: sooner(runs["gpt"], "validation", GENERAL, times),
                  threshold=True),
        Statement("4 (c)", "the GPT's A_val is steadier on binary operations",
                  "more stably than ternary", gpt, steadier_on_binary),
        Statement("4 (c)", "the LSTM's learning is less steady than the GPT's",
                  "unstable learning overall, in contrast", {**gpt, **lstm}, less_steady),
        Statement("4 (c)", "the LSTM has no clear preference for either order",
                  "no clear preference or efficiency", lstm, no_preference,
                  threshold=("the difference", "A_train and A_val")),
    ]


def sooner(run, part, limit, times=1):
    """Is the accuracy on binary operations the first to reach a limit?"""
    two, three = (run.reach(f"{part}_accuracy_order{order}", relaxed(limit, times))
                  for order in ORDERS)
    return two < three, f"binary {steps([two])}, ternary {steps([three])}"


def steadier_on_binary(runs):
    two, three = (runs["gpt"].shortfall(f"validation_accuracy_order{order}") for order in ORDERS)
    return two < three, f"mean shortfall {two:.4f} binary, {three:.4f} ternary"


def less_steady(runs):
    lost = {model: run.shortfall() for model, run in runs.items()}
    return lost["lstm"] > lost["gpt"], (
        f"mean shortfall of A_val {lost['lstm']:.4f} (LSTM), {lost['gpt']:.4f} (GPT)")


def no_preference(runs, times=1, accuracy=1):
    run = runs["lstm"]
    even, words = True, []
    for part, limit in (("train", MEMORISED), ("validation", GENERAL)):
        found = [run.reach(f"{part}_accuracy_order{order}", relaxed(limit, accuracy))
                 for order in ORDERS]
        best = [run.best(f"{part}_accuracy_order{order}") for order in ORDERS]
        if all(map(math.isinf, found)):
            even &= abs(best[0] - best[1]) <= NEAR * times
        else:
            even &= max(found) <= (1 + (APART - 1) * times) * min(found)
        words.append(f"A_{'val' if part == 'validation' else part} ≥ {limit:g} at {steps(found)} "
                     f"(best {best[0]:.3f}, {best[1]:.3f})")
    return even, "binary, ternary: " + "; ".join(words)

"""The summary of a run: its best loss and accuracy, and the steps that first reached them.

Notation of the tables: L is the lowest loss and A the highest accuracy of a run, t_f(.) the first
step that reached it, and Δt = t_f(val) - t_f(train) the delay from memorising the training set to
generalising to the validation set.
"""

import math
from types import NoneType

from npdl.errors import InputError
from npdl.files import read_json, reason
from npdl.train.metrics import METRICS

THRESHOLDS = (0.5, 0.9, 0.99)

# (label, key of the summary, which value is the better one or None); the order of the tables
ROWS = (
    ("L_train", "train_loss", min),
    ("L_val", "validation_loss", min),
    ("A_train", "train_accuracy", max),
    ("A_val", "validation_accuracy", max),
    ("t_f(L_train)", "t_f_train_loss", min),
    ("t_f(L_val)", "t_f_validation_loss", min),
    ("t_f(A_train)", "t_f_train_accuracy", min),
    ("t_f(A_val)", "t_f_validation_accuracy", min),
    ("Δt(L)", "delta_t_loss", None),
    ("Δt(A)", "delta_t_accuracy", None),
)


def summarise(records):
    """Return the summary of one run from its records, each with `step` and any of METRICS.

    Keys, each None where the run has no such value: the four METRICS (lowest loss, highest
    accuracy), `t_f_<metric>`, `delta_t_loss`, `delta_t_accuracy`,
    `step_<split>_accuracy_<threshold>` (the first step with at least that accuracy), and `final`,
    the values of the record with the largest step.
    """
    if not records:
        raise InputError("no records to summarise; log at least one evaluation first")
    summary, points = {}, {}
    for metric in METRICS:
        pairs = ((record.get(metric), record["step"]) for record in records)
        points[metric] = [(value, step) for value, step in pairs
                          if value is not None and math.isfinite(value)]
        sign = 1 if metric.endswith("loss") else -1
        best, step = min(((sign * value, step) for value, step in points[metric]),
                         default=(None, None))
        summary[metric] = None if best is None else sign * best
        summary[f"t_f_{metric}"] = step
    for name in ("loss", "accuracy"):
        train, validation = summary[f"t_f_train_{name}"], summary[f"t_f_validation_{name}"]
        known = train is not None and validation is not None
        summary[f"delta_t_{name}"] = validation - train if known else None
    for metric in METRICS[2:]:
        for threshold in THRESHOLDS:
            reached = (step for value, step in points[metric] if value >= threshold)
            summary[f"step_{metric}_{threshold}"] = min(reached, default=None)
    last = max(records, key=lambda record: record["step"])
    summary["final"] = {key: last.get(key) for key in ("step", *METRICS)}
    return summary


def read_summary(path):
    """Return a run's summary.json: the keys of `summarise`, `seconds` and `steps`.

    Raises InputError if one of them is missing or not a number.
    """
    known = summarise([{"step": 0}])
    final = known.pop("final")
    try:
        found = read_json(path)
        summary = {name: found[name] for name in (*known, "seconds", "steps")}
        summary["final"] = {name: found["final"][name] for name in final}
        for name, value in (*summary.items(), *summary["final"].items()):
            if type(value) not in (int, float, NoneType) and name != "final":
                raise ValueError(f"{name} is {str(value)[:40]!r}")
        return summary
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be used ({reason(error)}); finish the run by --resume "
                         "first") from None


def combine(summaries):
    """Return {"mean", "std", "count", "of"} of each key, over runs that differ in their seed.

    `std` is the population standard deviation. `count` of the `of` runs had a value; with none,
    mean and std are None.
    """
    combined = {key: _spread([summary[key] for summary in summaries])
                for key in summaries[0] if key != "final"}
    combined["final"] = {key: _spread([summary["final"][key] for summary in summaries])
                         for key in summaries[0]["final"]}
    return combined


def _spread(values):
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return {"mean": None, "std": None, "count": 0, "of": len(values)}
    mean = math.fsum(known) / len(known)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    return {"mean": mean, "std": std, "count": len(known), "of": len(values)}


def table(summary):
    """Return one run as lines of text: loss, accuracy, t_f and Δt."""
    values = [_number(key, summary[key]) for _, key, _ in ROWS]
    width = max(map(len, ("Value", *values)))
    lines = [f"{label:<12}  {value:>{width}}" for (label, _, _), value in
             zip(ROWS, values, strict=True)]
    return "\n".join([f"{'Metric':<12}  {'Value':>{width}}", "-" * (14 + width), *lines])


def combined_markdown(columns):
    """Return mean ± deviation in Markdown; `columns` maps a heading to the result of `combine`.

    The best mean of a row is bold; one column, equal means and Δt have no best.
    """
    rows = [("Metric", *columns), ("---", *["---:"] * len(columns))]
    for label, key, better in ROWS:
        spreads = [combined[key] for combined in columns.values()]
        means = [spread["mean"] for spread in spreads if spread["mean"] is not None]
        best = better(means) if better and len(set(means)) > 1 else None
        rows.append((label, *(
            f"**{_cell(key, spread)}**" if best is not None and spread["mean"] == best
            else _cell(key, spread) for spread in spreads)))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(key, spread):
    if spread["mean"] is None:
        return "-"
    text = f"{_number(key, spread['mean'])} ± {_number(key, spread['std'])}"
    missing = spread["count"] < spread["of"]
    return f"{text} ({spread['count']} of {spread['of']} runs)" if missing else text


def _number(key, value):
    if value is None:
        return "-"
    if key.startswith(("t_f", "delta_t")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if key.endswith("accuracy") else f"{value:.3g}"

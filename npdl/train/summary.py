"""The summary of a run: its best loss and accuracy, and the steps that first reached them.

Notation of the tables: L is the lowest loss and A the highest accuracy of a run, t_f(.) the first
step that reached it, and Δt = t_f(val) - t_f(train) the delay from memorising the training set to
generalising to the validation set.
"""

import math
import statistics

from npdl.errors import InputError
from npdl.train.metrics import METRICS

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

    The keys are the four METRICS (the lowest loss or highest accuracy), `t_f_<metric>` (the step
    that first reached it), `delta_t_loss`, `delta_t_accuracy`, and `final`, the values of the
    record with the largest step. A value is None if the records don't have it.
    """
    if not records:
        raise InputError("no records to summarise; log at least one evaluation first")
    summary = {}
    for metric in METRICS:
        sign = 1 if metric.endswith("loss") else -1
        points = [(sign * record[metric], record["step"]) for record in records
                  if record.get(metric) is not None and math.isfinite(record[metric])]
        best, step = min(points, default=(None, None))
        summary[metric] = None if best is None else sign * best
        summary[f"t_f_{metric}"] = step
    for name in ("loss", "accuracy"):
        train, validation = summary[f"t_f_train_{name}"], summary[f"t_f_validation_{name}"]
        known = train is not None and validation is not None
        summary[f"delta_t_{name}"] = validation - train if known else None
    last = max(records, key=lambda record: record["step"])
    summary["final"] = {key: last.get(key) for key in ("step", *METRICS)}
    return summary


def combine_summaries(summaries):
    """Return {key: {"mean": .., "std": .., "count": .., "of": ..}} for each key of ROWS.

    `std` is the population standard deviation. `of` is the number of runs, and `count` the number
    of runs that have this value. If no run has it, mean and std are None.
    """
    return {key: _mean_and_std([summary[key] for summary in summaries]) for _, key, _ in ROWS}


def _mean_and_std(values):
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return {"mean": None, "std": None, "count": 0, "of": len(values)}
    return {"mean": statistics.fmean(known), "std": statistics.pstdev(known), "count": len(known),
            "of": len(values)}


def format_table(columns):
    """Return a Markdown table with a row for each of ROWS, and a column for each group of runs.

    `columns` is {heading: result of combine_summaries}. A cell is mean ± standard deviation, or
    the value of a single run. The best mean of a row is bold, unless all are equal or it is a Δt.
    """
    rows = [("Metric", *columns), ("---", *["---:"] * len(columns))]
    for label, key, better in ROWS:
        spreads = [combined[key] for combined in columns.values()]
        means = [spread["mean"] for spread in spreads if spread["mean"] is not None]
        best = better(means) if better and len(set(means)) > 1 else None
        rows.append((label, *(
            f"**{_format_cell(key, spread)}**" if best is not None and spread["mean"] == best
            else _format_cell(key, spread) for spread in spreads)))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _format_cell(key, spread):
    if spread["mean"] is None:
        return "-"
    text = _format_number(key, spread["mean"])
    if spread["of"] > 1:
        text += f" ± {_format_number(key, spread['std'])}"
    missing = spread["count"] < spread["of"]
    return f"{text} ({spread['count']} of {spread['of']} runs)" if missing else text


def _format_number(key, value):
    if key.startswith(("t_f", "delta_t")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if key.endswith("accuracy") else f"{value:.3g}"

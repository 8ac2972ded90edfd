"""The summary of a run: its best loss and accuracy, and the steps that first reached them.

Notation of the tables: L is the lowest loss and A the highest accuracy of a run, t_f(.) the first
step that reached it, and Δt = t_f(val) - t_f(train) the delay from memorising the training set to
generalising to the validation set.
"""

import math
import statistics

from npdl.errors import InputError
from npdl.train.metrics import METRICS

LABELS = dict(zip(("L_train", "L_val", "A_train", "A_val"), METRICS, strict=True))
# (label, key of the summary, which value is the better one or None); the order of the tables
ROWS = (
    *((label, key, min if label.startswith("L") else max) for label, key in LABELS.items()),
    *((f"t_f({label})", f"t_f_{key}", min) for label, key in LABELS.items()),
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
        summary[f"delta_t_{name}"] = None if None in (train, validation) else validation - train
    last = max(records, key=lambda record: record["step"])
    summary["final"] = {key: last.get(key) for key in ("step", *METRICS)}
    return summary


def format_table(columns):
    """Return a Markdown table with a row for each of ROWS, and a column for each group of runs.

    `columns` is {heading: summaries of the group's runs}. A cell is mean ± population standard
    deviation, or the value of a single run. The best mean of a row is bold. In rows of Δt, and in
    rows of equal means, nothing is bold.
    """
    rows = [("Metric", *columns), ("---", *["---:"] * len(columns))]
    for label, key, better in ROWS:
        groups = [[summary[key] for summary in group] for group in columns.values()]
        known = [[value for value in values if value is not None and math.isfinite(value)]
                 for values in groups]
        means = [statistics.fmean(values) for values in known if values]
        best = better(means) if better and len(set(means)) > 1 else None
        rows.append((label, *(_format_cell(key, values, len(group), best)
                              for values, group in zip(known, groups, strict=True))))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _format_cell(key, known_values, run_count, best_mean):
    """Return mean ± deviation of the values that some of `run_count` runs have, as text."""
    if not known_values:
        return "-"
    mean, text = statistics.fmean(known_values), _format_number(key, statistics.fmean(known_values))
    if run_count > 1:
        text += f" ± {_format_number(key, statistics.pstdev(known_values))}"
    if len(known_values) < run_count:
        text += f" ({len(known_values)} of {run_count} runs)"
    return f"**{text}**" if mean == best_mean else text


def _format_number(key, value):
    if key.startswith(("t_f", "delta_t")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if key.endswith("accuracy") else f"{value:.3g}"

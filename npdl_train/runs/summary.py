"""What a run reached and when: best loss and accuracy, the steps that first reached them.

Notation of the tables: L is the lowest loss and A the highest accuracy over all the steps of a
run, t_f(.) the first step that reached it, and Δt = t_f(val) - t_f(train) the delay between
memorising the training set and generalising to the validation set.
"""

import math
from types import NoneType

from npdl.errors import InputError
from npdl.files import read_json, reason
from npdl_train.runs.metrics import METRICS

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
    """The summary of one run from its records, each with `step` and any of METRICS.

    Keys, each None where the run has no such value: the four METRICS (lowest loss, highest
    accuracy), `t_f_<metric>`, `delta_t_loss`, `delta_t_accuracy`,
    `step_<split>_accuracy_<threshold>` (the first step with at least that accuracy), and `final`,
    the values of the record with the largest step. A value that is absent, None, NaN or infinite
    is passed over. Raises InputError without records, or for a record without a step.
    """
    records = list(records)
    if not records:
        raise InputError("no records to summarise; log at least one evaluation first")
    for number, record in enumerate(records, 1):
        if record.get("step") is None:
            raise InputError(f"record {number} has no 'step'; every record needs one")
    summary = {}
    points = {metric: _points(records, metric) for metric in METRICS}
    for metric in METRICS:
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
    """A run's summary.json: what `summarise` gave, `seconds` and `steps`, and nothing else.

    Raises InputError for a file that lacks one of them.
    """
    known = summarise([{"step": 0}])
    final = known.pop("final")
    try:
        summary = read_json(path)
        return {**_numbers(summary, (*known, "seconds", "steps")),
                "final": _numbers(summary["final"], final)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: cannot be used ({reason(error)}); finish the run by --resume "
                         "first") from None


def _numbers(values, names):
    """The values of these names, each a number or None; ValueError for another."""
    found = {name: values.get(name, "nothing") for name in names}
    for name, value in found.items():
        if type(value) not in (int, float, NoneType):
            raise ValueError(f"{name} is {str(value)[:40]!r}")
    return found


def combine(summaries):
    """The same keys over runs that differ in their seed: `{"mean", "std", "count", "of"}` each.

    `std` is the population standard deviation (divided by the number of values, not one less).
    `count` of the `of` runs had a value; with none, mean and std are None.
    """
    summaries = list(summaries)
    if not summaries:
        raise InputError("no summaries to combine; give at least one run")
    combined = {
        key: _spread([summary[key] for summary in summaries])
        for key in summaries[0] if key != "final"
    }
    combined["final"] = {
        key: _spread([summary["final"][key] for summary in summaries])
        for key in summaries[0]["final"]
    }
    return combined


def table(summary):
    """One run as lines of text: loss, accuracy, t_f and Δt."""
    rows = [("Metric", "Value")]
    rows += [(label, _number(key, summary[key])) for label, key, _ in ROWS]
    return _aligned(rows)


def combined_markdown(columns):
    """Mean ± deviation in Markdown; `columns` maps a heading to what `combine` gave.

    Of several columns, the best mean of a row is bold; Δt has no better or worse and is never bold.
    """
    header, *rows = _combined_rows(columns)
    rule = ("---",) + ("---:",) * len(columns)
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def _points(records, metric):
    pairs = ((record.get(metric), record["step"]) for record in records)
    return [(value, step) for value, step in pairs if value is not None and math.isfinite(value)]


def _spread(values):
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return {"mean": None, "std": None, "count": 0, "of": len(values)}
    mean = math.fsum(known) / len(known)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known))
    return {"mean": mean, "std": std, "count": len(known), "of": len(values)}


def _number(key, value):
    if value is None:
        return "-"
    if key.startswith(("t_f", "delta_t")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if key.endswith("accuracy") else f"{value:.3g}"


def _cell(key, spread):
    if spread["mean"] is None:
        return "-"
    text = f"{_number(key, spread['mean'])} ± {_number(key, spread['std'])}"
    missing = spread["count"] < spread["of"]
    return f"{text} ({spread['count']} of {spread['of']} runs)" if missing else text


def _combined_rows(columns):
    rows = [("Metric", *columns)]
    for label, key, better in ROWS:
        spreads = [combined[key] for combined in columns.values()]
        means = [spread["mean"] for spread in spreads if spread["mean"] is not None]
        # One column is no comparison, and neither is a row where all are equal.
        best = better(means) if better and len(set(means)) > 1 else None
        rows.append((label, *(
            f"**{_cell(key, spread)}**" if best is not None and spread["mean"] == best
            else _cell(key, spread)
            for spread in spreads
        )))
    return rows


def _aligned(rows):
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)

"""Format tables and numbers as Markdown."""

import numpy as np

from experiments.study.runs import LABELS, METRICS
from experiments.study.verdict import mean_and_interval


def format_table(heading, rows, left_aligned=1):
    """Return a Markdown table; only the first `left_aligned` columns are left-aligned."""
    marks = ["---" if i < left_aligned else "---:" for i in range(len(heading))]
    return "\n".join("| " + " | ".join(" ".join(str(cell).split()) for cell in line) + " |"
                     for line in (heading, marks, *rows))


def format_value(value, form="{:.2g}"):
    return "never" if np.isinf(value) else form.format(value)


def format_span(values, form="{:.2g}"):
    """Return "smallest to largest" as text, or one number if both are printed alike."""
    values = np.ravel(values)
    return " to ".join(dict.fromkeys(format_value(v, form) for v in (values.min(), values.max())))


def format_median(values, form="{:.2g}"):
    """Return "median (smallest to largest)" as text."""
    values = np.ravel(values)
    around = format_span(values, form)
    return f"{format_value(np.median(values), form)} ({around})" if " to " in around else around


def format_mean(values, form="{:.2g}", logarithmic=False):
    """Return "mean (90 % interval)"; with `logarithmic`, the geometric mean of positive values."""
    values = np.log(values) if logarithmic else np.asarray(values)
    numbers = mean_and_interval(values)
    mean, low, high = map(np.exp, numbers) if logarithmic else numbers
    return f"{form.format(mean)} ({form.format(low)} to {form.format(high)})"


def format_metric(metric, value):
    """Return a value of a metric as text: losses with two digits, accuracies with four decimals."""
    if metric.startswith(("t_f", "Δt")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if "accuracy" in metric or metric.startswith("A") else f"{value:.2g}"


def format_mean_std(metric, values):
    """Return "mean ± population standard deviation", as the assignment requires."""
    return f"{format_metric(metric, np.mean(values))} ± {format_metric(metric, np.std(values))}"


def best_table(leading_headings, rows):
    """Return a table of best values and first steps, with the best of each column in bold.

    leading_headings  headings of the leading columns
    rows              (leading cells, Curves (n, E)) of each setting
    """
    heading, columns = list(leading_headings), []
    for first in (False, True):
        for metric in METRICS:
            heading.append(f"t_f({LABELS[metric]})" if first else LABELS[metric])
            groups = [runs.best_step(metric) if first else runs.best(metric) for _, runs in rows]
            means = [values.mean() for values in groups]
            best = (min if first or "loss" in metric else max)(means)
            name = "t_f" if first else metric
            texts = [format_mean_std(name, values) for values in groups]
            columns.append([f"**{text}**" if mean == best and len(set(means)) > 1 else text
                            for mean, text in zip(means, texts, strict=True)])
    return format_table(heading, [[*cells, *row] for (cells, _), row in zip(
        rows, zip(*columns, strict=True), strict=True)], len(leading_headings))

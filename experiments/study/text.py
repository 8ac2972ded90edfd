"""Format tables and numbers as Markdown."""

import numpy as np

from experiments.study.runs import LABELS, METRICS
from experiments.study.verdict import confidence_interval


def table(heading, rows, left=1):
    """Return a Markdown table; the first `left` columns are left-aligned, the others right."""
    marks = ["---" if i < left else "---:" for i in range(len(heading))]
    return "\n".join("| " + " | ".join(" ".join(str(cell).split()) for cell in line) + " |"
                     for line in (heading, marks, *rows))


def digits(value, form="{:.2g}"):
    return "never" if np.isinf(value) else form.format(value)


def span(values, form="{:.2g}"):
    """Return "smallest to largest" as text, or one number if both are printed alike."""
    values = np.ravel(values)
    return " to ".join(dict.fromkeys(digits(v, form) for v in (values.min(), values.max())))


def median_span(values, form="{:.2g}"):
    """Return "median (smallest to largest)" as text."""
    values = np.ravel(values)
    around = span(values, form)
    return f"{digits(np.median(values), form)} ({around})" if " to " in around else around


def estimate(values, form="{:.2g}", logarithmic=False):
    """Return "mean (90 % interval)"; with `logarithmic`, the geometric mean of positive values."""
    values = np.log(values) if logarithmic else np.asarray(values)
    numbers = confidence_interval(values)
    mean, low, high = map(np.exp, numbers) if logarithmic else numbers
    return f"{form.format(mean)} ({form.format(low)} to {form.format(high)})"


def number(metric, value):
    """Return a value of a metric as text: losses with two digits, accuracies with four decimals."""
    if metric.startswith(("t_f", "Δt")):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if "accuracy" in metric or metric.startswith("A") else f"{value:.2g}"


def mean_std(metric, values):
    """Return "mean ± population standard deviation", as the assignment requires."""
    return f"{number(metric, np.mean(values))} ± {number(metric, np.std(values))}"


def best_table(words, rows):
    """Return a table of best values and first steps, with the best of each column in bold.

    words   headings of the leading columns
    rows    (leading cells, Curves (n, E)) of each setting
    """
    heading, columns = list(words), []
    for first in (False, True):
        for metric in METRICS:
            heading.append(f"t_f({LABELS[metric]})" if first else LABELS[metric])
            groups = [runs.best_step(metric) if first else runs.best(metric) for _, runs in rows]
            means = [values.mean() for values in groups]
            best = (min if first or "loss" in metric else max)(means)
            name = "t_f" if first else metric
            columns.append([f"**{mean_std(name, values)}**" if mean == best and len(set(means)) > 1
                            else mean_std(name, values)
                            for mean, values in zip(means, groups, strict=True)])
    return table(heading, [[*cells, *row] for (cells, _), row in zip(
        rows, zip(*columns, strict=True), strict=True)], len(words))

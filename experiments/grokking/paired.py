"""Numbers that the laboratory's answers share: paired differences, spans, curves."""

import math

from reporting.rules import STUDENT

from npdl.study import plots_style as style

NOTHING = "Not tried yet."
COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE)


def paired(before, after):
    """(seeds, mean, half width) of log10(after / before) over the seeds that have both finite;
    the half width is of Student's 95 % interval, infinite below two seeds."""
    seeds = [seed for seed in before if seed in after
             and math.isfinite(before[seed]) and math.isfinite(after[seed])]
    if not seeds:
        return seeds, math.nan, math.inf
    logs = [math.log10(after[seed] / before[seed]) for seed in seeds]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return seeds, mean, math.inf
    variance = math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1)
    return seeds, mean, STUDENT[len(logs) - 2] * math.sqrt(variance / len(logs))


def verdict(mean, half, sooner="sooner", later="later"):
    """What a paired difference says, in words."""
    if math.isnan(mean):
        return "not tried"
    if math.isinf(half):
        return "one seed alone: nothing follows"
    if mean + half < 0:
        return sooner
    return later if mean - half > 0 else "no difference that these seeds can tell"


def factor_text(mean, half):
    """10^mean with its interval, "0.41 (0.30 to 0.56)"."""
    if math.isnan(mean):
        return "-"
    if math.isinf(half):
        return f"{10 ** mean:.2f} (one seed)"
    return f"{10 ** mean:.2f} ({10 ** (mean - half):.2f} to {10 ** (mean + half):.2f})"


def plot_seeds(axes, curves, colour, label):
    """Curves [(steps, values)] of one arm: a line for each seed."""
    for i, (steps, values) in enumerate(curves):
        axes.plot(steps, values, color=colour, linewidth=1.1, alpha=0.85,
                  label=label if i == 0 else None)


def of_arm(records, **wanted):
    """{seed: columns} of the records whose trial has these facts."""
    return {record["trial"]["seed"]: record["columns"] for record in records.values()
            if all(record["trial"].get(name) == value for name, value in wanted.items())}

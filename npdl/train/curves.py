"""Plot the loss and the accuracy of runs over their training steps, as one picture."""

import math
import textwrap

from npdl.errors import InputError
from npdl.train import style

LOOKS = {"train": (style.BLUE, "-"), "validation": (style.VERMILION, (0, (3, 1)))}


def plot_curves(groups, path, log_steps=False):
    """Draw loss (logarithmic) and accuracy over steps into the PNG file `path`.

    groups     {title: [records, ..]} with the records of each run. The groups are drawn side by
               side. Each shows the mean of its runs, and a band from their lowest to their highest
               value
    log_steps  draw the steps on a logarithmic axis, without step 0

    A record has `step` and some of `train_loss`, `validation_loss`, `train_accuracy` and
    `validation_accuracy`. The same records give the same file. Raises InputError if there are no
    records, and CheckpointError if the file can't be written.
    """
    if not groups or not all(records for runs in groups.values() for records in runs):
        raise InputError("no records to plot; log at least one evaluation first")
    count = len(groups)
    if count == 1:
        figure = style.make_figure(10, 4, *groups)
        panels = figure.subplots(1, 2, squeeze=False).T
    else:
        figure = style.make_figure(max(10, 4 * count), 7, "Loss and accuracy")
        panels = figure.subplots(2, count, sharex=True, sharey="row")
    for k, (title, runs) in enumerate(groups.items()):
        title = textwrap.fill(title, 45) if count > 1 else ""
        _draw_quantity(panels[0][k], runs, "loss", log_steps, title)
        _draw_quantity(panels[1][k], runs, "accuracy", log_steps)
        panels[0][k].set_yscale("log", nonpositive="mask")
        panels[1][k].set_ylim(-0.03, 1.03)
    if count > 1:
        for axes in panels.flat:
            axes.label_outer()
    lines = max((axes.lines for axes in panels.flat), key=len)
    if lines:                             # one legend below the panels, where it hides no curve
        figure.legend(handles=lines, loc="outside lower right", ncols=2, frameon=False,
                      labelcolor=style.INK)
    style.save_figure(figure, path)


def _draw_quantity(axes, runs, quantity, log_steps, title=""):
    from matplotlib.ticker import MaxNLocator

    first = 1 if log_steps else -math.inf
    for split, (colour, dash) in LOOKS.items():
        key = f"{split}_{quantity}"
        series = [{record["step"]: record[key] for record in records
                   if record.get(key) is not None and record["step"] >= first}
                  for records in runs]
        steps = [step for step in series[0] if all(step in values for values in series)]
        if steps:
            values = [[values[step] for values in series] for step in steps]
            marker = "o" if len(steps) < 30 else None
            axes.plot(steps, [math.fsum(row) / len(row) for row in values], color=colour,
                      linewidth=1.3, linestyle=dash, label=split, marker=marker, markersize=3,
                      solid_joinstyle="round")
            if len(runs) > 1:
                axes.fill_between(steps, [min(row) for row in values],
                                  [max(row) for row in values], color=colour, alpha=0.2, lw=0)
    if log_steps:
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    style.label_axes(axes, "training step", "loss (log scale)" if quantity == "loss" else quantity,
                     title)

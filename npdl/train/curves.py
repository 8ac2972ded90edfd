"""Loss and accuracy of runs over their training steps, as one picture."""

import math

from npdl.errors import InputError
from npdl.files import write_atomically

# Blue and vermilion of Okabe and Ito's palette, which colour-blind people can tell apart.
LOOKS = {"train": ("#0072B2", "-"), "validation": ("#D55E00", (0, (3, 1)))}
INK = "#333333"


def plot_curves(records, path, title, log_steps=False):
    """Draw loss (logarithmic) and accuracy over steps of one run into the PNG file `path`.

    The other arguments and errors are those of `plot_groups`.
    """
    plot_groups({title: [list(records)]}, path, log_steps)


def plot_groups(groups, path, log_steps=False):
    """Draw loss (logarithmic) and accuracy over steps into the PNG file `path`.

    groups     {title: [records of a run, ..]}; the groups are drawn side by side, and each shows
               the mean over its runs, and a band from their lowest to their highest value
    log_steps  draw the steps on a logarithmic axis, without step 0

    A record has `step` and some of `train_loss`, `validation_loss`, `train_accuracy` and
    `validation_accuracy`. The same records give the same file. Raises InputError if there are no
    records, and CheckpointError if the file can't be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # they take a second to load
    from matplotlib.figure import Figure

    if not groups or not all(records for runs in groups.values() for records in runs):
        raise InputError("no records to plot; log at least one evaluation first")
    count = len(groups)
    figure = Figure(figsize=(10, 4) if count == 1 else (max(10, 4 * count), 7), dpi=150,
                    layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08, wspace=0.04)    # inches, inches, share
    if count == 1:
        panels = figure.subplots(1, 2, squeeze=False).T
        figure.suptitle(*groups, color=INK, fontsize=12, parse_math=False)
    else:
        panels = figure.subplots(2, count, sharex=True, sharey="row")
        for axes, title in zip(panels[0], groups, strict=True):
            axes.set_title(title, color=INK, fontsize=10, parse_math=False, wrap=True)
    for k, runs in enumerate(groups.values()):
        _draw(panels[0][k], runs, "loss", log_steps)
        _draw(panels[1][k], runs, "accuracy", log_steps)
        panels[0][k].set_yscale("log", nonpositive="mask")
        panels[1][k].set_ylim(-0.03, 1.03)
    if count > 1:
        for axes in panels.flat:
            axes.label_outer()
    lines = max((axes.lines for axes in panels.flat), key=len)
    if lines:                             # one legend above the panels, where it hides no curve
        figure.legend(handles=lines, loc="outside upper right", ncols=2, frameon=False,
                      labelcolor=INK)
    write_atomically(
        path, lambda file: figure.savefig(file, format="png", metadata={"Software": None})
    )


def _draw(axes, runs, quantity, log_steps):
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
    axes.set_xlabel("training step", color=INK)
    axes.set_ylabel(f"{quantity} (log scale)" if quantity == "loss" else quantity, color=INK)
    axes.grid(True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(which="both", color="#999999", labelcolor=INK)

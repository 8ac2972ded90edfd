"""Loss and accuracy of a run over its training steps, as one picture."""

import math

from npdl.errors import InputError
from npdl.files import write_atomically

# Blue and vermilion of Okabe and Ito's palette: apart for every kind of colour vision.
LOOKS = {"train": ("#0072B2", "-"), "validation": ("#D55E00", (0, (3, 1)))}
INK = "#333333"


def plot_curves(records, path, title, log_steps=False):
    """Draw loss (logarithmic) and accuracy over steps into the PNG file `path`.

    A record has `step` and any of `train_loss`, `validation_loss`, `train_accuracy`,
    `validation_accuracy`; absent values are left out. With `log_steps` the steps are logarithmic
    too, and step 0 is not shown. The same records give the same bytes. Raises InputError without
    records, CheckpointError when the file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # they take a second to load
    from matplotlib.figure import Figure

    records = list(records)
    if not records:
        raise InputError("no records to plot; log at least one evaluation first")
    figure = Figure(figsize=(10, 4), dpi=150, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08, wspace=0.04)    # inches, inches, share
    left, right = figure.subplots(1, 2)
    _draw(left, records, "loss", log_steps)
    left.set_yscale("log", nonpositive="mask")
    _draw(right, records, "accuracy", log_steps)
    right.set_ylim(-0.03, 1.03)
    if left.lines:                        # one legend, above the panels: the curves go everywhere
        figure.legend(handles=left.lines, loc="outside upper right", ncols=2, frameon=False,
                      labelcolor=INK)
    figure.suptitle(title, color=INK, fontsize=12, parse_math=False)
    write_atomically(
        path, lambda file: figure.savefig(file, format="png", metadata={"Software": None})
    )


def _draw(axes, records, quantity, log_steps):
    from matplotlib.ticker import MaxNLocator

    first = 1 if log_steps else -math.inf
    for split, (colour, dash) in LOOKS.items():
        key = f"{split}_{quantity}"
        points = [
            (record["step"], record[key])
            for record in records if record.get(key) is not None and record["step"] >= first
        ]
        if points:
            steps, values = zip(*points, strict=True)
            marker = "o" if len(points) < 30 else None
            axes.plot(steps, values, color=colour, linewidth=1.3, linestyle=dash, label=split,
                      marker=marker, markersize=3, solid_joinstyle="round")
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

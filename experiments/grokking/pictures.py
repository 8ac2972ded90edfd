"""The laboratory's pictures, drawn from their data alone."""

from experiments.grokking.faster import ARMS
from experiments.study.figures import scale_y
from experiments.study.measures import GENERAL
from npdl_study.plots import style

COLLAPSED = 0.4         # a softmax has collapsed when so many pairs have a probability of 1: the
                        # share that the published plot of 40 % of the data marks
SAME = 0.95             # the validation accuracy that the papers on Grokfast and Muon wait for
COLUMNS = {             # of the figure on collapse: {title: arms}
    "gradient, 40 % of the pairs": ("plain", "orthogonal", "published", "decay"),
    "precision, 70 %": ("float16-70", "float32-70", "float64-70"),
    "precision, 40 %": ("float32", "float64"),
    "StableMax, 40 %": ("softmax64", "stablemax"),
}
LINES = ("validation_loss", "fresh_loss", "fresh_circuit", "restricted", "excluded")


def plot_seeds(axes, curves, colour, dash, label):
    """Curves [(steps, values)] of one arm: a line for each seed."""
    for i, (steps, values) in enumerate(curves):
        axes.plot(steps, values, color=colour, linewidth=1.1, alpha=0.85, linestyle=dash,
                  label=label if i == 0 else None)


def wait_for(axes, share):
    """The study's axis of accuracies, and a dotted line at the one that is waited for."""
    scale_y(axes, "accuracy")
    axes.axhline(share, color=style.INK, linewidth=1, linestyle=":")


def draw_collapse(figure, data):
    panels = figure.subplots(2, len(COLUMNS), sharex="col", sharey="row")
    for (above, below), (title, names) in zip(panels.T, COLUMNS.items(), strict=True):
        for colour, dash, arm in zip(style.LINES, style.DASHES, names, strict=False):
            for axes, name in ((above, "validation_accuracy"), (below, "collapsed")):
                plot_seeds(axes, [(c["step"], c[name]) for c in data[arm]], colour, dash, arm)
        style.dress(above, "", "", title)
        style.dress(below, "epoch (log scale)", "")
        wait_for(above, GENERAL)
        below.axhline(COLLAPSED, color=style.INK, linewidth=1, linestyle=":")
        below.set_ylim(-0.03, 1.03)
        below.set_xscale("log")
        below.set_xlim(left=10)
        below.legend(frameon=False, fontsize=8.5, loc="upper left", handlelength=3)
    panels[0, 0].set_ylabel("A_val (widened near 1)")
    panels[1, 0].set_ylabel("share rounded to 1")


def draw_faster(figure, data):
    panels = figure.subplots(len(data), len(ARMS) - 1, sharex=True, sharey=True)
    for row, (model, found) in zip(panels, data.items(), strict=True):
        for axes, arm in zip(row, ARMS[1:], strict=True):
            for name, *look in ((ARMS[0], style.SOFT, style.DASHES[2], "AdamW"),
                                (arm, style.BLUE, "-", "what the panel names")):
                plot_seeds(axes, [(c["step"], c["accuracy"]) for c in found[name]], *look)
            style.dress(axes, "", "", f"{model}: {arm}")
            axes.set_xticks((0, 5000, 10_000))
            wait_for(axes, SAME)
        row[0].set_ylabel("A_val (widened near 1)")
    for axes in panels[-1]:
        axes.set_xlabel("training step")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2,
                  frameon=False, handlelength=3)


def draw_circuit(figure, data):
    """A panel for each seed, and the legend in a place of its own after the last."""
    panels = figure.subplots(-(-(len(data) + 1) // 3), 3, squeeze=False, sharey=True).ravel()
    for axes, one in zip(panels, data, strict=False):
        for colour, dash, name in zip(style.LINES, style.DASHES, LINES, strict=True):
            axes.plot(one["step"], one[name], color=colour, linewidth=1.0, linestyle=dash,
                      label=name.replace("_", " "))
        axes.set_xscale("log")
        axes.set_yscale("log")
        style.dress(axes, "training step (log scale)", "loss", f"seed {one['seed']}")
    for axes in panels[len(data):]:
        axes.set_axis_off()
    panels[len(data)].legend(*panels[0].get_legend_handles_labels(), frameon=False, fontsize=10,
                             loc="center", handlelength=3)


def draw_jumps(figure, data):
    """A line for each eps; each seed has its mark where a curve ends, behind its jump."""
    axes = figure.subplots()
    seeds = sorted({curve["seed"] for curves in data.values() for curve in curves})
    marks = dict(zip(seeds, style.MARKERS, strict=False))
    for colour, dash, (name, curves) in zip(style.LINES, style.DASHES, data.items(), strict=False):
        plot_seeds(axes, [(c["step"], c["loss"]) for c in curves], colour, dash, name)
        for c in curves:
            axes.plot(c["step"][-1], c["loss"][-1], color=colour, marker=marks[c["seed"]])
    for seed, mark in marks.items():
        axes.plot([], [], color=style.INK, marker=mark, linestyle="", label=f"seed {seed}")
    axes.set_yscale("log")
    figure.legend(loc="outside upper center", ncols=6, frameon=False, handlelength=3)
    style.dress(axes, "training step", "training loss (log scale)", "")


def draw_curvature(figure, data):
    """Loss, and lr times the curvature that AdamW sees with its limit, over the same steps."""
    loss, curvature = figure.subplots(1, 2)
    for axes, name, title in ((loss, "loss", "training loss"),
                              (curvature, "lr_curvature", "lr times the largest curvature")):
        axes.plot(data["step"], data[name], color=style.LINES[0], marker=".")
        axes.set_yscale("log")
        style.dress(axes, "training step", "", f"{title} (log scale)")
    curvature.axhline(data["limit"], color=style.LINES[1], linestyle="--",
                      label=f"limit, {data['limit']:.0f}")
    curvature.legend(frameon=False)

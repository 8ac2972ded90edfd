"""python -m docs.gallery.grokking: train the README's first run, and draw its two pictures.

grokking.webp is an animation: loss, accuracy, and a 2-D projection of the embeddings of the 31
numbers. The projection is onto the plane of their strongest Fourier component after training.
grokking-curves.png is a copy of the run's curves.png.
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

from npdl.cli.console import OneLineParser, prepare_script
from npdl.study.plots.embedding_spectrum import compute_power_spectrum
from npdl.train import style
from npdl.train.metrics import METRICS, read_records
from npdl.train.recipes import make_recipe_config
from npdl.train.run import train

GALLERY = Path(__file__).resolve().parent
FRAMES, RATE, LAST = 60, 8, 25      # frames, frames a second, how often the last one is shown


def train_and_record():
    """Train a GPT, copy its curves.png into GALLERY, and return the values for the animation.

    The result is {"p", "frequency", "step": steps, "train_loss" and other METRICS: values, "at":
    indices of the evaluations that become frames, "places": projections (frames, p, 2)}.
    """
    config, tables = make_recipe_config("gpt", {}), []

    def keep_embeddings(trainer):
        tables.append(trainer.model.embedding.W.data[:config.p].astype(np.float64))
        return len(tables)

    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", metrics={"table": keep_embeddings})
        records = read_records(Path(folder) / "run" / "metrics.jsonl")
        shutil.copy(Path(folder) / "run" / "curves.png", GALLERY / "grokking-curves.png")
    k = int(compute_power_spectrum(tables[-1]).argmax()) + 1
    wave = np.fft.rfft(tables[-1] - tables[-1].mean(0), axis=0)[k]              # wave (D,), complex
    plane, _, _ = np.linalg.svd(np.stack([wave.real, wave.imag]).T, full_matrices=False)
    steps = [record["step"] for record in records]
    at = sorted({int(np.searchsorted(steps, s)) for s in np.geomspace(1, steps[-1], FRAMES)})
    places = [(tables[i] - tables[i].mean(0)) @ plane for i in at]
    return {"p": config.p, "frequency": k, "step": steps, "at": at, "places": places,
            **{name: [record[name] for record in records] for name in METRICS}}


def draw_animation(run):
    """Write grokking.webp from the result of `train_and_record`."""
    canvas = style.make_figure(7, 4.2, "")
    frames = [*range(len(run["at"])), *[len(run["at"]) - 1] * LAST]
    animation = FuncAnimation(canvas, lambda frame: draw_frame(canvas, run, frame), frames,
                              init_func=list)
    animation.save(GALLERY / "grokking.webp", writer=PillowWriter(fps=RATE))


def draw_frame(canvas, run, frame):
    """Draw loss, accuracy and embeddings of frame number `frame` into the Figure `canvas`.

    The font is large enough to be read at half the size, as on a phone.
    """
    canvas.clear()
    last, p, k, steps = run["at"][frame], run["p"], run["frequency"], run["step"]
    canvas.suptitle(f"A GPT learns to add modulo {p}: step {steps[last]:,}", fontsize=16)
    axes = canvas.subplot_mosaic([["loss", "plane"], ["accuracy", "plane"]], width_ratios=(1.1, 1))
    for name in ("loss", "accuracy"):
        for part, colour, dash, words in (("train", style.BLUE, "-", "training set"),
                                          ("validation", style.VERMILION, "--", "held-out set")):
            axes[name].plot(steps[:last + 1], run[f"{part}_{name}"][:last + 1], dash,
                            color=colour, linewidth=2, label=words)
        axes[name].set(xscale="log", xlim=(1, steps[-1]))
        style.label_axes(axes[name], "", "", name)
    axes["loss"].set(yscale="log", ylim=(5e-5, 20), yticks=(1e-4, 1e-2, 1), xticklabels=[])
    axes["accuracy"].set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1), xlabel="step")
    axes["loss"].legend(loc="lower left", frameon=False, fontsize=12)
    path = run["places"][frame][np.arange(p + 1) * pow(k, -1, p) % p]
    plane = axes["plane"]
    plane.plot(*path.T, color="#bbbbbb", linewidth=0.9, zorder=1)
    plane.scatter(*path[:-1].T, c=np.arange(p), cmap="hsv", s=70, zorder=2)
    reach = 1.1 * np.abs(path).max()            # they shrink as weight decay goes on
    plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    style.label_axes(plane, "", "", f"embeddings of 0 to {p - 1}", grid="")
    for panel in axes.values():
        panel.title.set_fontsize(14)
        panel.xaxis.label.set_fontsize(13)
        panel.tick_params(labelsize=13)


if __name__ == "__main__":
    prepare_script()
    OneLineParser("python -m docs.gallery.grokking", description=__doc__).parse_args()
    draw_animation(train_and_record())

"""python -m docs.book.grokking: train the README's first run, and keep what its start page shows.

    python -m docs.book.grokking            two to three minutes on two idle cores
    python -m docs.book.grokking --draw     only the moving picture, from the kept data

data/grokking.json has loss and accuracy at every evaluation, and, at FRAMES of them, where the
embeddings of the 31 numbers lie in the plane of the wave that is strongest at the end
(npdl.study.plots.embedding_spectrum). docs/gallery/grokking.webp shows it as it moves,
grokking-curves.png is the run's own curves.png.
"""

import io
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from npdl.cli.console import OneLineParser, guarded, start_script
from npdl.files import write_atomically
from npdl.study.plots import style
from npdl.study.plots.embedding_spectrum import spectrum
from npdl.train.curves import plot_curves
from npdl.train.folder import describe
from npdl.train.metrics import METRICS, read_records
from npdl.train.recipes import new_config
from npdl.train.run import train

DATA = Path(__file__).parent / "data" / "grokking.json"
PICTURE = Path(__file__).resolve().parents[1] / "gallery" / "grokking.webp"
CURVES = PICTURE.with_name("grokking-curves.png")
FRAMES = 60
PAUSE, LAST = 120, 3000             # milliseconds that a frame stays, and the last one


def recorded():
    """Train a GPT, and return the numbers of its run.

    They are {"p", "frequency", "step": [...], metric: [...], "at": [evaluations], "places":
    (frames, p, 2)}.
    """
    config, tables = new_config("gpt", {}), []

    def keep_table(trainer):
        tables.append(trainer.model.embedding.W.data[:config.p].astype(np.float64))
        return len(tables)

    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", metrics={"table": keep_table})
        records = read_records(Path(folder) / "run" / "metrics.jsonl")
    k = int(spectrum(tables[-1]).argmax()) + 1
    wave = np.fft.rfft(tables[-1] - tables[-1].mean(0), axis=0)[k]              # wave (D,), complex
    plane, _, _ = np.linalg.svd(np.stack([wave.real, wave.imag]).T, full_matrices=False)
    steps = [record["step"] for record in records]
    at = sorted({int(np.searchsorted(steps, s)) for s in np.geomspace(1, steps[-1], FRAMES)})
    places = [(tables[i] - tables[i].mean(0)) @ plane for i in at]
    return {"p": config.p, "frequency": k, "step": steps,
            **{name: [float(f"{record[name]:.4g}") for record in records] for name in METRICS},
            "at": at, "places": np.round(places, 2).tolist()}


def records(found):
    """Return the run's evaluations, as metrics.jsonl contains them."""
    columns = [[(name, value) for value in found[name]] for name in ("step", *METRICS)]
    return map(dict, zip(*columns, strict=True))


def draw(found):
    """Return the animation as WebP, with a frame for each of found["at"]."""
    from PIL import Image

    frames = []
    for i in range(len(found["at"])):
        shown, file = _frame(found, i), io.BytesIO()
        shown.savefig(file, format="png")
        frames.append(Image.open(file).convert("RGB"))
    file = io.BytesIO()
    frames[0].save(file, "WEBP", save_all=True, append_images=frames[1:], loop=0, quality=60,
                   duration=[PAUSE] * (len(frames) - 1) + [LAST], method=6)
    return file.getvalue()


def _frame(found, i):
    """Draw the loss, the accuracy and the embeddings at the evaluation found["at"][i].

    The letters are large enough for half the size, as on a phone.
    """
    last, p, k = found["at"][i], found["p"], found["frequency"]
    steps = found["step"]
    made = style.figure(7, 4.2, "")
    made.suptitle(f"A GPT learns to add modulo {p}: step {steps[last]:,}", fontsize=16)
    axes = made.subplot_mosaic([["loss", "plane"], ["accuracy", "plane"]], width_ratios=(1.1, 1))
    for name, title in (("loss", "loss"), ("accuracy", "accuracy")):
        for part, colour, dash, words in (("train", style.BLUE, "-", "training set"),
                                          ("validation", style.VERMILION, "--", "held-out set")):
            axes[name].plot(steps[:last + 1], found[f"{part}_{name}"][:last + 1], dash,
                            color=colour, linewidth=2, label=words)
        axes[name].set(xscale="log", xlim=(1, steps[-1]))
        style.dress(axes[name], "", "", title)
    axes["loss"].set(yscale="log", ylim=(5e-5, 20), yticks=(1e-4, 1e-2, 1), xticklabels=[])
    axes["accuracy"].set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))
    axes["loss"].legend(loc="lower left", frameon=False, fontsize=12)
    axes["accuracy"].set_xlabel("step")
    path = np.array(found["places"][i])[np.arange(p + 1) * pow(k, -1, p) % p]
    plane = axes["plane"]
    plane.plot(*path.T, color="#bbbbbb", linewidth=0.9, zorder=1)
    plane.scatter(*path[:-1].T, c=np.arange(p), cmap="hsv", s=70, zorder=2)
    reach = 1.1 * np.abs(path).max()            # they shrink as weight decay goes on
    plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    style.dress(plane, "", "", f"embeddings of 0 to {p - 1}", grid="")
    for one in axes.values():
        one.title.set_fontsize(14)
        one.xaxis.label.set_fontsize(13)
        one.tick_params(labelsize=13)
    return made


def main(argv=None):
    p = OneLineParser(prog="python -m docs.book.grokking", description=__doc__.split("\n")[0])
    p.add_argument("--draw", action="store_true", help="only the picture, from the kept data")
    options = p.parse_args(argv)

    def work():
        if not options.draw:
            text = json.dumps(recorded(), separators=(",", ":")) + "\n"
            write_atomically(DATA, lambda file: file.write(text.encode()))
        found = json.loads(DATA.read_text(encoding="utf-8"))
        plot_curves(records(found), CURVES, describe(new_config("gpt", {})))
        picture = draw(found)
        write_atomically(PICTURE, lambda file: file.write(picture))
        print(f"{DATA.name}: {DATA.stat().st_size:,} bytes; {PICTURE.name}: {len(picture):,} bytes")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    start_script()
    sys.exit(main())

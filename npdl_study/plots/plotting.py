"""Pictures of learning, one command each.

    python -m npdl plot gradients            gradient norm through time: RNN, GRU, LSTM
    python -m npdl plot flow [RUN]           activations and gradients of each layer
    python -m npdl plot attention RUN        attention weights, layers by heads
    python -m npdl plot embeddings RUN       principal components and Fourier spectrum
    python -m npdl plot curves RUN           loss and accuracy over the steps

RUN is the folder that a training wrote. Without one, `flow` shows a model at its starting values
(--model, --depth, --norm). The picture is a PNG, WHAT.png or --out FILE.
"""

import dataclasses
from pathlib import Path

from npdl.console import explain, place
from npdl.errors import InputError
from npdl.training.config import Config
from npdl.training.curves import plot_curves
from npdl.training.folder import describe, read_config
from npdl.training.metrics import read_records
from npdl.training.run import load_run
from npdl.training.task import make_task
from npdl_study.plots.attention_maps import plot_attention
from npdl_study.plots.embedding_spectrum import plot_embeddings
from npdl_study.plots.flow import plot_flow
from npdl_study.plots.style import save
from npdl_study.plots.through_time import plot_gradients

KINDS = ("gradients", "flow", "attention", "embeddings", "curves")
NEED_RUN = ("attention", "embeddings", "curves")


def plot(what, run=None, out=None, text=None, steps=100, model="gpt", depth=2, norm="post",
         log_steps=False):
    """Draw one picture into a PNG file and return its path.

    what       one of KINDS; run: a run folder, needed for NEED_RUN
    out        the file (WHAT.png if None)
    text       attention: the sequence that is read, say "5 + 7 ="
    steps      gradients: how many steps back
    model, depth, norm    flow without a run: "gpt" or "lstm", layers, "post" or "pre"
    log_steps  curves: logarithmic steps
    Raises InputError for options that do not go together and for a folder without a run.
    """
    if what not in KINDS:
        raise InputError(f"plot {what!r} is unknown; choose one of: {', '.join(KINDS)}")
    if run is None and what in NEED_RUN:
        raise InputError(f"plot {what} needs a run; give its folder, say: plot {what} runs/NAME")
    if run is not None and what == "gradients":
        raise InputError("plot gradients is about fresh layers; leave the run out")
    if text is not None and what != "attention":
        raise InputError(f"--text goes with attention, not with {what}; leave it out")
    path = Path(out or f"{what}.png")
    if what == "curves":
        return _curves(run, path, log_steps)
    made = {"gradients": lambda: _gradients(steps), "attention": lambda: _attention(run, text),
            "flow": lambda: _flow(run, model, depth, norm),
            "embeddings": lambda: _embeddings(run)}[what]()
    return save(made, path)


def _loaded(folder, translation=False):
    run = load_run(folder)
    if run.config.translates and not translation:
        raise InputError(f"{folder}: holds a model that translates; plot its attention or curves")
    return run, f"{describe(run.config)}, step {run.step}"


def _gradients(steps):
    if not 2 <= steps <= 1000:
        raise InputError(f"--steps {steps}: must be 2 to 1000")
    return plot_gradients(steps)


def _flow(folder, model, depth, norm):
    if folder is not None:
        run, title = _loaded(folder)
        return plot_flow(run.config, run.task, f"What flows: {title}", run.model)
    if not 1 <= depth <= 100:
        raise InputError(f"--depth {depth}: must be 1 to 100")
    config = dataclasses.replace(Config(model=model), layers=depth, norm=norm)
    layers = f"{depth} layer{'s' if depth > 1 else ''}"
    name = f"GPT, {layers}, {norm}-norm" if model == "gpt" else f"LSTM, {layers}"
    return plot_flow(config, make_task(config), f"What flows: {name}, at its start")


def _attention(folder, text):
    run, title = _loaded(folder, translation=True)
    return plot_attention(run, f"Attention: {title}", text)


def _embeddings(folder):
    run, title = _loaded(folder)
    return plot_embeddings(run, f"Embeddings: {title}")


def _curves(folder, path, log_steps):
    config = read_config(folder)
    records = read_records(Path(folder) / "metrics.jsonl")
    plot_curves(records, path, describe(config), log_steps)
    return path


def add_arguments(parser):
    """Add the options of `python -m npdl plot` to an argparse parser."""
    explain(parser, __doc__)
    parser.add_argument("what", choices=KINDS, metavar="WHAT", help=", ".join(KINDS))
    parser.add_argument("run", nargs="?", metavar="RUN", type=place, help="a run folder")
    parser.add_argument("--out", metavar="FILE", type=place,
                        help="the PNG to write (default: WHAT.png)")
    parser.add_argument("--text", help='attention: what is read, say "5 + 7 ="')
    parser.add_argument("--steps", type=int, default=100,
                        help="gradients: how many steps back (default: 100)")
    parser.add_argument("--model", choices=("gpt", "lstm"), default="gpt",
                        help="flow without RUN: which model (default: gpt)")
    parser.add_argument("--depth", type=int, default=2,
                        help="flow without RUN: how many layers (default: 2)")
    parser.add_argument("--norm", choices=("post", "pre"), default="post",
                        help="flow without RUN: where a GPT's norms are (default: post)")
    parser.add_argument("--log-steps", action="store_true", help="curves: logarithmic steps")


def run(options):
    """Draw the picture that the options ask for, and print its path."""
    print(plot(options.what, options.run, options.out, options.text, options.steps,
               options.model, options.depth, options.norm, options.log_steps))

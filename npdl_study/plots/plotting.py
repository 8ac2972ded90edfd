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

from npdl.errors import InputError
from npdl_study.plots.attention_maps import plot_attention
from npdl_study.plots.embedding_spectrum import plot_embeddings
from npdl_study.plots.flow import plot_flow
from npdl_study.plots.style import save
from npdl_study.plots.through_time import plot_gradients
from npdl_train.console import file_or_folder, set_description
from npdl_train.options import Range, add_settings, check, count, option_of, setting
from npdl_train.runs.config import Config
from npdl_train.runs.curves import plot_curves
from npdl_train.runs.folder import describe, read_config
from npdl_train.runs.metrics import read_records
from npdl_train.runs.run import load_run
from npdl_train.runs.task import make_task

KINDS = ("gradients", "flow", "attention", "embeddings", "curves")
NEED_RUN = ("attention", "embeddings", "curves")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a picture is drawn; each setting is of the picture that its group names."""

    steps: int = setting("gradients", 100, "how many steps back", "N",
                         Range(lambda n: 2 <= n <= 1000, "2 to 1000"))
    model: str = setting("flow", "gpt", "without RUN: which model", allowed=("gpt", "lstm"))
    depth: int = setting("flow", 2, "without RUN: how many layers", "N", count(100))
    norm: str = setting("flow", "post", "without RUN: where a GPT's norms are",
                        allowed=("post", "pre"))
    text: str = setting("attention", "", 'what is read, say "5 + 7 ="')
    log_steps: bool = setting("curves", False, "logarithmic steps")


def plot(what, run=None, out=None, **how):
    """Draw one picture into a PNG file and return its path.

    what  one of KINDS; run: a run folder, needed for NEED_RUN
    out   the file (WHAT.png if None)
    how   of Settings, those that go with `what`
    Raises InputError for options that do not go together and for a folder without a run.
    """
    if what not in KINDS:
        raise InputError(f"plot {what!r} is unknown; choose one of: {', '.join(KINDS)}")
    if run is None and what in NEED_RUN:
        raise InputError(f"plot {what} needs a run; give its folder, say: plot {what} runs/NAME")
    if run is not None and what == "gradients":
        raise InputError("plot gradients is about fresh layers; leave the run out")
    settings = Settings(**how)
    check(settings)
    for field in dataclasses.fields(settings):
        if field.name in how and field.metadata["group"] != what:
            raise InputError(f"{option_of(field.name)} goes with {field.metadata['group']}, not "
                             f"with {what}; leave it out")
    path = Path(out or f"{what}.png")
    if what == "curves":
        return _curves(run, path, settings.log_steps)
    made = {"gradients": lambda: plot_gradients(settings.steps),
            "attention": lambda: _attention(run, settings.text or None),
            "flow": lambda: _flow(run, settings.model, settings.depth, settings.norm),
            "embeddings": lambda: _embeddings(run)}[what]()
    return save(made, path)


def _loaded(folder, translation=False):
    run = load_run(folder)
    if run.config.translates and not translation:
        raise InputError(f"{folder}: holds a model that translates; plot its attention or curves")
    return run, f"{describe(run.config)}, step {run.step}"


def _flow(folder, model, depth, norm):
    if folder is not None:
        run, title = _loaded(folder)
        return plot_flow(run.config, run.task, f"What flows: {title}", run.model)
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
    set_description(parser, __doc__)
    parser.add_argument("what", choices=KINDS, metavar="WHAT", help=", ".join(KINDS))
    parser.add_argument("run", nargs="?", metavar="RUN", type=file_or_folder, help="a run folder")
    parser.add_argument("--out", metavar="FILE", type=file_or_folder,
                        help="the PNG to write (default: WHAT.png)")
    add_settings(parser, "plot", ("gradients", "flow", "attention", "curves"),
                 Settings(text="one of the run's"))


def run(options):
    """Draw the picture that the options ask for, and print its path."""
    print(plot(**vars(options)))

"""Draw a plot into a PNG file.

    python -m npdl plot gradients            gradient norm through time: RNN, GRU, LSTM
    python -m npdl plot flow RUN             activations and gradients of each layer
    python -m npdl plot attention RUN        attention weights, layers by heads
    python -m npdl plot embeddings RUN       principal components and Fourier spectrum
    python -m npdl plot curves RUN ...       loss and accuracy over the steps

RUN is the folder of a training run. `curves` of several runs shows other settings side by side, and
the mean and the range of runs that differ in their seed only. The file is WHAT.png, or --out FILE.
"""

import dataclasses
from pathlib import Path

from npdl.cli.console import file_or_folder, set_description
from npdl.cli.options import Range, add_settings, check, option_of, setting
from npdl.errors import InputError
from npdl.study.plots.attention_maps import plot_attention
from npdl.study.plots.embedding_spectrum import plot_embeddings
from npdl.study.plots.flow import plot_flow
from npdl.study.plots.style import save
from npdl.study.plots.through_time import plot_gradients
from npdl.train.commands.table import grouped
from npdl.train.curves import plot_groups
from npdl.train.folder import describe, read_config
from npdl.train.metrics import read_records
from npdl.train.run import load_run

KINDS = ("gradients", "flow", "attention", "embeddings", "curves")


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the plots; the group of a setting is the plot that it belongs to."""

    steps: int = setting("gradients", 100, "number of steps back", "N",
                         Range(lambda n: 2 <= n <= 1000, "2 to 1000"))
    text: str = setting("attention", "", 'the text to attend to, for example "5 + 7 ="')
    log_steps: bool = setting("curves", False, "logarithmic steps")


def plot(what, *runs, out=None, **how):
    """Draw a plot, one of KINDS, into a PNG file (WHAT.png if `out` is None); return its path.

    `runs` are run folders: none for "gradients", any number for "curves", one for the others. `how`
    are Settings that belong to `what`. Raises InputError for options that do not go together and
    for a folder without a run.
    """
    run = runs[0] if runs else None
    if what not in KINDS:
        raise InputError(f"plot {what!r} is unknown; choose one of: {', '.join(KINDS)}")
    if run is None and what != "gradients":
        raise InputError(f"plot {what} needs a run; give its folder: plot {what} runs/NAME")
    if run is not None and what == "gradients":
        raise InputError("plot gradients is about new layers; leave the run out")
    if len(runs) > 1 and what != "curves":
        raise InputError(f"plot {what} shows one run; leave out {runs[1]}")
    settings = Settings(**how)
    check(settings)
    for field in dataclasses.fields(settings):
        if field.name in how and field.metadata["group"] != what:
            raise InputError(f"{option_of(field.name)} goes with {field.metadata['group']}, not "
                             f"with {what}; leave it out")
    path = Path(out or f"{what}.png")
    if what == "gradients":
        return save(plot_gradients(settings.steps), path)
    if what == "curves":
        titles = grouped(runs) if len(runs) > 1 else {describe(read_config(run)): [run]}
        plot_groups({title: [read_records(Path(run) / "metrics.jsonl") for run in found]
                     for title, found in titles.items()}, path, settings.log_steps)
        return path
    loaded = load_run(run)
    title = f"{what.capitalize()}: {describe(loaded.config)}, step {loaded.step}"
    if what == "attention":
        return save(plot_attention(loaded, title, settings.text or None), path)
    if loaded.config.translates:
        raise InputError(f"{run}: holds a model that translates; plot its attention or curves")
    return save((plot_flow if what == "flow" else plot_embeddings)(loaded, title), path)


def add_arguments(parser):
    """Add the options of `python -m npdl plot` to an argparse parser."""
    set_description(parser, __doc__)
    parser.add_argument("what", choices=KINDS, metavar="WHAT", help=", ".join(KINDS))
    parser.add_argument("runs", nargs="*", metavar="RUN", type=file_or_folder, help="a run folder; "
                        "of curves, several")
    parser.add_argument("--out", metavar="FILE", type=file_or_folder,
                        help="the PNG to write (default: WHAT.png)")
    add_settings(parser, "plot", ("gradients", "attention", "curves"),
                 Settings(text="a sample of the run"))


def run(options):
    """Draw the plot that the options ask for, and print its path."""
    how = vars(options)
    print(plot(how.pop("what"), *how.pop("runs"), **how))

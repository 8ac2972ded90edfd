"""Draw a plot into a PNG file.

    python -m npdl plot gradients            gradient norm through time: RNN, GRU, LSTM
    python -m npdl plot flow RUN             activations and gradients of each layer
    python -m npdl plot attention RUN        attention weights, layers by heads
    python -m npdl plot embeddings RUN       principal components and Fourier spectrum
    python -m npdl plot curves RUN ...       loss and accuracy over the steps

RUN is the folder of a training run. `curves` draws the mean and the range of runs that differ only
in their seed. It draws runs with different settings side by side. The plot is written to WHAT.png,
or to the FILE of --out.
"""

from pathlib import Path

from npdl.cli.console import checked_path_text, parse_positive, set_description
from npdl.errors import InputError
from npdl.study.plots.attention_maps import plot_attention
from npdl.study.plots.embedding_spectrum import plot_embeddings
from npdl.study.plots.flow import plot_flow
from npdl.study.plots.through_time import plot_gradients_through_time
from npdl.train.commands.table import group_runs
from npdl.train.curves import plot_curves
from npdl.train.folder import make_run_title
from npdl.train.metrics import read_records
from npdl.train.run import load_run
from npdl.train.style import save_figure

KINDS = ("gradients", "flow", "attention", "embeddings", "curves")


def add_arguments(parser):
    """Add the options of `python -m npdl plot` to an argparse parser."""
    set_description(parser, __doc__)
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    made = {what: kinds.add_parser(what) for what in KINDS}
    for what, one in made.items():
        one.add_argument("--out", metavar="FILE", type=checked_path_text, default=f"{what}.png",
                         help="the PNG to write (default: %(default)s)")
        if what != "gradients":
            one.add_argument("runs", nargs="+" if what == "curves" else 1, metavar="RUN",
                             type=checked_path_text, help="the folder of a training run")
    made["gradients"].add_argument("--steps", type=parse_positive, default=100, metavar="N",
                                   help="number of time steps (default: %(default)s)")
    made["attention"].add_argument("--text", help='the input text, for example "5 + 7 =" '
                                   "(default: a sample of the run)")
    made["curves"].add_argument("--log-steps", action="store_true",
                                help="draw the steps on a log scale")


def run(options):
    """Draw the plot that the options name, and print the path of the file."""
    if Path(options.out).suffix.lower() not in ("", ".png"):
        raise InputError(f"--out {options.out} is not a PNG file; give a name such as "
                         f"{options.what}.png")
    if options.what == "gradients":
        save_figure(plot_gradients_through_time(options.steps), options.out)
    elif options.what == "curves":
        plot_curves({title: [read_records(Path(run) / "metrics.jsonl") for run in found] for title,
                     found in group_runs(options.runs).items()}, options.out, options.log_steps)
    else:
        save_figure(_plot_model(options), options.out)
    print(options.out)


def _plot_model(options):
    """Return a Figure of the model of a run."""
    loaded = load_run(options.runs[0])
    title = f"{options.what.capitalize()}: {make_run_title(loaded.config)}, step {loaded.step}"
    if options.what == "attention":
        return plot_attention(loaded, title, options.text)
    if loaded.config.translates:
        raise InputError(f"{options.runs[0]} holds a translation model, of which npdl can "
                         f"draw the plots attention and curves, but not {options.what}")
    return (plot_flow if options.what == "flow" else plot_embeddings)(loaded, title)

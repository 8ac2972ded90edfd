"""Define the commands `python -m npdl step`, `blame` and `example`."""

import contextlib
import os
from argparse import ArgumentTypeError
from pathlib import Path

from npdl.cli.console import checked_path_text, set_description
from npdl.cli.options import SECONDS
from npdl.errors import InputError, NpdlError
from npdl.study.blame.blame import blame
from npdl.study.check.target import build_layer_and_inputs
from npdl.study.containment import format_exception, time_limit, write_text
from npdl.study.step.step import step

LAYER = ("a layer or model of npdl (LayerNorm, lstm, GPT), or your own class as file.py:Class or "
         "module:Class, or file.py:f for the functions f_forward and f_backward. Your own code "
         "needs --input, or a classmethod sample() that returns a layer and its inputs")


def _add_layer_options(parser):
    parser.add_argument("layer", metavar="LAYER", help=LAYER)
    parser.add_argument("--input", action="append", default=[], metavar="x=2,3,4",
                        help="the name and shape of an input of forward; repeat for each input")
    parser.add_argument("--set", action="append", default=[], metavar="d_model=4",
                        help="an argument of the constructor; W=4,5 makes a random array (4, 5); "
                        "repeat for each argument")
    parser.add_argument("--limit", type=parse_seconds, default=60.0, metavar="SECONDS",
                        help="stop after this much processor time (default: %(default)g)")


def parse_seconds(text):
    """Return the time limit in a text, in seconds; raise ArgumentTypeError if it is not valid."""
    with contextlib.suppress(ValueError):
        if SECONDS.holds(float(text)):
            return float(text)
    raise ArgumentTypeError(f"{text} must be {SECONDS.words}")


def _call_on_layer(options, function):
    """Return function(layer, *inputs, **options of forward) for the layer that the options name."""
    with time_limit(options.limit):
        try:
            layer, inputs, keywords = build_layer_and_inputs(
                options.layer, options.input, options.set)
            return function(layer, *inputs, **keywords)
        except SystemExit as error:
            raise InputError(f"{options.layer} called sys.exit({error.code!r}); remove that call"
                             ) from error


STEP = """Run a layer's forward and backward line by line, and check each line.

Each line is shown with its formula, the arrays that it reads, and the arrays that it writes.
Gradients are compared with finite differences.

  python -m npdl step LSTMCell
  python -m npdl step LSTM --html lstm.html             an interactive page
  python -m npdl step mine.py:MyLayer                   your own layer (npdl example writes one)
  python -m npdl step mine.py:MyLayer --input x=2,3 --set d=3"""
BLAME = """Find the incorrect line of a backward pass, and the value that it should have computed.

Every gradient is compared with finite differences. The exit status is 0 only if all gradients are
correct.

  python -m npdl blame mine.py:MyLayer                  your own layer (npdl example writes one)
  python -m npdl blame mine.py:MyLayer --input x=2,3 --set d=3
  python -m npdl blame mine.py:relu --input x=2,3       relu_forward and relu_backward
  python -m npdl blame LayerNorm                        npdl's own"""
EXAMPLE = """Write mine.py, a template for your own layer: a forward, a backward and a sample input.

  python -m npdl example
  python -m npdl step mine.py:MyLayer         run it line by line, with each value
  python -m npdl blame mine.py:MyLayer        find the incorrect line, if there is one"""


def add_step_arguments(parser):
    """Add the arguments of `step` to an argparse parser."""
    set_description(parser, STEP)
    _add_layer_options(parser)
    parser.add_argument("--html", metavar="FILE", type=checked_path_text,
                        help="write an interactive page to FILE instead of printing")
    parser.add_argument("--backward", action="store_true", help="show backward only")


def run_step(options):
    """Print a layer's statements or write a page; return 0 if all gradients are right, else 1."""
    walk = _call_on_layer(options, step)
    phases = ("backward",) if options.backward else ("forward", "backward")
    error = walk.recording.error
    is_own = ":" not in options.layer or options.layer.startswith("npdl.")
    if isinstance(error, NpdlError) and is_own:
        raise error                                     # a layer of npdl rejects the inputs
    is_right = bool(walk.finals) and all(row.right for row in walk.finals)
    options.status = int(error is not None or not is_right)
    if not options.html:
        walk.show(phases)
        return options.status
    path = walk.to_html(options.html, phases)
    print(f"{path}: {len(walk.steps(phases))} steps, {path.stat().st_size / 1000:.0f} kB")
    if error is not None:
        print(f"the layer raised {format_exception(error)}")
    return options.status


def add_blame_arguments(parser):
    """Add the arguments of `blame` to an argparse parser."""
    set_description(parser, BLAME)
    _add_layer_options(parser)


def run_blame(options):
    """Print the report of the function `blame`; return 0 if all gradients are correct, else 1."""
    report = _call_on_layer(options, blame)
    options.status = int(not report.right)
    print(report)
    return options.status


def add_example_arguments(parser):
    """Add the arguments of `example` to an argparse parser."""
    set_description(parser, EXAMPLE)
    parser.add_argument("--out", default="mine.py", metavar="FILE",
                        help="the file to write (default: mine.py)")


def run_example(options):
    """Write the template to the new .py file of --out, and print commands to try."""
    path = Path(options.out)
    if path.suffix != ".py":
        raise InputError(f"--out {path} is not a Python file; give a name such as mine.py")
    if os.path.lexists(path):
        raise InputError(f"--out {path} exists already; give another name")
    template = Path(__file__).with_name("mine.py").read_text(encoding="utf-8")
    write_text(path, template.replace("mine.py", os.fspath(path)))
    print(f"{path} has a layer with a sample input; try these commands:")
    for command in ("step", "blame"):
        print(f"  python -m npdl {command} {path}:MyLayer")
    print(f"  python {path}")

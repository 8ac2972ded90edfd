"""`python -m npdl step` and `python -m npdl blame`."""

import dataclasses
from pathlib import Path

from npdl.errors import InputError, NpdlError
from npdl.files import reason
from npdl_study.blame.blame import examine
from npdl_study.check.samples import more_samples
from npdl_study.check.target import build, find_class
from npdl_study.containment import message, time_limit
from npdl_study.step.step import step
from npdl_train.console import file_or_folder, set_description
from npdl_train.options import NATURAL, SECONDS, add_settings, setting, taken

LAYER = ("a layer or model of npdl (LayerNorm, lstm, GPT), file.py:Class or module:Class, or "
         "file.py:f for functions f_forward and f_backward; a class of your own needs a "
         "classmethod sample() that returns (layer, inputs), or --input")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a layer is tried."""

    seed: int = setting("", 0, "of the inputs and parameters", allowed=NATURAL)
    limit: float = setting("", 60.0, "stop when your code has not ended by then", "SECONDS",
                           SECONDS)


def _add_target(parser):
    parser.add_argument("layer", metavar="LAYER", help=LAYER)
    parser.add_argument("--input", action="append", default=[], metavar="x=2,3,4",
                        help="an input of forward and its shape; once for each input")
    parser.add_argument("--set", action="append", default=[], metavar="d_model=4",
                        help="an argument of the constructor")
    parser.add_argument("--cache", choices=["self"], help="for a class that keeps in self what "
                        "backward needs: forward returns its output alone, backward takes dy alone")
    add_settings(parser, parser.prog, ("",), Settings())


def _sized(work):
    """What `work` returns; too little memory is told in the words of these commands."""
    try:
        return work()
    except MemoryError as error:
        raise InputError(f"not enough memory ({' '.join(str(error).split()) or 'none is left'}); "
                         "give smaller shapes with --input") from error


STEP = """Run a layer's forward and backward line by line, and check each line.

Each line is shown with its formula, what it read and what it wrote; a gradient beside it is right
or wrong by a numerical one.

  python -m npdl step LSTMCell
  python -m npdl step LSTM --html lstm.html             a page to play it in
  python -m npdl step mine.py:MyLayer                   a layer of yours (npdl example writes one)
  python -m npdl step mine.py:MyLayer --input x=2,3 --set d=3"""
BLAME = """Find the first wrong line of a backward, with what it should have computed.

Every gradient is compared with a numerical one. The exit status is 1 unless all of them are right.

  python -m npdl blame mine.py:MyLayer                  a layer of yours (npdl example writes one)
  python -m npdl blame mine.py:MyLayer --input x=2,3 --set d=3
  python -m npdl blame mine.py:relu --input x=2,3       relu_forward and relu_backward
  python -m npdl blame LayerNorm                        npdl's own"""


def add_step(parser):
    """Add the arguments of `step` to an argparse parser."""
    set_description(parser, STEP)
    _add_target(parser)
    parser.add_argument("--html", metavar="FILE", type=file_or_folder,
                        help="write a page instead of printing")
    parser.add_argument("--title", help="the page's title; the layer's name if not given")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--forward", action="store_true", help="the forward only")
    side.add_argument("--backward", action="store_true", help="the backward only")
    parser.add_argument("--no-check", action="store_true", help="no numerical gradients")


def run_step(options):
    """Print or write the walk that the options ask for; 1 when the layer raised."""
    settings = taken(Settings, vars(options))
    with time_limit(settings.limit):
        layer, inputs, keywords = build(options.layer, options.input, options.set, settings.seed,
                                        options.cache)
        walk = _sized(lambda: step(layer, *inputs, seed=settings.seed, check=not options.no_check,
                                   title=options.title, **keywords))
    phases = ("forward",) if options.forward else ("backward",) if options.backward else (
        "forward", "backward")
    error = walk.recording.error
    options.status = int(error is not None)
    if options.html:
        path = _written(walk, options.html, phases)
        print(f"{path}: {len(walk.steps(phases))} steps, {path.stat().st_size / 1000:.0f} kB")
        if error is not None:
            print(f"ended by {message(error)}")
    else:
        walk.show(phases)
    return options.status


def _written(walk, name, phases):
    try:
        return walk.to_html(Path(name), phases)
    except (OSError, NpdlError) as error:
        raise InputError(f"--html {name}: can't be written ({reason(error)}); give a file in a "
                         "folder that you may write to") from error


def _with_options(options, seed, report):
    """("with padding_id=1:", what `blame` finds there), where a class that is right as it is has an
    option, or brings a sample, with which it is wrong; else ("", the report)."""
    cls = find_class(options.layer, options.cache)
    if report.right and not (options.input or options.set or cls.__module__.startswith("npdl.")):
        for about, given in more_samples(cls, seed):
            found = _sized(lambda given=given: examine(*given, seed=seed))
            if found.right is False:
                return f"with {about}: ", found
    return "", report


def add_blame(parser):
    """Add the arguments of `blame` to an argparse parser."""
    set_description(parser, BLAME)
    _add_target(parser)


def run_blame(options):
    """Print what `blame` finds; 1 when something is wrong."""
    settings = taken(Settings, vars(options))
    with time_limit(settings.limit):
        layer, inputs, keywords = build(options.layer, options.input, options.set, settings.seed,
                                        options.cache)
        report = _sized(lambda: examine(layer, inputs, keywords, seed=settings.seed))
        about, report = _with_options(options, settings.seed, report)
    options.status = int(not report.right)
    print(f"{about}{report}")
    return options.status

"""`python -m npdl example`: a layer to start from, with its sample and the commands for it."""

import os
from pathlib import Path

from npdl.errors import InputError
from npdl_train.console import set_description

DESCRIPTION = """\
Write mine.py: a layer with a forward, a backward and a sample input, to replace by your own.

  python -m npdl example
  python -m npdl step mine.py:MyLayer         line by line, each value checked
  python -m npdl blame mine.py:MyLayer        the first wrong line, if there is one"""
SOURCE = Path(__file__).with_name("mine.py")


def add_arguments(parser):
    """Add the options of `python -m npdl example` to an argparse parser."""
    set_description(parser, DESCRIPTION)
    parser.add_argument("--out", default="mine.py", metavar="FILE", help="default: mine.py")


def run(options):
    """Write the file, unless there is one, and say what to do with it."""
    path = Path(options.out)
    if path.suffix != ".py":
        raise InputError(f"--out {path}: give the name of a Python file, say mine.py")
    text = SOURCE.read_text(encoding="utf-8").replace("mine.py", os.fspath(path))
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"--out {path}: is there already; give another name") from None
    except OSError as error:
        raise InputError(f"--out {path}: can't be written ({error.strerror}); give a file in a "
                         "folder that you may write to") from error
    print(f"{path}: a layer with its sample; try")
    for command in ("step", "blame"):
        print(f"  python -m npdl {command} {path}:MyLayer")
    print(f"  python {path}")

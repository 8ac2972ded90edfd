"""The command `python -m npdl example`: write a layer to start from."""

import os
from pathlib import Path

from npdl.cli.console import set_description
from npdl.errors import InputError

DESCRIPTION = """\
Write mine.py: a layer with a forward, a backward and a sample input, as a template for your own.

  python -m npdl example
  python -m npdl step mine.py:MyLayer         run it line by line, with each value
  python -m npdl blame mine.py:MyLayer        find the incorrect line, if there is one"""
SOURCE = Path(__file__).with_name("mine.py")


def add_arguments(parser):
    """Add the options of `python -m npdl example` to an argparse parser."""
    set_description(parser, DESCRIPTION)
    parser.add_argument("--out", default="mine.py", metavar="FILE", help="default: mine.py")


def run(options):
    """Write the file, unless it exists, and print the commands to try."""
    path = Path(options.out)
    if path.suffix != ".py":
        raise InputError(f"--out {path}: give the name of a Python file, for example mine.py")
    text = SOURCE.read_text(encoding="utf-8").replace("mine.py", os.fspath(path))
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"--out {path}: exists already; give another name") from None
    except OSError as error:
        raise InputError(f"--out {path}: can't be written ({error.strerror}); give a file in a "
                         "folder that you may write to") from error
    print(f"{path}: a layer with a sample input; try")
    for command in ("step", "blame"):
        print(f"  python -m npdl {command} {path}:MyLayer")
    print(f"  python {path}")

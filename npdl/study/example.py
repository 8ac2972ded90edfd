"""Define the command `python -m npdl example`, which writes a layer as a template."""

import os
from pathlib import Path

from npdl.cli.console import set_description
from npdl.errors import InputError
from npdl.study.containment import write_text

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
    """Write the template to the new .py file of --out, and print commands to try."""
    path = Path(options.out)
    if path.suffix != ".py":
        raise InputError(f"--out {path} is not a Python file; give a name such as mine.py")
    if os.path.lexists(path):
        raise InputError(f"--out {path} exists already; give another name")
    write_text(path, SOURCE.read_text(encoding="utf-8").replace("mine.py", os.fspath(path)))
    print(f"{path} has a layer with a sample input; try these commands:")
    for command in ("step", "blame"):
        print(f"  python -m npdl {command} {path}:MyLayer")
    print(f"  python {path}")

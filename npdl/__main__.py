"""The commands of npdl: `python -m npdl step LAYER`, `python -m npdl ask FOLDER`, and so on; `-h`
lists them. What is imported here comes before Ctrl-C is made quiet: nothing slow."""

import importlib
import os
import sys

from npdl import __version__
from npdl.cli.console import OneLineParser, guarded, start_script

# name: (what it does, module, the function that adds its arguments, the function that runs it)
COMMANDS = {
    "step": ("show a layer's forward and backward line by line, in the terminal or as a page",
             "npdl.study.commands", "add_step", "run_step"),
    "blame": ("find the incorrect line of a backward pass; exit status 1 if there is one",
              "npdl.study.commands", "add_blame", "run_blame"),
    "profile": ("time a training step of a model or a layer, by the lines of its source",
                "npdl.study.profile", "add_arguments", "run"),
    "example": ("write mine.py, a template for a layer of your own", "npdl.study.example",
                "add_arguments", "run"),
    "homework": ("write layers whose backward is blank, with tests; grade a class",
                 "npdl.study.homework.commands", "add_arguments", "run"),
    "plot": ("draw gradients, activations, attention and embeddings of a run or a model",
             "npdl.study.plots.plotting", "add_arguments", "run"),
    "finetune": ("fine-tune a run or a real model with LoRA or QLoRA",
                 "npdl.train.commands.finetune", "add_arguments", "run"),
    "generate": ("continue a prompt with a run or a real model",
                 "npdl.train.commands.generate", "add_arguments", "run"),
    "ask": ("ask a trained model for the answer to an equation",
            "npdl.train.commands.ask", "add_arguments", "run"),
    "table": ("compare finished runs in a table", "npdl.train.commands.table",
              "add_arguments", "run"),
}


def start():
    """Run this process's command line and leave with its status."""
    start_script()
    sys.exit(main())


def main(arguments=None):
    """Run one command; returns its exit status (2 for what the user got wrong)."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = given[0] if given else ""
    prog = f"python -m npdl {chosen}" if chosen in COMMANDS else "python -m npdl"
    return guarded(prog, lambda: _main(given, chosen))


def _main(given, chosen):
    parser = OneLineParser(prog="python -m npdl", description="Layers for sequence models in "
                           "NumPy, every backward written out: train, and understand.",
                           epilog="COMMAND --help says more. A run is the folder that a training "
                           "script wrote: python experiments/train_gpt.py, train_lstm.py, "
                           "train_seq2seq.py. To begin: `step LSTMCell`, `example`.")
    parser.add_argument("--version", action="version", version=f"npdl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (what, module, add, _) in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=what)
        if name == chosen:                              # import what is asked for, no more
            getattr(importlib.import_module(module), add)(sub)
    if not chosen.startswith("-") and chosen not in COMMANDS:
        parser.error(_unknown(chosen))
    options = parser.parse_args(given)
    command = vars(options).pop("command")
    _, module, _, run = COMMANDS[command]
    return _run_until_output_closes(getattr(importlib.import_module(module), run), options)


def _unknown(name):
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, 1)
    meant = f"; did you mean {near[0]}?" if near else ";"
    what = f"command {name!r} is unknown" if name else "a command is missing"
    return f"{what}{meant} give one of: {', '.join(COMMANDS)}"


def _run_until_output_closes(run, options):
    """Run a command; stop without an error if its output is closed, as `head` does.

    The exit status is then `options.status`, which the command sets before it prints, or 0.
    """
    try:
        status = run(options)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return getattr(options, "status", 0)


if __name__ == "__main__":
    start()

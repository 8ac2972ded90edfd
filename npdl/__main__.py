"""The commands of npdl, such as `python -m npdl step LAYER`; `python -m npdl -h` lists them.

Slow modules are imported only after `prepare_script`, because Ctrl-C then prints no traceback.
"""

import importlib
import sys

from npdl import __version__
from npdl.cli.console import (
    OneLineParser,
    prepare_script,
    run_guarded,
    run_until_output_closes,
)

# name: (help, module, function that adds the arguments, function that runs the command)
COMMANDS = {
    "step": ("show a layer's forward and backward line by line, in the terminal or as an HTML page",
             "npdl.study.commands", "add_step_arguments", "run_step"),
    "blame": ("find the incorrect line of a backward pass; exit status 1 if there is one",
              "npdl.study.commands", "add_blame_arguments", "run_blame"),
    "profile": ("time a training step of a model or a layer, line by line",
                "npdl.study.profile", "add_arguments", "run"),
    "example": ("write mine.py, a template for a layer of your own",
                "npdl.study.commands", "add_example_arguments", "run_example"),
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
    """Run the command line of this process, and exit with its status."""
    prepare_script()
    sys.exit(main())


def main(arguments=None):
    """Run one command and return its exit status (2 if the user's input is invalid)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = words[0] if words else ""
    typed = words[: 2 if words[:2] == ["homework", "grade"] else 1] if chosen in COMMANDS else []
    return run_guarded(" ".join(["python -m npdl", *typed]), lambda: _parse_and_run(words, chosen))


def _parse_and_run(arguments, command):
    parser = OneLineParser(prog="python -m npdl", description="Layers for sequence models in "
                           "NumPy, with every backward pass written by hand.",
                           epilog="COMMAND --help describes a command. A run is the folder that a "
                           "training script wrote, such as `python experiments/train_gpt.py`. A "
                           "real model is a GPT-2 or Llama model in files. To begin, try `python "
                           "-m npdl step LSTMCell` or `python -m npdl example`.")
    parser.add_argument("--version", action="version", version=f"npdl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, module, add, _) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name == command:                             # import only the module of this command
            getattr(importlib.import_module(module), add)(sub)
    if not command.startswith("-") and command not in COMMANDS:
        parser.error(_describe_unknown_command(command))
    options, unknown = parser.parse_known_args(arguments)
    if unknown:                             # the parser of the command prints the command's name
        commands.choices.get(command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    _, module, _, run = COMMANDS[vars(options).pop("command")]
    return run_until_output_closes(getattr(importlib.import_module(module), run), options)


def _describe_unknown_command(name):
    import difflib

    if name == "gradcheck":
        return "gradcheck is a function in Python; on the command line, blame checks all gradients"
    problem = f"command {name!r} is unknown" if name else "a command is missing"
    similar = difflib.get_close_matches(name, COMMANDS, 1)
    return f"{problem}; " + (f"did you mean {similar[0]}?" if similar
                             else f"give one of: {', '.join(COMMANDS)}")


if __name__ == "__main__":
    start()

"""The command line of the training scripts (experiments/train_*.py)."""

import textwrap

from npdl import backend
from npdl.backend import convert_cupy_errors
from npdl.cli.console import (
    OneLineParser,
    add_help_all,
    checked_path_text,
    parse_positive,
    print_note,
    run_guarded,
    set_description,
)
from npdl.cli.options import add_setting_options, option_name
from npdl.cli.process import count_usable_cores
from npdl.errors import InputError
from npdl.train.config import ARITHMETIC, DATES, GPT, SEQ2SEQ, TEXT, Config, TextConfig
from npdl.train.folder import choose_default_folder, holds_run
from npdl.train.recipes import RECIPES, expand_recipe, make_recipe_config
from npdl.train.run import read_resumed_config
from npdl.train.task import complete_config

GROUPS = ("model", "training", "records", "machine")
THREADS = min(2, count_usable_cores())          # the default of --threads
TEXT_SHOWN = ("positions", "clip", "r_train", "batch", "steps", "weight_decay", "eval_first",
              "eval_every")


def run_script(train, model, description, arguments=None):
    """Run a training script and return its exit status.

    train  the training function, called as train(config, folder=, resume=, quiet=, for_steps=)
    model  "gpt", "lstm" or "seq2seq", which decides the options

    `description` is the text of --help, and `arguments` the command line (None: the process's).
    """
    parser = OneLineParser(prog=f"train_{model}.py")

    def run_training():
        _add_options(parser, model, description)
        overrides, out, train_options = split_options(parser.parse_args(arguments))
        config, folder = _make_or_read_config(overrides, model, out, train_options["resume"])
        with convert_cupy_errors():
            backend.use(config.backend)
            try:
                return train(complete_config(config), folder=folder, **train_options)
            except KeyboardInterrupt:           # before the run begins, or a second one
                print_note("interrupted; continue from the last checkpoint by --resume --out "
                           f"{folder}" if holds_run(folder) else
                           "interrupted before the run began; nothing is saved")
                raise

    return run_guarded(parser.prog, run_training)


def split_options(options):
    """Split the options into settings, the folder of --out (or None), and arguments of `train`."""
    overrides = vars(options)
    train_options = {name: overrides.pop(name) for name in ("resume", "for_steps", "quiet")}
    return overrides, overrides.pop("out"), train_options


def add_process_options(parser, default_out):
    """Add the options that are not saved with a run. The help shows `default_out` for --out."""
    add_help_all(parser)
    group = parser.add_argument_group("this process")
    group.add_argument("--out", type=checked_path_text, default=None, metavar="DIR",
                       help=f"the run's folder (default: {default_out})")
    group.add_argument("--resume", action="store_true", default=False,
                       help="continue the run in --out, from its last checkpoint")
    group.add_argument("--for-steps", type=parse_positive, default=None, metavar="N",
                       help="make N updates, save and stop; --resume continues (default: none)")
    group.add_argument("--quiet", action="store_true", default=False, help="print nothing")


def _make_or_read_config(overrides, model, out, resume):
    """Return (Config, folder) of the run that the options begin or resume."""
    model = overrides.get("model", model)
    if not resume:
        config = make_recipe_config(model, {"threads": THREADS, **overrides})
        return config, out or choose_default_folder(config)
    folder = out or choose_default_folder(make_recipe_config(model, overrides))
    config = read_resumed_config(folder, expand_recipe(model, overrides))
    if config.command != Config(model=model).command:
        raise InputError(f"--out {folder} holds the run of another command; resume it with "
                         f"{config.command}")
    return config, folder


def _add_options(parser, model, description):
    set_description(parser, description, omit_defaults=True)
    if model in SEQ2SEQ:
        add_setting_options(parser, GPT, (DATES, *GROUPS), Config(model=model),
                            left_out=("norm_bias", "init"))
        add_process_options(parser, "runs/<model>-dates-seed<seed>")
        return
    defaults = Config(model=model, threads=THREADS)
    text = TextConfig(model=model)
    shown = ", ".join(f"{option_name(name)} {'none' if value is None else value}"
                      for name in TEXT_SHOWN for value in [getattr(text, name)]
                      if name != "positions" or model == "gpt")
    parser.epilog = textwrap.fill(f"With --text the defaults are {shown}.", 80)
    parser.add_argument("--recipe", choices=list(RECIPES), help="settings that the programming "
                        "assignment leaves open: default (--clip 1.0, PyTorch's initialisation), "
                        "release (its starter code: --clip 1.0, Glorot's initialisation of an "
                        "LSTM's gates) or stated (no clipping); --clip and --init take "
                        "precedence").rare = True
    for groups, table in (((ARITHMETIC,), defaults), ((TEXT,), text),
                          (GROUPS, defaults)):
        add_setting_options(parser, f"train-{model}", groups, table)
    add_process_options(parser, "runs/<model>-p<p>-<operator>-seed<seed>, or "
                "runs/<model>-text-<file>-seed<seed>")

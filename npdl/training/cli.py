"""The command line that train-gpt and train-lstm share."""

import argparse
import dataclasses

from npdl import backend
from npdl.console import OneLineParser, guarded
from npdl.errors import InputError
from npdl.training import options
from npdl.training.config import TEXT_ONLY, Config, usable_cores

# Document 004 names neither a clip nor how its LSTM starts. The starter code that its course has
# published clips at norm 1 and starts the gates as Glorot & Bengio do: that is "release". The
# default leaves the gates at PyTorch's start: the validation loss is then of the size that the
# document prints (docs/results.md).
RECIPES = {
    "default": {"gpt": {"clip": 1.0}, "lstm": {"clip": 1.0}},
    "release": {"gpt": {"clip": 1.0}, "lstm": {"clip": 1.0, "init": "xavier"}},
    "stated": {"gpt": {"clip": None}, "lstm": {"clip": None}},
}
ARITHMETIC_DEFAULTS = RECIPES["default"]
TEXT_DEFAULTS = {"clip": None, "init": "torch", "r_train": 0.9, "batch": 12, "steps": 2000,
                 "weight_decay": 0.1, "eval_first": 0, "eval_every": 250}
ARITHMETIC_ONLY = ("p", "q", "operator", "orders", "symmetric", "stratified", "recipe")


def parser(model, description, prog=None):
    """The argument parser of one model's script; options not given are absent from its result."""
    p = OneLineParser(prog=prog, description=description, argument_default=argparse.SUPPRESS,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    d = Config(model=model, **ARITHMETIC_DEFAULTS[model])
    options.data_options(p, d)
    options.text_options(p, d, TEXT_DEFAULTS)
    options.model_options(p, d)
    options.training_options(p, d)
    p.add_argument("--recipe", choices=list(RECIPES), help="what document 004 leaves open: default "
                   "(clip 1.0, PyTorch's start), release (what the published starter code of its "
                   "course has: clip 1.0, an LSTM's gates as Glorot's) or stated (nothing that "
                   "the text does not name: no clip); --clip and --init go before it")
    options.record_options(p, d, "runs/<model>-p<p>-<operator>-seed<seed>, or "
                           "runs/<model>-text-<file>-seed<seed>")
    options.machine_options(p, d)
    return p


def main(model, description, arguments=None, prog=None):
    """Run a training script: parse, train, and return the exit status."""
    from npdl.training import run

    p = parser(model, description, prog)
    given, folder, resume, how = parsed(p, arguments)

    def work():
        nonlocal folder
        if resume:
            folder = folder or run.default_folder(new_config(model, given))
            config = run.resumed_config(folder, recipe_settings(model, given))
            if config.model != model:
                script = "finetune" if config.pretrained else f"train_{config.model}"
                raise InputError(f"--out {folder}: holds the run of another model; resume it with "
                                 f"{script}.py")
        else:
            config = new_config(model, given)
            folder = folder or run.default_folder(config)
        backend.use(config.backend)
        return run.train(config, folder, resume, **how)

    return guarded(p.prog, work)


def parsed(p, arguments):
    """(settings that were given, --out, --resume, npdl.training.run.train's other arguments)."""
    given = vars(p.parse_args(arguments))
    if "betas" in given:
        given["betas"] = tuple(given["betas"])
    out, resume, check = given.pop("out"), given.pop("resume"), given.pop("check")
    how = {name: given.pop(name) for name in ("quiet", "for_steps")}
    if check:
        from npdl.training.nonfinite import Watch

        how["check"] = Watch
    return given, out, resume, how


def recipe_settings(model, given):
    """`given` with its recipe, if it names one, as the settings that it stands for."""
    given = dict(given)
    settings = RECIPES[given.pop("recipe")][model] if "recipe" in given else {}
    start = {"init": "torch"} if settings else {}
    return {**start, **settings, **given}


def new_config(model, given):
    """A Config from the options given, with the defaults that depend on others or the machine."""
    given = dict(given)
    is_text = "text" in given
    for name in given.keys() & set(ARITHMETIC_ONLY if is_text else TEXT_ONLY):
        other = "cannot go with --text" if is_text else "goes with --text only"
        raise InputError(f"--{name.replace('_', '-')} {other}; leave it out")
    recipe = RECIPES[given.pop("recipe", "default")][model]
    given = {**(TEXT_DEFAULTS if is_text else recipe), **given}
    given.setdefault("threads", min(2, usable_cores()))
    return dataclasses.replace(Config(model=model), **given)

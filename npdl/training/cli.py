"""The command line that train_gpt.py and train_lstm.py share."""

import argparse
import dataclasses

from npdl import backend
from npdl.errors import InputError
from npdl.script import OneLineParser, guarded
from npdl.training import options
from npdl.training.config import TEXT_ONLY, Config, usable_cores

# Where they are not given. Document 004 names neither a clip nor how its LSTM starts: with these
# its losses and its first steps come out, without them they do not (experiments/REPORT.md).
ARITHMETIC_DEFAULTS = {"gpt": {"clip": 1.0}, "lstm": {"clip": 1.0, "init": "xavier"}}
TEXT_DEFAULTS = {"clip": None, "init": "torch", "r_train": 0.9, "batch": 12, "steps": 2000,
                 "weight_decay": 0.1, "eval_first": 0, "eval_every": 250}
ARITHMETIC_ONLY = ("p", "q", "operator", "orders", "symmetric", "stratified")


def parser(model, description):
    """The argument parser of one model's script; options not given are absent from its result."""
    p = OneLineParser(description=description, argument_default=argparse.SUPPRESS,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    d = Config(model=model, **ARITHMETIC_DEFAULTS[model])
    options.data_options(p, d)
    options.text_options(p, d, TEXT_DEFAULTS)
    options.model_options(p, d)
    options.training_options(p, d)
    options.record_options(p, d, "runs/<model>-p<p>-<operator>-seed<seed>, or "
                           "runs/<model>-text-<file>-seed<seed>")
    options.machine_options(p, d)
    return p


def main(model, description, arguments=None):
    """Run a training script: parse, train, and return the exit status."""
    from npdl.training import run

    p = parser(model, description)
    given, folder, resume, how = parsed(p, arguments)

    def work():
        nonlocal folder
        if resume:
            folder = folder or run.default_folder(new_config(model, given))
            config = run.resumed_config(folder, given)
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
        from npdl.study.nonfinite import Watch

        how["check"] = Watch
    return given, out, resume, how


def new_config(model, given):
    """A Config from the options given, with the defaults that depend on others or the machine."""
    given = dict(given)
    is_text = "text" in given
    for name in given.keys() & set(ARITHMETIC_ONLY if is_text else TEXT_ONLY):
        other = "cannot go with --text" if is_text else "goes with --text only"
        raise InputError(f"--{name.replace('_', '-')} {other}; leave it out")
    given = {**(TEXT_DEFAULTS if is_text else ARITHMETIC_DEFAULTS[model]), **given}
    given.setdefault("threads", min(2, usable_cores()))
    return dataclasses.replace(Config(model=model), **given)

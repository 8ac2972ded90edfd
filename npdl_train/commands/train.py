"""Train {a} {model} on sums modulo 31, or other arithmetic, until it generalises; or on a text.

From half of all equations a + b = r modulo 31 it learns the answers by heart, and thousands of
steps later the other half, often suddenly ("grokking"). The defaults: two layers of width
128{heads}, AdamW, weight decay 1, 10001 steps. With --text FILE it learns to
continue a text.

All that the run makes goes into one folder: settings, metrics, curves.png, and the checkpoint that
ask, generate, plot and finetune read. Ctrl-C saves and stops; --resume goes on as if nothing had
been.

  python -m npdl train-{name}
  python -m npdl train-{name} --p 97 --operator - --steps 3000 --out runs/minus
  python -m npdl train-{name} --text plays.txt --out runs/plays
  python -m npdl train-{name} --resume --out runs/minus
"""

import dataclasses
import functools
import textwrap

from npdl import backend
from npdl.errors import InputError
from npdl_train.console import offer_all, set_description
from npdl_train.options import COUNT, add_settings, option_of, setting, taken
from npdl_train.runs import run
from npdl_train.runs.config import (
    ARITHMETIC,
    DATES,
    GPT,
    MACHINE,
    MODEL,
    RECORDS,
    SEQ2SEQ,
    TEXT,
    TRAINING,
    Config,
    TextConfig,
)
from npdl_train.runs.recipes import RECIPES, TEXT_DEFAULTS, new_config, recipe_settings

PROCESS = "this process"
TRANSLATE = """Train an encoder-decoder to translate dates, written in many ways, into ISO 8601.

"March 3rd, 2021", "wed 3 mar 2021", "03/03/21" (month first), "3.3.21" (day first) -> 2021-03-03.
The dates are made here, with the run's seed: all days of 1950 to 2049, nine in ten to train on, in
the forms of npdl/data/dates.py (another form, or a mixture of two, may be read wrong). The printed
accuracy is the share of dates that are right as a whole, and the validation set's days occur in no
way in training. seq2seq is the transformer of Vaswani et al. 2017, lstm-seq2seq two LSTMs with the
attention of Luong et al. 2015. Both learn by teacher forcing: the decoder is fed the right tokens
before each, not its own. Everything that the run makes goes into one folder. Ctrl-C saves and
stops; --resume goes on, bit for bit.

  python -m npdl train-seq2seq
  python -m npdl train-seq2seq --model lstm-seq2seq
  python -m npdl generate runs/seq2seq-dates-seed0 "March 3rd, 2021" --method beam --n-best 3
  python -m npdl plot attention runs/seq2seq-dates-seed0 --text "March 3rd, 2021"
"""


def add_seq2seq(parser):
    """Add the options of train-seq2seq to an argparse parser."""
    set_description(parser, TRANSLATE, given_only=True)
    add_settings(parser, GPT, (DATES, MODEL, TRAINING, RECORDS, MACHINE),
                 new_config(SEQ2SEQ[0], {}), left_out=("norm_bias", "init"))
    run_options(parser, "runs/<model>-dates-seed<seed>")


def run_seq2seq(options):
    return _train(options, getattr(options, "model", SEQ2SEQ[0]))


def _add(parser, model, a, heads=""):
    """Add the options of train-gpt or train-lstm to an argparse parser."""
    text = __doc__.format(a=a, model=model.upper(), name=model, heads=heads)
    set_description(parser, text, given_only=True)
    shown = ", ".join(f"{option_of(name)} {'none' if value is None else value}"
                      for name, value in TEXT_DEFAULTS[model].items())
    parser.epilog = textwrap.fill(f"With --text the defaults are {shown}.", 80)
    parser.add_argument("--recipe", choices=list(RECIPES), help="the assignment that the defaults "
                        "are from (document 004) names no clip and no starting values of the LSTM: "
                        "default (--clip 1.0, PyTorch's start), release (as its published starter "
                        "code: --clip 1.0, an LSTM's gates as Glorot's) or stated (no clip); "
                        "--clip and --init go before it").rare = True
    for groups, defaults in (((ARITHMETIC,), new_config(model, {})), ((TEXT,), TextConfig()),
                             ((MODEL, TRAINING, RECORDS, MACHINE), new_config(model, {}))):
        add_settings(parser, f"train-{model}", groups, defaults)
    run_options(parser, "runs/<model>-p<p>-<operator>-seed<seed>, or "
                "runs/<model>-text-<file>-seed<seed>")


@dataclasses.dataclass(frozen=True)
class Process:
    """One process's part in a run."""

    out: str | None = setting(PROCESS, None, "the run's folder", "DIR")
    resume: bool = setting(PROCESS, False, "go on with the run in --out, exactly where its "
                           "checkpoint is")
    for_steps: int | None = setting(PROCESS, None, "make N more updates now, save and leave; "
                                    "--resume goes on", "N", COUNT)
    quiet: bool = setting(PROCESS, False, "show nothing")
    check: bool = setting(PROCESS, False, "look at every layer's numbers at every step: say where "
                          "the first NaN or infinity is made (slower)", rare=True)


def run_options(parser, folder):
    """Add the options of Process; `folder` says where --out is by default."""
    offer_all(parser)
    add_settings(parser, parser.prog, (PROCESS,), Process(out=folder))


def parsed(options):
    """(settings that were given, --out, --resume, npdl_train.runs.run.train's other arguments)."""
    given = vars(options)
    process = taken(Process, given)
    how = {"quiet": process.quiet, "for_steps": process.for_steps, "check": process.check}
    return given, process.out, process.resume, how


def _train(options, model):
    """Train a model as the options say; returns the exit status."""
    given, folder, resume, how = parsed(options)
    command = Config(model=model).command
    if resume:
        folder = folder or run.default_folder(new_config(model, given))
        config = run.resumed_config(folder, recipe_settings(model, given))
        if config.command != command:
            raise InputError(f"--out {folder}: holds the run of another model; resume it with "
                             f"{config.command}")
    else:
        config = new_config(model, given)
        folder = folder or run.default_folder(config)
    backend.use(config.backend)
    return run.train(config, folder, resume, **how)


add_gpt = functools.partial(_add, model="gpt", a="a", heads=" and four heads")
add_lstm = functools.partial(_add, model="lstm", a="an")
run_gpt = functools.partial(_train, model="gpt")
run_lstm = functools.partial(_train, model="lstm")

"""The options of the scripts that train, group by group; those not given are absent."""

import argparse

from npdl import backend
from npdl.console import place
from npdl.training.config import DTYPES, OPTIMIZERS
from npdl.training.engine import ENGINES
from npdl.training.initial import INITS, ONLY


def orders(text):
    """'2', '3' or '2,3' as a tuple of integers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not 2, 3 or 2,3") from None


def norm(text):
    """'none' as None, else a number."""
    try:
        return None if text == "none" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number and not none") from None


class Group:
    """A group of options of an argparse parser, with the settings `d` as shown defaults."""

    def __init__(self, parser, title, d):
        self.group = parser.add_argument_group(title)
        self.d = d

    def __call__(self, flag, help, **how):
        name = flag.lstrip("-").replace("-", "_")
        if how.get("action") is None:
            help += f" (default: {_shown(getattr(self.d, name))})"
        self.group.add_argument(flag, help=help, **how)


def data_options(p, d):
    option = Group(p, "data: a o b = r, or a o b o c = r, in modular arithmetic", d)
    option("--p", "operands are 0..p-1", type=int, metavar="P")
    option("--q", "results are modulo q; p unless given", type=int, metavar="Q")
    option("--operator", "one of + - * /; '/' needs a prime p", metavar="O")
    option("--orders", "number of operands: 2, 3 or 2,3", type=orders, metavar="K")
    option("--r-train", "share of the equations to train on, in (0, 1]; 1 leaves no "
           "validation set", type=float, metavar="R")
    option("--symmetric", "only equations with a <= b (<= c)", action="store_true")
    option("--stratified", "with both orders: take r-train of each", action="store_true")


def text_options(p, d, defaults):
    option = Group(p, "data: a text instead", d)
    shown = ", ".join(f"--{name.replace('_', '-')} {'none' if value is None else value}"
                      for name, value in defaults.items())
    option.group.add_argument("--text", metavar="FILE", help="train on the characters of a file "
                              f"in UTF-8; the defaults are then {shown}")
    option("--block", "characters in a window", type=int, metavar="S")
    option("--eval-batches", "batches of each part to evaluate on, always the same", type=int,
           metavar="N")


def model_options(p, d):
    option = Group(p, "model", d)
    option("--layers", "number of layers", type=int, metavar="L")
    option("--width", "embedding and hidden width", type=int, metavar="D")
    where = "attention's maps" if d.model == "gpt" else "cells and the classifier"
    option.group.add_argument("--no-bias", dest="bias", action="store_false",
                              help=f"no biases in the {where}")
    option("--dropout", "dropout rate", type=float, metavar="RATE")
    option("--dtype", "of all parameters", choices=DTYPES)
    if d.model == "gpt":
        option("--heads", "attention heads", type=int, metavar="H")
        option("--multiplier", "inner width of the feed-forward net, in widths", type=int,
               metavar="M")
        option("--norm", "LayerNorm after (post) or before (pre) each part",
               choices=("post", "pre"))
        option.group.add_argument("--no-norm-bias", dest="norm_bias", action="store_false",
                                  help="no biases in the LayerNorms")
        option("--activation", "of the feed-forward net: gelu, gelu-tanh, relu, tanh, sigmoid")
        option("--positions", "fixed waves with exponent k/d or 2k/d, or learned")
        option("--tied", "classifier and embedding share one matrix", action="store_true")
    small = ("GPT-2's small normal ones, or normal ones by width (lecun)" if d.model == "gpt"
             else "or Glorot's wider ones in the gates")
    option("--init", f"starting values: torch's usual ones, {small}",
           choices=[name for name in INITS if ONLY.get(name, d.model) == d.model])


def training_options(p, d):
    option = Group(p, "training", d)
    option("--steps", "updates", type=int, metavar="T")
    option("--batch", "batch size; the whole training set if that is smaller", type=int,
           metavar="B")
    option("--optimizer", "update rule", choices=OPTIMIZERS)
    option("--lr", "learning rate", type=float)
    option("--betas", "of Adam and AdamW", type=float, nargs=2, metavar=("B1", "B2"))
    option("--eps", "of Adam and AdamW", type=float)
    option("--momentum", "of sgd", type=float)
    option("--weight-decay", "weight decay", type=float, metavar="WD")
    option("--decay", "what decays", choices=("all", "matrices"))
    option("--schedule", "of the learning rate", choices=("constant", "linear", "cosine"))
    option("--warmup", "steps over which the learning rate rises", type=int, metavar="N")
    option("--lr-min", "where linear and cosine end", type=float)
    option("--clip", "largest global norm of the gradient, or none", type=norm, metavar="NORM")
    option("--seed", "of data split, parameters, batches and dropout", type=int)


def record_options(p, d, folder):
    """`folder` says what --out is when it is not given."""
    option = Group(p, "records", d)
    option("--eval-first", "evaluate at every step up to N", type=int, metavar="N")
    option("--eval-every", "and then every N steps", type=int, metavar="N")
    option("--save-every", "checkpoint every N steps", type=int, metavar="N")
    option.group.add_argument("--out", metavar="DIR", default=None, type=place,
                              help=f"the run's folder (default: {folder})")
    option.group.add_argument("--resume", action="store_true", default=False, help="go on with "
                              "the run in --out, exactly where its checkpoint is")
    option.group.add_argument("--for-steps", type=int, metavar="N", default=None, help="make N "
                              "more updates now, save and leave; --resume goes on")
    option.group.add_argument("--quiet", action="store_true", default=False, help="show nothing")
    option.group.add_argument("--check", action="store_true", default=False, help="look at every "
                              "layer's numbers at every step: say where the first NaN or infinity "
                              "is made (slower)")


def machine_options(p, d):
    option = Group(p, "machine", d)
    option("--backend", "numpy, or cupy for a GPU", choices=backend.NAMES)
    option("--engine", "what computes a step: the textbook as it stands (plain), to be read and "
           "stepped through, or the fast wing; equal but for rounding", choices=ENGINES)
    option.group.add_argument("--threads", type=int, metavar="N", help="parts of the batch that "
                              "the fast engine works on at once, or BLAS's threads for a model "
                              "that it does not know; else ignored with --engine plain, and with "
                              "--backend cupy (default: 2, or 1 on one core; a real model's: 1)")


def _shown(value):
    if isinstance(value, tuple):
        between = " " if isinstance(value[0], float) else ","
        return between.join(map(str, value))
    return "none" if value is None else value

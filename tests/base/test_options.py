"""Invalid options of layers, losses, models, searches, optimizers and data raise an InputError."""

import inspect
import itertools
import math

import numpy as np
import pytest

from npdl import RNN, Autoencoder, Bidirectional, BiRNN, Embedding, Linear, optim
from npdl.adapt import add_lora
from npdl.adapt.quantize import quantize
from npdl.data import ModularArithmetic, batch_indices
from npdl.data.text import Characters
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy, sample
from npdl.errors import InputError
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.embedding import POSITIONS
from npdl.schedule import SCHEDULES, schedule
from tests.layers.cases import is_composed
from tests.tools import slow
from tests.tools.running import npdl_layers

VALUES = [None, True, False, -3, -1, 0, 1, 2, 3, 4, 5, 11, 17, -2.0, -0.5, -0.0, 1e-3, 0.5, 1.0,
          1.5, 2.0, 4.0, math.nan, math.inf, -math.inf, "", "x", "post", "mean", "+", "gelu", b"x",
          1j, (2,), [3], {}]


def is_real(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_positive_integer(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def between(low, high):
    """Return True if a value is a number with low <= value < high."""
    return lambda value: is_real(value) and low <= value < high


def one_of(*allowed):
    return lambda value: isinstance(value, str) and value in allowed


def above_0(value):
    return is_real(value) and 0 < value < math.inf


def finite(value):
    return is_real(value) and math.isfinite(value)


COUNTS = ("d_model", "d_in", "d_out", "d_hidden", "d_x", "d_parent", "num_classes", "vocab_size",
          "source_vocab", "target_vocab", "num_layers", "num_heads", "multiplier", "max_len",
          "channels", "groups", "rank", "d_query", "d_key", "d_inner", "num_kv_heads")
RIGHT = {                                       # {name of an option: function that checks a value}
    **dict.fromkeys(COUNTS, is_positive_integer),
    "norm": one_of("post", "pre"), "activation": one_of(*ACTIVATIONS),
    "positions": one_of(*POSITIONS), "exponent": one_of("k/d", "2k/d"),
    "rounding": one_of("floor", "nearest", "nf4"),
    "score": one_of("dot", "scaled-dot", "additive"),
    "query": one_of("preliminary", "previous"), "reduction": one_of("mean", "sum", "none"),
    "average": one_of("sample", "token"), "dropout": between(0, 1), "rate": between(0, 1),
    "attention_dropout": between(0, 1), "smoothing": lambda v: is_real(v) and 0 <= v <= 1,
    "eps": above_0, "rope_theta": above_0, "d": lambda v: is_positive_integer(v) and v % 2 == 0,
    "d_head": lambda v: v is None or is_positive_integer(v) and v % 2 == 0,
    "momentum": lambda v: is_real(v) and 0 < v <= 1,
    "bits": lambda v: is_positive_integer(v) and 2 <= v <= 16,
    "block": lambda v: v is None or is_positive_integer(v),
    "alpha": lambda v: v is None or above_0(v),
    "factor": finite, "scale": finite,
    "rng": lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 0,
    "dtype": one_of("float32", "float64"),
    **dict.fromkeys(("bias", "ffn_bias", "norm_bias", "classifier_bias", "qkv_bias", "affine",
                     "tied", "double", "qk_norm"), lambda v: isinstance(v, bool)),
}
NEEDED = {                                      # arguments that have no default
    **dict.fromkeys(COUNTS, 4), "num_layers": 1, "num_heads": 2, "groups": 2, "rate": 0.5, "d": 4,
    "num_kv_heads": 1, "sizes": [4, 4, 2], "class_weights": [1.0, 2.0],
    "linear": Linear(4, 4), "base": Linear(4, 4), "ahead": RNN(4, 4), "back": RNN(4, 4),
    "layers": [Bidirectional(RNN(4, 4), RNN(4, 4))], "embedding": Embedding(4, 4),
    "message": Linear(4, 4), "update": Linear(4, 4),
}
MODELS = {"AutoencoderLoss": Autoencoder(4, 4, 4), "BiRNNLoss": BiRNN(4)}
FITS = {                                        # options that must fit the other options
    "num_heads": lambda v: 4 % v == 0, "groups": lambda v: 4 % v == 0, "rank": lambda v: v <= 4,
    "num_kv_heads": lambda v: 2 % v == 0,
}


def options_by_class():
    """Return {layer class: its options in RIGHT}, without layers that have none."""
    found = {cls: [name for name in inspect.signature(cls.__init__).parameters if name in RIGHT]
             for cls in npdl_layers()}
    return {cls: names for cls, names in found.items() if names}


def make_layer(cls, option, value):
    """Return a layer with one option as given, and small sizes for the required arguments."""
    wanted = inspect.signature(cls.__init__).parameters.values()
    needed = {p.name: NEEDED[p.name] for p in wanted
              if p.name in NEEDED and p.name != option and p.name != "rank"}
    if cls.__name__ in MODELS:
        needed["model"] = MODELS[cls.__name__]
    return cls(**needed, **{option: value})


def is_right(cls, name, value):
    options = inspect.signature(cls.__init__).parameters
    if value is None and options[name].default is None:
        return True
    if not RIGHT[name](value):
        return False
    if name == "channels" and cls.__name__ == "GroupNorm":
        return value % 2 == 0
    if "d_head" in options and name in ("d_model", "num_heads"):     # RoPE rotates pairs
        return value % 4 == 0 if name == "d_model" else 4 % (2 * value) == 0
    if name == "d_model" and "num_heads" in options:
        return value % 2 == 0
    return FITS.get(name, lambda v: True)(value)


def check_option(name, call, value, is_valid):
    """Check that `call(value)` works if the value is valid, or else names it in a line."""
    try:
        call(value)
        message = None
    except InputError as error:
        message = str(error)
    if is_valid or message is None:
        assert (message is None) == bool(is_valid), f"{name} = {value!r}: {message or 'no error'}"
    else:
        assert "\n" not in message and (repr(value) in message or str(value) in message), message


OPTIONS = options_by_class()


@pytest.mark.parametrize("cls", slow.mark_except(
    [cls.__name__ for cls in OPTIONS if not is_composed(cls)], OPTIONS,
    name=lambda cls: cls.__name__))
def test_options_of_layers(cls):
    for name, value in itertools.product(OPTIONS[cls], VALUES):
        check_option(name, lambda value, name=name: make_layer(cls, name, value), value,
                     is_right(cls, name, value))


def test_every_option_is_known():
    """Options that are not in RIGHT are layers (see test_argument_checks), or have no limits."""
    layers = {"linear", "base", "ahead", "back", "embedding", "message", "update", "model",
              "blocks", "final_norm", "cell"}
    anything = {"self", "sizes", "ignored", "padding_id", "layers", "class_weights", "scaling"}
    names = {name for cls in npdl_layers() for name in inspect.signature(cls.__init__).parameters}
    unknown = names - layers - anything - RIGHT.keys() - {"args", "kwargs"}
    assert not unknown, f"{unknown}: say in RIGHT which values each of these options may have"


OPTIMIZERS = {**dict.fromkeys(("lr", "weight_decay", "eps", "lr_ratio"), between(0, math.inf)),
              "momentum": between(0, 1), "beta": between(0, 1), "betas": lambda v: False}
TREE = Tree({"a": (0.5, {"b": 0.5, "c": 0.25}), "b": 0.25}, probabilities=True)
CALLS = {
    "greedy's max_len": (lambda v: greedy(TREE, v), is_positive_integer),
    "greedy's eos": (lambda v: greedy(TREE, 3, v), lambda v: v in (None, (2,)) or (
        isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= 2)),
    "sample's max_len": (lambda v: sample(TREE, v, 0), is_positive_integer),
    "sample's seed": (lambda v: sample(TREE, 3, v), RIGHT["rng"]),
    "sample's count": (lambda v: sample(TREE, 3, 0, count=v), is_positive_integer),
    "sample's temperature": (lambda v: sample(TREE, 3, 0, temperature=v), above_0),
    "sample's top_k": (lambda v: sample(TREE, 3, 0, top_k=v), RIGHT["block"]),
    "sample's top_p": (lambda v: sample(TREE, 3, 0, top_p=v),
                       lambda v: v is None or (is_real(v) and 0 < v <= 1)),
    "beam's width": (lambda v: beam_search(TREE, v, 3), is_positive_integer),
    "beam's max_len": (lambda v: beam_search(TREE, 2, v), is_positive_integer),
    "beam's n_best": (lambda v: beam_search(TREE, 2, 3, n_best=v), is_positive_integer),
    "beam's length_power": (lambda v: beam_search(TREE, 2, 3, length_power=v),
                            lambda v: is_real(v) and -10 <= v <= 10),
    "exhaustive's max_len": (lambda v: exhaustive_search(TREE, v), is_positive_integer),
    "exhaustive's n_best": (lambda v: exhaustive_search(TREE, 3, n_best=v), is_positive_integer),
    **{f"{kind.__name__}'s {name}": (lambda v, kind=kind, name=name: kind(
        Linear(2, 2), *([["W"]] if kind is optim.Muon else []), **{name: v}), right)
       for kind in (optim.SGD, optim.NesterovSGD, optim.RMSprop, optim.Adam, optim.AdamW,
                    optim.Muon)
       for name, right in OPTIMIZERS.items() if name in inspect.signature(kind).parameters},
    "Grokfast's beta": (lambda v: optim.Grokfast([Linear(2, 2).W], beta=v), between(0, 1)),
    "Grokfast's amplify": (lambda v: optim.Grokfast([Linear(2, 2).W], amplify=v),
                           between(0, math.inf)),
    "clipping": (lambda v: optim.clip_by_global_norm([Linear(2, 2).W], v), above_0),
    "p": (lambda v: ModularArithmetic(p=v), lambda v: is_positive_integer(v) and v >= 2),
    "q": (lambda v: ModularArithmetic(p=5, q=v), lambda v: v is None or is_positive_integer(v)),
    "r_train": (lambda v: ModularArithmetic(p=9, r_train=v),
                lambda v: is_real(v) and 0 < v <= 1 and round(81 * v) > 0),
    "operator": (lambda v: ModularArithmetic(p=5, operator=v), one_of("+", "-", "*", "/")),
    "batch size": (lambda v: batch_indices(9, v, 0, 0), is_positive_integer),
    "characters": (lambda v: Characters(v),
                   lambda v: isinstance(v, str) and v and list(v) == sorted(set(v))),
    "bits": (lambda v: quantize(np.ones((2, 3)), v), RIGHT["bits"]),
    "rank": (lambda v: add_lora(Autoencoder(2, 4, 4), rank=v),
             lambda v: is_positive_integer(v) and v <= 4),
    "schedule": (lambda v: schedule(v), one_of(*SCHEDULES)),
    "schedule's lr": (lambda v: schedule("cosine", v), between(0, math.inf)),
    "schedule's total": (lambda v: schedule("cosine", 1.0, v), is_positive_integer),
    "schedule's warmup": (lambda v: schedule("cosine", 1.0, 9, v),
                          lambda v: isinstance(v, int) and not isinstance(v, bool)
                          and 0 <= v < 9),
    "schedule's lr_min": (lambda v: schedule("cosine", 1.0, 9, 0, v), between(0, math.inf)),
}


@pytest.mark.parametrize("name", CALLS)
def test_options_of_other_calls(name):
    call, right = CALLS[name]
    for value in VALUES:
        check_option(name, call, value, right(value))

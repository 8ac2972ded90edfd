"""Everything that decides what a run computes, in one value that is saved with the run."""

import dataclasses
import math
import os

from npdl.adapt.quantize import ROUNDINGS
from npdl.backend import NAMES as BACKENDS
from npdl.errors import InputError
from npdl.files import LARGEST_NUMBER
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.embedding import POSITIONS
from npdl.schedule import SCHEDULES
from npdl.training.engine import ENGINES
from npdl.training.initial import INITS, ONLY

MODELS = ("gpt", "lstm", "pretrained")
OPTIMIZERS = ("adamw", "adam", "sgd")
DTYPES = ("float32", "float64")
RETIRED = ("compute",)          # settings of old runs that nothing depends on any more
PRETRAINED_NOT = ("p", "q", "operator", "orders", "symmetric", "stratified", "characters", "layers",
                  "width", "heads", "multiplier", "bias", "norm", "activation", "positions", "tied",
                  "dropout", "init")          # what its folder says, or what it cannot be told
TEXT_ONLY = ("text", "sha256", "characters", "block", "eval_batches")
MOST = {"threads": 256, "layers": 1000}     # more take long to make before memory says no
ADDED = {"numbers": None, "init": "torch", "adapters": None,      # saved where they are not so
         "norm_bias": True, "merged": False, "engine": "fast", "pretrained": None,
         "pretrained_sha256": None}


@dataclasses.dataclass(frozen=True)
class Adapters:
    """LoRA (npdl.adapt.add_lora) and, with `bits`, QLoRA: every linear map quantized as well.

    where  ends of the names of the maps that get an adapter, or None for all
    """

    rank: int = 4
    alpha: float | None = None
    where: tuple[str, ...] | None = None
    bits: int | None = None
    block: int | None = None
    rounding: str = "floor"

    def __post_init__(self):
        if self.rounding not in ROUNDINGS:
            raise InputError(f"--rounding {self.rounding!r}: choose one of {', '.join(ROUNDINGS)}")
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise InputError(f"--alpha {self.alpha!r}: must be a finite number above 0")
        if isinstance(self.block, int) and self.block >= LARGEST_NUMBER:
            raise InputError(f"--block {self.block}: must be below 2^63")
        if self.bits is None and (self.block is not None or self.rounding != "floor"):
            raise InputError("--block and --rounding say how to quantize; give --bits too")


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run; the defaults are document 004's (first page of Problem 4).

    engine   what computes a step, with results equal but for rounding: "plain" the textbook,
             "fast" npdl.fast
    threads  parts of a batch that the fast engine works on at once, each by a thread, or BLAS's
             threads for a model that it does not know; results repeat bit for bit for the same
             number
    numbers  the vocabulary's numbers are 0..numbers-1; None for as many as p and q need
    text     a file to train on instead, character by character (npdl.training.text_task), with
             windows of `block` characters; sha256 and characters are read from it
    adapters the low-rank maps that alone are trained (npdl.training.finetune), or None
    pretrained  the folder or GGUF file of a real model (npdl.pretrained) that the run fine-tunes,
             with model = "pretrained"; its numbers stay there, and pretrained_sha256 is theirs
    merged   whether the run began as a fine-tuned one with its adapters merged: with parameters
             that its checkpoint alone holds
    """

    model: str = "gpt"
    pretrained: str | None = None
    pretrained_sha256: str | None = None
    # data
    p: int = 31
    q: int | None = None
    operator: str = "+"
    orders: tuple[int, ...] = (2,)
    symmetric: bool = False
    stratified: bool = False
    r_train: float = 0.5
    numbers: int | None = None
    text: str | None = None
    sha256: str | None = None
    characters: str | None = None
    block: int = 64
    # model
    layers: int = 2
    width: int = 128
    heads: int = 4
    multiplier: int = 4
    bias: bool = True
    norm: str = "post"
    norm_bias: bool = True
    activation: str = "gelu"
    positions: str = "k/d"
    tied: bool = False
    dropout: float = 0.0
    init: str = "torch"
    adapters: Adapters | None = None
    merged: bool = False
    # training
    steps: int = 10001
    batch: int = 512
    optimizer: str = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum: float = 0.0
    weight_decay: float = 1.0
    decay: str = "all"
    schedule: str = "constant"
    warmup: int = 0
    lr_min: float = 0.0
    clip: float | None = None
    eval_first: int = 100
    eval_every: int = 100
    eval_batches: int = 20
    save_every: int = 1000
    seed: int = 0
    # machine
    dtype: str = "float32"
    backend: str = "numpy"
    engine: str = "fast"
    threads: int = 1

    def __post_init__(self):
        for name, allowed in (
            ("model", MODELS), ("optimizer", OPTIMIZERS), ("dtype", DTYPES),
            ("backend", BACKENDS), ("engine", ENGINES), ("schedule", SCHEDULES),
            ("norm", ("post", "pre")), ("activation", tuple(ACTIVATIONS)),
            ("positions", POSITIONS), ("decay", ("all", "matrices")), ("init", INITS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"--{_option(name)} {getattr(self, name)!r}: choose one of {', '.join(allowed)}"
                )
        for name in ("layers", "width", "heads", "multiplier", "steps", "batch", "eval_every",
                     "save_every", "threads", "block", "eval_batches"):
            self._require(name, int, lambda value: 1 <= value < LARGEST_NUMBER,
                          "an integer, 1 or more, below 2^63")
        for name, most in MOST.items():
            self._require(name, int, lambda value, most=most: value <= most, f"{most} or less")
        for name in ("eval_first", "warmup", "seed"):
            self._require(name, int, lambda value: 0 <= value < LARGEST_NUMBER,
                          "an integer, 0 or more, below 2^63")
        for name in ("lr", "weight_decay", "lr_min", "eps"):
            self._require(name, (int, float), lambda value: 0 <= value < math.inf,
                          "a finite number, 0 or more")
        if self.clip is not None:
            self._require("clip", (int, float), lambda value: 0 < value < math.inf,
                          "a finite number above 0")
        for name in ("dropout", "momentum"):
            self._require(name, (int, float), lambda value: 0 <= value < 1,
                          "at least 0 and below 1")
        self._check_together()

    def _check_together(self):
        """Raise InputError for settings that do not go with each other."""
        if self.model == "gpt" and self.width % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --width {self.width}; each "
                             "head takes an equal part of the width")
        if ONLY.get(self.init, self.model) != self.model:
            who = {"gpt": "a GPT", "lstm": "an LSTM"}[ONLY[self.init]]
            raise InputError(f"--init {self.init}: only {who} starts so; choose --init torch")
        if (self.model == "pretrained") != (self.pretrained is not None):
            raise InputError("--pretrained: names the folder of a model = 'pretrained', and of no "
                             "other")
        if self.pretrained is not None and self.text is None:
            raise InputError("--text: is missing; name the text to fine-tune on")
        if self.text is not None:
            self._require("r_train", (int, float), lambda value: 0 < value <= 1,
                          "a number in (0, 1]")

    def _require(self, name, kind, allowed, wanted):
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, kind) or not allowed(value):
            raise InputError(f"--{_option(name)} {value!r}: must be {wanted}")

    def to_json(self):
        """A dict that JSON can hold, without what the run has no use for.

        So a run has the same settings, and a sweep's folder the same name, after npdl has
        learned to do something else.
        """
        unused = TEXT_ONLY if self.text is None else ()
        unused = PRETRAINED_NOT if self.pretrained is not None else unused
        return {name: value for name, value in dataclasses.asdict(self).items()
                if name not in unused and (name not in ADDED or value != ADDED[name])}

    @classmethod
    def from_json(cls, values):
        """The inverse of to_json. Raises InputError for names that no setting has."""
        values = {name: value for name, value in values.items() if name not in RETIRED}
        known = {field.name for field in dataclasses.fields(cls)}
        odd = sorted(set(values) - known)
        if odd:
            raise InputError(f"setting {odd[0]!r} is unknown to this version of npdl")
        values = {name: _tupled(value) for name, value in values.items()}
        if values.get("adapters") is not None:
            adapters = values["adapters"].items()
            values["adapters"] = Adapters(**{name: _tupled(value) for name, value in adapters})
        return cls(**values)


def _tupled(value):
    return tuple(value) if isinstance(value, list) else value


def _option(name):
    return name.replace("_", "-")


def usable_cores():
    """Processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

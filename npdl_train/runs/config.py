"""Everything that decides what a run computes, in one value that is saved with the run."""

import dataclasses
import os

from npdl.adapt.quantize import ROUNDINGS
from npdl.backend import NAMES as BACKENDS
from npdl.errors import InputError
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.embedding import POSITIONS
from npdl.schedule import SCHEDULES
from npdl_train.options import (
    BELOW_1,
    COUNT,
    NATURAL,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    check,
    count,
    setting,
)
from npdl_train.runs.engine import ENGINES
from npdl_train.runs.initial import INITS, ONLY

SEQ2SEQ = ("seq2seq", "lstm-seq2seq")           # encoder-decoders, which translate dates
MODELS = ("gpt", "lstm", *SEQ2SEQ, "pretrained")
RETIRED = ("compute",)          # settings of old runs that nothing depends on any more
PRETRAINED_NOT = ("p", "q", "operator", "orders", "symmetric", "stratified", "characters", "layers",
                  "width", "heads", "multiplier", "bias", "norm", "activation", "positions", "tied",
                  "dropout", "init")          # what its folder says, or what it cannot be told
SEQ2SEQ_NOT = ("p", "q", "operator", "orders", "symmetric", "stratified", "tied")
TEXT_ONLY = ("text", "sha256", "characters", "block", "eval_batches")
ADDED = {"numbers": None, "init": "torch", "adapters": None,      # saved where they are not so
         "norm_bias": True, "merged": False, "engine": "fast", "pretrained": None,
         "pretrained_sha256": None}

# The headings of the options, in the order of the helps.
ARITHMETIC = "data: equations a o b = r modulo p, o an operator"
TEXT = "or data: a text"
MODEL, TRAINING, RECORDS, MACHINE = "model", "training", "records", "machine"
ADAPTERS = "adapters"
GPT = "train-gpt"


@dataclasses.dataclass(frozen=True)
class Adapters:
    """LoRA (npdl.adapt.add_lora) and, with `bits`, QLoRA: every linear map quantized as well."""

    rank: int = setting(ADAPTERS, 4, "r of the matrices A (D, r) and B (E, r)", "R")
    alpha: float | None = setting(ADAPTERS, None, "the adapter's product counts alpha / r times; "
                                  "none: once", allowed=POSITIVE)
    where: tuple[str, ...] | None = setting(
        ADAPTERS, None, "maps that get an adapter, by (ends of) their names, such as W_Q,W_V; "
        "none: every linear map", "NAMES")
    bits: int | None = setting(ADAPTERS, None, "QLoRA: bits a number of the frozen linear maps",
                               "M")
    block: int | None = setting(ADAPTERS, None, "numbers that share a step size; none: a whole "
                                "matrix", "N", COUNT)
    rounding: str = setting(ADAPTERS, "floor", "how to quantize", allowed=tuple(ROUNDINGS))

    def __post_init__(self):
        check(self)
        if self.bits is None and (self.block is not None or self.rounding != "floor"):
            raise InputError("--block and --rounding say how to quantize; give --bits too")


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run; the defaults are document 004's (first page of Problem 4).

    engine   what computes a step, with results equal but for rounding: "plain" the textbook,
             "fast" npdl_train.fast
    threads  parts of a batch that the fast engine works on at once, each in a process or a thread,
             or BLAS's threads for a model that it does not know; results repeat bit for bit for
             the same number
    numbers  the vocabulary's numbers are 0..numbers-1; None for as many as p and q need
    text     a file to train on instead, character by character (npdl_train.runs.text_task), with
             windows of `block` characters; sha256 and characters are read from it
    adapters the low-rank maps that alone are trained (npdl_train.runs.finetune), or None
    pretrained  the folder or GGUF file of a real model (npdl_train.pretrained) that the run
             fine-tunes, with model = "pretrained"; its numbers stay there, pretrained_sha256 is
             theirs
    merged   whether the run began as a fine-tuned one with its adapters merged: with parameters
             that its checkpoint alone holds
    """

    model: str = setting(None, "gpt", allowed=MODELS)
    pretrained: str | None = setting(None, None)
    pretrained_sha256: str | None = setting(None, None)
    p: int = setting(ARITHMETIC, 31, "operands are 0..p-1", "P")
    q: int | None = setting(ARITHMETIC, None, "results are modulo q; none: p", "Q", rare=True)
    operator: str = setting(ARITHMETIC, "+", "one of + - * /; '/' needs a prime p", "O")
    orders: tuple[int, ...] = setting(ARITHMETIC, (2,), "number of operands: 2, 3 or 2,3", "K",
                                      rare=True)
    symmetric: bool = setting(ARITHMETIC, False, "only equations with a <= b (<= c)", rare=True)
    stratified: bool = setting(ARITHMETIC, False, "with both orders: take r-train of each",
                               rare=True)
    r_train: float = setting(ARITHMETIC, 0.5, "share of the equations, or of the text, to train "
                             "on, in (0, 1]; 1 leaves no validation set", "R", SHARE)
    numbers: int | None = setting(None, None)
    text: str | None = setting(TEXT, None, "train on the characters of a file in UTF-8", "FILE")
    sha256: str | None = setting(None, None)
    characters: str | None = setting(None, None)
    block: int = setting(TEXT, 64, "characters in a window", "S", COUNT)
    layers: int = setting(MODEL, 2, "number of layers", "L", count(1000))
    width: int = setting(MODEL, 128, "embedding and hidden width", "D", COUNT)
    heads: int = setting(MODEL, 4, "attention heads", "H", COUNT, GPT)
    multiplier: int = setting(MODEL, 4, "inner width of the feed-forward net, in widths", "M",
                              COUNT, GPT, rare=True)
    bias: bool = setting(MODEL, True, "no biases in a GPT's attention maps, or in an LSTM's cells "
                         "and classifier", rare=True)
    norm: str = setting(MODEL, "post", "LayerNorm after (post) or before (pre) each part",
                        allowed=("post", "pre"), only=GPT, rare=True)
    norm_bias: bool = setting(MODEL, True, "no biases in the LayerNorms", only=GPT, rare=True)
    activation: str = setting(MODEL, "gelu", "of the feed-forward net", allowed=tuple(ACTIVATIONS),
                              only=GPT, rare=True)
    positions: str = setting(MODEL, "k/d", "fixed waves with exponent k/d (document 004's) or 2k/d "
                             "(the usual one), or learned",
                             allowed=POSITIONS, only=GPT, rare=True)
    tied: bool = setting(MODEL, False, "classifier and embedding share one matrix", only=GPT,
                         rare=True)
    dropout: float = setting(MODEL, 0.0, "dropout rate", "RATE", BELOW_1)
    init: str = setting(MODEL, "torch", "starting values: torch's usual ones; of a GPT GPT-2's "
                        "small normal ones, or normal ones by width (lecun); of an LSTM's gates "
                        "Glorot's wider ones (xavier)", allowed=INITS, rare=True)
    adapters: Adapters | None = setting(None, None)
    merged: bool = setting(None, False)
    steps: int = setting(TRAINING, 10001, "updates", "T", COUNT)
    batch: int = setting(TRAINING, 512, "batch size; the whole training set if that is smaller",
                         "B", COUNT)
    optimizer: str = setting(TRAINING, "adamw", "update rule", allowed=("adamw", "adam", "sgd"),
                             rare=True)
    lr: float = setting(TRAINING, 1e-3, "learning rate", allowed=NOT_NEGATIVE)
    betas: tuple[float, float] = setting(TRAINING, (0.9, 0.999), "of Adam and AdamW", ("B1", "B2"),
                                         rare=True)
    eps: float = setting(TRAINING, 1e-8, "of Adam and AdamW", allowed=NOT_NEGATIVE, rare=True)
    momentum: float = setting(TRAINING, 0.0, "of sgd", allowed=BELOW_1, rare=True)
    weight_decay: float = setting(TRAINING, 1.0, "weight decay", "WD", NOT_NEGATIVE)
    decay: str = setting(TRAINING, "all", "what decays", allowed=("all", "matrices"), rare=True)
    schedule: str = setting(TRAINING, "constant", "of the learning rate", allowed=tuple(SCHEDULES),
                            rare=True)
    warmup: int = setting(TRAINING, 0, "steps over which the learning rate rises", "N", NATURAL,
                          rare=True)
    lr_min: float = setting(TRAINING, 0.0, "where linear and cosine end", allowed=NOT_NEGATIVE,
                            rare=True)
    clip: float | None = setting(TRAINING, None, "largest global norm of the gradient, or none",
                                 "NORM", POSITIVE)
    eval_first: int = setting(RECORDS, 100, "evaluate at each of the first N steps, too", "N",
                              NATURAL, rare=True)
    eval_every: int = setting(RECORDS, 100, "evaluate every N steps", "N", COUNT)
    eval_batches: int = setting(TEXT, 20, "batches of each part to evaluate on, always the same",
                                "N", COUNT, rare=True)
    save_every: int = setting(RECORDS, 1000, "checkpoint every N steps", "N", COUNT)
    seed: int = setting(TRAINING, 0, "of data split, parameters, batches and dropout",
                        allowed=NATURAL)
    dtype: str = setting(MODEL, "float32", "of all parameters", allowed=("float32", "float64"),
                         rare=True)
    backend: str = setting(MACHINE, "numpy", "numpy, or cupy for a GPU", allowed=BACKENDS)
    engine: str = setting(MACHINE, "fast", "what computes a step: the textbook as it stands "
                          "(plain), to be read and stepped through, or the fast engine; equal but "
                          "for rounding", allowed=ENGINES)
    threads: int = setting(MACHINE, 1, "parts of the batch that the fast engine works on at "
                           "once; for a model that it does not know, BLAS's threads; else "
                           "ignored by --engine plain and --backend cupy", "N", count(256))

    def __post_init__(self):
        check(self)
        if self.model in ("gpt", "seq2seq") and self.width % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --width {self.width}; each "
                             "head takes an equal part of the width")
        if ONLY.get(self.init, self.model) != self.model:
            who = {"gpt": "a GPT", "lstm": "an LSTM"}[ONLY[self.init]]
            raise InputError(f"--init {self.init}: only {who} starts so; choose --init torch")
        if self.translates and (self.text, self.adapters) != (None, None):
            raise InputError(f"{self.model}: learns to translate dates, as a whole; for a text or "
                             "adapters choose a GPT or an LSTM")
        if (self.model == "pretrained") != (self.pretrained is not None):
            raise InputError("--pretrained: names the folder of a model = 'pretrained', and of no "
                             "other")
        if self.pretrained is not None and self.text is None:
            raise InputError("--text: is missing; name the text to fine-tune on")

    @property
    def translates(self):
        """Whether the run is of an encoder-decoder that translates dates (npdl.data.dates)."""
        return self.model in SEQ2SEQ

    @property
    def command(self):
        """The command that makes such a run, and resumes it."""
        if self.pretrained is not None:
            return "finetune"
        return "train-seq2seq" if self.translates else f"train-{self.model}"

    @property
    def is_based(self):
        """Whether the run began from parameters of another: it fine-tunes them."""
        return self.adapters is not None or self.pretrained is not None

    def to_json(self):
        """A dict that JSON can hold, without what the run has no use for.

        So a run has the same settings, and a sweep's folder the same name, after npdl has
        learned to do something else.
        """
        unused = TEXT_ONLY if self.text is None else ()
        unused = PRETRAINED_NOT if self.pretrained is not None else unused
        unused = (*TEXT_ONLY, *SEQ2SEQ_NOT) if self.translates else unused
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


def usable_cores():
    """Processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

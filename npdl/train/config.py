"""The settings of a run, which are saved in its folder."""

import dataclasses
import functools
from collections.abc import Callable

from npdl.adapt.quantize import ROUNDINGS
from npdl.backend import NAMES as BACKENDS
from npdl.cli.options import (
    BELOW_1,
    COUNT,
    NATURAL,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Range,
    check_settings,
    integers_up_to,
    option_name,
    setting,
)
from npdl.data.arithmetic import OPERATORS
from npdl.engine.target import TARGETS
from npdl.errors import InputError
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.embedding import POSITIONS
from npdl.schedule import SCHEDULES
from npdl.train.engine import ENGINES
from npdl.train.initialise import INITS, ONLY

SEQ2SEQ = ("seq2seq", "lstm-seq2seq")           # encoder-decoders, which translate dates
RETIRED = ("compute", "merged", "symmetric")    # settings of old runs that are ignored
RENAMED = {"fast": "recorded", "eager": "recorded"}     # engines of old runs

# The long headings of options.
ARITHMETIC = "data: equations a o b = r modulo p, with an operator o"
TEXT = "or data: a text"
DATES = "data: dates"
GPT = "train-gpt"
USER_SETTINGS = ("model", "optimizer", "schedule", "task")    # may be functions of the user


@dataclasses.dataclass(frozen=True)
class UserFunction:
    """A function or class of the user, as the value of a setting.

    Two UserFunctions with equal names are equal, because a run's folder contains only the name.
    `function` is None if the setting was read from a run's folder.
    """

    name: str
    function: Callable | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def wrap(cls, value):
        """Wrap a function or a class in a UserFunction. Return any other `value` unchanged.

        The name of a functools.partial includes its arguments: decayed(end=0.1). Raises InputError
        for a function without a name (a lambda).
        """
        if isinstance(value, cls) or not callable(value):
            return value
        inner = getattr(value, "func", value)
        name = getattr(inner, "__name__", "<nameless>")
        if name.startswith("<"):
            raise InputError(f"the function {name} has no name that a run's settings can hold; "
                             "define it with def or class")
        if inner is not value:
            named = (f"{key}={argument!r}" for key, argument in value.keywords.items())
            name += f"({', '.join([*map(repr, value.args), *named])})"
        return cls(name, value)

    def __call__(self, *arguments):
        if self.function is None:
            raise InputError(f"{self.name} is defined in the program that trained the run; in that "
                             "program, load the run by load_run(folder, config)")
        return self.function(*arguments)

    def __str__(self):
        return self.name


@dataclasses.dataclass(frozen=True)
class Adapters:
    """The settings of LoRA (npdl.adapt.add_lora) and, with `bits`, of QLoRA."""

    rank: int = setting("adapters", 4, "rank r of the matrices A (D, r), B (E, r)", "R", COUNT)
    alpha: float | None = setting("adapters", None, "scale the adapter's product by alpha / r; "
                                  "none: by 1", allowed=POSITIVE)
    where: tuple[str, ...] | None = setting(
        "adapters", None, "linear layers that get an adapter, by the ends of their names, such as "
        "W_Q,W_V; none: all", "NAMES")
    bits: int | None = setting("adapters", None, "QLoRA: bits for each weight of the frozen linear "
                               "layers", "M",
                               Range(lambda m: 2 <= m <= 16, "an integer from 2 to 16"))
    block: int | None = setting("adapters", None, "weights that share a step size; none: a whole "
                                "matrix", "N", COUNT)
    rounding: str = setting("adapters", "floor", "rounding of quantization",
                            allowed=tuple(ROUNDINGS))
    double: bool = setting("adapters", False, "store the step sizes in 8 bits too")

    def __post_init__(self):
        check_settings(self)
        if self.bits is None and (self.block is not None or self.rounding != "floor"
                                  or self.double):
            raise InputError("--block, --rounding and --double are options of quantization; give "
                             "--bits too")


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings that every run has.

    `Config(**settings)` returns an instance of the class for the settings' task: ArithmeticConfig,
    TextConfig, DatesConfig, PretrainedConfig or OwnConfig. The defaults are those of the command
    line, except for `threads`. Raises InputError for a setting that the task doesn't have, or for
    a value that isn't allowed.

    Four settings may be functions or classes of the user (docs/own.md):

    model      model(config, task) -> a Layer from ids (B, S) to logits (B, S, V)
    optimizer  optimizer(config, model) -> an npdl.optim.Optimizer
    schedule   schedule(config) -> a function of the step that returns the learning rate
    task       task(config) -> a Task (npdl.train.task)
    """

    # Settings that only some tasks have; their classes define them below.
    text = pretrained = adapters = task = None
    translates = False
    dropout = 0.0

    model: str | Callable = setting(None, "gpt")
    steps: int = setting("training", 10001, "number of updates", "T", COUNT)
    batch: int = setting("training", 512, "batch size; the whole training set if that is smaller",
                         "B", COUNT)
    optimizer: str | Callable = setting("training", "adamw", "update rule",
                                        allowed=("adamw", "adam", "sgd"), rare=True)
    lr: float = setting("training", 1e-3, "learning rate", allowed=NOT_NEGATIVE)
    betas: tuple[float, float] = setting("training", (0.9, 0.999), "moment decay rates of Adam and "
                                         "AdamW", ("B1", "B2"), rare=True)
    eps: float = setting("training", 1e-8, "eps of Adam and AdamW", allowed=NOT_NEGATIVE, rare=True)
    momentum: float = setting("training", 0.0, "momentum of sgd", allowed=BELOW_1, rare=True)
    weight_decay: float = setting("training", 1.0, "weight decay", "WD", NOT_NEGATIVE)
    decay: str = setting("training", "all", "parameters with weight decay",
                         allowed=("all", "matrices"), rare=True)
    schedule: str | Callable = setting("training", "constant", "schedule of the learning rate",
                                       allowed=tuple(SCHEDULES), rare=True)
    warmup: int = setting("training", 0, "steps over which the learning rate rises", "N", NATURAL,
                          rare=True)
    lr_min: float = setting("training", 0.0, "final rate of linear and cosine schedules",
                            allowed=NOT_NEGATIVE, rare=True)
    clip: float | None = setting("training", 1.0, "largest global norm of the gradients, or none",
                                 "NORM", POSITIVE)
    eval_first: int = setting("records", 100, "also evaluate at each of the first N steps", "N",
                              NATURAL, rare=True)
    eval_every: int = setting("records", 100, "evaluate every N steps", "N", COUNT)
    save_every: int = setting("records", 1000, "checkpoint every N steps", "N", COUNT)
    seed: int = setting("training", 0, "seed of data split, parameters, batches and dropout",
                        allowed=NATURAL)
    dtype: str = setting("model", "float32", "type of all parameters",
                         allowed=("float32", "float64"), rare=True)
    backend: str = setting("machine", "numpy", "numpy, or cupy for a GPU", allowed=BACKENDS)
    engine: str = setting("machine", "recorded", "compute steps by npdl's layers, where "
                          "breakpoints work (plain), or by a faster recording of them (recorded); "
                          "the results differ by rounding only", allowed=ENGINES)
    target: str = setting("machine", "auto", "compile a recording to C or to NumPy calls (auto: C "
                          "if there is a compiler)", allowed=TARGETS, rare=True)
    threads: int = setting("machine", 1, "threads of the recorded engine that share a batch; for a "
                           "real model, BLAS's threads; ignored by --backend cupy", "N",
                           integers_up_to(256))

    def __new__(cls, **settings):
        kind = find_config_class(settings) if cls is Config else cls
        kind.check_setting_names(settings)
        return object.__new__(kind)

    def __post_init__(self):
        for name in USER_SETTINGS:
            if callable(getattr(self, name)):
                object.__setattr__(self, name, UserFunction.wrap(getattr(self, name)))
        check_settings(self)

    @classmethod
    def check_setting_names(cls, given_names):
        """Raise InputError if one of the names is not a setting of this task."""
        for name in sorted(set(given_names) - list_setting_names(cls)):
            if any(name in list_setting_names(other) for other in TASKS):
                raise InputError(f"{option_name(name)} can't be used with {cls.kind}; leave it out")
            raise InputError(f"{option_name(name)} is not an option; see train_gpt.py --help-all")

    @property
    def command(self):
        """Return the command that starts and resumes a run with these settings."""
        if self.is_finetuned:
            return "python -m npdl finetune"
        if any(isinstance(getattr(self, name), UserFunction) for name in USER_SETTINGS):
            return "the program that began it"
        return f"python experiments/train_{'seq2seq' if self.translates else self.model}.py"

    @property
    def is_finetuned(self):
        """Return True if the run fine-tunes another run or a real model."""
        return self.adapters is not None or self.pretrained is not None

    def to_json(self):
        """Return the settings as a dict for JSON."""
        values = {**vars(self), "adapters": self.adapters and vars(self.adapters)}
        return {name: {"own": value.name} if isinstance(value, UserFunction) else value
                for name, value in values.items() if name in list_setting_names(type(self))}

    @staticmethod
    def from_json(values):
        """Return the Config for `values`, the result of `to_json` of this version or an older one.

        Missing settings get their defaults. Raises InputError for names that no task has.
        """
        kind = find_config_class(values)
        unknown = sorted(values.keys() - set(RETIRED).union(*map(list_setting_names, TASKS)))
        if values.get("symmetric"):         # it would get other data now
            unknown = ["symmetric"]
        if unknown:
            raise InputError(f"setting {unknown[0]!r} is unknown to this version of npdl")
        values = {name: _convert_json_value(value) for name, value in values.items()
                  if name in list_setting_names(kind)}
        if values.get("engine") in RENAMED:
            values["engine"] = RENAMED[values["engine"]]
        if given := values.get("adapters"):
            values["adapters"] = Adapters(**{k: _convert_json_value(x) for k, x in given.items()})
        return kind(**values)


def change_defaults(**defaults):
    """Return a class decorator that changes the defaults of inherited settings."""
    def change_class(cls):
        inherited = {field.name: field for base in cls.__mro__ if dataclasses.is_dataclass(base)
                     for field in dataclasses.fields(base)}
        for name, default in defaults.items():
            cls.__annotations__[name] = inherited[name].type
            setattr(cls, name, dataclasses.field(default=default,
                                                 metadata=inherited[name].metadata))
        return cls
    return change_class


@dataclasses.dataclass(frozen=True)
class NetworkConfig(Config):
    """The settings of a new model, in contrast to a real model that is read from a folder."""

    layers: int = setting("model", 2, "number of layers", "L", integers_up_to(1000))
    width: int = setting("model", 128, "embedding and hidden width", "D", COUNT)
    heads: int = setting("model", 4, "attention heads", "H", COUNT, GPT)
    multiplier: int = setting("model", 4, "inner width of the feed-forward network, as a "
                              "multiple of --width", "M", COUNT, GPT, rare=True)
    bias: bool = setting("model", True, "no biases in a GPT's attention, or in an LSTM's cells and "
                         "classifier", rare=True)
    norm: str = setting("model", "post", "LayerNorm after (post) or before (pre) each sublayer",
                        allowed=("post", "pre"), only=GPT, rare=True)
    norm_bias: bool = setting("model", True, "no biases in the LayerNorms", only=GPT, rare=True)
    activation: str = setting("model", "gelu", "activation of the feed-forward network",
                              allowed=tuple(ACTIVATIONS), only=GPT, rare=True)
    positions: str = setting("model", "k/d", "sinusoidal with exponent k/d (the assignment's) or "
                             "2k/d (the usual one), or learned",
                             allowed=POSITIONS, only=GPT, rare=True)
    dropout: float = setting("model", 0.0, "dropout rate", "RATE", BELOW_1)
    init: str = setting("model", "torch", "initialisation: torch (PyTorch's); for a GPT also gpt2 "
                        "(GPT-2's) or lecun (variance 1 / number of inputs); for an LSTM also "
                        "xavier (the gates by Glorot's rule)",
                        allowed=INITS, rare=True)

    def __post_init__(self):
        super().__post_init__()
        if self.model in ("gpt", "seq2seq") and self.width % self.heads:
            raise InputError(f"--heads {self.heads} does not divide --width {self.width}, but each "
                             "head takes an equal part of it; choose a divisor of --width")
        if ONLY.get(self.init, self.model) != self.model:
            who = {"gpt": "a GPT", "lstm": "an LSTM"}[ONLY[self.init]]
            raise InputError(f"--init {self.init} is for {who} only; choose --init torch")


@dataclasses.dataclass(frozen=True)
class LanguageModelConfig(NetworkConfig):
    """The settings of a GPT or an LSTM. If it has `adapters`, only these are trained."""

    model: str | Callable = setting(None, "gpt", allowed=("gpt", "lstm"))
    tied: bool = setting("model", False, "classifier and embedding share one matrix", only=GPT,
                         rare=True)
    adapters: Adapters | None = setting(None, None)


@dataclasses.dataclass(frozen=True)
class ArithmeticConfig(LanguageModelConfig):
    """The settings of a run on equations. `numbers` is the count of numbers in the vocabulary."""

    kind = "modular arithmetic"
    p: int = setting(ARITHMETIC, 31, "operands are 0..p-1", "P",
                     Range(lambda p: p >= 2, "an integer, 2 or more"))
    q: int | None = setting(ARITHMETIC, None, "results are modulo q; none: p", "Q", rare=True)
    operator: str = setting(ARITHMETIC, "+", "one of + - * /; '/' needs a prime p",
                            allowed=OPERATORS)
    orders: tuple[int, ...] = setting(ARITHMETIC, (2,), "number of operands: 2, 3 or 2,3", "K",
                                      rare=True)
    stratified: bool = setting(ARITHMETIC, False, "with --orders 2,3: split the equations of "
                               "each order separately", rare=True)
    r_train: float = setting(ARITHMETIC, 0.5, "fraction of the equations, or of the text, to train "
                             "on, in (0, 1]; with 1 there is no validation set", "R", SHARE)
    numbers: int | None = setting(None, None)


@dataclasses.dataclass(frozen=True)
class WindowsConfig(Config):
    """The settings of a run on windows (pieces) of a text. `sha256` is the digest of the text."""

    text: str | None = setting(TEXT, None, "train on the characters of a file in UTF-8", "FILE")
    sha256: str | None = setting(None, None)
    r_train: float = setting(None, 0.9, allowed=SHARE)
    block: int = setting(TEXT, 64, "characters in a window", "S", COUNT)
    eval_batches: int = setting(TEXT, 20, "batches of training and of validation text to "
                                "evaluate on", "N", COUNT, rare=True)


@dataclasses.dataclass(frozen=True)
@change_defaults(steps=2000, batch=12, weight_decay=0.1, clip=None, eval_first=0, eval_every=250,
                 positions="2k/d")
class TextConfig(WindowsConfig, LanguageModelConfig):
    """The settings of a run on the characters of a text."""

    kind = "a text"
    characters: str | None = setting(None, None)


@dataclasses.dataclass(frozen=True)
@change_defaults(steps=2000, batch=64, weight_decay=0.01, schedule="cosine", eval_first=0,
                 eval_every=250, layers=1, norm="pre", positions="2k/d")
class DatesConfig(NetworkConfig):
    """The settings of an encoder-decoder that translates dates (npdl.data.dates)."""

    kind, translates = "dates to translate", True
    model: str = setting(DATES, SEQ2SEQ[0], "a transformer, or two LSTMs", allowed=SEQ2SEQ)
    r_train: float = setting(DATES, 0.9, "fraction of the days to train on, in (0, 1]; with 1 "
                             "there is no validation set", "R", SHARE)


@dataclasses.dataclass(frozen=True)
@change_defaults(steps=200, batch=4, lr=5e-4, weight_decay=0.0, eval_first=0, eval_every=50,
                 eval_batches=4, save_every=50)
class PretrainedConfig(WindowsConfig):
    """The settings of a real model (npdl.train.pretrained) that is fine-tuned on a text.

    `pretrained` is the model's folder or GGUF file. The run's folder contains no copy of its
    weights, only their digest `pretrained_sha256`, by which a resumed run recognises the model.
    """

    kind = "a real model"
    model: str = setting(None, "pretrained", allowed=("pretrained",))
    pretrained: str | None = setting(None, None)
    pretrained_sha256: str | None = setting(None, None)
    adapters: Adapters | None = setting(None, None)

    def __post_init__(self):
        super().__post_init__()
        if self.pretrained is None:
            raise InputError("--pretrained is missing; name the folder of a real model")
        if self.text is None:
            raise InputError("--text is missing; name the text to fine-tune on")


@dataclasses.dataclass(frozen=True)
class OwnConfig(LanguageModelConfig):
    """The settings of a run with a task of the user."""

    kind = "a task of your own"
    task: Callable | None = setting(None, None)
    r_train: float = setting(None, 0.5, allowed=SHARE)


TASKS = (ArithmeticConfig, TextConfig, DatesConfig, PretrainedConfig, OwnConfig)


@functools.cache
def list_setting_names(config_class):
    """Return the names of the settings of `config_class`, one of the classes in TASKS."""
    return {field.name for field in dataclasses.fields(config_class)}


def find_config_class(settings):
    """Return the class in TASKS for the task that the settings {name: value} describe."""
    if settings.get("model") in SEQ2SEQ:
        return DatesConfig
    if settings.get("model") == "pretrained" or settings.get("pretrained") is not None:
        return PretrainedConfig
    if settings.get("task") is not None:
        return OwnConfig
    return ArithmeticConfig if settings.get("text") is None else TextConfig


def _convert_json_value(value):
    """Return the value of a setting from its form in JSON."""
    if isinstance(value, dict) and value.keys() == {"own"}:
        return UserFunction(str(value["own"]))
    return tuple(value) if isinstance(value, list) else value

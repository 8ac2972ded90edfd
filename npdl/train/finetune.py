"""Fine-tune a run on another task with LoRA or QLoRA. Model and vocabulary stay the same.

Arithmetic: the vocabulary holds the numbers, one operator and the special tokens. The model keeps
its shape, because the new operator takes the id of the old one, and a new modulus may not need more
numbers than the vocabulary has. Text: the new text may have only the run's characters.

A real model (npdl.train.pretrained) learns a text in its own tokens. Its weights stay in their
folder.

The result is a run folder like any other. After fine-tuning a run, it contains all parameters, so
the first run's folder is no longer needed.
"""

from npdl.errors import InputError
from npdl.train.config import Adapters, PretrainedConfig, setting_names

# Defaults of a fine-tuning. Adapters have few parameters, so they take a larger learning rate than
# the whole model; the weight decay that makes them small keeps the result near the base.
DEFAULTS = {"steps": 2000, "batch": 512, "lr": 3e-3, "weight_decay": 0.1, "clip": None,
            "eval_first": 0}
MODEL_ADAPTERS = {"rank": 8}                                # of a real model
MODEL_QUANTIZED = {"block": 64, "rounding": "nearest"}      # loses less than the other ways
# Settings that a fine-tuning takes from its run.
INHERITED = ("model", "layers", "width", "heads", "multiplier", "bias", "norm", "norm_bias",
        "activation", "positions", "tied", "dropout", "dtype", "r_train", "p", "operator", "orders",
        "stratified", "characters", "block", "eval_batches")


def finetune_config(run, adapters, overrides, folder="the run"):
    """Return the Config of a fine-tuning of `run` (load_run) with `adapters`.

    Settings that are not in `overrides` come from the run (INHERITED) or from DEFAULTS. Raises
    InputError if the run has adapters already, if its vocabulary lacks numbers that the task needs,
    and for settings that the run's kind of task doesn't have.
    """
    base = run.config
    if base.translates:
        raise InputError(f"{folder} is a run of an encoder-decoder, which can't be fine-tuned; "
                         "give a run of a GPT or an LSTM")
    if base.pretrained is not None:
        raise InputError(f"{folder} is a run of a real model; write the model into a folder "
                         "(--merge) and fine-tune that folder")
    if base.adapters is not None:
        raise InputError(f"{folder} has adapters already; fine-tune the original run, which has "
                         "none")
    settings = {name: getattr(base, name) for name in INHERITED
                if name in setting_names(type(base))}
    if base.text is None:
        if "text" in overrides:
            raise InputError(f"--text: {folder} learned arithmetic, so it can't be fine-tuned on a "
                             "text; give a run of a text, or a real model")
        settings |= {"numbers": run.task.vocabulary.size - 5}
        settings |= {} if "p" in overrides else {"q": base.q}
    elif "text" not in overrides:
        raise InputError("--text is missing; name the text to fine-tune on")
    else:
        settings["batch"] = base.batch
    config = type(base)(**{**DEFAULTS, **settings, **overrides, "adapters": adapters})
    for name in ("p", "q") if base.text is None else ():
        value = getattr(config, name)
        if value is not None and value > config.numbers:
            raise InputError(f"--{name} {value}: the run's vocabulary has the {config.numbers} "
                             f"numbers 0 to {config.numbers - 1}; choose at most {config.numbers}")
    return config


def pretrained_config(path, adapters, overrides):
    """Return the Config of a fine-tuning of the real model in `path`.

    `adapters` and `overrides` are the options, {name: value}. Raises InputError for options that a
    real model doesn't have.
    """
    overrides = dict(overrides)
    full, window = overrides.pop("full", False), overrides.pop("window", PretrainedConfig.block)
    PretrainedConfig.check_names(overrides)
    if "pretrained" in overrides:
        raise InputError("--pretrained is for --resume; leave it out here, where the model is "
                         "named already")
    if full and adapters:
        raise InputError(f"--{next(iter(adapters))} is an option of adapters, and --full trains "
                         "without adapters; leave one of them out")
    if window < 1:
        raise InputError(f"--window {window} must be an integer, 1 or more")
    quantized = MODEL_QUANTIZED if adapters.get("bits") is not None else {}
    chosen = None if full else Adapters(**{**MODEL_ADAPTERS, **quantized, **adapters})
    return PretrainedConfig(**{**overrides, "block": window, "pretrained": str(path),
                               "adapters": chosen})

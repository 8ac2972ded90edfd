"""The settings of a new run: what was given, and defaults that depend on the model and the data."""

from npdl_train.runs.config import SEQ2SEQ, Config, usable_cores

# Document 004 names neither a clip nor how its LSTM starts. The starter code that its course has
# published clips at norm 1 and starts the gates as Glorot & Bengio do: that is "release". The
# default leaves the gates at PyTorch's start: the validation loss is then of the size that the
# document prints (docs/results.md).
RECIPES = {
    "default": {"gpt": {"clip": 1.0}, "lstm": {"clip": 1.0}},
    "release": {"gpt": {"clip": 1.0}, "lstm": {"clip": 1.0, "init": "xavier"}},
    "stated": {"gpt": {"clip": None}, "lstm": {"clip": None}},
}
_TEXT = {"clip": None, "init": "torch", "r_train": 0.9, "batch": 12, "steps": 2000,
         "weight_decay": 0.1, "eval_first": 0, "eval_every": 250}
TEXT_DEFAULTS = {"gpt": {**_TEXT, "positions": "2k/d"}, "lstm": _TEXT}
DATES_DEFAULTS = {"r_train": 0.9, "layers": 1, "batch": 64, "steps": 2000,
                  "weight_decay": 0.01, "clip": 1.0, "schedule": "cosine", "eval_first": 0,
                  "eval_every": 250, "norm": "pre", "positions": "2k/d", "engine": "plain"}


def recipe_settings(model, given):
    """`given` with its recipe, if it names one, as the settings that it stands for."""
    given = dict(given)
    settings = RECIPES[given.pop("recipe")][model] if "recipe" in given else {}
    start = {"init": "torch"} if settings else {}
    return {**start, **settings, **given}


def new_config(model, given):
    """A Config from the options given, with the defaults that depend on others or the machine."""
    given = dict(given)
    if model in SEQ2SEQ:
        return Config(**{**DATES_DEFAULTS, **given, "model": model})
    defaults = TEXT_DEFAULTS if "text" in given else RECIPES[given.pop("recipe", "default")]
    return Config(**{"model": model, "threads": min(2, usable_cores()), **defaults[model],
                     **given})

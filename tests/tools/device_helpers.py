"""Functions that several tests of the device code use."""

import numpy as np

from npdl.train.config import Config

# tests/engine/test_cuda.py compares the engines.
SETTINGS = [{"engine": "recorded", "dropout": 0.1}] + [
    {"engine": "plain", **settings} for settings in (
        {"clip": 1.0}, {"dropout": 0.1}, {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "adam", "norm": "pre"}, {"orders": (2, 3), "p": 5, "batch": 7},
        {"positions": "learned", "tied": True, "decay": "matrices", "bias": False})]
MODELS = [(model, settings) for settings in SETTINGS for model in ("gpt", "lstm")
          if model == "gpt" or not {"norm", "positions"} & settings.keys()]


def small_config(model, settings, **more):
    """Return a Config of a tiny model."""
    return Config(model=model, **{"p": 7, "width": 16, "heads": 2, "steps": 4, **settings, **more})


def assert_same_records(records, expected, rel=1e-4):
    """Check that two lists of metrics have the same keys, and numbers equal up to rounding."""
    assert len(records) == len(expected)
    for one, other in zip(records, expected, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            if isinstance(value, float):
                np.testing.assert_allclose(one[key], value, rtol=rel, err_msg=key)
            else:
                assert one[key] == value, key

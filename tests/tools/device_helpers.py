"""What the tests of the device path share."""

import numpy as np

from npdl.train.config import Config

# tests/engine/test_cuda.py compares the engines.
SETTINGS = [{"engine": "recorded", "dropout": 0.1}] + [
    {"engine": "plain", **settings} for settings in (
        {"clip": 1.0}, {"dropout": 0.1}, {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "adam", "norm": "pre"}, {"orders": (2, 3), "p": 5, "batch": 9},
        {"positions": "learned", "tied": True, "decay": "matrices", "bias": False})]


def small_config(model, settings, **more):
    """A Config of a model that trains in no time; None where the settings are not its own."""
    if model == "lstm" and {"norm", "positions"} & settings.keys():
        return None
    return Config(model=model, **{"p": 7, "width": 16, "heads": 2, "steps": 4, **settings, **more})


def assert_same_records(found, wanted, rel=1e-4):
    """Records of metrics with the same keys, and numbers that agree up to rounding."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            if isinstance(value, float):
                np.testing.assert_allclose(one[key], value, rtol=rel, err_msg=key)
            else:
                assert one[key] == value, key

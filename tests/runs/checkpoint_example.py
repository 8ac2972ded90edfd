"""A small checkpoint, and what the checkpoint tests ask of one."""

import numpy as np
import pytest

from npdl.errors import CheckpointError
from npdl_train.runs import checkpoint

META = {"step": 7, "model": {"layers": 2, "bias": True, "p": None}, "lr": 1e-3, "note": "é ∘"}


def example():
    rng = np.random.default_rng(0)
    return {
        "embedding.W": rng.standard_normal((5, 4)).astype(np.float32),
        "decoder.0.b": rng.standard_normal(3),
        "adam.step": np.array(7),
    }


def refused(path, data=None):
    """What `load` says of the file when it refuses it, checked to be one line that names it."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message and ";" in message
    return message.replace(str(path), "")    # the folder is named after the test


def assert_same(got, expected):
    assert set(got) == set(expected)
    for name, array in expected.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name
        assert got[name].flags.writeable and got[name].flags.c_contiguous

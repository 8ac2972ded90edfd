"""The running statistics of BatchNorm; test_torch.py compares the outputs of all norms."""

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.layers.batch_norm import BatchNorm, InstanceNorm


def test_one_value_has_no_statistics():
    with pytest.raises(InputError, match="more than one value"):
        BatchNorm(2).forward(np.ones((1, 2, 1)))
    with pytest.raises(InputError, match="at least 2"):
        InstanceNorm(2).forward(np.ones((4, 2, 1)))


def test_running_statistics_move_in_training_only():
    layer = BatchNorm(2, momentum=0.25, dtype="float64")
    x = np.array([[1.0, 10.0], [3.0, 30.0]])
    layer.forward(x)                                            # unbiased variances 2 and 200
    np.testing.assert_allclose(layer.running_mean.data, [0.5, 5])
    np.testing.assert_allclose(layer.running_var.data, [1.25, 50.75])
    before = layer.state_dict()
    y, _ = layer.forward(x, training=False)
    np.testing.assert_allclose(y, (x - [0.5, 5]) / np.sqrt(np.array([1.25, 50.75]) + 1e-5))
    for name, array in layer.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_running_statistics_are_saved_and_not_learned():
    layer = BatchNorm(2)
    assert set(layer.state_dict()) == {"gain", "bias", "running_mean", "running_var"}
    assert {name for name, _ in layer.params()} == {"gain", "bias"}
    twin = layer.astype("float64")
    twin.forward(np.random.default_rng(0).standard_normal((4, 2)))
    assert not layer.running_mean.data.any()                    # a copy has its own
    replica = layer.replica()
    replica.forward(np.ones((4, 2), "float32"))
    assert layer.running_mean.data.all()                        # a replica shares the model's

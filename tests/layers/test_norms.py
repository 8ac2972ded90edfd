"""The outputs and the running statistics of the normalisation layers."""

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.layer_norm import LayerNorm, RMSNorm

# Document 000, Question 1: 4 samples, 2 channels, 3 features.
TENSOR = np.array([
    [[2, 5, 1], [4, 3, 4]], [[1, 2, 4], [1, 2, 2]],
    [[3, 1, 2], [3, 2, 4]], [[3, 4, 3], [5, 2, 3]],
], float)


def test_one_value_has_no_statistics():
    with pytest.raises(InputError, match="more than one value"):
        BatchNorm(2).forward(TENSOR[:1, :, :1])
    with pytest.raises(InputError, match="at least 2"):
        InstanceNorm(2).forward(TENSOR[:, :, :1])


@pytest.mark.parametrize("layer, shape, axes", [
    (BatchNorm(4), (6, 4, 5), (0, 2)), (InstanceNorm(4), (6, 4, 5), 2),
    (GroupNorm(4, 2), (6, 2, 10), 2), (GroupNorm(4, 1), (6, 20), 1), (LayerNorm(5), (6, 4, 5), 2),
])
def test_outputs_have_mean_0_and_variance_1(layer, shape, axes):
    layer = layer.astype("float64")
    x = 3 + 2 * np.random.default_rng(1).standard_normal((6, 4, 5))
    y, _ = layer.forward(x)
    groups = y.reshape(shape)
    np.testing.assert_allclose(groups.mean(axes), 0, atol=1e-14)
    np.testing.assert_allclose(groups.var(axes), 1, atol=2e-4)              # eps


def test_outputs_of_rms_norm_have_mean_square_1():
    x = 3 + 2 * np.random.default_rng(1).standard_normal((6, 5))
    y, _ = RMSNorm(5, dtype="float64").forward(x)
    np.testing.assert_allclose((y**2).mean(-1), 1, atol=2e-4)               # eps


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

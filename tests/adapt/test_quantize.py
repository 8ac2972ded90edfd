"""Quantization: error bounds, packed bits and NF4. tests/exercises checks examples by hand."""

import itertools

import numpy as np
import pytest

from npdl.adapt import make_report
from npdl.adapt import quantize as quantization
from npdl.adapt.linears import QuantLinear
from npdl.adapt.quantize import NF4, count_bytes, dequantize, pack, quantize, unpack
from npdl.layers.linear import Linear

ROUNDINGS = ("floor", "nearest")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("bits", range(2, 17))
def test_quantization_error_and_packing(bits, rounding, dtype):
    rng = np.random.default_rng(bits)
    shape, block = tuple(rng.integers(1, 8, 2)), (None, 1, 3, 8, 10**30)[bits % 5]
    power = rng.integers(1, 4) if dtype == "float16" else rng.integers(-6, 6)
    W = (rng.standard_normal(shape) * 10.0**power).astype(dtype)
    codes, step = quantize(W, bits, rounding, block)
    back = dequantize(codes, step, block)
    assert codes.shape == back.shape == W.shape
    assert back.dtype == step.dtype == np.promote_types(dtype, "float32")
    assert abs(codes.astype(int)).max() <= 2 ** (bits - 1) - 1
    per_number = np.repeat(step, min(block or W.size, W.size))[: W.size].reshape(shape)
    # The numbers and their step sizes are rounded.
    eps = np.finfo(step.dtype).eps
    slack = abs(W).astype(float) * 4 * eps + abs(codes * np.spacing(per_number))
    error = W - back
    if rounding == "floor":
        assert (error >= -slack).all() and (error <= per_number + slack).all()
    else:
        assert (abs(error) <= per_number / 2 + slack).all()
    packed = pack(codes, bits)
    np.testing.assert_array_equal(unpack(packed, shape), codes)
    assert unpack(packed, shape).dtype == codes.dtype
    assert count_bytes(W.size, bits, block, step.itemsize) == packed.nbytes + step.nbytes


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_requantizing_changes_nothing(rounding):
    for dtype, bits, block in itertools.product(("float16", "float32", "float64"), (2, 4, 12),
                                                (None, 100)):
        W = np.random.default_rng(bits).standard_normal((40, 40)).astype(dtype)
        once = dequantize(*quantize(W, bits, rounding, block), block)
        again = quantize(once, bits, rounding, block)
        np.testing.assert_array_equal(again[0], quantize(W, bits, rounding, block)[0])
        np.testing.assert_allclose(dequantize(*again, block), once, rtol=1e-6)
    largest = np.array([[65504.0, -1.0]], "float16")            # that float16 holds
    assert dequantize(*quantize(largest, 4, rounding))[0, 0] == pytest.approx(65504)


# --- NF4 and double quantization, QLoRA's own -----------------------------------------------------
def test_the_levels_of_nf4_are_the_published_ones():
    published = [                                           # arXiv:2305.14314, appendix E
        -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
        0.7229568362236023, 1]
    assert np.allclose(NF4, published, rtol=0, atol=1e-6)
    assert (NF4[0], NF4[7], NF4[15]) == (-1, 0, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nf4_takes_the_nearest_level_of_each_block(dtype):
    W = np.random.default_rng(0).standard_normal((7, 9)).astype(dtype)
    codes, step = quantize(W, 4, "nf4", 16)
    back = dequantize(unpack(pack(codes, 4), W.shape), step, 16, "nf4")
    largest = np.repeat(step, 16)[:63].reshape(7, 9)
    errors = np.abs(W[..., None] - NF4 * largest[..., None])
    assert back.dtype == dtype and np.allclose(np.abs(back - W), errors.min(-1), atol=1e-6)
    again = quantize(back, 4, "nf4", 16)
    assert (again[0] == codes).all() and np.allclose(again[1], step)
    assert not dequantize(*quantize(np.zeros((2, 3)), 4, "nf4"), None, "nf4").any()


def test_double_quantization_stores_step_sizes_in_a_byte():
    W = np.random.default_rng(1).standard_normal((64, 640)).astype("float32")
    linear = Linear(64, 640)
    linear.W.data[...] = W
    one, two = (QuantLinear(linear, rounding="nf4", block=64, double=d) for d in (False, True))
    steps, kept = one.step.data, quantization.dequantize_sizes(two.step.data, two.scale.data)
    half = np.abs(steps - steps.mean()).max() / 127 / 2
    assert two.step.data.dtype == np.int8 and np.abs(kept - steps).max() <= 1.001 * half
    for layer, double in ((one, False), (two, True)):
        count = make_report(layer)
        bias = layer.b.data.nbytes
        assert count.stored_bytes - bias == count_bytes(W.size, 4, 64, double=double)
        assert count.frozen == W.size + 640
    assert 8 * count_bytes(2**30, 4, 64, double=True) / 2**30 == pytest.approx(4.127, abs=1e-3)

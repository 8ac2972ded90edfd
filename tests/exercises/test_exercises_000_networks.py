"""The exercises of document 000, Questions 3 and 4: the BiRNN, quantizing, LoRA and QLoRA."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d000_birnn as birnn
from exercises import d000_lora_costs as costs
from exercises import d000_lora_tradeoffs as tradeoffs
from exercises import d000_quantizer as quantizer
from npdl.errors import InputError

quick = settings(max_examples=25, deadline=None, derandomize=True)


# Question 3

@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_birnn_gradients(T, d, seed):
    net = birnn.example(T, d, seed)
    g, (library, L) = birnn.document_gradients(net), birnn.library_gradients(net)
    assert L == pytest.approx(birnn.forward(net)[3], rel=1e-12)
    for name in ("W_b", "U_f"):
        scale = np.abs(library[name]).max()
        assert np.abs(g[name] - library[name]).max() < 1e-11 * scale
        assert np.abs(birnn.weight_slopes(net, name) - g[name]).max() < 1e-7 * scale
    for side in "fb":
        for t in range(1, T + 1):
            slopes = birnn.state_slopes(net, side, t)
            assert np.abs(g["total", side, t] - slopes).max() < 1e-7 * np.abs(slopes).max()


def test_birnn_against_torch():
    torch = pytest.importorskip("torch")
    net = birnn.example(T=5, d=3, seed=4)
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in net.weights.items()}
    x, f, b = torch.tensor(net.x), [torch.tensor(net.f_first)], [torch.tensor(net.b_last)]
    for t in range(5):
        f.append(torch.tanh(weights["W_f"] @ x[t] + weights["U_f"] @ f[-1]))
        b.append(torch.tanh(weights["W_b"] @ x[4 - t] + weights["U_b"] @ b[-1]))
    y = torch.stack([weights["V_f"] @ f[t] + weights["V_b"] @ b[6 - t] for t in range(1, 6)])
    ((torch.tensor(net.z) - y) ** 2).sum().backward()
    g = birnn.document_gradients(net)
    for name in ("W_b", "U_f"):
        assert np.allclose(g[name], weights[name].grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("T", [1, 3, 7])
def test_birnn_graph(T):
    arrows = birnn.edges(T)
    assert len(arrows) == 6 * T
    assert len({node for start, end, _ in arrows for node in (start, end)}) == 4 * T + 2
    assert not any({start[0], end[0]} == {"f", "b"} for start, end, _ in arrows)


def test_birnn_refuses():
    net = birnn.example()
    with pytest.raises(InputError, match="do not fit"):
        birnn.Network(net.weights, net.x, net.z[:2], net.f_first, net.b_last)
    with pytest.raises(InputError):
        birnn.edges(0)


# Question 4

fractions = st.fractions(-5, 5, max_denominator=60)


@quick
@given(st.lists(fractions, min_size=1, max_size=12).filter(any), st.integers(2, 10))
def test_quantizer(values, bits):
    top = 2 ** (bits - 1) - 1
    codes, step = quantizer.quantize_exactly(values, bits)
    nearest, _ = quantizer.quantize_exactly(values, bits, "nearest")
    for value, low, near in zip(values, codes, nearest, strict=True):
        assert -top <= low <= top and -top <= near <= top
        assert 0 <= value - low * step < step
        assert abs(value - near * step) <= step / 2
    again, _ = quantizer.quantize_exactly([top * step, *(code * step for code in codes)], bits)
    assert again[1:] == codes


def test_quantizer_refuses():
    for arguments in (([1], 1), ([0], 4), ([1], 4, "up")):
        with pytest.raises(InputError):
            quantizer.quantize_exactly(*arguments)


def test_normal_float():
    levels = quantizer.normal_float_levels()
    published = [-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0,
                 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1]
    assert np.allclose(levels, published, atol=1e-4)
    W = np.array([levels * 3, levels * 0.5])
    assert np.allclose(quantizer.normal_float(W, block=16), W)


sizes = st.builds(lambda n, d, r, h: costs.Size(n, d, min(r, d), h), st.integers(1, 9),
                  st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))


@quick
@given(sizes, st.booleans())
def test_costs(size, quantized):
    for part in ("MHA", "FFN"):
        assert sum(costs.counted(size, part, quantized).values()) == costs.exact(
            size, part, quantized)
    layer = costs.LowRankLayer(size, *([4, 4] if quantized else [None, None]))
    assert layer.trainable("FFN") == 2 * size.d * size.r
    assert layer.trainable("MHA") == 6 * size.h * size.d * size.r
    X = np.random.default_rng(0).standard_normal((size.n, size.d)).astype("float32")
    for adapter_first in (False, True):
        y, _ = layer.forward(X, adapter_first)
        assert np.allclose(y, layer.library_forward(X), rtol=1e-3, atol=1e-4)


def test_costs_numbers():
    size = costs.Size(n=32, d=64, r=4, h=8)
    assert costs.counted(size, "MHA", True)["MHA dequantization"] == 4 * 8 * 64**2
    found = costs.choices(size)
    assert found["LoRA", "LoRA"] == (4 * 33 * 64**2, 0)
    assert min(found, key=lambda key: found[key][0]) == ("QLoRA", "QLoRA")
    for part, quantized in (("FFN", False), ("FFN", True), ("MHA", False), ("MHA", True)):
        low, high = costs.ratios(part, quantized)
        assert 0.9 < low <= high < 8


def test_costs_refuse():
    with pytest.raises(InputError, match="r at most d"):
        costs.Size(n=4, d=4, r=5, h=1)
    with pytest.raises(InputError, match="MHA or FFN"):
        costs.LowRankLayer(costs.Size(1, 2, 1, 1)).maps("LFFN")


@quick
@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 10**6))
def test_best_adapter(d_in, d_out, seed):
    rng = np.random.default_rng(seed)
    W, update = rng.standard_normal((2, d_in, d_out))
    singular = np.linalg.svd(update, compute_uv=False)
    for r in range(1, min(d_in, d_out) + 1):
        missed = math.sqrt((singular[r:] ** 2).sum() / (singular**2).sum())
        assert tradeoffs.update_error(W, update, r) == pytest.approx(missed, abs=1e-7)


def test_tradeoffs():
    found = tradeoffs.fit_errors((0, 1, 2, 8), draws=20)
    assert [found[r][0] for r in found] == sorted((v[0] for v in found.values()), reverse=True)
    assert min(found, key=lambda r: found[r][1]) == 2
    assert tradeoffs.codes_moved(1e-3)[0] == 0
    assert tradeoffs.codes_moved(1.0)[0] > 0.3
    with pytest.raises(InputError):
        tradeoffs.low_rank(np.ones((2, 3)), 3)

"""Document 000, Questions 3 and 4: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d000 import birnn_graph as graph
from exercises.d000 import birnn_network as birnn
from exercises.d000 import lora_costs as costs
from exercises.d000 import lora_layer as lora
from exercises.d000 import lora_tradeoffs as tradeoffs
from exercises.d000 import quantizer
from exercises.d000.birnn_network import Network, forward
from exercises.d000.lora_layer import Size

quick = settings(max_examples=25, derandomize=True)
SMALL = lora.Size(n=3, d=4, r=1, h=2)
fractions = st.fractions(-5, 5, max_denominator=60)
sizes = st.builds(lambda n, d, r, h: lora.Size(n, d, min(r, d), h), st.integers(1, 9),
                  st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))


def test_the_graphs_arrows_of_two_steps():
    assert graph.edges(2) == [
        (("x", 1), ("f", 1), "W_f"), (("f", 0), ("f", 1), "U_f"), (("x", 1), ("b", 1), "W_b"),
        (("b", 2), ("b", 1), "U_b"), (("f", 1), ("y", 1), "V_f"), (("b", 1), ("y", 1), "V_b"),
        (("x", 2), ("f", 2), "W_f"), (("f", 1), ("f", 2), "U_f"), (("x", 2), ("b", 2), "W_b"),
        (("b", 3), ("b", 2), "U_b"), (("f", 2), ("y", 2), "V_f"), (("b", 2), ("y", 2), "V_b")]


@pytest.mark.parametrize("T", [1, 3, 7])
def test_birnn_graph(T):
    arrows = graph.edges(T)
    assert len(arrows) == 6 * T
    assert len({node for start, end, _ in arrows for node in (start, end)}) == 4 * T + 2
    assert not any({start[0], end[0]} == {"f", "b"} for start, end, _ in arrows)


def test_one_step_of_one_unit():
    one = np.ones((1, 1))
    net = birnn.Network(dict.fromkeys(birnn.WEIGHTS, one), np.array([[0.5]]), np.array([[1.0]]),
                        np.array([0.25]), np.array([-0.25]))
    f, b, y, L = birnn.forward(net)
    assert f.ravel() == pytest.approx([0.25, math.tanh(0.75)])
    assert (b[1][0], b[2][0]) == pytest.approx((math.tanh(0.25), -0.25))
    assert y[0, 0] == pytest.approx(math.tanh(0.75) + math.tanh(0.25))
    assert pytest.approx((1 - y[0, 0]) ** 2) == L
    slope = 1 - math.tanh(0.75) ** 2
    assert birnn.jacobian(net.weights, "f", f[1]) == pytest.approx(slope)
    g = birnn.document_gradients(net)
    assert g["U_f"] == pytest.approx(slope * 2 * (y[0, 0] - 1) * 0.25)
    assert sorted(key for key in g if key[0] == "local") == [("local", "b", 1), ("local", "f", 1)]


def test_which_state_moves_which_output(monkeypatch):
    net = birnn.example(T=2, d=2)
    forth, back = {(("f", 1), 1), (("f", 1), 2), (("f", 2), 2)}, {(("b", 2), 2), (("b", 2), 1),
                                                                  (("b", 1), 1)}
    assert graph.dependencies(net) == (forth | back, forth | back)
    arrows = graph.edges(2)
    monkeypatch.setattr(graph, "edges", lambda T: [
        arrow for arrow in arrows if arrow[2] not in ("U_f", "V_b")])
    assert graph.dependencies(net) == (forth | back, forth - {(("f", 1), 2)})


@pytest.mark.parametrize("scale", [0.1, 1, 20])
def test_our_differences_count_where_npdl_agrees(monkeypatch, scale):
    net = birnn.example(T=2, d=2)
    net = birnn.Network(net.weights, net.x, scale * net.z, net.f_first, net.b_last)
    gradients, L = birnn.library_gradients(net)

    def says(now):
        monkeypatch.setattr(birnn, "library_gradients", lambda _: now)
        return birnn.sound(net)

    assert says((gradients, L * (1 + 5e-9))) is True
    assert not says((gradients, L * (1 + 1e-6))) and not says((gradients, L * (1 - 1e-6)))
    for name in birnn.WEIGHTS:
        assert not says((gradients | {name: gradients[name] * (1 + 1e-6)}, L))


def test_a_random_network_has_its_sizes():
    net = birnn.example(T=2, d=60, scale=2)
    assert [net.weights[name].std() for name in birnn.WEIGHTS] == pytest.approx([2] * 6, rel=0.1)
    assert net.f_first.std() == pytest.approx(0.5, rel=0.3) and net.x.std() > 0.8
    assert not np.allclose(net.x, net.z) and not np.allclose(net.f_first, net.b_last)
    rng = np.random.default_rng(0)
    rng.standard_normal((6, 60, 60))
    assert np.array_equal(net.x, rng.standard_normal((2, 60)))


@settings(max_examples=8, derandomize=True)
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


def test_3_the_example_forwards():
    f, b, y, _ = forward(birnn.small())
    p, q = math.tanh(1 + 0.25), math.tanh(0.5)
    r, s = math.tanh(-0.5), math.tanh(0.5 + 0.25)
    assert f[1] == pytest.approx([p, q])
    assert f[2] == pytest.approx([math.tanh(0.5 + p / 2 - q), math.tanh(0.25 - 0.5 + q / 2)])
    assert b[2] == pytest.approx([r, s])
    assert b[1] == pytest.approx([math.tanh(r / 2), math.tanh(1 + r - s / 2)])
    for t in (1, 2):
        assert y[t - 1] == pytest.approx([f[t][0] + f[t][1] / 2 + b[t][0],
                                          f[t][1] - b[t][0] + b[t][1]])
    assert birnn.small().z.tolist() == [[1, 0], [0, 1]]


def test_3_all_that_is_given_is_shown():
    ten = np.arange(1.0, 11.0).reshape(5, 2)
    net = Network(birnn.small().weights, ten[:3], -ten[:3], ten[3], ten[4])
    shown = birnn.given(net)
    assert {name: shown.pop(name).shape for name in [*shown][:6]} == dict.fromkeys(
        ("W⁽ᶠ⁾", "U⁽ᶠ⁾", "V⁽ᶠ⁾", "W⁽ᵇ⁾", "U⁽ᵇ⁾", "V⁽ᵇ⁾"), (2, 2))
    assert {name: vector.tolist() for name, vector in shown.items()} == {
        "x₁": [1, 2], "x₂": [3, 4], "x₃": [5, 6], "z₁": [-1, -2], "z₂": [-3, -4],
        "z₃": [-5, -6], "h₀⁽ᶠ⁾": [7, 8], "h₄⁽ᵇ⁾": [9, 10]}


def test_counts_agree_at_every_small_size_or_not_at_all(monkeypatch):
    assert costs.totals_agree("FFN") is True is costs.totals_agree("MHA")
    true = lora.exact
    for odd in product(costs.SMALL, (False, True)):
        costs.totals_agree.cache_clear()
        monkeypatch.setattr(costs, "exact", lambda size, part, quantized, odd=odd: (
            true(size, part, quantized) + ((size, quantized) == odd)))
        assert costs.totals_agree("FFN") is False
    costs.totals_agree.cache_clear()


def test_4_4_the_products_by_their_shapes():
    rows = costs.products(Size(n=2, d=3, r=1, h=5))
    assert [row[2:] for row in rows] == [
        ((2, 3, 3), 15), ((2, 3, 1), 15), ((2, 1, 3), 15), ((2, 3, 2), 5), ((2, 2, 3), 5),
        ((2, 15, 3), 1), ((2, 3, 3), 1), ((2, 3, 1), 1), ((2, 1, 3), 1)]


def test_costs_of_a_small_layer():
    assert (lora.exact(SMALL, "FFN"), lora.exact(SMALL, "FFN", True)) == (48 + 24, 48 + 24 + 16)
    assert lora.exact(SMALL, "FFN", merged=True) == 48
    assert (lora.printed(SMALL, "FFN"), lora.printed(SMALL, "MHA")) == (60, 2 * (48 + 36) + 96)
    counts = lora.counted(SMALL, quantized=True)
    assert counts["MHA dequantization"] == 128 and counts["FFN dequantization"] == 16
    layer = lora.LowRankLayer(SMALL)
    assert layer.forward(np.ones((3, 4), "float32"))[1].total == lora.exact(
        SMALL, "FFN") + lora.exact(SMALL, "MHA")


def test_what_each_choice_computes_and_keeps():
    found = lora.choices(SMALL)
    assert {kinds: work for kinds, (_, work) in found.items()} == {
        ("LoRA", "LoRA"): 0, ("LoRA", "QLoRA"): 40, ("QLoRA", "LoRA"): 272,
        ("QLoRA", "QLoRA"): 312}
    assert found["LoRA", "LoRA"][0] == 4 * 16 * (4 * 2 + 1)
    found = lora.choices(lora.Size(n=3, d=4, r=2, h=2))
    assert found["QLoRA", "LoRA"][1] == 128 + 6 * 48 and found["LoRA", "QLoRA"][1] == 16 + 48


@pytest.mark.parametrize("steps", [1, 3])
def test_a_quantized_base_makes_its_matrix_in_each_forward_and_each_backward(steps):
    layer = lora.LowRankLayer(SMALL, 4, 4).F
    X = np.ones((3, 4), "float32")
    assert costs.dequantizations(layer, X, steps) == 2 * steps
    assert "weight" not in vars(layer.base)                 # counts no more


def test_ratios_of_counts():
    assert lora.ratios("FFN", False, [SMALL]) == (1.2, 1.2)
    assert lora.ratios("FFN", True, [SMALL, lora.Size(1, 1, 1, 1)]) == (88 / 60, 2)
    assert lora.ratios("FFN", False) == pytest.approx((1 + 1 / 2049, 1.5))
    assert lora.ratios("MHA", False)[1] == pytest.approx(
        lora.exact(size := lora.Size(1, 2048, 2048, 64), "MHA") / lora.printed(size, "MHA"))


def test_an_adapter_of_a_random_layer_is_small_and_not_zero():
    layer = lora.LowRankLayer(lora.Size(2, 40, 8, 1))
    for adapted in (layer.F, layer.heads[0]["Q"]):
        assert adapted.B.data.std() == pytest.approx(0.1, rel=0.2)
        assert abs(adapted.B.data.mean()) < 0.03
        assert not np.allclose(adapted.A.data, adapted.B.data)


@quick
@given(sizes, st.booleans())
def test_costs(size, quantized):
    for part in ("MHA", "FFN"):
        assert sum(lora.counted(size, part, quantized).values()) == lora.exact(
            size, part, quantized)
    layer = lora.LowRankLayer(size, *([4, 4] if quantized else [None, None]))
    assert layer.trainable("FFN") == 2 * size.d * size.r
    assert layer.trainable("MHA") == 6 * size.h * size.d * size.r
    X = np.random.default_rng(0).standard_normal((size.n, size.d)).astype("float32")
    for adapter_first in (False, True):
        y, _ = layer.forward(X, adapter_first)
        assert np.allclose(y, layer.library_forward(X), rtol=1e-3, atol=1e-4)


def test_costs_numbers():
    size = lora.Size(n=32, d=64, r=4, h=8)
    assert lora.counted(size, "MHA", True)["MHA dequantization"] == 4 * 8 * 64**2
    found = lora.choices(size)
    assert found["LoRA", "LoRA"] == (4 * 33 * 64**2, 0)
    assert min(found, key=lambda key: found[key][0]) == ("QLoRA", "QLoRA")
    for part, quantized in (("FFN", False), ("FFN", True), ("MHA", False), ("MHA", True)):
        low, high = lora.ratios(part, quantized)
        assert 0.9 < low <= high < 8


def test_updates_have_the_ranks_and_sizes_that_are_said():
    W, thin, full = tradeoffs.pretrained(30)
    assert np.linalg.matrix_rank(thin) == 4 and np.linalg.matrix_rank(full) == 30
    assert W.std() == pytest.approx(1 / math.sqrt(30), rel=0.1)
    for update in (thin, full):
        assert np.linalg.norm(update) == pytest.approx(0.1 * np.linalg.norm(W))


def test_errors_of_least_squares():
    found = tradeoffs.fit_errors((0, 2, 16), draws=60)
    assert found[0][1] == pytest.approx(2 + 1, rel=0.15)    # the update's and the noise's variance
    assert found[16][0] == pytest.approx(1 - 16 / 32, rel=0.1)
    assert found[16][1] == pytest.approx(1 + 16 / 15, rel=0.15)
    assert 0 < found[16][2] < 0.15
    exact = tradeoffs.fit_errors((0, 1, 2, 16), noise=0, draws=5)
    assert exact[0][0] > exact[1][0] > 0.05 and max(exact[2][:2] + exact[16][:2]) < 1e-20
    louder = tradeoffs.fit_errors((16,), noise=2.0, draws=60)
    assert louder[16][0] == pytest.approx(4 * found[16][0])
    assert louder[16][1] == pytest.approx(4 * found[16][1])


def test_what_merging_into_codes_loses():
    moved, lost = tradeoffs.codes_moved(1e-6)
    assert moved == 0 and 0.9 < lost < 1.3                  # no code moves: all of it is lost
    moved, lost = tradeoffs.codes_moved(1.0)
    assert moved > 0.5 and 0.05 < lost < 0.5
    W = np.eye(3)
    assert tradeoffs.low_rank(W, 0)[0].shape == tradeoffs.low_rank(W, 3)[0][:, :0].shape
    assert tradeoffs.update_error(np.zeros((2, 2)), np.diag([3.0, 4.0]), 1) == pytest.approx(0.6)


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


def test_4_the_adapter_on_both_bases():
    codes, step = tradeoffs.packed()
    assert codes.tolist() == [[7, -3], [4, -6]] and step == pytest.approx(0.1)
    plain, quantized = tradeoffs.library(), tradeoffs.library(4)
    assert plain.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.125, -0.725]]))
    assert quantized.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.1, -0.8]]), abs=1e-6)
    assert plain.count_params() == quantized.count_params() == 4


def test_an_error_by_hand():
    W = np.array([[0.7, -0.3]])                             # m = 3: step 7/30, codes 3 and -2
    assert quantizer.relative_error(W, "floor", 3) == pytest.approx(
        math.sqrt((0.3 - 14 / 30) ** 2 / (0.49 + 0.09)))
    W = np.array([[1.0] * 64 + [0.01] * 64])                # with one step the second half is lost
    assert quantizer.relative_error(W, "nearest") == pytest.approx(0.01 / math.sqrt(1.0001))
    assert quantizer.relative_error(W, "blocks") == quantizer.relative_error(W, "nf4") == 0


def test_the_formula_divides_by_zero_for_one_bit_and_for_zeros():
    assert quantizer.quantize_exactly([1, 2, -1], 3) == ([1, 3, -2], Fraction(2, 3))
    for arguments in (([1, 2], 1), ([0, 0], 4)):
        with pytest.raises(ZeroDivisionError):
            quantizer.quantize_exactly(*arguments)


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


def test_4_4_a_quantizer_there_and_back():
    assert quantizer.there_and_back((5, -1), (2, -1), 2) == ([4, -2], [1, 1])
    assert quantizer.patterns(4) == (16, 15, 7)

"""StableMax, the orthogonal gradient, Grokfast and Muon against their papers' rules."""

import numpy as np
import pytest

from npdl.backend import stream
from npdl.core import Param
from npdl.errors import InputError
from npdl.losses import CrossEntropy, StableMaxLoss
from npdl.models.mlp import MLP
from npdl.optim import AdamW, Grokfast, Muon, orthogonal_gradient, orthogonalised

torch = pytest.importorskip("torch")


def gradients(model, step):
    for number, (_, param) in enumerate(model.params()):
        param.grad[...] = stream(7, step, number).standard_normal(param.shape)


# --- StableMax ------------------------------------------------------------------------------------
def test_stablemax_is_the_papers():
    x = stream(1).standard_normal((5, 4)) * 3
    y = np.array([0, 3, 1, 2, 0])
    z = torch.tensor(x, requires_grad=True)
    s = torch.where(z < 0, 1 / (1 - z), z + 1)
    wanted = -torch.log(s / s.sum(-1, keepdim=True))[torch.arange(5), torch.tensor(y)].mean()
    wanted.backward()
    layer = StableMaxLoss()
    loss, cache = layer.forward(x, y)
    assert loss == pytest.approx(wanted.item(), rel=1e-13)
    np.testing.assert_allclose(layer.backward(1.0, cache), z.grad.numpy(), rtol=1e-12)


def test_where_a_softmax_has_collapsed_stablemax_still_learns():
    logits = np.array([[120.0, 0.0, -5.0]], np.float32)
    loss, cache = StableMaxLoss().forward(logits, [0])
    assert CrossEntropy().forward(logits, np.array([0]))[0] == 0
    assert loss > 0.005 and (StableMaxLoss().backward(1.0, cache) != 0).all()


@pytest.mark.parametrize("logits, targets, words", [
    (np.ones((2, 3)), [0], "do not fit"), (np.ones((1, 3)), [3], "targets"),
    (np.ones((2, 0)), [0, 0], "do not fit"),
])
def test_bad_input_is_one_line(logits, targets, words):
    with pytest.raises(InputError, match=words) as error:
        StableMaxLoss().forward(logits, np.array(targets))
    assert "\n" not in str(error.value)


# --- the orthogonal gradient ----------------------------------------------------------------------
def test_nothing_along_the_weights_is_left():
    model = MLP([3, 4, 2], dtype="float64")
    gradients(model, 0)
    before = {name: p.grad.copy() for name, p in model.params()}
    orthogonal_gradient(p for _, p in model.params())
    for name, p in model.params():
        assert abs((p.grad * p.data).sum()) < 1e-14
        taken = before[name] - p.grad                       # along theta alone
        assert abs((taken * p.data).sum()) == pytest.approx(
            np.linalg.norm(taken) * np.linalg.norm(p.data))
    zero = Param(np.zeros(3))
    zero.grad += 1
    orthogonal_gradient([zero])
    assert (zero.grad == 1).all()


# --- Grokfast -------------------------------------------------------------------------------------
def test_the_slow_part_is_amplified():
    model = MLP([2, 2], dtype="float64")
    params = [p for _, p in model.params()]
    grokfast, mu = Grokfast(params, keep=0.9, amplify=3.0), None
    for step in range(4):
        gradients(model, step)
        g = [p.grad.copy() for p in params]
        mu = [0.9 * a + 0.1 * b for a, b in zip(mu or g, g, strict=True)]
        grokfast.filter()
        for p, a, b in zip(params, g, mu, strict=True):
            np.testing.assert_allclose(p.grad, a + 3 * b, rtol=1e-14)
    with pytest.raises(InputError, match="keep"):
        Grokfast(params, keep=1.0)


# --- Muon -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (1, 7)])
def test_singular_values_are_brought_near_one(shape):
    G = stream(3).standard_normal(shape)
    U, S, Vt = np.linalg.svd(orthogonalised(G))
    assert 0.6 < S.min() and S.max() < 1.3
    left, _, right = np.linalg.svd(G, full_matrices=False)
    assert (orthogonalised(G) * (left @ right)).sum() > 0.9 * min(shape) * 0.7


def test_muon_is_momentum_made_orthogonal_and_adamw_elsewhere():
    models = [MLP([3, 5, 2], rng=4, dtype="float64") for _ in range(2)]
    names = {"maps.0.W"}
    muon = Muon(models[0], names, lr=0.1, faster=0.2, momentum=0.9, weight_decay=0.3)
    adamw = AdamW(models[1], 0.1, weight_decay=0.3)
    theta = models[0].maps[0].W.data.copy()
    v = np.zeros_like(theta)
    for step in range(3):
        for model in models:
            gradients(model, step)
        g = models[0].maps[0].W.grad.copy()
        v = 0.9 * v + g
        step_size = 0.02 * np.sqrt(max(1, theta.shape[1] / theta.shape[0]))
        theta = theta - 0.1 * 0.3 * theta - step_size * orthogonalised(g + 0.9 * v)
        muon.step()
        adamw.step()
    np.testing.assert_allclose(models[0].maps[0].W.data, theta, rtol=1e-13)
    others = [dict(model.params()) for model in models]
    for name in others[0].keys() - names:
        np.testing.assert_array_equal(others[0][name].data, others[1][name].data)


def test_muon_saves_its_state_and_refuses_what_is_no_matrix():
    model = MLP([3, 4, 2], rng=1, dtype="float64")
    muon = Muon(model, {"maps.0.W"})
    gradients(model, 0)
    muon.step()
    assert set(muon.state_dict()) == {"steps", "m", "v", "velocity"}
    for names in ({"maps.0.b"}, {"nothing"}):
        with pytest.raises(InputError, match="not the name of a matrix"):
            Muon(model, names)


def test_an_mlp_needs_two_sizes():
    for sizes in ([3], 5, None, []):
        with pytest.raises(InputError, match="at least two"):
            MLP(sizes)
    with pytest.raises(InputError, match="d_out"):
        MLP([3, 0, 2])

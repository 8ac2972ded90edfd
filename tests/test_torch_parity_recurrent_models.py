"""Segments, the BiRNN and the attentive RNN against PyTorch's autograd in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; parity is not checked")

from npdl.layers.truncated import truncated_bptt  # noqa: E402

from npdl.layers.recurrent import LSTM  # noqa: E402
from npdl.models.attentive_rnn import QUERIES, SCORES, AttentiveRNN  # noqa: E402
from npdl.models.birnn import BiRNN, BiRNNLoss  # noqa: E402
from tests.torch_recurrent import (  # noqa: E402
    KINDS,
    backward_of,
    close,
    close_gradients,
    load,
    parts,
    tensor,
    tensors_of,
    to_torch,
    torch_parameters,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("segment", [1, 2, 5, 7])
def test_truncated_backpropagation_is_detach(kind, segment):
    B, S, D, H = 2, 5, 3, 2
    rng = np.random.default_rng(segment)
    mine = kind(D, H, 2, rng=rng, dtype="float64")
    theirs = KINDS[kind](D, H, 2, batch_first=True, dtype=torch.float64)
    pairs = list(torch_parameters(kind, mine, theirs))
    load(kind, pairs, theirs)
    x, z = rng.standard_normal((B, S, D)), rng.standard_normal((B, S, H))
    y, final, dx = truncated_bptt(mine, x, lambda y, span: 2 * (y - z[:, span]), segment)
    x_t, state, outputs = tensor(x), None, []
    for begin in range(0, S, segment):
        span = slice(begin, begin + segment)
        y_t, state = theirs(x_t[:, span], state)
        ((y_t - torch.tensor(z[:, span])) ** 2).sum().backward()
        state = tuple(s.detach() for s in state) if kind is LSTM else state.detach()
        outputs.append(y_t)
    close(y, torch.cat(outputs, 1))
    close(dx, x_t.grad)
    for a, b in zip(parts(final), parts(state), strict=True):
        close(a, b)
    for param, parameter in pairs:
        close(to_torch(kind, param.grad), parameter.grad)


def test_birnn_and_its_loss():
    B, S, d = 2, 4, 3
    rng = np.random.default_rng(2)
    loss = BiRNNLoss(BiRNN(d, rng=rng, dtype="float64"))
    x, z = rng.standard_normal((B, S, d)), rng.standard_normal((B, S, d))
    L, cache = loss.forward(x, z)
    dx, dz, _ = loss.backward(1.0, cache)
    weights, x_t, z_t = tensors_of(loss), tensor(x), tensor(z)
    W_f, U_f, W_b, U_b, V_f, V_b = weights.values()
    h_f, h_b = [torch.zeros(B, d, dtype=x_t.dtype)], [torch.zeros(B, d, dtype=x_t.dtype)]
    for t in range(S):
        h_f.append(torch.tanh(x_t[:, t] @ W_f + h_f[-1] @ U_f))
        h_b.append(torch.tanh(x_t[:, S - 1 - t] @ W_b + h_b[-1] @ U_b))
    y_t = torch.stack(h_f[1:], 1) @ V_f + torch.stack(h_b[:0:-1], 1) @ V_b
    L_t = ((z_t - y_t) ** 2).sum()
    L_t.backward()
    for a, b in ((np.asarray(L), L_t), (dx, x_t.grad), (dz, z_t.grad)):
        close(a, b)
    close_gradients(loss, weights)


def attentive_score(score, weights, q, keys):
    """q (B, H), keys (B, n, H) -> (B, n)."""
    if score == "additive":
        u = q @ weights["attention.W_q.W"]
        w = keys @ weights["attention.W_k.W"]
        return torch.tanh(u[:, None] + w) @ weights["attention.a"]
    dot = (keys * q[:, None]).sum(-1)
    return dot / q.shape[1] ** 0.5 if score == "scaled-dot" else dot


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("query", QUERIES)
def test_attentive_rnn(score, query):
    B, S, P, D, H = 2, 4, 2, 3, 3
    rng = np.random.default_rng(4)
    model = AttentiveRNN(D, H, score, query, rng=rng, dtype="float64")
    x, h0, past = (rng.standard_normal(shape) for shape in ((B, S, D), (B, H), (B, P, H)))
    (y, (h, states), A), cache = model.forward(x, (h0, past))
    dy, dh, dstates, dA = (rng.standard_normal(a.shape) for a in (y, h, states, A))
    dx, (dh0, dpast) = model.backward((dy, (dh, dstates), dA), cache)

    weights, x_t, h0_t, past_t = tensors_of(model), tensor(x), tensor(h0), tensor(past)
    h_t, seen, rows = h0_t, list(past_t.unbind(1)), []
    for t in range(S):
        s = torch.tanh(x_t[:, t] @ weights["cell.W_x"] + h_t @ weights["cell.W_h"]
                       + weights["cell.b"])
        keys = torch.stack(seen, 1)
        alpha = attentive_score(score, weights, s if query == "preliminary" else h_t, keys)
        alpha = alpha.softmax(-1)
        h_t = s + (alpha[..., None] * keys).sum(1)
        seen.append(h_t)
        rows.append(torch.nn.functional.pad(alpha, (0, S - t)))
    states_t, A_t = torch.stack(seen, 1), torch.stack(rows, 1)
    backward_of((states_t[:, P:], h_t, states_t, A_t), (dy, dh, dstates, dA))
    pairs = ((y, states_t[:, P:]), (h, h_t), (states, states_t), (A, A_t), (dx, x_t.grad),
             (dh0, h0_t.grad), (dpast, past_t.grad))
    for a, b in pairs:
        close(a, b)
    close_gradients(model, weights)

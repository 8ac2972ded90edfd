"""RNN, GRU and LSTM against PyTorch in float64: outputs, final states and every gradient."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; parity is not checked")

from npdl.layers.gru import GRU  # noqa: E402

from npdl.layers.bidirectional import Bidirectional  # noqa: E402
from npdl.layers.recurrent import LSTM  # noqa: E402
from tests.torch_recurrent import (  # noqa: E402
    KINDS,
    backward_of,
    close,
    close_gradients,
    load,
    parts,
    state_of,
    tensor,
    tensors_of,
    to_torch,
    torch_parameters,
    torch_run,
)

SHAPES = [(2, 3, 4, 5, 1), (3, 5, 2, 3, 2), (1, 1, 1, 1, 1), (4, 1, 3, 2, 3)]   # B S D H L


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("sizes", SHAPES)
def test_stack(kind, bias, ragged, sizes):
    B, S, D, H, L = sizes
    rng = np.random.default_rng(sum(sizes))
    mine = kind(D, H, L, bias, rng=rng, dtype="float64")
    theirs = KINDS[kind](D, H, L, bias=bias, batch_first=True, dtype=torch.float64)
    pairs = list(torch_parameters(kind, mine, theirs))
    load(kind, pairs, theirs)
    lengths = rng.integers(1, S + 1, B) if ragged else None
    x, start, dfinal = rng.standard_normal((B, S, D)), state_of(kind, rng, L, B, H), state_of(
        kind, rng, L, B, H)
    dy = rng.standard_normal((B, S, H))

    (y, final), cache = mine.forward(x, start, lengths=lengths)
    dx, dstart = mine.backward((dy, dfinal), cache)
    x_t, start_t = tensor(x), tuple(tensor(part) for part in parts(start))
    y_t, final_t = torch_run(theirs, x_t, start_t if kind is LSTM else start_t[0], lengths)
    backward_of((y_t, *parts(final_t)), (dy, *parts(dfinal)))

    close(y, y_t)
    close(dx, x_t.grad)
    for a, b in zip(parts(final), parts(final_t), strict=True):
        close(a, b)
    for a, b in zip(parts(dstart), start_t, strict=True):
        close(a, b.grad)
    for param, parameter in pairs:
        close(to_torch(kind, param.grad), parameter.grad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("levels", [1, 2])
def test_both_directions(kind, ragged, levels):
    B, S, D, H = 4, 5, 3, 2
    rng = np.random.default_rng(levels)
    theirs = KINDS[kind](D, H, levels, batch_first=True, bidirectional=True, dtype=torch.float64)
    chain, pairs = [], []
    for level in range(levels):
        width = 2 * H if level else D
        both = Bidirectional(*(kind(width, H, rng=rng, dtype="float64") for _ in range(2)))
        chain.append(both)
        pairs += torch_parameters(kind, both.ahead, theirs, offset=level)
        pairs += torch_parameters(kind, both.back, theirs, "_reverse", offset=level)
    load(kind, pairs, theirs)
    lengths = rng.integers(1, S + 1, B) if ragged else None
    x, dy = rng.standard_normal((B, S, D)), rng.standard_normal((B, S, 2 * H))
    starts = [tuple(state_of(kind, rng, 1, B, H) for _ in range(2)) for _ in chain]
    dfinals = [tuple(state_of(kind, rng, 1, B, H) for _ in range(2)) for _ in chain]

    y, finals, caches, dstarts = x, [], [], []
    for both, start in zip(chain, starts, strict=True):
        (y, final), cache = both.forward(y, start, lengths=lengths)
        finals.append(final)
        caches.append(cache)
    dx = dy
    for i in reversed(range(levels)):
        dx, dstart = chain[i].backward((dx, dfinals[i]), caches[i])
        dstarts.insert(0, dstart)

    def joined(states):
        """torch's layout: for each part, (2 levels, B, H), ahead and back in turns."""
        flat = [parts(direction) for level in states for direction in level]
        return tuple(np.concatenate(part) for part in zip(*flat, strict=True))

    x_t, start_t = tensor(x), tuple(tensor(part) for part in joined(starts))
    y_t, final_t = torch_run(theirs, x_t, start_t if kind is LSTM else start_t[0], lengths)
    backward_of((y_t, *parts(final_t)), (dy, *joined(dfinals)))
    close(y, y_t)
    close(dx, x_t.grad)
    for a, b in zip(joined(finals), parts(final_t), strict=True):
        close(a, b)
    for a, b in zip(joined(dstarts), start_t, strict=True):
        close(a, b.grad)
    for param, parameter in pairs:
        close(to_torch(kind, param.grad), parameter.grad)


def gru_step(x, h, W_x, W_h, b):
    """Document 002, Problem 2, with x and h as rows."""
    W_z, W_r, W = W_x.chunk(3, 1)
    U_z, U_r, U = W_h.chunk(3, 1)
    b_z, b_r, b_h = b.chunk(3)
    z = torch.sigmoid(x @ W_z + h @ U_z + b_z)
    r = torch.sigmoid(x @ W_r + h @ U_r + b_r)
    h_hat = torch.tanh(x @ W + b_h + r * (h @ U))
    return (1 - z) * h + z * h_hat


@pytest.mark.parametrize("lengths", [None, [5, 0, 2, 5]])
def test_gru_is_the_documents_formula(lengths):
    B, S, D, H = 4, 5, 3, 2
    rng = np.random.default_rng(8)
    layer = GRU(D, H, rng=rng, dtype="float64")
    x, start = rng.standard_normal((B, S, D)), rng.standard_normal((1, B, H))
    dy, dfinal = rng.standard_normal((B, S, H)), rng.standard_normal((1, B, H))
    (y, final), cache = layer.forward(x, start, lengths=lengths)
    dx, dstart = layer.backward((dy, dfinal), cache)

    weights, x_t, start_t, outputs = tensors_of(layer), tensor(x), tensor(start), []
    h = start_t[0]
    for t in range(S):
        new = gru_step(x_t[:, t], h, *weights.values())
        alive = torch.ones(B, 1, dtype=torch.bool)
        alive = alive if lengths is None else torch.tensor(lengths)[:, None] > t
        h = torch.where(alive, new, h)
        outputs.append(torch.where(alive, new, 0.0))
    y_t = torch.stack(outputs, 1)
    backward_of((y_t, h[None]), (dy, dfinal))
    for a, b in ((y, y_t), (final, h[None]), (dx, x_t.grad), (dstart, start_t.grad)):
        close(a, b)
    close_gradients(layer, weights)

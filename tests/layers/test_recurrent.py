"""RNN, GRU and LSTM with lengths and in segments, the BiRNN, and attention over past states."""

import numpy as np
import pytest

from npdl.functions import length_mask, reverse
from npdl.layers.recurrent import GRU, LSTM, RNN, GRUCell
from npdl.models.attentive_rnn import AttentiveRNN
from npdl.models.birnn import BiRNN, BiRNNLoss

KINDS = [RNN, GRU, LSTM]
LENGTHS = np.array([2, 4, 0, 4, 1])
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def start_the_numbers_anew():
    RNG.bit_generator.state = np.random.default_rng(3).bit_generator.state


def normal(*shape):
    return RNG.standard_normal(shape)


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def state(kind, *shape):
    return (normal(*shape), normal(*shape)) if kind is LSTM else normal(*shape)


def gradients(layer):
    return {name: param.grad.copy() for name, param in layer.params()}


def assert_close(a, b, limit=1e-12):
    assert np.shape(a) == np.shape(b)
    assert np.abs(np.asarray(a) - np.asarray(b)).max(initial=0) <= limit


def assert_same_gradients(layer, other, limit=1e-12):
    for (name, a), (_, b) in zip(gradients(layer).items(), gradients(other).items(), strict=True):
        assert np.abs(a).max() > 0, name
        assert_close(a, b, limit)


def pick(state, sequence):
    """The state of one sequence, out of parts (L, B, H)."""
    chosen = tuple(part[:, [sequence]] for part in parts(state))
    return chosen if len(chosen) > 1 else chosen[0]


def test_gru_gates_as_document_002_explains_them():
    cell = GRUCell(2, 3, dtype="float64")
    x, h = normal(4, 2), normal(4, 3)
    W_x, W_h = cell.W_x.data, cell.W_h.data
    cell.b.data[:] = np.repeat([-50.0, 0, 0], 3)            # z near 0: the state stays
    assert_close(cell.forward(x, h)[0], h)
    cell.b.data[:] = np.repeat([50.0, -50, 0], 3)           # z near 1, r near 0: only x counts
    assert_close(cell.forward(x, h)[0], np.tanh(x @ W_x[:, 6:]))
    cell.b.data[:] = np.repeat([50.0, 50, 0], 3)            # z and r near 1: a plain RNN
    assert_close(cell.forward(x, h)[0], np.tanh(x @ W_x[:, 6:] + h @ W_h[:, 6:]))


@pytest.mark.parametrize("kind", KINDS)
def test_padded_sequences_are_as_if_each_ran_alone(kind):
    layer = kind(3, 4, num_layers=2, dtype="float64")
    alone = layer.astype("float64")
    x, start = normal(5, 4, 3), state(kind, 2, 5, 4)
    dy, dfinal = normal(5, 4, 4), state(kind, 2, 5, 4)
    x[~length_mask(LENGTHS, 4)] = np.nan                    # padding must not be read
    (y, final), cache = layer.forward(x, start, lengths=LENGTHS)
    dx, dstart = layer.backward((dy, dfinal), cache)
    assert (y[~length_mask(LENGTHS, 4)] == 0).all() and (dx[~length_mask(LENGTHS, 4)] == 0).all()
    for b, n in enumerate(LENGTHS):
        expected_final, expected_dstart = pick(start, b), pick(dfinal, b)
        if n:
            (y_b, expected_final), c = alone.forward(x[[b], :n], pick(start, b))
            dx_b, expected_dstart = alone.backward((dy[[b], :n], pick(dfinal, b)), c)
            assert_close(y[[b], :n], y_b)
            assert_close(dx[[b], :n], dx_b)
        for mine, theirs in ((final, expected_final), (dstart, expected_dstart)):
            for p, q in zip(parts(pick(mine, b)), parts(theirs), strict=True):
                assert_close(p, q)
    assert_same_gradients(layer, alone)


def test_reverse_turns_the_real_steps_only():
    x = np.arange(8).reshape(2, 4, 1)
    assert reverse(x, [3, 1])[..., 0].tolist() == [[2, 1, 0, 3], [4, 5, 6, 7]]
    assert (reverse(reverse(x, [3, 2]), [3, 2]) == x).all()
    assert (reverse(x) == reverse(x, [4, 4])).all()


def test_birnn_loss_does_not_look_at_padding():
    loss = BiRNNLoss(BiRNN(2, dtype="float64"))
    x, z, lengths = normal(3, 4, 2), normal(3, 4, 2), [4, 1, 2]
    L, _ = loss.forward(x, z, lengths=lengths)
    z[~length_mask(lengths, 4)] = np.nan
    x[~length_mask(lengths, 4)] = np.nan
    L_nan, cache = loss.forward(x, z, lengths=lengths)
    assert L_nan == L
    assert all(np.isfinite(d).all() for d in loss.backward(1.0, cache)[:2])
    alone = [loss.forward(x[[b], :n], z[[b], :n])[0] for b, n in enumerate(lengths)]
    assert_close(L, sum(alone))


def test_attentive_rnn_goes_on_where_it_stopped():
    model = AttentiveRNN(3, 4, dtype="float64")
    x = normal(2, 6, 3)
    (y, (h, past)), _ = model.forward(x)
    (y_cut, state), _ = model.forward(x[:, :4])
    (y_rest, (h_cut, past_cut)), _ = model.forward(x[:, 4:], state)
    for a, b in ((np.concatenate([y_cut, y_rest], 1), y), (h_cut, h), (past_cut, past)):
        assert_close(a, b)

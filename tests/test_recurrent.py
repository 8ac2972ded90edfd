"""RNN, GRU and LSTM: cells, lengths, both directions, and what they refuse."""

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.functions import length_mask, reverse
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    GRULayer,
    LSTMCell,
    LSTMLayer,
    RNNCell,
    RNNLayer,
)
from npdl.models.attentive_rnn import AttentiveRNN
from npdl.training.truncated import truncated_bptt
from tests.recurrent_helpers import (  # noqa: F401
    assert_close,
    assert_same_gradients,
    normal,
    parts,
    start_the_numbers_anew,
    state,
)

KINDS = [RNN, GRU, LSTM]
CELLS = [(RNNLayer, RNNCell), (GRULayer, GRUCell), (LSTMLayer, LSTMCell)]
LENGTHS = np.array([2, 4, 0, 4, 1])


def pick(state, sequence):
    """The state of one sequence, out of parts (L, B, H)."""
    chosen = tuple(part[:, [sequence]] for part in parts(state))
    return chosen if len(chosen) > 1 else chosen[0]


@pytest.mark.parametrize(("layer_class", "cell_class"), CELLS)
def test_a_layer_is_its_cell_step_by_step(layer_class, cell_class):
    layer = layer_class(3, 4, dtype="float64")
    x, start = normal(2, 5, 3), state(layer_class, 2, 4)
    (y, final), _ = layer.forward(x, start)
    assert isinstance(layer.cell, cell_class)
    for t in range(5):
        start, _ = layer.cell.forward(x[:, t], start)
        assert_close(y[:, t], parts(start)[0])
    for a, b in zip(parts(final), parts(start), strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_start_uniform_by_fan_in(kind):
    for name, param in kind(60, 40, 2).params():
        bound = 1 / np.sqrt(100 if name.startswith("layers.0") else 80)
        assert 0.8 * bound < np.abs(param.data).max() <= bound * (1 + 1e-6), name


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


@pytest.mark.parametrize("kind", KINDS)
def test_full_lengths_are_no_lengths(kind):
    layer, x = kind(3, 4, num_layers=2), normal(3, 5, 3).astype("float32")
    (y, _), _ = layer.forward(x)
    (y_lengths, _), _ = layer.forward(x, lengths=[5, 5, 5])
    (y_packed, _), _ = layer.forward(np.pad(x, ((0, 0), (0, 1), (0, 0))), lengths=[5, 5, 5])
    assert (y == y_lengths).all()
    assert_close(y, y_packed[:, :5], 1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_both_directions_by_hand(kind, lengths):
    layer = Bidirectional(kind(3, 4, dtype="float64"), kind(3, 2, rng=1, dtype="float64"))
    x = normal(5, 4, 3)
    (y, (final_ahead, final_back)), _ = layer.forward(x, lengths=lengths)
    for b, n in enumerate([4] * 5 if lengths is None else lengths):
        if n:
            (y_ahead, f_ahead), _ = layer.ahead.forward(x[[b], :n])
            (y_back, f_back), _ = layer.back.forward(x[[b], :n][:, ::-1])
            assert_close(y[[b], :n], np.concatenate([y_ahead, y_back[:, ::-1]], -1))
            for mine, theirs in ((final_ahead, f_ahead), (final_back, f_back)):
                for p, q in zip(parts(pick(mine, b)), parts(theirs), strict=True):
                    assert_close(p, q)
        assert (y[b, n:] == 0).all()


def test_reverse_turns_the_real_steps_only():
    x = np.arange(8).reshape(2, 4, 1)
    assert reverse(x, [3, 1])[..., 0].tolist() == [[2, 1, 0, 3], [4, 5, 6, 7]]
    assert (reverse(reverse(x, [3, 2]), [3, 2]) == x).all()
    assert (reverse(x) == reverse(x, [4, 4])).all()


X = np.zeros((2, 3, 4))
WRONG = {
    "a length for each sequence": lambda: RNN(4, 2).forward(X, lengths=[3]),
    "integers": lambda: GRU(4, 2).forward(X, lengths=[1.0, 2.0]),
    "too long": lambda: LSTM(4, 2).forward(X, lengths=[4, 1]),
    "negative": lambda: LSTM(4, 2).forward(X, lengths=[-1, 1]),
    "no steps": lambda: RNN(4, 2).forward(np.zeros((2, 0, 4))),
    "two axes": lambda: RNN(4, 2).forward(np.zeros((2, 4))),
    "width": lambda: GRU(3, 2).forward(X),
    "state shape": lambda: GRU(4, 2).forward(X, np.zeros((1, 3, 2))),
    "one part of two": lambda: LSTM(4, 2).forward(X, np.zeros((1, 2, 2))),
    "a step of the cell": lambda: RNNCell(4, 2).forward(X),
    "no layers": lambda: RNN(4, 2, num_layers=0),
    "no width": lambda: GRUCell(4, 0),
    "directions of two widths": lambda: Bidirectional(RNN(4, 2), RNN(3, 2)),
    "lengths in both directions": lambda: Bidirectional(RNN(4, 2), RNN(4, 2)).forward(
        X, lengths=[1, 5]),
    "segment": lambda: truncated_bptt(RNN(4, 2), X, lambda y, span: y, 0),
    "both directions in segments": lambda: truncated_bptt(
        Bidirectional(RNN(4, 2), RNN(4, 2)), X, lambda y, span: y, 2),
    "score": lambda: AttentiveRNN(4, 2, score="cosine"),
    "query": lambda: AttentiveRNN(4, 2, query="next"),
    "past": lambda: AttentiveRNN(4, 2).forward(X, (np.zeros((2, 2)), np.zeros((2, 1, 3)))),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input_is_named_in_one_line(what):
    with pytest.raises(InputError) as caught:
        WRONG[what]()
    assert "\n" not in str(caught.value) and len(str(caught.value)) > 20

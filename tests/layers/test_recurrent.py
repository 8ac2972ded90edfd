"""Sequences in reverse, and attention over past states."""

import numpy as np

from npdl.functions import reverse
from npdl.models.attentive_rnn import AttentiveRNN


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def assert_close(a, b, limit=1e-12):
    assert np.shape(a) == np.shape(b)
    assert np.abs(np.asarray(a) - np.asarray(b)).max(initial=0) <= limit


def test_reverse_turns_the_valid_steps_only():
    x = np.arange(8).reshape(2, 4, 1)
    assert reverse(x, [3, 1])[..., 0].tolist() == [[2, 1, 0, 3], [4, 5, 6, 7]]
    assert (reverse(reverse(x, [3, 2]), [3, 2]) == x).all()
    assert (reverse(x) == reverse(x, [4, 4])).all()


def test_attentive_rnn_goes_on_where_it_stopped():
    model = AttentiveRNN(3, 4, dtype="float64")
    x = normal(2, 6, 3)
    (y, (h, past)), _ = model.forward(x)
    (from_zero, _), _ = model.forward(x, (np.zeros((2, 4)), np.zeros((2, 0, 4))))
    assert_close(from_zero, y)
    (y_cut, state), _ = model.forward(x[:, :4])
    (y_rest, (h_cut, past_cut)), _ = model.forward(x[:, 4:], state)
    for a, b in ((np.concatenate([y_cut, y_rest], 1), y), (h_cut, h), (past_cut, past)):
        assert_close(a, b)

"""The BiRNN, segments of a sequence, and attention over past states."""

import numpy as np
import pytest

from npdl.functions import length_mask
from npdl.layers.recurrent import GRU, LSTM, RNN
from npdl.models.attentive_rnn import QUERIES, SCORES, AttentiveRNN, attentions
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.lstm_lm import LSTMLM
from npdl.training.truncated import truncated_bptt
from tests.recurrent_helpers import (  # noqa: F401
    RNG,
    assert_close,
    assert_same_gradients,
    gradients,
    normal,
    parts,
    start_the_numbers_anew,
    state,
)

KINDS = [RNN, GRU, LSTM]
LENGTHS = np.array([2, 4, 0, 4, 1])


def test_birnn_gradients_by_the_formulas_of_document_000():
    """Question 3, items 2 and 3, loop by loop for one sequence (rows times matrices)."""
    d, S = 3, 5
    model = BiRNN(d, dtype="float64")
    assert model.count_params() == 6 * d * d
    x, z = normal(1, S, d), normal(1, S, d)
    W_f, U_f = (getattr(model.rnn.ahead.layers[0].cell, name).data.T for name in ("W_x", "W_h"))
    W_b, U_b = (getattr(model.rnn.back.layers[0].cell, name).data.T for name in ("W_x", "W_h"))
    V_f, V_b = model.V_f.W.data.T, model.V_b.W.data.T
    h_f, h_b = np.zeros((S + 2, d)), np.zeros((S + 2, d))   # steps 1..S; 0 and S+1 are the starts
    for t in range(1, S + 1):
        h_f[t] = np.tanh(W_f @ x[0, t - 1] + U_f @ h_f[t - 1])
    for t in range(S, 0, -1):
        h_b[t] = np.tanh(W_b @ x[0, t - 1] + U_b @ h_b[t + 1])
    y = h_f[1:-1] @ V_f.T + h_b[1:-1] @ V_b.T
    loss = ((z[0] - y) ** 2).sum()
    g_f, g_b = np.zeros((S + 2, d)), np.zeros((S + 2, d))
    for t in range(S, 0, -1):
        jacobian = np.diag(1 - h_f[t + 1] ** 2) @ U_f if t < S else np.zeros((d, d))
        g_f[t] = 2 * V_f.T @ (y[t - 1] - z[0, t - 1]) + jacobian.T @ g_f[t + 1]
    for t in range(1, S + 1):
        jacobian = np.diag(1 - h_b[t - 1] ** 2) @ U_b if t > 1 else np.zeros((d, d))
        g_b[t] = 2 * V_b.T @ (y[t - 1] - z[0, t - 1]) + jacobian.T @ g_b[t - 1]
    dW_b = sum(np.outer((1 - h_b[t] ** 2) * g_b[t], x[0, t - 1]) for t in range(1, S + 1))
    dU_f = sum(np.outer((1 - h_f[t] ** 2) * g_f[t], h_f[t - 1]) for t in range(1, S + 1))

    whole = BiRNNLoss(model)
    L, cache = whole.forward(x, z)
    whole.backward(1.0, cache)
    assert_close(L, loss)
    assert_close(model.rnn.back.layers[0].cell.W_x.grad.T, dW_b)
    assert_close(model.rnn.ahead.layers[0].cell.W_h.grad.T, dU_f)


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_one_segment_is_full_backpropagation(kind, lengths):
    whole = kind(3, 4, num_layers=2, dtype="float64")
    cut = whole.astype("float64")
    x, start, z = normal(5, 4, 3), state(kind, 2, 5, 4), normal(5, 4, 4)
    (y, final), cache = whole.forward(x, start, lengths=lengths)
    dx, _ = whole.backward(y - z, cache)
    for segment in (4, 9):
        cut.zero_grad()
        y_cut, final_cut, dx_cut = truncated_bptt(
            cut, x, lambda y, span: y - z[:, span], segment, start, lengths)
        assert_close(y_cut, y)
        assert_close(dx_cut, dx)
        for a, b in zip(parts(final_cut), parts(final), strict=True):
            assert_close(a, b)
        assert_same_gradients(whole, cut)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_segments_keep_the_values_and_cut_the_gradients(lengths):
    layer = GRU(3, 4, dtype="float64")
    x, dy = normal(5, 4, 3), normal(5, 4, 4)
    (y, final), cache = layer.forward(x, lengths=lengths)
    dx, _ = layer.backward(dy, cache)
    full = gradients(layer)
    layer.zero_grad()
    y_cut, final_cut, dx_cut = truncated_bptt(
        layer, x, lambda _, span: dy[:, span], 3, lengths=lengths)
    assert_close(y_cut, y)
    assert_close(final_cut, final)
    assert_close(dx_cut[:, 3:], dx[:, 3:])                  # within the last segment: the same
    assert np.abs(dx_cut[:, :3] - dx[:, :3]).max() > 1e-3   # before it: less is known
    assert max(np.abs(full[name] - grad).max() for name, grad in gradients(layer).items()) > 1e-3


def test_a_language_model_in_segments():
    whole = LSTMLM(5, 3, dtype="float64")
    cut = whole.astype("float64")
    ids, dlogits = RNG.integers(0, 5, (2, 6)), normal(2, 6, 5)
    (wanted, _), cache = whole.forward(ids)
    whole.backward(dlogits, cache)
    logits, _, dx = truncated_bptt(cut, ids, lambda _, span: dlogits[:, span], 6)
    assert dx is None
    assert_close(logits, wanted)
    assert_same_gradients(whole, cut)
    logits, _, _ = truncated_bptt(cut, ids, lambda _, span: dlogits[:, span], 1)
    assert_close(logits, wanted)


def test_a_language_model_does_not_look_at_padding():
    model = LSTMLM(5, 3, d_hidden=4, dtype="float64")
    ids, start, dlogits = RNG.integers(0, 5, (5, 4)), state(LSTM, 2, 5, 4), normal(5, 4, 5)
    dlogits = dlogits * length_mask(LENGTHS, 4)[..., None]
    results = []
    for padding in (1, 2):
        padded = np.where(length_mask(LENGTHS, 4), ids, padding)
        model.zero_grad()
        (_, final), cache = model.forward(padded, start, lengths=LENGTHS)
        model.backward((dlogits, state_of_ones(2, 5, 4)), cache)
        results.append((final, gradients(model)))
    for a, b in zip(*(end for end, _ in results), strict=True):
        assert_close(a, b)
    for name, gradient in results[0][1].items():
        assert_close(results[1][1][name], gradient)
    for b, n in enumerate(LENGTHS):                         # each sequence, cut and alone
        if n:
            (_, alone), _ = model.forward(ids[[b], :n], tuple(part[:, [b]] for part in start))
            for whole, part in zip(final, alone, strict=True):
                assert_close(whole[:, [b]], part)
        else:
            assert_close(final[0][:, b], start[0][:, b])


def state_of_ones(*shape):
    return np.ones(shape), np.ones(shape)


def test_a_language_model_in_segments_with_lengths():
    whole = LSTMLM(5, 3, dtype="float64")
    cut = whole.astype("float64")
    ids, dlogits = RNG.integers(0, 5, (5, 4)), normal(5, 4, 5)
    (wanted, state), cache = whole.forward(ids, lengths=LENGTHS)
    whole.backward(dlogits, cache)
    logits, final, _ = truncated_bptt(cut, ids, lambda _, span: dlogits[:, span], 4,
                                      lengths=LENGTHS)
    assert_close(logits, wanted)
    assert_same_gradients(whole, cut)
    logits, final, _ = truncated_bptt(cut, ids, lambda _, span: dlogits[:, span], 3,
                                      lengths=LENGTHS)
    assert_close(logits, wanted)
    for a, b in zip(final, state, strict=True):
        assert_close(a, b)


def scores_by_hand(model, score, q, keys):
    if score == "additive":
        attention = model.attention
        hidden = np.tanh(q @ attention.W_q.W.data + keys @ attention.W_k.W.data)
        return hidden @ attention.a.data
    return keys @ q / (np.sqrt(len(q)) if score == "scaled-dot" else 1)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("query", QUERIES)
def test_attentive_rnn_by_hand(score, query):
    model = AttentiveRNN(3, 4, score, query, dtype="float64")
    cell, x, h, states = model.cell, normal(1, 5, 3), np.zeros(4), []
    (y, (final, past)), cache = model.forward(x)
    A = attentions(cache)
    for t in range(5):
        s = np.tanh(x[0, t] @ cell.W_x.data + h @ cell.W_h.data + cell.b.data)
        a = np.zeros(4)
        if states:
            e = np.exp(scores_by_hand(model, score, s if query == "preliminary" else h,
                                      np.array(states)))
            a = e / e.sum() @ np.array(states)
            assert_close(A[0, t, :t], e / e.sum())
        assert (A[0, t, t:] == 0).all()
        h = s + a
        states.append(h)
        assert_close(y[0, t], h)
    assert_close(final[0], h)
    assert_close(past[0], np.array(states))


def test_attentive_rnn_goes_on_where_it_stopped():
    model = AttentiveRNN(3, 4, dtype="float64")
    x = normal(2, 6, 3)
    (y, (h, past)), _ = model.forward(x)
    y_cut, (h_cut, past_cut), _ = truncated_bptt(model, x, lambda y, span: y, 4)
    for a, b in ((y_cut, y), (h_cut, h), (past_cut, past)):
        assert_close(a, b)

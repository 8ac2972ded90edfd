"""Bad input to layers and models: one clear line each."""

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, sinusoidal
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm
from npdl.layers.recurrent import LSTM, LSTMCell
from npdl.layers.transformer import Decoder, FeedForward
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM


@pytest.mark.parametrize(("make", "message"), [
    (lambda: Linear(0, 3), "d_in = 0"),
    (lambda: Linear(3, -1), "d_out = -1"),
    (lambda: Linear(3, 2.0), "d_out = 2.0"),
    (lambda: Linear(True, 2), "d_in = True"),
    (lambda: Linear(3, 2).forward(np.zeros((4, 2))), "last axis must be 3"),
    (lambda: Linear(3, 2).forward(np.zeros(())), "last axis must be 3"),
    (lambda: LayerNorm(0), "d_model = 0"),
    (lambda: LayerNorm(4).forward(np.zeros((2, 3))), "last axis must be 4"),
    (lambda: Embedding(5, 0), "d_model = 0"),
    (lambda: Embedding(5, 2, padding_id=5), "padding_id contain 5"),
    (lambda: Embedding(5, 2).forward(np.array([0, 5])), "contain 5; allowed are 0 to 4"),
    (lambda: Embedding(5, 2).forward(np.array([-1])), "contain -1"),
    (lambda: Embedding(5, 2).forward(np.array([1.0])), "must be integers"),
    (lambda: Dropout(1.0), "dropout = 1.0"),
    (lambda: Dropout(-0.1), "dropout = -0.1"),
    (lambda: sinusoidal(3, 4, "k"), "exponent = 'k'"),
    (lambda: SinusoidalPositions(3, 4).forward(np.zeros((1, 4, 4))), "at most 3"),
    (lambda: LearnedPositions(3, 4).forward(np.zeros((2, 4)), np.array([0, 3])), "contain 3"),
    (lambda: MultiHeadAttention(6, 4), "num_heads = 4 does not divide d_model = 6"),
    (lambda: MultiHeadAttention(4, 0), "num_heads = 0"),
    (lambda: FeedForward(4, activation="swish"), "'swish'; choose one of"),
    (lambda: Decoder(1, 4, 2, norm="mid"), "norm = 'mid'"),
    (lambda: Decoder(0, 4, 2), "num_layers = 0"),
    (lambda: LSTM(3, 4, 0), "num_layers = 0"),
    (lambda: LSTM(3, 4, 2).forward(np.zeros((2, 3, 3)), (np.zeros((2, 3, 4)),) * 2), "state"),
    (lambda: LSTMCell(2, 0), "d_hidden = 0"),
    (lambda: GPT(5, 4, num_heads=3), "does not divide"),
    (lambda: GPT(5, 4, positions="rotary"), "positions = 'rotary'"),
    (lambda: GPT(5, 4, max_len=2).forward(np.zeros((1, 3), int)), "max_len = 2"),
    (lambda: GPT(5, 4).forward(np.zeros(3, int)), r"must be \(B, S\)"),
    (lambda: GPT(5, 4).forward(np.array([[7]])), "contain 7"),
    (lambda: LSTMLM(5, 4).forward(np.zeros((0, 3), int)), r"must be \(B, S\)"),
    (lambda: LSTMLM(5, 4).forward(np.array([[5]])), "contain 5"),
])
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(InputError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)

"""A wrong gradient's row says where it is wrong: gate, time step, row, channel."""

import numpy as np

from npdl.backend import stream
from npdl.layers.batch_norm import BatchNorm
from npdl.layers.embedding import Embedding
from npdl.layers.recurrent import LSTM, RNN, GRUCell, LSTMCell, RNNCell
from npdl_study.check.gradcheck import gradcheck

RNG = stream(21)
X = RNG.standard_normal((2, 3, 4))
STATE = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3))


def wrong_rows(report):
    return {row.name: row for row in report.rows if row.error > 1e-7}


class Spoilt:
    """Runs `spoil` on what the cell adds to each parameter, cut into the blocks of its gates."""

    def backward(self, dstate, cache):
        params = self.W_x, self.W_h, self.b
        kept = [param.grad.copy() for param in params]
        returned = super().backward(dstate, cache)
        for param, before in zip(params, kept, strict=True):
            added = param.grad - before
            self.spoil(*np.split(added, self.gates, -1))        # views of it
            param.grad[...] = before + added
        return returned


class SpoiltLSTM(Spoilt, LSTMCell):
    pass


class SpoiltGRU(Spoilt, GRUCell):
    pass


def spoilt(spoil, cls=SpoiltLSTM, state=STATE):
    cell = cls(4, 3)
    cell.spoil = spoil
    return wrong_rows(gradcheck(cell, X[:, 0].repeat(2, 0)[:3], state))


def test_a_gate_is_named():
    def forget(i, f, o, g):
        f *= -1

    rows = spoilt(forget)
    assert rows["b"].kind == rows["W_x"].kind == "sign"
    assert rows["b"].place == "b[3:6], the forget gate"
    assert rows["W_h"].place == "W_h[:, 3:6], the forget gate" and "input x" not in rows


def test_two_gates_and_a_part_of_one_are_named():
    def two(i, f, o, g):
        i *= 2
        o *= 2

    def part(i, f, o, g):
        g[..., 1] = 0

    rows = spoilt(two)
    assert rows["b"].place == "b[0:3 and 6:9], the input and output gates"
    assert (rows["b"].kind, rows["b"].diagnosis) == ("factor", "it is 2 times what it should be")
    assert spoilt(part)["b"].place == "b[10], the candidate gate"
    assert spoilt(part)["b"].kind == "all zero"


def test_swapped_gates_are_named():
    def swap(i, f, o, g):
        kept = i.copy()
        i[...], f[...] = f, kept

    row = spoilt(swap)["W_x"]
    assert row.kind == "swapped gates"
    assert "the input gate has the gradient of the forget gate" in row.diagnosis
    assert row.place == "W_x[:, 0:6], the input and forget gates"


def test_the_grus_gates_have_names_too():
    def reset(z, r, h):
        r *= 0.5

    row = spoilt(reset, SpoiltGRU, STATE[0])["b"]
    assert row.place == "b[3:6], the reset gate" and "1/2 times" in row.diagnosis


def test_time_steps_are_named():
    class ForgetsTheCarry(RNNCell):
        def backward(self, dh, cache):
            dx, dh_prev = super().backward(dh, cache)
            return dx, 0 * dh_prev

    layer = RNN(4, 3)
    layer.layers[0].cell.__class__ = ForgetsTheCarry
    rows = wrong_rows(gradcheck(layer, X, each_output=False))
    assert rows["input x"].place == "input x[:, 0:2, :], time steps 0 to 1 of 0 to 2"
    final = wrong_rows(gradcheck(layer, X, forward=lambda layer, x: first(layer.forward(x))))
    assert final["input x"].kind == "missing carry"

    class WrongAtOnce(LSTM):
        def backward(self, dout, cache):
            dx, dstate = super().backward(dout, cache)
            dx = dx.copy()
            dx[1, 1] *= -1
            return dx, dstate

    row = wrong_rows(gradcheck(WrongAtOnce(4, 3), X))["input x"]
    assert row.place == "input x[1, 1, :], sequence 1 of 0 to 1, time step 1 of 0 to 2"
    assert row.kind == "sign"


def first(result):
    (y, _), cache = result
    return y, cache


def test_rows_of_a_table_and_channels_are_named():
    class LastWins(Embedding):
        def backward(self, dy, cache):
            self.W.grad[cache.ids] += dy

    row = wrong_rows(gradcheck(LastWins(5, 3), np.array([0, 1, 1, 4])))["W"]
    assert row.place == "W[1, :]" and row.diagnosis == "row 1 of the output is left out of it"

    class OneChannel(BatchNorm):
        def backward(self, dy, cache):
            dx = super().backward(dy, cache)
            dx[:, 2] = 0
            return dx

    row = wrong_rows(gradcheck(OneChannel(3), X))["input x"]
    assert row.place == "input x[:, 2, :], channel 2 of 0 to 2" and row.kind == "all zero"

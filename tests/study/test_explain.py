"""A wrong gradient's row says how it is wrong: one seeded mistake of each kind."""

import numpy as np
import pytest

from npdl.backend import stream
from npdl.layers.attention import DotAttention
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTMCell
from npdl_study.check.gradcheck import gradcheck

RNG = stream(21)
X = RNG.standard_normal((2, 3, 4))
STATE = RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3))


class BiasOf(Linear):
    """A Linear whose bias gradient is `rule` of dy, which must be (2, 3, E)."""

    rule = staticmethod(lambda dy: dy.sum((0, 1)))

    def backward(self, dy, cache):
        before = self.b.grad.copy()
        dx = super().backward(dy, cache)
        self.b.grad[...] = before + self.rule(dy)
        return dx


BIASES = {
    "mean for sum": (lambda dy: dy.mean((0, 1)), "factor", "1/6 times", "6 is the number of rows"),
    "twice": (lambda dy: 2 * dy.sum((0, 1)), "factor", "2 times"),
    "an odd factor": (lambda dy: -2.34 * dy.sum((0, 1)), "factor", "-2.34 times"),
    "sign": (lambda dy: -dy.sum((0, 1)), "sign", "the sign is wrong"),
    "not summed over the batch": (lambda dy: dy[0].sum(0), "missing sum",
                                  "not summed over the sequences: only sequence 0 is in it"),
    "not summed over time": (lambda dy: dy[:, -1].sum(0), "missing sum",
                             "not summed over the time steps: only time step 2 is in it"),
    "not summed at all": (lambda dy: dy[1, 0], "missing sum",
                          "only sequence 1, time step 0 is in it"),
    "a step too few": (lambda dy: dy[:, :-1].sum((0, 1)), "missing part", "time step 2"),
    "zero": (lambda dy: 0 * dy[0, 0], "all zero", "nothing arrives"),
    "NaN": (lambda dy: np.nan * dy[0, 0], "not finite", "3 of its entries are NaN"),
    "something else": (lambda dy: (dy**2).sum((0, 1)), "unknown", "a term is missing, or wrong"),
}


@pytest.mark.parametrize("what", BIASES)
def test_a_wrong_bias_is_explained(what):
    rule, kind, *words = BIASES[what]
    layer = BiasOf(4, 3)
    layer.rule = rule
    report = gradcheck(layer, X)
    row = wrong_rows(report)["b"]
    assert list(wrong_rows(report)) == ["b"]
    assert row.kind == kind, str(report)
    assert all(word in row.diagnosis for word in words), row.diagnosis
    assert f"    {row.place}: {row.diagnosis}" in str(report).splitlines()


def wrong_rows(report):
    return {row.name: row for row in report.rows if row.error > 1e-7}


def test_right_gradients_are_not_explained():
    for row in gradcheck(BiasOf(4, 3), X).rows:
        assert (row.place, row.kind, row.diagnosis, row.used) == ("", "", "", "")


def test_overwriting_is_told_from_adding():
    class Overwrites(Linear):
        def backward(self, dy, cache):
            dx = super().backward(dy, cache)
            self.W.grad[...] = cache.rows.T @ dy.reshape(-1, 3)
            return dx

    class InALoop(Overwrites):
        def backward(self, dy, cache):
            dx = super().backward(dy, cache)
            for t in range(dy.shape[1]):
                self.W.grad[...] = cache.rows.reshape(2, 3, 4)[:, t].T @ dy[:, t]
            return dx

    row = wrong_rows(gradcheck(Overwrites(4, 3), X))["W"]
    assert row.kind == "overwritten" and row.diagnosis.endswith("(= for +=)")
    row = wrong_rows(gradcheck(InALoop(4, 3), X))["W"]
    assert row.kind == "overwritten" and row.diagnosis.endswith("only the last of several is left")


def test_a_transposed_gradient_is_told_square_or_not():
    class Turned(Linear):
        def backward(self, dy, cache):
            before = self.W.grad.copy()
            dx = super().backward(dy, cache)
            self.W.grad = before + (self.W.grad - before).T
            return dx

    row = wrong_rows(gradcheck(Turned(4, 4), X))["W"]
    assert (row.kind, row.diagnosis) == ("transposed", "it is transposed")

    class TurnedInput(Linear):
        def backward(self, dy, cache):
            return super().backward(dy, cache).T

    report = gradcheck(TurnedInput(4, 3), X.reshape(6, 4))
    assert "its shape is (4, 6), the array's own (6, 4); it is transposed" in str(report)


def test_the_gradient_of_another_input_is_recognised():
    class Swapped(DotAttention):
        def backward(self, dout, cache):
            dq, dk, dv = super().backward(dout, cache)
            return dk, dq, dv

    row = wrong_rows(gradcheck(Swapped(), X, X[:, ::-1], X))["input q"]
    assert row.kind == "swapped" and row.diagnosis == "it is the gradient of input k"


def test_an_output_whose_gradient_is_dropped_is_named():
    class ForgetsTheCell(LSTMCell):
        def backward(self, dout, cache):
            return super().backward((dout[0], None), cache)

    rows = wrong_rows(gradcheck(ForgetsTheCell(4, 3), X[0], STATE))
    assert rows["input x"].kind == "missing output"
    assert rows["input x"].diagnosis == "what comes from output 1 is left out"
    assert rows["W_h"].used == ""


def test_an_output_that_is_wrong_alone_is_named():
    class WrongAlone(LSTMCell):
        def backward(self, dout, cache):
            dx, dstate = super().backward(dout, cache)
            return (-dx if dout[0] is None else dx), dstate

    report = gradcheck(WrongAlone(4, 3), X[0], STATE)
    row = wrong_rows(report)["input x"]
    assert (row.used, row.kind) == ("1", "sign")
    assert "with output 1 used alone, the sign is wrong" in str(report)


def test_with_few_entries_checked_the_rest_still_holds():
    class Half(LayerNorm):
        def backward(self, dy, cache):
            return super().backward(dy, cache) / 2

    row = wrong_rows(gradcheck(Half(4), X, entries=5))["input x"]
    assert (row.kind, row.diagnosis) == ("factor", "it is 1/2 times what it should be (2 is the "
                                         "number of sequences: a mean and a sum mixed up, perhaps)")

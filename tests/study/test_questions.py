"""What gradcheck asks about: what is not compared is never called right."""

import numpy as np
import pytest

from npdl import Cache, Layer, gradcheck
from tests.study.test_conventions import Attributes, X, normal


class Far(Attributes):
    """Leaves the gradient of b where nobody looks."""

    def backward(self, dout):
        dx = super().backward(dout)
        self.far, self.db = self.db, None
        return dx


class Constant(Attributes):
    """Holds an array that forward reads and that is no parameter."""

    def __init__(self, times=1):
        super().__init__(times)
        self.scale = np.full(3, 2.0)

    def forward(self, x):
        return super().forward(x) * self.scale

    def backward(self, dout):
        return super().backward(dout * self.scale)


class BareArray(Layer):
    """An npdl Layer with a parameter that is no Param."""

    def __init__(self):
        self.w = normal(4)

    def forward(self, x):
        return x * self.w, Cache(x=x)

    def backward(self, dy, cache):
        return dy * self.w


class ReturnsMore(Attributes):
    def backward(self, dout):
        return super().backward(dout), self.dW


@pytest.mark.parametrize(("cls", "text"), [
    (Far, "Far.backward sets no gradient of b"),
    (Constant, r"scale (3,): forward reads it, and no gradient of it was found"),
    (BareArray, "w (4,): forward reads it, and it is no Param"),
    (ReturnsMore, "backward returns an array (4, 3) besides the gradients of the inputs"),
])
def test_what_is_not_compared_is_asked_about_and_not_right(cls, text):
    report = gradcheck(cls(), X)
    assert report.right is None and not report.ok() and text in str(report), report


def test_an_array_that_is_declared_constant_is_not_asked_about():
    layer = Constant()
    layer.scale.setflags(write=False)
    assert gradcheck(layer, X).ok()
    layer = BareArray()
    layer.w.setflags(write=False)
    assert gradcheck(layer, X).ok()


@pytest.mark.parametrize(("name", "values", "right"), [
    ("target", X + 1, True), ("other", np.eye(4)[[0, 3, 1]], True), ("other", X + 1, None)])
def test_targets_need_no_gradient_and_other_inputs_do(name, values, right):
    space = {}
    exec(f"def forward(pred, {name}):\n    d = pred - {name}\n    return (d**2).mean(), d\n", space)
    report = gradcheck((space["forward"], lambda dout, d: dout * 2 * d / d.size), X, values)
    assert report.right is right and f"input {name}: backward return" in str(report)


@pytest.mark.parametrize("gradient", ["dy", "[dy]", "dy[0]", "'no'", "dy.astype(object)"])
def test_whatever_is_in_the_place_of_a_gradient_gets_a_verdict(gradient):
    space = {"Attributes": Attributes}
    exec(f"class Odd(Attributes):\n    def backward(self, dy):\n        dx = super().backward(dy)\n"
         f"        self.db = {gradient}\n        return dx\n", space)
    assert not gradcheck(space["Odd"](), X).ok()


def test_without_a_float_input_or_a_parameter_nothing_is_right():
    report = gradcheck((lambda ids: (np.eye(4)[ids], ids), lambda dout, ids: None),
                       np.array([0, 3]))
    assert report.right is None and not report.rows and not report.faults

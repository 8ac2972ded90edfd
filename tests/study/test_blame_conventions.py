"""What courses and books teach in place of npdl's conventions: how each keeps parameters and
gradients, hands over a cache, returns; what is taken, and what is asked."""

import re

import numpy as np
import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from tests.tools import slow

X = np.random.default_rng(0).normal(size=(5, 4))
AFFINE = '''import numpy as np


class Affine:
    def __init__(self):
        r = np.random.default_rng(1)
        W, b = r.normal(size=(4, 3)), r.normal(size=3)
        INIT

    def forward(self, x):
        self.x = x
        return x @ AT_W + AT_b

    def backward(self, dy):
        dW = self.x.T @ dy
        db = SLIP * dy.sum(0)
        dx = dy @ AT_W.T
        BACK
'''
DICTS = "self.{0} = {{'W': W, 'b': b}}; self.{1} = {{}}"
NAMES = {                       # (constructor, W, b, the end of backward)
    "numpy-ml": (DICTS.format("parameters", "gradients"), "self.parameters['W']",
                 "self.parameters['b']",
                 "self.gradients['W'] = dW; self.gradients['b'] = db; return dx"),
    "joelnet": (DICTS.format("params", "grads"), "self.params['W']", "self.params['b']",
                "self.grads['W'] = dW; self.grads['b'] = db; return dx"),
    "a dict beside": ("self.W, self.b = W, b; self.gradients = {}", "self.W", "self.b",
                      "self.gradients['W'] = dW; self.gradients['b'] = db; return dx"),
    "grad_weights": ("self.weights, self.biases = W, b", "self.weights", "self.biases",
                     "self.grad_weights, self.grad_biases = dW, db; return dx"),
    "weights_grad": ("self.weights, self.bias = W, b", "self.weights", "self.bias",
                     "self.weights_grad, self.bias_grad = dW, db; return dx"),
    "dw": ("self.W, self.b = W, b", "self.W", "self.b", "self.dw, self.db = dW, db; return dx"),
    "delta_w": ("self.w, self.b = W, b", "self.w", "self.b",
                "self.delta_w, self.delta_b = dW, db; return dx"),
    "nnfs": ("self.weights, self.biases = W, b", "self.weights", "self.biases",
             "self.dweights, self.dbiases = dW, db; return dx"),
    "dL_dw": ("self.weights, self.biases = W, b", "self.weights", "self.biases",
              "self.dL_dw, self.d_c_b = dW, db; return dx"),
    "kernel_grad": ("self.kernels, self.bias_terms = W, b", "self.kernels", "self.bias_terms",
                    "self.kernel_grad, self._gradient_bias = dW, db; return dx"),
    "hipsternet": (DICTS.format("model", "grads"), "self.model['W']", "self.model['b']",
                   "self.grads['W'] = dW; self.grads['b'] = db; return dx"),
    "EpyNN": (DICTS.format("p", "g"), "self.p['W']", "self.p['b']",
              "self.g['dW'] = dW; self.g['db'] = db; return dx"),
    "parameters as objects": (
        "One = type('One', (), {}); self.W, self.b = One(), One(); self.W.v, self.b.v = W, b",
        "self.W.v", "self.b.v", "self.W.v_diff, self.b.v_diff = dW, db; return dx"),
    "returned": ("self.W, self.b = W, b", "self.W", "self.b", "return dx, dW, db"),
    "returned in a list": ("self.W, self.b = W, b; self.params = [W, b]", "self.W", "self.b",
                           "return dx, [dW, db]"),
    "returned in a dict": ("self.W, self.b = W, b", "self.W", "self.b",
                           "return dx, {'W': dW, 'b': db}"),
}


def made(text, name, folder):
    path = folder / f"mine_{abs(hash(text))}.py"
    path.write_text(text)
    return build(f"{path}:{name}") if "sample" in text else build(f"{path}:{name}", ["x=5,4"])


def said(text, name, folder):
    layer, inputs, options = made(text, name, folder)
    report, verdict = blame(layer, *inputs, **options), gradcheck(layer, *inputs, **options)
    asked = report.kind == "unchecked"
    assert (None if asked else report.right) is verdict.right
    return report


def affine(names, slip):
    init, W, b, back = NAMES[names]
    return (AFFINE.replace("INIT", init).replace("AT_W", W).replace("AT_b", b)
            .replace("BACK", back).replace("SLIP", slip))


@pytest.mark.parametrize("names", slow.but(list(NAMES)[:1], NAMES))
def test_each_way_to_name_parameters_is_checked(names, tmp_path):
    text = affine(names, "2")
    report = said(text, "Affine", tmp_path)
    assert report.line == 1 + text[: text.index("db = 2")].count("\n"), report
    right = said(affine(names, "1"), "Affine", tmp_path)
    assert right.right and len(right.finals) == 3, right


@pytest.mark.parametrize("back", ["self.W.grad, self.b.grad = self.W, self.b; return dx",
                                  "return dx", "self.far = dW; return dx",
                                  "return dx, dW", "return dx, dW, db, dy"])
def test_what_has_no_place_is_asked_about(back, tmp_path):
    text = affine("returned", "2").replace("return dx, dW, db", back).replace(
        "self.W.grad, self.b.grad = self.W, self.b; ", "")
    report = said(text, "Affine", tmp_path)
    assert report.kind == "unchecked" and not report.right
    assert "forward reads it, and no gradient was found" in str(report), report


def test_what_a_name_means_twice_is_asked_about(tmp_path):
    text = affine("dL_dw", "1").replace("self.weights, self.biases = W, b", (
        "self.weights, self.biases, self.wide = W, b, 0 * W"))
    assert "weights (4, 3): forward reads it" in str(said(text, "Affine", tmp_path))


def test_what_was_not_compared_is_not_promised(tmp_path):
    text = affine("returned", "2").replace("self.W, self.b = W, b", (
        "self.W, self.b, self.c = W, b, np.ones(3)")).replace("+ self.b", "+ self.b + self.c")
    report = said(text, "Affine", tmp_path)
    assert "every gradient that was compared is right" in report.diagnosis, report
    assert "c (3,): forward reads it" in str(report)


def test_what_an_object_holds_is_asked_about(tmp_path):
    text = affine("parameters as objects", "1").replace("v_diff", "v_slope").replace(
        "self.b.v = W, b", "self.b.v, self.W.v_slope = W, b, 0 * W")
    words = " ".join(str(said(text, "Affine", tmp_path)).split())
    assert "is it self.W.v_slope? Call that self.W.dv" in words


def test_a_constant_is_one_when_it_says_so(tmp_path):
    text = affine("returned", "1").replace("self.W, self.b = W, b", (
        "self.W, self.b, self.c = W, b, np.ones(3)")).replace("+ self.b", "+ self.b + self.c")
    assert "c (3,): forward reads it" in str(said(text, "Affine", tmp_path))
    quiet = text.replace("np.ones(3)", "np.ones(3)\n        self.c.setflags(write=False)")
    assert said(quiet, "Affine", tmp_path).right


SUMS = ["self.db = dy", "self.db = [dy]", "self.db = dy[0]", "self.dW = dy", "self.db = 'no'",
        "self.db = None", "self.dW = self.dW.T", "self.db = dy.astype(object)"]


@pytest.mark.slow
@pytest.mark.parametrize("slip", SUMS)
def test_whatever_stands_for_a_gradient_is_a_verdict(slip, tmp_path):
    text = affine("dw", "1").replace("self.dw, self.db = dW, db; return dx", "\n        ".join(
        ["self.dW, self.db = dW, db", slip, "return dx"]))
    report = said(text, "Affine", tmp_path)
    assert not report.right and report.error is None
    if slip in ("self.db = dy", "self.dW = dy"):
        assert report.line == 1 + text[: text.index(slip)].count("\n"), report


FORMS = '''import numpy as np


def two_forward(x, w, b):
    return x * w + b, (x, w)


def two_backward(CALL):
    x, w = cache
    dx, dw, db = dout * w, SLIP (dout * x).sum(0), dout.sum(0)
    RETURN


def two_sample():
    r = np.random.default_rng(0)
    return r.normal(size=(5, 4)), r.normal(size=4), r.normal(size=4)
'''
CONTEXT = '''import numpy as np


class Scale:
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        return dy * w, SLIP (dy * x).sum(0)

    @classmethod
    def sample(cls):
        r = np.random.default_rng(0)
        return r.normal(size=(5, 4)), r.normal(size=4)
'''
UPDATES = '''import numpy as np


class Scale:
    def __init__(self):
        self.w = np.ones(4)

    def forward(self, x):
        self.x = x
        return x * self.w

    def backward(self, grad, lr):
        dx = grad * self.w
        self.w -= lr * SLIP (grad * self.x).sum(0)
        return dx

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(0).normal(size=(5, 4))
'''
REMEMBERS = '''import numpy as np


class Scale:
    def __init__(self):
        self.X, self.parameters, self.gradients = [], {"w": np.ones(4)}, {"w": np.zeros(4)}

    def forward(self, x):
        self.X.append(x)
        return x * self.parameters["w"]

    def backward(self, dy):
        dx = []
        for x in self.X:
            self.gradients["w"] += SLIP (dy * x).sum(0)
            dx.append(dy * self.parameters["w"])
        return dx[0] if len(self.X) == 1 else dx

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(0).normal(size=(5, 4))
'''
LOSS = '''import numpy as np


class MSE:
    def forward(self, x, t):
        self.x, self.t = x, t
        return ((x - t) ** 2).mean()

    def backward(self):
        return SLIP 2 * (self.x - self.t) / self.x.size

    @classmethod
    def sample(cls):
        r = np.random.default_rng(0)
        return cls(), (r.normal(size=(5, 4)), r.normal(size=(5, 4)))
'''
SQUARES = '''import numpy as np


def squares_forward(y, target):
    return ((y - target) ** 2).mean(), (y, target)


def squares_backward(CALL):
    READ
    return SLIP 2 * (y - target) / y.size


def squares_sample():
    r = np.random.default_rng(0)
    return r.normal(size=(3, 4)), r.normal(size=(3, 4))
'''
AHEAD = '''import numpy as np


class MSE:
    def forward(self, y, target):
        error = y - target
        self.dy = SLIP 2 * error
        self.dy /= y.size
        return (error ** 2).mean()

    def backward(self, dout=1):
        return self.dy

    @classmethod
    def sample(cls):
        r = np.random.default_rng(0)
        return cls(), r.normal(size=(3, 4)), r.normal(size=(3, 4))
'''
WAYS = [(FORMS.replace("CALL", call).replace("RETURN", back), "two") for call, back in [
    ("dout, cache", "return [dx, dw, db]"), ("dout, cache", "return dx, [dw, db]"),
    ("cache, dout", "return dx, dw, db"), ("dout, cache", "return {'x': dx, 'dw': dw, 'b': db}"),
    ("dout, cache", "return dx, (dw, db)")]]


WAYS += [(SQUARES.replace("CALL", call).replace("READ", read), "squares") for call, read in [
    ("cache", "y, target = cache"), ("y, target, cache", "y, target = cache")]]
WAYS += [(AHEAD, "MSE"), (CONTEXT, "Scale"), (UPDATES, "Scale"), (REMEMBERS, "Scale"),
         (LOSS, "MSE"), (re.sub(r"\bx\b", "self", WAYS[0][0]), "two")]


@pytest.mark.parametrize(("text", "name"), slow.but([WAYS[0], WAYS[-6]], WAYS, tuple))
def test_each_convention_is_taken(text, name, tmp_path):
    right = said(text.replace("SLIP ", ""), name, tmp_path)
    assert right.right, right
    wrong = said(text.replace("SLIP ", "2 * "), name, tmp_path)
    assert wrong.line == 1 + text[: text.index("SLIP")].count("\n"), wrong


def test_a_shape_of_ones_is_told_with_what_to_write(tmp_path):
    text = FORMS.replace("CALL", "dout, cache").replace(
        "SLIP (dout * x).sum(0)", "(dout * x).sum(0, keepdims=True)").replace(
        "RETURN", "return dx, dw, db")
    report = said(text, "two", tmp_path)
    assert "its numbers are right: write .reshape(4,) after it" in str(report)


@pytest.mark.parametrize(("names", "values", "right"), [
    ("pred, target", "r.normal(size=(3, 4)), r.normal(size=(3, 4))", True),
    ("pred, onto", "r.normal(size=(3, 4)), np.eye(4)[[0, 3, 1]]", True),
    ("pred, other", "r.normal(size=(3, 4)), r.normal(size=(3, 4))", None)])
def test_inputs_without_a_gradient_are_no_accusation(names, values, right, tmp_path):
    other = names.split(", ")[1]
    text = f"""import numpy as np
r = np.random.default_rng(0)


def loss_forward({names}):
    return ((pred - {other}) ** 2).mean(), pred - {other}


def loss_backward(dout, d):
    return dout * 2 * d / d.size


def loss_sample():
    return {values}
"""
    report = said(text, "loss", tmp_path)
    assert report.right is bool(right) and (report.kind == "unchecked") is (right is None)
    assert f"input {other}: backward return" in str(report)
    assert (report.line == 10) is (right is None)

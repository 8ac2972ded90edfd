"""What can be checked: parameters anywhere in a layer, caches in self, functions, random layers."""

import numpy as np
import pytest

from npdl import AdamW, BiRNN, Cache, Layer, Linear, Param, gradcheck
from npdl.errors import InputError
from npdl_study.check.samples import every_sample, layer_classes, sample
from npdl_study.check.subjects import subject_of

X = np.random.default_rng(0).standard_normal((3, 4))


class Nested(Layer):
    """y = tanh(x V) W, with V and W in a list, or in a dict; the gradients `times` too large."""

    def __init__(self, times=1, as_dict=False):
        V, W = Param(np.eye(4)), Param(np.eye(4))
        self.p, self.times = {"V": V, "rest": (W,)} if as_dict else [V, W], times

    def pair(self):
        return (self.p["V"], self.p["rest"][0]) if isinstance(self.p, dict) else self.p

    def forward(self, x):
        V, W = self.pair()
        h = np.tanh(x @ V.data)
        return h @ W.data, Cache(x=x, h=h)

    def backward(self, dy, cache):
        V, W = self.pair()
        W.grad += self.times * cache.h.T @ dy
        dz = dy @ W.data.T * (1 - cache.h**2)
        V.grad += self.times * cache.x.T @ dz
        return dz @ V.data.T


class ByName(Layer):
    """Linear layers in a dict, which may hold lists."""

    def __init__(self, times=1):
        self.parts, self.times = {"up": Linear(4, 3), "down": [Linear(3, 2)]}, times

    def forward(self, x):
        h, up = self.parts["up"].forward(x)
        y, down = self.parts["down"][0].forward(h)
        return y, (up, down)

    def backward(self, dy, cache):
        up, down = cache
        dh = self.parts["down"][0].backward(self.times * dy, down)
        return self.parts["up"].backward(dh, up) / self.times


@pytest.mark.parametrize(("make", "names"), [
    (lambda times: Nested(times), ["p.0", "p.1"]),
    (lambda times: Nested(times, as_dict=True), ["p.V", "p.rest.0"]),
    (ByName, ["parts.up.W", "parts.up.b", "parts.down.0.W", "parts.down.0.b"]),
])
def test_parameters_in_lists_tuples_and_dicts_are_parameters(make, names):
    layer = make(1)
    assert [name for name, _ in layer.params()] == names == list(layer.state_dict())
    assert list(AdamW(layer).params) == names
    twin = layer.astype("float32")
    assert {p.data.dtype.name for _, p in twin.params()} == {"float32"}
    assert not {id(p) for _, p in twin.params()} & {id(p) for _, p in layer.params()}
    assert gradcheck(layer, X).right
    assert {row.name for row in gradcheck(make(7), X).wrong} == set(names)


def test_an_optimizer_without_a_parameter_is_an_error():
    with pytest.raises(InputError, match="Layer has no parameter to learn"):
        AdamW(Layer())


class Lists:
    def __init__(self, times=1):
        self.params, self.times = [np.eye(4), np.zeros(4)], times
        self.grads = [np.zeros_like(p) for p in self.params]

    def forward(self, x):
        self.x = x
        return x @ self.params[0] + self.params[1]

    def backward(self, dout):
        self.grads[0][...] = self.times * self.x.T @ dout
        self.grads[1][...] = dout.sum(0)
        return dout @ self.params[0].T


class Dicts(Lists):
    def __init__(self, times=1):
        self.params, self.times = {"W1": np.eye(4), "b1": np.zeros(4)}, times

    def forward(self, x):
        self.x = x
        return x @ self.params["W1"] + self.params["b1"]

    def backward(self, dout):
        self.grads = {"W1": self.times * self.x.T @ dout, "b1": dout.sum(0)}
        return dout @ self.params["W1"].T


class Returned(Dicts):
    def backward(self, dout):
        dx = super().backward(dout)
        grads = self.__dict__.pop("grads")
        return dx, grads


class Rebinds(Lists):
    """Puts a gradient of another shape into its list."""

    def backward(self, dout):
        dx = super().backward(dout)
        self.grads[0] = np.zeros(2)
        return dx


def test_a_gradient_of_another_shape_is_a_verdict_and_each_run_begins_anew():
    layer = subject_of(Rebinds(), (X,)).layer
    for _ in range(2):
        out, cache = layer.forward(X)
        layer.backward(np.ones_like(out), cache)
        assert layer.made.grads[0].shape == (4, 4) and cache.made.grads[0].shape == (2,)
    wrong, = gradcheck(Rebinds(), X).wrong
    assert wrong.name == "params[0]" and wrong.reason.startswith("its shape is (2,)")


@pytest.mark.parametrize("state, right, said", [
    (lambda dx, dstate: dx, False, "its shape is (3, 2, 4)"), (lambda dx, dstate: None, None, "no"),
    (lambda dx, dstate: (dstate[0], 1), False, ""),
    (lambda dx, dstate: np.stack(dstate), True, "")])
def test_the_gradient_of_a_state_has_its_form(state, right, said):
    """A state that one output alone does not read is missed no less."""
    class Mine(BiRNN):
        def backward(self, dout, cache):
            dx, dstate = super().backward(dout, cache)
            return dx, state(dx, dstate)

    start = tuple(np.random.default_rng(i).standard_normal((1, 3, 3)) for i in range(2))
    x = np.random.default_rng(2).standard_normal((3, 2, 4))
    report = gradcheck(Mine(4, 3), x, start)
    assert report.right is right and all(said in row.reason for row in report.rows[-2:])


class Beside:
    def __init__(self, times=1):
        self.W, self.b, self.times = np.eye(4), np.zeros(4), times

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout):
        self.dW = self.times * self.x.T @ dout
        self.db = dout.sum(0)
        return dout @ self.W.T


class Net:
    def __init__(self, times=1):
        self.layers = [Beside(), Beside(times)]

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dout):
        for layer in self.layers[::-1]:
            dout = layer.backward(dout)
        return dout


class InLayer(Layer):
    def __init__(self, times=1):
        self.W, self.times = Param(np.eye(4)), times

    def forward(self, x):
        self.x = x
        return x @ self.W.data

    def backward(self, dy):
        self.W.grad += self.times * self.x.T @ dy
        return dy @ self.W.data.T


@pytest.mark.parametrize(("cls", "name"), [
    (Lists, "params[0]"), (Dicts, "W1"), (Returned, "W1"), (Beside, "W"), (Net, "layers.1.W"),
    (InLayer, "W")], ids=lambda value: getattr(value, "__name__", value))
def test_caches_in_self_and_their_parameters(cls, name):
    right = cls()
    assert gradcheck(right, X).right
    assert [row.name for row in gradcheck(cls(3), X).wrong] == [name]


def test_gradients_that_can_not_be_found_are_asked_about():
    class Nowhere(Dicts):
        def backward(self, dout):
            return dout @ self.params["W1"].T

    report = gradcheck(Nowhere(), X)
    assert report.right is None and not report.ok() and len(report.questions) == 2
    assert "Nowhere.backward leaves no gradient of W1" in str(report)


def affine_forward(x, w, b):
    return x @ w + b, (x, w)


def affine_backward(dout, cache):
    x, w = cache
    return dout @ w.T, x.T @ dout, dout.sum(0)


def test_two_functions():
    inputs = X, np.ones((4, 2)), np.ones(2)
    assert gradcheck((affine_forward, affine_backward), *inputs).right
    wrong = gradcheck((affine_forward, lambda d, c: (*affine_backward(d, c)[:2], 2 * d.sum(0))),
                      *inputs)
    assert [row.name for row in wrong.wrong] == ["input b"]


def test_inputs_have_the_names_that_forward_has_for_them():
    cell, inputs, options = sample(layer_classes()["LSTMCell"])
    assert [name for name in subject_of(cell, inputs, options).arrays if name.startswith("in")] \
        == ["input x", "input state.0", "input state.1"]


class Takes(Layer):
    def forward(self, x, seed, forward=1.0, prepared=2.0):
        return x * seed * forward * prepared, Cache(times=seed * forward * prepared)

    def backward(self, dy, cache):
        return dy * cache.times


def test_a_forward_may_have_arguments_of_any_name():
    assert gradcheck(Takes(), X, seed=3, forward=2.0, prepared=5.0).right


GENERATOR = np.random.default_rng(3)


class Drops(Layer):
    """Half of its input, drawn anew at each forward."""

    def __init__(self, draw):
        self.draw, self.rng = draw, np.random.default_rng(4)

    def forward(self, x, rng=None):
        draw = {"own": self.rng.random, "global": np.random.random_sample,
                "named": GENERATOR.random, "given": getattr(rng, "random", None)}[self.draw]
        mask = draw(x.shape) < 0.5
        return x * mask, Cache(mask=mask)

    def backward(self, dy, cache):
        return dy * cache.mask


@pytest.mark.parametrize("draw", ["own", "global", "named", "given"])
def test_random_layers_draw_the_same_at_every_run_and_generators_stay(draw):
    layer, rng = Drops(draw), np.random.default_rng(5)
    state = GENERATOR.bit_generator.state, layer.rng.bit_generator.state, np.random.random()
    np.random.seed(7)
    wanted = np.random.random()
    np.random.seed(7)
    assert gradcheck(layer, X, rng=rng).right
    assert np.random.random() == wanted
    assert state[:2] == (GENERATOR.bit_generator.state, layer.rng.bit_generator.state)


def two_axes_only():
    """Backwards that are right for two axes, and for no more."""
    classes = layer_classes()

    class Rows(classes["Linear"]):
        def backward(self, dy, cache):
            self.W.grad += cache.rows.T @ dy
            self.b.grad += dy.sum(0)
            return dy @ self.W.data.T

    class Sums(classes["LayerNorm"]):
        def backward(self, dy, cache):
            self.gain.grad += (dy * cache.x_hat).sum(0)
            self.bias.grad += dy.sum(0)
            d, hat = dy * self.gain.data, cache.x_hat
            along = (d * hat).mean(1, keepdims=True)
            return (d - d.mean(1, keepdims=True) - hat * along) / cache.std

    class Axis(classes["Softmax"]):
        def backward(self, dy, cache):
            return cache.y * (dy - (dy * cache.y).sum(1, keepdims=True))

    class Turned(classes["DotAttention"]):
        def backward(self, dout, cache):
            dq, dk, dv = super().backward(dout, cache)
            dA = dout @ cache.v.swapaxes(-1, -2)
            dS = cache.A * (dA - (dA * cache.A).sum(-1, keepdims=True))
            return dq, dS.T @ cache.q, dv

    return [Rows, Sums, Axis, Turned]


@pytest.mark.parametrize("cls", two_axes_only(), ids=lambda cls: cls.__name__)
def test_a_backward_for_two_axes_only_is_caught_by_the_second_sample(cls):
    layer, inputs, options = sample(cls)
    other, more, others = every_sample(cls)["another"](np.random.default_rng(0))
    assert not gradcheck(layer, *inputs, **options).wrong
    try:
        assert gradcheck(other, *more, **others).right is False
    except ValueError:
        pass                                            # it raises there, which no one can miss


def test_an_axis_more_is_a_fault_where_it_is_promised_and_else_a_note():
    class Promises(Lists):
        """x W + b over the last axis: (..., D) -> (..., E)."""

    said = "with an axis more, (2, 3, 4), "
    assert said in gradcheck(Promises(), X).faults[0]
    report = gradcheck(Lists(), X)
    assert report.ok() and report.notes[0].startswith(said + "which forward takes, backward raises")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_every_sample_has_a_second_of_other_sizes_which_is_right_too(part):
    for name, cls in list(layer_classes().items())[part::3]:
        _, first, _ = sample(cls)
        layer, second, options = every_sample(cls)["another"](np.random.default_rng(0))
        pairs = [(a.shape, b.shape) for a, b in zip(first, second, strict=True)
                 if hasattr(a, "shape")]
        assert all(m != n for a, b in pairs for m, n in zip(a[::-1], b[::-1], strict=False)
                   if (m, n) != (2, 2) or name != "XOR"), (name, pairs)
        assert not gradcheck(layer, *second, entries=3, **options).wrong, name


def test_a_sample_may_be_a_layer_and_its_inputs_side_by_side():
    class Mine(Linear):
        @classmethod
        def sample(cls):
            return cls(4, 3), X

    class Two(layer_classes()["SquaredError"]):
        @classmethod
        def sample(cls):
            return cls(), X, X + 1, {}

    assert len(sample(Mine)[1]) == 1 and len(sample(Two)[1]) == 2

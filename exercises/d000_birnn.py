"""Document 000, Question 3: the bidirectional RNN, its recursions, Jacobians and gradients."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, proved, run_script
from exercises.shown import below
from npdl.errors import InputError
from npdl.models.birnn import BiRNN, BiRNNLoss

QUESTION = """\
A bidirectional RNN, all matrices d x d:
  f_t = tanh(W_f x_t + U_f f_(t-1)),   b_t = tanh(W_b x_t + U_b b_(t+1)),
  y_t = V_f f_t + V_b b_t,             L = sum_t L_t,  L_t = |z_t - y_t|^2
3.1   Draw its graph for 3 steps, with the initial states.
3.2   The gradients of L in f_t and b_t follow recursions. (a) Give the gradients of L_t, and the
      Jacobians df_(t+1)/df_t and db_(t-1)/db_t entry by entry, (b) as matrices.
3.3   Give the gradients of L in W_b and U_f."""
GROUND = "The document gives no numbers; T = 3, d = 4 and random matrices are used here."
TITLES = {
    "3.1": "The graph of a bidirectional RNN",
    "3.2": "Its gradients through time, and the Jacobians",
    "3.3": "Its gradients in the weights W_b and U_f",
}

WEIGHTS = ("W_f", "U_f", "V_f", "W_b", "U_b", "V_b")


@dataclass
class Network:
    """The six (d, d) matrices, inputs x and targets z (T, d), and both initial states (d,)."""

    weights: dict
    x: np.ndarray
    z: np.ndarray
    f_first: np.ndarray                                     # f_0
    b_last: np.ndarray                                      # b_(T+1)
    nudge: dict = field(default_factory=dict)               # {("f" or "b", t): added to f_t, b_t}

    def __post_init__(self):
        T, d = self.x.shape if self.x.ndim == 2 else (0, 0)
        shapes = [self.weights[name].shape for name in WEIGHTS]
        if (T < 1 or self.z.shape != (T, d) or self.f_first.shape != (d,)
                or self.b_last.shape != (d,) or shapes != [(d, d)] * 6):
            raise InputError(f"x {self.x.shape}, z {self.z.shape} and matrices {shapes} do not "
                             "fit; they must be (T, d), (T, d) and (d, d), the states (d,)")


def example(T=3, d=4, seed=0, scale=0.6):
    """A random Network with states that are not zero."""
    rng = np.random.default_rng(seed)
    weights = {name: scale * rng.standard_normal((d, d)) for name in WEIGHTS}
    x, z = rng.standard_normal((2, T, d))
    f_first, b_last = 0.5 * rng.standard_normal((2, d))
    return Network(weights, x, z, f_first, b_last)


def forward(net):
    """f (T + 1, d) from f_0 on, {t: b_t} for t = 1 to T + 1, y (T, d), and L."""
    W, T = net.weights, len(net.x)
    nothing = np.zeros_like(net.f_first)
    f, b = [net.f_first], {T + 1: net.b_last}
    for t in range(1, T + 1):
        new = np.tanh(W["W_f"] @ net.x[t - 1] + W["U_f"] @ f[-1])
        f.append(new + net.nudge.get(("f", t), nothing))
    for t in range(T, 0, -1):
        new = np.tanh(W["W_b"] @ net.x[t - 1] + W["U_b"] @ b[t + 1])
        b[t] = new + net.nudge.get(("b", t), nothing)
    y = np.array([W["V_f"] @ f[t] + W["V_b"] @ b[t] for t in range(1, T + 1)])
    return np.array(f), b, y, ((net.z - y) ** 2).sum()


def jacobian(weights, direction, after):
    """d f_(t+1) / d f_t (direction "f", after = f_(t+1)) or d b_(t-1) / d b_t ("b"): (d, d)."""
    return np.diag(1 - after * after) @ weights["U_" + direction]


def document_gradients(net):
    """The document's formulas: local and total gradients of each state, and of W_b and U_f.

    Returns {("local" or "total", "f" or "b", t): (d,), "W_b": (d, d), "U_f": (d, d)}.
    """
    W, T = net.weights, len(net.x)
    f, b, y, _ = forward(net)
    g = {}
    for t in range(1, T + 1):
        g["local", "f", t] = 2 * W["V_f"].T @ (y[t - 1] - net.z[t - 1])
        g["local", "b", t] = 2 * W["V_b"].T @ (y[t - 1] - net.z[t - 1])
    for t in range(T, 0, -1):
        g["total", "f", t] = g["local", "f", t]
        if t < T:
            g["total", "f", t] = g["local", "f", t] + (
                jacobian(W, "f", f[t + 1]).T @ g["total", "f", t + 1])
    for t in range(1, T + 1):
        g["total", "b", t] = g["local", "b", t]
        if t > 1:
            g["total", "b", t] = g["local", "b", t] + (
                jacobian(W, "b", b[t - 1]).T @ g["total", "b", t - 1])
    steps = range(1, T + 1)
    g["W_b"] = sum(np.outer((1 - b[t] ** 2) * g["total", "b", t], net.x[t - 1]) for t in steps)
    g["U_f"] = sum(np.outer((1 - f[t] ** 2) * g["total", "f", t], f[t - 1]) for t in steps)
    return g


def library_gradients(net):
    """{name: gradient} of all six matrices by npdl's BiRNN, transposed to the document's order."""
    T, d = net.x.shape
    model = BiRNNLoss(BiRNN(d, dtype="float64"))
    rnn = model.model.rnn
    params = {
        "W_f": rnn.ahead.layers[0].cell.W_x, "U_f": rnn.ahead.layers[0].cell.W_h,
        "W_b": rnn.back.layers[0].cell.W_x, "U_b": rnn.back.layers[0].cell.W_h,
        "V_f": model.model.V_f.W, "V_b": model.model.V_b.W,
    }
    for name, param in params.items():
        param.data[...] = net.weights[name].T               # rows times matrices in npdl
    states = (net.f_first[None, None], net.b_last[None, None])
    L, cache = model.forward(net.x[None], net.z[None], states)
    model.backward(1.0, cache)
    return {name: param.grad.T for name, param in params.items()}, float(L)


def difference(function, array, step=1e-4):
    """Fourth-order central differences of function(array) along each entry of `array`.

    The result has the shape of the function's value, then that of `array`.
    """
    slopes = []
    for index in np.ndindex(array.shape):
        def at(distance, index=index):
            moved = array.copy()
            moved[index] += distance
            return np.asarray(function(moved))

        rise, rise2 = at(step) - at(-step), at(2 * step) - at(-2 * step)
        slopes.append((8 * rise - rise2) / (12 * step))
    slopes = np.stack(slopes, -1)
    return slopes.reshape(*slopes.shape[:-1], *array.shape)


def weight_slopes(net, name):
    """The gradient of L in one matrix by differences."""
    def loss(matrix):
        return forward(replace(net, weights=net.weights | {name: matrix}))[3]

    return difference(loss, net.weights[name])


def state_slopes(net, direction, t, value=3):
    """Slopes of forward's `value` (3: L, 2: y) when f_t or b_t is moved."""
    def moved(nudge):
        return forward(replace(net, nudge={(direction, t): nudge}))[value]

    return difference(moved, np.zeros_like(net.f_first))


def edges(T=3):
    """The graph: [(from, to, weight)], nodes being (kind, t) with kinds x, f, b, y."""
    if T < 1:
        raise InputError(f"T = {T}; the graph needs at least one step")
    found = []
    for t in range(1, T + 1):
        found += [(("x", t), ("f", t), "W_f"), (("f", t - 1), ("f", t), "U_f"),
                  (("x", t), ("b", t), "W_b"), (("b", t + 1), ("b", t), "U_b"),
                  (("f", t), ("y", t), "V_f"), (("b", t), ("y", t), "V_b")]
    return found


def relative(error_of, truth):
    """The largest difference, relative to the largest entry of `truth`."""
    return float(np.abs(np.asarray(error_of) - truth).max() / np.abs(truth).max())


def claims():
    from exercises.birnn_claims import all_claims

    return [*all_claims(), tanh_claim()]


def tanh_claim():
    z = np.linspace(-5, 5, 101)
    error = float(np.abs(np.diag(difference(np.tanh, z)) - (1 - np.tanh(z) ** 2)).max())
    return Claim("000", "Q3", "2a", "The derivative of tanh(z) is 1 - tanh^2(z).", "1 - tanh^2(z)",
                 "1 - tanh^2(z)", proved(error < 1e-9), f"differences on [-5, 5]: {below(error)}")


def figures(folder):
    from exercises.birnn_picture import draw_graph

    return [draw_graph(Path(folder) / "d000_birnn_graph.png")]


if __name__ == "__main__":
    sys.exit(run_script(globals()))

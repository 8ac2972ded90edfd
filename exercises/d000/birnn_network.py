"""Document 000, Question 3: a bidirectional RNN, by formulas, by npdl and by differences."""

from dataclasses import dataclass, field, replace

import numpy as np

from exercises.probes import difference
from exercises.worked import sub
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl_study.deviation import deviation

EQUATIONS = """\
A bidirectional RNN, all matrices d x d:
  h_t^(f) = tanh(W^(f) x_t + U^(f) h_(t-1)^(f)),   h_t^(b) = tanh(W^(b) x_t + U^(b) h_(t+1)^(b)),
  y_t = V^(f) h_t^(f) + V^(b) h_t^(b),             L = sum_t L_t,  L_t = |z_t - y_t|^2
"""
NO_NUMBERS = """\
The document gives no numbers; T = 3, d = 4 and random matrices are used here. Short for h_t^(f) and
W^(f) the claims say f_t and W_f, and so for (b)."""
SIDE = {"f": "⁽ᶠ⁾", "b": "⁽ᵇ⁾"}
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


LIMIT = 1e-8


def sound(net):
    """Whether what we compare by is right: npdl's BiRNN, which is written apart, agrees, as do
    the entries of a Jacobian, and the differences of a sine."""
    library, L = library_gradients(net)
    f, b, _, ours = forward(net)
    by_states = sum(np.outer((1 - b[t] ** 2) * state_slopes(net, "b", t), x)
                    for t, x in enumerate(net.x, 1))
    errors = [abs(L - ours) / L, np.abs(f[0] - net.f_first).max(),
              deviation(library["W_b"], by_states), deviation(difference(np.sin, b[1]),
                                                            np.diag(np.cos(b[1]))),
              *(deviation(jacobian(net.weights, side, b[1]),
                         (1 - b[1] ** 2)[:, None] * net.weights["U_" + side]) for side in "fb"),
              *(deviation(library[name], weight_slopes(net, name)) for name in WEIGHTS)]
    return bool(max(errors) < LIMIT)


EXAMPLE = ("T = 2 steps of width d = 2, with matrices of halves and wholes; h₀⁽ᶠ⁾ and h₃⁽ᵇ⁾ are "
           "not zero.")
LIMIT = 1e-8


def small():
    """The example: T = 2, d = 2."""
    matrices = ([[1, 0], [0.5, 1]], [[0.5, -1], [0, 0.5]], [[1, 0.5], [0, 1]],
                [[0, 1], [1, 0]], [[0.5, 0], [1, -0.5]], [[1, 0], [-1, 1]])
    weights = {name: np.array(matrix, float) for name, matrix in zip(WEIGHTS, matrices,
                                                                     strict=True)}
    return Network(weights, np.array([[1, 0], [0.5, -0.5]]), np.array([[1.0, 0], [0, 1]]),
                   np.array([0.5, 0]), np.array([0, -0.5]))


def given(net):
    """The example's matrices and vectors by name."""
    T = len(net.x)
    return {name[0] + SIDE[name[-1]]: W for name, W in net.weights.items()} | {
        f"x{sub(t)}": x for t, x in enumerate(net.x, 1)} | {
        f"z{sub(t)}": z for t, z in enumerate(net.z, 1)} | {
        state("f", 0): net.f_first, state("b", T + 1): net.b_last}


def state(side, t):
    """ "h₁⁽ᶠ⁾"."""
    return f"h{sub(t)}{SIDE[side]}"

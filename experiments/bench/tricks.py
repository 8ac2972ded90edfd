"""Ways to arrange the same arithmetic in NumPy, each beside the plain way, at the document's sizes.

Every pair is checked to give the same numbers before it is timed, so the factors are about
arrangement only. One BLAS thread, one Python thread, freed memory kept. Not every pair is one
that npdl uses: some were tried and bring too little, and the table shows that too.
"""

import math
import statistics
import time

import numpy as np

from npdl.functions import normal_cdf

B, S, D, V = 480, 6, 128, 36
ROWS, FFN, HEADS = B * S, 4 * D, 4
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def cube():
    """A cube: x * x * x instead of x**3."""
    x = normal(ROWS, FFN)
    return lambda: x**3, lambda: x * x * x


def erf():
    """Exact GELU: a fitted tanh, instead of the standard library's erf number by number."""
    x = normal(ROWS // 8, FFN)

    def plain():
        return np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.ravel().tolist()],
                        x.dtype).reshape(x.shape)

    return plain, lambda: normal_cdf(x)


def row_sums():
    """Sums over the width as a product with a vector of ones, instead of sum(axis=-1)."""
    x, ones = normal(ROWS, D), np.ones(D, np.float32)
    return lambda: x.sum(-1), lambda: x @ ones


def embedding_gradient():
    """The gradient of the embedding as a one-hot product, instead of np.add.at."""
    dy, ids = normal(ROWS, D), RANDOM.integers(0, V, ROWS)

    def scatter():
        dW = np.zeros((V, D), np.float32)
        np.add.at(dW, ids, dy)
        return dW

    return scatter, lambda: (ids[:, None] == np.arange(V)).astype(np.float32).T @ dy


def gates_in_one():
    """The LSTM's four gates from one product, instead of one for each."""
    z, W = normal(B, 2 * D), normal(2 * D, 4 * D)
    parts = [W[:, k * D:(k + 1) * D].copy() for k in range(4)]
    return lambda: np.concatenate([z @ part for part in parts], axis=1), lambda: z @ W


def inputs_hoisted():
    """The LSTM's input products of all time steps at once, before the loop."""
    x, W = normal(S, B, D), normal(D, 4 * D)
    return (lambda: np.stack([x[t] @ W for t in range(S)]),
            lambda: (x.reshape(S * B, D) @ W).reshape(S, B, 4 * D))


def weight_gradients_hoisted():
    """The LSTM's weight gradients of all time steps at once, after the loop."""
    h, dz = normal(S, B, D), normal(S, B, 4 * D)

    def in_loop():
        dW = np.zeros((D, 4 * D), np.float32)
        for t in range(S):
            dW += h[t].T @ dz[t]
        return dW

    return in_loop, lambda: h.reshape(S * B, D).T @ dz.reshape(S * B, 4 * D)


def sigmoid_by_tanh():
    """The logistic function by tanh, in place, instead of 1 / (1 + exp(-x))."""
    x = normal(B, 3 * D)
    y = np.empty_like(x)

    def by_tanh():
        np.multiply(x, 0.5, out=y)
        np.tanh(y, out=y)
        np.multiply(y, 0.5, out=y)
        return np.add(y, 0.5, out=y)

    return lambda: 1 / (1 + np.exp(-x)), by_tanh


def attention_products():
    """Attention scores by np.matmul over heads, instead of np.einsum."""
    q, k = normal(B, HEADS, S, D // HEADS), normal(B, HEADS, S, D // HEADS)
    return (lambda: np.einsum("bhqd,bhkd->bhqk", q, k), lambda: q @ k.swapaxes(-1, -2))


def flat_adamw():
    """AdamW over one flat memory in blocks, instead of parameter by parameter on fresh arrays."""
    sizes = [V * D] + [D * D, D] * 8 + [D * FFN] * 4 + [D] * 8 + [D * V, V]
    g = normal(sum(sizes))
    ends = np.cumsum(sizes)

    def update(theta, g, m, v):
        theta = theta * (1 - 1e-3)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        return theta - 1e-3 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8), m, v

    def update_in_place(theta, g, m, v):
        theta *= 1 - 1e-3
        m *= 0.9
        m += 0.1 * g
        v *= 0.999
        v += 0.001 * (g * g)
        root = np.sqrt(v)
        root *= 1 / math.sqrt(0.001)
        root += 1e-8
        theta -= np.divide(m, root, out=root) * (1e-3 / 0.1)

    state = np.zeros((3, len(g)), np.float32)

    def one_by_one():
        done = [update(state[0, e - n:e], g[e - n:e], state[1, e - n:e], state[2, e - n:e])[0]
                for n, e in zip(sizes, ends, strict=True)]
        return np.concatenate([theta.ravel() for theta in done])

    flat = state.copy()

    def in_blocks():
        flat[...] = 0  # so that both do the same first step, every time
        for start in range(0, len(g), 65536):
            part = slice(start, start + 65536)
            update_in_place(flat[0, part], g[part], flat[1, part], flat[2, part])
        return flat[0]

    return one_by_one, in_blocks


# (trick, how many such calls in one step of the document's GPT, of its LSTM)
TRICKS = ((cube, 0, 0), (erf, 16, 0), (row_sums, 16, 0),
          (embedding_gradient, 1, 1), (gates_in_one, 0, 12), (inputs_hoisted, 0, 2),
          (weight_gradients_hoisted, 0, 4), (sigmoid_by_tanh, 0, 12),
          (attention_products, 12, 0), (flat_adamw, 1, 1))


def time_pair(plain, arranged, seconds=0.3):
    """Median milliseconds of both, called in turn for about `seconds`, at least 3 times each."""
    times = [[], []]
    deadline = time.perf_counter() + seconds
    while len(times[0]) < 3 or time.perf_counter() < deadline:
        for way, measured in zip((plain, arranged), times, strict=True):
            began = time.perf_counter()
            way()
            measured.append(1000 * (time.perf_counter() - began))
    return [statistics.median(measured) for measured in times]


def measure(seconds=0.3):
    """[{trick, plain_ms, arranged_ms, gpt_calls, lstm_calls}]; fails if a pair disagrees."""
    rows = []
    for trick, gpt_calls, lstm_calls in TRICKS:
        plain, arranged = trick()
        np.testing.assert_allclose(arranged(), plain(), 1e-3, 1e-3, err_msg=trick.__name__)
        slow, fast = time_pair(plain, arranged, seconds)
        rows.append({"trick": " ".join(trick.__doc__.split()), "plain_ms": slow,
                     "arranged_ms": fast, "gpt_calls": gpt_calls, "lstm_calls": lstm_calls})
    return rows

"""Document 004, Problems 2.2 and 2.5: splitting a width into heads, and attention with them."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, below, num, vec
from npdl.layers.attention import MultiHeadAttention, causal_mask

QUESTION = """\
split_heads turns (B, S, m d) into (B, m, S, d), merge_heads turns it back. The document gives the
index: y[i, j, k, l] = x[i, k, num_heads * j + 1], which may be meant as num_heads * j + l. Is
either a split that can be undone, and is the attention that follows what the formulas say?"""

# Column of x that y[.., j, .., l] reads, from (m, d, j, l) with m heads of width d.
INDEXINGS = {
    "num_heads * j + 1": lambda m, d, j, i: m * j + 1,
    "num_heads * j + l": lambda m, d, j, i: m * j + i,
    "head_size * j + l": lambda m, d, j, i: d * j + i,
    "num_heads * l + j": lambda m, d, j, i: m * i + j,
}

TITLES = {"2.2": "Splitting and merging heads", "2.4": "Applying the attention weights",
          "2.5": "Multi-head attention from end to end"}

claim = partial(Claim, "004")


def columns(indexing, num_heads, head_size):
    """The table (m, d) of the columns of x that go to head j, place l."""
    rule = INDEXINGS[indexing]
    return np.array([[rule(num_heads, head_size, j, place) for place in range(head_size)]
                     for j in range(num_heads)])


def can_be_undone(indexing, num_heads, head_size):
    """Whether every column of x is used exactly once."""
    used = columns(indexing, num_heads, head_size).ravel()
    return sorted(used.tolist()) == list(range(num_heads * head_size))


def census(indexing, largest=6):
    """(pairs that can be undone, all pairs) over num_heads and head_size up to `largest`."""
    pairs = [(m, d) for m in range(1, largest + 1) for d in range(1, largest + 1)]
    return [pair for pair in pairs if can_be_undone(indexing, *pair)], pairs


def coverage(indexing, num_heads, head_size):
    """How many different columns are read, and how many reads fall outside the width."""
    used = columns(indexing, num_heads, head_size)
    inside = used[used < num_heads * head_size]
    return len(np.unique(inside)), used.size - inside.size


def attention_by_loops(layer, Q, K, V, scale_width=None):
    """The printed formulas, one head and one sequence at a time: (B, S, m d), no mask.

    Scores are divided by the square root of `scale_width`: the width d of a key if None.
    """
    def project(x, linear):
        return x @ linear.W.data + linear.b.data

    q, k, v = project(Q, layer.W_Q), project(K, layer.W_K), project(V, layer.W_V)
    d = q.shape[-1] // layer.num_heads
    h = np.empty(q.shape)
    for b, i in np.ndindex(len(Q), layer.num_heads):
        part = slice(i * d, (i + 1) * d)
        scores = q[b, :, part] @ k[b, :, part].T / math.sqrt(scale_width or d)
        A = np.exp(scores)
        h[b, :, part] = A / A.sum(1, keepdims=True) @ v[b, :, part]
    return project(h, layer.W_O)


def claims():
    return [index_claim(), inverse_claim(), *attention_claims()]


def index_claim():
    good, pairs = census("num_heads * j + 1")
    other, _ = census("num_heads * j + l")
    square = all(m == d or m == 1 for m, d in other)
    used, _ = coverage("num_heads * j + 1", 4, 32)
    used_other, _ = coverage("num_heads * j + l", 4, 32)
    _, beyond = coverage("num_heads * j + l", 4, 2)
    return claim(
        "Problem 2.2", "index", "Head j, place l of the split reads column num_heads * j + 1 of x "
        "(or num_heads * j + l, if the 1 is a misread l).", "num_heads * j + 1",
        "head_size * j + l",
        judge(len(good) == len(pairs) or len(other) == len(pairs),
              provided=len(census("head_size * j + l")[0]) == len(pairs)),
        f"with 4 heads of 32 it reads {used} of 128 columns; with l for 1 it reads {used_other}, "
        f"and with 4 heads of 2 {beyond} places outside the width: of {len(pairs)} sizes up to 6 x "
        f"6 {len(good)} can be undone with 1, {len(other)} with l"
        + (" (only num_heads = head_size or one head)" if square else ""))


def inverse_claim():
    x = np.random.default_rng(0).standard_normal((2, 5, 12))
    layer = MultiHeadAttention(12, 3)
    y = layer.split(x)
    table = columns("head_size * j + l", 3, 4)
    by_index = all(y[i, j, k, place] == x[i, k, table[j, place]]
                   for i, j, k, place in np.ndindex(y.shape))
    good, pairs = census("head_size * j + l")
    other, _ = census("num_heads * l + j")
    return claim(
        "Problem 2.2", "inverse", "split_heads and merge_heads are exactly inverse to each other, "
        "(B, S, m d) to (B, m, S, d) and back.", "exactly inverse",
        f"with column head_size * j + l, npdl's: {x.shape} to {y.shape} and back, equal",
        proved(len(good) == len(pairs) and by_index and np.array_equal(layer.join(y), x)),
        f"all {y.size} entries by their index; {len(good)} of {len(pairs)} sizes are bijections "
        f"(so is num_heads * l + j, interleaved: {len(other)})")


def attention_claims(B=2, S=5, m=3, d=4):
    rng, d_model = np.random.default_rng(1), m * d
    layer = MultiHeadAttention(d_model, m, rng=2, dtype="float64")
    Q, K, V = rng.standard_normal((3, B, S, d_model))
    y, cache = layer.forward(Q, K, V)
    A = cache.attend.A
    error = float(abs(y - attention_by_loops(layer, Q, K, V)).max())
    total = float(abs(y - attention_by_loops(layer, Q, K, V, d_model)).max())
    v = layer.split(layer.W_V.forward(V)[0])
    heads = A @ v
    joined = layer.join(heads)
    whole = float(abs(layer.W_O.forward(joined)[0] - y).max())
    yield claim("Problem 2.5", "formula",
                "Attention is concat(h_1 .. h_m) W_O + b_O with h_i = softmax(q_i k_i^T / "
                "sqrt(d)) v_i.", "the formula",
                f"npdl's layer and a loop over heads agree: {below(error)}", proved(error < 1e-9),
                f"B = {B}, S = {S}, {m} heads of {d}, biases on, no mask")
    yield claim("Problem 2.5", "scale", "Scores are divided by the square root of d.",
                "d is the width of one key here, the whole width in Problems 2.7 and 2.10",
                f"the width of one key: npdl's layer agrees ({below(error)})",
                judge(total < 1e-9, if_false="under-specified"),
                f"with the whole width, {d_model}, scores would be sqrt(m) = {math.sqrt(m):.3f} "
                f"times smaller and outputs off by up to {total:.3f} in an example (data of seed "
                "1, weights of 2); one letter stands for both")
    yield claim("Problem 2.4", "shapes",
                "The h_i, concatenated, have the shape of the input and go into W_O.",
                "concat(h_1 .. h_m)",
                f"heads {heads.shape}, concatenated {joined.shape}; times W_O plus b_O they are "
                f"the output: {below(whole)}",
                judge(joined.shape == Q.shape, provided=whole < 1e-9), "same data")


X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])      # three tokens, two heads of width 1
SCALE = math.log(2)                                     # W_Q = ln 2 · I, so that e^score = 2^(..)


def split(m=2, d=3):
    """2.2."""
    row = 10 * np.arange(1, m * d + 1)
    layer = MultiHeadAttention(m * d, m)
    y = layer.split(row[None, None].astype("float32"))
    right = columns("head_size * j + l", m, d)
    rows = [(j, place, f"{d}·{j} + {place} = {right[j, place]}", int(row[right[j, place]]),
             *(str(int(columns(name, m, d)[j, place]))
               for name in ("num_heads * j + 1", "num_heads * j + l")))
            for j in range(m) for place in range(d)]
    used = [sorted(set(columns(name, m, d).ravel().tolist()))
            for name in ("num_heads * j + 1", "num_heads * j + l")]
    work = Solution("2.2", f"m = {m} heads of width d = {d}, one token.")
    work.step("The row of one token holds the heads one after the other: d numbers of head 0, "
              "then d of head 1. Cut it there, then move the head's axis before the sequence.",
              "(B, S, m d) → (B, S, m, d) → (B, m, S, d)",
              f"{vec(row)}  →  head 0: {vec(row[:d])},   head 1: {vec(row[d:])}")
    work.step("So head j, place l reads column d j + l. With num_heads in place of head_size "
              "columns are read twice and others never.", "y[i, j, k, l] = x[i, k, d j + l]",
              table=Table(("j", "l", "d j + l", "y", "column m j + 1", "column m j + l"),
                          tuple(rows)))
    work.step("Merging goes the same way back: move the axis, then join.",
              "(B, m, S, d) → (B, S, m, d) → (B, S, m d)",
              f"{vec(row[:d])}, {vec(row[d:])}  →  {vec(row)}")
    work.answer = ("y[i, j, k, l] = x[i, k, head_size · j + l]; num_heads · j + 1 would read only "
                   f"columns {vec(used[0])}, num_heads · j + l only {vec(used[1])}.")
    work.check("npdl's split_heads gives the table's y, and merge_heads the row again",
               y[0, :, 0].ravel().tolist() == [r[3] for r in rows]
               and layer.join(y)[0, 0].tolist() == row.tolist())
    return work


def weights_of(column):
    """Causal attention weights (S, S) of one head of width 1 whose q is ln 2 times k."""
    S = len(column)
    A = np.zeros((S, S))
    for t in range(S):
        powers = [2.0 ** (column[t] * column[j]) for j in range(t + 1)]
        A[t, :t + 1] = np.array(powers) / sum(powers)
    return A


def heads_of(V):
    """[(A, h)] of both heads, V (S, 2)."""
    return [(A := weights_of(X[:, j]), A @ V[:, j:j + 1]) for j in range(2)]


def apply_heads():
    """2.4."""
    V = X * [1.0, 10.0]
    (A_1, h_1), (A_2, h_2) = heads_of(V)
    joined = np.concatenate([h_1, h_2], 1)
    work = Solution("2.4", "S = 3 tokens, two heads of width 1, causal; q = ln 2 · x, k = x.")
    work.step("Each head has its own weights, a row for each token; nothing above the diagonal.",
              "Aᵢ = softmax(qᵢ kᵢᵀ/√d)", arrays={"A₁": A_1, "A₂": A_2})
    work.step("Each head weighs its own values.", "hᵢ = Aᵢ vᵢ",
              arrays={"v₁": V[:, 0], "h₁": h_1, "v₂": V[:, 1], "h₂": h_2})
    work.step("Side by side they have the shape of the input again.", "concat(h₁, h₂)   (S, m d)",
              arrays={"h": joined})
    work.answer = f"hᵢ = Aᵢ vᵢ, then concatenated: the last token's row is {vec(joined[-1])}."
    work.check("npdl's layer with W_V = diag(1, 10) and W_O = I gives the same",
               np.allclose(_by_npdl(np.diag([1.0, 10.0]), np.eye(2))[0], joined))
    return work


def whole():
    """2.5."""
    W_O, b_O = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([0.0, 1.0])
    (A_1, h_1), (A_2, h_2) = heads_of(X)
    joined = np.concatenate([h_1, h_2], 1)
    y = joined @ W_O + b_O
    scores = np.tril(np.outer(X[:, 0], X[:, 0])) * SCALE
    own, A = _by_npdl(np.eye(2), W_O, b_O)
    work = Solution("2.5", "S = 3 tokens, m = 2 heads of width d = 1, causal.")
    work.step("Three affine maps of the input; the first column of each belongs to head 1, the "
              "second to head 2.", "[q₁, q₂] = X W_Q + b_Q, and so for k and v",
              f"W_Q = {num(SCALE)} · I (that is ln 2), W_K = W_V = I, biases 0",
              {"X": X, "X W_Q": SCALE * X})
    work.step("Head 1: scores, with the future masked. √d = √1.", "s = q₁ k₁ᵀ/√d",
              "e^s = 2 where both are 1, else 1", {"s₁, lower half": scores, "A₁": A_1, "h₁": h_1})
    work.step("Head 2 in the same way.", arrays={"A₂": A_2, "h₂": h_2})
    work.step("Join the heads, and mix them with the output map.", "Y = concat(h₁, h₂) W_O + b_O",
              arrays={"concat": joined, "W_O": W_O, "b_O": b_O, "Y": y})
    work.step("One row to follow by hand, the third token.",
              numbers=f"concat row 3 = {vec(joined[2])}:  Y₃ = ({num(joined[2, 0])}, "
                      f"{num(joined[2, 0])} + 2 · {num(joined[2, 1])} + 1) = {vec(y[2])}")
    work.answer = ("Project, split, attend in each head, join, project: token 3 becomes "
                   f"{vec(y[2])}.")
    work.check("npdl's MultiHeadAttention with these weights gives Y and both A",
               np.allclose(own, y) and np.allclose(A, [A_1, A_2]))
    return work


def _by_npdl(W_V, W_O, b_O=0.0):
    """(output (S, 2), weights (2, S, S)) of npdl's layer with W_Q = ln 2 · I and W_K = I."""
    layer = MultiHeadAttention(2, 2, dtype="float64")
    values = {"W_Q.W": SCALE * np.eye(2), "W_K.W": np.eye(2), "W_V.W": W_V, "W_O.W": W_O,
              "W_O.b": b_O}
    for name, param in layer.params():
        param.data[...] = values.get(name, 0.0)
    y, cache = layer.forward(X[None], X[None], X[None], causal_mask(3))
    A = cache.attend.A
    return y[0], A[0]


def solutions():
    return [split(), apply_heads(), whole()]

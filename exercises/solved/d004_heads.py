"""Document 004, Problems 2.2, 2.4 and 2.5, worked: splitting a row, and attention of two heads."""

import math

import numpy as np

from exercises.d004_heads import columns
from exercises.worked import Check, Solution, Step, Table, num, vec
from npdl.layers.attention import MultiHeadAttention, causal_mask

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
    return Solution(
        "2.2",
        (
            Step("The row of one token holds the heads one after the other: d numbers of head 0, "
                 "then d of head 1. Cut it there, then move the head's axis before the sequence.",
                 "(B, S, m d) → (B, S, m, d) → (B, m, S, d)",
                 f"{vec(row)}  →  head 0: {vec(row[:d])},   head 1: {vec(row[d:])}"),
            Step("So head j, place l reads column d j + l. With num_heads in place of head_size "
                 "columns are read twice and others never.", "y[i, j, k, l] = x[i, k, d j + l]",
                 table=Table(("j", "l", "d j + l", "y", "column m j + 1", "column m j + l"),
                             tuple(rows))),
            Step("Merging goes the same way back: move the axis, then join.",
                 "(B, m, S, d) → (B, S, m, d) → (B, S, m d)",
                 f"{vec(row[:d])}, {vec(row[d:])}  →  {vec(row)}"),
        ),
        f"y[i, j, k, l] = x[i, k, head_size · j + l]; num_heads · j + 1 would read only columns "
        f"{vec(used[0])}, num_heads · j + l only {vec(used[1])}.",
        (Check("npdl's split_heads gives the table's y, and merge_heads the row again",
               y[0, :, 0].ravel().tolist() == [r[3] for r in rows]
               and layer.join(y)[0, 0].tolist() == row.tolist()),),
        f"m = {m} heads of width d = {d}, one token.",
        picture="the columns that each head reads, under three readings of the index")


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
    return Solution(
        "2.4",
        (
            Step("Each head has its own weights, a row for each token; nothing above the diagonal.",
                 "Aᵢ = softmax(qᵢ kᵢᵀ/√d)", arrays={"A₁": A_1, "A₂": A_2}),
            Step("Each head weighs its own values.", "hᵢ = Aᵢ vᵢ",
                 arrays={"v₁": V[:, 0], "h₁": h_1, "v₂": V[:, 1], "h₂": h_2}),
            Step("Side by side they have the shape of the input again.",
                 "concat(h₁, h₂)   (S, m d)", arrays={"h": joined}),
        ),
        f"hᵢ = Aᵢ vᵢ, then concatenated: the last token's row is {vec(joined[-1])}.",
        (Check("npdl's layer with W_V = diag(1, 10) and W_O = I gives the same",
               np.allclose(_by_npdl(np.diag([1.0, 10.0]), np.eye(2))[0], joined)),),
        "S = 3 tokens, two heads of width 1, causal; q = ln 2 · x, k = x.")


def whole():
    """2.5."""
    W_O, b_O = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([0.0, 1.0])
    (A_1, h_1), (A_2, h_2) = heads_of(X)
    joined = np.concatenate([h_1, h_2], 1)
    y = joined @ W_O + b_O
    scores = np.tril(np.outer(X[:, 0], X[:, 0])) * SCALE
    own, A = _by_npdl(np.eye(2), W_O, b_O)
    return Solution(
        "2.5",
        (
            Step("Three affine maps of the input; the first column of each belongs to head 1, the "
                 "second to head 2.", "[q₁, q₂] = X W_Q + b_Q, and so for k and v",
                 f"W_Q = {num(SCALE)} · I (that is ln 2), W_K = W_V = I, biases 0",
                 {"X": X, "X W_Q": SCALE * X}),
            Step("Head 1: scores, with the future masked. √d = √1.", "s = q₁ k₁ᵀ/√d",
                 "e^s = 2 where both are 1, else 1", {"s₁, lower half": scores, "A₁": A_1,
                                                      "h₁": h_1}),
            Step("Head 2 in the same way.", arrays={"A₂": A_2, "h₂": h_2}),
            Step("Join the heads, and mix them with the output map.",
                 "Y = concat(h₁, h₂) W_O + b_O",
                 arrays={"concat": joined, "W_O": W_O, "b_O": b_O, "Y": y}),
            Step("One row to follow by hand, the third token.",
                 numbers=f"concat row 3 = {vec(joined[2])}:  Y₃ = ({num(joined[2, 0])}, "
                 f"{num(joined[2, 0])} + 2 · {num(joined[2, 1])} + 1) = {vec(y[2])}"),
        ),
        f"Project, split, attend in each head, join, project: token 3 becomes {vec(y[2])}.",
        (Check("npdl's MultiHeadAttention with these weights gives Y and both A",
               np.allclose(own, y) and np.allclose(A, [A_1, A_2])),),
        "S = 3 tokens, m = 2 heads of width d = 1, causal.")


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

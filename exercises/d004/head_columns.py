"""Document 004, Problems 2.2, 2.4 and 2.5: splitting a width into heads, and attention with them.

split_heads turns (B, S, m d) into (B, m, S, d). The document gives the index
y[i, j, k, l] = x[i, k, num_heads * j + 1], which may be meant as num_heads * j + l.
"""

import math

import numpy as np

from exercises.course import arrays, judge, question, table, vec
from npdl.layers.attention import MultiHeadAttention, causal_mask

# column of x that head j, place l reads, of m heads of width d
INDEXINGS = {
    "num_heads * j + 1": lambda m, d, j, place: m * j + 1 + 0 * place,
    "num_heads * j + l": lambda m, d, j, place: m * j + place,
    "head_size * j + l": lambda m, d, j, place: d * j + place,
    "num_heads * l + j": lambda m, d, j, place: m * place + j,
}
SIZES = [(m, d) for m in range(1, 7) for d in range(1, 7)]
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])      # three tokens, two heads of width 1
LN2 = math.log(2)                                       # W_Q = ln 2 · I, so that e^score = 2^(..)


def columns(indexing, m, d):
    """Return the columns of x that go to each head and place, (m, d)."""
    return INDEXINGS[indexing](m, d, *np.indices((m, d)))


def census(indexing):
    """Return the sizes up to 6 x 6 of which every column is used exactly once."""
    return [(m, d) for m, d in SIZES
            if np.array_equal(np.sort(columns(indexing, m, d), None), np.arange(m * d))]


def head(column, root=1.0):
    """Return the causal attention weights of a head whose q is ln 2 times k, scores over `root`."""
    powers = np.tril(2.0 ** (np.outer(column, column) / root))
    return powers / powers.sum(1, keepdims=True)


def library(W_V, W_O, b_O=0.0):
    """Return output and weights of npdl's layer with W_Q = ln 2 · I and W_K = I."""
    layer = MultiHeadAttention(2, 2, dtype="float64")
    values = {"W_Q.W": LN2 * np.eye(2), "W_K.W": np.eye(2), "W_V.W": W_V, "W_O.W": W_O,
              "W_O.b": b_O}
    for name, param in layer.params():
        param.data[...] = values.get(name, 0.0)
    y, cache = layer.forward(X[None], X[None], X[None], causal_mask(3))
    return y[0], cache.attend.A[0]


@question("004.2.2", "Splitting and merging heads")
def split(say, step, answer, check, claim, m=2, d=3):
    """Write split_heads and merge_heads by their indices."""
    row = 10 * np.arange(1, m * d + 1)
    layer = MultiHeadAttention(m * d, m)
    y = layer.split(row[None, None].astype("float32"))
    one, other, right = (columns(name, m, d) for name in list(INDEXINGS)[:3])
    say(f"m = {m} heads of width d = {d}, one token.")
    step("The row of one token holds the heads one after the other: d numbers of head 0, "
         "then d of head 1. Cut it there, then move the head's axis before the sequence.",
         "(B, S, m d) → (B, S, m, d) → (B, m, S, d)",
         f"{vec(row)}  →  head 0: {vec(row[:d])},   head 1: {vec(row[d:])}")
    step("So head j, place l reads column d j + l. With num_heads in place of head_size "
         "columns are read twice and others never.", "y[i, j, k, l] = x[i, k, d j + l]",
         table(("j", "l", "d j + l", "y", "column m j + 1", "column m j + l"), [
             (j, place, f"{d}·{j} + {place} = {column}", row[column],
              str(one[j, place]), str(other[j, place]))
             for (j, place), column in np.ndenumerate(right)]))
    step("Merging goes the same way back: move the axis, then join.",
         "(B, m, S, d) → (B, S, m, d) → (B, S, m d)",
         f"{vec(row[:d])}, {vec(row[d:])}  →  {vec(row)}")
    answer("y[i, j, k, l] = x[i, k, head_size · j + l]; num_heads · j + 1 would read only "
           f"columns {vec(np.unique(one))}, num_heads · j + l only {vec(np.unique(other))}.")
    say("In npdl: MultiHeadAttention.split in npdl/layers/attention.py.")
    check("npdl's split_heads gives the table's y, and merge_heads the row again",
          np.array_equal(y[0, :, 0], row[right]) and np.array_equal(layer.join(y)[0, 0], row))
    one, other, right = (census(name) for name in list(INDEXINGS)[:3])
    used, used_other = (len(np.unique(columns(name, 4, 32))) for name in list(INDEXINGS)[:2])
    beyond = (columns("num_heads * j + l", 4, 2) >= 8).sum()
    check("with num_heads * j + l only num_heads = head_size or one head can be undone",
          all(m == d or m == 1 for m, d in other))
    claim("index", "Head j, place l of the split reads column num_heads * j + 1 of x (or num_heads "
          "* j + l, if the 1 is a misread l).", "num_heads * j + 1", "head_size * j + l",
          judge(len(one) == len(SIZES) or len(other) == len(SIZES)),
          f"with 4 heads of 32 it reads {used} of 128 columns; with l for 1 it reads {used_other}, "
          f"and with 4 heads of 2 {beyond} places outside the width: of {len(SIZES)} sizes up to 6 "
          f"x 6 {len(one)} can be undone with 1, {len(other)} with l")
    claim("inverse", "split_heads and merge_heads are exactly inverse to each other, (B, S, m d) "
          "to (B, m, S, d) and back.", "exactly inverse",
          f"with column head_size * j + l, npdl's: {(1, 1, m * d)} to {y.shape} and back, equal",
          judge(right == SIZES),
          f"{len(right)} of {len(SIZES)} sizes are bijections (so is num_heads * l + j, "
          f"interleaved: {len(census('num_heads * l + j'))})")


@question("004.2.4", "Applying the attention weights")
def apply_heads(say, step, answer, check, claim):
    """Apply the attention weights of each head to its values, and join the heads."""
    V, A_1, A_2 = X * [1.0, 10.0], head(X[:, 0]), head(X[:, 1])
    h_1, h_2 = A_1 @ V[:, 0], A_2 @ V[:, 1]
    joined = np.stack([h_1, h_2], 1)
    say("S = 3 tokens, two heads of width 1, causal; q = ln 2 · x, k = x.")
    step("Each head has its own weights, a row for each token; nothing above the diagonal.",
         "Aᵢ = softmax(qᵢ kᵢᵀ/√d)", arrays({"A₁": A_1, "A₂": A_2}))
    step("Each head weighs its own values.", "hᵢ = Aᵢ vᵢ",
         arrays({"v₁": V[:, 0], "h₁": h_1, "v₂": V[:, 1], "h₂": h_2}))
    step("Side by side they have the shape of the input again.", "concat(h₁, h₂)   (S, m d)",
         arrays({"h": joined}))
    answer(f"hᵢ = Aᵢ vᵢ, then concatenated: the last token's row is {vec(joined[-1])}.")
    say("In npdl: attend in npdl/layers/attention.py.")
    check("npdl's layer with W_V = diag(1, 10) and W_O = I gives the same",
          np.allclose(library(np.diag([1.0, 10.0]), np.eye(2))[0], joined))
    claim("shapes", "The h_i, concatenated, have the shape of the input and go into W_O.",
          "concat(h_1 .. h_m)", f"two heads {h_1.shape}, concatenated {joined.shape}",
          judge(joined.shape == X.shape), f"an input {X.shape}, 2 heads of width 1")


@question("004.2.5", "Multi-head attention from end to end")
def whole(say, step, answer, check, claim):
    """Compute attention with several heads from the input to the output."""
    W_O, b_O = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([0.0, 1.0])
    A_1, A_2 = head(X[:, 0]), head(X[:, 1])
    h_1, h_2 = A_1 @ X[:, 0], A_2 @ X[:, 1]
    joined = np.stack([h_1, h_2], 1)
    y = joined @ W_O + b_O
    a, b = joined[2]
    say("S = 3 tokens, m = 2 heads of width d = 1, causal.")
    step("Three affine maps of the input; the first column of each belongs to head 1, the "
         "second to head 2.", "[q₁, q₂] = X W_Q + b_Q, and so for k and v",
         f"W_Q = {LN2:.3f} · I (that is ln 2), W_K = W_V = I, biases 0",
         arrays({"X": X, "X W_Q": LN2 * X}))
    step("Head 1: scores, with the future masked. √d = √1.", "s = q₁ k₁ᵀ/√d",
         "e^s = 2 where both are 1, else 1",
         arrays({"s₁, lower half": np.tril(np.outer(X[:, 0], X[:, 0])) * LN2, "A₁": A_1,
                 "h₁": h_1}))
    step("Head 2 in the same way.", arrays({"A₂": A_2, "h₂": h_2}))
    step("Join the heads, and mix them with the output map.", "Y = concat(h₁, h₂) W_O + b_O",
         arrays({"concat": joined, "W_O": W_O, "b_O": b_O, "Y": y}))
    step("One row to follow by hand, the third token.",
         f"concat row 3 = {vec(joined[2])}:  Y₃ = ({a:.3f}, {a:.3f} + 2 · {b:.3f} + 1) = "
         f"{vec(y[2])}")
    answer(f"Project, split, attend in each head, join, project: token 3 becomes {vec(y[2])}.")
    say("In npdl: MultiHeadAttention.forward in npdl/layers/attention.py.")
    own, A = library(np.eye(2), W_O, b_O)
    right = np.allclose(own, y) and np.allclose(A, [A_1, A_2])
    check("npdl's MultiHeadAttention with these weights gives Y and both A", right)
    wide = np.stack([head(X[:, j], 2**0.5) @ X[:, j] for j in (0, 1)], 1) @ W_O + b_O
    off = abs(wide - y).max()
    claim("formula", "Attention is concat(h_1 .. h_m) W_O + b_O with h_i = softmax(q_i k_i^T / "
          "sqrt(d)) v_i.", "the formula", "npdl's layer and the heads one by one agree",
          judge(right), "the example, 2 heads of width 1, causal")
    claim("scale", "Scores are divided by the square root of d.",
          "d is the width of one key here, the whole width in Problems 2.7 and 2.10",
          "the width of one key: npdl's layer agrees",
          judge(off < 1e-9, if_false="under-specified"),
          f"with the whole width, 2, the outputs would be off by up to {off:.3f}; one letter "
          "stands for both")

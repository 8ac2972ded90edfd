"""Document 002, Problem 7.1 and 7.2: positional encoding and multi-head attention."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, below, num, vec
from npdl.functions import softmax
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.embedding import sinusoidal

QUESTION = """\
Problem 7.1. What is positional encoding for, and how is it made?
Problem 7.2. What do several attention heads bring, and which structures are found by them?
The document encodes positions by sin(pos / 10000^(2i/d)) at 2i and cos of the same at 2i + 1."""

TITLES = {"7.1": "Positional encoding", "7.2": "Several heads"}

claim_of = partial(Claim, "002", "Problem 7")


def attention_layer(d_model=8, heads=2, seed=0):
    """A float64 MultiHeadAttention with normal weights."""
    layer = MultiHeadAttention(d_model, heads, rng=seed, dtype="float64")
    rng = np.random.default_rng(seed)
    for _, param in layer.params():
        param.data[...] = rng.standard_normal(param.shape) / np.sqrt(d_model)
    return layer


def permutation_errors(mask=None, length=6, positions=False, seed=1):
    """(|f(Px) - f(x)|, |f(Px) - P f(x)|), largest entries, for self-attention f, P a permutation.

    The first is 0 for an invariant f, the second for an equivariant one. With `positions`, f
    adds the sinusoidal table to its input first.
    """
    layer, rng = attention_layer(), np.random.default_rng(seed)
    x = rng.standard_normal((1, length, 8))
    table = sinusoidal(length, 8, "2k/d", "float64") if positions else 0
    order = np.roll(np.arange(length), 1)

    def f(x):
        return layer.forward(*[x + table] * 3, mask)[0]

    plain, permuted = f(x), f(x[:, order])
    return tuple(float(np.abs(permuted - y).max()) for y in (plain, plain[:, order]))


def encoding(length, d):
    """The document's formula (length, d), i running over the pairs 0 .. d/2 - 1; d even."""
    table = np.empty((length, d))
    for pos in range(length):
        for i in range(d // 2):
            table[pos, 2 * i] = np.sin(pos / 10000 ** (2 * i / d))
            table[pos, 2 * i + 1] = np.cos(pos / 10000 ** (2 * i / d))
    return table


def outside(d, values):
    """For how many i of 0 .. values - 1 the column 2i + 1 lies outside a vector of width d."""
    return sum(2 * i + 1 >= d for i in range(values))


def relative_head(length=32, d=64, offset=-1, sharpness=50.0):
    """The share of positions whose head looks hardest at `offset` from itself, by position alone.

    The query is the position's encoding, turned in every pair of coordinates by the angle of
    `offset`; this turn is one fixed matrix W_Q. Positions without such a neighbour are left out.
    """
    table = sinusoidal(length, d, "2k/d", "float64")
    angle = offset / 10000.0 ** (2 * np.arange(d // 2) / d)
    W_Q = np.zeros((d, d))
    even = np.arange(0, d, 2)
    W_Q[even, even] = W_Q[even + 1, even + 1] = np.cos(angle)
    W_Q[even + 1, even], W_Q[even, even + 1] = np.sin(angle), -np.sin(angle)
    _, cache = attend(sharpness * table @ W_Q, table, table)
    rows = np.arange(max(0, -offset), length - max(0, offset))
    return float((cache.A[rows].argmax(-1) == rows + offset).mean())


def twin_heads(seed=2, updates=20, apart=0.0):
    """(difference of the two heads' W_Q after plain descent, how far W_Q has moved).

    The heads start alike, but for `apart`, which is added to every entry of the second's W_Q.
    """
    layer, rng = attention_layer(8, 2, seed), np.random.default_rng(seed)
    for linear in (layer.W_Q, layer.W_K, layer.W_V):
        linear.W.data[:, 4:], linear.b.data[4:] = linear.W.data[:, :4], linear.b.data[:4]
    layer.W_O.W.data[4:] = layer.W_O.W.data[:4]
    layer.W_Q.W.data[:, 4:] += apart
    x, target = rng.standard_normal((2, 1, 6, 8))
    start = layer.W_Q.W.data.copy()
    for _ in range(updates):
        y, cache = layer.forward(x, x, x)
        layer.zero_grad()
        layer.backward(y - target, cache)
        for _, param in layer.params():
            param.data -= 0.002 * param.grad
    W = layer.W_Q.W.data
    return float(np.abs(W[:, :4] - W[:, 4:]).max()), float(np.abs(W - start).max())


def two_places(heads, values=(1.0, -1.0)):
    """Smallest error when token 0 is to hand over the values of tokens 1 and 2 unmixed.

    One head gives a convex combination w v_1 + (1 - w) v_2, at best off by half the difference;
    two heads give both.
    """
    values = np.array(values)
    if heads == 1:
        w = np.linspace(0, 1, 1001)[:, None]
        return float(np.abs(w * values[0] + (1 - w) * values[1] - values).max(-1).min())
    q, k = np.full((2, 1, 1), 50.0), np.array([[[1.0], [-1.0]], [[-1.0], [1.0]]])
    y, _ = attend(q, k, np.broadcast_to(values[:, None], (2, 2, 1)))
    return float(np.abs(y.ravel() - values).max())


def order():
    """Claims of 7.1 on why positions are needed."""
    changed, moved = permutation_errors()
    _, causal = permutation_errors(causal_mask(6))
    _, encoded = permutation_errors(positions=True)
    yield claim_of(
        "1", "self-attention is permutation-invariant", "permutation-invariant",
        "equivariant: permuted tokens give permuted outputs; a sum over the outputs would be "
        "invariant",
        judge(changed < 1e-9, provided=moved < 1e-9),
        "an example (seeds 0 and 1): "
        f"6 random tokens: f(Px) differs from f(x) by {changed:.2f}, from P f(x) by {below(moved)}")
    yield claim_of(
        "1", "transformers have no sense of order without positional encoding",
        "no built-in sense of order",
        "without a mask; a causal mask alone tells the order, since token t sees t tokens",
        judge(causal < 1e-9, "confirmed", "under-specified"),
        "an example (seeds 0 and 1): "
        f"f(Px) against P f(x): {below(moved)} without a mask, {causal:.2f} with the causal one, "
        f"{encoded:.2f} with positions")


def sines():
    """Claims of 7.1 on the sinusoidal table."""
    table, own = encoding(50, 64), sinusoidal(50, 64, "2k/d", "float64")
    error = float(np.abs(table - own).max())
    d = 64
    beyond = outside(d, d)
    shares = [relative_head(offset=offset) for offset in (-1, 1)]
    percent = [100 * share for share in shares]
    yield claim_of(
        "1", "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos of the same",
        "the usual sinusoids", "npdl's table with exponent 2k/d, entry by entry; d has to be even",
        proved(error < 1e-9), f"50 positions, d = 64: largest difference {below(error)}")
    yield claim_of(
        "1", "i is the index of the dimension", "i is the dimension index",
        "i numbers the pairs, 0 to d/2 - 1; the dimensions are 2i and 2i + 1",
        judge(beyond == 0, if_false="slip"),
        f"d = 64: with i from 0 to 63, {beyond} of 64 values of i would lie outside the vector")
    yield claim_of(
        "1", "positions let the model learn dependencies on (relative) position",
        "learning dependencies based on positions",
        "one fixed matrix turns the encoding of pos into that of pos + c, so a head can look at "
        "the token before or after",
        judgement("essay", provided=shares == [1, 1]),
        f"32 positions, d = 64: the head looks hardest at the one before for "
        f"{percent[0]:.0f} % of them, at the one after for {percent[1]:.0f} %")


def heads():
    """Claims of 7.2."""
    one, two = two_places(1), two_places(2)
    apart, trained = twin_heads()
    known = abs(twin_heads(updates=0, apart=0.5)[0] - 0.5) < 1e-12
    share = relative_head()
    percent = 100 * share
    yield claim_of(
        "2", "several heads attend to different parts of the sequence at once",
        "different parts simultaneously", "yes: one head returns one mixture, two can return both",
        proved(two < 1e-6 < one),
        f"values 1 and -1 to be handed over unmixed: error at best {one:.2f} with one head, "
        f"{below(two)} with two")
    yield claim_of(
        "2", "each head learns a different kind of dependency", "each head learns different types",
        "nothing makes them differ but their random starts: heads that start alike stay alike",
        judge(apart > 1e-6, "confirmed", "under-specified", provided=known),
        "an example, seed 2: "
        f"20 updates move W_Q by {trained:.2f} and the two heads apart by {below(apart)}")
    yield claim_of(
        "2", "heads find syntax, coreference, word senses and alignments",
        "agreement, coreference, meanings, alignments",
        "an empirical statement about trained models; what can be computed is that such patterns "
        "are within a head's reach",
        judgement("essay", provided=share == 1),
        f"a head built by hand looks at the token before for {percent:.0f} % of the positions")


def claims():
    return [*order(), *sines(), *heads()]


def turned(row, offset):
    """The encoding `offset` positions on, made of a row of `encoding` by turning each pair."""
    d = len(row)
    out = np.empty(d)
    for k in range(d // 2):
        angle = offset / 10000 ** (2 * k / d)
        s, c = row[2 * k], row[2 * k + 1]
        out[2 * k] = s * math.cos(angle) + c * math.sin(angle)
        out[2 * k + 1] = c * math.cos(angle) - s * math.sin(angle)
    return out


def mixed(x):
    """Self-attention of two tokens with W_Q = W_K = W_V = 1, no scale: softmax(x xᵀ) x."""
    return softmax(x @ x.T) @ x


def positions():
    """7.1."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    y, swapped = mixed(x), mixed(x[::-1])
    scores = x @ x[0]
    weights = softmax(scores)
    table = encoding(4, 4)
    moved, slower = turned(table[1], 2), 10000 ** (2 / 4)
    work = Solution("7.1", "Two tokens (1, 0) and (0, 2); then four positions of width 4.")
    work.step("What attention does with two tokens, and with the same two exchanged.",
              "y = softmax(x xᵀ) x",
              f"row 1 of x xᵀ: {vec(scores, 0)}, weights {vec(weights)}:  y₁ = "
              f"{num(weights[0])} · {vec(x[0], 0)} + {num(weights[1])} · {vec(x[1], 0)} = "
              f"{vec(y[0])}", {"x": x, "y": y, "x exchanged": x[::-1], "y of it": swapped})
    work.step("The outputs are exchanged and otherwise equal: self-attention is equivariant. It "
              "can't tell 'a b' from 'b a', so the place has to be put into x.")
    work.step("The usual table: every pair of columns is a clock hand, each pair slower than the "
              "one before. i numbers the pairs.",
              "PE(pos, 2i) = sin(pos/10000^(2i/d)),   PE(pos, 2i+1) = cos(pos/10000^(2i/d))",
              f"d = 4:  i = 0: angle pos;   i = 1: angle pos/{slower:.0f}", {"PE": table})
    work.step("Row pos + n is row pos turned by fixed angles: relative places can be read by one "
              "fixed matrix.", "sin(a + b) = sin a cos b + cos a sin b",
              f"row 1 turned by 2 steps: {vec(moved)};   row 3: {vec(table[3])}")
    work.step("It is added to the token's vector; the sum goes into the first block.",
              "x = E[token] + PE[pos]")
    work.answer = ("Attention alone is blind to order (equivariant); a vector for each position, "
                   "mostly sines and cosines of falling frequency, is added to each token's "
                   "embedding.")
    work.check("exchanging the tokens exchanges the outputs", np.allclose(swapped, y[::-1]))
    work.check("npdl's attention layer does the same with 6 tokens",
               permutation_errors()[1] < 1e-9 < permutation_errors()[0])
    work.check("the turned row is the row two positions on", np.allclose(moved, table[3]))
    return work


def worked_heads():
    """7.2."""
    values = (1.0, -1.0)
    shares = (0.0, 0.5, 1.0)
    mixtures = [w * values[0] + (1 - w) * values[1] for w in shares]
    sharp = 1 / (1 + math.exp(-20.0))
    rest = 1 - sharp
    per_head = [sharp * values[0] + rest * values[1], rest * values[0] + sharp * values[1]]
    errors = [max(abs(m - v) for v in values) for m in mixtures]
    d, m = 8, 2
    width = d // m
    work = Solution("7.2",
                    "Token 0 wants the values v₁ = 1 and v₂ = −1 of two other tokens, both "
                    "unmixed.")
    work.step("One head gives one set of weights, so one mixture of the values. It can't hand "
              "over two values unmixed.", "y = w v₁ + (1 − w) v₂",
              f"w = {vec(shares, 1)}:  y = {vec(mixtures, 1)}\nfurthest from v₁ or v₂: "
              f"{vec(errors, 1)}, at best {num(min(errors), 1)}")
    work.step("Two heads have two sets of weights: one looks at token 1, one at token 2, and the "
              "concatenation holds both.", "y = [v from head 1, v from head 2]",
              f"scores ±10: weights {num(sharp, 4)} and {num(rest, 4)}:  y = {vec(per_head)}")
    work.step("The heads share the width, so that the number of multiplications stays.",
              "m heads of width d/m:  m · S² · d/m = S² d",
              f"d = {d}, m = {m}: {m} · {width} = {d}")
    work.step("Heads differ only because they start at different random numbers. What trained "
              "ones are found to follow: the token before or after, the verb of a subject, what a "
              "pronoun refers to, the aligned word of the other language.")
    work.answer = ("Several heads attend to several places at once at the cost of one; found "
                   "structures are neighbours, syntax, coreference, alignments.")
    work.check("the best error of one head over 1001 mixtures is 1, of two heads under 0.001",
               abs(two_places(1) - 1) < 1e-9 and two_places(2) < 1e-3)
    return work


def solutions():
    return [positions(), worked_heads()]

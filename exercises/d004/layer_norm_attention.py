"""Document 004, Problems 2.1 to 2.5: layer normalisation, the causal mask, and several heads.

split_heads turns (B, S, m d) into (B, m, S, d). The document gives the index
y[i, j, k, l] = x[i, k, num_heads * j + 1], which may be meant as num_heads * j + l.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.functions import softmax
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.layer_norm import LayerNorm

ROW, WEIGHT, BIAS = (1, 3, 5, 7), (1.0, 1.0, 2.0, 1.0), (0.0, 0.0, 0.0, 1.0)


def variance(values, correction=0):
    """Return the sum of squared deviations over n − correction, as a fraction."""
    mean = Fraction(sum(values), len(values))
    return sum((value - mean) ** 2 for value in values) / (len(values) - correction)


def mean_variance_estimate(population, n, correction=0):
    """Return the exact mean of the estimates over all samples of n draws with replacement."""
    samples = list(product(population, repeat=n))
    return sum(variance(sample, correction) for sample in samples) / len(samples)


def normalise(x, eps=1e-5, correction=0):
    """Return (x − E[x]) / √(Var[x] + ε) over the last axis."""
    deviations = x - x.mean(-1, keepdims=True)
    var = (deviations**2).sum(-1, keepdims=True) / (x.shape[-1] - correction)
    return deviations / np.sqrt(var + eps)


@question("004.2.1", "Layer normalisation")
def solve_layer_norm(say, step, answer, check, claim):
    """Normalise a row, and say which of the two estimates of the variance is used."""
    mean, var, unbiased = Fraction(sum(ROW), len(ROW)), variance(ROW), variance(ROW, 1)
    deviations = [value - mean for value in ROW]
    row = np.array(ROW, float)
    out, other = normalise(row, 0), normalise(row, 0, 1)
    y = out * WEIGHT + BIAS
    pairs = ", ".join(vec(pair) for pair in product((0, 2), repeat=2))
    say(f"The example is one row x = {vec(ROW)}.")
    step("Compute the mean of the row. It does not depend on other rows of the batch.",
         "E[x] = Σ xᵢ / n", f"({' + '.join(map(str, ROW))})/4 = {mean}")
    step("Compute the variance of the row. The sum is divided by n.", "Var[x] = Σ (xᵢ − E[x])² / n",
         f"deviations {vec(deviations)}:  ({' + '.join(str(a * a) for a in deviations)})/4 = {var}")
    step("Subtract the mean and divide by the standard deviation. ε = 10⁻⁵ only prevents 0/0 for a "
         "constant row.", "x̂ = (x − E[x])/√(Var[x] + ε)", f"{vec(deviations)}/√{var} = {vec(out)}")
    step("Multiply by the weight and add the bias. Both are trainable and have one entry for each "
         "position in the row.", "y = x̂ · weight + bias",
         f"weight {vec(WEIGHT, 0)}, bias {vec(BIAS, 0)}:  y = {vec(y)}")
    step("With n − 1 instead of n, every entry is smaller by the same factor.", "√((n − 1)/n)",
         f"variance {unbiased}, x̂ = {vec(other)};   √(3/4) = {math.sqrt(3 / 4):.3f}")
    step("'Unbiased' is a property of an estimate from samples. On average over all pairs drawn "
         "from (0, 2), division by n − 1 gives the true variance. But a LayerNorm does not "
         "estimate a variance from samples. It uses that of the row itself.",
         f"mean of the estimates over the pairs {pairs}",
         f"with n: {mean_variance_estimate((0, 2), 2)},   with n − 1: "
         f"{mean_variance_estimate((0, 2), 2, 1)},   the variance of (0, 2): {variance((0, 2))}")
    answer("LayerNorm is (x − E[x])/√(Var[x] + ε) · weight + bias over the last axis, with the "
           f"variance divided by n. {vec(ROW)} becomes {vec(y)}.")
    say("In npdl, this is LayerNorm.forward in npdl/layers/layer_norm.py.")
    layer = LayerNorm(4, dtype="float64")
    layer.gain.data[...], layer.bias.data[...] = WEIGHT, BIAS
    check("npdl's LayerNorm with this weight and bias gives the same result to within 0.0001.",
          np.allclose(layer.forward(row[None])[0][0], y, atol=1e-4))
    rng = np.random.default_rng(0)
    x = 3 + 2 * rng.standard_normal((4, 3, 4))
    y, _ = layer.forward(x)
    alone = abs(layer.forward(x[1:2, 2:3])[0] - y[1:2, 2:3]).max()
    error = abs(normalise(x) * WEIGHT + BIAS - y).max()
    batch_difference = abs((x - x.mean()) / np.sqrt(x.var() + 1e-5) * WEIGHT + BIAS - y).max()
    claim("formula", "(x - E[x]) / sqrt(Var[x] + eps) * weight + bias, with the variance divided "
          "by n.", "the formula, biased estimate", "npdl's LayerNorm gives the same result: error "
          f"{error:.1g}", judge(error <= 1e-9), f"input {x.shape}, weight and bias of the example, "
          f"eps = 1e-5; {layer.count_params()} trainable parameters for width 4")
    claim("axis", "Mean and variance are those of the last axis alone, though the formula is said "
          "to act on a minibatch.", "only over the last dimension",
          f"a row gives the same alone and in its batch (difference {alone:.1g}); statistics of "
          f"the whole minibatch would change the output by up to {batch_difference:.2f}",
          judge(alone < 1e-9 < batch_difference), f"an example: input {x.shape} of seed 0")
    population = (0, 1, 5)
    truth, biased, unbiased = variance(population), *(mean_variance_estimate(population, 3, k)
                                                      for k in (0, 1))
    claim("bias", "Divided by n - 1 the estimate of a variance is unbiased, divided by n it is "
          "biased.", "1 / (n - 1) unbiased, 1 / n biased", "the mean over all 27 samples of 3 from "
          f"{population} is {unbiased} with n - 1 and {biased} with n; the variance is {truth}",
          judge(unbiased == truth and biased == truth * Fraction(2, 3)),
          "exact enumeration; biased / true = (n - 1) / n, for independent draws")
    rows = {D: 50 * rng.standard_normal((16, D)) for D in (2, 8, 128)}
    ratios = {D: normalise(row, 0, 1).std(-1) for D, row in rows.items()}
    claim("choice", "It matters which of the two variances a LayerNorm divides by.",
          "the biased one is to be used, the default of a library is the other",
          "with n - 1, every output is sqrt((n - 1) / n) times as large: "
          + ", ".join(f"{std.mean():.4f} for width {D}" for D, std in ratios.items()),
          judge(all(np.allclose(std, ((D - 1) / D) ** 0.5, 0, 1e-9) for D, std in ratios.items())),
          "standard deviation of the outputs with eps = 0; a trainable weight can compensate for "
          "this factor, except for width 1")


POWERS = np.array([[2.0, 3.0, 4.0], [1.0, 3.0, 5.0], [2.0, 2.0, 4.0]])     # e^score


def row_influence(f, x):
    """Return the largest change (T, S) in row t of f(x) if every entry of row k of x grows by 1."""
    start, changes = f(x), []
    for k in range(len(x)):
        other = x.copy()
        other[k] += 1
        changes.append(abs(f(other) - start).max(-1))
    return np.array(changes).T


def masked_softmax(scores, mask, masked_score=-np.inf):
    """Return softmax(scores), where scores with a False mask are replaced by `masked_score`."""
    return softmax(np.where(mask, scores, masked_score))


@question("004.2.3", "Attention weights with a causal mask")
def solve_causal_mask(say, step, answer, check, claim):
    """Compute attention weights with the mask M (S, S), which is 1 where k ≤ t and 0 elsewhere."""
    scores, M = np.log(POWERS), np.tri(3, dtype=int)
    A, free = masked_softmax(scores, M), masked_softmax(scores, np.ones((3, 3)))
    leak = masked_softmax(scores, M, 0.0)[0, 1:].sum()
    row = POWERS[1, :2]
    say(f"S = 3. In row 2, e^s is {vec(POWERS[1], 0)}, so s₂ = (0, ln 3, ln 5) = {vec(scores[1])}.")
    step("Compute the scores of every token with every token, divided by the square root of the "
         "key's width.", "s = q kᵀ/√d", "the entries are logarithms of integers, for calculation "
         "by hand", format_arrays({"s": scores, "eˢ": POWERS}))
    step("Write the mask. Token t attends to itself and to earlier tokens.",
         "M_tk = 1 if k ≤ t, else 0", format_arrays({"M": M}))
    step("Replace the score by −∞ where M is 0. Replacing it by 0, or multiplying by M, would be "
         "wrong, because e⁰ = 1.", "s ← s where M = 1, −∞ where M = 0",
         f"with 0 instead of −∞, row 1 would give {leak:.2f} of its weight to later tokens",
         format_arrays({"masked s": np.where(M, np.char.mod("%.3f", scores), "−∞")}))
    step("Apply the softmax along each row. e^(−∞) = 0.", "A_tk = e^(s_tk) / Σ_l e^(s_tl)",
         f"row 2: {vec(row, 0)}/({row[0]:.0f} + {row[1]:.0f}) = {vec(A[1, :2], 2)}",
         format_arrays({"A": A, "without a mask": free}))
    step("For a batch and all heads at once, the mask (S, S) is broadcast over (B, m, S, S).",
         "A (B, num_heads, S, S)")
    answer("A is the softmax of the scores with −∞ above the diagonal. Its rows are "
           f"{vec(A[0], 0)}, {vec(A[1], 2)} and {vec(A[2], 2)}.")
    say("In npdl, this is attend in npdl/layers/attention.py.")
    q, k = 2 * np.pad(scores, ((0, 0), (0, 1))), np.eye(3, 4)           # q kᵀ / √4 = scores
    check("npdl's attention with q kᵀ/√4 = s and its causal mask gives the same A.",
          np.allclose(attend(q, k, np.ones((3, 4)), causal_mask(3))[1].A, A))
    S = 6
    same = all(np.array_equal(np.tri(n), causal_mask(n)) for n in range(1, 20))
    layer = MultiHeadAttention(8, 2, rng=1, dtype="float64")
    x, seen = np.random.default_rng(0).standard_normal((S, 8)), np.tri(S, dtype=bool)
    free, masked = (row_influence(lambda x, mask=mask: layer.forward(*[x[None]] * 3, mask)[0][0], x)
                    for mask in (None, causal_mask(S)))
    hidden = np.triu(A, 1).max()
    claim("mask", "M_tk = 1 for k <= t is the lower triangular mask, diagonal included.",
          "lower triangular", "npdl's causal_mask is the same; it has S (S + 1) / 2 ones",
          judge(same), "compared for S = 1 to 19")
    claim("reach", "With the mask a token depends on itself and earlier tokens, without it on all.",
          "each token attends only to itself and previous tokens", "pairs in which the output "
          f"changes: {(masked > 1e-9).sum()} of {S * S} with the mask, {(free > 1e-9).sum()} "
          "without", judge(masked[~seen].max() < 1e-9 < min(masked[seen].min(), free.min())),
          f"each of S = {S} tokens is changed in turn; later tokens change an output by at most "
          f"{masked[~seen].max():.1g}")
    claim("zero weights", "Scores overwritten by -infinity where M = 0 get zero weight after the "
          "softmax.", "zero probability", f"the largest weight above the diagonal is {hidden:.0f}; "
          "rows sum to 1", judge(hidden == 0 and np.allclose(A.sum(-1), 1)),
          "if the scores were multiplied by M, row 1 of equal scores would give "
          f"{masked_softmax(np.zeros(5), True)[1:].sum():.2f} of its weight to later tokens")
    x = np.zeros((2, 5, 6), "float32")
    shape = MultiHeadAttention(6, 3).forward(x, x, x, causal_mask(5))[1].attend.A.shape
    claim("shape", "The weights have shape (B, num_heads, S, S).", "(B, num_heads, S, S)",
          f"{shape} for B = 2, 3 heads, S = 5", judge(shape == (2, 3, 5, 5)),
          "npdl's MultiHeadAttention")
    scores, seen = np.full((3, 3), -40.0), np.tri(3, dtype=bool)
    leaks = {value: masked_softmax(scores, seen, value)[~seen].max() for value in (-1e4, -1e9, -45)}
    claim("large negative", "A very large negative number in place of -infinity does as well.",
          "a very large negative value (-infinity is used)",
          "for scores of -40, the largest weight of a masked token is "
          + ", ".join(f"{leak:.4f} with {value:g}" for value, leak in leaks.items()),
          judge(leaks[-1e4] == leaks[-1e9] == 0), "the number must be about 750 below the other "
          "scores in float64, and about 104 in float32")


# column of x that head j reads at position l, for m heads of width d
INDEXINGS = {
    "num_heads * j + 1": lambda m, d, j, place: m * j + 1 + 0 * place,
    "num_heads * j + l": lambda m, d, j, place: m * j + place,
    "head_size * j + l": lambda m, d, j, place: d * j + place,
    "num_heads * l + j": lambda m, d, j, place: m * place + j,
}
SIZES = [(m, d) for m in range(1, 7) for d in range(1, 7)]
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])      # three tokens, two heads of width 1
LN2 = math.log(2)                                       # W_Q = ln 2 · I, so that e^score = 2^(..)


def head_columns(indexing, m, d):
    """Return the columns (m, d) of x that an indexing gives to each head and place in it."""
    return INDEXINGS[indexing](m, d, *np.indices((m, d)))


def find_bijective_sizes(indexing):
    """Return the sizes up to 6 x 6 at which an indexing uses every column exactly once."""
    return [(m, d) for m, d in SIZES
            if np.array_equal(np.sort(head_columns(indexing, m, d), None), np.arange(m * d))]


def head_attention_weights(column, score_divisor=1.0):
    """Return the causal attention weights of a head with q = ln 2 k, scores divided."""
    powers = np.tril(2.0 ** (np.outer(column, column) / score_divisor))
    return powers / powers.sum(1, keepdims=True)


def run_npdl_attention(W_V, W_O, b_O=0.0):
    """Return output and weights of npdl's layer with W_Q = ln 2 · I and W_K = I."""
    layer = MultiHeadAttention(2, 2, dtype="float64")
    values = {"W_Q.W": LN2 * np.eye(2), "W_K.W": np.eye(2), "W_V.W": W_V, "W_O.W": W_O,
              "W_O.b": b_O}
    for name, param in layer.params():
        param.data[...] = values.get(name, 0.0)
    y, cache = layer.forward(X[None], X[None], X[None], causal_mask(3))
    return y[0], cache.attend.A[0]


@question("004.2.2", "Splitting and merging heads")
def solve_split_and_merge(say, step, answer, check, claim, m=2, d=3):
    """Write split_heads and merge_heads by their indices."""
    row = 10 * np.arange(1, m * d + 1)
    layer = MultiHeadAttention(m * d, m)
    y = layer.split_heads(row[None, None].astype("float32"))
    one, other, right = (head_columns(name, m, d) for name in list(INDEXINGS)[:3])
    say(f"The example has m = {m} heads of width d = {d}, and one token.")
    step("The row of one token contains the heads one after the other: first d entries of head 0, "
         "then d entries of head 1. Split the row there. Then move the axis of the heads before "
         "that of the sequence.", "(B, S, m d) → (B, S, m, d) → (B, m, S, d)",
         f"{vec(row)}  →  head 0: {vec(row[:d])},   head 1: {vec(row[d:])}")
    step("So head j reads column d j + l at position l. With num_heads instead of head_size, some "
         "columns are read twice and others never.", "y[i, j, k, l] = x[i, k, d j + l]",
         format_table(("j", "l", "d j + l", "y", "column m j + 1", "column m j + l"), [
             (j, place, f"{d}·{j} + {place} = {column}", row[column],
              str(one[j, place]), str(other[j, place]))
             for (j, place), column in np.ndenumerate(right)]))
    step("Merging is the inverse: move the axis back, and then join the heads.", "(B, m, S, d) → "
         "(B, S, m, d) → (B, S, m d)", f"{vec(row[:d])}, {vec(row[d:])}  →  {vec(row)}")
    answer("y[i, j, k, l] = x[i, k, head_size · j + l]; num_heads · j + 1 would read only the "
           f"columns {vec(np.unique(one))}, and num_heads · j + l only {vec(np.unique(other))}.")
    say("In npdl, this is MultiHeadAttention.split_heads in npdl/layers/attention.py.")
    check("npdl's split_heads gives the same y as the table, and join_heads gives the row again.",
          np.array_equal(y[0, :, 0], row[right]) and np.array_equal(layer.join_heads(y)[0, 0], row))
    one, other, right = (find_bijective_sizes(name) for name in list(INDEXINGS)[:3])
    used, used_other = (len(np.unique(head_columns(name, 4, 32))) for name in list(INDEXINGS)[:2])
    beyond = (head_columns("num_heads * j + l", 4, 2) >= 8).sum()
    claim("index", "Head j, place l of the split reads column num_heads * j + 1 of x (or num_heads "
          "* j + l, if the 1 is a misread l).", "num_heads * j + 1", "head_size * j + l",
          judge(len(one) == len(SIZES) or len(other) == len(SIZES)), "with 4 heads of width 32, it "
          f"reads {used} of 128 columns, or {used_other} with l instead of 1; with 4 heads of "
          f"width 2 and l, {beyond} of the columns do not exist; of {len(SIZES)} sizes up to 6 x "
          f"6, {len(one)} are invertible with 1 and {len(other)} with l")
    claim("inverse", "split_heads and merge_heads are exactly inverse to each other, (B, S, m d) "
          "to (B, m, S, d) and back.", "exactly inverse",
          f"true with column head_size * j + l, as in npdl: {(1, 1, m * d)} to {y.shape} and back "
          "gives the same row", judge(right == SIZES),
          f"it is a bijection for {len(right)} of {len(SIZES)} sizes (and so is the interleaved "
          f"num_heads * l + j: {len(find_bijective_sizes('num_heads * l + j'))})")


@question("004.2.4", "Applying the attention weights")
def solve_weighted_values(say, step, answer, check, claim):
    """Apply the attention weights of each head to its values, and join the heads."""
    V, A_1, A_2 = X * [1.0, 10.0], head_attention_weights(X[:, 0]), head_attention_weights(X[:, 1])
    h_1, h_2 = A_1 @ V[:, 0], A_2 @ V[:, 1]
    joined = np.stack([h_1, h_2], 1)
    say("There are S = 3 tokens, two heads of width 1 and a causal mask. q = ln 2 · x, k = x.")
    step("Each head has its own weights, with a row for each token. The weights above the diagonal "
         "are 0.", "Aᵢ = softmax(qᵢ kᵢᵀ/√d)", format_arrays({"A₁": A_1, "A₂": A_2}))
    step("Each head computes weighted sums of its own values.", "hᵢ = Aᵢ vᵢ",
         format_arrays({"v₁": V[:, 0], "h₁": h_1, "v₂": V[:, 1], "h₂": h_2}))
    step("Concatenated, they have the shape of the input.", "concat(h₁, h₂)   (S, m d)",
         format_arrays({"h": joined}))
    answer("The result is the concatenation of all hᵢ = Aᵢ vᵢ. The row of the last token is "
           f"{vec(joined[-1])}.")
    say("In npdl, this is attend in npdl/layers/attention.py.")
    check("npdl's layer with W_V = diag(1, 10) and W_O = I gives the same result.",
          np.allclose(run_npdl_attention(np.diag([1.0, 10.0]), np.eye(2))[0], joined))
    claim("shapes", "The h_i, concatenated, have the shape of the input and go into W_O.",
          "concat(h_1 .. h_m)", f"two heads of shape {h_1.shape}, concatenated {joined.shape}",
          judge(joined.shape == X.shape), f"an input of shape {X.shape}, 2 heads of width 1")


@question("004.2.5", "Multi-head attention from end to end")
def solve_multi_head_attention_weights(say, step, answer, check, claim):
    """Compute attention with several heads from the input to the output."""
    W_O, b_O = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([0.0, 1.0])
    A_1, A_2 = head_attention_weights(X[:, 0]), head_attention_weights(X[:, 1])
    h_1, h_2 = A_1 @ X[:, 0], A_2 @ X[:, 1]
    joined = np.stack([h_1, h_2], 1)
    y = joined @ W_O + b_O
    a, b = joined[2]
    say("The example has S = 3 tokens, m = 2 heads of width d = 1 and a causal mask.")
    step("Compute three projections of the input. In each, the first column belongs to head 1 and "
         "the second to head 2.", "[q₁, q₂] = X W_Q + b_Q, and similarly for k and v",
         f"W_Q = {LN2:.3f} · I (that is ln 2), W_K = W_V = I, biases 0",
         format_arrays({"X": X, "X W_Q": LN2 * X}))
    step("Compute the scores of head 1, with later tokens masked. √d = √1.", "s = q₁ k₁ᵀ/√d",
         "e^s = 2 where both entries are 1, else 1",
         format_arrays({"s₁, lower half": np.tril(np.outer(X[:, 0], X[:, 0])) * LN2, "A₁": A_1,
                        "h₁": h_1}))
    step("Compute head 2 in the same way.", format_arrays({"A₂": A_2, "h₂": h_2}))
    step("Join the heads, and apply the output projection.", "Y = concat(h₁, h₂) W_O + b_O",
         format_arrays({"concat": joined, "W_O": W_O, "b_O": b_O, "Y": y}))
    step("Check the row of the third token by hand.", f"concat row 3 = {vec(joined[2])}:  Y₃ = "
         f"({a:.3f}, {a:.3f} + 2 · {b:.3f} + 1) = {vec(y[2])}")
    answer("Project the input, split it into heads, attend in each head, join the heads, and "
           f"project again. Token 3 becomes {vec(y[2])}.")
    say("In npdl, this is MultiHeadAttention.forward in npdl/layers/attention.py.")
    own, A = run_npdl_attention(np.eye(2), W_O, b_O)
    right = np.allclose(own, y) and np.allclose(A, [A_1, A_2])
    check("npdl's MultiHeadAttention with these weights gives the same Y and both A.", right)
    wide = np.stack([head_attention_weights(X[:, j], 2**0.5) @ X[:, j] for j in (0, 1)],
                    1) @ W_O + b_O
    off = abs(wide - y).max()
    claim("formula", "Attention is concat(h_1 .. h_m) W_O + b_O with h_i = softmax(q_i k_i^T / "
          "sqrt(d)) v_i.", "the formula", "npdl's layer agrees with the separate calculation of "
          "each head", judge(right), "the example: 2 heads of width 1 with a causal mask")
    claim("scale", "Scores are divided by the square root of d.", "d is the width of one key here, "
          "the whole width in Problems 2.7 and 2.10", "it must be the width of one key; npdl's "
          "layer agrees", judge(off < 1e-9, if_false="under-specified"), "with the whole width 2, "
          f"the outputs would differ by up to {off:.3f}; the document uses one letter for both")

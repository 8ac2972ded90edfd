"""Document 004, Problem 2.3: the causal mask."""

import numpy as np

from exercises.course import arrays, judge, question, vec
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask

POWERS = np.array([[2.0, 3.0, 4.0], [1.0, 3.0, 5.0], [2.0, 2.0, 4.0]])     # e^score


def influence(f, x):
    """Return how far an entry of row t of f(x) moves when row k of x moves by 1, (T, S)."""
    start, moved = f(x), []
    for k in range(len(x)):
        other = x.copy()
        other[k] += 1
        moved.append(abs(f(other) - start).max(-1))
    return np.array(moved).T


def masked_softmax(scores, mask, masked=-np.inf):
    """Return softmax(scores) with `masked` in place of the scores where the mask is False."""
    scores = np.where(mask, scores, masked)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@question("004.2.3", "Attention weights with a causal mask")
def mask(say, step, answer, check, claim):
    """Compute attention weights with the mask M (S, S), which is 1 where k ≤ t and 0 elsewhere."""
    scores, M = np.log(POWERS), np.tri(3, dtype=int)
    A, free = masked_softmax(scores, M), masked_softmax(scores, np.ones((3, 3)))
    leak = masked_softmax(scores, M, 0.0)[0, 1:].sum()
    row = POWERS[1, :2]
    say(f"S = 3; e^s of row 2 is {vec(POWERS[1], 0)}, so s₂ = (0, ln 3, ln 5) = {vec(scores[1])}.")
    step("Raw scores: every token with every token, over the root of the key's width.",
         "s = q kᵀ/√d", "the entries are logarithms of whole numbers, to follow by hand",
         arrays({"s": scores, "eˢ": POWERS}))
    step("The mask: token t sees itself and what came before.", "M_tk = 1 if k ≤ t, else 0",
         arrays({"M": M}))
    step("Where M is 0, write −∞ over the score. Writing 0, or multiplying by M, would be "
         "wrong: e⁰ = 1.", "s ← s where M = 1, −∞ where M = 0",
         f"row 1 with 0 in place of −∞ would give the future {leak:.2f} of the weight",
         arrays({"masked s": np.where(M, np.char.mod("%.3f", scores), "−∞")}))
    step("Softmax along each row: e^(−∞) = 0.", "A_tk = e^(s_tk) / Σ_l e^(s_tl)",
         f"row 2: {vec(row, 0)}/({row[0]:.0f} + {row[1]:.0f}) = {vec(A[1, :2], 2)}",
         arrays({"A": A, "without a mask": free}))
    step("For a batch and all heads at once: the mask (S, S) is broadcast over (B, m, S, S).",
         "A (B, num_heads, S, S)")
    answer(f"A = softmax of the scores with −∞ above the diagonal: rows {vec(A[0], 0)}, "
           f"{vec(A[1], 2)}, {vec(A[2], 2)}.")
    say("In npdl: attend in npdl/layers/attention.py.")
    q, k = 2 * np.pad(scores, ((0, 0), (0, 1))), np.eye(3, 4)           # q kᵀ / √4 = scores
    check("npdl's attention with q kᵀ/√4 = s and its causal mask gives the same A",
          np.allclose(attend(q, k, np.ones((3, 4)), causal_mask(3))[1].A, A))
    check("rows sum to 1 and all entries above the diagonal are 0",
          np.allclose(A.sum(1), 1) and not np.triu(A, 1).any())
    S = 6
    same = all(np.array_equal(np.tri(n), causal_mask(n)) for n in range(1, 20))
    layer = MultiHeadAttention(8, 2, rng=1, dtype="float64")
    x, seen = np.random.default_rng(0).standard_normal((S, 8)), np.tri(S, dtype=bool)
    free, masked = (influence(lambda x, mask=mask: layer.forward(*[x[None]] * 3, mask)[0][0], x)
                    for mask in (None, causal_mask(S)))
    hidden = np.triu(A, 1).max()
    claim("mask", "M_tk = 1 for k <= t is the lower triangular mask, diagonal included.",
          "lower triangular", "npdl's causal_mask is the same; S (S + 1) / 2 ones", judge(same),
          "compared for S = 1 to 19")
    claim("reach", "With the mask a token depends on itself and earlier tokens, without it on all.",
          "each token attends only to itself and previous tokens",
          f"moved outputs: {(masked > 1e-9).sum()} of {S * S} pairs with the mask, "
          f"{(free > 1e-9).sum()} without",
          judge(masked[~seen].max() < 1e-9 < min(masked[seen].min(), free.min())),
          f"every token of S = {S} changed in turn; later tokens move an output by less than 1e-9")
    claim("zero weights", "Scores overwritten by -infinity where M = 0 get zero weight after the "
          "softmax.", "zero probability",
          f"largest weight above the diagonal {hidden:.0f}; rows sum to 1",
          judge(hidden == 0 and np.allclose(A.sum(-1), 1)), "scores multiplied by M would leave "
          f"row 1 of equal scores {masked_softmax(np.zeros(5), True)[1:].sum():.2f} for the future")
    x = np.zeros((2, 5, 6), "float32")
    shape = MultiHeadAttention(6, 3).forward(x, x, x, causal_mask(5))[1].attend.A.shape
    claim("shape", "The weights have shape (B, num_heads, S, S).", "(B, num_heads, S, S)",
          f"{shape} for B = 2, 3 heads, S = 5", judge(shape == (2, 3, 5, 5)),
          "npdl's MultiHeadAttention")
    scores, seen = np.full((3, 3), -40.0), np.tri(3, dtype=bool)
    leaks = {value: masked_softmax(scores, seen, value)[~seen].max() for value in (-1e4, -1e9, -45)}
    claim("large negative", "A very large negative number in place of -infinity does as well.",
          "a very large negative value (-infinity is used)",
          "real scores of -40: largest forbidden weight "
          + ", ".join(f"{leak:.4f} with {value:g}" for value, leak in leaks.items()),
          judge(leaks[-1e4] == leaks[-1e9] == 0),
          "in float64 it must lie some 750 below the visible scores, in float32 some 104")

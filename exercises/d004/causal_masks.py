"""Document 004, Problem 2.3: the causal mask."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.probes import influence
from exercises.worked import Solution, below, num, vec
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask

QUESTION = """\
The mask M (S, S) is 1 where k <= t and 0 elsewhere; scores where it is 0 become -infinity before
the softmax. Does every token then see itself and the past only, are the weights of the future
zero, is "only past inputs" right, and would a very large negative number do as well?"""

TITLES = {"2.3": "Attention weights with a causal mask"}

claim = partial(Claim, "004", "Problem 2.3")


def printed_mask(length):
    """M of the document as booleans (S, S)."""
    return np.array([[k <= t for k in range(length)] for t in range(length)])


def weights_with(scores, mask, masked=-np.inf):
    """softmax over the last axis of scores (S, S) with `masked` written where mask is False."""
    scores = np.where(mask, scores, np.asarray(masked, scores.dtype))
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def claims():
    layer = MultiHeadAttention(8, 2, rng=1, dtype="float64")
    x = np.random.default_rng(0).standard_normal((6, 8))
    return [mask_claim(), reach_claim(layer, x), weights_claim(), large_claim(),
            shape_claim()]


def mask_claim():
    same = all(np.array_equal(printed_mask(S), causal_mask(S)) and
               printed_mask(S).sum() == S * (S + 1) // 2 for S in range(1, 20))
    return claim(
        "mask", "M_tk = 1 for k <= t is the lower triangular mask, diagonal included.",
        "lower triangular", "npdl's causal_mask is the same; S (S + 1) / 2 ones",
        proved(same), "compared for S = 1 to 19")


def reach_claim(layer, x):
    S = len(x)
    pairs = S * S
    free, masked = (influence(lambda x, mask=mask: layer.forward(*[x[None]] * 3, mask)[0][0], x)
                    for mask in (None, causal_mask(S)))
    future = ~printed_mask(S)
    causal = masked[future].max() < 1e-9 < masked[~future].min()
    return claim(
        "reach", "With the mask a token depends on itself and earlier tokens, without it on all.",
        "each token attends only to itself and previous tokens",
        f"moved outputs: {int((masked > 1e-9).sum())} of {pairs} pairs with the mask, "
        f"{int((free > 1e-9).sum())} without", proved(causal and free.min() > 1e-9),
        f"every token of S = {S} changed in turn; later tokens move an output by "
        f"{below(masked[future].max())}")


def weights_claim():
    q, k, v = np.random.default_rng(3).standard_normal((3, 2, 2, 5, 4))
    A = attend(q, k, v, causal_mask(5))[1].A
    by_hand = weights_with(q @ k.swapaxes(-1, -2) / 2, printed_mask(5))
    error = float(abs(A - by_hand).max())
    hidden = float(A[..., ~printed_mask(5)].max())
    sums_off = float(abs(A.sum(-1) - 1).max())
    by_zero = weights_with(np.zeros((5, 5)), np.ones((5, 5), bool))[0, 1:].sum()
    return claim(
        "zero weights", "Scores overwritten by -infinity where M = 0 get zero weight after the "
        "softmax.", "zero probability",
        f"largest weight above the diagonal {hidden:.0f}; rows sum to 1 ({below(sums_off)})",
        judge(hidden == 0, provided=error < 1e-9), "npdl's attend and -infinity by hand agree: "
        f"{below(error)}; scores multiplied by M would leave row 1 of equal scores {by_zero:.2f} "
        "for the future")


def large_claim(lowest=-40.0):
    scores, mask = np.full((3, 3), lowest), printed_mask(3)     # real scores may be low too
    leaks = {value: float(weights_with(scores, mask, value)[~mask].max())
             for value in (-1e4, -1e9, -45.0)}
    exact = weights_with(scores, mask)
    blind = weights_with(np.zeros((3, 3)), np.zeros((3, 3), bool), -1e9)
    return claim(
        "large negative", "A very large negative number in place of -infinity does as well.",
        "a very large negative value (-infinity is used)",
        f"real scores of {lowest:g}: largest forbidden weight "
        + ", ".join(f"{leak:.4f} with {value:g}" for value, leak in leaks.items()),
        judge(leaks[-1e4] == leaks[-1e9] == 0,
              provided=np.allclose(exact.sum(-1), 1) and not exact[~mask].any()),
        "in float64 it must lie some 750 below the visible scores, in float32 some 104; a row that "
        f"sees nothing gets {blind[0, 0]:.3f} each with it, 0 / 0 with -infinity (no causal row is "
        "such a row)")


def shape_claim(B=2, H=3, S=5):
    layer = MultiHeadAttention(6, H)
    x = np.zeros((B, S, 6), "float32")
    A = layer.forward(x, x, x, causal_mask(S))[1].attend.A
    return claim(
        "shape", "The weights have shape (B, num_heads, S, S).", "(B, num_heads, S, S)",
        f"{A.shape} for B = {B}, {H} heads, S = {S}", proved(A.shape == (B, H, S, S)),
        "npdl's MultiHeadAttention")


POWERS = np.array([[2.0, 3.0, 4.0], [1.0, 3.0, 5.0], [2.0, 2.0, 4.0]])     # e^score


def masked_softmax(powers, mask):
    """Rows of e^score where the mask is True, divided by their sums."""
    return np.array([row / sum(row) for row in powers * mask])


def mask():
    scores, M = np.log(POWERS), printed_mask(3)
    A, free = masked_softmax(POWERS, M), masked_softmax(POWERS, np.ones((3, 3)))
    shown = np.where(M, scores, -np.inf)
    by_zero = np.exp(np.where(M, scores, 0.0))
    leak = by_zero[0, 1:].sum() / by_zero[0].sum()
    q, k = 2 * np.pad(scores, ((0, 0), (0, 1))), np.eye(3, 4)       # q kᵀ / √4 = scores
    own = attend(q[None], k[None], np.ones((1, 3, 4)), causal_mask(3))[1].A
    row = POWERS[1, :2]
    work = Solution("2.3",
                    f"S = 3; e^s of row 2 is {vec(POWERS[1], 0)}, so s₂ = (0, ln 3, ln 5) = "
                    f"{vec([math.log(v) for v in POWERS[1]])}.")
    work.step("Raw scores: every token with every token, over the root of the key's width.",
              "s = q kᵀ/√d", "the entries are logarithms of whole numbers, to follow by hand",
              {"s": scores, "eˢ": POWERS})
    work.step("The mask: token t sees itself and what came before.", "M_tk = 1 if k ≤ t, else 0",
              arrays={"M": M.astype(int)})
    work.step("Where M is 0, write −∞ over the score. Writing 0, or multiplying by M, would be "
              "wrong: e⁰ = 1.", "s ← s where M = 1, −∞ where M = 0",
              f"row 1 with 0 in place of −∞ would give the future {num(float(leak), 2)} of the "
              "weight", {"masked s": shown})
    work.step("Softmax along each row: e^(−∞) = 0.", "A_tk = e^(s_tk) / Σ_l e^(s_tl)",
              f"row 2: {vec(row, 0)}/({num(row[0], 0)} + {num(row[1], 0)}) = {vec(A[1, :2], 2)}",
              {"A": A, "without a mask": free})
    work.step("For a batch and all heads at once: the mask (S, S) is broadcast over (B, m, S, S).",
              "A (B, num_heads, S, S)")
    work.answer = (f"A = softmax of the scores with −∞ above the diagonal: rows {vec(A[0], 0)}, "
                   f"{vec(A[1], 2)}, {vec(A[2], 2)}.")
    work.check("npdl's attention with q kᵀ/√4 = s and its causal mask gives the same A",
               np.allclose(own[0], A))
    work.check("rows sum to 1 and nothing stands above the diagonal",
               np.allclose(A.sum(1), 1) and not np.triu(A, 1).any())
    return work


def solutions():
    return [mask()]

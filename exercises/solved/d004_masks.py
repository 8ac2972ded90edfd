"""Document 004, Problem 2.3, worked: three tokens, a mask, a softmax."""

import math

import numpy as np

from exercises.d004_masks import printed_mask
from exercises.worked import Check, Solution, Step, num, vec
from npdl.layers.attention import attend, causal_mask

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
    return Solution(
        "2.3",
        (
            Step("Raw scores: every token with every token, over the root of the key's width.",
                 "s = q kᵀ/√d", "the entries are logarithms of whole numbers, to follow by hand",
                 {"s": scores, "eˢ": POWERS}),
            Step("The mask: token t sees itself and what came before.",
                 "M_tk = 1 if k ≤ t, else 0", arrays={"M": M.astype(int)}),
            Step("Where M is 0, write −∞ over the score. Writing 0, or multiplying by M, would be "
                 "wrong: e⁰ = 1.", "s ← s where M = 1, −∞ where M = 0",
                 f"row 1 with 0 in place of −∞ would give the future {num(float(leak), 2)} of "
                 "the weight", {"masked s": shown}),
            Step("Softmax along each row: e^(−∞) = 0.", "A_tk = e^(s_tk) / Σ_l e^(s_tl)",
                 f"row 2: {vec(row, 0)}/({num(row[0], 0)} + {num(row[1], 0)}) = "
                 f"{vec(A[1, :2], 2)}", {"A": A, "without a mask": free}),
            Step("For a batch and all heads at once: the mask (S, S) is broadcast over (B, m, S, "
                 "S).", "A (B, num_heads, S, S)"),
        ),
        f"A = softmax of the scores with −∞ above the diagonal: rows {vec(A[0], 0)}, "
        f"{vec(A[1], 2)}, {vec(A[2], 2)}.",
        (Check("npdl's attention with q kᵀ/√4 = s and its causal mask gives the same A",
               np.allclose(own[0], A)),
         Check("rows sum to 1 and nothing stands above the diagonal",
               np.allclose(A.sum(1), 1) and not np.triu(A, 1).any())),
        f"S = 3; e^s of row 2 is {vec(POWERS[1], 0)}, so s₂ = (0, ln 3, ln 5) = "
        f"{vec([math.log(v) for v in POWERS[1]])}.")


def solutions():
    return [mask()]

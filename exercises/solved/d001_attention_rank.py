"""The worked solution of document 001, Question 4.3: the rank of attention."""

from itertools import combinations

import numpy as np

from exercises.d001_attention_rank import (
    exact_product,
    exact_rank,
    exact_weights,
    library_rank,
    random_ranks,
)
from exercises.worked import Check, Solution, Step, num


def score_powers(n):
    """(the scores i j, over log 2, their exponentials 2^(i j)), (n, n) each."""
    M = np.outer(np.arange(n), np.arange(n))
    return M, 2**M


def differences(nodes):
    """The factors (later, earlier) of a Vandermonde determinant."""
    return [(b, a) for a, b in combinations(nodes, 2)]


def solutions(n=3):
    (M, powers), V = score_powers(n), np.array([[1, 0], [0, 1], [1, 1]])
    A = exact_weights(M)
    out = exact_product(A, V.tolist())
    p, q, a, rank = (exact_rank(rows) for rows in (M.tolist(), V.tolist(), A, out))
    det = np.linalg.det(powers)
    factors = " ".join(f"({b} − {a})" for b, a in differences(powers[1].tolist()))
    cases = random_ranks(60)
    return [Solution(
        "4.3",
        (Step("The output is a product A V. Its columns are combinations of the columns of A, its "
              "rows of the rows of V: a product has no higher rank than either factor.",
              "rank(A V) ≤ min(rank A, rank V) ≤ q", f"here at most {q}"),
         Step("So p matters only through rank A. Is rank A ≤ p? Try scores of rank 1: row i is i "
              "times (0, 1, 2).", "s_ij = i j log 2   →   e^(s_ij) = 2^(i j)",
              f"p = {p}", {"i j": M, "2^(i j)": powers}),
         Step("The softmax divides each row by its sum, which changes no rank; the powers are a "
              "Vandermonde matrix, whose determinant is not 0.",
              "det = Π_(i<j) (2^j − 2^i)",
              f"{factors} = {num(det, 0)} ≠ 0, so rank A = {a} with p = {p}",
              {"A": np.array(A, float)}),
         Step("The exponential acts entry by entry and does not keep ranks: p bounds nothing, "
              "except that p = 0 makes all rows of A equal, so its rank 1.",
              arrays={"V": V, "A V": np.array(out, float)})),
        f"At most q, and there is no bound by p (here p = {p}, q = {q}, and the rank is {rank}); "
        "it is q whenever A is invertible.",
        (Check("npdl's attention has the same rank for these scores.", library_rank(M, V) == rank),
         Check("In 60 random cases, in exact fractions, the rank is never above q, and above p in "
               "some.", all(case["attention"] <= case["q"] for case in cases)
               and any(case["attention"] > case["p"] for case in cases)),
         Check("The ranks here are 1, 2, 3 and 2, as eliminating by hand gives.",
               (p, q, a, rank) == (1, 2, 3, 2))),
        f"n = {n} positions, values of width 2; scores that are whole multiples of log 2 make all "
        "weights fractions.")]

"""Document 001, Question 4.3: the rank of attention, in exact arithmetic.

Scores that are whole multiples of log 2 make the weights fractions, so ranks are exact.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np

from exercises.course import arrays, judge, question
from npdl.layers.attention import ScaledDotAttention


def exact_rank(matrix):
    """Return the rank of a matrix of fractions or integers, by elimination."""
    rows = [[Fraction(value) for value in row] for row in np.asarray(matrix).tolist() if any(row)]
    if not rows:
        return 0
    first, *others = rows
    pivot = next(i for i, value in enumerate(first) if value)
    return 1 + exact_rank([[a - row[pivot] / first[pivot] * b for a, b in zip(
        row, first, strict=True)] for row in others])


def attention(M, V):
    """Return the weights softmax(log(2) M) and the output, as arrays of fractions."""
    powers = np.power(Fraction(2), np.asarray(M, object))
    A = powers / powers.sum(1, keepdims=True)
    return A, A @ np.asarray(V, object)


def ranks(M, V):
    """Return the exact ranks p of the scores log(2) M, q of V, of the weights, of the output."""
    return [exact_rank(matrix) for matrix in (M, V, *attention(M, V))]


def random_ranks(cases=150, n=5):
    """Return the ranks of random integer matrices of random ranks p and q, (cases, 4)."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(cases):
        p, q = rng.integers(0, n + 1, 2)
        M = rng.integers(-2, 3, (n, p)) @ rng.integers(-2, 3, (p, n))
        found.append(ranks(M, rng.integers(-2, 3, (n, q)) @ rng.integers(-2, 3, (q, n))))
    return np.array(found)


@question("001.4.3", "The rank of attention")
def rank_of_attention(say, step, answer, check, claim):
    """Q Kᵀ has rank p and V has rank q. What follows for the rank of softmax(Q Kᵀ/√d) V?"""
    M, V = np.outer(range(3), range(3)), np.array([[1, 0], [0, 1], [1, 1]])
    A, out = attention(M, V)
    p, q, rank_A, rank = ranks(M, V)
    factors = " ".join(f"({b} − {a})" for a, b in combinations(2 ** M[1], 2))
    say("n = 3 positions, values of width 2; scores that are whole multiples of log 2 make "
        "all weights fractions.")
    step("The output is a product A V. Its columns are combinations of the columns of A, its "
         "rows of the rows of V: a product has no higher rank than either factor.",
         "rank(A V) ≤ min(rank A, rank V) ≤ q", f"here at most {q}")
    step("So p matters only through rank A. Is rank A ≤ p? Try scores of rank 1: row i is i "
         "times (0, 1, 2).", "s_ij = i j log 2   →   e^(s_ij) = 2^(i j)", f"p = {p}",
         arrays({"i j": M, "2^(i j)": 2**M}))
    step("The softmax divides each row by its sum, which changes no rank; the powers are a "
         "Vandermonde matrix, whose determinant is not 0.", "det = Π_(i<j) (2^j − 2^i)",
         f"{factors} = {np.linalg.det(2**M):.0f} ≠ 0, so rank A = {rank_A} with p = {p}",
         arrays({"A": A.astype(float)}))
    step("The exponential acts entry by entry and does not keep ranks: p bounds nothing, "
         "except that p = 0 makes all rows of A equal, so its rank 1.",
         arrays({"V": V, "A V": out.astype(float)}))
    answer(f"At most q, and there is no bound by p (here p = {p}, q = {q}, and the rank is "
           f"{rank}); it is q whenever A is invertible.")
    y, _ = ScaledDotAttention().forward(np.log(2) * np.sqrt(3) * M, np.eye(3), V.astype(float))
    check("npdl's attention has the same rank for these scores", np.linalg.matrix_rank(y) == rank)
    check("the ranks here are 1, 2, 3 and 2, as eliminating by hand gives",
          (p, q, rank_A, rank) == (1, 2, 3, 2))
    p, q, weights, rank = random_ranks().T                      # of random cases with 5 positions
    n, identity = 3, np.eye(3, dtype=int)
    one, cancelled = ranks(M, identity), ranks(0 * M, np.array([[1], [1], [-2]]))
    uniform, two = ranks(0 * M, identity), ranks(np.add.outer(range(n), (4, 1, 0)), identity)
    full = weights == 5
    claim("", "The rank of the attention matrix, from p and q.", "none", "at most q",
          judge((rank <= q).all(), "no answer given"),
          f"a product's rank is at most that of its factor V; {len(p)} random integer cases of "
          f"seed 0, exact: above q in {(rank > q).sum()}, above p in {(rank > p).sum()}")
    claim("", "An upper bound in terms of p.", "none, but an answer in p and q is asked for",
          f"there is none for p > 0: p = {one[0]}, q = {one[1]} gives rank {one[3]}",
          judge(one[0] == 1 and one[3] == n, "no answer given"),
          f"scores log(2) i j, n = {n}: the weights are a Vandermonde matrix with scaled rows, of "
          "full rank in fractions; so min(p, q) is not the answer")
    claim("", "When is the rank exactly q?", "none", "whenever the weights are invertible",
          judge(full.any() and (rank == q)[full].all(), "no answer given"),
          f"{full.sum()} of the {len(p)} random cases have weights of full rank: all have rank q")
    claim("", "How far below q can it be?", "none",
          f"down to {cancelled[3]} with q = {cancelled[1]}; at least rank(weights) + q - n",
          judge(cancelled[3] == 0 and (rank >= weights + q - 5).all(), "no answer given"),
          "equal scores, a column of V that sums to 0; the bound (Sylvester) holds in all cases")
    claim("", "What does p say after all?", "none",
          f"p = 0: uniform weights of rank {uniform[2]}; weights of rank 1 need p at most 2",
          judge(uniform[2] == two[2] == 1 and two[0] == 2 and (p[weights == 1] <= 2).all(),
                "no answer given"),
          f"equal rows of weights mean scores c_i + s_j, here of rank {two[0]}; also p <= min(n, "
          "d)")

"""Document 001, Question 4.3: the rank of attention, in exact arithmetic."""

from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, num
from npdl.layers.attention import ScaledDotAttention

QUESTION = """\
4.3  Q K^T has rank p and V has rank q. What follows for the rank of softmax(Q K^T / sqrt(d)) V?
(Scores that are whole multiples of log 2 make the weights fractions, so ranks can be exact.)"""
TITLES = {"4.3": "The rank of attention"}

claim = partial(Claim, "001", "Q4", "3")


def exact_rank(matrix):
    """Rank of a matrix of fractions or integers (rows of equal length), by elimination."""
    rows = [[Fraction(value) for value in row] for row in matrix]
    rank = 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column] != 0), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column] / rows[rank][column]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def exact_weights(M):
    """softmax of the rows of log(2) M for an integer matrix M: rows of fractions."""
    powers = [[Fraction(2) ** int(value) for value in row] for row in M]
    return [[value / sum(row) for value in row] for row in powers]


def exact_product(A, B):
    return [[sum(a * b for a, b in zip(row, column, strict=True))
             for column in zip(*B, strict=True)] for row in A]


def ranks(M, V):
    """{"p": rank of the scores log(2) M, "q": rank of V, "weights", "attention"}, all exact.

    M (n, n) and V (n, e) integers.
    """
    M, V = np.asarray(M), np.asarray(V)
    A, V = exact_weights(M), V.tolist()
    return {"p": exact_rank(M.tolist()), "q": exact_rank(V), "weights": exact_rank(A),
            "attention": exact_rank(exact_product(A, V))}


def random_ranks(cases=150, n=5, seed=0):
    """ranks() of random integer factors of random ranks p and q."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(cases):
        p, q = rng.integers(0, n + 1, 2)
        M = rng.integers(-2, 3, (n, p)) @ rng.integers(-2, 3, (p, n))
        V = rng.integers(-2, 3, (n, q)) @ rng.integers(-2, 3, (q, n))
        found.append(ranks(M, V))
    return found


def library_rank(M, V):
    """Rank of npdl's ScaledDotAttention for scores log(2) M: Q = log(2) sqrt(n) M, K = 1."""
    n = len(M)
    Q = np.log(2) * np.sqrt(n) * np.asarray(M, float)
    y, _ = ScaledDotAttention().forward(Q, np.eye(n), np.asarray(V, float))
    return int(np.linalg.matrix_rank(y))


def claims(n=4):
    found = random_ranks()
    return [*bound_claims(found, n), *exact_claims(found, n)]


def bound_claims(found, n):
    line = np.arange(n)
    thin, identity = np.outer(line, line), np.eye(n, dtype=int)
    one, both = ranks(thin, identity), library_rank(thin, identity)
    above = sum(case["attention"] > case["q"] for case in found)
    beyond = sum(case["attention"] > case["p"] for case in found)
    return [
        claim("The rank of the attention matrix, from p and q.", "none", "at most q",
              judge(above == 0, "no answer given"),
              f"a product's rank is at most that of its factor V; {len(found)} random integer "
              f"cases of seed 0, exact: above q in {above}, above p in {beyond}"),
        claim("An upper bound in terms of p.", "none, but an answer in p and q is asked for",
              f"there is none for p > 0: p = {one['p']}, q = {one['q']} gives rank "
              f"{one['attention']}", judge(one["attention"] == both == n, "no answer given"),
              f"scores log(2) i j, n = {n}: the weights are a Vandermonde matrix with scaled rows, "
              f"of full rank in fractions (npdl's attention: {both}); softmax acts entry by entry "
              "and does not keep ranks, so min(p, q) is not the answer"),
    ]


def exact_claims(found, n):
    line, identity = np.arange(n), np.eye(n, dtype=int)
    ones = [(-1) ** i * (1 + i // 2) for i in range(n - n % 2)] + [0] * (n % 2)
    cancelled = ranks(np.zeros((n, n), int), np.array(ones)[:, None])
    flat = ranks(np.add.outer(line, line[::-1] ** 2), identity)
    uniform = ranks(np.zeros((n, n), int), identity)
    full = [case for case in found if case["weights"] == 5]
    sylvester = all(case["attention"] >= case["weights"] + case["q"] - 5 for case in found)
    thin = uniform["weights"] == flat["weights"] == 1 and flat["p"] == 2
    yield claim("When is the rank exactly q?", "none", "whenever the weights are invertible",
                judge(bool(full) and all(case["attention"] == case["q"] for case in full),
                      "no answer given"),
                f"{len(full)} of the {len(found)} random cases have weights of full rank, and all "
                "of those rank q")
    yield claim("How far below q can it be?", "none",
                f"down to {cancelled['attention']} with q = {cancelled['q']}; at least "
                "rank(weights) + q - n",
                judge(cancelled["attention"] == 0 and sylvester, "no answer given"),
                "equal scores and a column of V that sums to 0; the bound (Sylvester) holds in "
                "all random cases")
    yield claim("What does p say after all?", "none",
                f"p = 0: uniform weights of rank {uniform['weights']}; weights of rank 1 need p "
                "at most 2",
                judge(thin and all(case["p"] <= 2 for case in found if case["weights"] == 1),
                      "no answer given"),
                f"equal rows of weights mean scores c_i + s_j, here of rank {flat['p']}; also p "
                "<= min(n, d)")


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
    work = Solution("4.3",
                    f"n = {n} positions, values of width 2; scores that are whole multiples of "
                    "log 2 make all weights fractions.")
    work.step("The output is a product A V. Its columns are combinations of the columns of A, its "
              "rows of the rows of V: a product has no higher rank than either factor.",
              "rank(A V) ≤ min(rank A, rank V) ≤ q", f"here at most {q}")
    work.step("So p matters only through rank A. Is rank A ≤ p? Try scores of rank 1: row i is i "
              "times (0, 1, 2).", "s_ij = i j log 2   →   e^(s_ij) = 2^(i j)", f"p = {p}",
              {"i j": M, "2^(i j)": powers})
    work.step("The softmax divides each row by its sum, which changes no rank; the powers are a "
              "Vandermonde matrix, whose determinant is not 0.", "det = Π_(i<j) (2^j − 2^i)",
              f"{factors} = {num(det, 0)} ≠ 0, so rank A = {a} with p = {p}",
              {"A": np.array(A, float)})
    work.step("The exponential acts entry by entry and does not keep ranks: p bounds nothing, "
              "except that p = 0 makes all rows of A equal, so its rank 1.",
              arrays={"V": V, "A V": np.array(out, float)})
    work.answer = (f"At most q, and there is no bound by p (here p = {p}, q = {q}, and the rank "
                   f"is {rank}); it is q whenever A is invertible.")
    work.check("npdl's attention has the same rank for these scores.", library_rank(M, V) == rank)
    work.check("In 60 random cases, in exact fractions, the rank is never above q, and above p in "
               "some.",
               all(case["attention"] <= case["q"] for case in cases)
               and any(case["attention"] > case["p"] for case in cases))
    work.check("The ranks here are 1, 2, 3 and 2, as eliminating by hand gives.",
               (p, q, a, rank) == (1, 2, 3, 2))
    yield work

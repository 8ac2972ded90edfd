"""Document 001, Question 4: eigenvectors of the projections of attention, and its rank.

Q = X W_Q and K = X W_K with symmetric W_Q and W_K; the columns of P_Q and P_K are their
eigenvectors. The scores are multiples of log 2, so the weights are fractions and ranks are exact.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np

from exercises.course import format_arrays, judge, question, vec
from npdl.functions import softmax
from npdl.layers.attention import ScaledDotAttention

P = np.array([[0.6, -0.8], [0.8, 0.6]])
HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
LAMBDA, MU = np.array([4.0, 1.0]), np.array([2.0, 1.0])
X = np.array([[0.6, 0.8], [-0.8, 0.6], [1.4, 0.2]])


def make_symmetric(eigenvectors, eigenvalues):
    """Return the symmetric matrix P diag(eigenvalues) Pᵀ for an orthogonal P (d, d)."""
    return (eigenvectors * eigenvalues) @ eigenvectors.T


def attention_weights(X, W_Q, W_K):
    """Return the weights (n, n) of npdl's attention for inputs X (n, d)."""
    return ScaledDotAttention().forward(X @ W_Q, X @ W_K, X)[1].A


@question("001.4.1", "Attention whose projections share their eigenvectors")
def solve_shared_eigenvectors(say, step, answer, check, claim):
    """Prove that attention favours directions along the common eigenvectors if P_Q = P_K."""
    W_Q, W_K, product, parts = make_symmetric(P, LAMBDA), make_symmetric(P, MU), LAMBDA * MU, X @ P
    scores = (parts * product) @ parts.T
    weights = softmax(scores / np.sqrt(2))
    terms = " + ".join(f"{value:.1f}" for value in parts[0] * product * parts[2])
    negated = (parts * -product) @ parts.T
    say("The width is d = 2. X has three inputs as rows: along p₁, along p₂, and between them.")
    step("Write both matrices in terms of their eigenvectors p_k, the columns of P. The "
         "eigenvectors are orthonormal, because the matrices are symmetric.", "W_Q = P diag(λ) "
         "Pᵀ      W_K = P diag(μ) Pᵀ", f"λ = {vec(LAMBDA, 0)}      μ = {vec(MU, 0)}",
         format_arrays({"P": P, "W_Q": W_Q, "W_K": W_K}))
    step("Multiply out the scores. The middle is Pᵀ P = 1, so the eigenvalues are multiplied in "
         "pairs.", "Q Kᵀ = X W_Q W_Kᵀ Xᵀ = X P diag(λ μ) Pᵀ Xᵀ", f"λ μ = {vec(product, 0)}",
         format_arrays({"W_Q W_K": W_Q @ W_K}))
    step("Look at one score. It is a sum over the common directions. Each term is the product of "
         "the query's and the key's component in this direction, weighted by λ_k μ_k.",
         "s_ij = Σ_k λ_k μ_k (x_i · p_k) (x_j · p_k)", f"s₁₃ = {terms} = {scores[0, 2]:.1f}",
         format_arrays({"X": X, "X P (components)": parts, "Q Kᵀ": scores}))
    step("The softmax turns larger scores into larger weights: a query along p₁ prefers keys with "
         "a large positive component along p₁. The preference grows with λ₁μ₁.",
         "a_ij = exp(s_ij/√d) / Σ_l exp(s_il/√d)", format_arrays({"weights": weights}))
    step("The proof also needs λ_k μ_k > 0. If the product is negative, a query along p_k avoids "
         "keys along p_k. If all products are equal, no direction is favoured.",
         f"μ negated: s₁₁ = {negated[0, 0]:.1f} instead of {scores[0, 0]:.1f}")
    answer("Q Kᵀ = Σ_k λ_k μ_k (X p_k)(X p_k)ᵀ. So attention favours the directions with the "
           "largest positive λ_k μ_k, but not every common eigenvector.")
    same = np.allclose(X @ W_Q @ (X @ W_K).T, scores)
    check("npdl's attention has these weights.",
          np.allclose(attention_weights(X, W_Q, W_K), weights))
    values, vectors = np.linalg.eigh(W_Q)
    error = np.abs(make_symmetric(vectors, values) - W_Q).max()
    tokens = np.concatenate([P.T, -P.T])                # along each eigenvector, both ways
    against = 4 * attention_weights(tokens, np.eye(2), -np.eye(2))[0]
    first, second = np.diag(attention_weights(tokens, W_Q, W_Q))[:2]
    claim("", "Both projections are assumed symmetric, and diagonalizable as well.",
          "two assumptions",
          "the second assumption follows from the first, and the eigenvectors are orthogonal",
          judge(error <= 1e-12), f"P diag P^T gives W_Q back with an error of {error:.1g}")
    claim("", "Common eigenvectors turn the scores into a sum over them.",
          "to be proved, no proof given", "Q K^T = sum_k lambda_k mu_k (x_i . p_k)(x_j . p_k)",
          judge(same, "no answer given"), "W_Q W_K^T = P diag(lambda mu) P^T")
    claim("", "Common eigenvectors are enough for attention to favour their directions.",
          "will favour", "true for positive products lambda_k mu_k; if the product is negative, a "
          "query along p_k avoids the key along p_k and favours the opposite key",
          judge(against[0] > 1, if_false="under-specified"),
          "W_Q = 1, W_K = -1, so all products are negative: a query along p_1 gives "
          f"{against[0]:.2f} times the uniform weight to the key along p_1, and {against[2]:.2f} "
          "times to the key along -p_1; true if both matrices are positive definite")
    claim("", "Attention favours keys along the common eigenvectors.", "to be proved", "it favours "
          "those with the largest positive lambda_k mu_k, and only relative to the others",
          judge(first > 0.99 > second, "under-specified"), "lambda = mu = (4, 1): the weight of an "
          f"input on itself is {first:.3f} along p_1 and {second:.3f} along p_2 (uniform: 0.250)")


@question("001.4.2", "Attention whose projections have orthogonal eigenvectors")
def solve_orthogonal_eigenvectors(say, step, answer, check, claim, d=4, n=3):
    """Prove that attention tends to be uniform if all p_Q,i are orthogonal to all p_K,j."""
    inputs = np.array([[1.0, 2, 0, 1], [0, 1, 1, 0], [2, 0, 1, 1]])
    W_Q, W_K = np.diag([3.0, 1, 0, 0]), np.diag([0.0, 0, 2, 5])
    scores, bound = inputs @ W_Q @ (inputs @ W_K).T, 1 / np.sqrt(d)
    a, b = P[:, 0]
    say(f"The premise is tested with d = 2, the repaired premise with d = {d} and n = {n} inputs.")
    step("Look at the premise first. The d eigenvectors of W_K are an orthonormal basis. So the "
         "squared cosines between one eigenvector of W_Q and all of them add up to its squared "
         "length, 1.", "Σ_j (p_Q,i · p_K,j)² = ‖p_Q,i‖² = 1",
         f"d = 2, p = {vec((a, b), 1)} and the axes: {a:.1f}² + {b:.1f}² = 1")
    step("So not all cosines can be 0. If every pair were orthogonal, 1 would equal 0. The premise "
         "as written never holds, so nothing can be concluded from it.", "Σ_j 0² = 0 ≠ 1",
         f"the largest cosine is at least 1/√d = {bound:.1f} for d = {d}")
    step("Repair the premise. Require it only of the eigenvectors with non-zero eigenvalues. These "
         "span the outputs of each matrix, so the product of the matrices is zero.",
         "W_Q W_Kᵀ = Σ_i Σ_j λ_i μ_j (p_Q,i · p_K,j) p_Q,i p_K,jᵀ = 0",
         format_arrays({"W_Q": W_Q, "W_K": W_K, "W_Q W_K": W_Q @ W_K}))
    step("All scores are 0, and the softmax of equal scores is uniform. This holds exactly, for "
         "every X.", "s_ij = x_iᵀ W_Q W_Kᵀ x_j = 0   →   a_ij = e⁰ / (n e⁰) = 1/n",
         format_arrays({"X": inputs, "Q Kᵀ": scores, "weights": softmax(scores / np.sqrt(d))}))
    answer("The premise is impossible. If it is required only of the eigenvectors with non-zero "
           "eigenvalues, then Q Kᵀ = 0 and every weight is 1/n.")
    uniform = np.allclose(attention_weights(inputs, W_Q, W_K), 1 / n)
    check("npdl's attention gives the weight 1/n everywhere for these matrices.", uniform)
    signed, least = np.array([-2.0, 3, 3, -4]), abs(HADAMARD).max()     # against the axes
    weights = [attention_weights(inputs, np.diag(v), make_symmetric(HADAMARD, v))
               for v in (signed, signed / 10)]
    large, small = (-(A * np.log(A)).sum(-1).mean() / np.log(n) for A in weights)   # mean entropies
    claim("", "Every eigenvector of W_Q can be orthogonal to every one of W_K.", "assumed",
          "impossible: the d eigenvectors of W_Q span R^d, so only 0 is orthogonal to all; some "
          f"cosine is at least 1/sqrt(d) = {bound:g}", judge(least < 1e-12),
          "the squared cosines of p with a basis add up to 1; with a Hadamard matrix, all cosines "
          f"are {least:g}", weight="answer")
    claim("", "With such eigenvectors attention tends to be uniform.", "to be proved",
          "it is exactly uniform if the eigenvectors of non-zero eigenvalues are orthogonal, "
          "because then W_Q W_K = 0 and all scores are 0", judge(uniform, "under-specified"),
          "matrices of rank 2 with d = 4: all weights are 1/3; the premise as written is false, so "
          "anything follows from it")
    claim("", "A weaker premise will do: eigenvectors as little aligned as they can be.",
          "tends to be uniform, without saying how nearly orthogonal",
          "this alone is not enough: with the smallest possible overlap, the entropy is only "
          f"{large:.3f} of log n", judge(large > 0.95, if_false="under-specified"),
          f"eigenvalues of size 2 to 4, all cosines {least:g} (Hadamard matrix); true for small "
          f"eigenvalues: if they are a tenth as large, {small:.3f}")
    claim("", "P[:i] is the i-th eigenvector.", "[:i]", "P[:, i]; [:i] means the first i rows",
          judge(np.array_equal(P[:1].ravel(), P[:, 0]), if_false="slip"),
          f"[:1] is the first row, {vec(P[0], 1)}; the eigenvector is {vec(P[:, 0], 1)}")


def exact_rank(matrix):
    """Return the rank of a matrix of fractions or integers, by exact elimination."""
    rows = [[Fraction(value) for value in row] for row in np.asarray(matrix).tolist() if any(row)]
    if not rows:
        return 0
    first, *others = rows
    pivot = next(i for i, value in enumerate(first) if value)
    return 1 + exact_rank([[a - row[pivot] / first[pivot] * b for a, b in zip(
        row, first, strict=True)] for row in others])


def exact_attention(M, V):
    """Return the weights softmax(log(2) M) and the output, as arrays of fractions."""
    powers = np.power(Fraction(2), np.asarray(M, object))
    A = powers / powers.sum(1, keepdims=True)
    return A, A @ np.asarray(V, object)


def find_ranks(M, V):
    """Return the exact ranks p of the scores log(2) M, q of V, of the weights, of the output."""
    return [exact_rank(matrix) for matrix in (M, V, *exact_attention(M, V))]


def ranks_of_random_matrices(cases=150, n=5):
    """Return the ranks of random integer matrices of random ranks p and q, (cases, 4)."""
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(cases):
        p, q = rng.integers(0, n + 1, 2)
        M = rng.integers(-2, 3, (n, p)) @ rng.integers(-2, 3, (p, n))
        ranks.append(find_ranks(M, rng.integers(-2, 3, (n, q)) @ rng.integers(-2, 3, (q, n))))
    return np.array(ranks)


@question("001.4.3", "The rank of attention")
def solve_attention_rank(say, step, answer, check, claim):
    """Q Kᵀ has rank p and V has rank q. What follows for the rank of softmax(Q Kᵀ/√d) V?"""
    M, V = np.outer(range(3), range(3)), np.array([[1, 0], [0, 1], [1, 1]])
    A, out = exact_attention(M, V)
    p, q, rank_A, rank = find_ranks(M, V)
    factors = " ".join(f"({b} − {a})" for a, b in combinations(2 ** M[1], 2))
    say("There are n = 3 positions, and the values have width 2. All scores are multiples of log "
        "2, so all weights are fractions.")
    step("The output is a product A V. Its columns are combinations of the columns of A, and its "
         "rows are combinations of the rows of V. So its rank is at most that of each factor.",
         "rank(A V) ≤ min(rank A, rank V) ≤ q", f"here at most {q}")
    step("So p matters only through the rank of A. Is rank A ≤ p? Test this with scores of rank 1: "
         "row i is i times (0, 1, 2).", "s_ij = i j log 2   →   e^(s_ij) = 2^(i j)", f"p = {p}",
         format_arrays({"i j": M, "2^(i j)": 2**M}))
    step("The softmax divides each row by its sum, which does not change the rank. The powers are "
         "a Vandermonde matrix, whose determinant is not 0.", "det = Π_(i<j) (2^j − 2^i)",
         f"{factors} = {np.linalg.det(2**M):.0f} ≠ 0, so rank A = {rank_A} with p = {p}",
         format_arrays({"A": A.astype(float)}))
    step("The exponential acts elementwise and does not preserve the rank. So p gives no bound. "
         "The only exception is p = 0: then all rows of A are equal, and its rank is 1.",
         format_arrays({"V": V, "A V": out.astype(float)}))
    answer("The rank is at most q, and exactly q if A is invertible. There is no bound by p: here "
           f"p = {p}, q = {q}, and the rank is {rank}.")
    y, _ = ScaledDotAttention().forward(np.log(2) * np.sqrt(3) * M, np.eye(3), V.astype(float))
    check("npdl's attention has the same rank for these scores.", np.linalg.matrix_rank(y) == rank)
    p, q, weights, rank = ranks_of_random_matrices().T         # of random cases with 5 positions
    n, identity = 3, np.eye(3, dtype=int)
    one, cancelled = find_ranks(M, identity), find_ranks(0 * M, np.array([[1], [1], [-2]]))
    uniform, two = (find_ranks(scores, identity) for scores in (
        0 * M, np.add.outer(range(n), (4, 1, 0))))
    full = weights == 5
    claim("", "The rank of the attention matrix, from p and q.", "none", "at most q",
          judge((rank <= q).all(), "no answer given"), "the rank of a product is at most that of "
          f"its factor V; in {len(p)} random integer cases (seed 0, exact), the rank is above q in "
          f"{(rank > q).sum()} and above p in {(rank > p).sum()}")
    claim("", "An upper bound in terms of p.", "none, but an answer in p and q is asked for",
          f"there is none for p > 0: with p = {one[0]} and q = {one[1]}, the rank can be {one[3]}",
          judge(one[0] == 1 and one[3] == n, "no answer given"),
          f"scores log(2) i j, n = {n}: the weights are a Vandermonde matrix with scaled rows, and "
          "have full rank in exact fractions; so min(p, q) is not the answer")
    claim("", "When is the rank exactly q?", "none", "if the weights are invertible",
          judge(full.any() and (rank == q)[full].all(), "no answer given"), f"{full.sum()} of the "
          f"{len(p)} random cases have weights of full rank; the output has rank q in all of them")
    claim("", "How far below q can it be?", "none",
          f"it can be {cancelled[3]} with q = {cancelled[1]}; it is at least rank(weights) + q - n",
          judge(cancelled[3] == 0 and (rank >= weights + q - 5).all(), "no answer given"),
          "example: equal scores, and a V with one column that sums to 0; the bound (Sylvester) "
          "holds in all random cases")
    claim("", "What does p say after all?", "none", "if p = 0, the weights are uniform and have "
          f"rank {uniform[2]}; weights of rank 1 need p at most 2",
          judge(uniform[2] == two[2] == 1 and two[0] == 2 and (p[weights == 1] <= 2).all(),
                "no answer given"), "if all rows of weights are equal, the scores are c_i + s_j, "
          f"here of rank {two[0]}; also p <= min(n, d)")

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
    """Prove that for P_Q = P_K attention favours directions along these common eigenvectors."""
    W_Q, W_K, product, parts = make_symmetric(P, LAMBDA), make_symmetric(P, MU), LAMBDA * MU, X @ P
    scores = (parts * product) @ parts.T
    weights = softmax(scores / np.sqrt(2))
    terms = " + ".join(f"{value:.1f}" for value in parts[0] * product * parts[2])
    negated = (parts * -product) @ parts.T
    say("d = 2, three inputs (the rows of X): one along p₁, one along p₂, one between.")
    step("Write both matrices by their eigenvectors p_k, which are the columns of P, and "
         "orthonormal because the matrices are symmetric.",
         "W_Q = P diag(λ) Pᵀ      W_K = P diag(μ) Pᵀ",
         f"λ = {vec(LAMBDA, 0)}      μ = {vec(MU, 0)}",
         format_arrays({"P": P, "W_Q": W_Q, "W_K": W_K}))
    step("Multiply the scores out. Pᵀ P = 1 is in the middle, so the eigenvalues meet in "
         "pairs.", "Q Kᵀ = X W_Q W_Kᵀ Xᵀ = X P diag(λ μ) Pᵀ Xᵀ",
         f"λ μ = {vec(product, 0)}", format_arrays({"W_Q W_K": W_Q @ W_K}))
    step("Read one score: a sum over the common directions, each with the parts that query "
         "and key have along it, weighted by λ_k μ_k.",
         "s_ij = Σ_k λ_k μ_k (x_i · p_k) (x_j · p_k)", f"s₁₃ = {terms} = {scores[0, 2]:.1f}",
         format_arrays({"X": X, "X P (parts)": parts, "Q Kᵀ": scores}))
    step("The softmax turns larger scores into larger weights: a query along p₁ prefers keys "
         "with a large positive part along p₁, the more the larger λ₁μ₁ is.",
         "a_ij = exp(s_ij/√d) / Σ_l exp(s_il/√d)", format_arrays({"weights": weights}))
    step("What the proof needs besides: λ_k μ_k > 0. With a negative product a query along "
         "p_k avoids keys along p_k; where all products are equal, no direction is favoured.",
         f"μ negated: s₁₁ = {negated[0, 0]:.1f} instead of {scores[0, 0]:.1f}")
    answer("Q Kᵀ = Σ_k λ_k μ_k (X p_k)(X p_k)ᵀ: attention favours the directions with the "
           "largest positive λ_k μ_k, not every common eigenvector.")
    same = np.allclose(X @ W_Q @ (X @ W_K).T, scores)
    check("npdl's attention has these weights",
          np.allclose(attention_weights(X, W_Q, W_K), weights))
    values, vectors = np.linalg.eigh(W_Q)
    tokens = np.concatenate([P.T, -P.T])                # along each eigenvector, both ways
    against = 4 * attention_weights(tokens, np.eye(2), -np.eye(2))[0]
    first, second = np.diag(attention_weights(tokens, W_Q, W_Q))[:2]
    claim("", "Both projections are assumed symmetric, and diagonalizable as well.",
          "two assumptions", "the second follows from the first, with orthogonal eigenvectors",
          judge(np.allclose(make_symmetric(vectors, values), W_Q, 0, 1e-12)),
          "P diag P^T gives W_Q back to below 1e-12")
    claim("", "Common eigenvectors turn the scores into a sum over them.",
          "to be proved, no proof given", "Q K^T = sum_k lambda_k mu_k (x_i . p_k)(x_j . p_k)",
          judge(same, "no answer given"), "W_Q W_K^T = P diag(lambda mu) P^T")
    claim("", "Common eigenvectors are enough for attention to favour their directions.",
          "will favour", "for positive products lambda_k mu_k; with a negative one a key "
          "along p_k is avoided, and the one opposite to it favoured",
          judge(against[0] > 1, if_false="under-specified"),
          "W_Q = 1, W_K = -1, all products negative: a query along p_1 gives the key along "
          f"p_1 {against[0]:.2f} times the uniform weight, the key along -p_1 "
          f"{against[2]:.2f} times; holds if both matrices are positive definite")
    claim("", "Attention favours keys along the common eigenvectors.", "to be proved",
          "those with the largest positive lambda_k mu_k, and only relative to the others",
          judge(first > 0.99 > second, "under-specified"),
          "lambda = mu = (4, 1): inputs along p_1 attend to themselves with "
          f"{first:.3f}, along p_2 with {second:.3f} (uniform: 0.250)")


@question("001.4.2", "Attention whose projections have orthogonal eigenvectors")
def solve_orthogonal_eigenvectors(say, step, answer, check, claim, d=4, n=3):
    """Prove that attention tends to be uniform if all p_Q,i are orthogonal to all p_K,j."""
    inputs = np.array([[1.0, 2, 0, 1], [0, 1, 1, 0], [2, 0, 1, 1]])
    W_Q, W_K = np.diag([3.0, 1, 0, 0]), np.diag([0.0, 0, 2, 5])
    scores, bound = inputs @ W_Q @ (inputs @ W_K).T, 1 / np.sqrt(d)
    a, b = P[:, 0]
    say(f"d = 2 for the premise; d = {d} and n = {n} inputs for the repaired one.")
    step("Look at the premise first. The d eigenvectors of W_K are a basis, so the squared "
         "cosines between one eigenvector of W_Q and all of them add up to its length, 1.",
         "Σ_j (p_Q,i · p_K,j)² = ‖p_Q,i‖² = 1",
         f"d = 2, p = {vec((a, b), 1)} against the axes: {a:.1f}² + {b:.1f}² = 1")
    step("So not all of them can be 0: with every pair orthogonal, 1 would be 0. As written, "
         "the premise never holds, and what follows from it says nothing.", "Σ_j 0² = 0 ≠ 1",
         f"the largest cosine is at least 1/√d = {bound:.1f} for d = {d}")
    step("Repair it: ask it only of the eigenvectors whose eigenvalue is not 0. These span "
         "what each matrix can put out, and then the product vanishes.",
         "W_Q W_Kᵀ = Σ_i Σ_j λ_i μ_j (p_Q,i · p_K,j) p_Q,i p_K,jᵀ = 0",
         format_arrays({"W_Q": W_Q, "W_K": W_K, "W_Q W_K": W_Q @ W_K}))
    step("All scores are 0, and the softmax of equal numbers is uniform: exactly, whatever X "
         "is.", "s_ij = x_iᵀ W_Q W_Kᵀ x_j = 0   →   a_ij = e⁰ / (n e⁰) = 1/n",
         format_arrays({"X": inputs, "Q Kᵀ": scores, "weights": softmax(scores / np.sqrt(d))}))
    answer("The premise is impossible; with eigenvectors of non-zero eigenvalues alone, Q "
           "Kᵀ = 0 and every weight is 1/n.")
    uniform = np.allclose(attention_weights(inputs, W_Q, W_K), 1 / n)
    check("npdl's attention gives 1/n everywhere for these matrices", uniform)
    signed, least = np.array([-2.0, 3, 3, -4]), abs(HADAMARD).max()     # against the axes
    tried = [attention_weights(inputs, np.diag(v), make_symmetric(HADAMARD, v))
             for v in (signed, signed / 10)]
    large, small = (-(A * np.log(A)).sum(-1).mean() / np.log(n) for A in tried)   # mean entropies
    claim("", "Every eigenvector of W_Q can be orthogonal to every one of W_K.", "assumed",
          "impossible: the d eigenvectors of W_Q span R^d, so only 0 is orthogonal to all; "
          f"some cosine is at least 1/sqrt(d) = {bound:g}", judge(least < 1e-12),
          f"the squared cosines of p with a basis add up to 1; Hadamard matrix: all {least:g}",
          weight="answer")
    claim("", "With such eigenvectors attention tends to be uniform.", "to be proved",
          "exactly uniform if the eigenvectors of non-zero eigenvalues are orthogonal: then "
          "W_Q W_K = 0 and all scores are 0", judge(uniform, "under-specified"),
          "rank 2 each, d = 4: all weights 1/3; the premise as written proves anything")
    claim("", "A weaker premise will do: eigenvectors as little aligned as they can be.",
          "tends to be uniform, without saying how nearly orthogonal",
          f"not that alone: entropy {large:.3f} of log n with the least overlap there is",
          judge(large > 0.95, if_false="under-specified"),
          f"eigenvalues of size 2 to 4, all cosines {least:g} (Hadamard); holds for small "
          f"eigenvalues: a tenth as large, {small:.3f}")
    claim("", "P[:i] is the i-th eigenvector.", "[:i]", "P[:, i]; [:i] reads as the first i",
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
    found = []
    for _ in range(cases):
        p, q = rng.integers(0, n + 1, 2)
        M = rng.integers(-2, 3, (n, p)) @ rng.integers(-2, 3, (p, n))
        found.append(find_ranks(M, rng.integers(-2, 3, (n, q)) @ rng.integers(-2, 3, (q, n))))
    return np.array(found)


@question("001.4.3", "The rank of attention")
def solve_attention_rank(say, step, answer, check, claim):
    """Q Kᵀ has rank p and V has rank q. What follows for the rank of softmax(Q Kᵀ/√d) V?"""
    M, V = np.outer(range(3), range(3)), np.array([[1, 0], [0, 1], [1, 1]])
    A, out = exact_attention(M, V)
    p, q, rank_A, rank = find_ranks(M, V)
    factors = " ".join(f"({b} − {a})" for a, b in combinations(2 ** M[1], 2))
    say("n = 3 positions, values of width 2; scores that are whole multiples of log 2 make "
        "all weights fractions.")
    step("The output is a product A V. Its columns are combinations of the columns of A, its "
         "rows of the rows of V: a product has no higher rank than either factor.",
         "rank(A V) ≤ min(rank A, rank V) ≤ q", f"here at most {q}")
    step("So p matters only through rank A. Is rank A ≤ p? Try scores of rank 1: row i is i "
         "times (0, 1, 2).", "s_ij = i j log 2   →   e^(s_ij) = 2^(i j)", f"p = {p}",
         format_arrays({"i j": M, "2^(i j)": 2**M}))
    step("The softmax divides each row by its sum, which changes no rank; the powers are a "
         "Vandermonde matrix, whose determinant is not 0.", "det = Π_(i<j) (2^j − 2^i)",
         f"{factors} = {np.linalg.det(2**M):.0f} ≠ 0, so rank A = {rank_A} with p = {p}",
         format_arrays({"A": A.astype(float)}))
    step("The exponential acts entry by entry and does not keep ranks: p bounds nothing, "
         "except that p = 0 makes all rows of A equal, so its rank 1.",
         format_arrays({"V": V, "A V": out.astype(float)}))
    answer(f"At most q, and there is no bound by p (here p = {p}, q = {q}, and the rank is "
           f"{rank}); it is q whenever A is invertible.")
    y, _ = ScaledDotAttention().forward(np.log(2) * np.sqrt(3) * M, np.eye(3), V.astype(float))
    check("npdl's attention has the same rank for these scores", np.linalg.matrix_rank(y) == rank)
    p, q, weights, rank = ranks_of_random_matrices().T         # of random cases with 5 positions
    n, identity = 3, np.eye(3, dtype=int)
    one, cancelled = find_ranks(M, identity), find_ranks(0 * M, np.array([[1], [1], [-2]]))
    uniform, two = (find_ranks(scores, identity) for scores in (
        0 * M, np.add.outer(range(n), (4, 1, 0))))
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

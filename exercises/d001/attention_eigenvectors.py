"""Document 001, Question 4.1 and 4.2: attention when two projections share eigenvectors, or not."""

from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, below, num, terms
from npdl.layers.attention import ScaledDotAttention

QUESTION = """\
Q = X W_Q, K = X W_K, V = X W_V with d x d matrices, attention = softmax(Q K^T / sqrt(d)) V.
W_Q and W_K are symmetric; the columns of P_Q and of P_K are their eigenvectors.
4.1  Prove that for P_Q = P_K attention favours directions along these common eigenvectors.
4.2  Prove that if every column of P_Q is orthogonal to every column of P_K, attention tends to
     be uniform."""
GROUND = "The document gives no numbers; random inputs are used here."
TITLES = {"4.1": "Attention whose projections share their eigenvectors",
          "4.2": "Attention whose projections have orthogonal eigenvectors"}

claim = partial(Claim, "001", "Q4")


def symmetric(eigenvectors, eigenvalues):
    """P diag(eigenvalues) P^T of an orthogonal P (d, d)."""
    P, values = np.asarray(eigenvectors, float), np.asarray(eigenvalues, float)
    return (P * values) @ P.T


def orthogonal(d, rng):
    """A random orthogonal matrix (d, d)."""
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return Q * np.sign(np.diag(R))


def hadamard(d):
    """An orthogonal matrix with all entries +-1/sqrt(d): d must be a power of 2."""
    H = np.ones((1, 1))
    while len(H) < d:
        H = np.block([[H, H], [H, -H]])
    return H / np.sqrt(d)


def attention_weights(X, W_Q, W_K):
    """softmax(X W_Q (X W_K)^T / sqrt(d)) (n, n), by npdl's ScaledDotAttention."""
    _, cache = ScaledDotAttention().forward(X @ W_Q, X @ W_K, X)
    return cache.A


def scores_by_eigenvectors(X, P, values_Q, values_K):
    """sum_k lambda_k mu_k (x_i . p_k)(x_j . p_k) (n, n): Q K^T for common eigenvectors."""
    parts = X @ P
    return (parts * (values_Q * values_K)) @ parts.T


def entropy(A):
    """Mean entropy of the rows, as a share of log n: 1 is uniform, 0 a single key."""
    logs = np.log(np.where(A > 0, A, 1))
    return float(-(A * logs).sum(-1).mean() / np.log(A.shape[-1]))


def largest_overlap(P_Q, P_K):
    """The largest |cosine| between a column of each."""
    return float(np.abs(P_Q.T @ P_K).max())


def off_line(W, v):
    """How far W v is from a multiple of v, relative to W v: 0 for an eigenvector."""
    along = W @ v
    return float(np.linalg.norm(along - (along @ v) / (v @ v) * v) / np.linalg.norm(along))


def probe(P, length=3.0):
    """Inputs along each eigenvector, both ways: (2 d, d)."""
    return length * np.concatenate([P.T, -P.T])


def claims(d=8, n=12):
    rng = np.random.default_rng(0)
    X, P = rng.standard_normal((n, d)), orthogonal(d, rng)
    return [*premise_claims(d, rng), *aligned_claims(X, P, rng), *orthogonal_claims(X, P, rng)]


def premise_claims(d, rng):
    S = (square := rng.standard_normal((d, d))) + square.T
    error = np.abs(symmetric(*np.linalg.eigh(S)[::-1]) - S).max()
    return [
        claim("", "Both projections are assumed symmetric, and diagonalizable as well.",
              "two assumptions",
              "the second follows from the first, with orthogonal eigenvectors",
              proved(error < 1e-12), f"P diag P^T gives a random symmetric matrix back to "
              f"{below(error, 1e-12)}"),
    ]


def aligned_claims(X, P, rng):
    n, d = X.shape
    lam, mu = rng.standard_normal((2, d))
    direct = (X @ symmetric(P, lam)) @ (X @ symmetric(P, mu)).T
    error = np.abs(direct - scores_by_eigenvectors(X, P, lam, mu)).max()
    tokens = probe(P)
    against = attention_weights(tokens, symmetric(P, np.ones(d)), symmetric(P, -np.ones(d)))
    own, opposite = (float(against[0, k] * len(tokens)) for k in (0, d))
    strong = np.ones(d)
    strong[0] = 4.0
    A = attention_weights(tokens, symmetric(P, strong), symmetric(P, strong))
    along, uniform = [float(A[k, k]) for k in (0, 1)], 1 / len(tokens)
    yield claim("1", "Common eigenvectors turn the scores into a sum over them.",
                "to be proved, no proof given",
                "Q K^T = sum_k lambda_k mu_k (x_i . p_k)(x_j . p_k)",
                judge(error < 1e-9, "no answer given"),
                f"identity error {below(error)}: W_Q W_K^T = P diag(lambda mu) P^T")
    yield claim("1", "Common eigenvectors are enough for attention to favour their directions.",
                "will favour",
                "for positive products lambda_k mu_k; with a negative one a key along p_k is "
                "avoided, and the one opposite to it favoured",
                judge(own > 1, if_false="under-specified"),
                "W_Q = 1, W_K = -1, all products negative: a query along p_1 gives the key along "
                f"p_1 {own:.1e} times the uniform weight, the key along -p_1 {opposite:.1f} "
                "times; holds if a direction is a line, or if both matrices are positive definite")
    yield claim("1", "Attention favours keys along the common eigenvectors.", "to be proved",
                "those with the largest positive lambda_k mu_k, and only relative to the others",
                judge(along[0] > 0.99 > along[1], "under-specified"),
                "lambda = mu = 4 for p_1, 1 for the rest: inputs along p_1 attend to themselves "
                f"with {along[0]:.3f}, along p_2 with {along[1]:.3f} (uniform: "
                f"{uniform:.3f})")


def orthogonal_claims(X, P, rng):
    n, d = X.shape
    overlaps = [largest_overlap(P, orthogonal(d, rng)) for _ in range(200)]
    lowest, least = min(overlaps), largest_overlap(np.eye(d), hadamard(d))
    sums = np.abs(((P.T @ orthogonal(d, rng)) ** 2).sum(0) - 1).max()
    rank, bound = d // 2, 1 / np.sqrt(d)
    half = np.arange(d) < rank
    disjoint = attention_weights(X, symmetric(P, 3.0 * half), symmetric(P, 3.0 * ~half))
    off = np.abs(disjoint - 1 / n).max()
    signed = np.linspace(2.0, 4.0, d) * np.where(np.arange(d) % 3 == 0, -1, 1)
    spread = attention_weights(X, symmetric(np.eye(d), signed), symmetric(hadamard(d), signed))
    small = entropy(attention_weights(X, symmetric(np.eye(d), signed / 10),
                                      symmetric(hadamard(d), signed / 10)))
    apart = symmetric(P, np.arange(1.0, d + 1)), symmetric(np.roll(P, 1, 1), np.arange(1.0, d + 1))
    shifted = attention_weights(X, *apart)
    values = np.arange(1.0, d + 1)
    pairs = np.abs(np.einsum("ij,ij->j", P, np.roll(P, 1, 1))).max()
    yield claim("2", "Every eigenvector of W_Q can be orthogonal to every one of W_K.", "assumed",
                "impossible: the d eigenvectors of W_Q span R^d, so only 0 is orthogonal to all; "
                f"some cosine is at least 1/sqrt(d) = {bound:.4f}",
                judge(min(least, lowest) < 1e-12, provided=sums < 1e-12),
                "the squared cosines of p with a basis add up to 1; least of 200 random pairs "
                f"(seed 0) {lowest:.3f}, Hadamard matrix {least:.4f}", weight="answer")
    yield claim("2", "With such eigenvectors attention tends to be uniform.", "to be proved",
                "exactly uniform if the eigenvectors of non-zero eigenvalues are orthogonal: then "
                "W_Q W_K = 0 and all scores are 0", judge(off < 1e-12, "under-specified"),
                f"rank {rank} each, d = {d}: all weights 1/{n} to {below(off, 1e-12)}; the "
                "premise as written proves anything")
    yield claim("2", "A weaker premise will do: eigenvectors as little aligned as they can be.",
                "tends to be uniform, without saying how nearly orthogonal",
                f"not that alone: entropy {entropy(spread):.3f} of log n with the least overlap "
                f"there is, {entropy(shifted):.3f} with p_Q,i orthogonal to p_K,i for each i",
                judge(min(entropy(spread), entropy(shifted)) > 0.95, if_false="under-specified"),
                "an example, seed 0: "
                f"eigenvalues of size 2 to 4, all cosines {least:.3f} (Hadamard); and P_K = P_Q "
                f"with its columns moved by one, cosines below {max(pairs, 1e-12):.0e}, which is "
                "the case of part 1 again; holds for small eigenvalues: a tenth as large, "
                f"{small:.3f}")
    yield claim("2", "P[:i] is the i-th eigenvector.", "[:i]", "P[:, i]; [:i] reads as the first i",
                judge(np.array_equal(P[:1].ravel(), P[:, 0]), if_false="slip"),
                f"[:1] is the first row, {P[:1].shape}; W_Q times it is off a multiple of it by "
                f"{off_line(symmetric(P, values), P[0]):.2f}, times column 1 by "
                f"{below(off_line(symmetric(P, values), P[:, 0]), 1e-12)}")


P = np.array([[0.6, -0.8], [0.8, 0.6]])
LAMBDA, MU = np.array([4.0, 1.0]), np.array([2.0, 1.0])
X = np.array([[0.6, 0.8], [-0.8, 0.6], [1.4, 0.2]])


def softmax_rows(scores, d):
    """softmax(scores / sqrt(d)) of each row."""
    weights = np.exp(scores / np.sqrt(d))
    return weights / weights.sum(1, keepdims=True)


def projected_scores(X, P, product):
    """(X P, the parts of the inputs along the columns of P; the scores with these products)."""
    parts = X @ P
    return parts, (parts * product) @ parts.T


def score_terms(a, b, product):
    """The terms of the score of two inputs with the parts a and b."""
    return tuple(p * q * r for p, q, r in zip(a, product, b, strict=True))


def solutions():
    return [aligned_solution(), orthogonal_solution()]


def aligned_solution():
    W_Q, W_K = symmetric(P, LAMBDA), symmetric(P, MU)
    product = LAMBDA * MU
    parts, scores = projected_scores(X, P, product)
    weights, one = softmax_rows(scores, len(P)), score_terms(parts[0], parts[2], product)
    negative = scores_by_eigenvectors(X, P, LAMBDA, -MU)
    work = Solution("4.1",
                    "d = 2, three inputs (the rows of X): one along p₁, one along p₂, one between.")
    work.step("Write both matrices by their eigenvectors p_k, which are the columns of P, and "
              "orthonormal because the matrices are symmetric.",
              "W_Q = P diag(λ) Pᵀ      W_K = P diag(μ) Pᵀ",
              f"λ = ({', '.join(num(v, 0) for v in LAMBDA)})      μ = "
              f"({', '.join(num(v, 0) for v in MU)})", {"P": P, "W_Q": W_Q, "W_K": W_K})
    work.step("Multiply the scores out. Pᵀ P = 1 stands in the middle, so the eigenvalues meet in "
              "pairs.", "Q Kᵀ = X W_Q W_Kᵀ Xᵀ = X P diag(λ μ) Pᵀ Xᵀ",
              f"λ μ = ({', '.join(num(v, 0) for v in product)})", {"W_Q W_K": W_Q @ W_K})
    work.step("Read one score: a sum over the common directions, each with the parts that query "
              "and key have along it, weighted by λ_k μ_k.",
              "s_ij = Σ_k λ_k μ_k (x_i · p_k) (x_j · p_k)",
              f"s₁₃ = {terms(one, 1)} = {num(scores[0, 2], 1)}",
              {"X": X, "X P (parts)": parts, "Q Kᵀ": scores})
    work.step("The softmax turns larger scores into larger weights: a query along p₁ prefers keys "
              "with a large positive part along p₁, the more the larger λ₁μ₁ is.",
              "a_ij = exp(s_ij/√d) / Σ_l exp(s_il/√d)", arrays={"weights": weights})
    work.step("What the proof needs besides: λ_k μ_k > 0. With a negative product a query along "
              "p_k avoids keys along p_k; where all products are equal, no direction is favoured.",
              numbers=f"μ negated: s₁₁ = {num(negative[0, 0], 1)} instead of "
                      f"{num(scores[0, 0], 1)}")
    work.answer = ("Q Kᵀ = Σ_k λ_k μ_k (X p_k)(X p_k)ᵀ: attention favours the directions with the "
                   "largest positive λ_k μ_k, not every common eigenvector.")
    work.check("X W_Q (X W_K)ᵀ, multiplied directly, is the same matrix.",
               np.allclose(X @ W_Q @ (X @ W_K).T, scores))
    work.check("npdl's attention has these weights.",
               np.allclose(attention_weights(X, W_Q, W_K), weights))
    return work


def orthogonal_solution(d=4, n=3):
    cosines, bound = P.T @ np.eye(2), 1 / np.sqrt(d)
    squares = (cosines[0] ** 2).sum()
    rng = np.random.default_rng(0)
    basis, inputs = np.eye(d), np.array([[1.0, 2, 0, 1], [0, 1, 1, 0], [2, 0, 1, 1]])
    values = np.array([3.0, 1, 0, 0]), np.array([0.0, 0, 2, 5])
    W_Q, W_K = (symmetric(basis, v) for v in values)
    scores = inputs @ W_Q @ (inputs @ W_K).T
    weights = softmax_rows(scores, d)
    lowest = min(largest_overlap(orthogonal(d, rng), orthogonal(d, rng)) for _ in range(50))
    work = Solution("4.2",
                    f"d = 2 for the premise; d = {d} and n = {n} inputs for the repaired one.")
    work.step("Look at the premise first. The d eigenvectors of W_K are a basis, so the squared "
              "cosines between one eigenvector of W_Q and all of them add up to its length, 1.",
              "Σ_j (p_Q,i · p_K,j)² = ‖p_Q,i‖² = 1",
              f"d = 2, p = ({num(P[0, 0], 1)}, {num(P[1, 0], 1)}) against the axes: "
              f"{num(cosines[0, 0], 1)}² + {num(cosines[0, 1], 1)}² = "
              f"{num(squares, 0)}")
    work.step("So not all of them can be 0: with every pair orthogonal, 1 would be 0. As written, "
              "the premise never holds, and what follows from it says nothing.", "Σ_j 0² = 0 ≠ 1",
              f"the largest cosine is at least 1/√d = {num(bound, 1)} for d = {d}")
    work.step("Repair it: ask it only of the eigenvectors whose eigenvalue is not 0. These span "
              "what each matrix can put out, and then the product vanishes.",
              "W_Q W_Kᵀ = Σ_i Σ_j λ_i μ_j (p_Q,i · p_K,j) p_Q,i p_K,jᵀ = 0",
              arrays={"W_Q": W_Q, "W_K": W_K, "W_Q W_K": W_Q @ W_K})
    work.step("All scores are 0, and the softmax of equal numbers is uniform: exactly, whatever X "
              "is.", "s_ij = x_iᵀ W_Q W_Kᵀ x_j = 0   →   a_ij = e⁰ / (n e⁰) = 1/n",
              arrays={"X": inputs, "Q Kᵀ": scores, "weights": weights})
    work.answer = ("The premise is impossible; with eigenvectors of non-zero eigenvalues alone, Q "
                   "Kᵀ = 0 and every weight is 1/n.")
    work.check("npdl's attention gives 1/n everywhere for these matrices.",
               np.allclose(attention_weights(inputs, W_Q, W_K), 1 / n))
    work.check(f"In 50 random pairs of bases (seed 0) the largest cosine is never below 1/√{d} "
               f"(least {num(lowest)}).", lowest >= bound - 1e-12)
    return work

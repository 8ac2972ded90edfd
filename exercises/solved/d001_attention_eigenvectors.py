"""The worked solutions of document 001, Questions 4.1 and 4.2: attention and eigenvectors."""

import numpy as np

from exercises.d001_attention_eigenvectors import (
    attention_weights,
    largest_overlap,
    orthogonal,
    scores_by_eigenvectors,
    symmetric,
)
from exercises.worked import Check, Solution, Step, num, terms

P = np.array([[0.6, -0.8], [0.8, 0.6]])
LAMBDA, MU = np.array([4.0, 1.0]), np.array([2.0, 1.0])
X = np.array([[0.6, 0.8], [-0.8, 0.6], [1.4, 0.2]])


def softmax_rows(scores, d):
    """softmax(scores / sqrt(d)) of each row."""
    weights = np.exp(scores / np.sqrt(d))
    return weights / weights.sum(1, keepdims=True)


def along(X, P, product):
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
    parts, scores = along(X, P, product)
    weights, one = softmax_rows(scores, len(P)), score_terms(parts[0], parts[2], product)
    negative = scores_by_eigenvectors(X, P, LAMBDA, -MU)
    return Solution(
        "4.1",
        (Step("Write both matrices by their eigenvectors p_k, which are the columns of P, and "
              "orthonormal because the matrices are symmetric.",
              "W_Q = P diag(λ) Pᵀ      W_K = P diag(μ) Pᵀ",
              f"λ = ({', '.join(num(v, 0) for v in LAMBDA)})      μ = "
              f"({', '.join(num(v, 0) for v in MU)})",
              {"P": P, "W_Q": W_Q, "W_K": W_K}),
         Step("Multiply the scores out. Pᵀ P = 1 stands in the middle, so the eigenvalues meet in "
              "pairs.", "Q Kᵀ = X W_Q W_Kᵀ Xᵀ = X P diag(λ μ) Pᵀ Xᵀ",
              f"λ μ = ({', '.join(num(v, 0) for v in product)})", {"W_Q W_K": W_Q @ W_K}),
         Step("Read one score: a sum over the common directions, each with the parts that query "
              "and key have along it, weighted by λ_k μ_k.",
              "s_ij = Σ_k λ_k μ_k (x_i · p_k) (x_j · p_k)",
              f"s₁₃ = {terms(one, 1)} = {num(scores[0, 2], 1)}",
              {"X": X, "X P (parts)": parts, "Q Kᵀ": scores}),
         Step("The softmax turns larger scores into larger weights: a query along p₁ prefers keys "
              "with a large positive part along p₁, the more the larger λ₁μ₁ is.",
              "a_ij = exp(s_ij/√d) / Σ_l exp(s_il/√d)", arrays={"weights": weights}),
         Step("What the proof needs besides: λ_k μ_k > 0. With a negative product a query along "
              "p_k avoids keys along p_k; where all products are equal, no direction is favoured.",
              numbers=f"μ negated: s₁₁ = {num(negative[0, 0], 1)} instead of "
                      f"{num(scores[0, 0], 1)}")),
        "Q Kᵀ = Σ_k λ_k μ_k (X p_k)(X p_k)ᵀ: attention favours the directions with the largest "
        "positive λ_k μ_k, not every common eigenvector.",
        (Check("X W_Q (X W_K)ᵀ, multiplied directly, is the same matrix.",
               np.allclose(X @ W_Q @ (X @ W_K).T, scores)),
         Check("npdl's attention has these weights.",
               np.allclose(attention_weights(X, W_Q, W_K), weights))),
        "d = 2, three inputs (the rows of X): one along p₁, one along p₂, one between.",
        picture="entropy of the weights for aligned and other projections")


def orthogonal_solution(d=4, n=3):
    cosines = P.T @ np.eye(2)
    rng = np.random.default_rng(0)
    basis, inputs = np.eye(d), np.array([[1.0, 2, 0, 1], [0, 1, 1, 0], [2, 0, 1, 1]])
    values = np.array([3.0, 1, 0, 0]), np.array([0.0, 0, 2, 5])
    W_Q, W_K = (symmetric(basis, v) for v in values)
    scores = inputs @ W_Q @ (inputs @ W_K).T
    weights = softmax_rows(scores, d)
    lowest = min(largest_overlap(orthogonal(d, rng), orthogonal(d, rng)) for _ in range(50))
    return Solution(
        "4.2",
        (Step("Look at the premise first. The d eigenvectors of W_K are a basis, so the squared "
              "cosines between one eigenvector of W_Q and all of them add up to its length, 1.",
              "Σ_j (p_Q,i · p_K,j)² = ‖p_Q,i‖² = 1",
              f"d = 2, p = ({num(P[0, 0], 1)}, {num(P[1, 0], 1)}) against the axes: "
              f"{num(cosines[0, 0], 1)}² + {num(cosines[0, 1], 1)}² = "
              f"{num((cosines[0] ** 2).sum(), 0)}"),
         Step("So not all of them can be 0: with every pair orthogonal, 1 would be 0. As written, "
              "the premise never holds, and what follows from it says nothing.",
              "Σ_j 0² = 0 ≠ 1", f"the largest cosine is at least 1/√d = {num(1 / np.sqrt(d), 1)} "
              f"for d = {d}"),
         Step("Repair it: ask it only of the eigenvectors whose eigenvalue is not 0. These span "
              "what each matrix can put out, and then the product vanishes.",
              "W_Q W_Kᵀ = Σ_i Σ_j λ_i μ_j (p_Q,i · p_K,j) p_Q,i p_K,jᵀ = 0",
              arrays={"W_Q": W_Q, "W_K": W_K, "W_Q W_K": W_Q @ W_K}),
         Step("All scores are 0, and the softmax of equal numbers is uniform: exactly, whatever X "
              "is.", "s_ij = x_iᵀ W_Q W_Kᵀ x_j = 0   →   a_ij = e⁰ / (n e⁰) = 1/n",
              arrays={"X": inputs, "Q Kᵀ": scores,
                      "weights": weights})),
        "The premise is impossible; with eigenvectors of non-zero eigenvalues alone, Q Kᵀ = 0 and "
        "every weight is 1/n.",
        (Check("npdl's attention gives 1/n everywhere for these matrices.",
               np.allclose(attention_weights(inputs, W_Q, W_K), 1 / n)),
         Check(f"In 50 random pairs of bases the largest cosine is never below 1/√{d} "
               f"(least {num(lowest)}).", lowest >= 1 / np.sqrt(d) - 1e-12)),
        f"d = 2 for the premise; d = {d} and n = {n} inputs for the repaired one.")

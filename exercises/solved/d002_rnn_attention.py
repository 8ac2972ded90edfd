"""Document 002, Problem 5, worked: attention over two past states, and three queries at once."""

import math

import numpy as np

from exercises.d002_rnn_attention import attention_one_by_one
from exercises.worked import Check, Solution, Step, num, terms, vec
from npdl.functions import softmax

PAST = np.array([[1.0, 0.0], [0.0, 1.0]])   # h_1 and h_2
S = np.array([math.log(3), 0.0])            # what the RNN makes of x_3 and h_2


def step_with_attention(s, past):
    """(scores, weights, a, h) of h = s + sum_j alpha_j past_j, the scores taken with s."""
    scores = [float(s @ h) for h in past]
    weights = softmax(np.array(scores))
    a = sum(w * h for w, h in zip(weights, past, strict=True))
    return scores, weights, a, s + a


def recurrent():
    """Part (a)."""
    scores, weights, a, h = step_with_attention(S, PAST)
    powers = [math.exp(e) for e in scores]
    return Solution(
        "5a",
        (
            Step("Run the RNN as usual to get a state that does not know of attention yet. It is "
                 "the query; scoring the h₃ that is only being made would be circular.",
                 "s₃ = RNN(x₃, h₂)", arrays={"s₃": S, "h₁": PAST[0], "h₂": PAST[1]}),
            Step("Score the query against each past state.", "e₃ⱼ = s₃ · hⱼ,   j < 3",
                 f"e₃₁ = {num(scores[0])},   e₃₂ = {num(scores[1])}"),
            Step("Softmax over the same j: the weights add up to 1.",
                 "α₃ⱼ = e^(e₃ⱼ) / Σ_(l<3) e^(e₃ₗ)",
                 f"{num(powers[0], 0)}/({terms(powers, 0)}) = {num(weights[0], 2)},   "
                 f"{num(powers[1], 0)}/({terms(powers, 0)}) = {num(weights[1], 2)}"),
            Step("Weigh the past states and add the result to the state.",
                 "a₃ = Σⱼ α₃ⱼ hⱼ,   h₃ = s₃ + a₃",
                 f"a₃ = {num(weights[0], 2)} · {vec(PAST[0], 0)} + {num(weights[1], 2)} · "
                 f"{vec(PAST[1], 0)} = {vec(a, 2)},   h₃ = {vec(h)}"),
            Step("What is won: h₁ reaches h₃ in one step, with weight α₃₁, however far back it "
                 "is. What is not won: h₃ still waits for h₂, step after step.",
                 "∂h₃/∂h₁ holds α₃₁ I, no product of Jacobians",
                 f"α₃₁ = {num(weights[0], 2)}"),
        ),
        f"hₜ = sₜ + Σ_(j<t) αₜⱼ hⱼ with sₜ = RNN(xₜ, hₜ₋₁) and α the softmax of the scores of sₜ; "
        f"here h₃ = {vec(h)}.",
        (Check("the weights sum to 1 and a₃ is the definition's, by plain loops",
               abs(sum(weights) - 1) < 1e-12
               and np.allclose(a, attention_one_by_one(S[None], PAST, PAST)[0])),),
        "Third step of an RNN with two units.")


def matrix_form():
    """Part (b)."""
    Q = np.array([[math.log(2), 0.0], [0.0, math.log(3)], [0.0, 0.0]])
    K, V = np.eye(2), np.array([[10.0, 0.0], [0.0, 10.0]])
    scores = Q @ K.T
    A = softmax(scores)
    Y = A @ V
    loops = attention_one_by_one(Q, K, V)
    columns = np.exp(scores) / np.exp(scores).sum(0)
    return Solution(
        "5b",
        (
            Step("Put one vector in each row: n queries, t keys, t values.",
                 "Q (n, d),   K (t, d),   V (t, e)", arrays={"Q": Q, "K": K, "V": V}),
            Step("Row i, column j of Q Kᵀ is the score of query i and key j.",
                 "S = Q Kᵀ,   Sᵢⱼ = qᵢ · kⱼ   (n, t)", arrays={"Q Kᵀ": scores}),
            Step("Softmax along each row, so that every query's weights add up to 1. Row 1: "
                 "e^(ln 2) = 2 and e⁰ = 1.", "Aᵢⱼ = e^(Sᵢⱼ) / Σₗ e^(Sᵢₗ)",
                 f"2/3 = {num(A[0, 0])}, 1/3 = {num(A[0, 1])};   row 2: {vec(A[1], 2)};   row 3: "
                 f"{vec(A[2], 2)}", {"A": A}),
            Step("Weigh the values.", "Y = A V   (n, e)", arrays={"Y": Y}),
        ),
        "Attention(Q, K, V) = softmax(Q Kᵀ) V, softmax along each row: (n, d)(d, t)(t, e) → "
        f"(n, e), here {Q.shape} and {V.shape} to {Y.shape}.",
        (Check("a loop over the definition gives the same Y", np.allclose(Y, loops)),
         Check("rows of A sum to 1, columns of it do not; along columns Y would be another",
               np.allclose(A.sum(1), 1) and not np.allclose(columns @ V, Y))),
        "Three queries, two keys and values; the scores are logarithms, so that e^S is whole.")


def solutions():
    return [recurrent(), matrix_form()]

"""Document 002, Problem 5: self-attention in an RNN, and attention in matrix form."""

import math

import numpy as np

from exercises.course import format_arrays, judge, question, vec
from exercises.d004.layer_norm_attention import row_influence
from npdl.functions import softmax
from npdl.layers.attention import AdditiveAttention, DotAttention, ScaledDotAttention
from npdl.layers.recurrent import RecurrentLayer, RNNCell
from npdl.models.attentive_rnn import AttentiveRNN


def attention_by_loops(Q, K, V):
    """Return Σᵢ αᵢ vᵢ for every row q of Q, αᵢ = exp(q·kᵢ) / Σⱼ exp(q·kⱼ), by loops."""
    rows = []
    for q in Q:
        e = [math.exp(q @ k) for k in K]
        rows.append(sum(e_i * v for e_i, v in zip(e, V, strict=True)) / sum(e))
    return np.array(rows)


@question("002.5a", "Self-attention in an RNN")
def solve_attention_in_rnn(say, step, answer, check, claim):
    """Explain how self-attention is added to an RNN, and what its advantages are."""
    past, s = np.eye(2), np.array([math.log(3), 0.0])
    scores = past @ s
    powers, weights = np.exp(scores), softmax(scores)
    a = weights @ past
    say("The example is the third step of an RNN with two units.")
    step("Run the RNN as usual to get a state s₃ without attention. This state is the query. h₃ "
         "can't be the query, because it is computed from the scores.", "s₃ = RNN(x₃, h₂)",
         format_arrays({"s₃": s, "h₁": past[0], "h₂": past[1]}))
    step("Compute the score of the query with each past state.", "e₃ⱼ = s₃ · hⱼ,   j < 3",
         f"e₃₁ = {scores[0]:.3f},   e₃₂ = {scores[1]:.3f}")
    total = f"({powers[0]:.0f} + {powers[1]:.0f})"
    step("Apply the softmax over the same j, so that the weights add up to 1.",
         "α₃ⱼ = e^(e₃ⱼ) / Σ_(l<3) e^(e₃ₗ)", f"{powers[0]:.0f}/{total} = {weights[0]:.2f},   "
         f"{powers[1]:.0f}/{total} = {weights[1]:.2f}")
    step("Compute the weighted sum of the past states, and add it to the state.",
         "a₃ = Σⱼ α₃ⱼ hⱼ,   h₃ = s₃ + a₃", f"a₃ = {weights[0]:.2f} · {vec(past[0], 0)} + "
         f"{weights[1]:.2f} · {vec(past[1], 0)} = {vec(a, 2)},   h₃ = {vec(s + a)}")
    step("The advantage is a direct path: h₁ reaches h₃ in one step with the weight α₃₁, however "
         "long ago it was. The steps are still sequential, because h₃ needs h₂.", "∂h₃/∂h₁ "
         "contains the term α₃₁ I, which is not a product of Jacobians", f"α₃₁ = {weights[0]:.2f}")
    answer("hₜ = sₜ + Σ_(j<t) αₜⱼ hⱼ, where sₜ = RNN(xₜ, hₜ₋₁) and αₜ is the softmax of the scores "
           f"of sₜ. Here h₃ = {vec(s + a)}.")
    check("The weights sum to 1, and loops over the definition give the same a₃.",
          abs(weights.sum() - 1) < 1e-12
          and np.allclose(a, attention_by_loops(s[None], past, past)))
    rng = np.random.default_rng(1)
    queries, h = rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    additive = AdditiveAttention(4, 4, 6, dtype="float64")
    W_1, W_2, v = additive.W_q.W.data, additive.W_k.W.data, additive.a.data
    printed = {DotAttention(): queries @ h.T, ScaledDotAttention(): queries @ h.T / np.sqrt(4),
               additive: np.tanh((queries @ W_1)[:, None] + h @ W_2) @ v}
    errors = [abs(layer.forward(queries, h, h)[1].A - softmax(e)).max()
              for layer, e in printed.items()]
    mass = softmax(h @ h[-1])[-1]
    fixed_points = 3 * rng.standard_normal((200, 2))
    for _ in range(500):                                        # h = Σ softmax(h · past) past
        fixed_points = DotAttention().forward(fixed_points, 3 * past, 3 * past)[0]
    solutions = np.unique(fixed_points.round(6), axis=0)
    model = AttentiveRNN(1, 4, bias=False, dtype="float64")
    model.cell.W_x.data[...], model.cell.W_h.data[...] = 5, 0           # saturated units
    (states, _), _ = model.forward(np.ones((1, 100, 1)))
    bounds = abs(states[0, [0, 9, 99]]).max(1)
    claim("", "h_t is computed from scores of h_t against the past states",
          "e_tl = score(h_t, h_l), then h_t = RNN(x_t, h_(t-1)) + a_t",
          "this defines h_t by itself; the query must be known before, such as RNN(x_t, h_(t-1))",
          judge(len(solutions) == 1, if_false="under-specified"),
          f"past states (3, 0), (0, 3) and RNN output 0: iteration finds {len(solutions)} "
          f"solutions h_t, {'; '.join(sorted(vec(h, 1) for h in solutions))}; true if the query is "
          "the state before a_t is added, as in npdl's AttentiveRNN")
    claim("", "dot, additive and scaled dot product are score functions",
          "h.h, v.tanh(W_1 h + W_2 h), h.h / sqrt(d)", "as printed; the V of the additive score is "
          "a vector, not the matrix V of values", judge(max(errors) < 1e-12),
          f"npdl's three attention layers agree with the formulas, error {max(errors):.1g}")
    claim("", "alpha_tl = exp(e_tl) / sum_j exp(e_tj), then a_t = sum_(j < t) alpha_tj h_j",
          "the range of j in the softmax is not given",
          "j < t in both: with j = t in the softmax, the weights used do not sum to 1; at t = 1 "
          "the sum is empty, so a_1 = 0", judge(mass < 1e-3, if_false="under-specified"),
          f"an example with seed 1: if j includes t, {100 * mass:.0f} % of the weight is lost")
    claim("", "adding a_t to the state enhances retention and learning",
          "combine them by h_t = RNN(x_t, h_(t-1)) + a_t",
          "the state is not bounded by 1 any more: each step adds a mean of past states, so it "
          "grows", judge(bounds[-1] <= 1, if_false="under-specified"), "with an input that "
          f"saturates every unit, the largest entry is {vec(bounds, 2)} after 1, 10, 100 steps")
    x, lengths = np.random.default_rng(4).standard_normal((1, 60, 4)), []
    for layer in (RecurrentLayer(RNNCell(4, 16, bias=False, rng=4, dtype="float64")),
                  AttentiveRNN(4, 16, rng=4, bias=False, dtype="float64")):  # the same weights
        outputs, cache = layer.forward(x)
        dy = np.zeros_like(outputs[0])
        dy[:, -1] = 1
        lengths.append(np.linalg.norm(layer.backward(dy, cache)[0][0, 0]))
    rng, T = np.random.default_rng(5), 6
    model = AttentiveRNN(2, 3, rng=5, dtype="float64")
    x, h, past = (rng.standard_normal(shape) for shape in ((T, 2), (1, 3), (1, 1, 3)))
    seen = row_influence(lambda x: model.forward(x[None])[0][0][0], x) > 0
    chained = row_influence(lambda h: model.forward(x[None, :1], (h, past))[0][0][0], h) > 0
    claim("", "RNNs struggle with long ranges; self-attention lets them capture these",
          "vanishing gradients; better long-range dependencies",
          f"over 60 steps, dL/dx_1 has length {lengths[0]:.1e} without attention and "
          f"{lengths[1]:.1e} with it", judge(lengths[1] > 1e3 * lengths[0]),
          "an example with seed 4: npdl's RNN and AttentiveRNN with the same weights")
    claim("", "each token attends to all others, not only to past states",
          "to all others instead of past states alone", "by the document's formulas, it attends "
          "only to past states: l < t", judge(seen[np.triu_indices(T, 1)].any()),
          f"{T} steps: y_t depends on x_l in {seen.sum()} of {T * T} cases, and never if l > t")
    claim("", "it enables parallel computation, unlike the sequential updates of an RNN",
          "parallel computation", "not here: h_t still needs h_(t-1), so the steps are sequential",
          judge(not chained.any()),
          "a change of h_(t-1) changes h_t, so T tokens need T sequential steps")


@question("002.5b", "Attention in matrix form")
def solve_attention_as_matrices(say, step, answer, check, claim):
    """Write attention with queries, keys and values as products of matrices."""
    Q = np.array([[math.log(2), 0.0], [0.0, math.log(3)], [0.0, 0.0]])
    K, V = np.eye(2), 10 * np.eye(2)
    scores = Q @ K.T
    A = softmax(scores)
    Y = A @ V
    say("There are three queries, and two keys with values. The scores are logarithms of integers.")
    step("Write one vector in each row: n queries, t keys, t values.",
         "Q (n, d),   K (t, d),   V (t, e)", format_arrays({"Q": Q, "K": K, "V": V}))
    step("The entry in row i and column j of Q Kᵀ is the score of query i and key j.",
         "S = Q Kᵀ,   Sᵢⱼ = qᵢ · kⱼ   (n, t)", format_arrays({"Q Kᵀ": scores}))
    step("Apply the softmax along each row, so that the weights of every query add up to 1. In row "
         "1, e^(ln 2) = 2 and e⁰ = 1.", "Aᵢⱼ = e^(Sᵢⱼ) / Σₗ e^(Sᵢₗ)",
         f"2/3 = {A[0, 0]:.3f}, 1/3 = {A[0, 1]:.3f};   row 2: {vec(A[1], 2)};   row 3: "
         f"{vec(A[2], 2)}", format_arrays({"A": A}))
    step("Compute the weighted sums of the values.", "Y = A V   (n, e)", format_arrays({"Y": Y}))
    answer("Attention(Q, K, V) = softmax(Q Kᵀ) V, with the softmax along each row. The shapes are "
           f"(n, d)(d, t)(t, e) → (n, e), here {Q.shape} and {V.shape} to {Y.shape}.")
    check("A loop over the definition gives the same Y.",
          np.allclose(Y, attention_by_loops(Q, K, V)))
    columns = np.exp(scores) / np.exp(scores).sum(0)
    loops, by_row = attention_by_loops(Q, K, V), DotAttention().forward(Q, K, V)[0]
    off = np.abs(columns @ V - Y).max()
    claim("", "attention of many queries is softmax(Q K^T) V, softmax along each row",
          "A = softmax(Q K^T), output A V", "Q (n, d), K (t, d), V (t, e) with one vector per row: "
          "A is (n, t), and the output is (n, e)",
          judge(np.allclose(by_row, loops, 0, 1e-12) and off > 1e-3), "npdl's DotAttention agrees "
          f"with a loop over the definition, error {np.abs(by_row - loops).max():.1g}; with the "
          f"softmax along columns, the error is {off:.1f}")

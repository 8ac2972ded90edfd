"""Document 002, Problem 5: self-attention in an RNN, and attention in matrix form.

npdl's AttentiveRNN is the document's network with the query made before the state it changes.
"""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.probes import influence
from exercises.worked import Solution, below, listing, num, terms, vec
from npdl.functions import softmax
from npdl.layers.attention import AdditiveAttention, DotAttention, ScaledDotAttention
from npdl.layers.recurrent import RNNLayer
from npdl.models.attentive_rnn import AttentiveRNN

QUESTION = """\
Problem 5. (a) How is self-attention built into an RNN? The document scores h_t against all h_l, \
takes a softmax, forms a_t = sum_(j < t) alpha_tj h_j and sets h_t = RNN(x_t, h_(t-1)) + a_t.
(b) Write attention of queries q_1 .. q_n to keys k_1 .. k_t with values v_1 .. v_t as matrices."""

TITLES = {"5a": "Self-attention in an RNN", "5b": "Attention in matrix form"}

claim_of = partial(Claim, "002", "Problem 5")


def attention_one_by_one(Q, K, V):
    """sum_i alpha_i v_i for every row q of Q (n, d), alpha_i = exp(q.k_i) / sum_j exp(q.k_j).

    K (t, d) and V (t, e). Plain loops over the definition; returns (n, e).
    """
    Q, K, V = (np.asarray(M, float) for M in (Q, K, V))
    rows = []
    for q in Q:
        top = max(float(q @ k) for k in K)
        e = [np.exp(float(q @ k) - top) for k in K]
        rows.append(sum(e_i * v for e_i, v in zip(e, V, strict=True)) / sum(e))
    return np.array(rows)


def matrix_form_errors(n=4, t=6, d=3, e=5, seed=0):
    """Error of softmax(Q K^T) V against the loops, softmax along each row and along each column."""
    rng = np.random.default_rng(seed)
    Q, K, V = (rng.standard_normal(shape) for shape in ((n, d), (t, d), (t, e)))
    loops = attention_one_by_one(Q, K, V)
    by_row, _ = DotAttention().forward(Q, K, V)
    weights = np.exp(Q @ K.T)
    by_column = (weights / weights.sum(0)) @ V
    return tuple(float(np.abs(y - loops).max()) for y in (by_row, by_column))


def score_errors(d=4, n=3, t=5, seed=1):
    """{score: error of npdl's attention against the document's formula for e_tl}, in float64."""
    rng = np.random.default_rng(seed)
    h, past = rng.standard_normal((n, d)), rng.standard_normal((t, d))
    additive = AdditiveAttention(d, d, 6, dtype="float64")
    W_1, W_2, v = additive.W_q.W.data, additive.W_k.W.data, additive.a.data
    formulas = {
        "dot": (DotAttention(), lambda a, b: a @ b),
        "additive": (additive, lambda a, b: v @ np.tanh(a @ W_1 + b @ W_2)),
        "scaled dot": (ScaledDotAttention(), lambda a, b: a @ b / np.sqrt(d)),
    }
    found = {}
    for name, (layer, score) in formulas.items():
        A = layer.forward(h, past, past)[1].A
        e = np.exp([[score(a, b) for b in past] for a in h])
        found[name] = float(np.abs(A - e / e.sum(-1, keepdims=True)).max())
    return found


def fixed_points(s, past, tries=200, seed=2):
    """The different solutions h of h = s + sum_l softmax(h . past_l) past_l, found by iteration.

    s (H,), past (P, H): the document's step with the score of h_t itself taken at its word.
    """
    H, found = 3 * np.random.default_rng(seed).standard_normal((tries, len(s))), []
    for _ in range(500):
        H = s + DotAttention().forward(H, past, past)[0]
    for h in H:
        if all(np.abs(h - other).max() > 1e-6 for other in found):
            found.append(h)
    return found


def missing_mass(t=5, d=4, seed=3):
    """1 - the sum of the weights used in a_t, if the softmax over j ranges up to t itself."""
    h = np.random.default_rng(seed).standard_normal((t, d))
    e = np.exp(h @ h[-1])
    return float(e[-1] / e.sum())


def first_step_gradient(steps=60, width=16, seed=4):
    """Length of dL/dx_1, L a sum over the last state: a plain RNN, and one with attention."""
    x = np.random.default_rng(seed).standard_normal((1, steps, 4))
    plain = RNNLayer(4, width, bias=False, rng=seed, dtype="float64")
    attentive = AttentiveRNN(4, width, rng=seed, bias=False, dtype="float64")   # the same weights
    lengths = []
    for layer in (plain, attentive):
        outputs, cache = layer.forward(x)
        dy = np.zeros_like(outputs[0])
        dy[:, -1] = 1
        dx = layer.backward(dy, cache)[0]
        lengths.append(float(np.linalg.norm(dx[0, 0])))
    return tuple(lengths)


def largest_state(steps, width=4):
    """The largest entry of the state of an AttentiveRNN after `steps` steps, s_t near 1."""
    model = AttentiveRNN(1, width, bias=False, dtype="float64")
    model.cell.W_x.data[...], model.cell.W_h.data[...] = 5, 0
    (_, (h, _)), _ = model.forward(np.ones((1, steps, 1)))
    return float(np.abs(h).max())


def definition():
    """Claims of part (a) on the formulas."""
    solutions = fixed_points(np.zeros(2), np.array([[3.0, 0.0], [0.0, 3.0]]))
    shown = "; ".join(sorted(listing(h + 0.0, ".1f", "()") for h in solutions))
    errors = score_errors()
    mass, bounds = missing_mass(), [largest_state(steps) for steps in (1, 10, 100)]
    percent = 100 * mass
    yield claim_of(
        "a", "h_t is computed from scores of h_t against the past states",
        "e_tl = score(h_t, h_l), then h_t = RNN(x_t, h_(t-1)) + a_t",
        "as equations they define h_t by itself; the query has to be something known before, such "
        "as RNN(x_t, h_(t-1)) or h_(t-1)",
        judge(len(solutions) == 1, if_false="under-specified"),
        f"past states (3, 0), (0, 3) and RNN output 0: {len(solutions)} vectors h_t solve it by "
        f"iteration, {shown}; holds if the h_t that is scored is the state before a_t is added, "
        "as in npdl's AttentiveRNN")
    yield claim_of(
        "a", "dot, additive and scaled dot product are score functions",
        "h.h, v.tanh(W_1 h + W_2 h), h.h / sqrt(d)",
        "as printed; the V of the additive one is a vector, not the matrix V of values",
        proved(max(errors.values()) < 1e-12),
        f"npdl's three attentions against the formulas: error {below(max(errors.values()))}")
    yield claim_of(
        "a", "alpha_tl = exp(e_tl) / sum_j exp(e_tj), then a_t = sum_(j < t) alpha_tj h_j",
        "the range of j in the softmax is not given",
        "j < t there too: with j = t in the softmax the weights used do not sum to 1, and at "
        "t = 1 the sum is empty and a_1 = 0",
        judge(mass < 1e-3, "confirmed", "under-specified"),
        "an example, seed 3: "
        f"5 random states: with j up to t, {percent:.0f} % of the weight is lost")
    yield claim_of(
        "a", "adding a_t to the state enhances retention and learning",
        "combine them by h_t = RNN(x_t, h_(t-1)) + a_t",
        "the state is no longer bounded by 1: it adds a mean of states to one, and grows",
        judge(bounds[-1] <= 1, "confirmed", "under-specified"),
        f"input saturating every unit: largest entry {listing(bounds, '.2f')} after 1, 10, 100 "
        "steps")


def benefits():
    """Claims of part (a) on what attention brings."""
    plain, attentive = first_step_gradient()
    rng, steps = np.random.default_rng(5), 6
    pairs = steps * steps
    model = AttentiveRNN(2, 3, rng=5, dtype="float64")
    x, h, past = (rng.standard_normal(shape) for shape in ((steps, 2), (1, 3), (1, 1, 3)))
    seen = influence(lambda x: model.forward(x[None])[0][0][0], x) > 0
    chained = influence(lambda h: model.forward(x[None, :1], (h, past))[0][0][0], h).max() > 0
    yield claim_of(
        "a", "RNNs struggle with long ranges; self-attention lets them capture these",
        "vanishing gradients; better long-range dependencies",
        f"over 60 steps dL/dx_1 has length {plain:.1e} without and {attentive:.1e} with attention",
        judge(attentive > 1e3 * plain),
        "an example, seed 4: the same weights, npdl's RNN and AttentiveRNN")
    yield claim_of(
        "a", "each token attends to all others, not only to past states",
        "to all others instead of past states alone",
        "by the formulas that follow, only to past states: l < t",
        judge(bool(seen[np.triu_indices(steps, 1)].any()), provided=np.allclose(
            influence(lambda x: x.cumsum(0), x), np.tri(steps))),
        f"{steps} steps: y_t depends on {int(seen.sum())} of {pairs} inputs x_l, on none "
        "with l > t")
    yield claim_of(
        "a", "it enables parallel computation, unlike the sequential updates of an RNN",
        "parallel computation",
        "not here: h_t still needs h_(t-1), and now all earlier states as well; the steps remain "
        "a chain",
        judge(not chained), "h_(t-1) moved, h_t moves: T steps, one after another, for T tokens")


def matrices():
    """Claims of part (b)."""
    by_row, by_column = matrix_form_errors()
    yield claim_of(
        "b", "attention of many queries is softmax(Q K^T) V, softmax along each row",
        "A = softmax(Q K^T), output A V",
        "Q (n, d), K (t, d), V (t, e) with one vector a row: A is (n, t), the output (n, e)",
        proved(by_row < 1e-12 < 1e-3 < by_column),
        "an example, seed 0: "
        f"against a loop over the definition: error {below(by_row)}; along columns it would be "
        f"{by_column:.1f}")


def claims():
    return [*definition(), *benefits(), *matrices()]


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
    work = Solution("5a", "Third step of an RNN with two units.")
    work.step("Run the RNN as usual to get a state that does not know of attention yet. It is the "
              "query; scoring the h₃ that is only being made would be circular.",
              "s₃ = RNN(x₃, h₂)", arrays={"s₃": S, "h₁": PAST[0], "h₂": PAST[1]})
    work.step("Score the query against each past state.", "e₃ⱼ = s₃ · hⱼ,   j < 3",
              f"e₃₁ = {num(scores[0])},   e₃₂ = {num(scores[1])}")
    work.step("Softmax over the same j: the weights add up to 1.",
              "α₃ⱼ = e^(e₃ⱼ) / Σ_(l<3) e^(e₃ₗ)",
              f"{num(powers[0], 0)}/({terms(powers, 0)}) = {num(weights[0], 2)},   "
              f"{num(powers[1], 0)}/({terms(powers, 0)}) = {num(weights[1], 2)}")
    work.step("Weigh the past states and add the result to the state.",
              "a₃ = Σⱼ α₃ⱼ hⱼ,   h₃ = s₃ + a₃",
              f"a₃ = {num(weights[0], 2)} · {vec(PAST[0], 0)} + {num(weights[1], 2)} · "
              f"{vec(PAST[1], 0)} = {vec(a, 2)},   h₃ = {vec(h)}")
    work.step("What is won: h₁ reaches h₃ in one step, with weight α₃₁, however far back it is. "
              "What is not won: h₃ still waits for h₂, step after step.",
              "∂h₃/∂h₁ holds α₃₁ I, no product of Jacobians", f"α₃₁ = {num(weights[0], 2)}")
    work.answer = ("hₜ = sₜ + Σ_(j<t) αₜⱼ hⱼ with sₜ = RNN(xₜ, hₜ₋₁) and α the softmax of the "
                   f"scores of sₜ; here h₃ = {vec(h)}.")
    work.check("the weights sum to 1 and a₃ is the definition's, by plain loops",
               abs(sum(weights) - 1) < 1e-12
               and np.allclose(a, attention_one_by_one(S[None], PAST, PAST)[0]))
    return work


def matrix_form():
    """Part (b)."""
    Q = np.array([[math.log(2), 0.0], [0.0, math.log(3)], [0.0, 0.0]])
    K, V = np.eye(2), np.array([[10.0, 0.0], [0.0, 10.0]])
    scores = Q @ K.T
    A = softmax(scores)
    Y = A @ V
    loops = attention_one_by_one(Q, K, V)
    columns = np.exp(scores) / np.exp(scores).sum(0)
    work = Solution("5b",
                    "Three queries, two keys and values; the scores are logarithms, so that e^S "
                    "is whole.")
    work.step("Put one vector in each row: n queries, t keys, t values.",
              "Q (n, d),   K (t, d),   V (t, e)", arrays={"Q": Q, "K": K, "V": V})
    work.step("Row i, column j of Q Kᵀ is the score of query i and key j.",
              "S = Q Kᵀ,   Sᵢⱼ = qᵢ · kⱼ   (n, t)", arrays={"Q Kᵀ": scores})
    work.step("Softmax along each row, so that every query's weights add up to 1. Row 1: e^(ln 2) "
              "= 2 and e⁰ = 1.", "Aᵢⱼ = e^(Sᵢⱼ) / Σₗ e^(Sᵢₗ)",
              f"2/3 = {num(A[0, 0])}, 1/3 = {num(A[0, 1])};   row 2: {vec(A[1], 2)};   row 3: "
              f"{vec(A[2], 2)}", {"A": A})
    work.step("Weigh the values.", "Y = A V   (n, e)", arrays={"Y": Y})
    work.answer = ("Attention(Q, K, V) = softmax(Q Kᵀ) V, softmax along each row: (n, d)(d, t)(t, "
                   f"e) → (n, e), here {Q.shape} and {V.shape} to {Y.shape}.")
    work.check("a loop over the definition gives the same Y", np.allclose(Y, loops))
    work.check("rows of A sum to 1, columns of it do not; along columns Y would be another",
               np.allclose(A.sum(1), 1) and not np.allclose(columns @ V, Y))
    return work


def solutions():
    return [recurrent(), matrix_form()]

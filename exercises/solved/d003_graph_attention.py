"""Document 003, Question 6 (d) and (e), worked: attention as messages, and what length does."""

import math

import numpy as np

from exercises.d003_graph_attention import attention_as_messages, largest_weights
from exercises.worked import Check, Solution, Step, Table, num, terms, vec
from npdl.functions import softmax

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
Q = np.array([[math.log(2), 0.0]])          # so that every e^score is a whole number
K = np.array([[1.0, 1.0]])
V = np.array([[1.0, 0.0], [0.0, 3.0]])


def messages_to(i):
    """(scores, weights, messages V h_j) of token i, token by token."""
    scores = [float((Q @ H[i]) @ (K @ h)) for h in H]
    total = sum(math.exp(s) for s in scores)
    return scores, [math.exp(s) / total for s in scores], [V @ h for h in H]


def special_case():
    """Part (d)."""
    scores, weights, sent = messages_to(0)
    new = sum(w * m for w, m in zip(weights, sent, strict=True))
    powers = [math.exp(s) for s in scores]
    A = softmax((H @ Q.T) @ (H @ K.T).T)
    return Solution(
        "6d",
        (
            Step("Set the two updates side by side, and name for each part of (16) what it is in "
                 "(18).", "graph:      hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))\n"
                 "attention:  hᵢ' = Σⱼ softmaxⱼ(Q hᵢ · K hⱼ) V hⱼ",
                 table=Table(("in the graph", "in attention"), (
                     ("vertices", "tokens"),
                     ("N(vᵢ)", "all tokens, i itself too"),
                     ("fⱼᵢ(hⱼ)", "V hⱼ, the same f on every edge"),
                     ("Agg", "sum with weights eᵢⱼ = softmaxⱼ(Q hᵢ · K hⱼ)"),
                     ("q(hᵢ, m)", "m")))),
            Step("Token 1 by the graph's rules. Messages first.", "mⱼ = V hⱼ",
                 "   ".join(vec(m, 0) for m in sent)),
            Step("Weights of its three incoming edges: they need hᵢ of the receiver and hⱼ of the "
                 "sender.", "eᵢⱼ = e^(Q hᵢ · K hⱼ) / Σₗ e^(Q hᵢ · K hₗ)",
                 f"e^score = {', '.join(num(p, 0) for p in powers)}, sum {num(sum(powers), 0)}:   "
                 f"e₁ⱼ = {vec(weights, 2)}"),
            Step("Aggregate; q hands the result on.", "h₁' = Σⱼ e₁ⱼ mⱼ",
                 " + ".join(f"{num(w, 2)} · {vec(m, 0)}" for w, m in
                            zip(weights, sent, strict=True)) + f" = {vec(new, 2)}"),
            Step("The same for all tokens at once is the matrix form.",
                 "H' = softmax(H Qᵀ (H Kᵀ)ᵀ) H Vᵀ",
                 arrays={"weights": A, "H Vᵀ": H @ V.T, "H'": A @ H @ V.T}),
        ),
        "Complete graph with loops, f = V, Agg the sum weighted by softmax(Q hᵢ · K hⱼ), q(h, m) = "
        f"m; token 1 becomes {vec(new, 2)} both ways.",
        (Check("token 1 of the matrix form equals the messages' sum",
               np.allclose((A @ H @ V.T)[0], new)),
         Check("npdl's MessagePassing with these weights gives all three tokens",
               np.allclose(attention_as_messages(H, Q, K, V), A @ H @ V.T))),
        "Three tokens h₁ = (1, 0), h₂ = (0, 1), h₃ = (1, 1); Q h is ln 2 times the first entry, "
        "K h the sum of both.")


def long_range(bound=2.0):
    """Part (e)."""
    lengths = (4, 100, 10_000)
    weights = largest_weights(lengths, bound)
    rows = tuple((n, n * (n - 1), f"{w:.3g}") for n, w in zip(lengths, weights, strict=True))
    n = lengths[1]
    parts = [math.exp(bound), (n - 1) * math.exp(-bound)]
    return Solution(
        "6e",
        (
            Step("Count the edges: every token sends a message to every other.", "n (n − 1)",
                 ";   ".join(f"n = {n}: {n * (n - 1):,}" for n in lengths)),
            Step("Look at one edge that matters among n. With scores between −B and B its weight "
                 "is largest if it has B and all others −B.",
                 "e_max = e^B / (e^B + (n − 1) e^(−B)) ≈ e^(2B)/n for large n",
                 f"B = {num(bound, 0)}, n = {n}: {num(parts[0])} / ({terms(parts)}) = "
                 f"{num(weights[1])}"),
            Step("So length dilutes: unless scores grow with ln n, a far token drowns.",
                 table=Table(("n", "edges", "largest weight"), rows)),
            Step("A graph without the far edges (a window, a few global tokens) costs less, but "
                 "then a message takes several rounds, and is mixed with others on its way."),
        ),
        f"The graph is complete: n² messages, and one token's weight falls as 1/n "
        f"({weights[0]:.2g} at n = {lengths[0]}, {weights[-1]:.2g} at {lengths[-1]:,}).",
        (Check("the formula against a softmax of n scores",
               all(abs(softmax(np.array([bound, *[-bound] * (n - 1)]))[0] - w) < 1e-12
                   for n, w in zip(lengths, weights, strict=True))),),
        f"Scores between −{num(bound, 0)} and {num(bound, 0)}.")


def solutions():
    return [special_case(), long_range()]

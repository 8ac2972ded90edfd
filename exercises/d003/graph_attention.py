"""Document 003, Question 6 (d) and (e): attention as message passing on a complete graph.

npdl's GraphAttention is MessagePassing, h_i' = q(h_i, sum_j e_ij f(h_j)), with e_ij by a softmax.
"""

import math
from functools import partial

import numpy as np

from exercises.d003.message_passing import edges_of
from exercises.framework import Claim, judge, judgement, proved
from exercises.probes import influence
from exercises.worked import Check, Solution, Step, Table, below, listing, num, terms, vec
from npdl.errors import InputError
from npdl.functions import softmax
from npdl.layers.attention import attend
from npdl.layers.graph import GraphAttention, MessagePassing, Replace
from npdl.layers.linear import Linear

QUESTION = """\
Question 6. On a graph, h_i' = q(h_i, Agg({f_ji(h_j): j in N(i)})) (16).
(d) Show that attention, h_i' = sum_j softmax_j(Q h_i . K h_j) V h_j (18), is a special case.
(e) Seen as a graph, why are very long ranges hard for a transformer?"""

TITLES = {"6d": "Attention as a graph network", "6e": "Long ranges on a complete graph"}

claim_of = partial(Claim, "003", "Q6")

def attention_as_messages(h, Q, K, V, loops=True):
    """Attention of h (N, D) by (16): messages V h_j, and Agg with weights from both ends.

    Q and K (E, D), V (F, D). Without loops no node hears itself.
    """
    N = len(h)
    if N < 1 + (not loops):
        raise InputError(f"{N} nodes without loops: a node with no one to hear has no attention")
    e = np.zeros((N, N))
    for i in range(N):
        scores = {j: float((Q @ h[i]) @ (K @ h[j])) for a, j in edges_of(N, loops) if a == i}
        top = max(scores.values())
        total = sum(np.exp(s - top) for s in scores.values())
        for j, s in scores.items():
            e[i, j] = np.exp(s - top) / total
    layer = MessagePassing(_linear(V), Replace())
    return layer.forward(np.asarray(h, float), e)[0]


def attention_errors(h, Q, K, V):
    """Largest differences from softmax_j(Q h_i . K h_j) V h_j: messages with loops, messages
    without loops, npdl's GraphAttention, and attention scaled by 1/sqrt(E).

    h (N, D), Q and K (E, D), V (F, D).
    """
    right, _ = attend(h @ Q.T, h @ K.T, h @ V.T, scale=1.0)
    scaled, _ = attend(h @ Q.T, h @ K.T, h @ V.T)
    layer = GraphAttention(Q.shape[1], len(Q), dtype="float64")
    layer.W_Q, layer.W_K = _linear(Q), _linear(K)
    layer.passing = MessagePassing(_linear(V), Replace())
    others = (attention_as_messages(h, Q, K, V), attention_as_messages(h, Q, K, V, False),
              layer.forward(h)[0], scaled)
    return [float(np.abs(y - right).max()) for y in others]


def score_exists(rows_of_Q, rows_of_K, width=3):
    """Whether Q h_i . K h_j of (18) is defined for matrices with these numbers of rows."""
    h = np.ones(width)
    try:
        np.dot(np.ones((rows_of_Q, width)) @ h, np.ones((rows_of_K, width)) @ h)
    except ValueError:
        return False
    return True


def largest_weights(lengths=(10, 100, 1000), bound=2.0):
    """The largest weight one token can get when all scores lie within +-bound."""
    return [float(np.exp(bound) / (np.exp(bound) + (n - 1) * np.exp(-bound))) for n in lengths]


def spread_after(layers, h):
    """Distance of the states h (N, D) from their mean, relative to their length, by layer."""
    found = []
    for _ in range(layers):
        h, _ = attend(h, h, h)
        found.append(float(np.linalg.norm(h - h.mean(0)) / np.linalg.norm(h)))
    return found


def _linear(W):
    """The layer x -> W x, W (out, in), in float64."""
    layer = Linear(W.shape[1], W.shape[0], bias=False, dtype="float64")
    layer.W.data[...] = W.T
    return layer


def equivalence():
    """Claims of part (d)."""
    rng = np.random.default_rng(0)
    h, *QKV = (rng.standard_normal(shape) for shape in ((5, 4), (3, 4), (3, 4), (2, 4)))
    messages, without, layer, scaled = attention_errors(h, *QKV)
    moved = influence(lambda first: attend(first, h, h, scale=1.0)[1].A, h[:1])[0, 0]
    rows = (1, 4)
    yield claim_of(
        "d", "attention with one head is a special case of a GNN", "to be shown",
        "complete graph with loops, f_ji(h_j) = V h_j, Agg = sum with weights softmax_j(Q h_i . K "
        "h_j), q(h_i, m) = m",
        proved(max(messages, layer) < 1e-12),
        f"5 random tokens: MessagePassing and GraphAttention differ from (18) by "
        f"{below(max(messages, layer))}")
    yield claim_of(
        "d, premise", "Agg depends on the incoming messages alone", "Agg({f_ji(h_j)}) in (16)",
        "for attention it must see h_i too: the weights come from both ends of an edge",
        judge(moved < 1e-12, "confirmed", "under-specified"),
        f"h_1 changed and nothing else: a weight of vertex 1 moves by {moved:.2f}; (20) weighs by "
        "sender too, which no function of a set of messages can")
    yield claim_of(
        "d, premise", "a word is updated from each other word", "each other word j",
        "the sum in (18) runs over all j in S, the word itself included; loops are needed",
        judge(without < 1e-9, if_false="slip", provided=messages < 1e-9),
        f"without loops the result differs by up to {without:.2f}")
    yield claim_of(
        "d, premise", "the scores are Q h_i . K h_j", "standard equation",
        "without the 1/sqrt(d) of transformers; both are message passing",
        judge(scaled > 1e-3, "convention"),
        f"with it the result differs by up to {scaled:.2f} on the same 5 tokens")
    yield claim_of(
        "d, premise", "Q, K, V hold vector representations of words", "after: weight matrices",
        "in (17) and (18) they are weight matrices that multiply h; the queries, keys and values "
        "are the products",
        judge(score_exists(*rows)),
        f"with {rows[0]} word in Q and {rows[1]} in K, one a row, Q h_i has {rows[0]} entry and "
        f"K h_j has {rows[1]}: their dot product in (18) does not exist")


def long_range():
    """Claims of part (e)."""
    lengths = (10, 100, 1000)
    weights = largest_weights(lengths)
    spread = spread_after(6, np.random.default_rng(2).standard_normal((16, 8)))
    edges = [len(edges_of(n)) for n in lengths]
    yield claim_of(
        "e", "why long ranges are hard on a complete graph", "none printed",
        f"n (n - 1) edges, {listing(edges, 'd')} at n = {listing(lengths, 'd')}; and with bounded "
        "scores a single token's weight falls as 1/n",
        judgement("essay", provided=weights == sorted(weights, reverse=True)),
        f"scores within +-2: largest possible weight {listing(weights)}; without residuals, 6 "
        f"layers bring 16 states together: distance from their mean {listing(spread)}")


def claims():
    return [*equivalence(), *long_range()]


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


def worked_long_range(bound=2.0):
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
    return [special_case(), worked_long_range()]

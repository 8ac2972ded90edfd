"""Document 003, Question 6 (d) and (e): attention as message passing on a complete graph.

npdl's GraphAttention is MessagePassing, h_i' = q(h_i, sum_j e_ij f(h_j)), with e_ij by a softmax.
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.d003_message_passing import edges_of
from exercises.framework import Claim, judge, judgement, proved, run_script
from exercises.probes import influence
from exercises.shown import below, listing
from npdl.errors import InputError
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


if __name__ == "__main__":
    sys.exit(run_script(globals()))

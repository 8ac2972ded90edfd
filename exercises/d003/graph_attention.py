"""Document 003, Question 6 (d) and (e): attention as message passing on a complete graph.

npdl's GraphAttention is MessagePassing, h_i' = q(h_i, sum_j e_ij f(h_j)), with e_ij by a softmax.
"""

import math
from functools import partial

import numpy as np

from exercises.d003.message_passing import edges_of
from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, Table, below, listing, num, terms, vec
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


def attention_by_messages(h, Q, K, V, loops=True):
    """Attention of h (N, D) by (16), vertex by vertex: f(h_j) = (K h_j, V h_j), Agg collects these
    pairs, and q(h_i, pairs) weighs the values by a softmax of Q h_i with the keys.

    Q and K (E, D), V (F, D). Without loops no node hears itself.
    """
    def message(j):
        return K @ h[j], V @ h[j]

    return np.array([updated(Q @ h[i], [message(j) for a, j in edges_of(len(h), loops) if a == i])
                     for i in range(len(h))])


def updated(query, pairs):
    """q: the values of [(key, value)] weighted by a softmax of their keys with the query (E,)."""
    scores = [float(query @ key) for key, _ in pairs]
    powers = [math.exp(score - max(scores)) for score in scores]
    return sum(power / sum(powers) * value for power, (_, value) in zip(powers, pairs, strict=True))


def same_values(keys=((0, 1, 2), (0, 0, 0)), values=(1, 2, 3)):
    """What a vertex with the query ln 2 becomes where its messages V h_j are `values`, for each of
    the lists of keys: where these differ, no Agg of the values alone can tell."""
    query = np.array([math.log(2)])
    return [float(updated(query, [(np.array([key]), value) for key, value in
                                  zip(own, values, strict=True)])) for own in keys]


def attention_errors(h, Q, K, V):
    """Largest differences from softmax_j(Q h_i . K h_j) V h_j: messages with loops, messages
    without loops, and npdl's GraphAttention.

    h (N, D), Q and K (E, D), V (F, D).
    """
    right = attend(h @ Q.T, h @ K.T, h @ V.T, scale=1.0)[0]
    layer = GraphAttention(Q.shape[1], len(Q), dtype="float64")
    layer.W_Q, layer.W_K = _linear(Q), _linear(K)
    layer.passing = MessagePassing(_linear(V), Replace())
    others = (attention_by_messages(h, Q, K, V), attention_by_messages(h, Q, K, V, False),
              layer.forward(h)[0])
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
    messages, without, layer = attention_errors(h, *QKV)
    with_keys, without_keys = same_values()
    rows = (1, 4)
    yield claim_of(
        "d", "attention with one head is a special case of a GNN", "to be shown",
        "complete graph with loops, f_ji(h_j) = (K h_j, V h_j), Agg collects these pairs, q(h_i, "
        "pairs) = sum over the pairs (k, v) of softmax(Q h_i . k) v",
        proved(max(messages, layer) < 1e-14),
        f"5 random tokens: these messages and npdl's GraphAttention differ from (18) by "
        f"{below(max(messages, layer), 1e-14)}")
    yield claim_of(
        "d, premise", "Agg depends on the incoming messages alone", "Agg({f_ji(h_j)}) in (16)",
        "that is enough, if the messages hold the keys: q sees h_i, and makes the weights. With "
        "f_ji(h_j) = V h_j it would not be",
        proved(messages < 1e-14 and abs(with_keys - without_keys) > 0.1),
        f"messages V h_j of 1, 2, 3 and one Q h_1, but other keys: attention gives "
        f"{with_keys:.2f} and {without_keys:.2f}, and no function of 1, 2, 3 gives both")
    yield claim_of(
        "d, premise", "a word is updated from each other word", "each other word j",
        "the sum in (18) runs over all j in S, the word itself included; loops are needed",
        judge(without < 1e-9, if_false="slip", provided=messages < 1e-9),
        f"an example, seed 0: without loops the result differs by up to {without:.2f}")
    yield claim_of(
        "d, premise", "Q, K, V hold vector representations of words", "after: weight matrices",
        "in (17) and (18) they are weight matrices that multiply h; the queries, keys and values "
        "are the products",
        judge(score_exists(*rows), provided=score_exists(4, 4)),
        f"with {rows[0]} word in Q and {rows[1]} in K, one a row, Q h_i has {rows[0]} entry and "
        f"K h_j has {rows[1]}: their dot product in (18) does not exist")


def rounds_to_reach(n, window):
    """Layers until the last of n tokens hears of the first, if each hears `window` tokens back."""
    near = np.tril(np.triu(np.ones((n, n), int), -window))
    reach, rounds = near.copy(), 1
    while not reach[-1, 0]:
        reach, rounds = np.minimum(reach @ near, 1), rounds + 1
    return rounds


def order_error(h, seed=4):
    """How far attention of permuted tokens is from the permuted attention of h (N, D)."""
    order = np.random.default_rng(seed).permutation(len(h))
    return float(np.abs(attend(h, h, h)[0][order] - attend(*[h[order]] * 3)[0]).max())


def long_range():
    """Claims of part (e)."""
    lengths = (10, 100, 1000)
    weights = largest_weights(lengths)
    h = np.random.default_rng(2).standard_normal((16, 8))
    spread, blind = spread_after(6, h), order_error(h)
    edges = [len(edges_of(n)) for n in lengths]
    rounds = [rounds_to_reach(n, 8) for n in (9, 17, 100)]
    yield claim_of(
        "e", "why long ranges are hard on a complete graph", "none printed",
        f"n (n - 1) edges, {listing(edges, 'd')} at n = {listing(lengths, 'd')}; with bounded "
        "scores a single token's weight falls as 1/n; all tokens are one edge away, so that the "
        "graph knows no distance; and round by round the states become alike",
        judgement("essay", provided=weights == sorted(weights, reverse=True) and blind < 1e-12
                  and spread == sorted(spread, reverse=True) and rounds == [1, 2, 13]),
        "an example of states, seed 2; "
        f"scores within +-2: largest possible weight {listing(weights)}; without residuals, 6 "
        f"layers bring 16 states together: distance from their mean {listing(spread)}; a graph "
        f"that only links 8 tokens back takes {listing(rounds, 'd')} layers at n = [9, 17, 100]")


def claims():
    return [*equivalence(), *long_range()]


H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
Q = np.array([[math.log(2), 0.0]])          # so that every e^score is a whole number
K = np.array([[1.0, 1.0]])
V = np.array([[1.0, 0.0], [0.0, 3.0]])


def special_case():
    """Part (d)."""
    keys, values, query = [K @ h for h in H], [V @ h for h in H], Q @ H[0]
    powers = [math.exp(query @ key) for key in keys]
    weights = [power / sum(powers) for power in powers]
    new = sum(w * v for w, v in zip(weights, values, strict=True))
    A = softmax((H @ Q.T) @ (H @ K.T).T)
    error = np.abs(attention_by_messages(H, Q, K, V)
                   - attend(H @ Q.T, H @ K.T, H @ V.T, scale=1.0)[0]).max()
    with_keys, without_keys = same_values()
    work = Solution("6d",
                    "Three tokens h₁ = (1, 0), h₂ = (0, 1), h₃ = (1, 1); Q h is ln 2 times the "
                    "first entry, K h the sum of both.")
    work.step("Set the two updates side by side, and say for each part of (16) what it sees: f "
              "one sender, Agg the messages and nothing else, q the receiver and what Agg made.",
              "graph:      hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))\nattention:  hᵢ' = Σⱼ softmaxⱼ(Q hᵢ · K "
              "hⱼ) V hⱼ")
    work.step("The weights need both ends of an edge, Q hᵢ and K hⱼ. Only q sees hᵢ, so the "
              "weights are made there, and the key must travel with the value.",
              table=Table(("in the graph", "in attention"), (
                  ("vertices", "tokens"),
                  ("N(vᵢ)", "all tokens, i itself too"),
                  ("fⱼᵢ(hⱼ)", "the pair (K hⱼ, V hⱼ), the same f on every edge"),
                  ("Agg", "collects the pairs; their order does not matter"),
                  ("q(hᵢ, {(k, v)})", "Σ softmax(Q hᵢ · k) v over the pairs"))))
    work.step("Put f and Agg into q: this is (18), term by term.",
              "q(hᵢ, {(K hⱼ, V hⱼ)}) = Σⱼ e^(Q hᵢ · K hⱼ) V hⱼ / Σₗ e^(Q hᵢ · K hₗ)")
    work.step("Token 1 by the graph's rules. Messages first.", "mⱼ = (K hⱼ, V hⱼ)",
              "   ".join(f"({num(k[0], 0)}; {vec(v, 0)})"
                         for k, v in zip(keys, values, strict=True)))
    work.step("q weighs the values by the keys.", "h₁' = Σⱼ softmaxⱼ(Q h₁ · kⱼ) vⱼ",
              f"e^(Q h₁ · kⱼ) = {', '.join(num(p, 0) for p in powers)}, sum "
              f"{num(sum(powers), 0)}:   " + " + ".join(
                  f"{num(w, 2)} · {vec(v, 0)}" for w, v in zip(weights, values, strict=True))
              + f" = {vec(new, 2)}")
    work.step("The same for all tokens at once is the matrix form.",
              "H' = softmax(H Qᵀ (H Kᵀ)ᵀ) H Vᵀ",
              arrays={"weights": A, "H Vᵀ": H @ V.T, "H'": A @ H @ V.T})
    work.step("Why not f = V hⱼ alone, and a weighted sum as Agg? Two graphs with one h₁ and the "
              "same values 1, 2, 3, but other keys: Agg would be handed the same, and attention "
              "is not the same.",
              numbers=f"Q h₁ = ln 2, keys 0, 1, 2: (1·1 + 2·2 + 4·3)/7 = {num(with_keys, 2)};   "
                      f"keys 0, 0, 0: (1 + 2 + 3)/3 = {num(without_keys, 2)}")
    work.answer = ("Complete graph with loops, f(hⱼ) = (K hⱼ, V hⱼ), Agg collects, q(hᵢ, ·) takes "
                   "the softmax of Q hᵢ with the keys and sums the values; token 1 becomes "
                   f"{vec(new, 2)} both ways.")
    work.check("npdl's attention of the three tokens differs from these messages by at most 1e-15",
               float(error) <= 1e-15)
    work.check("token 1 of the matrix form is the pencil's", np.allclose((A @ H @ V.T)[0], new))
    work.check("equal values, other keys: 17/7 and 2",
               math.isclose(with_keys, 17 / 7) and math.isclose(without_keys, 2))
    return work


def score_gap(n, weight):
    """By how much a score must exceed n - 1 equal ones for its token to have this weight."""
    return math.log((n - 1) * weight / (1 - weight))


def worked_long_range(bound=2.0):
    """Part (e)."""
    lengths = (4, 100, 10_000)
    weights = largest_weights(lengths, bound)
    gaps = [score_gap(n, 0.5) for n in lengths]
    edges = [n * (n - 1) for n in lengths]
    rows = tuple((n, count, f"{w:.3g}", num(gap, 2), rounds_to_reach(n, 3) if n <= 100 else
                  math.ceil((n - 1) / 3))
                 for n, count, w, gap in zip(lengths, edges, weights, gaps, strict=True))
    n = lengths[1]
    others = n - 1
    parts = [math.exp(bound), others * math.exp(-bound)]
    mixing, h, states = np.array([[0.7, 0.3], [0.3, 0.7]]), np.array([1.0, 0.0]), []
    for _ in range(4):
        states.append(h)
        h = mixing @ h
    given = np.random.default_rng(3).standard_normal((6, 4))
    spread = spread_after(6, np.random.default_rng(2).standard_normal((16, 8)))
    equal = softmax(np.array([gaps[1], *[0.0] * others]))[0]
    work = Solution("6e", f"Scores between −{num(bound, 0)} and {num(bound, 0)}.")
    work.step("Count the edges: every token sends a message to every other. Twice the length is "
              "four times the messages, and the numbers to keep for the way back.", "n (n − 1)",
              ";   ".join(f"n = {n}: {count:,}"
                         for n, count in zip(lengths, edges, strict=True)))
    work.step("Look at one edge that matters among n. With scores between −B and B its weight is "
              "largest if it has B and all others −B.",
              "e_max = e^B / (e^B + (n − 1) e^(−B)) ≈ e^(2B)/n for large n",
              f"B = {num(bound, 0)}, n = {n}: {num(parts[0])} / ({terms(parts)}) = "
              f"{num(weights[1])}")
    work.step("So length dilutes. To keep half of the weight, the one score must rise above the "
              "others as the logarithm of the length.", "e = 1/2   ⟺   gap = ln(n − 1)",
              f"n = {n}: ln {others} = {num(gaps[1], 2)}",
              table=Table(("n", "edges", "largest weight", "gap for weight 1/2",
                           "rounds, 3 back"), rows))
    work.step("All tokens are one edge away from each other: the graph knows no distance and no "
              "order. Whether a word stands next to another or 10,000 words off must be in the "
              "states themselves, as positions.",
              "attention(P H) = P attention(H) for every permutation P")
    work.step("More rounds do not help by themselves: every round averages, and averages of "
              "averages become alike. Two tokens that keep 0.7 of themselves:",
              "h' = 0.7 h + 0.3 (the other's h):   difference' = (0.7 − 0.3) difference",
              "   →   ".join(vec(h, 2) for h in states))
    work.step("A graph without the far edges costs less, n · w edges for a window of w. But then "
              "a message from afar takes many rounds, ⌈(n − 1)/w⌉, and what a vertex hears of "
              "ever more tokens must fit into one state of fixed width.",
              numbers=f"w = 3: {rows[1][-1]} rounds at n = {n}")
    work.answer = ("The graph is complete: n² messages, one token's weight falls as 1/n "
                   f"({weights[0]:.2g} at n = {lengths[0]}, {weights[-1]:.2g} at "
                   f"{lengths[-1]:,}), nothing says how far a token is, and rounds of averaging "
                   "blur what differs.")
    work.check("the formula against a softmax of n scores",
               all(abs(softmax(np.array([bound, *[-bound] * (n - 1)]))[0] - w) < 1e-12
                   for n, w in zip(lengths, weights, strict=True)))
    work.check(f"a gap of ln({others}) gives the weight 1/2", abs(equal - 0.5) < 1e-12)
    work.check("npdl's attention of permuted tokens is the permuted attention",
               order_error(given) < 1e-12)
    work.check("npdl's attention without residuals brings 16 states nearer in each of 6 rounds",
               spread == sorted(spread, reverse=True) and spread[-1] < spread[0] / 2)
    return work


def solutions():
    return [special_case(), worked_long_range()]

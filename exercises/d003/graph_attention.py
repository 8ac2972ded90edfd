"""Document 003, Question 6 (d) and (e): attention as message passing on a complete graph.

In npdl: GraphAttention in npdl/layers/graph.py.
"""

import math

import numpy as np

from exercises.course import arrays, judge, question, table, vec
from npdl.functions import softmax
from npdl.layers.attention import attend

H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
Q = np.array([[math.log(2), 0.0]])          # so that every e^score is a whole number
K = np.array([[1.0, 1.0]])
V = np.array([[1.0, 0.0], [0.0, 3.0]])


def update(query, pairs):
    """Return q: the values of (key, value) pairs, weighted by a softmax of their keys."""
    powers = np.exp([query @ key for key, _ in pairs])
    return sum(p * value for p, (_, value) in zip(powers / powers.sum(), pairs, strict=True))


def by_messages(loops=True):
    """Return attention vertex by vertex: the messages are the pairs (K hⱼ, V hⱼ)."""
    return np.array([update(Q @ H[i], [(K @ H[j], V @ H[j]) for j in range(3) if loops or j != i])
                     for i in range(3)])


@question("003.6d", "Attention as a graph network")
def special_case(say, step, answer, check, claim):
    """Show that attention is a special case of message passing hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))."""
    keys, values, query = H @ K.T, H @ V.T, Q @ H[0]
    powers = np.exp(keys @ query)
    weights = powers / powers.sum()
    new, A = weights @ values, softmax((H @ Q.T) @ keys.T)
    other, same = (update(np.array([math.log(2)]), [(np.array([k]), v) for k, v in
                                                    zip(row, (1, 2, 3), strict=True)])
                   for row in ((0, 1, 2), (0, 0, 0)))
    say("Three tokens h₁ = (1, 0), h₂ = (0, 1), h₃ = (1, 1); Q h is ln 2 times the first "
        "entry, K h the sum of both.")
    step("Set the two updates side by side, and say for each part of (16) what it sees: f "
         "one sender, Agg the messages and nothing else, q the receiver and what Agg made.",
         "graph:      hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))\nattention:  hᵢ' = Σⱼ softmaxⱼ(Q hᵢ · K hⱼ) V hⱼ")
    step("The weights need both ends of an edge, Q hᵢ and K hⱼ. Only q sees hᵢ, so the "
         "weights are made there, and the key must travel with the value.",
         table(("in the graph", "in attention"), [
             ("vertices", "tokens"), ("N(vᵢ)", "all tokens, i itself too"),
             ("fⱼᵢ(hⱼ)", "the pair (K hⱼ, V hⱼ), the same f on every edge"),
             ("Agg", "collects the pairs; their order does not matter"),
             ("q(hᵢ, {(k, v)})", "Σ softmax(Q hᵢ · k) v over the pairs")]))
    step("Put f and Agg into q: this is (18), term by term.",
         "q(hᵢ, {(K hⱼ, V hⱼ)}) = Σⱼ e^(Q hᵢ · K hⱼ) V hⱼ / Σₗ e^(Q hᵢ · K hₗ)")
    step("Token 1 by the graph's rules. Messages first.", "mⱼ = (K hⱼ, V hⱼ)",
         "   ".join(f"({k[0]:.0f}; {vec(v, 0)})" for k, v in zip(keys, values, strict=True)))
    step("q weighs the values by the keys.", "h₁' = Σⱼ softmaxⱼ(Q h₁ · kⱼ) vⱼ",
         f"e^(Q h₁ · kⱼ) = {', '.join(f'{p:.0f}' for p in powers)}, sum {powers.sum():.0f}:   "
         + " + ".join(f"{w:.2f} · {vec(v, 0)}" for w, v in zip(weights, values, strict=True))
         + f" = {vec(new, 2)}")
    step("The same for all tokens at once is the matrix form.", "H' = softmax(H Qᵀ (H Kᵀ)ᵀ) H Vᵀ",
         arrays({"weights": A, "H Vᵀ": values, "H'": A @ values}))
    step("Why not f = V hⱼ alone, and a weighted sum as Agg? Two graphs with one h₁ and the "
         "same values 1, 2, 3, but other keys: Agg would be handed the same, and attention "
         "is not the same.",
         f"Q h₁ = ln 2, keys 0, 1, 2: (1·1 + 2·2 + 4·3)/7 = {other:.2f};   keys 0, 0, 0: "
         f"(1 + 2 + 3)/3 = {same:.2f}")
    answer("Complete graph with loops, f(hⱼ) = (K hⱼ, V hⱼ), Agg collects, q(hᵢ, ·) takes "
           "the softmax of Q hᵢ with the keys and sums the values; token 1 becomes "
           f"{vec(new, 2)} both ways.")
    right = attend(H @ Q.T, keys, values, scale=1.0)[0]
    check("npdl's attention of the three tokens equals these messages",
          np.allclose(by_messages(), right, 0, 1e-14)
          and np.allclose(A @ values, right, 0, 1e-14) and np.allclose(new, right[0]))
    messages, without = (abs(by_messages(loops) - right).max() for loops in (True, False))
    claim("", "attention with one head is a special case of a GNN", "to be shown",
          "complete graph with loops, f_ji(h_j) = (K h_j, V h_j), Agg collects these pairs, q(h_i, "
          "pairs) = sum over the pairs (k, v) of softmax(Q h_i . k) v", judge(messages < 1e-14),
          "these messages differ from (18), by npdl's attend, by less than 1e-14")
    claim("premise", "Agg depends on the incoming messages alone", "Agg({f_ji(h_j)}) in (16)",
          "that is enough, if the messages hold the keys: q sees h_i, and makes the weights. With "
          "f_ji(h_j) = V h_j it would not be", judge(messages < 1e-14 and abs(other - same) > 0.1),
          f"messages V h_j of 1, 2, 3, but other keys: attention gives {other:.2f} and {same:.2f}")
    claim("premise", "a word is updated from each other word", "each other word j",
          "the sum in (18) runs over all j in S, the word itself included; loops are needed",
          judge(without < 1e-9, if_false="slip"),
          f"without loops the result of the example differs by up to {without:.2f}")
    claim("premise", "Q, K, V hold vector representations of words", "after: weight matrices",
          "in (17) and (18) they are weight matrices that multiply h; the queries, keys and values "
          "are the products", judge((H[:1] @ H[0]).shape == (np.ones((4, 2)) @ H[0]).shape),
          "with 1 word in Q and 4 in K, Q h_i has 1 entry and K h_j has 4: no dot product")


def largest_weight(n, bound=2.0):
    """Return the largest weight that one of n tokens can get with scores within ±bound."""
    return math.exp(bound) / (math.exp(bound) + (n - 1) * math.exp(-bound))


@question("003.6e", "Long ranges on a complete graph")
def long_ranges(say, step, answer, check, claim):
    """Say why very long ranges are hard for a transformer, seen as a graph."""
    lengths, long = (4, 100, 10_000), (10, 100, 1000)
    weights, gaps = [largest_weight(n) for n in lengths], [math.log(n - 1) for n in lengths]
    edges = [n * (n - 1) for n in lengths]
    say("Scores between −2 and 2.")
    step("Count the edges: every token sends a message to every other. Twice the length is "
         "four times the messages, and the numbers to keep for the way back.", "n (n − 1)",
         ";   ".join(f"n = {n}: {count:,}" for n, count in zip(lengths, edges, strict=True)))
    step("Look at one edge that matters among n. With scores between −B and B its weight is "
         "largest if it has B and all others −B.",
         "e_max = e^B / (e^B + (n − 1) e^(−B)) ≈ e^(2B)/n for large n",
         f"B = 2, n = 100: {math.exp(2):.3f} / ({math.exp(2):.3f} + "
         f"{99 * math.exp(-2):.3f}) = {weights[1]:.3f}")
    step("So length dilutes. To keep half of the weight, the one score must rise above the "
         "others as the logarithm of the length.", "e = 1/2   ⟺   gap = ln(n − 1)",
         f"n = 100: ln 99 = {gaps[1]:.2f}",
         table(("n", "edges", "largest weight", "gap for weight 1/2", "rounds, 3 back"), [
             (n, count, f"{w:.3g}", f"{gap:.2f}", -(-(n - 1) // 3)) for n, count, w, gap in
             zip(lengths, edges, weights, gaps, strict=True)]))
    step("All tokens are one edge away from each other: the graph knows no distance and no "
         "order. Whether a word is next to another or 10,000 words off must be in the "
         "states themselves, as positions.",
         "attention(P H) = P attention(H) for every permutation P")
    mixed = [np.linalg.matrix_power([[0.7, 0.3], [0.3, 0.7]], t)[0] for t in range(4)]
    step("More rounds do not help by themselves: every round averages, and averages of "
         "averages become alike. Two tokens that keep 0.7 of themselves:",
         "h' = 0.7 h + 0.3 (the other's h):   difference' = (0.7 − 0.3) difference",
         "   →   ".join(vec(h, 2) for h in mixed))
    step("A graph without the far edges costs less, n · w edges for a window of w. But then "
         "a message from afar takes many rounds, ⌈(n − 1)/w⌉, and what a vertex hears of "
         "ever more tokens must fit into one state of fixed width.",
         f"w = 3: {math.ceil(99 / 3)} rounds at n = 100")
    answer("The graph is complete: n² messages, one token's weight falls as 1/n "
           f"({weights[0]:.2g} at n = 4, {weights[-1]:.2g} at 10,000), nothing says how far a "
           "token is, and rounds of averaging blur what differs.")
    states = h = np.random.default_rng(2).standard_normal((16, 8))
    spread = []
    for _ in range(6):
        states, _ = attend(states, states, states)
        spread.append(np.linalg.norm(states - states.mean(0)) / np.linalg.norm(states))
    check("the formula against a softmax of n scores", np.allclose(
        [softmax(np.array([2.0, *[-2.0] * (n - 1)]))[0] for n in lengths], weights, 1e-12))
    check("npdl's attention of permuted tokens is the permuted attention",
          np.allclose(attend(h, h, h)[0][::-1], attend(*[h[::-1]] * 3)[0], 0, 1e-12))
    check("npdl's attention without residuals brings 16 states nearer in each of 6 rounds",
          (np.diff(spread) < 0).all() and spread[-1] < spread[0] / 2)
    claim("", "why long ranges are hard on a complete graph", "none printed",
          f"n (n - 1) edges, {vec(n * (n - 1) for n in long)} at n = {vec(long)}; with bounded "
          "scores a single token's weight falls as 1/n; all tokens are one edge away, so that the "
          "graph knows no distance; and round by round the states become alike", "essay",
          "seed 2; scores within +-2: largest possible weight "
          f"{vec(map(largest_weight, long), 2)}; without residuals, 6 layers bring 16 states "
          f"together: distance from their mean {vec(spread, 2)}; a graph that only links 8 tokens "
          f"back takes {math.ceil(99 / 8)} layers at n = 100")

"""Document 003, Question 6: message passing on a graph, and attention as a case of it.

npdl's MessagePassing computes hᵢ' = q(hᵢ, Σⱼ eᵢⱼ f(hⱼ)) for all vertices at once; see also
GraphAttention in npdl/layers/graph.py.
"""

import math
from fractions import Fraction

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.functions import softmax
from npdl.layers.attention import attend
from npdl.layers.graph import MessagePassing, ReplaceUpdate
from npdl.layers.linear import Linear

NEAR = {1: (2,), 2: (1, 3), 3: (2,)}        # a path 1 - 2 - 3, N(v) of every vertex
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
STATES = np.array([[1, -1], [-1, 1], [0, -1], [1, 0]])
WEIGHTS = ("0.6", "0.2", "0.2")
WORDS = ("I", "eat", "red", "apples")


def sum_doubled_states(h, weights):
    """Return the weighted sums of the messages 2 hⱼ, by npdl's MessagePassing."""
    double = Linear(h.shape[1], h.shape[1], bias=False, dtype="float64")
    double.W.data[...] = 2 * np.eye(h.shape[1])
    return MessagePassing(double, ReplaceUpdate()).forward(h, weights)[0]


def update_vertices_in_turn(h, weights):
    """Return the sums if vertices are updated one by one, each reading states already updated."""
    h = h.copy()
    for i in range(len(h)):
        h[i] = 2 * weights[i] @ h
    return h


@question("003.6a", "Message passing with a sum")
def solve_sum_aggregation(say, step, answer, check, claim):
    """Rewrite the update hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ): vⱼ ∈ N(vᵢ)})) for Agg = sum."""
    rounds = [np.array([1, 0, 0])]
    step("A message is the state of a neighbour, transformed by f of the edge. The aggregation "
         "adds up the messages of all neighbours. q computes the new state from the old state and "
         "this sum.", "hᵢᵗ⁺¹ = q(hᵢᵗ, Σ_(vⱼ ∈ N(vᵢ)) fⱼᵢ(hⱼᵗ))")
    step("As an example, take three vertices in a row with edges in both directions, f(x) = 2x and "
         "q(h, m) = h + m.", ";   ".join(f"N(v{v}) = {{{', '.join(f'v{j}' for j in near)}}}"
                                         for v, near in NEAR.items()))
    for t in (0, 1):
        h = rounds[-1]
        messages = 2 * PATH @ h
        rounds.append(h + messages)
        step(f"Compute round {t + 1}. Every vertex reads its neighbours' states of round {t} "
             "before any state is changed.",
             format_table(("vertex", "hᵢ", "messages 2 hⱼ", "their sum", "new hᵢ"), [
                 (v, h[v - 1], " + ".join(f"2·{h[j - 1]}" for j in near), messages[v - 1],
                  rounds[-1][v - 1]) for v, near in NEAR.items()]))
    step("After k rounds, the state of a vertex depends on all vertices up to k edges away, and on "
         "no others. v₃ depends on v₁ from round 2.", f"h₃: {', '.join(str(h[2]) for h in rounds)}")
    answer("hᵢᵗ⁺¹ = q(hᵢᵗ, Σ over vⱼ in N(vᵢ) of fⱼᵢ(hⱼᵗ)). In the example, the states are "
           f"{vec(rounds[2])} after two rounds.")
    square = np.linalg.matrix_power(np.eye(3, dtype=int) + 2 * PATH, 2)
    check("The matrix power (I + 2A)² h₀ gives the same states.",
          np.array_equal(square @ rounds[0], rounds[2]))
    claim("", "(16) with a sum for Agg", "none printed",
          "h_i' = q(h_i, sum over v_j in N(v_i) of f_ji(h_j))",
          judge(np.array_equal(sum_doubled_states(np.eye(3)[0][:, None], PATH)[:, 0], 2 * PATH[0]),
                "no answer given"), "npdl's MessagePassing gives the same sums in round 1")
    h, ring = np.array([[1.0], [2], [3]]), np.roll(np.eye(3), 1, 1)
    at_once, in_turn = sum_doubled_states(h, ring)[:, 0], update_vertices_in_turn(h, ring)[:, 0]
    claim("definition", "q maps {H_t, Agg(H'_t)} to H_t", "Q_t: {H_t, Agg(H'_t)} -> H_t",
          "it maps to H_(t+1), and reads one snapshot of H_t, as the text says; updating H_t in "
          "place gives another result",
          judge(np.array_equal(at_once, in_turn), if_false="under-specified"),
          f"ring of 3 vertices with states 1, 2, 3, f = 2x: {vec(at_once, 0)} from the snapshot, "
          f"{vec(in_turn, 0)} in place")


@question("003.6b", "One update of a vertex")
def solve_one_update(say, step, answer, check, claim):
    """Compute h₁' = W h₁ᵀ + max(Agg, 0) with Agg = 0.6 f(h₂) + 0.2 f(h₃) + 0.2 f(h₄), f(x) = 2x."""
    e, sent, own = [Fraction(w) for w in WEIGHTS], 2 * STATES[1:], STATES[0].sum()
    agg = e @ sent
    kept = np.maximum(agg, 0)
    new, largest = own + kept, own + kept.max()
    edges = np.zeros((4, 4))
    edges[0, 1:] = [float(w) for w in WEIGHTS]
    by_npdl = own + np.maximum(sum_doubled_states(STATES.astype(float), edges)[0], 0)
    error = np.abs(by_npdl - new.astype(float)).max()
    by_entry = STATES[0] + kept
    agg, kept, new, by_entry = (vec(map(float, v), 1) for v in (agg, kept, new, by_entry))
    say(", ".join(f"h{'₁₂₃₄'[i]} = {vec(h)}" for i, h in enumerate(STATES))
        + f"; weights {', '.join(WEIGHTS)}; W = (1, 1).")
    step("Compute the messages. Each message is twice the neighbour's state.", "f(x) = 2x",
         ",   ".join(f"f(h{j}) = {vec(m)}" for j, m in zip("₂₃₄", sent, strict=True)))
    step("Compute their weighted sum, elementwise.", "Agg = Σⱼ eⱼ f(hⱼ)",
         *(f"entry {d + 1}: "
           f"{' + '.join(f'{float(w * m[d])}' for w, m in zip(e, sent, strict=True))} = "
           f"{float(e @ sent[:, d])}" for d in (0, 1)))
    step("Replace negative entries by 0.", "max(Agg, 0), elementwise", f"max({agg}, 0) = {kept}")
    step("Compute the vertex's own term. It is a row times a column, so it is one number.", "W h₁ᵀ",
         f"{' + '.join(map(str, STATES[0]))} = {own}")
    step("Add this number to every entry.", "h₁' = W h₁ᵀ + max(Agg, 0)", f"{own} + {kept} = {new}")
    step("The formula has another reading. If max means the largest of all entries and 0, both "
         "terms are numbers, and so is the new state.", "h₁' = W h₁ᵀ + max(Agg₁, Agg₂, 0)",
         f"{own} + {float(largest)} = {float(largest)}")
    answer(f"h₁' = {new}. The maximum is elementwise, and W h₁ᵀ = {own} is added to both entries.")
    check("npdl's MessagePassing gives the same new state.", error <= 1e-12)
    claim("", "the new state of vertex 1", "none printed", f"h_1' = {new}",
          judge(error <= 1e-12, "no answer given"),
          f"Agg = {agg}, W h_1^T = {own}; npdl agrees, error {error:.1g}")
    claim("premise", "(22) has one reading", "W (h_1)^T + max{Agg, 0}, W = [1, 1]",
          f"h_1' = {new} if max is elementwise and W h_1^T is one number; {float(largest)} if max "
          f"is the largest of all entries and 0; {by_entry} if W is a weight for each entry",
          judge(new == by_entry, if_false="under-specified"), "in the second reading, both terms "
          "have the same shape, 1 x 1; true for the first reading, with the usual ReLU")


@question("003.6c", "The edges of a complete graph")
def solve_edge_count(say, step, answer, check, claim):
    """Count the edges of the complete directed graph of a sentence of 4 words."""
    n = len(WORDS)
    loops = [(i, j) for i in range(n) for j in range(n)]
    pairs = [(i, j) for i, j in loops if i != j]
    rows = [(WORDS[i], ", ".join(WORDS[b] for a, b in pairs if a == i), n - 1) for i in range(n)]
    step("Each word has an edge to every other word.", format_table(("from", "to", "edges"), rows))
    step("Add up the rows.", "n (n − 1)", f"{n} · {n - 1} = {len(pairs)}")
    step("If each word also has an edge to itself, as in attention, add n edges.",
         "n (n − 1) + n = n²", f"{len(pairs)} + {n} = {len(loops)}")
    answer(f"There are {len(pairs)} directed edges, or {len(loops)} with an edge from each word to "
           "itself.")
    check("A list of all edges has n (n − 1) and n² entries.",
          (len(pairs), len(loops)) == (n * (n - 1), n * n))
    claim("", "edges of the complete graph of 'I eat red apples'", "none printed", f"{len(pairs)}: "
          f"from each of 4 tokens to the 3 others; {len(loops)} if each token also has an edge to "
          "itself, as in (18)", judge((len(pairs), len(loops)) == (12, 16), "convention"),
          f"enumerated: {len(pairs)} ordered pairs of different tokens, {len(loops)} of any tokens")


H = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
Q = np.array([[math.log(2), 0.0]])          # so that every e^score is a whole number
K = np.array([[1.0, 1.0]])
V = np.array([[1.0, 0.0], [0.0, 3.0]])


def attend_to_pairs(query, pairs):
    """Return q(h, pairs): the values of (key, value) pairs, weighted by a softmax of scores."""
    powers = np.exp([query @ key for key, _ in pairs])
    return sum(p * value for p, (_, value) in zip(powers / powers.sum(), pairs, strict=True))


def attention_by_messages(self_loops=True):
    """Return attention, computed for each vertex from the messages (K hⱼ, V hⱼ)."""
    return np.array([attend_to_pairs(
        Q @ H[i], [(K @ H[j], V @ H[j]) for j in range(3) if self_loops or j != i])
                     for i in range(3)])


@question("003.6d", "Attention as a graph network")
def solve_attention_as_graph(say, step, answer, check, claim):
    """Show that attention is a special case of message passing hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))."""
    keys, values, query = H @ K.T, H @ V.T, Q @ H[0]
    powers = np.exp(keys @ query)
    weights = powers / powers.sum()
    new, A = weights @ values, softmax((H @ Q.T) @ keys.T)
    other, same = (attend_to_pairs(np.array([math.log(2)]), [(np.array([k]), v) for k, v in
                                                             zip(row, (1, 2, 3), strict=True)])
                   for row in ((0, 1, 2), (0, 0, 0)))
    say("There are three tokens: h₁ = (1, 0), h₂ = (0, 1), h₃ = (1, 1). Q h is ln 2 times the "
        "first entry, and K h is the sum of both entries.")
    step("Compare the two updates, and list the inputs of each function in (16). f reads one "
         "sender. Agg reads only the messages. q reads the receiver and the result of Agg.",
         "graph:      hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ)}))\nattention:  hᵢ' = Σⱼ softmaxⱼ(Q hᵢ · K hⱼ) V hⱼ")
    step("The weights depend on both ends of an edge, Q hᵢ and K hⱼ. Only q reads hᵢ, so q must "
         "compute the weights, and a message must contain the key and the value.",
         format_table(("in the graph", "in attention"), [
             ("vertices", "tokens"), ("N(vᵢ)", "all tokens, including i"),
             ("fⱼᵢ(hⱼ)", "the pair (K hⱼ, V hⱼ), the same f on every edge"),
             ("Agg", "collects the pairs; their order does not matter"),
             ("q(hᵢ, {(k, v)})", "Σ softmax(Q hᵢ · k) v over the pairs")]))
    step("Insert f and Agg into q. The result is (18), term by term.",
         "q(hᵢ, {(K hⱼ, V hⱼ)}) = Σⱼ e^(Q hᵢ · K hⱼ) V hⱼ / Σₗ e^(Q hᵢ · K hₗ)")
    step("Update token 1 by message passing. Compute the messages first.", "mⱼ = (K hⱼ, V hⱼ)",
         "   ".join(f"({k[0]:.0f}; {vec(v, 0)})" for k, v in zip(keys, values, strict=True)))
    step("q computes the weights from the keys, and the weighted sum of the values.",
         "h₁' = Σⱼ softmaxⱼ(Q h₁ · kⱼ) vⱼ",
         f"e^(Q h₁ · kⱼ) = {', '.join(f'{p:.0f}' for p in powers)}, sum {powers.sum():.0f}:   "
         + " + ".join(f"{w:.2f} · {vec(v, 0)}" for w, v in zip(weights, values, strict=True))
         + f" = {vec(new, 2)}")
    step("The matrix form does the same for all tokens at once.", "H' = softmax(H Qᵀ (H Kᵀ)ᵀ) H Vᵀ",
         format_arrays({"weights": A, "H Vᵀ": values, "H'": A @ values}))
    step("Show that f = V hⱼ with a weighted sum as Agg is not enough. Two graphs have the same h₁ "
         "and the same values 1, 2, 3, but different keys. Agg would read the same messages, but "
         "attention gives different results.", "Q h₁ = ln 2, keys 0, 1, 2: (1·1 + 2·2 + 4·3)/7 = "
         f"{other:.2f};   keys 0, 0, 0: (1 + 2 + 3)/3 = {same:.2f}")
    answer("Take the complete graph with loops and f(hⱼ) = (K hⱼ, V hⱼ). Agg collects these pairs. "
           "q(hᵢ, ·) computes the softmax of Q hᵢ with the keys, and the weighted sum of the "
           f"values. Token 1 becomes {vec(new, 2)} in both forms.")
    right = attend(H @ Q.T, keys, values, scale=1.0)[0]
    check("npdl's attention of the three tokens gives the same states as message passing.",
          np.allclose(attention_by_messages(), right, 0, 1e-14)
          and np.allclose(A @ values, right, 0, 1e-14) and np.allclose(new, right[0]))
    messages, without = (abs(attention_by_messages(loops) - right).max() for loops in (True, False))
    claim("", "attention with one head is a special case of a GNN", "to be shown",
          "take the complete graph with loops; f_ji(h_j) = (K h_j, V h_j), Agg collects these "
          "pairs, and q(h_i, pairs) = sum over the pairs (k, v) of softmax(Q h_i . k) v",
          judge(messages < 1e-14),
          f"message passing and (18), computed by npdl's attend, differ by {messages:.1g}")
    claim("premise", "Agg depends on the incoming messages alone", "Agg({f_ji(h_j)}) in (16)",
          "this is enough if the messages contain the keys, because q reads h_i and computes the "
          "weights; it is not enough with f_ji(h_j) = V h_j",
          judge(messages < 1e-14 and abs(other - same) > 0.1), "same messages V h_j of 1, 2, 3, "
          f"but different keys: attention gives {other:.2f} and {same:.2f}")
    claim("premise", "a word is updated from each other word", "each other word j",
          "the sum in (18) is over all j in S, including the word itself; so loops are needed",
          judge(without < 1e-9, if_false="slip"),
          f"without loops, the result of the example differs by up to {without:.2f}")
    claim("premise", "Q, K, V hold vector representations of words", "after: weight matrices",
          "in (17) and (18) they are weight matrices that multiply h; the queries, keys and values "
          "are the products", judge((H[:1] @ H[0]).shape == (np.ones((4, 2)) @ H[0]).shape),
          "if Q held 1 word and K held 4, Q h_i would have 1 entry and K h_j would have 4, so the "
          "dot product would not be defined")


def largest_attention_weight(n, score_bound=2.0):
    """Return the largest weight that one of n tokens can get with scores within ±score_bound."""
    return math.exp(score_bound) / (math.exp(score_bound) + (n - 1) * math.exp(-score_bound))


@question("003.6e", "Long ranges on a complete graph")
def solve_long_ranges(say, step, answer, check, claim):
    """View a transformer as a graph, and say why very long ranges are hard for it."""
    lengths, long = (4, 100, 10_000), (10, 100, 1000)
    weights = [largest_attention_weight(n) for n in lengths]
    gaps, edges = [math.log(n - 1) for n in lengths], [n * (n - 1) for n in lengths]
    say("All scores are between −2 and 2.")
    step("Count the edges. Every token sends a message to every other token. Twice the length "
         "gives four times as many messages, and four times as many values to store for the "
         "backward pass.", "n (n − 1)",
         ";   ".join(f"n = {n}: {count:,}" for n, count in zip(lengths, edges, strict=True)))
    step("Look at one important edge among n. If all scores are between −B and B, its weight is "
         "largest if its score is B and all other scores are −B.",
         "e_max = e^B / (e^B + (n − 1) e^(−B)) ≈ e^(2B)/n for large n", "B = 2, n = 100: "
         f"{math.exp(2):.3f} / ({math.exp(2):.3f} + {99 * math.exp(-2):.3f}) = {weights[1]:.3f}")
    step("So the weight decreases with the length. To keep half of the weight, the difference "
         "between this score and the others must grow as the logarithm of the length.",
         "e = 1/2   ⟺   gap = ln(n − 1)", f"n = 100: ln 99 = {gaps[1]:.2f}",
         format_table(("n", "edges", "largest weight", "gap for weight 1/2", "rounds, window 3"), [
             (n, count, f"{w:.3g}", f"{gap:.2f}", -(-(n - 1) // 3)) for n, count, w, gap in
             zip(lengths, edges, weights, gaps, strict=True)]))
    step("All tokens are one edge away from each other, so the graph contains no distance and no "
         "order. The states themselves must contain the positions, for example whether a word is "
         "the next one or 10,000 words away.",
         "attention(P H) = P attention(H) for every permutation P")
    mixed = [np.linalg.matrix_power([[0.7, 0.3], [0.3, 0.7]], t)[0] for t in range(4)]
    step("More rounds alone do not help. Every round computes averages, so the states become more "
         "and more similar. An example is two tokens that keep 0.7 of their own state.",
         "h' = 0.7 h + 0.3 (the other's h):   difference' = (0.7 − 0.3) difference",
         "   →   ".join(vec(h, 2) for h in mixed))
    step("A graph without long edges costs less: n · w edges for a window of w. But then a message "
         "from far away takes many rounds, ⌈(n − 1)/w⌉. And the information from more and more "
         "tokens must fit into one state of fixed width.",
         f"w = 3: {math.ceil(99 / 3)} rounds at n = 100")
    answer("The graph is complete, so it needs n² messages. The weight of one token decreases as "
           f"1/n ({weights[0]:.2g} at n = 4, {weights[-1]:.2g} at 10,000). The graph does not "
           "contain the distance of a token, and repeated averaging makes the states similar.")
    states = h = np.random.default_rng(2).standard_normal((16, 8))
    distances = []
    for _ in range(6):
        states, _ = attend(states, states, states)
        distances.append(np.linalg.norm(states - states.mean(0)) / np.linalg.norm(states))
    check("The formula agrees with a softmax of n scores.", np.allclose(
        [softmax(np.array([2.0, *[-2.0] * (n - 1)]))[0] for n in lengths], weights, 1e-12))
    check("npdl's attention of permuted tokens gives the permuted outputs.",
          np.allclose(attend(h, h, h)[0][::-1], attend(*[h[::-1]] * 3)[0], 0, 1e-12))
    check("npdl's attention without residual connections makes 16 states more similar in each of 6 "
          "rounds.", (np.diff(distances) < 0).all() and distances[-1] < distances[0] / 2)
    claim("", "why long ranges are hard on a complete graph", "none printed", "n (n - 1) edges, "
          f"{vec(n * (n - 1) for n in long)} at n = {vec(long)}; with bounded scores, the weight "
          "of a single token decreases as 1/n; all tokens are one edge away, so the graph contains "
          "no distance; and the states become more similar in every round", "essay",
          "seed 2; scores within +-2: largest possible weight "
          f"{vec(map(largest_attention_weight, long), 2)}; without residual connections, 6 layers "
          f"make 16 states similar: their relative distance from the mean is {vec(distances, 2)}; "
          f"a graph with edges to the previous 8 tokens needs {math.ceil(99 / 8)} layers at n = "
          "100")

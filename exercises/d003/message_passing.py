"""Document 003, Question 6 (a) to (c): message passing on a graph, one update, counting edges.

npdl's MessagePassing computes hᵢ' = q(hᵢ, Σⱼ eᵢⱼ f(hⱼ)) for all vertices at once.
"""

from fractions import Fraction

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.layers.graph import MessagePassing, Replace
from npdl.layers.linear import Linear

NEAR = {1: (2,), 2: (1, 3), 3: (2,)}        # a path 1 - 2 - 3, N(v) of every vertex
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
STATES = np.array([[1, -1], [-1, 1], [0, -1], [1, 0]])
WEIGHTS = ("0.6", "0.2", "0.2")
WORDS = ("I", "eat", "red", "apples")


def sums(h, edges):
    """Return the sums of the messages 2 hⱼ, weighted by the edges, by npdl's MessagePassing."""
    double = Linear(h.shape[1], h.shape[1], bias=False, dtype="float64")
    double.W.data[...] = 2 * np.eye(h.shape[1])
    return MessagePassing(double, Replace()).forward(h, edges)[0]


def in_place(h, edges):
    """Return the sums vertex after vertex, each reading the states that are new already."""
    h = h.copy()
    for i in range(len(h)):
        h[i] = 2 * edges[i] @ h
    return h


@question("003.6a", "Message passing with a sum")
def with_a_sum(say, step, answer, check, claim):
    """Rewrite the update hᵢ' = q(hᵢ, Agg({fⱼᵢ(hⱼ): vⱼ ∈ N(vᵢ)})) for Agg = sum."""
    rounds = [np.array([1, 0, 0])]
    step("A message is the neighbour's state, sent through the edge's f; the aggregation "
         "adds up one message for each neighbour; q makes the new state of both.",
         "hᵢᵗ⁺¹ = q(hᵢᵗ, Σ_(vⱼ ∈ N(vᵢ)) fⱼᵢ(hⱼᵗ))")
    step("An example: three vertices in a row, every edge both ways, f(x) = 2x, q(h, m) = h "
         "+ m.", ";   ".join(f"N(v{v}) = {{{', '.join(f'v{j}' for j in near)}}}"
                             for v, near in NEAR.items()))
    for t in (0, 1):
        h = rounds[-1]
        messages = 2 * PATH @ h
        rounds.append(h + messages)
        step(f"Round {t + 1}. Every vertex reads its neighbours' states of round {t}, and "
             "only then is anything written.",
             table(("vertex", "hᵢ", "messages 2 hⱼ", "their sum", "new hᵢ"), [
                 (v, h[v - 1], " + ".join(f"2·{h[j - 1]}" for j in near), messages[v - 1],
                  rounds[-1][v - 1]) for v, near in NEAR.items()]))
    step("After k rounds a vertex has heard of all that is k edges away, not further: v₃ "
         "learns of v₁ in round 2.", f"h₃: {', '.join(str(h[2]) for h in rounds)}")
    answer("hᵢᵗ⁺¹ = q(hᵢᵗ, Σ over vⱼ in N(vᵢ) of fⱼᵢ(hⱼᵗ)); in the example the states "
           f"become {vec(rounds[2])} after two rounds.")
    square = np.linalg.matrix_power(np.eye(3, dtype=int) + 2 * PATH, 2)
    check("the same by a matrix power, (I + 2A)² h₀", np.array_equal(square @ rounds[0], rounds[2]))
    claim("", "(16) with a sum for Agg", "none printed",
          "h_i' = q(h_i, sum over v_j in N(v_i) of f_ji(h_j))",
          judge(np.array_equal(sums(np.eye(3)[0][:, None], PATH)[:, 0], 2 * PATH[0]),
                "no answer given"), "npdl's MessagePassing gives the sums of round 1")
    h, ring = np.array([[1.0], [2], [3]]), np.roll(np.eye(3), 1, 1)
    at_once, in_turn = sums(h, ring)[:, 0], in_place(h, ring)[:, 0]
    claim("definition", "q maps {H_t, Agg(H'_t)} to H_t", "Q_t: {H_t, Agg(H'_t)} -> H_t",
          "to H_(t+1), from one snapshot of H_t, as the text says; writing into H_t on the way "
          "gives something else",
          judge(np.array_equal(at_once, in_turn), if_false="under-specified"),
          f"ring of 3 with states 1, 2, 3, f = 2x: {vec(at_once, 0)} from the snapshot, "
          f"{vec(in_turn, 0)} in place")


@question("003.6b", "One update of a vertex")
def one_update(say, step, answer, check, claim):
    """Compute h₁' = W h₁ᵀ + max(Agg, 0) with Agg = 0.6 f(h₂) + 0.2 f(h₃) + 0.2 f(h₄), f(x) = 2x."""
    e, sent, own = [Fraction(w) for w in WEIGHTS], 2 * STATES[1:], STATES[0].sum()
    agg = e @ sent
    kept = np.maximum(agg, 0)
    new, largest = own + kept, own + kept.max()
    edges = np.zeros((4, 4))
    edges[0, 1:] = [float(w) for w in WEIGHTS]
    found = own + np.maximum(sums(STATES.astype(float), edges)[0], 0)
    right = np.allclose(found, new.astype(float), 0, 1e-12)
    by_entry = STATES[0] + kept
    agg, kept, new, by_entry = (vec(map(float, v), 1) for v in (agg, kept, new, by_entry))
    say(", ".join(f"h{'₁₂₃₄'[i]} = {vec(h)}" for i, h in enumerate(STATES))
        + f"; weights {', '.join(WEIGHTS)}; W = (1, 1).")
    step("Messages: double each neighbour's state.", "f(x) = 2x",
         ",   ".join(f"f(h{j}) = {vec(m)}" for j, m in zip("₂₃₄", sent, strict=True)))
    step("Weigh and add them, entry by entry.", "Agg = Σⱼ eⱼ f(hⱼ)", *(
        f"entry {d + 1}: {' + '.join(f'{float(w * m[d])}' for w, m in zip(e, sent, strict=True))} "
        f"= {float(e @ sent[:, d])}" for d in (0, 1)))
    step("Cut off what is negative.", "max(Agg, 0), entry by entry", f"max({agg}, 0) = {kept}")
    step("The vertex's own part is a row times a column, one number.", "W h₁ᵀ",
         f"{' + '.join(map(str, STATES[0]))} = {own}")
    step("Add the number to every entry.", "h₁' = W h₁ᵀ + max(Agg, 0)", f"{own} + {kept} = {new}")
    step("Is another reading possible? If max means the one largest of all entries and 0, "
         "both parts are numbers and so is the new state.", "h₁' = W h₁ᵀ + max(Agg₁, Agg₂, 0)",
         f"{own} + {float(largest)} = {float(largest)}")
    answer(f"h₁' = {new}, max taken entry by entry and W h₁ᵀ = {own} added to both.")
    check("npdl's MessagePassing gives the same", right)
    claim("", "the new state of vertex 1", "none printed", f"h_1' = {new}",
          judge(right, "no answer given"), f"Agg = {agg}, W h_1^T = {own}; npdl agrees, error "
          "below 1e-12")
    claim("premise", "(22) has one reading", "W (h_1)^T + max{Agg, 0}, W = [1, 1]",
          f"h_1' = {new} with max entry by entry and one number W h_1^T; as the largest of all "
          f"entries and 0 it is {float(largest)}; with W as a weight for each entry {by_entry}",
          judge(new == by_entry, if_false="under-specified"),
          "in the second both parts have one shape, 1 x 1; holds for the first, the usual "
          "rectifier")


@question("003.6c", "The edges of a complete graph")
def complete_graph(say, step, answer, check, claim):
    """Count the edges of the complete directed graph of a sentence of 4 words."""
    n = len(WORDS)
    loops = [(i, j) for i in range(n) for j in range(n)]
    pairs = [(i, j) for i, j in loops if i != j]
    rows = [(WORDS[i], ", ".join(WORDS[b] for a, b in pairs if a == i), n - 1) for i in range(n)]
    step("Each word has an edge to every other word.", table(("from", "to", "edges"), rows))
    step("Add the rows.", "n (n − 1)", f"{n} · {n - 1} = {len(pairs)}")
    step("If a word also has an edge to itself, as attention needs it, n more.",
         "n (n − 1) + n = n²", f"{len(pairs)} + {n} = {len(loops)}")
    answer(f"{len(pairs)} directed edges; {len(loops)} with an edge from each word to itself.")
    check("listed one by one, there are n (n − 1) and n²",
          (len(pairs), len(loops)) == (n * (n - 1), n * n))
    claim("", "edges of the complete graph of 'I eat red apples'", "none printed",
          f"{len(pairs)}: each of 4 tokens to the 3 others; {len(loops)} if a token is linked to "
          "itself, as in (18)", judge((len(pairs), len(loops)) == (12, 16), "convention"),
          f"enumerated: {len(pairs)} ordered pairs of different tokens, {len(loops)} of any")

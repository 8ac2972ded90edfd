"""Document 003, Question 6 (a) to (c): message passing on a graph, one update, counting edges.

npdl's MessagePassing computes h_i' = q(h_i, sum_j e_ij f(h_j)) for all vertices at once.
"""

from fractions import Fraction
from functools import partial

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, Step, Table, below, listing, num, terms, vec
from npdl.core import Cache, Layer
from npdl.layers.graph import MessagePassing, Replace

QUESTION = """\
Question 6. On a directed graph, h_i' = q(h_i, Agg({f_ji(h_j): j in N(i)})).
(a) Rewrite it for Agg = sum. (b) h_1 = [1, -1], h_2 = [-1, 1], h_3 = [0, -1], \
h_4 = [1, 0], Agg = [0.6, 0.2, 0.2] [f(h_2); f(h_3); f(h_4)], f(x) = 2x, q = W h_1^T + \
max(Agg, 0), W = [1, 1]: h_1'?
(c) How many edges has the complete directed graph of a 4-word sentence?"""

TITLES = {"6a": "Message passing with a sum", "6b": "One update of a vertex",
          "6c": "The edges of a complete graph"}

claim_of = partial(Claim, "003", "Q6")

STATES = ((1, -1), (-1, 1), (0, -1), (1, 0))
WEIGHTS = ("0.6", "0.2", "0.2")


class Scale(Layer):
    """f(x) = factor x."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, x):
        return self.factor * x, Cache()

    def backward(self, dy, cache):
        return self.factor * dy


def update(states=STATES, weights=WEIGHTS, factor=2, W=(1, 1)):
    """(Agg, W h_1^T, h_1') of node 1 as fractions; states of node 1 and of those it hears.

    W h_1^T is one number; it is added to every entry of max(Agg, 0).
    """
    width = len(states[0])
    e = [Fraction(w) for w in weights]
    agg = [sum(w * factor * Fraction(h[d]) for w, h in zip(e, states[1:], strict=True))
           for d in range(width)]
    own = sum(Fraction(w) * Fraction(h) for w, h in zip(W, states[0], strict=True))
    return agg, own, [own + max(a, Fraction(0)) for a in agg]


def readings():
    """{what max and W mean in (22): h_1' as text}."""
    agg, own, new = update()
    single = [Fraction(x) + max(a, Fraction(0)) for x, a in zip(STATES[0], agg, strict=True)]
    return {"entry by entry": listing(map(float, new), "g"),
            "largest of all": format(float(own + max(*agg, 0)), "g"),
            "W by entry": listing(map(float, single), "g")}


def by_npdl(states=STATES, weights=WEIGHTS, factor=2, W=(1, 1)):
    """h_1' of `update` by npdl's MessagePassing, float64."""
    h = np.array(states, float)
    edges = np.zeros((len(h), len(h)))
    edges[0, 1:] = [float(w) for w in weights]
    layer = MessagePassing(Scale(float(factor)), Replace())
    agg, _ = layer.forward(h, edges)
    return h[0] @ np.array(W, float) + np.maximum(agg[0], 0)


def edges_of(nodes, loops=False):
    """The directed edges (i, j) of the complete graph, with or without loops."""
    return [(i, j) for i in range(nodes) for j in range(nodes) if loops or i != j]


def one_after_another(h, edges):
    """Sums of 2 h_j over the neighbours, vertex after vertex, each reading what is new already."""
    h = np.array(h, float)
    for i in range(len(h)):
        h[i] = 2 * (np.asarray(edges, float)[i] @ h)
    return h


def numbers():
    """Claims of parts (a) to (c)."""
    agg, own, new = update()
    error = float(np.abs(by_npdl() - [float(v) for v in new]).max())
    shown = [listing([float(v) for v in values], "g") for values in (agg, new)]
    yield claim_of(
        "a", "(16) with a sum for Agg", "none printed",
        "h_i' = q(h_i, sum over v_j in N(v_i) of f_ji(h_j))",
        judge(_sum_error() < 1e-12, "no answer given"),
        f"npdl's MessagePassing with 0/1 edges against the loop: error {below(_sum_error())}")
    yield claim_of(
        "b", "the new state of vertex 1", "none printed", f"h_1' = {shown[1]}",
        judge(error < 1e-12, "no answer given"),
        f"exactly: Agg = {shown[0]}, W h_1^T = {own}, max(Agg, 0) added to it; npdl agrees, error "
        f"{below(error)}")
    meant = readings()
    yield claim_of(
        "b, premise", "(22) has one reading", "W (h_1)^T + max{Agg, 0}, W = [1, 1]",
        f"h_1' = {meant['entry by entry']} with max entry by entry and one number W h_1^T; as the "
        f"largest of all entries and 0 it is {meant['largest of all']}; with W as a weight for "
        f"each entry {meant['W by entry']}",
        judge(len(set(meant.values())) == 1, if_false="under-specified"),
        "the second reading is the one whose two parts have the same shape, 1 x 1; holds for the "
        "first, the usual rectifier")
    count, loops = len(edges_of(4)), len(edges_of(4, True))
    yield claim_of(
        "c", "edges of the complete graph of 'I eat red apples'", "none printed",
        f"{count}: each of 4 tokens to the 3 others; {loops} if a token is linked to itself, as in "
        "(18)",
        judge((count, loops) == (4 * 3, 4 * 4), "convention"),
        f"enumerated: {count} ordered pairs of different tokens, {loops} of any")


def update_rule():
    """Claim on what the update maps to."""
    at_once, in_turn = _snapshot()
    yield claim_of(
        "a, definition", "q maps {H_t, Agg(H'_t)} to H_t", "Q_t: {H_t, Agg(H'_t)} -> H_t",
        "to H_(t+1), from one snapshot of H_t, as the text says; writing into H_t on the way gives "
        "something else",
        judge(np.array_equal(at_once, in_turn), "confirmed", "under-specified"),
        f"ring of 3 with states 1, 2, 3, f = 2x: {listing(at_once, 'g')} from the snapshot, "
        f"{listing(in_turn, 'g')} in place")


def _sum_error(seed=3):
    """MessagePassing with 0/1 edges against a loop over neighbours, f = 2x, q = m."""
    rng = np.random.default_rng(seed)
    h, edges = rng.standard_normal((6, 3)), rng.random((6, 6)) < 0.5
    y, _ = MessagePassing(Scale(2.0), Replace()).forward(h, edges)
    loop = [sum((2 * h[j] for j in range(6) if edges[i, j]), np.zeros(3)) for i in range(6)]
    return float(np.abs(y - loop).max())


def _snapshot():
    """A ring in which each of 3 vertices hears the one after it: at once, and one after another."""
    h, edges = np.array([[1.0], [2.0], [3.0]]), np.roll(np.eye(3), 1, 1)
    y, _ = MessagePassing(Scale(2.0), Replace()).forward(h, edges)
    return y[:, 0], one_after_another(h, edges)[:, 0]


def claims():
    return [*numbers(), *update_rule()]


HEARS = {1: (2,), 2: (1, 3), 3: (2,)}       # a path 1 - 2 - 3, N(v) of every vertex
START = {1: 1, 2: 0, 3: 0}
WORDS = ("I", "eat", "red", "apples")


def messages_of(states, hears=HEARS, factor=2):
    """{vertex: [factor h_j for each neighbour j]}."""
    return {v: [factor * states[j] for j in near] for v, near in hears.items()}


def rounds(states, count, hears=HEARS, factor=2):
    """The states after 0 .. count rounds of h_i + sum of messages, all from one snapshot."""
    found = [dict(states)]
    for _ in range(count):
        sent = messages_of(found[-1], hears, factor)
        found.append({v: h + sum(sent[v]) for v, h in found[-1].items()})
    return found


def by_matrix(states, count, hears=HEARS, factor=2):
    """The last of `rounds` as a power: (I + factor A)^count h."""
    order = sorted(hears)
    A = np.array([[int(j in hears[i]) for j in order] for i in order])
    power = np.linalg.matrix_power(np.eye(len(order), dtype=int) + factor * A, count)
    return dict(zip(order, (power @ [states[v] for v in order]).tolist(), strict=True))


def general():
    """Part (a)."""
    found = rounds(START, 2)
    tables = []
    for t, states in enumerate(found[:-1]):
        sent, following = messages_of(states), t + 1
        tables.append(Step(
            f"Round {following}. Every vertex reads its neighbours' states of round {t}, and only "
            "then is anything written.",
            table=Table(("vertex", "hᵢ", "messages 2 hⱼ", "their sum", "new hᵢ"), tuple(
                (v, states[v], " + ".join(f"2·{num(states[j])}" for j in HEARS[v]),
                 sum(sent[v]), found[following][v]) for v in HEARS))))
    edges = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    in_place = one_after_another([[START[v]] for v in sorted(START)], edges)[:, 0]
    work = Solution("6a")
    work.step("A message is the neighbour's state, sent through the edge's f; the aggregation "
              "adds up one message for each neighbour; q makes the new state of both.",
              "hᵢᵗ⁺¹ = q(hᵢᵗ, Σ_(vⱼ ∈ N(vᵢ)) fⱼᵢ(hⱼᵗ))")
    work.step("An example: three vertices in a row, every edge both ways, f(x) = 2x, q(h, m) = h "
              "+ m.",
              numbers=";   ".join(f"N(v{v}) = {{{', '.join(f'v{j}' for j in near)}}}"
                                  for v, near in HEARS.items()))
    work.steps.extend(tables)
    work.step("After k rounds a vertex has heard of all that is k edges away, not further: v₃ "
              "learns of v₁ in round 2.",
              numbers=f"h₃: {', '.join(num(states[3]) for states in found)}")
    work.answer = ("hᵢᵗ⁺¹ = q(hᵢᵗ, Σ over vⱼ in N(vᵢ) of fⱼᵢ(hⱼᵗ)); in the example the states "
                   f"become {vec(found[2].values())} after two rounds.")
    work.check("the same by a matrix power, (I + 2A)² h₀", by_matrix(START, 2) == found[2])
    work.check("writing in place within a round would give other sums",
               in_place.tolist() != [sum(m) for m in messages_of(START).values()])
    return work


def one_update():
    """Part (b)."""
    agg, own, new = update()
    weights = [Fraction(w) for w in WEIGHTS]
    sent = [[2 * x for x in h] for h in STATES[1:]]
    columns = [[w * m[d] for w, m in zip(weights, sent, strict=True)] for d in range(2)]
    kept = [max(a, Fraction(0)) for a in agg]
    own_terms = [w * h for w, h in zip((1, 1), STATES[0], strict=True)]
    largest = max(*agg, 0)
    one_number = own + largest
    work = Solution(
        "6b",
        "h₁ = " + vec(STATES[0]) + ", h₂ = " + vec(STATES[1]) + ", h₃ = " + vec(STATES[2])
        + ", h₄ = " + vec(STATES[3]) + f"; weights {', '.join(WEIGHTS)}; W = (1, 1).")
    work.step("Messages: double each neighbour's state.", "f(x) = 2x",
              "f(h₂) = " + vec(sent[0]) + ",   f(h₃) = " + vec(sent[1]) + ",   f(h₄) = "
              + vec(sent[2]))
    work.step("Weigh and add them, entry by entry.", "Agg = Σⱼ eⱼ f(hⱼ)",
              "\n".join(f"entry {d}: {terms([float(v) for v in column], 1)} = "
                        f"{num(float(sum(column)), 1)}"
                        for d, column in enumerate(columns, 1)))
    work.step("Cut off what is negative.", "max(Agg, 0), entry by entry",
              f"max({vec(list(map(float, agg)), 1)}, 0) = {vec(list(map(float, kept)), 1)}")
    work.step("The vertex's own part is a row times a column, one number.", "W h₁ᵀ",
              f"{terms(own_terms)} = {num(own)}")
    work.step("Add the number to every entry.", "h₁' = W h₁ᵀ + max(Agg, 0)",
              f"{num(own)} + {vec(list(map(float, kept)), 1)} = {vec(list(map(float, new)), 1)}")
    work.step("Is another reading possible? If max means the one largest of all entries and 0, "
              "both parts are numbers and so is the new state.", "h₁' = W h₁ᵀ + max(Agg₁, Agg₂, 0)",
              f"{num(own)} + {num(float(largest), 1)} = {num(float(one_number), 1)}")
    work.answer = (f"h₁' = {vec(list(map(float, new)), 1)}, max taken entry by entry and W h₁ᵀ = "
                   f"{num(own)} added to both.")
    work.check("npdl's MessagePassing gives the same",
               np.allclose(by_npdl(), [float(v) for v in new]))
    return work


def edges():
    """Part (c)."""
    n = len(WORDS)
    others = n - 1
    pairs, loops = edges_of(n), edges_of(n, True)
    rows = tuple((WORDS[i], ", ".join(WORDS[b] for a, b in pairs if a == i),
                  sum(a == i for a, _ in pairs)) for i in range(n))
    work = Solution("6c")
    work.step("Each word has an edge to every other word.",
              table=Table(("from", "to", "edges"), rows))
    work.step("Add the rows.", "n (n − 1)", f"{n} · {others} = {num(len(pairs))}")
    work.step("If a word also has an edge to itself, as attention needs it, n more.",
              "n (n − 1) + n = n²", f"{num(len(pairs))} + {n} = {num(len(loops))}")
    work.answer = (f"{num(len(pairs))} directed edges; {num(len(loops))} with an edge from each "
                   "word to itself.")
    work.check("listed one by one, without repetition",
               len(set(pairs)) == len(pairs) == n * (n - 1) and len(set(loops)) == n * n)
    return work


def solutions():
    return [general(), one_update(), edges()]

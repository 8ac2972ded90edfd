"""Document 003, Question 6 (a) to (c), worked: messages round by round, one update, edges."""

from fractions import Fraction

import numpy as np

from exercises.d003_message_passing import (
    STATES,
    WEIGHTS,
    by_npdl,
    edges_of,
    one_after_another,
    update,
)
from exercises.worked import Check, Solution, Step, Table, num, terms, vec

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
        sent = messages_of(states)
        tables.append(Step(
            f"Round {t + 1}. Every vertex reads its neighbours' states of round {t}, and only then "
            "is anything written.",
            table=Table(("vertex", "hᵢ", "messages 2 hⱼ", "their sum", "new hᵢ"), tuple(
                (v, states[v], " + ".join(f"2·{num(states[j])}" for j in HEARS[v]),
                 sum(sent[v]), found[t + 1][v]) for v in HEARS))))
    edges = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    in_place = one_after_another([[START[v]] for v in sorted(START)], edges)[:, 0]
    return Solution(
        "6a",
        (
            Step("A message is the neighbour's state, sent through the edge's f; the aggregation "
                 "adds up one message for each neighbour; q makes the new state of both.",
                 "hᵢᵗ⁺¹ = q(hᵢᵗ, Σ_(vⱼ ∈ N(vᵢ)) fⱼᵢ(hⱼᵗ))"),
            Step("An example: three vertices in a row, every edge both ways, f(x) = 2x, "
                 "q(h, m) = h + m.",
                 numbers=";   ".join(f"N(v{v}) = {{{', '.join(f'v{j}' for j in near)}}}"
                                     for v, near in HEARS.items())),
            *tables,
            Step("After k rounds a vertex has heard of all that is k edges away, not further: v₃ "
                 "learns of v₁ in round 2.",
                 numbers=f"h₃: {', '.join(num(states[3]) for states in found)}"),
        ),
        "hᵢᵗ⁺¹ = q(hᵢᵗ, Σ over vⱼ in N(vᵢ) of fⱼᵢ(hⱼᵗ)); in the example the states become "
        f"{vec(found[2].values())} after two rounds.",
        (Check("the same by a matrix power, (I + 2A)² h₀", by_matrix(START, 2) == found[2]),
         Check("writing in place within a round would give other sums",
               in_place.tolist() != [sum(m) for m in messages_of(START).values()])))


def one_update():
    """Part (b)."""
    agg, own, new = update()
    weights = [Fraction(w) for w in WEIGHTS]
    sent = [[2 * x for x in h] for h in STATES[1:]]
    columns = [[w * m[d] for w, m in zip(weights, sent, strict=True)] for d in range(2)]
    kept = [max(a, Fraction(0)) for a in agg]
    return Solution(
        "6b",
        (
            Step("Messages: double each neighbour's state.", "f(x) = 2x",
                 "f(h₂) = " + vec(sent[0]) + ",   f(h₃) = " + vec(sent[1]) + ",   f(h₄) = "
                 + vec(sent[2])),
            Step("Weigh and add them, entry by entry.", "Agg = Σⱼ eⱼ f(hⱼ)",
                 "\n".join(f"entry {d}: {terms([float(v) for v in column], 1)} = "
                           f"{num(float(sum(column)), 1)}"
                           for d, column in enumerate(columns, 1))),
            Step("Cut off what is negative.", "max(Agg, 0), entry by entry",
                 f"max({vec(list(map(float, agg)), 1)}, 0) = {vec(list(map(float, kept)), 1)}"),
            Step("The vertex's own part is a row times a column, one number.", "W h₁ᵀ",
                 f"{terms([w * h for w, h in zip((1, 1), STATES[0], strict=True)])} = {num(own)}"),
            Step("Add the number to every entry.", "h₁' = W h₁ᵀ + max(Agg, 0)",
                 f"{num(own)} + {vec(list(map(float, kept)), 1)} = "
                 f"{vec(list(map(float, new)), 1)}"),
            Step("Is another reading possible? If max means the one largest of all entries and 0, "
                 "both parts are numbers and so is the new state.",
                 "h₁' = W h₁ᵀ + max(Agg₁, Agg₂, 0)",
                 f"{num(own)} + {num(float(max(*agg, 0)), 1)} = "
                 f"{num(float(own + max(*agg, 0)), 1)}"),
        ),
        f"h₁' = {vec(list(map(float, new)), 1)}, max taken entry by entry and W h₁ᵀ = {num(own)} "
        "added to both.",
        (Check("npdl's MessagePassing gives the same",
               np.allclose(by_npdl(), [float(v) for v in new])),),
        "h₁ = " + vec(STATES[0]) + ", h₂ = " + vec(STATES[1]) + ", h₃ = " + vec(STATES[2])
        + ", h₄ = " + vec(STATES[3]) + f"; weights {', '.join(WEIGHTS)}; W = (1, 1).")


def edges():
    """Part (c)."""
    n = len(WORDS)
    pairs, loops = edges_of(n), edges_of(n, True)
    rows = tuple((WORDS[i], ", ".join(WORDS[b] for a, b in pairs if a == i),
                  sum(a == i for a, _ in pairs)) for i in range(n))
    return Solution(
        "6c",
        (
            Step("Each word has an edge to every other word.",
                 table=Table(("from", "to", "edges"), rows)),
            Step("Add the rows.", "n (n − 1)",
                 f"{n} · {n - 1} = {num(len(pairs))}"),
            Step("If a word also has an edge to itself, as attention needs it, n more.",
                 "n (n − 1) + n = n²", f"{num(len(pairs))} + {n} = {num(len(loops))}"),
        ),
        f"{num(len(pairs))} directed edges; {num(len(loops))} with an edge from each word to "
        "itself.",
        (Check("listed one by one, without repetition",
               len(set(pairs)) == len(pairs) == n * (n - 1) and len(set(loops)) == n * n),))


def solutions():
    return [general(), one_update(), edges()]

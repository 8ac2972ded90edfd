"""Document 000, Question 3.1: the graph of a bidirectional RNN, and what moves what in it."""

import numpy as np

from exercises.d000.birnn_network import (
    EQUATIONS,
    EXAMPLE,
    NO_NUMBERS,
    SIDE,
    WEIGHTS,
    example,
    small,
    state,
    state_slopes,
)
from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, sub

QUESTION = f"{EQUATIONS}3.1   Draw its graph for 3 steps, with the initial states."
GROUND = NO_NUMBERS
TITLES = {"3.1": "The graph of a bidirectional RNN"}


def edges(T=3):
    """The graph: [(from, to, weight)], nodes being (kind, t) with kinds x, f, b, y."""
    found = []
    for t in range(1, T + 1):
        found += [(("x", t), ("f", t), "W_f"), (("f", t - 1), ("f", t), "U_f"),
                  (("x", t), ("b", t), "W_b"), (("b", t + 1), ("b", t), "U_b"),
                  (("f", t), ("y", t), "V_f"), (("b", t), ("y", t), "V_b")]
    return found


def dependencies(net):
    """{(from, to)}: which x_t, f_t, b_t move which y_s, counted by differences and by the graph.

    Returns both sets; an end is reached when any entry of the slope is not zero.
    """
    T = len(net.x)
    measured = set()
    for direction in "fb":
        for t in range(1, T + 1):
            slopes = state_slopes(net, direction, t, value=2)
            measured |= {((direction, t), s + 1) for s in range(T) if np.abs(slopes[s]).max() > 0}
    children = {}
    for start, end, _ in edges(T):
        children.setdefault(start, set()).add(end)

    def reached(node):
        return {node}.union(*(reached(child) for child in children.get(node, ())))

    drawn = {((direction, t), end[1]) for direction in "fb" for t in range(1, T + 1)
             for end in reached((direction, t)) if end[0] == "y"}
    return measured, drawn


def graph_claim(net):
    measured, drawn = dependencies(net)
    arrows = edges(3)
    nodes = {node for start, end, _ in arrows for node in (start, end)}
    each = len(arrows) // len(WEIGHTS)
    found = measured & drawn
    return Claim(
        "000", "Q3", "1",
        "The graph for three steps, with both initial states, is to be completed.",
        "no drawing",
        f"{len(nodes)} nodes (x_1..x_3, f_0..f_3, b_1..b_4, y_1..y_3) and {len(arrows)} arrows, "
        f"{each} for each of W_f, U_f, V_f, W_b, U_b, V_b; no arrow joins an f and a b",
        judge(measured == drawn, "no answer given"),
        f"moving each state moves exactly the outputs that the arrows reach "
        f"({len(found)} of {len(drawn)} pairs)",
    )


PICTURE = (9.5, 6)


def picture(figure, T=3):
    """The unrolled graph, each arrow with its weight."""
    ax = figure.subplots()
    height = {"x": 0, "f": 1, "b": 2, "y": 3}
    shift = {"x": 0, "f": -0.22, "b": 0.22, "y": 0}
    text = {"x": "x", "f": "h^{(f)}", "b": "h^{(b)}", "y": "y"}
    colour = {"x": "#e0e0e0", "f": "#cfe2f3", "b": "#f9dcc4", "y": "#d9ead3"}
    line = {"f": "#1f5fa8", "b": "#c0561a"}
    arrows = edges(T)

    def place(node):
        return node[1] + shift[node[0]], height[node[0]]

    for start, end, weight in arrows:
        (x0, y0), (x1, y1) = place(start), place(end)
        ax.annotate("", (x1, y1), (x0, y0), zorder=1, arrowprops={
            "arrowstyle": "-|>", "color": line[weight[-1]], "shrinkA": 17, "shrinkB": 17})
        at = {"V_f": 0.27, "W_b": 0.73, "U_f": 0.64, "U_b": 0.64}.get(weight, 0.5)
        ax.text(x0 + at * (x1 - x0), y0 + at * (y1 - y0), f"${weight[0]}^{{({weight[-1]})}}$",
                color=line[weight[-1]], ha="center", va="center", fontsize=10,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    for node in sorted({node for arrow in arrows for node in arrow[:2]}):
        initial = node in (("f", 0), ("b", T + 1))
        ax.text(*place(node), f"${text[node[0]]}_{node[1]}$", ha="center", va="center", zorder=3,
                fontsize=12, bbox={"boxstyle": "circle,pad=0.35", "facecolor": colour[node[0]],
                                   "edgecolor": "black",
                                   "linestyle": "--" if initial else "-"})
    ax.set_xlim(-0.6, T + 1.6)
    ax.set_ylim(-0.4, 3.4)
    ax.set_axis_off()
    ax.set_title("The bidirectional RNN for three steps (dashed: initial states)")


def graph_solution(net):
    T = len(net.x)
    measured, drawn = dependencies(net)
    def node(name, t):
        return state(name, t) if name in SIDE else name + sub(t)

    rows = tuple((kind[0] + SIDE[kind[-1]], " ".join(
        f"{node(*a)}→{node(*b)}" for a, b, weight in edges(T) if weight == kind))
        for kind in WEIGHTS)
    work = Solution("3.1", EXAMPLE, picture="the graph for three steps")
    last = T + 1
    nodes = 3 * T + last + 1
    work.step("Make a node for every vector: inputs, both kinds of states (with the initial "
              "states h₀⁽ᶠ⁾ and h_(T+1)⁽ᵇ⁾), outputs.",
              numbers=f"T = {T}: x₁..x{sub(T)}, {node('f', 0)}..{node('f', T)}, "
                      f"{node('b', 1)}..{node('b', last)}, y₁..y{sub(T)}: {nodes} nodes")
    work.step("Draw an arrow for every product in the three equations. The chain h⁽ᶠ⁾ runs to the "
              "right, h⁽ᵇ⁾ to the left, and they meet only in y.",
              "hₜ⁽ᶠ⁾ = tanh(W⁽ᶠ⁾ xₜ + U⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾)   hₜ⁽ᵇ⁾ = tanh(W⁽ᵇ⁾ xₜ + U⁽ᵇ⁾ hₜ₊₁⁽ᵇ⁾)\n"
              "yₜ = V⁽ᶠ⁾ hₜ⁽ᶠ⁾ + V⁽ᵇ⁾ hₜ⁽ᵇ⁾", table=Table(("weight", "arrows"), rows))
    work.step("Read from it what depends on what: the gradient of a state collects from all "
              "outputs that its arrows reach.",
              numbers="\n".join(f"{node(side, t)} reaches " + ", ".join(
                  node("y", s) for (of, s) in sorted(drawn) if of == (side, t))
                  for side in "fb" for t in range(1, T + 1)))
    work.answer = (f"{len(edges(T))} arrows for T = {T} ({len(edges(3))} for T = 3), one of each "
                   "weight a step, none between h⁽ᶠ⁾ and h⁽ᵇ⁾.")
    work.check("Moving each state by a little moves exactly the outputs that its arrows reach.",
               measured == drawn)
    return work


def claims(net=None):
    return [graph_claim(net or example())]


def solutions():
    return [graph_solution(small())]

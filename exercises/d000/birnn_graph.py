"""Document 000, Question 3.1: the graph of a bidirectional RNN, and what depends on what in it."""

import numpy as np

from exercises.course import judge, question, table
from exercises.d000.birnn_gradients import EXAMPLE, SIDE, WEIGHTS, T, state, state_slopes


def edges(T):
    """Return the graph: (from, to, weight), nodes being (kind, t) with kinds x, f, b, y."""
    return [edge for t in range(1, T + 1) for edge in (
        (("x", t), ("f", t), "W_f"), (("f", t - 1), ("f", t), "U_f"),
        (("x", t), ("b", t), "W_b"), (("b", t + 1), ("b", t), "U_b"),
        (("f", t), ("y", t), "V_f"), (("b", t), ("y", t), "V_b"))]


def reached(node, arrows):
    """Return the nodes that the arrows reach from a node, itself among them."""
    return {node}.union(*(reached(end, arrows) for start, end, _ in arrows if start == node))


def draw(figure, T=3):
    """Draw the unrolled graph, each arrow with its weight."""
    figure.set_size_inches(9.5, 6)
    ax = figure.subplots()
    kinds = {"x": ("x", "#e0e0e0", 0, 0), "f": ("h^{(f)}", "#cfe2f3", -0.22, 1),    # shift, height
             "b": ("h^{(b)}", "#f9dcc4", 0.22, 2), "y": ("y", "#d9ead3", 0, 3)}
    line = {"f": "#1f5fa8", "b": "#c0561a"}
    nodes = {node for arrow in edges(T) for node in arrow[:2]}
    place = {(kind, t): (t + kinds[kind][2], kinds[kind][3]) for kind, t in nodes}
    for start, end, weight in edges(T):
        (x0, y0), (x1, y1) = place[start], place[end]
        ax.annotate("", (x1, y1), (x0, y0), zorder=1, arrowprops={
            "arrowstyle": "-|>", "color": line[weight[-1]], "shrinkA": 17, "shrinkB": 17})
        at = {"V_f": 0.27, "W_b": 0.73, "U_f": 0.64, "U_b": 0.64}.get(weight, 0.5)
        ax.text(x0 + at * (x1 - x0), y0 + at * (y1 - y0), f"${weight[0]}^{{({weight[-1]})}}$",
                color=line[weight[-1]], ha="center", va="center", fontsize=10,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    for (kind, t), at in place.items():
        text, colour, *_ = kinds[kind]
        ax.text(*at, f"${text}_{t}$", ha="center", va="center", zorder=3, fontsize=12, bbox={
            "boxstyle": "circle,pad=0.35", "facecolor": colour, "edgecolor": "black",
            "linestyle": "--" if (kind, t) in (("f", 0), ("b", T + 1)) else "-"})
    ax.set_xlim(-0.6, T + 1.6)
    ax.set_ylim(-0.4, 3.4)
    ax.set_axis_off()
    ax.set_title("The bidirectional RNN for three steps (dashed: initial states)")


@question("000.3.1", "The graph of a bidirectional RNN", draw)
def graph(say, step, answer, check, claim):
    """Draw the graph of a bidirectional RNN for three steps, with the initial states."""
    def name(node):
        return state(*node) if node[0] in SIDE else f"{node[0]}{'₀₁₂₃'[node[1]]}"

    arrows, large = edges(T), edges(3)
    states = [(side, t) for side in "fb" for t in range(1, T + 1)]
    drawn = {node: sorted(end for end in reached(node, arrows) if end[0] == "y")
             for node in states}
    nodes = {node for arrow in large for node in arrow[:2]}
    say(EXAMPLE[0])
    step("Make a node for every vector: inputs, both kinds of states (with the initial states "
         "h₀⁽ᶠ⁾ and h_(T+1)⁽ᵇ⁾), outputs.",
         f"T = 2: x₁..x₂, h₀⁽ᶠ⁾..h₂⁽ᶠ⁾, h₁⁽ᵇ⁾..h₃⁽ᵇ⁾, y₁..y₂: "
         f"{len({node for arrow in arrows for node in arrow[:2]})} nodes")
    step("Draw an arrow for every product in the three equations. The chain h⁽ᶠ⁾ runs to the "
         "right, h⁽ᵇ⁾ to the left, and they meet only in y.",
         "hₜ⁽ᶠ⁾ = tanh(W⁽ᶠ⁾ xₜ + U⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾)   hₜ⁽ᵇ⁾ = tanh(W⁽ᵇ⁾ xₜ + U⁽ᵇ⁾ hₜ₊₁⁽ᵇ⁾)",
         "yₜ = V⁽ᶠ⁾ hₜ⁽ᶠ⁾ + V⁽ᵇ⁾ hₜ⁽ᵇ⁾",
         table(("weight", "arrows"),
               [(kind[0] + SIDE[kind[-1]], " ".join(
                   f"{name(a)}→{name(b)}" for a, b, weight in arrows if weight == kind))
                for kind in WEIGHTS]))
    step("Read from it what depends on what: the gradient of a state collects from all "
         "outputs that its arrows reach.",
         *(f"{name(node)} reaches {', '.join(map(name, ends))}"
           for node, ends in drawn.items()))
    answer(f"{len(arrows)} arrows for T = 2 ({len(large)} for T = 3), one of each weight a "
           "step, none between h⁽ᶠ⁾ and h⁽ᵇ⁾.")
    measured = {node: [("y", s + 1) for s, slope in enumerate(state_slopes(*node, value=2))
                       if np.abs(slope).max() > 0] for node in states}
    check("Moving each state by a little moves exactly the outputs that its arrows reach.",
          measured == drawn)
    claim("", "The graph for three steps, with both initial states, is to be completed.",
          "no drawing",
          f"{len(nodes)} nodes (x_1..x_3, f_0..f_3, b_1..b_4, y_1..y_3) and {len(large)} "
          f"arrows, {len(large) // len(WEIGHTS)} for each of W_f, U_f, V_f, W_b, U_b, V_b; no "
          "arrow joins an f and a b", judge(measured == drawn, "no answer given"),
          "T = 2: moving each state moves exactly the outputs that the arrows reach "
          f"({sum(map(len, drawn.values()))} pairs); --figures draws the graph")

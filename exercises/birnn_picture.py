"""The graph of document 000, Question 3: a bidirectional RNN, unrolled."""

from exercises.d000_birnn import edges


def draw_graph(path, T=3):
    """The unrolled graph, each arrow with its weight."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 6), layout="constrained")
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
    figure.savefig(path, dpi=130)
    return path

"""Draw the graphs of a layer's forward and backward from one recorded run of the layer.

A box is a value that a statement computed, with its shape in that run. Lines lead down to it from
the values that the statement read. The backward begins with the upstream gradients and ends with
the returned gradients (filled boxes). A box names the values of forward that it reads, in small.
"""

import re
from dataclasses import dataclass, field

from docs.book.drawing import WIDTH, Drawing
from docs.book.layers import record_layer

HIGH, GAP, ACROSS = 54, 22, 4
BOX, CLEAR = 80, 3              # a box's width, and how far from one a line passes
NAME = re.compile(r"[A-Za-z_][\w.]*")
CHECKS = re.compile(r"\b(initial_state|checked_gradients)\(")   # they check an input


@dataclass(eq=False)
class Node:
    """A value: its name and shape, the Nodes `made_of`; what it `also` reads, or its layer."""

    name: str
    shape: tuple
    made_of: list = field(default_factory=list)
    also: list = field(default_factory=list)
    row: int = 0
    at: tuple = ()


def shorten_name(name):
    """Shorten a name: self.W_x.data -> W_x, cache.o -> o, self.b.grad -> db, x.T -> x."""
    parts = [p for p in name.split(".") if p not in ("self", "cache", "data", "T", "shape")]
    if parts and parts[-1] == "grad":
        parts = [*parts[:-2], f"d{parts[-2]}"]
    return ".".join(parts)


def find_nodes(recording, phase):
    """Return the Nodes of a phase, "forward" or "backward".

    They come from the layer's method, or from a function that this method calls to do its work.
    """
    steps = {}                                          # {call: {statement: its first step}}
    for one in recording.list_steps(phase):
        if one.statement.is_simple:
            steps.setdefault(one.call, {}).setdefault(one.statement, one)
    root = next(call for call in steps if call.parent is None and call.code.co_name == phase)
    found = _make_nodes(steps[root].values(), phase)
    if len({tuple(map(id, node.made_of)) for node in found if node.made_of}) > 1:
        return found
    inner = [_make_nodes(own.values(), phase, found[-1].name) for call, own in steps.items()
             if call.parent is root]
    return max([found, *inner], key=len)


def _make_nodes(steps, phase, returned_name=None):
    found, current = [], {}
    for one in steps:
        writes = [w for w in one.writes if w.shown[0][0] == "" and w.shown[0][1].shape
                  and (w.name != "return" or returned_name and one.is_new)]
        if not writes or CHECKS.search(one.statement.text) or all(
                read.startswith("cache.") for read in one.reads):
            continue                                    # checked inputs; fields of the cache
        made_of, also = [], []
        for read, shown in one.reads.items():
            name, parts = shorten_name(read), map(shorten_name, NAME.findall(read))
            known = [current[part] for part in parts if part in current]
            if known:
                made_of += known
            elif not NAME.fullmatch(read) or not name or len(shown) != 1 or not shown[0][1].shape:
                continue
            elif phase == "forward" or name[0] == "d":
                shape = shown[0][1].shape[:: -1 if read.endswith(".T") else 1]
                made_of.append(current.setdefault(name, Node(name, shape)))
                found.append(current[name])
            else:
                also.append(name)
        also = also or re.findall(r"(\w+)\.(?:for|back)ward\(", one.statement.text)
        for write in writes:
            name = returned_name if write.name == "return" else shorten_name(write.name)
            current[name] = Node(name, write.shown[0][1].shape, list(dict.fromkeys(made_of)), also)
            found.append(current[name])
    return found


def place_nodes(nodes):
    """Set row and centre of each Node, at most ACROSS in a row, and return the graph's height."""
    for node in nodes:
        node.row = 1 + max((one.row for one in node.made_of), default=-1)
    for node in nodes:                                  # what only enters stands above its reader
        if not node.made_of:
            node.row = min((one.row - 1 for one in nodes if node in one.made_of), default=0)
    y = 0
    for row in sorted({node.row for node in nodes}):
        own = [node for node in nodes if node.row == row]
        own.sort(key=lambda n: sum(m.at[0] for m in n.made_of) / max(1, len(n.made_of)))
        for start in range(0, len(own), ACROSS):
            line = own[start: start + ACROSS]
            for k, node in enumerate(line):
                node.at = (WIDTH * (k + 0.5) / len(line), y + HIGH / 2)
            y += HIGH + GAP
    return y - GAP


def find_route(source, target, nodes):
    """Return the points of a line from `source` down to `target` that avoids all boxes between."""
    (x, y), (end_x, end_y) = source.at, target.at
    points, end = [(x, y + HIGH / 2)], (end_x, end_y - HIGH / 2)
    for middle in sorted({n.at[1] for n in nodes if y < n.at[1] < end_y}):
        taken = [n.at[0] for n in nodes if n.at[1] == middle]
        upper, lower = middle - HIGH / 2 - CLEAR, middle + HIGH / 2 + CLEAR
        from_x, from_y = points[-1]
        ahead = [from_x + (end_x - from_x) * (at - from_y) / (end[1] - from_y)
                 for at in (upper, lower)]
        if not all(max(ahead) <= box - BOX / 2 - CLEAR or min(ahead) >= box + BOX / 2 + CLEAR
                   for box in taken):
            free = next(filter(None, (_list_free_x(taken, BOX / 2 + far) for far in (8, CLEAR))))
            ahead = 2 * [min(free, key=lambda at: abs(at - sum(ahead) / 2))]
        points += [(ahead[0], upper), (ahead[1], lower)]
    return [*points, end]


def _list_free_x(box_centres, distance):
    """Return the list of x that are `distance` from one box centre, and no nearer to any other."""
    return [at for box in box_centres for at in (box - distance, box + distance)
            if CLEAR < at < WIDTH - CLEAR and all(abs(at - one) >= distance for one in box_centres)]


def draw_graph(name):
    """Return (SVG, caption) of a layer's graph. Raises InputError if npdl has no such layer."""
    recording = record_layer(name).recording
    parts = [(phase, find_nodes(recording, phase)) for phase in ("forward", "backward")]
    caption = (f"One run of {name}. Its forward is above. Its backward is below, from the upstream "
               "gradients to the gradients that it returns (filled boxes). A box shows the name of "
               "an array and its shape in this run. Small letters name the arrays that the "
               "backward reads from the cache, or the layer that computed the array.")
    heights = [place_nodes(nodes) + 60 for _, nodes in parts]
    drawing, top = Drawing(sum(heights)), 0
    for (phase, nodes), height in zip(parts, heights, strict=True):
        drawing.text(WIDTH / 2, top + 14, phase)
        _draw_nodes(drawing, nodes, top + 30, "back" if phase == "backward" else "")
        top += height
    return drawing.format_svg(caption), caption


def _draw_nodes(drawing, nodes, top, kind):
    read = {id(one) for node in nodes for one in node.made_of}
    for node in nodes:
        for one in node.made_of:
            drawing.arrow(*((x, y + top) for x, y in find_route(one, node, nodes)), kind=kind)
    for node in nodes:
        x, y = node.at
        drawing.add_element("rect", x=f"{x - BOX / 2:g}", y=f"{y + top - HIGH / 2:g}", width=BOX,
                            height=HIGH, rx=5, kind="hot" if kind and id(node) not in read else "")
        rows = [node.name, "×".join(map(str, node.shape)),
                " ".join(dict.fromkeys(node.also))[:14]][: 3 if node.also else 2]
        for n, words in enumerate(rows):
            drawing.text(x, y + top - 8 * (len(rows) - 1) + 16 * n, words, "small" if n else "")

"""Which module imports which: circles and late imports, and one picture of the rooms.

    python -m tests.base.import_graph docs/generated/rooms.svg

A room is a folder; the files directly in npdl or npdl_train are one. An import inside a function
counts as any other for circles. `python -m` and the names of `npdl` import by name, when asked.
"""

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("npdl", "npdl_train", "npdl_study", "exercises", "experiments", "docs/book", "tests/tools")
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
         for root in ROOTS for path in sorted((ROOT / root).rglob("*.py"))
         if (path.parent / "__init__.py").exists()}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def imports(name):
    """(every module of FILES that a module imports, those that it imports inside a function)."""
    found, late = set(), set()
    for statement, is_late in _statements(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        if isinstance(statement, ast.ImportFrom):
            above = name.split(".")[:-statement.level] if statement.level else []
            module = ".".join([*above, *([statement.module] if statement.module else [])])
            names = {module, *(f"{module}.{each.name}" for each in statement.names)}
        else:
            names = {each.name for each in getattr(statement, "names", ())
                     if isinstance(statement, ast.Import)}
        names = {each for each in names & FILES.keys() if not name.startswith(f"{each}.")} - {name}
        found |= names
        late |= names if is_late else set()
    return found, late


def _statements(node, is_late=False):
    """(statement, whether it stands in a function) of all that stand below a node."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()):
            yield each, is_late
            yield from _statements(each, is_late or isinstance(each, FUNCTIONS))


def room_of(name):
    """The folder of a module: npdl.layers, docs.book; npdl for the files directly in it. The
    commands, npdl.__main__, hand on from all rooms and are one of their own."""
    if name == "npdl.__main__":
        return name
    if FILES[name].parent in (ROOT / "npdl", ROOT / "npdl_train"):
        return name.partition(".")[0]
    return ".".join(name.split(".")[:2])


def of_files(late=()):
    """{module: those it imports}; of the modules `late` without imports in functions."""
    return {name: imports(name)[0] - (imports(name)[1] if name in late else set())
            for name in FILES}


def of_rooms(late=()):
    """{room: those it imports}."""
    graph = {}
    for name, others in of_files(late).items():
        graph.setdefault(room_of(name), set()).update(map(room_of, others))
    return {one: others - {one} for one, others in graph.items()}


def circle(graph):
    """A way through the graph that comes back to where it began, or None."""
    done = set()

    def walk(node, way):
        if node in way:
            return [*way[way.index(node):], node]
        if node in done:
            return None
        found = next(filter(None, (walk(other, [*way, node]) for other in sorted(graph[node]))),
                     None)
        done.add(node)
        return found

    return next(filter(None, (walk(node, []) for node in sorted(graph))), None)


def heights(graph):
    """{room: how many rooms stand below it, one on the other}; a way back counts for nothing."""
    def height(node, way=()):
        return max((1 + height(other, (*way, node)) for other in graph[node]
                    if other not in (*way, node)), default=0)

    return {node: height(node) for node in graph}


def draw(path):
    """Draw the rooms of npdl and npdl_study, each above those that it imports; an arrow that two
    others stand for is left out."""
    import matplotlib  # it takes a second to load
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    graph = {one: {other for other in others if other.startswith("npdl")}
             for one, others in of_rooms().items() if one.startswith("npdl")}
    graph.pop("npdl_study")                             # its __init__, which says what is in it
    rows = {}
    for one, y in sorted(heights(graph).items()):
        rows.setdefault(y, []).append(one)
    places = {one: ((i + 0.5) / len(row) + 0.04 * (y % 3 - 1), y)
              for y, row in rows.items() for i, one in enumerate(row)}
    figure = Figure(figsize=(11, 9), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for one, others in graph.items():
        for other in sorted(others - set().union(*(graph[between] for between in others))):
            axes.annotate("", places[other], places[one], arrowprops={
                "arrowstyle": "->", "color": "#9ab", "shrinkA": 12, "shrinkB": 12, "lw": 0.8})
    for one, place in places.items():
        lines = sum(len(path.read_text(encoding="utf-8").splitlines())
                    for name, path in FILES.items() if room_of(name) == one)
        axes.text(*place, f"{one}\n{lines:,} lines", ha="center", va="center", fontsize=9, bbox={
            "boxstyle": "round", "facecolor": "#eef" if one.startswith("npdl_study") else "#efe",
            "edgecolor": "#667"})
    axes.set(xlim=(-0.05, 1.05), ylim=(-0.6, max(rows) + 0.6))
    axes.axis("off")
    with matplotlib.rc_context({"svg.hashsalt": "npdl"}):
        figure.savefig(path, metadata={"Date": None} if str(path).endswith("svg") else None)


if __name__ == "__main__":
    draw(sys.argv[1])

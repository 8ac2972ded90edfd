"""Notebooks: one of each chapter with a backward to write, and those in docs/book/notebooks.

The text is on the chapter's page. The notebook has the cells that run: a layer step by step, the
gradient checks, and the backward to write, with hints and a solution. The first cell installs npdl
where it is missing, from the wheel that the site has in the folder of the notebooks.
"""

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import npdl
from docs.book import sources
from docs.book.chapter import BookError
from docs.book.frame import step_names
from docs.book.sources import ROOT
from npdl.study.check.samples import find_layer_classes

WRITTEN = Path(__file__).parent / "notebooks"
WHEEL = f"npdl_textbook-{npdl.__version__}-py3-none-any.whl"
SETUP = """\
import npdl
from npdl import *
from npdl.study.check import samples

layers = samples.find_layer_classes()"""
INSTALL = '''\
# npdl, where it is missing: from its wheel, beside this notebook
import importlib.util
from pathlib import Path

if importlib.util.find_spec("npdl") is None:
    if not Path("WHEEL").exists():
        raise SystemExit("npdl is missing: put WHEEL, which the book's "
                         f"first page links, beside this notebook, into {Path.cwd()}")
    get_ipython().run_line_magic("pip", "install -q 'WHEEL[train]'")'''.replace("WHEEL", WHEEL)


def write_wheel(folder):
    """Build WHEEL into a folder, without the network."""
    done = subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel",
                           "--directory", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not (Path(folder) / WHEEL).exists():
        raise BookError(ROOT / "pyproject.toml", 1,
                        f"{WHEEL} is not built: {(done.stdout + done.stderr).strip()[-500:]}")


def notebooks(chapters, known):
    """Return {name: notebook} of the chapters with a backward, and of those written by hand."""
    cells = {chapter.name: cells_of(chapter, known) for chapter in chapters if asks_for(chapter)[0]}
    cells |= {path.stem: nbformat.read(path, 4).cells for path in WRITTEN.glob("*.ipynb")}
    return {name: notebook(own) for name, own in cells.items()}


def notebook(cells):
    """Return the notebook of some cells; the cell that installs npdl comes after the first."""
    first, *rest = cells
    made = new_notebook(cells=[first, code(INSTALL), *rest], metadata={"kernelspec": {
        "name": "python3", "display_name": "Python 3", "language": "python"}})
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"                   # the same each time it is made
    return made


def filled(text):
    """Return the text of a notebook with its solution in its blank cell."""
    made = nbformat.reads(text, 4)
    for cell in made.cells:
        cell.source = cell.metadata.get("solution", cell.source)
    return nbformat.writes(made)


def words(text):
    """Return a cell of Markdown."""
    return new_markdown_cell(text.strip("\n"))


def code(text, **metadata):
    """Return a cell of Python."""
    return new_code_cell(text.strip("\n"), metadata=metadata)


def folded(summary, text):
    """Return a cell of Markdown that opens on a click."""
    return words(f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>")


def cells_of(chapter, known):
    """Yield the cells of a chapter: a layer step by step, its gradients, a backward to write."""
    cls, part = asks_for(chapter)
    names = step_names(chapter)
    yield words(f"# {chapter.title}\n\nThe text and the equations are on the page of this chapter.")
    yield code(SETUP)
    yield words("## One run, line by line")
    yield code(f"layer, inputs, options = samples.sample(layers[{cls.__name__!r}])\n"
               "npdl.step(layer, *inputs, **options)")
    yield words("## Gradient checks")
    yield code(f"for name in {names!r}:\n"
               "    layer, inputs, options = samples.sample(layers[name])\n"
               "    print(gradcheck(layer, *inputs, **options), end=\"\\n\\n\")")
    yield from to_write(chapter, known, cls, sources.cited(chapter, part))


def to_write(chapter, known, cls, found):
    """Yield a backward to write, its check, hints one by one, and the solution."""
    function = vars(cls)["backward"]
    blank = f"{found.head}\n    raise NotImplementedError(\"your backward of {cls.__name__}\")"
    whole = _subclass("Mine", cls, function, textwrap.dedent(inspect.getsource(function)))
    yield words(f"## Write it yourself\n\nWrite the backward of `{cls.__name__}` into the next "
                "cell, in place of the `raise`. The cell after it checks every gradient, and names "
                "the incorrect line. If you don't know how to go on, open one hint at a time.")
    yield code(_subclass("Mine", cls, function, blank), solution=whole)
    yield code("layer, inputs, options = samples.sample(Mine)\n"
               "assert_right(layer, *inputs, **options)\nprint(\"every gradient is right\")")
    cited = [line for line in found.lines if line.cited]
    for number, line in enumerate(cited, 1):
        written = line.code.strip().partition("=")[0].rstrip(" +") or "the last line"
        equations = "\n\n".join(
            f"Equation {chapter.shown(label, known[label])}:\n\n"
            f"$$\n{known[label].equations[label].body}\n$$" for label in line.cited)
        yield folded(f"Hint {number} of {len(cited)}", f"`{written}`\n\n{equations}")
    yield folded("The solution", f"```python\n{whole}\n```")


def asks_for(chapter):
    """Return (class, the {source} of its backward) that a chapter's notebook asks for, or Nones.

    It is the layer of the chapter's graph, or else the first with a backward.
    """
    known, parts = find_layer_classes(), {}
    for part in reversed(chapter.directives("source")):
        cls, _, method = part.given.partition(":")[2].partition(".")
        if method == "backward" and cls in known:
            parts[cls] = part
    names = [*(part.given for part in chapter.directives("graph")), *reversed(parts)]
    return next(((known[name], parts[name]) for name in names if name in parts), (None, None))


def _subclass(name, cls, function, text):
    """Return the code of a subclass with another text of one method, after its imports."""
    module = inspect.getmodule(function)
    used = sorted(set(function.__code__.co_names) & set(vars(module)))
    lines = [f"from {module.__name__} import {', '.join(used)}", "", ""] if used else []
    return "\n".join([*lines, f"class {name}(layers[{cls.__name__!r}]):",
                      textwrap.indent(text.rstrip(), "    ")])

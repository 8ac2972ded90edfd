"""Make the notebooks of chapters with a backward to write, and read those in docs/book/notebooks.

The explanations are on the chapter's page. The notebook has code: a layer step by step, gradient
checks, and a backward to write, with hints and a solution. Its first code cell installs npdl, if it
is missing, from the wheel next to the notebook.
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
from docs.book.chapter import BookError, chapters_by_label
from docs.book.sources import ROOT

WRITTEN = Path(__file__).parent / "notebooks"
WHEEL = f"npdl_textbook-{npdl.__version__}-py3-none-any.whl"
METADATA = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
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


def build_wheel(folder):
    """Build the file WHEEL of npdl in a folder, without network access."""
    done = subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel",
                           "--directory", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not (Path(folder) / WHEEL).exists():
        raise BookError(ROOT / "pyproject.toml", 1,
                        f"{WHEEL} could not be built: {(done.stdout + done.stderr).strip()[-500:]}")


def make_notebooks(chapters):
    """Return {name: notebook} of the chapters with a backward, and of the files in WRITTEN."""
    cells = {chapter.name: make_chapter_cells(chapter)
             for chapter in chapters if find_exercise(chapter)}
    cells |= {path.stem: nbformat.read(path, 4).cells for path in WRITTEN.glob("*.ipynb")}
    made = {name: new_notebook(cells=[title, new_code_cell(INSTALL), *rest], metadata=METADATA)
            for name, (title, *rest) in cells.items()}
    for notebook in made.values():
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"               # the same each time it is made
    return made


def fill_in_solutions(text):
    """Return the text of a notebook whose blank cell holds the solution."""
    made = nbformat.reads(text, 4)
    for cell in made.cells:
        cell.source = cell.metadata.get("solution", cell.source)
    return nbformat.writes(made)


def make_folded_cell(summary, text):
    """Return a Markdown cell that shows `summary` and opens on a click."""
    return new_markdown_cell(f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>")


def make_chapter_cells(chapter):
    """Yield the cells of a chapter's notebook: steps of a layer, gradient checks, the exercise.

    The exercise is a blank backward, its check, hints, and the solution.
    """
    part = find_exercise(chapter)
    cls = sources.find_object(part.given.removesuffix(".backward"))
    yield new_markdown_cell(f"# {chapter.title}\n\nThe text and the equations are on this "
                            "chapter's page.")
    yield new_code_cell(SETUP)
    yield new_markdown_cell("## One run, line by line")
    yield new_code_cell("layer, inputs, options = samples.make_example_call("
                        f"layers[{cls.__name__!r}])\nnpdl.step(layer, *inputs, **options)")
    yield new_markdown_cell("## Gradient checks")
    yield new_code_cell(f"for name in {chapter.layer_names!r}:\n"
                        "    layer, inputs, options = samples.make_example_call(layers[name])\n"
                        "    print(gradcheck(layer, *inputs, **options), end=\"\\n\\n\")")
    listing = sources.make_cited_listing(chapter, part)
    blank = f"{listing.head}\n    raise NotImplementedError(\"your backward of {cls.__name__}\")"
    whole = _subclass_code(cls, textwrap.dedent(inspect.getsource(cls.backward)))
    yield new_markdown_cell(
        f"## Write it yourself\n\nWrite the backward of `{cls.__name__}` into the next "
        "cell, in place of the `raise`. The cell after it checks every gradient, and "
        "names the incorrect line. If you are stuck, open one hint at a time.")
    yield new_code_cell(_subclass_code(cls, blank), metadata={"solution": whole})
    yield new_code_cell("layer, inputs, options = samples.make_example_call(Mine)\n"
                        "assert_right(layer, *inputs, **options)\n"
                        "print(\"every gradient is right\")")
    homes, cited = chapters_by_label(), [line for line in listing.lines if line.cited]
    for number, line in enumerate(cited, 1):
        written = line.code.strip().partition("=")[0].rstrip(" +") or "the last line"
        equations = "\n\n".join(
            f"Equation {chapter.format_citation(label, homes[label])}:\n\n"
            f"$$\n{homes[label].equations[label].body}\n$$" for label in line.cited)
        yield make_folded_cell(f"Hint {number} of {len(cited)}", f"`{written}`\n\n{equations}")
    yield make_folded_cell("The solution", f"```python\n{whole}\n```")


def find_exercise(chapter):
    """Return the {source} Part of the backward that a chapter's exercise asks for, or None.

    It is that of the layer of the chapter's graph, or else the chapter's first one.
    """
    graphs = [f"{part.given}.backward" for part in chapter.find_directives("graph")]
    parts = [part for part in chapter.find_directives("source") if part.given.endswith(".backward")]
    return min(parts, key=lambda part: part.given.partition(":")[2] not in graphs, default=None)


def _subclass_code(cls, text):
    """Return the code of a subclass of `cls` with `text` as its backward, after its imports."""
    used = sorted(set(cls.backward.__code__.co_names) & set(vars(inspect.getmodule(cls.backward))))
    lines = [f"from {cls.backward.__module__} import {', '.join(used)}", "", ""] if used else []
    return "\n".join([*lines, f"class Mine(layers[{cls.__name__!r}]):",
                      textwrap.indent(text.rstrip(), "    ")])

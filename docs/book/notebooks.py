"""Notebooks: one of each chapter, and those in docs/book/notebooks.

A chapter's notebook has its text and its equations, and cells that run: its layers step by step,
their gradient checks, its first mistake with what blame says of it, and a backward to write. The
first cell installs npdl where it is missing, from the wheel that the site has beside the notebooks.
"""

import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import npdl
from docs.book import opening, sources
from docs.book.chapter import CITED, BookError, labels
from docs.book.frame import step_names
from docs.book.mistakes import changed, read_mistakes
from docs.book.solved import asked
from docs.book.sources import ROOT, find
from npdl.study.check.samples import layer_classes
from npdl.study.check.target import find_class

WRITTEN = Path(__file__).parent / "notebooks"
WHEEL = f"npdl_textbook-{npdl.__version__}-py3-none-any.whl"
SETUP = """\
import npdl
from npdl import *
from npdl.study.check import samples

layers = samples.layer_classes()"""
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
    """Return {name: notebook} of the chapters and of those written by hand."""
    cells = {chapter.name: _Cells(chapter, known).cells() for chapter in chapters}
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


class _Cells:
    """Makes the cells of a chapter: the method of a directive's name yields its cells."""

    def __init__(self, chapter, known):
        self.chapter, self.known = chapter, known

    def cells(self):
        yield words(f"# {self.chapter.title}")
        yield code(SETUP)
        for part in self.chapter.parts:
            make = getattr(self, part.name or "prose", None)        # {said} has no cell
            yield from make(part) if make else ()
        yield from self.to_write()

    def prose(self, part):
        text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*(On the page of this chapter: \1.)*", part.body)
        before, wrong, after = text.partition("## What goes wrong here\n")
        if before.strip():
            yield words(self.linked(before))
        if wrong:
            for name in step_names(self.chapter)[:1]:
                yield code(f"layer, inputs, options = samples.sample(layers[{name!r}])\n"
                           "npdl.step(layer, *inputs, **options)")
            yield words(self.linked(wrong + after))

    def linked(self, text):
        """Return a text with the numbers of the equations that it cites."""
        return CITED.sub(lambda m: self.shown(labels(m[1])), text)

    def shown(self, cited):
        return ", ".join(self.chapter.shown(label, self.known[label]) for label in cited)

    def equation(self, part):
        yield words(f"$$\n{part.body}\n\\tag{{{part.given.rpartition('-')[2]}}}\n$$")

    def picture(self, part):
        yield words(f"*(On the page of this chapter: {opening.picture(part)[1]})*")

    def sum(self, part):
        yield words("\n".join(f"$$\n{line}\n$$" for line in opening.summed(self.chapter, part)))

    def ask(self, part):
        question, _, answer = opening.question(self.chapter, part)
        yield words(f"**{question}**")
        yield folded("The answer", answer)

    def source(self, part):
        found = sources.cited(self.chapter, part)
        lines = [f"{line.code}    # from {self.shown(line.cited)}" if line.cited else line.code
                 for line in found.lines]
        yield words("\n".join(["```python", found.head, *lines, "```"]))

    def proof(self, part):
        yield code(f"for name in {part.given.split()!r}:\n"
                   "    layer, inputs, options = samples.sample(layers[name])\n"
                   "    print(gradcheck(layer, *inputs, **options), end=\"\\n\\n\")")

    def mistakes(self, part):
        """Yield each mistake in words, and the first one also as a class on which blame runs."""
        target, *layer = part.given.split()
        for number, one in enumerate(read_mistakes(self.chapter, part)):
            yield words(f"```diff\n- {one.was}\n+ {one.now}\n```\n"
                        + self.linked(f"{one.why} {one.other}".strip()))
            if number == 0 and not one.asked and isinstance(find(target), type):
                cls = find_class(layer[0] if layer else target.partition(":")[2])
                yield code(_wrong(cls, *changed(find(target), one.was), one.now))

    def questions(self, part):
        for number in part.given.split():
            for full, title, body in asked(number):
                yield folded(f"{full} {title}", body)

    def to_write(self):
        """Yield a backward to write, its check, hints one by one, and the solution."""
        cls, part = asks_for(self.chapter)
        if cls is None:
            return
        found, function = sources.cited(self.chapter, part), vars(cls)["backward"]
        blank = f"{found.head}\n    raise NotImplementedError(\"your backward of {cls.__name__}\")"
        whole = _subclass("Mine", cls, function, textwrap.dedent(inspect.getsource(function)))
        yield words(f"**Write the backward of `{cls.__name__}`** into the next cell, in place of "
                    "the `raise`; the cell behind it checks every gradient, and says which line is "
                    "wrong. If you are stuck, open one hint at a time.")
        yield code(_subclass("Mine", cls, function, blank), solution=whole)
        yield code("layer, inputs, options = samples.sample(Mine)\n"
                   "assert_right(layer, *inputs, **options)\nprint(\"every gradient is right\")")
        told = [line for line in found.lines if line.cited]
        for number, line in enumerate(told, 1):
            written = line.code.strip().partition("=")[0].rstrip(" +") or "the last line"
            yield folded(f"Hint {number} of {len(told)}",
                         f"`{written}`: from {self.shown(line.cited)}")
        yield folded("The solution", f"```python\n{whole}\n```")


def asks_for(chapter):
    """Return (class, the {source} of its backward) that a chapter's notebook asks for, or Nones.

    It is the layer of the chapter's graph, or else the first with a backward.
    """
    known, parts = layer_classes(), {}
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


def _wrong(cls, function, statement, now):
    """Return the code of a subclass with one incorrect statement, and a call of blame."""
    lines, first = inspect.getsourcelines(function)
    at = statement.first - first
    indent = " " * statement.node.col_offset
    lines[at: at + 1 + statement.last - statement.first] = [f"{indent}{now}       # the mistake\n"]
    return "\n".join([_subclass("Wrong", cls, function, textwrap.dedent("".join(lines))), "", "",
                      "layer, inputs, options = samples.sample(Wrong)",
                      "npdl.blame(layer, *inputs, **options)"])

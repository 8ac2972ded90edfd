"""Notebooks: of every chapter, and of the study tools in docs/book/notebooks.

Each is a script in the percent form first (# %% begins a cell), of which jupytext makes the
notebook. The first cell installs npdl where it is missing, from the wheel that the site has beside
the notebooks.
"""

import importlib.util
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import npdl
from docs.book import address, checks, frame, graphs, moving, opening, sources
from docs.book.chapter import CITED, BookError, labels
from docs.book.mistakes import edited, read_mistakes
from docs.book.pictures import PICTURES
from docs.book.proofs import proof_table
from docs.book.solved import worked
from docs.book.sources import ROOT, find
from npdl.study.check.samples import layer_classes
from npdl.study.check.target import find_class

ON_PAPER = 'xmlns="http://www.w3.org/2000/svg" style="background: #fff; color: #222"'
TAGS = ' tags=["%s"]'
TOOLS = Path(__file__).parent / "notebooks"
WHEEL = f"npdl_textbook-{npdl.__version__}-py3-none-any.whl"


def install(needed="npdl"):
    """Return the first cell of a notebook: it installs npdl if the module `needed` is missing."""
    return f'''\
# npdl, where it is missing: from its wheel, beside this notebook
import importlib.util
from pathlib import Path

wheel, elsewhere = Path("{WHEEL}"), {address.wheel(WHEEL)!r}
if importlib.util.find_spec("{needed}") is None:
    wanted = f"{{wheel}}[train]" if wheel.exists() else elsewhere
    if wanted is None:
        raise SystemExit(f"{needed} is missing: put {WHEEL}, which the book's "
                         f"first page links, beside this notebook, into {{Path.cwd()}}")
    get_ipython().run_line_magic("pip", f"install -q '{{wanted}}'")'''


def write_wheel(folder):
    """Build WHEEL into a folder, without the network; False where hatchling is not installed."""
    if importlib.util.find_spec("hatchling") is None:
        return False
    done = subprocess.run([sys.executable, "-m", "hatchling", "build", "--target", "wheel",
                           "--directory", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode or not (Path(folder) / WHEEL).exists():
        raise BookError(ROOT / "pyproject.toml", 1,
                        f"{WHEEL} is not built: {(done.stdout + done.stderr).strip()[-500:]}")
    return True


def scripts(chapters, known):
    """Return {name: percent script} of every notebook."""
    found = {c.name: chapter_script(c, known) for c in chapters}
    for path in sorted(TOOLS.glob("*.py")):
        first, rest = path.read_text(encoding="utf-8").split("\n\n", 1)
        needed = "matplotlib" if "import matplotlib" in rest else "npdl"
        found[path.stem] = _joined([first, _code(install(needed)), rest])
    return found


def notebook(script):
    """Return a percent script as the text of a notebook, with no outputs except pictures."""
    import jupytext
    from nbformat.v4 import new_output

    made = jupytext.reads(script, fmt="py:percent")
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3",
                                   "language": "python"}
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number}"                   # the same each time it is made
        if "picture" in cell.metadata.get("tags", ()):
            drawn = cell.source.partition('"""')[2].removesuffix('""")')
            cell.metadata["jupyter"] = {"source_hidden": True}
            cell["outputs"] = [new_output("display_data", {"image/svg+xml": drawn})]
    return jupytext.writes(made, fmt="ipynb") + "\n"


def filled(text):
    """Return the text of a notebook with its solutions in its blank cells."""
    made = json.loads(text)
    solved = [_source(cell).partition("```python\n")[2].partition("\n```")[0]
              for cell in made["cells"] if "solution" in cell["metadata"].get("tags", ())]
    blank = [cell for cell in made["cells"] if "blank" in cell["metadata"].get("tags", ())]
    for cell, code in zip(blank, solved, strict=True):
        cell["source"] = code
    return json.dumps(made)


def _source(cell):
    return "".join(cell["source"])


def title(script):
    """Return the heading of a notebook."""
    return re.search(r"^# # (.*)$", script, re.M)[1]


def _joined(cells):
    return "\n\n".join(cell for cell in cells if cell) + "\n"


def _words(text, tags=""):
    lines = text.strip("\n").split("\n")
    if not "".join(lines).strip():
        return ""
    return "\n".join([f"# %% [markdown]{tags}", *(f"# {line}".rstrip() for line in lines)])


def _code(text, tags=""):
    return f"# %%{tags}\n" + text.strip("\n")


def chapter_script(chapter, known):
    """Return a chapter as a percent script: its text, its equations, their checks as cells."""
    return _joined([_words(f"# {chapter.title}"), _code(install()), _code(_setup(chapter)),
                    *_Script(chapter, known).cells()])


def _setup(chapter):
    """Return the cell that defines the names for every check."""
    return f'''\
import numpy as np

import npdl
from npdl import *
from npdl.study.check import samples
from npdl.study.check.subjects import randomise
from npdl.study.equations.holds import Equation
from npdl.study.equations.measured import inside, numeric, slope

rng = np.random.default_rng({checks.seed(chapter.name)})


def ready(layer):
    layer = layer.astype("float64")
    randomise(layer, rng)                               # gains and biases too
    return layer'''


class _Script:
    def __init__(self, chapter, known):
        self.chapter, self.known = chapter, known

    def cells(self):
        for part in self.chapter.parts:
            made = getattr(self, part.name or "prose")(part)
            yield from [made] if isinstance(made, str) else made
        yield from _asked(self.chapter, self.shown)

    def prose(self, part):
        text = CITED.sub(lambda m: ", ".join(map(self.shown, labels(m[1]))), part.body)
        text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*(On the page of this chapter: \1.)*", text)
        for piece in re.split(r"^(?=## (?:Forward|What goes wrong here)$)", text, flags=re.M):
            if piece.startswith("## Forward"):
                yield from _picture(self.chapter)
            elif piece.startswith("## What goes wrong here"):
                for name in frame.step_names(self.chapter)[:1]:
                    yield _code(f"layer, inputs, options = samples.sample(npdl.{name})\n"
                                "npdl.step(layer, *inputs, **options)")
            yield _words(piece)

    def shown(self, label):
        home, number = self.known[label], label.rpartition("-")[2]
        return f"({number})" if home is self.chapter else f"({home.number}.{number})"

    def equation(self, part):
        number = part.given.rpartition("-")[2]
        return _words(f"$$\n{part.body}\n\\tag{{{number}}}\n$$")

    def model(self, part):
        return _shown(*opening.picture(self.chapter, part))

    def moving(self, part):
        name, caption = opening.moved(self.chapter, part)
        return _shown(moving.still(name, caption), caption)

    def sum(self, part):
        found = opening.summed(self.chapter, part)
        tex = ", ".join(found.lines)
        yield _words("\n".join(f"$$\n{line}\n$$" for line in found.lines))
        yield _code(f'before = dict(globals())\nholds = Equation(r"""{tex}""", globals())\n'
                    f'close = holds.close\n\n{found.code}\nprint(holds)\n'
                    'for name in globals().keys() - before.keys() - {"before", "name"}:\n'
                    '    del globals()[name]    # its arrays are not the chapter\'s\n'
                    'globals().update(before)')

    def ask(self, part):
        words, expression, answer = opening.question(self.chapter, part)
        yield _words(f"**{words}**")
        yield _words(f"<details><summary>The answer</summary>\n\n{answer}\n\n</details>")

    def said(self, part):
        """Return "", because only the page checks the statements between the equations."""
        return ""

    def check(self, part):
        """Return a cell that evaluates the equation; a student can change a sign in it."""
        number = part.given.rpartition("-")[2]
        tex = self.chapter.equations[part.given].body
        return _code(f'holds = Equation(r"""{tex}""", globals())\nclose = holds.close\n\n'
                     f'{part.body}\nprint("({number})", holds)')

    def index(self, part):
        return ""

    def source(self, part):
        found = sources.cited(self.chapter, part)
        lines = [found.head]
        for line in found.lines:
            origin = ", ".join(map(self.shown, line.cited))
            notes = "; ".join(filter(None, [line.comment, origin and f"from {origin}"]))
            code = line.code.rstrip()
            lines += [*line.above, f"{code:<56}  # {notes}" if notes and "\n" not in code else code]
        return _words("\n".join(["```python", *lines, "```"]))

    def proof(self, part):
        return _words("\n".join(proof_table(part.given.split())))

    def mistakes(self, part):
        """Yield each mistake in words, and the first one also as a class on which blame runs."""
        target, *layer = part.given.split()
        for number, one in enumerate(read_mistakes(self.chapter, part)):
            yield _words(f"```diff\n- {one.was}\n+ {one.now}\n```\n" + CITED.sub(
                lambda m: ", ".join(map(self.shown, labels(m[1]))),
                f"{one.why} {one.other}".strip()))
            if one.asked:
                yield _code(f"# without the mistake\n{one.asked}")
            elif number == 0 and isinstance(find(target), type):
                cls = find_class(layer[0] if layer else target.partition(":")[2])
                yield _code(_wrong(cls, *edited(find(target), one)))

    def questions(self, part):
        for number in part.given.split():
            for text in worked(number):
                yield _words(f"```text\n{text}\n```")


def _picture(chapter):
    """Return cells with the chapter's picture, which is stored in the notebook itself."""
    if chapter.name not in PICTURES:
        return []
    return _shown(*PICTURES[chapter.name]())


def _shown(svg, caption):
    drawn = svg.replace("<svg ", f"<svg {ON_PAPER} ", 1)
    return [_code(f'from IPython.display import SVG\n\nSVG("""{drawn}""")', TAGS % "picture"),
            _words(caption)]


def asks_for(chapter):
    """Return (class, its backward, directive) that a chapter's notebook asks for, or None."""
    known, parts = layer_classes(), {}
    for part in chapter.directives("source"):
        cls, _, method = part.given.partition(":")[2].partition(".")
        if method == "backward" and cls in known:
            parts.setdefault(cls, part)
    if not parts:
        return None
    chosen = graphs.CHOSEN.get(chapter.name)
    cls = chosen if chosen in parts else next(iter(parts))
    return known[cls], vars(known[cls])["backward"], parts[cls]


def _asked(chapter, shown):
    """Yield a backward to write, its check, hints one by one, and the solution."""
    if asks_for(chapter) is None:
        return
    cls, function, part = asks_for(chapter)
    found = sources.cited(chapter, part)
    head = f"{found.head}\n    raise NotImplementedError(\"your backward of {cls.__name__}\")"
    yield _words(f"**Write the backward of `{cls.__name__}`** into the next cell, in place of the "
                 "`raise`; the cell behind it checks every gradient, and says which line is wrong. "
                 "If you are stuck, open one hint at a time.")
    yield _code(_subclass("Mine", cls, function, head), TAGS % "blank")
    yield _code("layer, inputs, options = samples.sample(Mine)\n"
                "assert_right(layer, *inputs, **options)\nprint(\"every gradient is right\")")
    told = [line for line in found.lines if line.cited]
    for number, line in enumerate(told, 1):
        what = ", ".join(w for w in (line.comment, "from " + ", ".join(map(shown, line.cited)))
                         if w)
        written = line.code.strip().partition("=")[0].rstrip(" +") or "the last line"
        yield _words(f"<details><summary>Hint {number} of {len(told)}</summary>\n\n"
                     f"`{written}`: {what}\n\n</details>")
    whole = _subclass("Mine", cls, function, textwrap.dedent(inspect.getsource(function)))
    yield _words(f"<details><summary>The solution</summary>\n\n```python\n{whole}\n```\n\n"
                 "</details>", TAGS % "solution")


def _subclass(name, cls, function, text):
    """Return the code of a subclass with another text of one method, after its imports."""
    module = inspect.getmodule(function)
    used = sorted(set(function.__code__.co_names) & set(vars(module)))
    lines = [f"from {module.__name__} import {', '.join(used)}", "", ""] if used else []
    return "\n".join([*lines, f"class {name}(npdl.{cls.__name__}):",
                      textwrap.indent(text.rstrip(), "    ")])


def _wrong(cls, function, statement, now):
    """Return the code of a subclass with one incorrect statement, and a call of blame."""
    lines, first = inspect.getsourcelines(function)
    at = statement.first - first
    indent = " " * statement.node.col_offset
    lines[at: at + 1 + statement.last - statement.first] = [f"{indent}{now}       # the mistake\n"]
    text = textwrap.dedent("".join(lines))
    return "\n".join([_subclass("Wrong", cls, function, text), "", "",
                      "layer, inputs, options = samples.sample(Wrong)",
                      "npdl.blame(layer, *inputs, **options)"])

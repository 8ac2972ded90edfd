"""Read a chapter's file: split it into text and fenced directives, and check their form.

A chapter is docs/book/chapters/NN-name.md; docs.book describes its sections and directives. A
directive begins with a fence such as ```{equation} name-3, and {from}`name-3` cites this equation
in the text. An invalid form raises a BookError with file and line.
"""

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

from npdl.errors import NpdlError

FOLDER = Path(__file__).parent / "chapters"
DIRECTIVES = ("index", "picture", "graph", "sum", "ask", "equation", "said", "source", "proof",
              "mistakes", "questions")
FORMULA = re.compile(r"(?<![\\$])\$(?!\$)((?:[^$\\]|\\.)+)\$", re.S)
CLAIMS = re.compile(r"(?P<open>[{\[])|(?P<close>[}\]])|(?<!\\)[=<>]|\\(?:le|ge|ne|ll|gg|in|notin|"
                    r"to|sim|approx|propto|equiv|leftarrow|Rightarrow)(?![A-Za-z])")
FENCE = re.compile(r"^(`{3,})(?:\{(\w+)\})?[ \t]*(.*)$")
CITED = re.compile(r"\{from\}`([^`]+)`")


class BookError(NpdlError):
    """An error in a chapter. The message has the file, the line, and what to do."""

    def __init__(self, file, line, text):
        super().__init__(f"{Path(file).name}:{line}: {text}")


@dataclass
class Part:
    """Text (`name` is ""), or a directive: `given` follows its name, `body` is its content.

    In an equation or a sum, `code` is the check below the line ---. A {said} has only `code`.
    """

    name: str
    line: int
    given: str = ""
    body: str = ""
    code: str = ""

    @property
    def line_before_code(self):
        """Return the number of the line before the code in the chapter's file."""
        return self.line + (self.body.count("\n") + 2 if self.body else 0)


@dataclass
class Chapter:
    """A chapter: `name` is, for example, "06-lstm", `number` is 6, `equations` are {label: Part}.

    `formulas` are {label: {name: TeX}}, the formulas that the check with this label evaluates. An
    equation has one, named by its label. A {said} has those of its text, named by their own TeX.
    """

    path: Path
    title: str = ""
    parts: list = field(default_factory=list)
    equations: dict = field(default_factory=dict)
    formulas: dict = field(default_factory=dict)

    @property
    def name(self):
        return self.path.stem

    @property
    def number(self):
        return int(self.name[:2])

    @property
    def layer_names(self):
        """Return the names of the layers of its {proof}, which have step pages."""
        return [name for part in self.find_directives("proof") for name in part.given.split()]

    def format_citation(self, label, home_chapter):
        """Return the citation of an equation of `home_chapter` in this one, as (3) or (1.3)."""
        number = label.rpartition("-")[2]
        return f"({number})" if home_chapter is self else f"({home_chapter.number}.{number})"

    def fail(self, line, text):
        raise BookError(self.path, line, text)

    def find_directives(self, *names):
        """Return the directives with one of these names, in order."""
        return [part for part in self.parts if part.name in names]


def list_chapters():
    """Return the paths of the chapters' files, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]-*.md"))


@functools.lru_cache(maxsize=64)
def read_chapter(path):
    """Return the Chapter in a file. Raises BookError if the file has an invalid form."""
    chapter = Chapter(Path(path))
    _split_into_parts(chapter, chapter.path.read_text(encoding="utf-8"))
    for part in chapter.find_directives("equation"):
        chapter.equations[part.given] = part
        chapter.formulas[part.given] = {part.given: part.body}
    _assign_relations_to_checks(chapter)
    return chapter


@functools.cache
def chapters_by_label():
    """Return {label: Chapter} of the equations of all chapters."""
    return {label: chapter for chapter in map(read_chapter, list_chapters())
            for label in chapter.equations}


def _split_into_parts(chapter, text):
    """Set chapter.title and chapter.parts. Fences that are not DIRECTIVES stay in the text."""
    lines, held, start, i = text.split("\n"), [], 1, 0
    if lines[0].startswith("# "):
        chapter.title, lines[0] = lines[0][2:].strip(), ""
    while i < len(lines):
        opened, end = FENCE.match(lines[i]), i
        if opened:
            end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == opened[1]), None)
            if end is None:
                chapter.fail(i + 1, f"the fence {lines[i]!r} is never closed")
        if opened is None or opened[2] in (None, "toctree"):
            held += lines[i: end + 1]
        elif opened[2] not in DIRECTIVES:
            chapter.fail(i + 1, f"directive {opened[2]!r} is unknown; use one of: "
                                f"{', '.join(DIRECTIVES)}")
        else:
            part = Part(opened[2], i + 1, opened[3].strip(), "\n".join(lines[i + 1: end]))
            if part.name in ("equation", "sum"):
                part.body, bar, part.code = part.body.partition("\n---\n")
                if not bar:
                    chapter.fail(i + 1, "write TeX, a line ---, and code that calls holds(...)")
            if part.name == "said":
                part.body, part.code = "", part.body
            chapter.parts += [Part("", start, body="\n".join(held)), part]
            held, start = [], end + 2
        i = end + 1
    chapter.parts.append(Part("", start, body="\n".join(held)))


def find_relations(text):
    """Yield (position, TeX on one line) of each formula $...$ with a relation such as =."""
    for formula in FORMULA.finditer(text):
        depth = 0
        for sign in CLAIMS.finditer(formula[1]):
            depth += bool(sign["open"]) - bool(sign["close"])
            if depth == 0 and not sign["close"] and sign[0] != formula[1]:
                yield formula.start(), " ".join(formula[1].split())
                break


def _assign_relations_to_checks(chapter):
    """Store in chapter.formulas, for each {said}, the relations of the text before it."""
    waiting, said = {}, 0
    for part in chapter.parts:
        if part.name == "":
            for place, tex in find_relations(part.body):
                waiting.setdefault(tex, part.line + part.body[:place].count("\n"))
        elif part.name == "said":
            said += 1
            part.given = f"said-{said}"
            chapter.formulas[part.given], waiting = {tex: tex for tex in waiting}, {}
    for tex, line in waiting.items():
        chapter.fail(line, f"${tex}$ has a relation and no check: write an {{said}} with "
                           "holds(\"how it begins\", ...) below, or say it in words")

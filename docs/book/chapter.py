"""A chapter as it is written: its text and its fenced directives, checked for its form.

A chapter is docs/book/chapters/NN-name.md: a title, the box, the question, then the SECTIONS. A
chapter without a box has the sections of BEFORE. Directives are fences, ```{equation} name-3;
{from}`name-3` cites an equation in the text. A wrong form raises a BookError with file and line.
"""

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "chapters"
SECTIONS = ("What it does", "Diagram and shapes", "Forward", "Backward by hand", "The derivation",
            "Summary", "Backward, line by line", "The proof", "What goes wrong here", "Exercises",
            "Write it yourself", "Elsewhere")
BEFORE = ("What it does", "Forward", "The derivation", "Backward, line by line", "The proof",
          "What goes wrong here", "Questions of the course", "Write it yourself")
BOX = ("> **You will be able to** ", "> **You need** ", "> **Time** ")
GRADES = ("### Easy", "### Medium", "### Hard")
DIRECTIVES = ("index", "model", "moving", "sum", "ask", "equation", "check", "said", "source",
              "proof", "mistakes", "questions")
FORMULA = re.compile(r"(?<![\\$])\$(?!\$)((?:[^$\\]|\\.)+)\$", re.S)
CLAIMS = re.compile(r"(?P<open>[{\[])|(?P<close>[}\]])|(?<!\\)[=<>]|\\(?:le|ge|ne|ll|gg|in|notin|"
                    r"to|sim|approx|propto|equiv|leftarrow|Rightarrow)(?![A-Za-z])")
FENCE = re.compile(r"^(`{3,})(?:\{(\w+)\})?[ \t]*(.*)$")
CITED = re.compile(r"\{from\}`([^`]+)`")
LABEL = re.compile(r"([a-z][a-z0-9]*)-(\d+)")


class BookError(Exception):
    """What is wrong in a chapter: its file, its line, what to do."""

    def __init__(self, file, line, text):
        super().__init__(f"{Path(file).name}:{line}: {text}")


@dataclass
class Part:
    """A piece of a chapter: text (`name` is ""), or the directive `name` with what it holds."""

    name: str
    line: int
    given: str = ""
    body: str = ""


@dataclass
class Chapter:
    """`name` is "05-lstm", `number` 5; `equations` {label: Part}, `cited` every label cited;
    `formulas` {an {said}'s label: [what its text says between two $, with a relation]}."""

    path: Path
    title: str = ""
    parts: list = field(default_factory=list)
    equations: dict = field(default_factory=dict)
    cited: set = field(default_factory=set)
    formulas: dict = field(default_factory=dict)

    @property
    def name(self):
        return self.path.stem

    @property
    def number(self):
        return int(self.name[:2])

    def fail(self, line, text):
        raise BookError(self.path, line, text)

    def directives(self, *names):
        """Return the directives with one of these names, in order."""
        return [part for part in self.parts if part.name in names]


def paths():
    """Return the chapters' files, in order."""
    return sorted(FOLDER.glob("[0-9][0-9]-*.md"))


@functools.lru_cache(maxsize=64)
def read(path):
    """Return the Chapter in a file. Raises BookError if the file has an invalid form."""
    chapter = Chapter(Path(path))
    _split(chapter, chapter.path.read_text(encoding="utf-8"))
    _number(chapter)
    _follow(chapter)
    _claim(chapter)
    _cite(chapter)
    return chapter


def complete(chapter):
    """Raise BookError unless the chapter has its title and all sections, in order."""
    heads = [(part.line + i, line[3:].strip()) for part in chapter.directives("")
             for i, line in enumerate(part.body.split("\n")) if line.startswith("## ")]
    if not chapter.title:
        chapter.fail(1, f"the first line must be the title: # {chapter.number}. The LSTM")
    has_box = _has_box(chapter)
    sections = SECTIONS if has_box else BEFORE
    for i, name in enumerate(sections):
        if i >= len(heads) or heads[i][1] != name:
            chapter.fail(heads[min(i, len(heads) - 1)][0] if heads else 1,
                         f"section {i + 1} must be '## {name}'; the sections are: "
                         f"{', '.join(sections)}")
    if len(heads) > len(sections):
        chapter.fail(heads[len(sections)][0], "no section comes after the last; use ### inside one")
    if has_box:
        _check_exercises(chapter, heads[SECTIONS.index("Exercises")][0])


def _has_box(chapter):
    """Return True if the chapter begins with a box; raise BookError if the box is incomplete."""
    lines = "\n".join(part.body for part in chapter.directives("")).split("\n")
    found = [line for line in lines if line.startswith(BOX)]
    if found and [begin for line in found for begin in BOX if line.startswith(begin)] != list(BOX):
        chapter.fail(1, f"the box at the top must have the lines: {', '.join(BOX)}")
    return bool(found)


def _check_exercises(chapter, line):
    """Raise BookError unless there are exercises of each grade, with folded solutions."""
    text = "\n".join(part.body for part in chapter.directives(""))
    rest = text.partition("## Exercises\n")[2].partition("\n## ")[0]
    for grade in GRADES:
        exercises = rest.partition(f"{grade}\n")[2].partition("\n### ")[0]
        if "<details><summary>Solution" not in exercises:
            chapter.fail(line, f"'{grade}' must have an exercise with a solution in "
                               "<details><summary>Solution</summary>")


def _split(chapter, text):
    """Cut a file into its parts; a fence that is no directive stays in the text."""
    lines, held, start, i = text.split("\n"), [], 1, 0
    if lines[0].startswith("# "):
        chapter.title, lines[0] = lines[0][2:].strip(), ""
    while i < len(lines):
        opened = FENCE.match(lines[i])
        if opened is None:
            held.append(lines[i])
            i += 1
            continue
        ticks, name, given = opened.groups()
        end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == ticks), None)
        if end is None:
            chapter.fail(i + 1, f"the fence {lines[i]!r} is never closed")
        if name is None:
            held += lines[i: end + 1]
        else:
            if name not in DIRECTIVES:
                chapter.fail(i + 1, f"directive {name!r} is unknown; use one of: "
                                    f"{', '.join(DIRECTIVES)}")
            chapter.parts += [Part("", start, body="\n".join(held)),
                              Part(name, i + 1, given.strip(), "\n".join(lines[i + 1: end]))]
            held, start = [], end + 2
        i = end + 1
    chapter.parts.append(Part("", start, body="\n".join(held)))


def _number(chapter):
    """Collect the equations, and check that their labels end in 1, 2, ...: lstm-1, lstm-2."""
    for part in chapter.directives("equation"):
        label, number = LABEL.fullmatch(part.given), len(chapter.equations) + 1
        first = LABEL.fullmatch(next(iter(chapter.equations), part.given))
        if label is None or int(label[2]) != number or label[1] != first[1]:
            word = first[1] if first else "name"
            chapter.fail(part.line, f"equation {part.given!r}: the label must be {word}-{number}")
        chapter.equations[part.given] = part


def _follow(chapter):
    """Check that each equation is followed by its check, and each check follows its equation."""
    told = [p for p in chapter.parts if p.name or p.body.strip()]
    for before, part in zip([None, *told], [*told, None], strict=True):
        if before is not None and before.name == "equation" and (
                part is None or (part.name, part.given) != ("check", before.given)):
            chapter.fail(before.line, f"equation {before.given} has no check: write one directly "
                                      f"after it, ```{{check}} {before.given}")
        if part is not None and part.name == "check" and (
                before is None or (before.name, before.given) != ("equation", part.given)):
            chapter.fail(part.line, f"check {part.given!r} does not follow its equation")


def claims(text):
    """Yield (position, TeX on one line) of each formula that relates two terms."""
    for found in FORMULA.finditer(text):
        depth = 0
        for sign in CLAIMS.finditer(found[1]):
            depth += bool(sign["open"]) - bool(sign["close"])
            if depth == 0 and not sign["close"] and sign[0] != found[1]:
                yield found.start(), " ".join(found[1].split())
                break


def _claim(chapter):
    """Give each {said} the formulas of the text since the last one. Raises BookError for others."""
    waiting = {}
    for part in chapter.parts:
        if part.name == "":
            for place, tex in claims(part.body):
                waiting.setdefault(tex, part.line + part.body[:place].count("\n"))
        elif part.name == "said":
            part.given = f"said-{len(chapter.formulas) + 1}"
            chapter.formulas[part.given], waiting = list(waiting), {}
    for tex, line in waiting.items():
        chapter.fail(line, f"${tex}$ has a relation and no check: write an {{said}} with "
                           "holds(\"how it begins\", ...) below, or say it in words")


def _cite(chapter):
    """Collect the labels that text and sources cite."""
    for part in chapter.directives("", "mistakes"):
        for match in CITED.finditer(part.body):
            chapter.cited |= set(labels(match[1]))
    for part in chapter.directives("source"):
        for line in part.body.split("\n"):
            chapter.cited |= set(labels(line.partition("<-")[2]))


def labels(text):
    """Return the labels in a text: "lstm-3 lstm-4" -> ["lstm-3", "lstm-4"]."""
    return text.replace(",", " ").split()


def every_equation(chapters):
    """Return {label: chapter} of all chapters. Raises BookError for duplicate or uncited labels."""
    found = {}
    for chapter in chapters:
        for label, part in chapter.equations.items():
            if label in found:
                chapter.fail(part.line, f"equation {label} is in {found[label].path.name} too")
            found[label] = chapter
    cited = set().union(*(chapter.cited for chapter in chapters))
    for chapter in chapters:
        for label, part in chapter.equations.items():
            if label not in cited:
                chapter.fail(part.line, f"equation {label} is cited by no line and no text: cite "
                                        f"it in a source (<- {label}) or by {{from}}`{label}`")
    return found

"""The framework of the exercises: questions, checks, claims, verdicts. README.md has an example."""

import importlib
import re
import textwrap
import traceback
from collections import Counter, namedtuple
from itertools import zip_longest
from pathlib import Path

import numpy as np

FAILED = "our computation failed"       # no verdict on the document
VERDICTS = ("confirmed", "wrong", "slip", "under-specified", "convention", "no answer given",
            "essay", FAILED)
QUESTIONS = []                          # the modules of d000 .. d004 add theirs


def judge(holds, if_true="confirmed", if_false=None):
    """Return the verdict `if_true` if the comparison holds, else `if_false`.

    `if_false` is "wrong" by default, or FAILED if `if_true` is not "confirmed".
    """
    return if_true if holds else if_false or ("wrong" if if_true == "confirmed" else FAILED)


# A statement of a document, and our verdict on it. `part` is the topic of the claim, or "" if the
# question's title names it. `weight` says if a wrong claim is a wrong "step" or a wrong "answer".
Claim = namedtuple("Claim", "number part says document computed verdict evidence weight",
                   defaults=["step"])


class Question:
    """A question. After run() it has its solution in Markdown, its checks, and its claims."""

    def __init__(self, number, title, work, picture=None):
        self.number, self.title, self.work, self.picture = number, title, work, picture

    def say(self, text, *code_blocks, prefix=""):
        """Add the paragraph prefix + text, and below it code blocks: formulas, numbers, tables."""
        lines = [textwrap.indent(textwrap.dedent(block), " " * (4 + len(prefix)))
                 for block in code_blocks]
        self.text += map(set_minus_signs, [prefix + text, *["\n".join(lines)] * bool(code_blocks)])

    def step(self, text, *code_blocks):
        """Add a paragraph as a numbered step."""
        self.steps += 1
        self.say(text, *code_blocks, prefix=f"{self.steps}. ")

    def answer(self, text):
        """Add the paragraph with the answer."""
        self.say(f"Answer: {text}")

    def check(self, what, holds):
        """Add a check of our solution. `holds` is its result; if one fails, no claim is judged."""
        self.checks.append((set_minus_signs(what), bool(holds)))

    def claim(self, *fields, **weight):
        """Add a Claim of this question. `fields` are those of Claim after `number`."""
        self.claims.append(Claim(self.number, *fields, **weight))

    def run(self):
        """Compute the solution and return the question; an exception counts as a failed check."""
        self.text, self.checks, self.claims, self.steps = [], [], [], 0
        try:
            self.work(self.say, self.step, self.answer, self.check, self.claim)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.check(f"{type(error).__name__} in {place.name}: {error}", False)
        self.failed = [what for what, holds in self.checks if not holds] + [
            claim.says for claim in self.claims if claim.verdict == FAILED]
        if self.failed:
            self.claims = [claim._replace(verdict=FAILED) for claim in self.claims]
        return self

    def format_solution(self):
        """Return the question, its solution and the checks as Markdown."""
        checks = [f"- {'Check' if holds else FAILED.upper()}: {what}"
                  for what, holds in self.checks]
        return wrap_markdown("\n\n".join(filter(None, [     # python -OO removes docstrings
            f"# {self.number} {self.title}", self.work.__doc__, *self.text, "\n".join(checks)])))

    def format_verdicts(self, heading):
        """Return the claims with their verdicts as Markdown below a heading; "" for no claims."""
        return wrap_markdown("\n\n".join([heading, *(
            f"- {c.part and c.part + ': '}{c.says}\n  - document: {c.document}\n  - computed: "
            f"{c.computed}\n  - evidence: {c.evidence}\n  - verdict: {c.verdict.upper()}"
            for c in self.claims)])) if self.claims else ""

    def save_picture(self, folder):
        """Write the question's picture as a PNG file into a folder, and return its path."""
        from matplotlib.figure import Figure

        figure, path = Figure(layout="constrained"), Path(folder) / f"{self.number}.png"
        self.picture(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        return path


def question(number, title, picture=None):
    """Return a decorator that adds a function to QUESTIONS; picture(figure) draws for --figures."""
    def register(work):
        QUESTIONS.append(Question(number, title, work, picture))
        return work
    return register


def find_questions(number=""):
    """Return the question with this number and all of its parts. For "", return all questions."""
    for path in sorted(Path(__file__).parent.glob("d[0-9]*/[a-z]*.py")):
        importlib.import_module(f"exercises.{path.parent.name}.{path.stem}")
    found = [q for q in QUESTIONS
             if not number or re.match(rf"{re.escape(number)}(?!\d)", q.number)]
    return sorted(found, key=lambda q: [(int(part), "") if part.isdigit() else (0, part)
                                        for part in re.split(r"(\d+)", q.number)])


def format_all_claims(questions):
    """Return Markdown texts: the claims of each question, lists of errors, a table of verdicts."""
    texts = [asked.format_verdicts(f"## {asked.number} {asked.title}") for asked in questions]
    claims = [claim for asked in questions for claim in asked.claims]
    for name, verdict, weights in (("Wrong answers", "wrong", ["answer"]),
                                   ("Wrong steps", "wrong", ["step"]),
                                   ("Slips", "slip", ["answer", "step"])):
        found = [f"- {claim.number}: {claim.says}" for claim in claims
                 if claim.verdict == verdict and claim.weight in weights]
        lines = [f"## {name}: {len(found)}", *[""] * bool(found), *found]
        texts.append(wrap_markdown("\n".join(lines)))
    counts = Counter((column, c.verdict) for c in claims for column in (c.number[:3], "all"))
    heads = sorted({column for column, _ in counts})
    rows = [(verdict, *(counts[head, verdict] for head in heads)) for verdict in VERDICTS]
    counted = textwrap.indent(format_table(("verdict", *heads), rows), "    ")
    return [*texts, f"## Claims: {len(claims)}\n\n{counted}"]


def set_minus_signs(text):
    """Replace hyphens before numbers by minus signs; "+ -1" becomes "− 1", and -0.0 becomes 0.0."""
    text = re.sub(r"(?<!\w)-(0(?:\.0+)?)(?![\d.])", r"\1", text)
    return re.sub(r"(?<![\w)])-(?=[\d∞])", "−", re.sub(r"\+ -(?=\d)", "− ", text))


def wrap_markdown(text, width=100):
    """Return Markdown with paragraphs and list items wrapped; code blocks stay as they are."""
    return "\n".join(line if line.startswith("    ") else textwrap.fill(
        line, width, break_on_hyphens=False, subsequent_indent=" " * len(
            re.match(r" *(- |\d+\. )?", line).group())) for line in text.split("\n"))


def format_number(value, digits=3):
    """Return a number as text. `digits` is the number of decimals, or a format such as ".1e"."""
    form = digits if isinstance(digits, str) else f".{digits}f"
    return set_minus_signs(f"{value:{form}}" if isinstance(value, float) else str(value))


def vec(values, digits=3):
    """Return numbers as the text of a vector: (0.5, −1.0)."""
    return "(" + ", ".join(format_number(value, digits) for value in values) + ")"


def align_columns(rows, right_aligned):
    """Return rows of texts as lines with aligned columns; `right_aligned` is a bool each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.rjust(wide) if to_right else text.ljust(wide) for text, wide, to_right
                      in zip(row, widths, right_aligned, strict=True)).rstrip() for row in rows]


def format_table(heads, rows, digits=3):
    """Return rows of texts and numbers as a text table with the column headings `heads`."""
    texts = [[text if isinstance(text, str) else format_number(text, digits) for text in row]
             for row in (heads, *rows)]
    rule = ["─" * max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [any(not isinstance(row[i], str) for row in rows) for i in range(len(heads))]
    return "\n".join(align_columns([texts[0], rule, *texts[1:]], right))


def format_arrays(named_arrays, digits=3):
    """Return {name: matrix or column vector} as text, the arrays side by side."""
    blocks = [_format_array(name, np.asarray(value), digits)
              for name, value in named_arrays.items()]
    height = max(map(len, blocks))
    padded = [[""] * ((height - len(block)) // 2) + block for block in blocks]
    return "\n".join(align_columns(list(zip_longest(*padded, fillvalue="")), [False] * len(blocks)))


def _format_array(name, value, digits):
    """Return lines that show name = [array], with at most `digits` decimals for each number."""
    value = value[:, None] if value.ndim == 1 else value
    if value.dtype.kind == "f":
        digits = next((n for n in range(digits) if np.allclose(value.round(n), value, 0, 1e-12)),
                      digits)
    rows = align_columns([[format_number(entry, digits) for entry in row]
                          for row in value.tolist()], [True] * value.shape[1])
    last = len(rows) - 1
    pairs = ["⎡⎤", *["⎢⎥"] * (last - 1), "⎣⎦"] if last else ["[]"]
    return [(f"{name} = " if i == last // 2 else " " * (len(name) + 3)) + f"{left} {row} {right}"
            for i, ((left, right), row) in enumerate(zip(pairs, rows, strict=True))]

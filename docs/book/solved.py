"""The course's questions that belong to a chapter: worked solutions and verdicts, as HTML."""

import functools
import re
from dataclasses import replace
from html import escape

from docs.book.markup import words
from docs.book.unicode import mathematics
from exercises import lookup
from exercises.framework import FAILED, claims_of, shown_verdict, solutions_of
from exercises.worked import array_lines, side_by_side, solution_text, step_lines
from npdl.errors import InputError

PAPERS = {"000": "the theory homework", "001": "the quiz", "002": "the exercise sheet",
          "003": "the problem set", "004": "the programming homework"}


QUESTION = re.compile(r"(?<![\d.])(00[0-4])\.\d+(?:\.\d+)?[a-z]?\b")   # 002.2b
DOCUMENT = re.compile(r"\b[Dd]ocument (00[0-4])\b(?:'s\b)?")              # of a docstring


def papers(numbers):
    """In words, of which papers these questions are."""
    named = [f"{number} is {name}" for number, name in PAPERS.items()
             if any(full.startswith(number) for full in numbers)]
    return f"From five papers of real courses: {', '.join(named)}."


def named(text, told, mention=QUESTION):
    """A text in which the paper of each number not in `told` is said at its first mention."""
    def first(match):
        if match[1] in told:
            return match[0]
        told.add(match[1])
        name = f"a course's {PAPERS[match[1]].removeprefix('the ')}"
        return f"{match[0]} of {name}" if mention is QUESTION else f"{match[0]} ({name})"
    return mention.sub(first, text)


@functools.lru_cache(maxsize=64)
def _of(module):
    """(solutions, claims) of an exercise module, worked out once."""
    return solutions_of(module), claims_of(module)


def worked(number):
    """The worked solutions of a question as text."""
    return [solution_text(s, title) for full, title, module in lookup.find(number)
            for s in _of(module)[0] if s.number == full.split(".", 1)[1]]


def asked(number):
    """[(number, title, HTML of solution and verdicts)] of what a number means: a question, or
    all parts of one. InputError when it is unknown."""
    found = []
    for full, title, module in lookup.find(number):
        own = full.split(".", 1)[1]
        solutions, claims = _of(module)
        judged = [c for c in claims if lookup.belongs(c.number, [own])]
        body = "".join(_solution(s) for s in solutions if s.number == own)
        if hasattr(module, "answered_in"):
            body = f"<p>Answered in {escape(module.answered_in(own))}.</p>"
        if not body and not judged:
            raise InputError(f"question {full} has neither a solution nor a claim")
        failed = [c.text for s in solutions if s.number == own for c in s.checks if not c.holds]
        failed += [f"{c.claim} {c.evidence}" for c in claims if c.verdict == FAILED]
        if failed:
            raise InputError(f"question {full}: our computation fails: {failed[0]}")
        found.append((full, title, body + _verdicts(judged, PAPERS[full[:3]])))
    return found


def _pre(lines):
    return f"<pre>{escape(chr(10).join(line.rstrip() for line in lines))}</pre>" if lines else ""


def _step(step):
    """A step: its sentence, its formula, the same with numbers, its arrays or table."""
    formulas = "".join(mathematics(text) for text in (step.formula, step.numbers) if text)
    rest = [line.removeprefix("     ")
            for line in step_lines(replace(step, formula="", numbers=""))]
    return f"<li><p>{words(step.text)}</p>{formulas}{_pre(rest)}</li>"


def _solution(solution):
    parts = []
    if solution.example:
        parts.append(f"<p>{words(solution.example)}</p>")
    if solution.given:
        parts.append(_pre(side_by_side([array_lines(n, v, 3) for n, v in solution.given.items()])))
    steps = "".join(map(_step, solution.steps))
    checks = "".join(f"<li>{words(check.text)}</li>" for check in solution.checks)
    return (f'{"".join(parts)}<ol>{steps}</ol>'
            f'<p class="answer"><b>Answer.</b> {words(solution.answer)}</p>'
            f'<p>Checked by computing:</p><ul>{checks}</ul>')


def _verdicts(claims, paper):
    """What a paper's own answer says, and what computing says of that; behind a click."""
    rows = "".join(
        f'<li><p>{words(c.claim)} <b class="verdict">{escape(shown_verdict(c))}</b></p>'
        f"<dl><dt>{paper}</dt><dd>{words(c.documents_answer)}</dd>"
        f"<dt>computed</dt><dd>{words(c.computed)}</dd>"
        f"<dt>evidence</dt><dd>{words(c.evidence)}</dd></dl></li>" for c in claims)
    return (f"<details><summary>What {paper}'s own answer says, held against computing</summary>"
            f'<ul class="claims">{rows}</ul></details>') if rows else ""

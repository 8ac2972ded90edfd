"""The course's questions that belong to a chapter: worked solutions and verdicts, as HTML."""

import functools
import inspect
import re
import textwrap
from html import escape

from docs.book.markup import words
from exercises import course
from npdl.errors import InputError

PAPERS = {"000": "the theory homework", "001": "the quiz", "002": "the exercise sheet",
          "003": "the problem set", "004": "the programming homework"}


@functools.lru_cache(maxsize=64)
def asked(number):
    """Return [(number, title, HTML of solution and verdicts)] of a question, or of its parts."""
    found = [question.run() for question in course.find(number)]
    if not found:
        raise InputError(f"no question has the number {number}")
    for one in found:
        if one.failed:
            raise InputError(f"question {one.number}: our computation failed: {one.failed[0]}")
    return [(one.number, one.title, _solution(one) + _verdicts(one.claims, PAPERS[one.number[:3]]))
            for one in found]


def _solution(question):
    """Return the text of a question, its code blocks as they are."""
    parts = [f"<p>{words(inspect.getdoc(question.work))}</p>"]
    for block in question.text:
        parts.append(f"<pre>{escape(textwrap.dedent(block))}</pre>" if block.startswith("    ") else
                     re.sub(r"^<p>Answer:", '<p class="answer"><b>Answer.</b>',
                            f"<p>{words(block)}</p>"))
    checks = "".join(f"<li>{words(what)}</li>" for what, _ in question.checks)
    return "".join(parts) + f"<p>Checked by computing:</p><ul>{checks}</ul>"


def _verdicts(claims, paper):
    """Return what a paper's own answer says, and what computing says of it, behind a click."""
    rows = "".join(
        f'<li><p>{words(c.says)} <b class="verdict">{escape(c.verdict)}</b></p>'
        f"<dl><dt>{paper}</dt><dd>{words(c.document)}</dd>"
        f"<dt>computed</dt><dd>{words(c.computed)}</dd>"
        f"<dt>evidence</dt><dd>{words(c.evidence)}</dd></dl></li>" for c in claims)
    return (f"<details><summary>Compare with {paper}'s own answer</summary>"
            f'<ul class="claims">{rows}</ul></details>') if rows else ""

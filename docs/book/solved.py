"""Solutions and verdicts for the course's questions of a chapter, as HTML."""

import inspect
import re
import textwrap
from html import escape

from docs.book.markup import text_to_html
from exercises import course
from npdl.errors import InputError

PAPERS = {"000": "the theory homework", "001": "the quiz", "002": "the exercise sheet",
          "003": "the problem set", "004": "the programming homework"}


def solve_question(number):
    """Return [(number, title, HTML of solution and verdicts)] of a question, or of its parts."""
    questions = [question.run() for question in course.find_questions(number)]
    if not questions:
        raise InputError(f"no question has the number {number}")
    for q in questions:
        if q.failed:
            raise InputError(f"question {q.number}: our computation failed: {q.failed[0]}")
    return [(q.number, q.title, _format_solution(q) + _format_verdicts(q)) for q in questions]


def _format_solution(question):
    """Return the solution of a question as HTML, with code blocks unchanged."""
    parts = [f"<p>{text_to_html(inspect.getdoc(question.work))}</p>"]
    for block in question.text:
        parts.append(f"<pre>{escape(textwrap.dedent(block))}</pre>" if block.startswith("    ") else
                     re.sub(r"^<p>Answer:", '<p class="answer"><b>Answer.</b>',
                            f"<p>{text_to_html(block)}</p>"))
    checks = "".join(f"<li>{text_to_html(what)}</li>" for what, _ in question.checks)
    return "".join(parts) + f"<p>Checked by computing:</p><ul>{checks}</ul>"


def _format_verdicts(question):
    """Return HTML that compares the document's own answer with our results, folded."""
    paper = PAPERS[question.number[:3]]
    rows = "".join(
        f'<li><p>{text_to_html(c.says)} <b class="verdict">{escape(c.verdict)}</b></p>'
        f"<dl><dt>{paper}</dt><dd>{text_to_html(c.document)}</dd>"
        f"<dt>computed</dt><dd>{text_to_html(c.computed)}</dd>"
        f"<dt>evidence</dt><dd>{text_to_html(c.evidence)}</dd></dl></li>" for c in question.claims)
    return (f"<details><summary>Compare with {paper}'s own answer</summary>"
            f'<ul class="claims">{rows}</ul></details>') if rows else ""

"""Gather the claims of every exercise, and set them out: text, Markdown."""

import re
import time
from itertools import groupby
from pathlib import Path

from exercises.framework import (
    VERDICTS,
    WEIGHTS,
    claims_of,
    draw,
    name_of,
    shown_verdict,
    solutions_of,
)
from exercises.witness import watching
from exercises.worked import paragraph
from experiments.study.judge import NOT_REPRODUCED
from experiments.study.judge import WORDS as RUNS

ROOT = Path(__file__).parents[1]
LEDGER = ROOT / "docs" / "generated" / "ledger.md"
WORDS = (*VERDICTS[:-1], *RUNS, VERDICTS[-1])       # in the order in which they are counted
FOLDED = "under-specified"                          # behind a click: words that may mean more
TITLE = "# The ledger: every question computed, every claim judged"
PREFACE = f"""\
Written by `python -m exercises --ledger`; do not edit it by hand. Each row is one claim of an
exercise document, restated; what the document answers; what npdl computes; the verdict; the
evidence. The verdicts on what can be computed are {", ".join(VERDICTS[:4])},
{", ".join(VERDICTS[4:-1])}. A slip is one word, index or sign that is wrong where what is meant is
right; an error that several claims show counts once. Verdicts are computed, but for those that say
that they are a judgement. What document 004 says of runs, in Problem 4, 2 to 8, is
{", ".join(RUNS[:-1])} or {RUNS[-1]}
by npdl's kept runs, as [the study](../../experiments/REPORT.md) judges it; none of it counts as an
error. A figure from random numbers is a mean with its spread, or an example with its seed.
`python -m exercises 000.2.4` works one question out, step by step."""
KINDS = (*WEIGHTS, "slip")
HEADINGS = {"answer": "Answers that are wrong", "step": "Steps, reasons and numbers that are wrong",
            "slip": "Slips"}


def gather(exercises, figures=None, log=None):
    """Run the exercises: their claims in the order of the documents, their solutions, and the
    pictures drawn."""
    claims, solutions, drawn = [], [], []
    with watching():
        for number, module in enumerate(exercises, 1):
            start = time.perf_counter()
            found, solved = claims_of(module), solutions_of(module)
            drawn += draw(module, figures)
            claims += found
            solutions += solved
            seconds = time.perf_counter() - start
            if log is not None:
                print(f"[{number}/{len(exercises)}] {name_of(module)}: {len(found)} claims, "
                      f"{len(solved)} solutions, {seconds:.1f} s", file=log,
                      flush=True)
    return sorted(claims, key=place), solutions, drawn


def place(claim):
    """Sort key: document, question, lettered part; numbers count as numbers.

    A part that is a topic ("mask") has no order: such claims stay as their script has them.
    """
    lettered = re.match(r"[a-z0-9]{1,2}\b|[ivx]+\b", claim.part)
    part = natural(lettered.group()) if lettered else []
    return [natural(claim.document), natural(claim.question), part]


def natural(text):
    pieces = re.split(r"(\d+)", text)
    return [(int(piece), "") if piece.isdigit() else (-1, piece.lower()) for piece in pieces]


def counts(claims):
    """Claims per verdict, in the order of WORDS."""
    return {word: sum(claim.verdict == word for claim in claims) for word in WORDS}


def errors(claims):
    """(kind, the claims that show it) of each different error, both in the order of KINDS.

    Claims of a document that share `error` show one error, whose kind is the first of theirs.
    """
    found = {}
    for claim in claims:
        if claim.verdict in ("wrong", "slip"):
            key = (claim.document, claim.error) if claim.error else id(claim)
            found.setdefault(key, []).append(claim)
    groups = [sorted(group, key=lambda claim: KINDS.index(kind(claim)))
              for group in found.values()]
    return sorted(((kind(group[0]), group) for group in groups),
                  key=lambda row: KINDS.index(row[0]))


def kind(claim):
    """The weight of what is wrong, or "slip"."""
    return "slip" if claim.verdict == "slip" else claim.weight


def error_counts(claims):
    """How many different errors there are, in words."""
    answers, steps, slips = map([kind for kind, _ in errors(claims)].count, KINDS)
    return f"{answers} in answers, {steps} on the way, {slips} slips"


def run_counts(claims):
    """What the runs say, in words."""
    by_runs = [claim for claim in claims if claim.basis == "runs"]
    return f"{sum(c.verdict == NOT_REPRODUCED for c in by_runs)} of {len(by_runs)}"


def cited(claim):
    return " ".join(filter(None, (claim.document, claim.question, claim.part)))


def as_text(claims, width=96):
    """The ledger for a terminal: claims by question, then the errors, then the counts."""
    lines, heading = [], None
    for claim in claims:
        if heading != (claim.document, claim.question):
            heading = (claim.document, claim.question)
            title = f"Document {claim.document}, {claim.question}"
            lines += ["", title, "-" * len(title)]
        mark = f"{claim.part + '  ' if claim.part else ''}[{shown_verdict(claim)}] "
        lines.append(paragraph(mark + claim.claim, 2, 4, width))
        for label in ("documents_answer", "computed", "evidence", *["link"] * bool(claim.link)):
            shown = f"{label.removesuffix('s_answer'):<9} {getattr(claim, label)}"
            lines.append(paragraph(shown, 6, 10, width))
    lines += ["", paragraph(f"Errors of the documents: {error_counts(claims)}", 0, 4, width)]
    heading = None
    for number, (weight, (claim, *others)) in enumerate(errors(claims), 1):
        if weight != heading:
            heading = weight
            lines += ["", f"{HEADINGS[weight]}:"]
        lines.append(paragraph(f"{number}. {cited(claim)}: {claim.claim}", 0, 4, width))
        lines += [paragraph(text, 4, 4, width) for text in (f"right: {claim.computed}",
                                                            f"proof: {claim.evidence}")]
        lines += [paragraph(f"also {cited(other)}: {other.claim}", 4, 4, width)
                  for other in others]
    lines += ["", f"Not reproduced by npdl's runs: {run_counts(claims)}", "",
              f"Claims: {len(claims)}", *count_lines(claims)]
    return "\n".join(lines).lstrip("\n") + "\n"


def count_lines(claims):
    return [f"{count:5d}  {verdict}" for verdict, count in counts(claims).items()]


def as_markdown(claims):
    """The ledger's page: counts, errors with their proofs, then two tables for each question, of
    which the one with what is FOLDED opens on a click."""
    lines = [TITLE, "", PREFACE, "", "## Counts", "", *count_table(claims), ""]
    lines += [f"## Errors of the documents: {error_counts(claims)}", *error_list(claims), ""]
    lines += [f"## Not reproduced by npdl's runs: {run_counts(claims)}", "",
              *(f"- **{escape(cited(claim))}.** {escape(claim.claim)}: {escape(claim.evidence)}"
                for claim in claims if claim.verdict == NOT_REPRODUCED)]
    document = None
    for (number, question), group in groupby(claims, lambda c: (c.document, c.question)):
        if document != number:
            document = number
            lines += ["", f"## Document {document}"]
        group = list(group)
        shown = [claim for claim in group if claim.verdict != FOLDED]
        folded = [claim for claim in group if claim.verdict == FOLDED]
        lines += ["", f"### {escape(question)}", "", *table(shown)]
        if folded:
            lines += ["", f"<details><summary>{FOLDED}: {len(folded)}</summary>", "",
                      *table(folded), "", "</details>"]
    return "\n".join(lines) + "\n"


def table(claims):
    """A table with a row for each claim; none for no claims."""
    lines = []
    if claims:
        lines += table_row("part", "claim", "document", "computed", "verdict", "evidence")
        lines += table_row(*["---"] * 6)
    for claim in claims:
        verdict = shown_verdict(claim)
        if claim.verdict == "wrong":
            verdict = f"**{verdict}**"
        more = f" ([more](../../{claim.link}))" if claim.link else ""
        lines += table_row(*map(escape, (claim.part, claim.claim, claim.documents_answer,
                                         claim.computed)), verdict, escape(claim.evidence) + more)
    return lines


def error_list(claims):
    """The errors in Markdown, each once, in the order of KINDS."""
    lines, heading = [], None
    for number, (weight, (claim, *others)) in enumerate(errors(claims), 1):
        if weight != heading:
            heading = weight
            lines += ["", f"### {HEADINGS[weight]}", ""]
        also = "".join(f" *Also {escape(cited(other))}:* {escape(other.claim)}"
                       for other in others)
        lines.append(f"{number}. **{escape(cited(claim))}.** {escape(claim.claim)} "
                     f"*Document:* {escape(claim.documents_answer)} "
                     f"*Right:* {escape(claim.computed)} *Proof:* {escape(claim.evidence)}{also}")
    return lines


def count_table(claims):
    documents = sorted({claim.document for claim in claims})
    lines = table_row("verdict", *documents, "all") + table_row("---", *["---:"] * len(documents),
                                                                "---:")
    per_document = [counts([c for c in claims if c.document == document])
                    for document in documents]
    total = counts(claims)
    for verdict in WORDS:
        row = [count[verdict] for count in per_document]
        lines += table_row(verdict, *map(str, row), str(total[verdict]))
    sums = [sum(count.values()) for count in per_document]
    return lines + table_row("claims", *map(str, sums), str(len(claims)))


def table_row(*cells):
    return ["| " + " | ".join(cells) + " |"]


def escape(text):
    """Text that Markdown shows as it is, in a table too; code between backticks stays code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # a backtick without a partner opens no code
        pieces = [text]
    shown = [re.sub(r"([\\*_<>\[\]$#~`])", r"\\\1", piece) if i % 2 == 0 else piece
             for i, piece in enumerate(pieces)]
    return "`".join(shown).replace("|", "\\|")

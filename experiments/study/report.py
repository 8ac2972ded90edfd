"""Write experiments/REPORT.md and its figures from the stored runs.

  python -m experiments.study.report
"""

import argparse
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from experiments.study import q1_q2, q3_data, q4_orders, q5_size, q6_compute, q7_decay, q8_attention
from experiments.study.runs import Study
from experiments.study.text import format_table
from experiments.study.verdict import SAME_ACCURACY, SAME_FACTOR, WORDS, read_claims
from npdl.cli.console import OneLineParser, run_guarded
from npdl.files import write_atomically

QUESTIONS = {"sanity": q1_q2, "data": q3_data, "mixed": q4_orders, "model": q5_size,
             "compute": q6_compute, "decay": q7_decay, "attention": q8_attention}
PAGE = Path(__file__).parents[1] / "REPORT.md"
TEMPLATE = Path(__file__).with_name("report.md")      # the prose that is not about one question
FIGURES = PAGE.parent / "results" / "figures"


def make_page(study):
    """Return the text of REPORT.md."""
    words, sections = Counter(), []
    rows = []
    for question, module in QUESTIONS.items():
        claims, glorot = (read_claims(question, module.compute_effects(study, recipe))
                          for recipe in ("default", "release"))
        counts = Counter(claim.verdict.word for claim in claims)
        rows.append((module.TITLE, *(counts[word] for word in WORDS), len(claims)))
        words += counts
        sections.append(make_section(study, module, claims, glorot))
    rows.append(("**all**", *(f"**{words[word]}**" for word in WORDS), f"**{words.total()}**"))
    return TEMPLATE.read_text(encoding="utf-8").format(
        claims=words.total(), summary=format_table(("", *WORDS, "claims"), rows),
        margin=q1_q2.MARGIN_ACCURACY, factor=q1_q2.MARGIN_LOSS, same=f"a factor of {SAME_FACTOR:g}",
        accuracy=SAME_ACCURACY, sections="\n\n".join(sections), rows=len(study.rows),
        devices=describe_devices(study))


def make_section(study, module, claims, glorot):
    """Return the section of a question as Markdown: its answer, figures, tables and claims.

    `claims` and `glorot` are the same Claims with the recipes default and release.
    """
    parts = [f"## {module.TITLE}", *(
        paragraph if paragraph.startswith("|") else textwrap.fill(
            " ".join(paragraph.split()), 100, break_on_hyphens=False, break_long_words=False)
        for paragraph in module.make_answer(study).split("\n\n"))]
    bands = "" if module is q8_attention else (
        " The lines show means, and the bands standard deviations.")
    for one in module.make_figures(study):
        label = f"Figure{'s' if ' ' in one.label else ''} {one.label}"
        parts.append(f"![{label}](results/figures/{one.name}.png)\n\n"
                     f"*{label}. {one.caption}{bands}*")
    parts += [f"{caption}\n\n{text}" for caption, text in module.make_tables(study)]
    rows = [(c.where, c.claim, c.document, f"**{c.verdict.word}**", str(c.verdict), c.unit,
             "same" if has_same_effects(c, g) else g.verdict.word)
            for c, g in zip(claims, glorot, strict=True)]
    parts += [getattr(module, "CLAIMS", "The assignment makes these claims."), format_table(
        ("where", "claim", "the assignment", "verdict", "the claim holds by (90 % interval)",
         "unit", "with Glorot gates"), rows, 7)]
    return "\n\n".join(parts)


def has_same_effects(one, other):
    """Return True if two claims have the same effects."""
    return all(np.array_equal(a, b) for a, b in zip(one.effects, other.effects, strict=True))


def describe_devices(study):
    """Return a sentence, without a full stop, on the number of runs that used a GPU."""
    gpus = [row["device"] for row in study.rows if "NVIDIA" in row["device"]]
    names = " and ".join(sorted(set(gpus)))
    return f"{len(gpus)} of them were computed on an {names}, the others on one processor core each"


def write_report(study, folder=FIGURES):
    """Write the page and the figures; delete figures that no question has any more."""
    figures = [figure for module in QUESTIONS.values() for figure in module.make_figures(study)]
    for path in folder.glob("*.png"):
        if path.stem not in {figure.name for figure in figures}:
            path.unlink()
    for figure in figures:
        figure.write(folder)
    write_atomically(PAGE, lambda file: file.write(make_page(study).encode()))


def main(arguments=None):
    p = OneLineParser(prog="python -m experiments.study.report", description=__doc__,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    p.parse_args(arguments)
    return run_guarded(p.prog, lambda: write_report(Study()) or 0)


if __name__ == "__main__":
    sys.exit(main())

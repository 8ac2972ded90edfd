"""Write experiments/REPORT.md and its figures from the kept runs.

  python -m experiments.study.report             the page and all figures
  python -m experiments.study.report --check     exit status 1 if the page is not up to date
"""

import argparse
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from experiments.study import (
    q1_q2,
    q3_data,
    q4_orders,
    q5_size,
    q6_compute,
    q7_decay,
    q8_attention,
)
from experiments.study.runs import NAMES, Study
from experiments.study.text import table
from experiments.study.verdict import WORDS
from npdl.files import write_atomically
from npdl_train.console import OneLineParser, guarded

QUESTIONS = {"sanity": q1_q2, "data": q3_data, "mixed": q4_orders, "model": q5_size,
             "compute": q6_compute, "decay": q7_decay, "attention": q8_attention}
PAGE = Path(__file__).parents[1] / "REPORT.md"
FIGURES = PAGE.parent / "results" / "figures"

INTRODUCTION = """\
# The study of Assignment 4, Problem 4

<!-- written by python -m experiments.study.report; do not edit it by hand -->

An LSTM and a GPT learn sums modulo 31. They first memorise the training equations and suddenly
generalise much later ("grokking"). The assignment asks eight questions about this and prints its
own answers. This page answers the questions from npdl's own runs, and tests {claims} claims of the
document against them.

## Notation

L is a loss and A an accuracy, on the training or the validation set. L_val and A_val are the best
values over all steps of a run, and t_f is the first step that reached them. A model has
*memorised* its training set when A_train ≥ 0.99, and it *generalises* when A_val ≥ 0.9. r_train is
the fraction of all equations that is used for training, d the width, L = 1, 2, 3 the number of
layers, P the number of parameters without embeddings, B the batch size, T the number of steps.
The *shortfall* of an accuracy is the mean over evaluations of its highest value so far minus its
value: 0 for a curve that never falls. 8 (7 to 9) is a mean with its 90 % interval over seeds.

## The statistical rule

A claim is expressed as one or more *effects*. An effect is one number for each seed, above zero if
the claim holds for that seed: for "the GPT's L_val is lower", the difference of the logarithms of
both models' L_val with the same seed. The seeds are the sample. The mean over seeds gets a 90 %
interval from Student's t distribution. The claim is **reproduced** if the intervals of all its
effects lie above zero. It is **not reproduced** if one of them lies below zero; then the error
probability of 5 % is divided by the number of effects (Bonferroni). Otherwise it is
**inconclusive**.

Losses, norms and steps are compared by their logarithms to base 10 (log10), accuracies as they are.
A run that never generalises counts with the last step. A printed number m ± s comes from two
runs. It is reproduced if the mean of ours lies between m - s and m + s, widened by a margin: an
accuracy of {margin}, a factor of {factor:g} for losses, {same} for steps (an equivalence test). A
trend over several settings is a rank correlation. "No difference" means less than {accuracy:g} in
accuracy or {same} in steps. Steps are only known up to the distance of two evaluations, 100 steps.

In a simulation of five seeds without a true effect, the rule called 9 % of claims decided if the
seeds were normally distributed, and 17 % to 24 % if they were skewed (exponential, lognormal); it
found a true effect of 1.5 standard deviations in 86 % of cases. So a few of the words below are
wrong. The effect with its interval is the result; the word is only a summary.

## What the document leaves open

The text of the document does not say whether gradients are clipped, nor how the LSTM is
initialised. *Default* clips at norm 1 and uses PyTorch's uniform initialisation. *Release* clips at
norm 1 and initialises the LSTM's gates by Glorot's rule, as the course's published starter code
does. *Stated* does neither. All verdicts are about the default recipe. The last column of the
tables of claims has the verdict with Glorot gates, where an LSTM is involved: if both columns
differ, the answer depends on the initialisation.

## Summary

{summary}

"""
ENDING = """\
## The runs

{rows} runs are kept in [results/study](results/study): a table (CSV) and a file of curves (NPZ) for
each question, five digits of each number. {devices}. The task is one task with one learning rate,
and the best step of a run is chosen on the validation set, which favours runs that fluctuate.
Question 8 uses the attention weights of four trained models. `python -m experiments.study` makes
runs that are missing and adds them to the tables; `python -m experiments.study.report` writes this
page.
"""


def page(study):
    """Return the text of REPORT.md."""
    words, sections = Counter(), []
    rows = []
    for module in QUESTIONS.values():
        claims, glorot = (module.claims(study, recipe) for recipe in ("default", "release"))
        found = Counter(claim.verdict.word for claim in claims)
        rows.append((module.TITLE, *(found[word] for word in WORDS), len(claims)))
        words += found
        sections.append(section(study, module, claims, glorot))
    rows.append(("**all**", *(f"**{words[word]}**" for word in WORDS), f"**{words.total()}**"))
    introduction = INTRODUCTION.format(
        claims=words.total(), summary=table(("", *WORDS, "claims"), rows),
        margin=q1_q2.MARGIN_ACCURACY, factor=q1_q2.MARGIN_LOSS,
        same=f"a factor of {q1_q2.SAME_FACTOR:g}", accuracy=q7_decay.SAME_ACCURACY)
    return introduction + "\n\n".join(sections) + "\n\n" + ENDING.format(
        rows=len(study.rows), devices=made_on(study))


def section(study, module, claims, glorot):
    """Return the section of a question: its answer, figures, tables and claims."""
    answer = " ".join(module.answer(study).split())
    parts = [f"## {module.TITLE}", textwrap.fill(answer, 100, break_on_hyphens=False,
                                                 break_long_words=False)]
    parts += [f"![Figure {figure.label}](results/figures/{figure.name}.png)\n\n"
              f"*Figure {figure.label}. {figure.caption} Lines: mean over seeds; bands: standard "
              "deviation.*" if module is not q8_attention else
              f"![Figure {figure.label}](results/figures/{figure.name}.png)\n\n"
              f"*Figure {figure.label}. {figure.caption}*" for figure in module.figures(study)]
    parts += [f"{caption}\n\n{text}" for caption, text in module.tables(study)]
    rows = [(c.where, c.claim, c.document, f"**{c.verdict.word}**", str(c.verdict), c.unit,
             "" if same(c, g) else g.verdict.word) for c, g in zip(claims, glorot, strict=True)]
    parts.append("Claims of the document:\n\n" + table(
        ("where", "claim", "the document", "verdict", "effect (90 % interval)", "unit",
         "with Glorot gates"), rows, 7))
    return "\n\n".join(parts)


def same(one, other):
    """Return True if two claims have the same effects: no LSTM is involved."""
    return all(np.array_equal(a, b) for a, b in zip(one.effects, other.effects, strict=True))


def made_on(study):
    """Return how many runs were made on which kind of machine, as a sentence without its stop."""
    gpus = [row for row in study.rows if "NVIDIA" in row["device"]]
    names = " and ".join(sorted({row["device"] for row in gpus}))
    models = ", ".join(f"{sum(row['model'] == model for row in study.rows)} of the {name}"
                       for model, name in NAMES.items())
    return (f"There are {models}; {len(gpus)} were computed on an {names}, the others on one "
            "processor core each")


def write(study, folder=FIGURES):
    """Write the page and the figures; remove figures that no question has any more."""
    figures = [figure for module in QUESTIONS.values() for figure in module.figures(study)]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.png"):
        if path.stem not in {figure.name for figure in figures}:
            path.unlink()
    for figure in figures:
        figure.write(folder)
    write_atomically(PAGE, lambda file: file.write(page(study).encode()))


def main(arguments=None):
    p = OneLineParser(prog="python -m experiments.study.report", description=__doc__,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; status 1 if out of date")
    options = p.parse_args(arguments)

    def work():
        study = Study()
        if options.check:
            current = PAGE.read_text(encoding="utf-8") == page(study)
            print(f"{PAGE.name}: {'up to date' if current else 'out of date'}")
            return int(not current)
        write(study)
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())

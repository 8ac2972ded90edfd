"""The pages on the study: `python experiments/report.py`.

  experiments/REPORT.md          by hand in experiments/pages, numbers from the records
  experiments/RULE.md            the same: how a claim becomes a verdict
  docs/results.md                the same
  docs/generated/verdicts.md     a line for each claim, and the thresholds
  docs/generated/study.md        every figure and table of the questions
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import argparse
import sys
from collections import Counter
from pathlib import Path

from experiments import rounding
from experiments.grokking import answers as laboratory
from experiments.grokking import clock, forks, spikes
from experiments.study import q2_recipe, simulate
from experiments.study.figures import digest_of, write_png
from experiments.study.judge import WORDS
from experiments.study.measures import L_VAL, THRESHOLDS, span
from experiments.study.pages import Table, cell, fill
from experiments.study.questions import MODULES, RUNS, verdicts
from experiments.study.records import NAMES, SEEDS, Store
from experiments.trials import records
from npdl.files import write_atomically
from npdl_train.console import OneLineParser, guarded

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "experiments" / "pages"
LABORATORY = (forks, spikes, clock)         # what has its numbers, facts and figure by itself
FIGURES = ROOT / "experiments" / "results" / "figures"
MADE = "<!-- written by python experiments/report.py; do not edit it by hand -->"

DESCRIPTION = """\
The report of the study, from the kept records alone: experiments/REPORT.md and docs/results.md,
whose prose is in experiments/pages, the verdicts and figures in docs/generated.

  python experiments/report.py              write the pages, and the figures whose data changed
  python experiments/report.py --redraw     write the pages and all figures
  python experiments/report.py --check      say whether they are up to date: exit status 0 or 1"""


# --- numbers --------------------------------------------------------------------------------------
def values(store, judged):
    """{name: text or Table} of everything that the pages by hand may have."""
    made = {name: value for module in MODULES.values() for name, value in
            module.values(store).items()}
    words = Counter(verdict.word for verdict in judged)
    return {**made, **rounded(store), **laboratory.values(), **simulate.values(),
            **{name: value for module in LABORATORY for name, value in module.values().items()},
            "claims": str(len(judged)),
            **{word: str(words[word]) for word in WORDS}, "verdicts": count_table(judged),
            "runs": runs_table(store), **made_where(store)}


def facts(store):
    """{what a page says beside its numbers: whether it is so}."""
    return {words: true for module in (*MODULES.values(), laboratory)
            for words, true in module.facts(store).items()} | {
                words: true for module in LABORATORY for words, true in module.facts().items()}


def rounded(store):
    """How far rounding alone, and another seed, move the lowest L_val of the default recipe."""
    found = records(rounding.FOLDER, rounding.TRIALS).values()
    made = {}
    for model, config in q2_recipe.CONFIGS.items():
        losses = [min(v for v in record["columns"][L_VAL] if v is not None)
                  for record in found if record["trial"]["model"] == model]
        seeds = [run.best(L_VAL) for run in store.runs(config).values()]
        made |= {f"{model} by rounding": span(losses), f"{model} by seed": span(seeds)}
    return made


def made_where(store):
    """How many runs were made on a processor and on a card, and the hours of the first."""
    card = [run for run in store.every() if "card" in run.made]
    names = sorted({run.made["card"] for run in card})
    others = [run for run in store.every() if "card" not in run.made]
    seconds = sum(run.made.get("seconds", 0) for run in others)
    return {"hours": f"{seconds / 3600:.0f}", "on processors": str(len(others)),
            "on a card": str(len(card)), "card": ", ".join(names),
            "steps on a card": f"{sum(run.config.steps for run in card) / 1e6:.1f}"}


def count_table(judged):
    rows = []
    for title in MODULES:
        found = Counter(verdict.word for verdict in judged
                        if verdict.question in title.partition(":")[0])
        rows.append((title, *(str(found[word]) for word in WORDS), str(found.total())))
    every = Counter(verdict.word for verdict in judged)
    rows.append(("**all**", *(f"**{every[word]}**" for word in WORDS), f"**{every.total()}**"))
    return Table(("question", *WORDS, "claims"), rows)


def runs_table(store):
    """Which code made the runs of each question, model and recipe."""
    rows = []
    for name, configs in RUNS.items():
        for model in NAMES:
            for recipe in ("default", "release", "stated"):
                mine = [c for c in configs if c.model == model and c.seed == SEEDS[0]]
                found = [store.runs(c, recipe).values() for c in mine]
                if model == "gpt" and recipe == "release" or not mine or not all(found):
                    continue
                runs = [run for these in found for run in these]
                old, card = (sum(map(of, runs)) for of in (
                    lambda run: run.older, lambda run: "card" in run.made))
                rows.append((name, NAMES[model], recipe, *map(str, (
                    len(runs), card, len(runs) - old - card, old))))
    return Table(("runs", "model", "recipe", "kept", "on a card", "by recorded code",
                  "by older code"), rows, left=3)


# --- pages ----------------------------------------------------------------------------------------
def verdict_page(judged):
    """A line for each claim."""
    claims = Table(("where", "claim", "the document", "verdict", "estimate", "our numbers",
                    "note"), [(v.where, v.claim, v.document, f"**{v.word}**", v.estimate,
                               v.numbers, v.note) for v in judged], left=7)
    limits = Table(("threshold", "value", "decides", "reason"), [
        (name, ", ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}",
         what, why) for name, (value, what, why) in THRESHOLDS.items()], left=4)
    return (f"# The verdicts on document 004, Problem 4\n\n{MADE}\n\nWhat the words mean: [the "
            "rule](../../experiments/RULE.md). Estimate: of the part that decides, above 0 where "
            "the claim holds, its mean, in brackets its interval and how many seeds; decades for "
            "losses and steps. By recipe: in the note. Our numbers: the default recipe's, of the "
            f"seeds 0 and 42.\n\n{claims}\n\n## Thresholds\n\nOne value each.\n\n{limits}\n")


def study_page(store, figures):
    """Every figure and table of the questions."""
    blocks = ["# Figures and tables of document 004, Problem 4", MADE,
              "The default recipe, five seeds, ten for question 4. Lines: the mean over seeds; "
              "bands: their deviation, of the logarithm on a log scale; over steps, of the median "
              "of eleven evaluations around a step. Maps of attention are of one seed and sample. "
              "Tables: mean ± population deviation, the best of a column bold."]
    for title, module in MODULES.items():
        blocks.append(f"## Question{'s' * (module is q2_recipe)} {title}")
        blocks += [f"![Figure {f.label}](../../experiments/results/figures/{f.name}.png)\n\n"
                   f"*Figure {f.label}. {cell(f.caption)}* <!-- data {f.digest()} -->"
                   for f in figures[title]]
        blocks.append(str(module.table(store)))
    return "\n\n".join(blocks) + "\n"


def laboratory_page(known):
    """The laboratory's tables."""
    tables = {"Softmax collapse: least to largest of the seeds": "collapse table",
              "Steps to A_val ≥ 0.95: the paired factor with its 95 % interval": "faster table",
              "The circuit: steps of the phases, losses as medians, from least to last":
                  "circuit table"}
    return f"# The laboratory in numbers\n\n{MADE}\n\n" + "\n\n".join(
        f"## {title}\n\n{known[name]}" for title, name in tables.items()) + "\n"


def pages(store, figures):
    """{path: text} of every page."""
    judged = verdicts(store)
    known = values(store, judged)
    made = {ROOT / "docs" / "generated" / "laboratory.md": laboratory_page(known),
            ROOT / "docs" / "generated" / "verdicts.md": verdict_page(judged),
            ROOT / "docs" / "generated" / "study.md": study_page(store, figures)}
    for name, path in BY_HAND.items():
        text = (PAGES / name).read_text(encoding="utf-8")
        by = MADE.replace("; do", f" from experiments/pages/{name}; do")
        made[path] = fill(text, known).replace("\n\n", f"\n\n{by}\n\n", 1)
    return made


BY_HAND = {"REPORT.md": ROOT / "experiments" / "REPORT.md",
           "rule.md": ROOT / "experiments" / "RULE.md",
           "results.md": ROOT / "docs" / "results.md",
           "laboratory.md": ROOT / "experiments" / "grokking" / "REPORT.md",
           "last-digit.md": ROOT / "experiments" / "grokking" / "LAST-DIGIT.md",
           "papers.md": ROOT / "experiments" / "grokking" / "PAPERS.md"}


def drawn(store):
    """({title: its Figures}, {path: Figure} of these and the laboratory's)."""
    figures = {title: module.figures(store) for title, module in MODULES.items()}
    every = {FIGURES / f"{f.name}.png": f for found in figures.values() for f in found}
    return figures, every | {laboratory.FIGURES / f"{f.name}.png": f
                             for module in (laboratory, *LABORATORY) for f in module.figures()}


def stale():
    """What is out of date, or no longer so: names and sentences, none if all is well."""
    store = Store()
    figures, files = drawn(store)
    names = [path.name for path, text in pages(store, figures).items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]
    names += [path.name for path, figure in files.items() if digest_of(path) != figure.digest()]
    names += [path.name for path in FIGURES.glob("*.png") if path not in files]
    return names, [words for words, true in facts(store).items() if not true]


def write(redraw=False):
    """Write the pages and the figures whose data changed, and remove those that are no more."""
    store = Store()
    figures, files = drawn(store)
    for path, figure in files.items():
        if redraw or digest_of(path) != figure.digest():
            write_png(figure, path.parent)
    for path in FIGURES.glob("*.png"):
        if path not in files:
            path.unlink()
    for path, text in pages(store, figures).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file, text=text: file.write(text.encode()))
    return [words for words, true in facts(store).items() if not true]


def main(arguments=None):
    p = OneLineParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = p.add_mutually_exclusive_group()
    how.add_argument("--redraw", action="store_true", help="draw every figure anew")
    how.add_argument("--check", action="store_true", help="write nothing; status 1 if out of date")
    options = p.parse_args(arguments)

    def work():
        names, wrong = stale() if options.check else ([], write(options.redraw))
        print(f"out of date: {', '.join(names)}" if names else "up to date")
        for words in wrong:
            print(f"no longer so, and said in experiments/pages: {words}")
        return int(bool(names or wrong))

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())

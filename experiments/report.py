"""The report of the study: experiments/REPORT.md and its figures, from the kept records alone, and
the table in docs/results.md.

  python experiments/report.py              write the report, and the figures whose data changed
  python experiments/report.py --redraw     write the report and all its figures
  python experiments/report.py --text       write the report only
  python experiments/report.py --check      say whether they are up to date: exit status 0 or 1

On top an answer for each question; then, as an appendix, every claim of the document with its
verdict. Runs that are missing are named where they would be; `python experiments/study.py` makes
them.
"""

if __name__ == "__main__":
    from npdl.console import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import sys
from pathlib import Path

from experiments.reporting import (
    attention,
    compute,
    data_size,
    decay,
    fourier,
    mixed,
    model_size,
    puzzle,
    sanity,
    scatter,
)
from experiments.reporting.effects import summary_figure
from experiments.reporting.front import front
from experiments.reporting.parts import (
    Table,
    digest_of,
    section_markdown,
    table_markdown,
    write_png,
)
from experiments.reporting.records import Store
from npdl.console import OneLineParser, guarded
from npdl.files import write_atomically

REPORT = Path(__file__).parent / "REPORT.md"
FIGURES = Path(__file__).parent / "results" / "figures"
ROOT = Path(__file__).parents[1]
DOCS, README = ROOT / "docs" / "results.md", ROOT / "README.md"  # with the table of question 2
MARKS = "<!-- the table of question 2: python experiments/report.py -->\n", "<!-- end -->"
FROM_RECORDS = (sanity, data_size, mixed, model_size, compute, decay, scatter)
OTHERS = (attention, fourier, puzzle)


def sections(store):
    """All Sections, in the order of the report."""
    return [module.section(store) for module in FROM_RECORDS] + [
        module.section() for module in OTHERS]


def markdown(store, found):
    """The text of the report."""
    blocks = [front(store, found), *map(section_markdown, found)]
    return "\n\n".join(blocks) + "\n"


def figures(store, found):
    return [summary_figure(store), *(figure for s in found for figure in s.figures())]


def pages(found):
    """{path: text} of the pages that have the table of question 2, with that of today's records."""
    table = next(part for part in found[0].parts if isinstance(part, Table))
    return {DOCS: with_table(DOCS, table), README: with_table(README, sanity.in_brief(table))}


def with_table(path, table):
    before, _, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table_markdown(table)}\n\n{MARKS[1]}{after}"


def stale(store, found):
    """What is out of date: the names of files, none if all is well."""
    names = [path.name for path, text in pages(found).items()
             if path.read_text(encoding="utf-8") != text]
    if not REPORT.exists() or REPORT.read_text(encoding="utf-8") != markdown(store, found):
        names.append(REPORT.name)
    known = {f"{figure.name}.png": figure for figure in figures(store, found)}
    names += [name for name, figure in known.items()
              if digest_of(FIGURES / name) != figure.digest()]
    return names + sorted(p.name for p in FIGURES.glob("*.png") if p.name not in known)


def write(store, found, draw=True, redraw=False):
    """Write the report.

    With `draw` also the figures whose data changed (all of them with `redraw`), and remove those
    that the report no longer has.
    """
    if draw:
        for figure in figures(store, found):
            if redraw or digest_of(FIGURES / f"{figure.name}.png") != figure.digest():
                write_png(figure, FIGURES)
        known = {f"{figure.name}.png" for figure in figures(store, found)}
        for path in FIGURES.glob("*.png"):
            if path.name not in known:
                path.unlink()
    for path, text in {REPORT: markdown(store, found), **pages(found)}.items():
        write_atomically(path, lambda file, text=text: file.write(text.encode()))


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = p.add_mutually_exclusive_group()
    how.add_argument("--text", action="store_true", help="leave the figures as they are")
    how.add_argument("--redraw", action="store_true", help="draw every figure anew")
    how.add_argument("--check", action="store_true", help="write nothing; status 1 if out of date")
    options = p.parse_args(arguments)

    def work():
        store = Store()
        found = sections(store)
        if options.check:
            names = stale(store, found)
            print(f"out of date: {', '.join(names)}" if names else "up to date")
            return 1 if names else 0
        write(store, found, not options.text, options.redraw)
        print(f"{REPORT.name}: {sum(len(s.verdicts) for s in found)} verdicts, "
              f"{len(figures(store, found))} figures")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())

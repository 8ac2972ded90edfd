"""experiments/grokking/REPORT.md and its figures, from the kept records alone.

  python experiments/grokking/report.py              write the report and its figures
  python experiments/grokking/report.py --check      say whether they are up to date: status 0 or 1

Trials that are missing are named; the three scripts beside this one make them.
"""

if __name__ == "__main__":
    from npdl.console import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import sys
from pathlib import Path

from experiments.grokking import collapse, faster, phases
from experiments.grokking.answers_circuit import circuit_section
from experiments.grokking.answers_collapse import collapse_section
from experiments.grokking.answers_faster import faster_section
from experiments.grokking.answers_jumps import jumps_section
from experiments.reporting.parts import digest_of, section_markdown, write_png
from experiments.trials import RESULTS, origin, records
from npdl.console import OneLineParser, guarded
from npdl.files import write_atomically

REPORT = Path(__file__).parent / "REPORT.md"
FIGURES = RESULTS / "grokking" / "figures"
SEEN_FROM = "../results/grokking/figures"


def sections():
    """The Sections of the laboratory, in order."""
    found = {module: records(module.FOLDER, module.TRIALS) for module in (collapse, faster, phases)}
    return [collapse_section(found[collapse]), faster_section(found[faster]),
            circuit_section(found[phases]), jumps_section(found[phases])], found


def markdown(made, found):
    lines = []
    for module, known in found.items():
        name = Path(module.__file__).name
        gone = [trial for trial in module.TRIALS if trial.name not in known]
        by = next((f", by {origin(record)}" for record in known.values()), "")
        minutes = sum(trial.minutes for trial in gone)
        lines.append(f"* `python experiments/grokking/{name}`: {len(known)} of "
                     f"{len(module.TRIALS)} trials{by}" + (
                         f"; about {minutes:.0f} minutes on one core left" if gone else ""))
    return "\n\n".join([
        "# The laboratory: live questions on grokking",
        "Written by `python experiments/grokking/report.py` from the records in "
        "`results/grokking/`; do not edit it by hand. Arms that are compared share split and "
        "start with the same seed; a difference is taken within each seed.",
        "\n".join(lines), *(section_markdown(section, SEEN_FROM) for section in made)]) + "\n"


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true", help="write nothing; status 1 if out of date")
    options = p.parse_args(arguments)

    def work():
        made, found = sections()
        figures = [figure for section in made for figure in section.figures()]
        text = markdown(made, found)
        stale = [figure for figure in figures
                 if digest_of(FIGURES / f"{figure.name}.png") != figure.digest()]
        if options.check:
            old = not REPORT.exists() or REPORT.read_text(encoding="utf-8") != text
            print("out of date" if old or stale else "up to date")
            return int(bool(old or stale))
        for figure in stale:
            write_png(figure, FIGURES)
        write_atomically(REPORT, lambda file: file.write(text.encode()))
        print(f"{REPORT.name}: {sum(map(len, found.values()))} trials, {len(figures)} figures")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())

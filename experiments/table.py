"""One table for several runs: runs that differ in their seed alone share a column.

  python experiments/table.py runs/gpt-p31-plus-seed0 runs/gpt-p31-plus-seed42 runs/lstm-*

Each cell is the mean over the seeds ± the population standard deviation, as document 004 has it.
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import dataclasses
import sys
from pathlib import Path

from npdl.script import place
from npdl.training.cli import OneLineParser, guarded
from npdl.training.run import read_config
from npdl.training.summary import combine, combined_markdown, read_summary


def columns(folders):
    """{heading: combined summary}, one for each setting apart from the seed; a folder that is
    named twice counts once."""
    groups = {}
    for folder in {Path(folder).resolve(): folder for folder in folders}.values():
        config = read_config(folder)
        summary = read_summary(Path(folder) / "summary.json")
        alike = dataclasses.replace(config, seed=0)
        groups.setdefault(alike, []).append((config.seed, summary))
    return {heading(config, [seed for seed, _ in members]): combine([s for _, s in members])
            for config, members in groups.items()}


def heading(config, seeds):
    """Model, settings that name a run, and its seeds."""
    what = config.text or f"{config.operator} mod {config.p}, r_train {config.r_train:g}"
    return f"{config.model.upper()}, {what} (seeds {', '.join(map(str, sorted(seeds)))})"


def main(arguments=None):
    parser = OneLineParser(description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=place, help="folders of finished runs")
    options = parser.parse_args(arguments)

    def work():
        print(combined_markdown(columns(options.runs)))
        return 0

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())

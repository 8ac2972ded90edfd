"""One table for several runs: runs that differ in their seed alone share a column.

  python experiments/table.py runs/gpt-p31-plus-seed0 runs/gpt-p31-plus-seed42 runs/lstm-*

Each cell is the mean over the seeds ± the population standard deviation, as document 004 has it.
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from npdl.errors import InputError
from npdl.training.cli import OneLineParser, guarded
from npdl.training.run import read_config
from npdl.training.summary import combine, combined_markdown


def columns(folders):
    """{heading: combined summary}, one for each setting apart from the seed."""
    groups = {}
    for folder in folders:
        config = read_config(folder)
        path = Path(folder) / "summary.json"
        try:
            summary = json.loads(path.read_text())
            combine([summary])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: cannot be used; finish the run by --resume first") from None
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
    parser.add_argument("runs", nargs="+", help="folders of finished runs")
    options = parser.parse_args(arguments)

    def work():
        print(combined_markdown(columns(options.runs)))
        return 0

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())

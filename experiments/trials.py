"""Trials: small trainings beyond the study's runs, each made once and kept as one record.

A script names its Trials and hands them to `main`. A record is experiments/results/<folder>/
<name>.json.gz: the trial's facts, what computed it and how long it took, and a column for each
number of its evaluations. To run the same command again is the recovery after any interruption:
what is kept is passed over. `--part 1/2` and `--part 2/2` share the work between two processes.
"""

import argparse
import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path

from experiments.keeping import UNREADABLE, read_record, short, write_record
from npdl.errors import InputError
from npdl.files import is_file, reason
from npdl_train.console import OneLineParser, guarded, note
from npdl_train.runs.loop import unwarned
from npdl_train.runs.versions import versions

RESULTS = Path(__file__).parent / "results"
RUNNING = 3                         # evaluations in a row, all of them right, that end a trial


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training.

    name     of its record
    facts    what is varied, for tables, and all that decides the numbers: {"seed": 0, "lr": 1e-3,
             ...}; a record with other facts is not this trial's
    minutes  that it takes on one core, expected
    make     make() -> {column: values}, a row for each evaluation
    """

    name: str
    facts: dict
    minutes: float
    make: Callable[[], dict[str, list]]

    def path(self, folder):
        return RESULTS / folder / f"{self.name}.json.gz"


def kept(folder, trial):
    """The record of a trial: {trial, made, columns}, or None where there is none."""
    path = trial.path(folder)
    try:
        if is_file(path, or_nothing=True) and not path.exists():
            return None
        record = read_record(path)
        lengths = {len(column) for column in record["columns"].values()}
        if len(lengths) != 1 or record["trial"] != trial.facts or not record["made"]["engine"]:
            raise ValueError("it is of another trial, or incomplete")
        return record
    except UNREADABLE as error:
        raise InputError(f"{path.name}: is not a record of this trial ({reason(error)}); remove it "
                         "and make the trial again") from error


def records(folder, trials):
    """{name: record} of the trials that are kept. Raises InputError for a file that cannot be
    read."""
    return {trial.name: record for trial in trials if (record := kept(folder, trial))}


def keep(folder, trial):
    """Make a trial and keep its record."""
    started = time.monotonic()
    columns = {name: [short(value) for value in column] for name, column in trial.make().items()}
    made = {**versions(), "seconds": round(time.monotonic() - started)}
    write_record(trial.path(folder), {"trial": trial.facts, "made": made, "columns": columns})


def settings(config):
    """What a trial's facts say of its Config: all of it that a script may vary."""
    names = ("lr", "betas", "eps", "weight_decay", "clip", "steps", "batch", "r_train", "layers",
             "width", "dtype")
    return {name: list(value) if isinstance(value := getattr(config, name), tuple) else value
            for name in names}


def part(text):
    """'2/3' as (1, 3): the second of three parts, counted from 0."""
    try:
        which, of = (int(number) for number in text.split("/"))
        if not 1 <= which <= of:
            raise ValueError
        return which - 1, of
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 1/2") from None


def evaluations(trainer):
    """Train to the end of the steps, and yield each evaluation (a dict) that comes due."""
    with trainer.engine, unwarned():
        while trainer.step < trainer.config.steps:
            trainer.update()
            if trainer.evaluation_due():
                yield trainer.evaluate()


def all_right(rows):
    """Whether every validation example was right at the last RUNNING evaluations."""
    return len(rows) >= RUNNING and all(row["validation_accuracy"] == 1 for row in rows[-RUNNING:])


def columns_of(rows):
    """{name: values} of rows with the same names."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def first_step(columns, name, test):
    """The first step at which a column's value passes a test, or infinity."""
    return next((step for step, value in zip(columns["step"], columns[name], strict=True)
                 if value is not None and test(value)), math.inf)


def main(folder, trials, description, arguments=None):
    """The command of a script with these trials; returns the exit status."""
    p = OneLineParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="WORD", help="make only the trials that have all "
                   "these words in their names (default: all)")
    p.add_argument("--list", action="store_true",
                   help="show the trials, each with its minutes on one core, and stop")
    p.add_argument("--part", type=part, default=(0, 1), metavar="I/N",
                   help="make every N-th trial, from the I-th on")
    options = p.parse_args(arguments)
    chosen = [trial for trial in trials if all(word in trial.name for word in options.names)]
    if not chosen:
        p.error(f"no trial has {' and '.join(options.names)} in its name; --list shows them")

    def work():
        left = [trial for trial in chosen if kept(folder, trial) is None]
        if options.list:
            for trial in chosen:
                there = "" if trial in left else "   kept"
                print(f"{trial.name:<40} {trial.minutes:>6.1f} minutes{there}")
            print(f"{len(left)} of {len(chosen)} trials left, "
                  f"{sum(trial.minutes for trial in left):.0f} minutes on one core")
            return 0
        which, of = options.part
        for trial in chosen[which::of]:
            if trial in left:
                note(f"{trial.name}: about {trial.minutes:.0f} minutes")
                keep(folder, trial)
        return 0

    return guarded(p.prog, work)

"""Compare several runs in one table; runs that differ in their seed only share a column.

  python -m npdl table runs/gpt-p31-plus-seed0 runs/gpt-p31-plus-seed42 runs/lstm-*

Rows: L, the lowest loss; A, the best accuracy (train: on the training set, val: on the validation
set); t_f, the first step that reached it; Δt, the steps from training's t_f to validation's. Each
cell is the mean over the seeds ± the population standard deviation. An unfinished run is named
below the table and is left out of the means.
"""

import dataclasses
from pathlib import Path

from npdl.cli.console import file_or_folder, set_description
from npdl.errors import InputError
from npdl.train.folder import model_name
from npdl.train.metrics import read_records
from npdl.train.run import read_config
from npdl.train.summary import combine, combined_markdown, read_summary

HEADED = ("model", "text", "operator", "p", "r_train", "seed")      # what a heading says anyway


def columns(folders):
    """Return {heading: combined summary} and a line about each unfinished run.

    Runs that differ in their seed only are combined. A folder that is named twice counts once.
    """
    groups, stopped = {}, []
    for folder in {Path(folder).resolve(): folder for folder in folders}.values():
        config = read_config(folder)
        path = Path(folder) / "summary.json"
        summary = read_summary(path) if path.exists() else None
        steps = _last_step(folder) if summary is None else summary["steps"]
        if steps < config.steps:
            stopped.append(f"{folder}: stopped at step {steps} of {config.steps}, and left out; "
                           "finish it by --resume")
        else:
            summary = summary or read_summary(path)         # says that it is missing
            alike = dataclasses.replace(config, seed=0)
            groups.setdefault(alike, []).append((config.seed, summary))
    headings = _headings({config: [seed for seed, _ in members]
                          for config, members in groups.items()})
    return {headings[config]: combine([s for _, s in members])
            for config, members in groups.items()}, stopped


def _last_step(folder):
    path = Path(folder) / "metrics.jsonl"
    if not path.exists():
        return 0
    records = read_records(path)
    return records[-1]["step"] if records else 0


def _headings(groups):
    """Return {config: its heading}."""
    names = [field.name for config in groups for field in dataclasses.fields(config)]
    differ = [name for name in dict.fromkeys(names) if name not in HEADED
              and len({getattr(config, name, None) for config in groups}) > 1]
    return {config: heading(config, seeds, differ) for config, seeds in groups.items()}


def heading(config, seeds, differ=()):
    """Return the model, the data, the settings in which the columns differ, and the seeds."""
    data = "dates" if config.translates else f"{config.operator} mod {config.p}" if (
        config.text is None) else config.text
    what = data if config.text else f"{data}, r_train {config.r_train:g}"
    apart = "".join(f", {_setting(name, getattr(config, name))}" for name in differ
                    if hasattr(config, name))
    return f"{model_name(config)}, {what}{apart} (seeds {', '.join(map(str, sorted(seeds)))})"


def _setting(name, value):
    if name == "adapters":
        return "no adapters" if value is None else f"LoRA of rank {value.rank}"
    return f"{name} {value}"


def add_arguments(parser):
    """Add the options of `table` to an argparse parser."""
    set_description(parser, __doc__, given_only=True)
    parser.add_argument("runs", nargs="+", type=file_or_folder, help="folders of finished runs")


def run(options):
    """Print the table of the runs that the options name; the exit status."""
    found, stopped = columns(options.runs)
    if not found:
        raise InputError("; ".join(stopped))
    print(combined_markdown(found))
    for line in stopped:
        print(line)
    return 0

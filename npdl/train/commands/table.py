"""Compare several runs in one table. Runs that differ only in their seed share a column.

  python -m npdl table runs/gpt-p31-plus-seed0 runs/gpt-p31-plus-seed42 runs/lstm-*

Rows: L, the lowest loss; A, the best accuracy (train: on the training set, val: on the validation
set); t_f, the first step that reached it; Δt, t_f of validation minus t_f of training. Each cell
is the mean over the seeds ± the population standard deviation. Columns are sorted by the
settings that differ. Unfinished runs are listed below the table and are not part of the means.
"""

import dataclasses
from pathlib import Path

from npdl.cli.console import checked_path_text, set_description
from npdl.errors import InputError
from npdl.train.folder import describe_model_and_data, is_finished, read_config
from npdl.train.metrics import read_records
from npdl.train.summary import format_table, summarise

# Settings that the outline of a run names, or that follow from another one.
OUTLINED = ("model", "task", "operator", "p", "q", "seed", "characters")
MAY_BE_OFF = ("adapters", "clip")       # shown even if None ("no clip"); others are not


def group_runs(folders):
    """Return {heading: [folder]} of runs. Runs that differ only in their seed share a heading.

    The groups are sorted by the settings that differ. A heading has the model, the data, these
    settings and the seeds. A folder that is given twice counts once.
    """
    groups = {}
    for folder in {Path(folder).resolve(): folder for folder in folders}.values():
        config = read_config(folder)
        groups.setdefault(dataclasses.replace(config, seed=0), []).append((config.seed, folder))
    names = dict.fromkeys(field.name for config in groups for field in dataclasses.fields(config))
    differ = [name for name in names if len({getattr(config, name, None) for config in groups}) > 1]
    headings = {}
    for config in sorted(groups, key=lambda config: [_make_sort_key(getattr(config, name, None))
                                                     for name in differ]):
        heading = outline = describe_model_and_data(config)
        for name in differ:
            value = getattr(config, name, None)
            if name not in OUTLINED and (name in MAY_BE_OFF or value is not None):
                text = _describe_setting(name, value)
                if text not in outline.replace("=", " "):       # for example "r_train=0.5"
                    heading += f", {text}"
        seeds = ", ".join(map(str, sorted(seed for seed, _ in groups[config])))
        heading += f", seed {seeds}" if len(groups[config]) == 1 else f", seeds {seeds}"
        headings.setdefault(heading, []).extend(run for _, run in groups[config])
    return headings


def _make_sort_key(value):
    """Return a key that sorts None before numbers, and numbers before words."""
    return (0, 0) if value is None else (
        (1, value) if isinstance(value, (int, float)) else (2, str(value)))


def _describe_setting(name, value):
    if value is None:
        return f"no {name}"
    if name == "adapters":
        return "LoRA of " + ", ".join(f"{key} {given}" for key, given in vars(value).items()
                                      if given and (value.bits or key != "rounding"))
    return f"{name} {value[:8] if name.endswith('sha256') else value}"


def add_arguments(parser):
    """Add the options of `table` to an argparse parser."""
    set_description(parser, __doc__, omit_defaults=True)
    parser.add_argument("runs", nargs="+", type=checked_path_text, help="folders of finished runs")


def run(options):
    """Print the table of the runs in the options, and return the exit status."""
    finished, stopped = [], []
    for folder in options.runs:
        config = read_config(folder)
        if is_finished(folder, config):
            finished.append(folder)
        else:
            records = read_records(Path(folder) / "metrics.jsonl")
            step = records[-1]["step"] if records else 0
            stopped.append(f"{folder} has metrics up to step {step} of {config.steps} and is left "
                           "out; resume the run to finish it")
    if not finished:
        raise InputError("; ".join(stopped))
    print(format_table({
        heading: [summarise(read_records(Path(folder) / "metrics.jsonl")) for folder in folders]
        for heading, folders in group_runs(finished).items()}), *stopped, sep="\n")
    return 0

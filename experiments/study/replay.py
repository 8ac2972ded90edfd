"""Whether a kept record is still what its settings give: its first steps, computed again.

  python -m experiments.study.replay RECORD.json.gz

Exit status 0 if they are the same, 1 with one line if not, 3 if this machine's kernels of BLAS or
its GPU are not the record's.
"""

import dataclasses
import sys
from pathlib import Path

from experiments.study.records import NAMES, KeptRun, labels, stored_in
from npdl import backend
from npdl.errors import BackendError
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer, unwarned
from npdl_train.runs.metrics import METRICS
from npdl_train.runs.versions import card, kernels

STEPS = {"gpt": 200, "lstm": 600}   # an LSTM's first 200 lie on the plateau, where all rounding is
EVERY = 10                          # alike; of the evaluations every tenth step's is enough


def first_difference(stored, steps=None, every=EVERY):
    """(step, metric, value now, value kept) of the first number that differs, or None.

    stored  what records.read_kept returns, of a run on the backend in use; its numbers have five
            digits
    """
    config = dataclasses.replace(Config.from_json(stored["config"]), backend=backend.name())
    columns, steps = stored["records"], steps or STEPS[config.model]
    rows = {step: row for step, *row in zip(columns["step"], *(columns[m] for m in METRICS),
                                            strict=True)}
    trainer = Trainer(config)
    with trainer.engine, unwarned():
        while trainer.step < steps:
            trainer.update()
            if trainer.step in rows and trainer.step % every == 0:
                now = trainer.evaluate()
                for metric, kept in zip(METRICS, rows[trainer.step], strict=True):
                    if float(f"{now[metric]:.5g}") != kept:
                        return trainer.step, metric, now[metric], kept
    return None


def label_of(run):
    """The label (dict) of a run's records, or {}."""
    return next((label for label in labels() if label["engine"] == run.made.get("engine")
                 and label["model"] == run.config.model), {})


def line_of(stored, name, difference):
    """One line on a record that no longer replays: what to decide."""
    run = KeptRun(stored)
    step, metric, now, kept = difference
    engine = run.made.get("engine")
    return (f"{name}: the engine's rounding has changed: a {NAMES[run.config.model]} by "
            f"{run.computed_by} has {metric} {kept} at step {step}, today's code {now:.5g}; either "
            "make the records anew (python -m experiments.study --anew) or keep them under a "
            f'label: set "replays" to false for engine {engine or "null"} and model '
            f'"{run.config.model}" in experiments/results/labels.json, and say why')


def main(path):
    """The exit status for the record in a file."""
    stored = stored_in(path)
    try:
        with backend.using("cupy" if "card" in stored["made"] else "numpy"):
            return compared(stored, path.name)
    except BackendError as error:
        print(f"{path.name}: made by {stored['made']['card']}; {error}")
        return 3


def compared(stored, name):
    """The exit status for a record, on the backend that made it."""
    here = kernels() if backend.is_host() else card()
    made_by = stored["made"].get("kernels" if backend.is_host() else "card", here)
    if made_by != here:
        print(f"{name}: made with {made_by}, here is {here}")
        return 3
    difference = first_difference(stored)
    if difference is not None:
        print(line_of(stored, name, difference))
    return int(difference is not None)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

"""Whether a kept record is still what its settings give: its first steps, computed again."""

import dataclasses

from npdl.training.config import Config
from npdl.training.loop import Trainer, unwarned
from npdl.training.metrics import METRICS
from reporting.records import NAMES, Run

STEPS = 200                 # a record has evaluations at the steps 1 to 100, and at 200


def first_difference(stored, steps=STEPS):
    """(step, metric, value now, value kept) of the first number that differs, or None.

    stored  what study.read_kept returns, of a run on a CPU; its numbers have five digits
    """
    config = dataclasses.replace(Config.from_json(stored["config"]), backend="numpy")
    columns = stored["records"]
    rows = {step: row for step, *row in zip(columns["step"], *(columns[m] for m in METRICS),
                                            strict=True)}
    trainer = Trainer(config)
    with trainer.engine, unwarned():
        while trainer.step < steps:
            trainer.update()
            if trainer.step in rows:
                now = trainer.evaluate()
                for metric, kept in zip(METRICS, rows[trainer.step], strict=True):
                    if float(f"{now[metric]:.5g}") != kept:
                        return trainer.step, metric, now[metric], kept
    return None


def told(stored, name, difference):
    """One line on a record that no longer replays: what to decide."""
    run = Run(stored)
    step, metric, now, kept = difference
    engine = run.made.get("engine")
    return (f"{name}: the engine's rounding has changed: a {NAMES[run.config.model]} by "
            f"{run.origin} has {metric} {kept} at step {step}, today's code {now:.5g}; either make "
            "the records anew (python experiments/study.py --anew) or keep them under a label: "
            f'set "replays" to false for engine {engine or "null"} and model '
            f'"{run.config.model}" in experiments/results/labels.json, and say why')

"""Train small models in memory or in a run's folder, and compare the results."""

import numpy as np

from npdl.train import checkpoint
from npdl.train.loop import Trainer
from npdl.train.run import read_resumed_config, train

ENGINES = ("plain", "recorded")


def make_trained_trainer(config, steps, base_state=None):
    """Return a new Trainer after its first `steps` updates."""
    trainer = Trainer(config, base_state)
    with trainer.engine, np.errstate(all="ignore"):
        for _ in range(steps):
            trainer.update()
    return trainer


def get_trainer_state(trainer):
    """Return the content of the trainer's checkpoint: (arrays, meta)."""
    return checkpoint.collect_state(trainer.config, trainer.model, trainer.optimizer, trainer.step,
                                    1.0)


def load_run_arrays(folder):
    """Return the arrays in the checkpoint of a run's folder."""
    return checkpoint.load(folder / "checkpoint.npz")[0]


def assert_same_bytes(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def assert_same_runs(one, other):
    """Check that two run folders have bitwise identical checkpoints, metrics and settings."""
    assert_same_bytes(load_run_arrays(one), load_run_arrays(other))
    for name in ("metrics.jsonl", "config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def rewind_and_resume(folder, config, step, base_state=None):
    """Write the checkpoint of an earlier step into the folder of a finished run, and resume it."""
    trainer = make_trained_trainer(config, step, base_state)
    checkpoint.save(folder / "checkpoint.npz", *get_trainer_state(trainer))
    assert train(read_resumed_config(folder, {}), folder, resume=True, quiet=True) == 0

"""Train small models in memory or in a run's folder, and compare the results."""

import numpy as np

from npdl.train import checkpoint
from npdl.train.loop import Trainer
from npdl.train.run import read_resumed_config, train

ENGINES = ("plain", "recorded")


def make_trained(config, steps, base=None):
    """Return a new Trainer after its first `steps` updates."""
    trainer = Trainer(config, base)
    with trainer.engine, np.errstate(all="ignore"):
        for _ in range(steps):
            trainer.update()
    return trainer


def state_of(trainer):
    """Return the content of the trainer's checkpoint: (arrays, meta)."""
    return checkpoint.collect_state(trainer.config, trainer.model, trainer.optimizer, trainer.step,
                                    1.0)


def arrays_of(folder):
    """Return the arrays in the checkpoint of a run's folder."""
    return checkpoint.load(folder / "checkpoint.npz")[0]


def assert_same_bytes(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def assert_same_runs(one, other):
    """Check that two run folders have bitwise identical checkpoints, metrics and settings."""
    assert_same_bytes(arrays_of(one), arrays_of(other))
    for name in ("metrics.jsonl", "config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def resume_from(folder, config, step, base=None):
    """Write the checkpoint of an earlier step into the folder of a finished run, and resume it."""
    checkpoint.save(folder / "checkpoint.npz", *state_of(make_trained(config, step, base)))
    assert train(read_resumed_config(folder, {}), folder, resume=True, quiet=True) == 0

"""Small trainings of a Trainer or in a folder, and what the tests compare of them."""

import numpy as np

from npdl.train import checkpoint
from npdl.train.loop import Trainer
from npdl.train.run import read_resumed_config, train

ENGINES = ("plain", "recorded")


def updated(trainer, steps):
    """The trainer after so many more updates."""
    with trainer.engine, np.errstate(all="ignore"):
        for _ in range(steps):
            trainer.update()
    return trainer


def trained(config, steps, base=None):
    """A fresh trainer after its first updates."""
    return updated(Trainer(config, base), steps)


def state_of(trainer):
    """What a checkpoint of the trainer holds: (arrays, meta)."""
    return checkpoint.get_state(trainer.config, trainer.model, trainer.optimizer, trainer.step, 1.0)


def arrays_of(folder):
    """What the checkpoint of a run holds."""
    return checkpoint.load(folder / "checkpoint.npz")[0]


def assert_same_bytes(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


def assert_same_runs(one, other):
    """Parameters, moments, records and settings of two run folders, to the last bit."""
    assert_same_bytes(arrays_of(one), arrays_of(other))
    for name in ("metrics.jsonl", "config.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def resumed_from(folder, config, step, base=None):
    """Set the finished run of `config` in a folder back to a step of its past, and resume it."""
    checkpoint.save(folder / "checkpoint.npz", *state_of(trained(config, step, base)))
    assert train(read_resumed_config(folder, {}), folder, resume=True, quiet=True) == 0

"""A task of your own: a GPT learns to compose permutations, a b = a after b, in S4.

Like any other run, it is saved, is resumed by the same command, draws its curves, and can be a
column of `npdl table`.    python docs/examples/own_task.py [FOLDER]
"""

import functools
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np

from npdl.train.config import Config
from npdl.train.engine import Batch
from npdl.train.metrics import read_records
from npdl.train.run import train
from npdl.train.task import Task


class Permutations(Task):
    """All equations a b = r of the permutations of n things, r_train of them to train on.

    The tokens 0 .. n!-1 are the permutations, and n! is "=". Only the answer counts in the loss.
    """

    max_len = 3                                                 # a b =

    def __init__(self, config, n):
        self.config = config
        elements = list(itertools.permutations(range(n)))
        index = {element: i for i, element in enumerate(elements)}
        pairs = itertools.product(range(len(elements)), repeat=2)
        self.equations = np.array([
            (a, b, index[tuple(elements[a][i] for i in elements[b])]) for a, b in pairs])
        self.equals, self.vocab_size = len(elements), len(elements) + 1
        order = np.random.default_rng(config.seed).permutation(len(self.equations))
        cut = round(config.r_train * len(order))
        self.rows = {"train": order[:cut], "validation": order[cut:]}
        self.evaluation_batches = {name: self.make_batch(rows[:2000])
                                   for name, rows in self.rows.items()}

    def make_batch(self, rows):
        a, b, r = self.equations[rows].T
        inputs = np.stack([a, b, np.full_like(a, self.equals)], 1)          # (B, 3)
        targets = np.stack([b, np.full_like(a, self.equals), r], 1)         # (B, 3)
        return Batch(inputs, targets, np.tile([False, False, True], (len(rows), 1)))

    def batch(self, step):
        """Return the batch of an update, which depends on nothing but the seed and the step."""
        rng = np.random.default_rng((self.config.seed, step))
        return self.make_batch(rng.choice(self.rows["train"], self.config.batch, replace=False))


def main(folder=None, n=4, steps=300, **settings):
    folder = Path(folder or tempfile.mkdtemp()) / "run"
    settings = {"layers": 1, "batch": 256, "lr": 2e-3, "weight_decay": 0.0, "r_train": 0.8,
                "eval_first": 0, "eval_every": steps // 5, "save_every": 100, **settings}
    train(Config(task=functools.partial(Permutations, n=n), steps=steps, **settings), folder)
    last = read_records(folder / "metrics.jsonl")[-1]
    accuracy = last["train_accuracy"]
    print(f"of the equations that it has not seen, {last['validation_accuracy']:.1%} are right, "
          f"and of those in training {accuracy:.1%}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])

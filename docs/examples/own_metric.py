"""A metric of your own, recorded at each evaluation: the accuracy of the sums that wrap around
(5 + 4 = 2 modulo 7).    python docs/examples/own_metric.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from npdl.losses import exact_match
from npdl.train.config import Config
from npdl.train.metrics import read_records
from npdl.train.run import train


def carry_accuracy(trainer):
    """Return the accuracy of the sums that exceed p - 1 and wrap around."""
    examples = trainer.task.data.train
    a, b = examples.inputs[:, 1], examples.inputs[:, 3]         # BOS a + b = r
    these = np.flatnonzero(a + b >= trainer.config.p)           # a number is its token's id
    logits, _ = trainer.model.forward(examples.inputs[these])
    return exact_match(logits, examples.targets[these], examples.answer_mask[these])


def main(folder=None):
    folder = Path(folder or tempfile.mkdtemp()) / "run"
    config = Config(p=7, r_train=0.9, layers=1, width=32, steps=300, eval_first=0, eval_every=50)
    train(config, folder, quiet=True, metrics={"carried": carry_accuracy})
    records = read_records(folder / "metrics.jsonl")    # or pandas.read_json(path, lines=True)
    for record in records:
        print(f"step {record['step']}: loss {record['train_loss']:.4f}, "
              f"{record['carried']:.1%} of the sums that wrap around are right")
    accuracy = records[-1]["train_accuracy"]
    print(f"{accuracy:.1%} of the sums are right; the run is in {folder}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])

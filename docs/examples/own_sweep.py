"""A sweep of your own: two widths, two seeds, two runs at a time, and a table of the results.

The same command again skips finished runs and resumes unfinished ones.
    python docs/examples/own_sweep.py [FOLDER]
"""

import sys
import tempfile

from npdl.train.config import Config
from npdl.train.sweep import load_sweep_metrics, sweep


def main(root=None):
    root = root or tempfile.mkdtemp()
    configs = [Config(model="lstm", p=5, r_train=0.8, layers=1, width=width, steps=200, lr=1e-2,
                      eval_first=0, eval_every=50, seed=seed) for width in (8, 32)
               for seed in (0, 1)]
    outcomes = sweep(configs, root, jobs=2, quiet=True)
    print("width  seed  best loss of training")
    for config in configs:
        records = load_sweep_metrics(root, config)        # None while a run isn't finished
        if records is not None:
            loss = min(record["train_loss"] for record in records)
            print(f"{config.width:5}  {config.seed:4}  {loss:.4f}")
    share = len(outcomes.get("finished", [])) / len(configs)
    print(f"{share:.1%} of the runs are finished; they are in {root}")
    return share


if __name__ == "__main__":
    main(*sys.argv[1:])

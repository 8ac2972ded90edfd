"""Print the loss of runs over the whole validation text, next to the recorded loss.

A run records its loss on random windows, which depend on its seed. This script uses every window
that starts at a multiple of half a block, so all runs are compared on the same text. The last
column is the standard deviation of the mean loss of 240 random windows (20 batches of 12).

  python experiments/text_losses.py runs/seed0 runs/seed1
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script()         # Ctrl-C exits without a traceback

import math
import sys

import numpy as np

from npdl.cli.console import OneLineParser, checked_path_text, run_guarded
from npdl.errors import InputError
from npdl.train.engine import Batch, PlainEngine
from npdl.train.run import load_run

ROWS = 64           # windows evaluated at a time
DRAWN = 240         # random windows, for the standard deviation of their mean loss


def make_windows(ids, block):
    """Return (inputs, targets), each (N, block), of the windows at multiples of half a block."""
    starts = np.arange(0, len(ids) - block, max(1, block // 2))
    taken = ids[starts[:, None] + np.arange(block + 1)]
    return taken[:, :-1], taken[:, 1:]


def compute_run_losses(run, folder="the run"):
    """Return the loss of each window of the validation part (N,) of a run from `load_run`.

    Raises InputError for a run on other data than a text, and for a run without a validation part.
    `folder` names the run in the message.
    """
    if run.config.text is None:
        raise InputError(f"{folder} was not trained on a text; name a run that was")
    if "validation" not in run.task.split_ids:
        raise InputError(f"{folder} has no validation part (--r-train 1); name a run that has")
    inputs, targets = make_windows(run.task.split_ids["validation"], run.config.block)
    batch = Batch(inputs, targets, np.ones(inputs.shape, bool), chunk=ROWS)
    losses = PlainEngine(run.model, None).measure_sequences(batch)[0]   # by npdl's layers
    if not np.isfinite(losses).all():
        raise InputError(f"{folder}: the losses are not finite, because the model's parameters are "
                         "too large; name a run that has not diverged")
    return losses


def main(arguments=None):
    p = OneLineParser(description=__doc__.split("\n\n")[0])
    p.add_argument("runs", nargs="+", metavar="RUN", type=checked_path_text,
                   help="the folder of a run on a text")
    options = p.parse_args(arguments)

    def print_losses():
        print(f"| run | recorded | whole part | deviation, {DRAWN} windows |\n|---|---:|---:|---:|")
        losses_of_runs = []
        for folder in options.runs:
            run = load_run(folder)
            losses = compute_run_losses(run, folder)
            recorded = run.records[-1].get("validation_loss") if run.records else None
            recorded = math.nan if recorded is None else recorded
            losses_of_runs.append((recorded, losses.mean(dtype=float)))
            print(f"| {folder} | {recorded:.4f} | {losses.mean(dtype=float):.4f} "
                  f"| {losses.std(dtype=float) / math.sqrt(DRAWN):.4f} |")
        if len(losses_of_runs) > 1:
            (a, b), (da, db) = np.mean(losses_of_runs, 0), np.std(losses_of_runs, 0)
            print(f"| mean ± population deviation | {a:.4f} ± {da:.4f} | {b:.4f} ± {db:.4f} | |")
        return 0

    return run_guarded(p.prog, print_losses)


if __name__ == "__main__":
    sys.exit(main())

"""What the screen shows during a run: a bar on a terminal, plain lines elsewhere.

A terminal that is gone, or a reader that has seen enough, ends no training: it goes on unseen.
"""

import sys

from npdl_train.console import note


class Progress:
    """Steps per second, time left, losses and accuracies, on standard error."""

    def __init__(self, steps, done, quiet=False):
        from tqdm import tqdm  # of the extra `train`; who loads a run does without it

        self.steps = steps
        self.quiet = quiet
        self.lines = not quiet and not sys.stderr.isatty()
        self.bar = tqdm(total=steps, initial=done, unit="step", dynamic_ncols=True,
                        disable=quiet or self.lines, smoothing=0.05)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.bar.close()

    def step(self):
        self.bar.update()

    def record(self, record):
        """Show the newest evaluation."""
        text = "  ".join(
            f"{short} {record[f'{name}_loss']:.2e} {record[f'{name}_accuracy']:7.2%}"
            for name, short in (("train", "train"), ("validation", "val"))
            if f"{name}_loss" in record
        )
        if self.lines:
            note(f"step {record['step']:>6}/{self.steps}  {text}")
        else:
            self.bar.set_postfix_str(text)

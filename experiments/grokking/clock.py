"""What is the clock of grokking: decay x time, the norm of the weights, or the scale of the logits?

  python experiments/grokking/clock.py --list      the trials and their minutes
  python experiments/grokking/clock.py             make what is not made yet
  python experiments/report.py                     the answer, from what there is

An LSTM (one layer, d = 64, the release recipe, float32) learns sums modulo 31. The delay is the
number of steps from A_train >= 0.99 to A_val >= 0.9.

grid      decay 1/4, 1/2, 1, 2, 4 times learning rate 0.001, 0.002, 0.004, seeds 0, 1, 2: 45 runs,
          each until the decay alone would have shrunk the weights by a factor e^PATIENCE
held      no decay; after every update all parameters are multiplied by one number, so that their
          norm stays what it says. A temperature divides the logits before the loss and is no part
          of the norm (arXiv:2606.18465). It is a power of two: the classifier is divided by it
          before the gradients are computed, and multiplied again, without rounding

The logit scale is the standard deviation of the 31 numbers' logits where the answer is read, over
the training set, divided by the temperature. A run waits at its geometric mean over the evaluations
of the delay, and likewise of the norm.

Predicted on 26 November 2026, 18:27 UTC, before any of these runs:
  (1) delay x lr x decay is the same in the grid within a factor 2: its logarithm falls with slope
      -1 (within 0.15) over that of lr x decay, which explains 90 % of its variance or more;
  (2) the norm at which a run waits explains less than half, the logit scale more than the norm and
      less than lr x decay;
  (3) held, a hotter output is sooner: at either norm temperature 2 generalises in at most two
      thirds of the steps that 1/2 takes, as arXiv:2606.18465 has it; over the held runs the logit
      scale explains more of the delay than the norm does.
"""

if __name__ == "__main__":
    from npdl_train.console import begin

    begin()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys

import numpy as np

from experiments.study.measures import A_VAL
from experiments.study.records import variant, with_recipe
from experiments.trials import Trial, columns_of, evaluations, main, settings
from npdl.backend import to_host
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/clock"
DECAYS, RATES, SEEDS = (4.0, 2.0, 1.0, 0.5, 0.25), (4e-3, 2e-3, 1e-3), (0, 1, 2)
NORMS, TEMPERATURES, HELD = (30.0, 45.0), (2.0, 1.0, 0.5), 2e-3
PATIENCE = 16.0             # lr x decay x steps, at most; of the held as if their decay were 1
ENOUGH = 0.95               # A_val that ends a trial
CONFIG = with_recipe(variant("lstm", layers=1, width=64), "release")
SECONDS = 0.006             # a step on one core, expected


class Clocked(Trainer):
    """A Trainer whose logits are divided by a temperature, and whose norm may be held."""

    def __init__(self, config, norm=None, temperature=1.0):
        super().__init__(config, metrics={"logit_scale": logit_scale})
        self.norm, self.temperature = norm, temperature
        self.last = [p for name, p in self.model.params() if name.startswith("classifier")]
        self.hold()

    def cool(self, factor):
        for p in self.last:
            p.data *= p.data.dtype.type(factor)

    def hold(self):
        """Multiply all parameters by one number, so that their norm is what it shall be."""
        if self.norm is not None:
            arrays = self.learned()
            is_now = math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in arrays))
            for array in arrays:
                array *= array.dtype.type(self.norm / is_now)

    def update(self):
        """The recipe's update, of the loss of the divided logits."""
        self.cool(1 / self.temperature)
        self.engine.step(self.task.batch(self.step))
        self.cool(self.temperature)
        for p in self.last:                     # d/dW of the loss at W / temperature
            p.grad *= p.grad.dtype.type(1 / self.temperature)
        self.engine.clip(self.config.clip)
        self.engine.update(self.learning_rate(self.step))
        self.hold()
        self.step += 1

    def evaluate(self):
        """As the loss sees the model."""
        self.cool(1 / self.temperature)
        try:
            return super().evaluate()
        finally:
            self.cool(self.temperature)


def logit_scale(trainer):
    """The standard deviation of an answer's logits over the training set."""
    (logits, _), _ = trainer.model.forward(trainer.task.data.train.inputs[:, :5])   # BOS a + b =
    return float(np.sqrt(to_host(logits)[:, -1, :trainer.config.p].var(-1).mean()))


def train(config, **arm):
    """The columns of a training: step, losses, accuracies, norm, logit scale."""
    rows = []
    for row in evaluations(Clocked(config, **arm)):
        rows.append({**row, "l2_norm": arm.get("norm") or row["l2_norm"]})
        if row[A_VAL] >= ENOUGH:
            break
    return columns_of(rows)


def trial(name, kind, seed, rate, decay, **arm):
    steps = round(PATIENCE / (rate * (decay or 1)))
    config = dataclasses.replace(CONFIG, seed=seed, lr=rate, weight_decay=decay, steps=steps)
    return Trial(f"{name}-seed{seed}", {**settings(config), "kind": kind, "seed": seed, **arm},
                 steps * SECONDS / 60, lambda: train(config, **arm))


def grid(seed):
    return [trial(f"decay{decay:g}-lr{rate:g}", "grid", seed, rate, decay)
            for decay in DECAYS for rate in RATES]


TRIALS = [*grid(0),
          *(trial(f"norm{norm:g}-temperature{temperature:g}", "held", 0, HELD, 0.0, norm=norm,
                  temperature=temperature) for norm in NORMS for temperature in TEMPERATURES),
          *grid(1), *grid(2)]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))

"""The cases of the benchmark: sizes of a model, and a batch for it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """One model and its batch: "gpt" and "lstm" of Assignment 4, or "text", a small text GPT."""

    model: str
    batch: int = 480
    length: int = 6
    width: int = 128
    layers: int = 2
    heads: int = 4
    vocab: int = 36

    @property
    def is_text(self):
        return self.model == "text"

    @property
    def adamw_settings(self):
        """Return AdamW's settings."""
        if self.is_text:
            return {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}
        return {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 1.0}

    @property
    def max_gradient_norm(self):
        """Return the largest global norm of the gradients, or None."""
        return 1.0 if self.is_text else None

    def __str__(self):
        return f"{self.model}: {self.batch} x {self.length} tokens, width {self.width}"


CASES = {"gpt": Case("gpt"), "lstm": Case("lstm"),
         "text": Case("text", batch=12, length=64, layers=4, vocab=65)}
QUICK = {"gpt": Case("gpt", batch=12, width=16), "lstm": Case("lstm", batch=12, width=16),
         "text": Case("text", batch=2, length=8, width=16, layers=1, vocab=65)}


def make_batch(case):
    """Return (inputs, targets, counted), each (B, S), sorted by the inputs.

    A text has random characters, and all targets count. The other cases have equations
    `BOS a + b = r EOS` modulo 31, of which only the last two targets, r and EOS, count.
    """
    rng = np.random.RandomState(0)
    if case.is_text:
        rows = rng.randint(0, case.vocab, (case.batch, case.length + 1))
        counted = np.ones((case.batch, case.length), bool)
    else:
        p = 31
        order = list(range(p * p))
        rng.shuffle(order)
        a, b = np.divmod(np.resize(order, case.batch), p)
        plus, equals, bos, eos = (np.full(case.batch, p + i) for i in range(4))
        rows = np.stack([bos, a, plus, b, equals, (a + b) % p, eos], 1)
        counted = np.zeros((case.batch, case.length), bool)
        counted[:, -2:] = True
    rows = rows[np.lexsort(rows.T[::-1])]
    return rows[:, :-1], rows[:, 1:], counted


def make_batches(case, random_batches):
    """Return [the case's batch]; if `random_batches`, return 16 random batches of its sequences."""
    arrays = make_batch(case)
    if not random_batches:
        return [arrays]
    picks = np.random.default_rng(1).integers(0, case.batch, (16, case.batch))
    return [[array[pick] for array in arrays] for pick in picks]

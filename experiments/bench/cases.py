"""What is measured: model sizes, a batch for each, and the matrix products of its step."""

from dataclasses import asdict, dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Case:
    """One model and batch. `model` is 'gpt' (document 004's), 'lstm', or 'text' (a GPT)."""

    model: str = "gpt"
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
    def optimizer(self):
        """AdamW's settings; `matrices_only` leaves gains and biases undecayed."""
        if self.is_text:
            return {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1,
                    "matrices_only": True, "clip": 1.0}
        return {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 1.0,
                "matrices_only": False, "clip": None}

    def as_dict(self):
        return asdict(self)

    def label(self):
        return (f"{self.model}: batch {self.batch} x {self.length} tokens, width {self.width}, "
                f"{self.layers} layers, V = {self.vocab}")


DOCUMENT = {"gpt": Case("gpt"), "lstm": Case("lstm"),
            "text": Case("text", batch=12, length=64, layers=4, vocab=65)}

# The length axis has its own, smaller batch: 480 x 256 tokens would not fit in a laptop.
GROWTH = {
    "batch": (32, 64, 128, 256, 512, 1024, 2048),
    "length": (6, 16, 32, 64, 128, 256),
    "width": (64, 128, 256, 512),
    "layers": (1, 2, 3, 4, 6),
}
GROWTH_LENGTH_BATCH = 64


def growth_case(model, axis, value):
    """The document's case with one size changed."""
    base = DOCUMENT[model]
    if axis == "length":
        base = replace(base, batch=GROWTH_LENGTH_BATCH)
    return replace(base, **{axis: value})


def make_batch(case, seed=0):
    """(inputs, targets, answer_mask), each (B, S).

    Text: random characters, every position counts. Arithmetic: `BOS a + b = r EOS` modulo 31,
    the training set of the document at B = 480; other lengths chain more operands, so the answer
    is always the last two targets. Rows repeat when a batch asks for more than there are.
    """
    if case.is_text:
        rows = np.random.RandomState(seed).randint(0, case.vocab, (case.batch, case.length + 1))
        return rows[:, :-1], rows[:, 1:], np.ones((case.batch, case.length), bool)
    p, operands = 31, (case.length - 2) // 2
    plus, equals, bos, eos = p, p + 1, p + 2, p + 3
    if operands == 2:
        terms = np.stack(np.divmod(np.arange(p * p), p), axis=1)
        order = list(range(p * p))
        np.random.RandomState(seed).shuffle(order)
        terms = terms[np.resize(order, case.batch)]
    else:
        terms = np.random.RandomState(seed).randint(0, p, (case.batch, operands))
    rows = np.full((case.batch, case.length + 1), plus)
    rows[:, 0] = bos
    rows[:, 1:2 * operands:2] = terms
    rows[:, -3] = equals
    rows[:, -2] = terms.sum(axis=1) % p
    rows[:, -1] = eos
    mask = np.zeros((case.batch, case.length), bool)
    mask[:, -2:] = True
    return rows[:, :-1], rows[:, 1:], mask


def products(case):
    """The matrix products of one step at full work: (how often, b, m, k, n) of (b,m,k) @ (b,k,n).

    Each forward product comes with the two of its backward, the gradients of its operands. An
    LSTM's input products and weight gradients are counted as one product over all time steps;
    only the recurrent product must be done step by step.
    """
    B, S, D, L = case.batch, case.length, case.width, case.layers
    rows = B * S
    forward = [(1, 1, rows, D, case.vocab)]
    backward_only = []
    if case.model == "lstm":
        forward += [(L, 1, rows, D, 4 * D)]
        backward_only += [(L * S, 1, B, D, 4 * D), (L * S, 1, B, 4 * D, D), (L, 1, D, rows, 4 * D)]
    else:
        forward += [(L, 1, rows, D, 3 * D), (L, 1, rows, D, D),
                    (L, 1, rows, D, 4 * D), (L, 1, rows, 4 * D, D),
                    (L, B * case.heads, S, D // case.heads, S),
                    (L, B * case.heads, S, S, D // case.heads)]
    step = list(backward_only)
    for count, b, m, k, n in forward:
        step += [(count, b, m, k, n), (count, b, m, n, k), (count, b, k, m, n)]
    return step


def flops(case):
    """Floating-point operations of those products, in one step."""
    return sum(2 * count * b * m * k * n for count, b, m, k, n in products(case))

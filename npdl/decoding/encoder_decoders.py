"""The Scorer of encoder-decoders, which continue a target token by token, given a source."""

import numpy as np

from npdl.decoding.language_models import ModelScorer, checked_prompt
from npdl.errors import InputError


class RecomputedSeq2Seq(ModelScorer):
    """The Scorer of a Seq2Seq or an LSTMSeq2Seq. It computes source and target again at each step.

    It continues the target that begins with the tokens `first`, for example a start token. `source`
    is (S,) or (B, S), and `first` is (R,) or (B, R). `valid` is the third argument of the model's
    forward, which describes the padding of the source: a mask (B, S) for a Seq2Seq, and lengths
    (B,) for an LSTMSeq2Seq.
    """

    def __init__(self, model, source, first, valid=None):
        self.model = model
        self.source = checked_prompt(source)
        first = checked_prompt(first)
        if len(first) not in (1, len(self.source)):
            raise InputError(f"first has {len(first)} rows for {len(self.source)} sources; give "
                             "one row, or one row for each source")
        self.prompt = np.broadcast_to(first, (len(self.source), first.shape[1]))
        self.valid = None if valid is None else np.asarray(valid)

    def start(self):
        return self._score(np.arange(len(self.source)), self.prompt)

    def advance(self, state, parents, tokens):
        rows, target = state
        return self._score(rows[parents], np.concatenate([target[parents], tokens[:, None]], 1))

    def _score(self, rows, target):
        """Return the log-probabilities after target (n, T) of the sources `rows`, and a state."""
        valid = None if self.valid is None else self.valid[rows]
        logits, _ = self.model.forward(self.source[rows], target, valid)
        return self.scores(logits[:, -1]), (rows, target)

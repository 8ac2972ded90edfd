"""make_scorer, which returns the Scorer of any model, and the Scorer of encoder-decoders.

    scorer = make_scorer(model, prompt)
    beam_search(scorer, width=5, max_len=20, eos=eos).best.tokens
"""

import numpy as np

from npdl.decoding.language_models import (
    CachedGPT,
    CachedLlama,
    CarriedLSTM,
    ModelScorer,
    Recomputed,
    checked_prompt,
)
from npdl.errors import InputError
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq


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
            raise InputError(f"the argument first has {len(first)} rows for "
                             f"{len(self.source)} sources; give one row, or one row for each "
                             "source")
        self.prompt = np.broadcast_to(first, (len(self.source), first.shape[1]))
        self.valid = None if valid is None else np.asarray(valid)

    def start(self):
        return self._score(np.arange(len(self.source)), self.prompt)

    def advance(self, state, parents, tokens):
        rows, target = state
        return self._score(rows[parents], np.concatenate([target[parents], tokens[:, None]], 1))

    def _score(self, rows, target):
        """Return the scores after `target` (n, T), with the sources `rows` (n,), and a state."""
        valid = None if self.valid is None else self.valid[rows]
        logits, _ = self.model.forward(self.source[rows], target, valid)
        return self.scores(logits[:, -1]), (rows, target)


KINDS = {GPT: CachedGPT, Llama: CachedLlama, LSTMLM: CarriedLSTM, Seq2Seq: RecomputedSeq2Seq,
         LSTMSeq2Seq: RecomputedSeq2Seq}


def make_scorer(model, prompt, **options):
    """Return the Scorer for this model: one of KINDS, or Recomputed for other models.

    For an encoder-decoder, `prompt` is the source. `options` are arguments of the Scorer.
    """
    kind = next((k for m, k in KINDS.items() if isinstance(model, m)), Recomputed)
    return kind(model, prompt, **options)

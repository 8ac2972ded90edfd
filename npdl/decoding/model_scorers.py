"""Make the Scorer of a model. A Scorer returns the log-probabilities of the next tokens.

    scorer = make_scorer(model, prompt)
    beam_search(scorer, width=5, max_len=20, eos=eos).best.tokens
"""

import numpy as np

from npdl.decoding.language_models import CachedGPT, CachedLlama, CarriedLSTM, Recomputed
from npdl.decoding.scorer import checked_prompt
from npdl.errors import InputError
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq


class RecomputedSeq2Seq(Recomputed):
    """The Scorer of a Seq2Seq or an LSTMSeq2Seq. It computes source and target again at each step.

    It continues the target that begins with the tokens `first`, for example a start token. `source`
    is (S,) or (B, S), and `first` is (R,) or (B, R). `valid` is the third argument of the model's
    forward, which describes the padding of the source: a mask (B, S) for a Seq2Seq, and lengths
    (B,) for an LSTMSeq2Seq.
    """

    def __init__(self, model, source, first, valid=None):
        self.source = checked_prompt(source)
        super().__init__(model, first)
        B, (rows, R) = len(self.source), self.prompt.shape
        if rows not in (1, B):
            raise InputError(f"`first` has {rows} rows for {B} sources; give one row, or one row "
                             "for each source")
        self.prompt = np.broadcast_to(self.prompt, (B, R))
        self.valid = None if valid is None else np.asarray(valid)

    def run_model(self, prompt_indices, target):
        valid = None if self.valid is None else self.valid[prompt_indices]
        logits, _ = self.model.forward(self.source[prompt_indices], target, valid)
        return logits


KINDS = {GPT: CachedGPT, Llama: CachedLlama, LSTMLM: CarriedLSTM, Seq2Seq: RecomputedSeq2Seq,
         LSTMSeq2Seq: RecomputedSeq2Seq}


def make_scorer(model, prompt, **options):
    """Return the Scorer for this model: one of KINDS, or Recomputed for other models.

    For an encoder-decoder, `prompt` is the source. `options` are further arguments of the Scorer,
    such as `first` of a RecomputedSeq2Seq.
    """
    kind = next((k for m, k in KINDS.items() if isinstance(model, m)), Recomputed)
    return kind(model, prompt, **options)

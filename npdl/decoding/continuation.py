"""The Scorer of a model.

    scorer = continuation(model, prompt)
    beam_search(scorer, width=5, max_len=20, eos=eos).best.tokens
"""

from npdl.decoding.encoder_decoders import RecomputedSeq2Seq
from npdl.decoding.language_models import CachedGPT, CachedLlama, CarriedLSTM, Recomputed
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq

KINDS = {GPT: CachedGPT, Llama: CachedLlama, LSTMLM: CarriedLSTM, Seq2Seq: RecomputedSeq2Seq,
         LSTMSeq2Seq: RecomputedSeq2Seq}


def continuation(model, prompt, **options):
    """Return the Scorer for this model: one of KINDS, or Recomputed for other models.

    For an encoder-decoder, `prompt` is the source. `options` are arguments of the Scorer.
    """
    kind = next((k for m, k in KINDS.items() if isinstance(model, m)), Recomputed)
    return kind(model, prompt, **options)

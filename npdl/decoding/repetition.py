"""The repetition penalty, which makes tokens less probable if a sequence already contains them."""

import copy

import numpy as np

from npdl.backend import to_device, to_host
from npdl.decoding.language_models import ModelScorer, log_probabilities
from npdl.decoding.scorer import Scorer
from npdl.errors import InputError
from npdl.options import require_above_0


class PenalisedRepetition(Scorer):
    """scores = log_softmax(z'),   z'_v = z_v / penalty if z_v > 0, else z_v * penalty.

    z are the model's logits. This rule applies to the tokens v that are in the prompt or in the
    generated text. For all other tokens, z'_v = z_v. Keskar et al. 2019, arXiv:1909.05858, divide
    every logit. Most programs multiply negative logits, because a division would make their tokens
    more probable. `scorer` is the Scorer of a model (npdl.decoding.model_scorers). Raises
    InputError for another Scorer, and if `penalty` is not above 0.
    """

    def __init__(self, scorer, penalty):
        require_above_0(penalty=penalty)
        if not isinstance(scorer, ModelScorer):
            raise InputError("the repetition penalty changes a model's logits, but a "
                             f"{type(scorer).__name__} has none; give the Scorer of a model")
        self.scorer, self.penalty = copy.copy(scorer), penalty
        self.scorer.scores = lambda logits: to_host(logits).astype(float)
        self.one_thread = scorer.one_thread

    def start(self):
        return self._penalise_repetition(*self.scorer.start(), self.scorer.prompt)

    def advance(self, state, parents, tokens):
        before, seen = state
        seen = np.concatenate([seen[parents], tokens[:, None]], 1)
        return self._penalise_repetition(*self.scorer.advance(before, parents, tokens), seen)

    def _penalise_repetition(self, logits, state, seen):
        """Return log-probabilities (B, V) after the tokens `seen` (B, S), and the state."""
        z = np.take_along_axis(logits, seen, 1)
        np.put_along_axis(logits, seen, np.where(z > 0, z / self.penalty, z * self.penalty), 1)
        return log_probabilities(to_device(logits)), (state, seen)

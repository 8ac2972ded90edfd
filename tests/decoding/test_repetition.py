"""The repetition penalty, beside its formula on the whole sequence."""

import numpy as np
import pytest

from npdl import GPT, LSTMLM
from npdl.decoding import Tree, greedy
from npdl.decoding.model_scorers import make_scorer
from npdl.decoding.repetition import PenalisedRepetition
from npdl.errors import InputError
from npdl.functions import log_softmax

MODELS = {"GPT": GPT(7, 8, 1, 2, max_len=16, rng=3), "LSTMLM": LSTMLM(7, 8, 1, rng=3)}


def penalised(model, ids, penalty):
    """The log-probabilities after ids, computed from the model's logits of all of them."""
    out, _ = model.forward(np.array([ids]))
    z = (out[0] if isinstance(out, tuple) else out)[0, -1].astype(float)
    for v in set(ids):
        z[v] = z[v] / penalty if z[v] > 0 else z[v] * penalty
    return log_softmax(z[None])[0]


@pytest.mark.parametrize("name", MODELS)
def test_tokens_of_the_prompt_and_new_ones_are_penalised(name):
    model, prompt, penalty = MODELS[name], [1, 4, 2], 1.7
    [found] = greedy(PenalisedRepetition(make_scorer(model, prompt), penalty), 8)
    ids, total = list(prompt), 0
    for token in found.tokens:
        log_probs = penalised(model, ids, penalty)
        assert token == log_probs.argmax()
        total += log_probs[token]
        ids.append(token)
    assert abs(found.log_prob - total) < 1e-5
    [plain] = greedy(make_scorer(model, prompt), 8)
    assert plain.tokens != found.tokens


def test_invalid_penalties_and_scorers():
    with pytest.raises(InputError, match="penalty = 0"):
        PenalisedRepetition(make_scorer(MODELS["GPT"], [1]), 0)
    with pytest.raises(InputError, match="a Tree has none"):
        PenalisedRepetition(Tree({"a": -0.5}), 1.2)

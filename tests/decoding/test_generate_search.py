"""Searches and samples over models: the same alone, in a batch and on the device."""

import numpy as np

from npdl import backend
from npdl.decoding import beam_search, exhaustive_search, greedy, sample
from npdl.decoding.model_scorers import make_scorer
from tests.decoding.test_generate import END, V, every_model
from tests.tools import device


@every_model
def test_prompts_in_a_batch_go_their_own_ways(model):
    prompts = np.random.default_rng(4).integers(0, V, (6, 3))
    together = greedy(make_scorer(model, prompts), 8, END)
    for prompt, found in zip(prompts, together, strict=True):
        (alone,) = greedy(make_scorer(model, prompt), 8, END)
        assert alone.tokens == found.tokens
    drawn = sample(make_scorer(model, prompts), 4, 0, count=2)
    assert len(drawn) == 12


@every_model
def test_generation_on_the_device(model):
    prompt = [1, 2, 3]

    def searches(model):
        scorer = make_scorer(model, prompt)
        return (beam_search(scorer, 3, 6, END).finished, greedy(scorer, 6, END),
                exhaustive_search(scorer, 2).best, sample(scorer, 6, 0, END, count=3))

    wanted = searches(model)
    with device.numpy_as_cupy(), backend.using("cupy"):
        found = searches(model.to_backend())
    assert found == wanted

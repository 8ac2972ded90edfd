"""Decoding, losses, optimizers, ids and errors on CuPy beside NumPy (see test_gpu.py)."""

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_device, to_host
from npdl.decoding import beam_search, exhaustive_search, greedy, sample
from npdl.decoding.continuation import continuation
from npdl.decoding.language_models import Recomputed
from npdl.errors import InputError
from npdl.functions import sum_by_index
from npdl.layers.embedding import Embedding
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, Adam, AdamW, clip_by_global_norm
from npdl.study.check.subjects import randomise
from npdl.train.engine import Batch, PlainEngine, RecordedEngine
from tests.tools import cupy_on_cpu
from tests.tools.device import REASON, needs_cupy, unwaited

pytestmark = needs_cupy
if REASON is not None:                          # hundreds of cases: not one by one
    pytest.skip(str(REASON), allow_module_level=True)
ENGINES = PlainEngine, RecordedEngine
MODELS = {
    "gpt": lambda: GPT(7, 16, 2, 2, max_len=8),
    "gpt, pre-norm, tied": lambda: GPT(7, 16, 2, 2, max_len=8, norm="pre", positions="learned",
                                       tied=True),
    "lstm": lambda: LSTMLM(7, 16),
}


def model_of(name):
    model = MODELS[name]()
    randomise(model, np.random.default_rng(7), 0.3)
    return model


@pytest.mark.parametrize("scorer", [continuation, Recomputed])
@pytest.mark.parametrize("name", MODELS)
def test_every_decoder_finds_what_it_finds_on_numpy(name, scorer):
    model = model_of(name)

    def searches(model):
        one, several = scorer(model, [1, 2, 3]), scorer(model, [[1, 2], [3, 4]])
        return [*greedy(several, 5, 0), *beam_search(one, 3, 5, 0).finished,
                *sample(several, 5, 3, 0, count=2, temperature=1.2, top_k=4, top_p=0.9),
                *exhaustive_search(one, 2, 0).finished]

    wanted = searches(model)
    with backend.using("cupy"):
        found = searches(model.to_backend())
    assert [h.tokens for h in found] == [h.tokens for h in wanted]
    np.testing.assert_allclose([h.log_prob for h in found], [h.log_prob for h in wanted], atol=1e-5)


@pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card does not count waits")
@pytest.mark.parametrize("name", MODELS)
def test_decoding_waits_once_for_each_token(gpu, name):
    def waits(advance):
        with cupy_on_cpu.record() as events:
            found = advance()
        return found, len(events.of_kind("synchronisation"))

    with backend.using("numpy"):
        model = model_of(name)
    scorer = continuation(model.to_backend(), [[1, 2], [3, 4]])
    (rows, state), count = waits(scorer.start)
    assert count == 1
    for step in range(10):                      # past the GPT's max_len, too
        parents = np.array([0, 1, 1]) if step % 2 else np.array([1, 0])
        tokens = rows[parents].argmax(1)
        (rows, state), count = waits(lambda s=state, p=parents, t=tokens: scorer.advance(s, p, t))
        assert count == 1


@pytest.mark.parametrize("make", [
    lambda model: SGD(model, 0.1), lambda model: SGD(model, 0.1, momentum=0.9, weight_decay=0.1),
    lambda model: Adam(model, weight_decay=0.1), lambda model: AdamW(model, weight_decay=0.1),
], ids=["sgd", "sgd, momentum", "adam", "adamw"])
def test_optimizers_and_clipping(make):
    def updates():
        model = MODELS["gpt, pre-norm, tied"]().to_backend()
        for _, param in model.params():
            param.decay = param.data.ndim > 1
        optimizer = make(model)
        norms = []
        for step in range(5):
            for number, param in enumerate(optimizer.params.values()):
                gradient = stream(4, step, number).standard_normal(param.shape)
                param.grad[...] = to_device(gradient.astype("float32"))
            norms.append(clip_by_global_norm(optimizer.params.values(), 20.0 * (step + 1)))
            optimizer.step()
        params = optimizer.params.values()
        arrays = [array for param in params for array in (param.data, param.grad)]
        for moment in optimizer.moments:
            arrays += getattr(optimizer, moment).values()
        return [np.asarray(to_host(array)) for array in (*arrays, *norms)]

    wanted = updates()
    with backend.using("cupy"):
        found = updates()
    for array, expected in zip(found, wanted, strict=True):
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("size", [3, 6, 50_000])
def test_a_look_ups_gradient_needs_no_product_with_the_whole_table(gpu, size, monkeypatch):
    """It is made of products: with pairs of rows where the table is larger."""
    if size > 8:
        monkeypatch.setattr("npdl.functions.one_hot", None)     # (N, size) numbers
    rng = np.random.default_rng(size)
    rows, index = rng.standard_normal((2, 4, 5)), rng.integers(0, min(size, 5), (2, 4))
    wanted = np.zeros((size, 5))
    np.add.at(wanted, index, rows)
    there = to_device(rows), to_device(index)
    with unwaited():
        found = sum_by_index(*there, size)
    np.testing.assert_allclose(to_host(found), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", [7, -1])
def test_ids_and_targets_on_the_host_are_checked_before_they_go_over(gpu, bad):
    with pytest.raises(InputError, match=f"contain {bad}; allowed are 0 to 6"):
        Embedding(7, 4).forward(np.array([1, bad]))
    right, wrong, counted = np.ones((2, 3), int), np.full((2, 3), bad), np.ones((2, 3), bool)
    with backend.using("numpy"):
        models = [model_of("gpt") for _ in ENGINES]
    for engine, model in zip(ENGINES, models, strict=True):
        model = model.to_backend()
        for ids, targets in ((wrong, right), (right, wrong)):
            with pytest.raises(InputError, match=f"contain {bad}; allowed are 0 to "):
                engine(model, AdamW(model)).step(Batch(ids, targets, counted))

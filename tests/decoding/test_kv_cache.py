"""The KV cache: allocated once, enlarged if full, and prompts that are computed in parts."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from npdl.decoding import greedy, language_models
from npdl.decoding.kv_cache import KVCache
from npdl.decoding.language_models import Recomputed
from npdl.decoding.model_scorers import make_scorer
from npdl.models.llama import Llama
from tests.decoding.test_generate import V, assert_same_scores, gpt, llama, lstm


@pytest.mark.parametrize("make", [gpt, llama])
def test_cache_is_allocated_once(make, monkeypatch):
    made = []
    before = KVCache.__init__

    def record_cache(self, *args):
        before(self, *args)
        made.append(self)

    monkeypatch.setattr(KVCache, "__init__", record_cache)
    monkeypatch.setattr(language_models, "ROOM", 10)
    (found,) = greedy(make_scorer(make(), [1, 2, 3]), 10)
    assert len(found.tokens) == 10 and len(made) == 1
    assert made[0].keys.shape[3] == 13 and made[0].filled == 12     # no token follows the last
    made.clear()
    monkeypatch.setattr(language_models, "ROOM", 1)
    again = greedy(make_scorer(make(), [1, 2, 3]), 10)
    assert [kv.keys.shape[3] for kv in made] == [4, 8, 16]  # doubled, up to max_len
    assert again == [found]


@pytest.mark.parametrize("parts", [1, 3, 4])
@pytest.mark.parametrize("make", [gpt, llama])
def test_prompt_in_parts_gives_same_scores(make, parts, monkeypatch):
    monkeypatch.setattr(language_models, "AT_ONCE", parts)
    model, prompt = make(), [[1, 2, 3, 4, 5], [6, 0, 1, 1, 2]]
    assert_same_scores(make_scorer(model, prompt), Recomputed(model, prompt))


@pytest.mark.parametrize("make", [gpt, llama])
def test_a_long_prompt_takes_little_memory(make):
    """The attention weights of all pairs of tokens must not be in memory at once."""
    model, prompt = make(max_len=1024), np.arange(1024) % V
    tracemalloc.start()
    make_scorer(model, prompt).start()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 1024 * 1024 * 4                       # two heads' weights, once


@pytest.mark.parametrize("make", [gpt, lstm, llama])
def test_single_sequence_uses_one_blas_thread(make):
    def blas_threads():
        return [library["num_threads"] for library in threadpool_info()
                if library["user_api"] == "blas"]

    seen, before = [], blas_threads()
    greedy(make_scorer(make(), [1]), 2, on_token=lambda *_: seen.append(blas_threads()))
    greedy(make_scorer(make(), [[1], [2]]), 1, on_token=lambda *_: seen.append(blas_threads()))
    assert [set(each) for each in seen[:2]] == [{1}] * 2 and seen[2] == blas_threads() == before
    greedy(make_scorer(Llama(7, 512, 1, 4, 2, 1024), [1]), 1,
           on_token=lambda *_: seen.append(blas_threads()))
    assert seen[-1] == before                                   # large layers use all threads

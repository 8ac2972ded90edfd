"""How many parameters models have; those of document 004's layers are exercises/d004's claims."""

import io

import pytest

from npdl.core import embedding_names
from npdl.init import BLANK
from npdl.models.gpt import GPT, GPT2
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM


def test_the_defaults_of_document_004():
    assert GPT(36).count_params() == 404_516
    assert LSTMLM(36).count_params() == 272_420


@pytest.mark.parametrize(("model", "count"), [
    (lambda: GPT2(rng=BLANK), 124_439_808),
    (lambda: Llama(49_152, rng=BLANK), 134_515_008),                            # SmolLM2-135M
    (lambda: Llama(151_936, 896, 24, 14, 2, 4864, qkv_bias=True, rng=BLANK), 494_032_768),
], ids=["GPT-2", "SmolLM2-135M", "Qwen2-0.5B"])
def test_real_models_have_as_many_as_they_say(model, count):
    """(Blank matrices are never written, and so take no memory.)"""
    assert model().count_params() == count


def test_embedding_names():
    model = GPT(7, 8, 2, 2, 2, 5, norm="pre", tied=True, positions="learned")
    assert embedding_names(model) == {"embedding.W", "positions.W"}
    assert embedding_names(LSTMLM(7, 6, 2, 8)) == {"embedding.W"}


def test_summary_adds_up():
    model, text = GPT(36), io.StringIO()
    model.summary(file=text)
    lines = text.getvalue().splitlines()
    counts = [int(line.split()[-1].replace(",", "")) for line in lines[1:]]
    assert sum(counts[:-2]) == counts[-2] == 404_516
    assert counts[-1] == 404_516 - 36 * 128
    assert "total" in lines[-2] and "without embeddings" in lines[-1]
    shown = {line.split()[0] for line in lines[1:-2]}
    assert shown == {name for name, _ in model.params()}

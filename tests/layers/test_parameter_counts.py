"""How many parameters models have; those of document 004's layers are exercises/d004's claims."""

import io

import pytest

from exercises.d004.gpt import decoder_formula
from npdl.init import BLANK
from npdl.models.gpt import GPT, GPT2
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("V", "d", "heads", "m", "L"), [(36, 128, 4, 4, 2), (7, 6, 2, 3, 1)])
def test_gpt(V, d, heads, m, L, bias):
    core = decoder_formula(d, m, L, bias) + 4 * d * L + V * d + V
    fixed = GPT(V, d, L, heads, m, 9, bias=bias)
    assert fixed.count_params(embeddings=False) == core
    assert fixed.count_params() == core + V * d
    learned = GPT(V, d, L, heads, m, 9, bias=bias, positions="learned")
    assert learned.count_params(embeddings=False) == core
    assert learned.count_params() == core + V * d + 9 * d


def test_tied_tables_are_counted_once():
    tied = GPT(7, 6, 1, 2, 3, 9, tied=True)
    assert tied.count_params() == decoder_formula(6, 3, 1, True) + 4 * 6 + 7 * 6
    assert tied.count_params(embeddings=False) == decoder_formula(6, 3, 1, True) + 4 * 6


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

"""Document 004's parameter counts (Problems 1.3, 2.6 and 2.10) against real layers."""

import io

import pytest

from npdl.init import BLANK
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.norm import LayerNorm
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Decoder
from npdl.models.gpt import GPT, GPT2
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM

bias_on_and_off = pytest.mark.parametrize("bias", [True, False])


def lstm_count(d_x, d_h, L, bias):
    """Problem 1.3: four gates a layer, each with one matrix over [x, h] and one bias."""
    b = 4 * d_h if bias else 0
    return 4 * (d_x + d_h) * d_h + b + (L - 1) * (8 * d_h**2 + b)


def attention_count(heads, head_size, bias):
    """Problem 2.6."""
    d = heads * head_size
    return 4 * (d * d + (d if bias else 0))


def decoder_count(d, m, L, bias):
    """Problem 2.10. It leaves the LayerNorms out: two a block, with 2 d parameters each."""
    return L * (4 * d * d + (4 * d if bias else 0) + 2 * d * d * m)


@bias_on_and_off
@pytest.mark.parametrize(("V", "d_e", "d_h", "L"), [
    (36, 128, 128, 2), (36, 64, 128, 1), (10, 3, 5, 3), (1, 1, 1, 1), (65, 7, 2, 4)])
def test_lstm(V, d_e, d_h, L, bias):
    core = lstm_count(d_e, d_h, L, bias)
    assert LSTM(d_e, d_h, L, bias=bias).count_params() == core
    model = LSTMLM(V, d_e, L, d_h, bias=bias)
    classifier = V * d_h + (V if bias else 0)
    assert model.count_params() == V * d_e + core + classifier
    assert model.count_params(embeddings=False) == core + classifier


@bias_on_and_off
@pytest.mark.parametrize(("heads", "size"), [(4, 32), (1, 5), (8, 1), (1, 1), (3, 7)])
def test_attention(heads, size, bias):
    layer = MultiHeadAttention(heads * size, heads, bias=bias)
    assert layer.count_params() == attention_count(heads, size, bias)


@bias_on_and_off
@pytest.mark.parametrize(("d", "heads", "m", "L"), [
    (128, 4, 4, 2), (12, 3, 4, 1), (8, 2, 1, 3), (1, 1, 1, 1), (6, 6, 5, 4)])
def test_decoder(d, heads, m, L, bias):
    norms = 4 * d * L
    decoder = Decoder(L, d, heads, m, bias=bias)
    assert decoder.count_params() == decoder_count(d, m, L, bias) + norms
    in_norms = sum(param.data.size for name, param in decoder.params() if ".norm" in name)
    assert in_norms == norms == 2 * L * LayerNorm(d).count_params()
    pre = Decoder(L, d, heads, m, bias=bias, norm="pre")
    assert pre.count_params() == decoder_count(d, m, L, bias) + norms + 2 * d   # the last norm


@bias_on_and_off
@pytest.mark.parametrize(("V", "d", "heads", "m", "L"), [(36, 128, 4, 4, 2), (7, 6, 2, 3, 1)])
def test_gpt(V, d, heads, m, L, bias):
    core = decoder_count(d, m, L, bias) + 4 * d * L + V * d + V
    fixed = GPT(V, d, L, heads, m, 9, bias=bias)
    assert fixed.count_params(embeddings=False) == core
    assert fixed.count_params() == core + V * d
    learned = GPT(V, d, L, heads, m, 9, bias=bias, positions="learned")
    assert learned.count_params(embeddings=False) == core
    assert learned.count_params() == core + V * d + 9 * d


def test_tied_tables_are_counted_once():
    tied = GPT(7, 6, 1, 2, 3, 9, tied=True)
    assert tied.count_params() == decoder_count(6, 3, 1, True) + 4 * 6 + 7 * 6
    assert tied.count_params(embeddings=False) == decoder_count(6, 3, 1, True) + 4 * 6


def test_the_defaults_of_document_004():
    assert GPT(36).count_params() == 404_516
    assert LSTMLM(36).count_params() == 272_420


@pytest.mark.slow
@pytest.mark.parametrize(("make", "count"), [
    (lambda: GPT2(rng=BLANK), 124_439_808),
    (lambda: Llama(49_152, rng=BLANK), 134_515_008),                    # SmolLM2-135M
    (lambda: Llama(128_256, 2048, 16, 32, 8, 8192, rng=BLANK), 1_235_814_400),  # Llama 3.2 1B
    (lambda: Llama(151_936, 896, 24, 14, 2, 4864, qkv_bias=True, rng=BLANK), 494_032_768),
], ids=["GPT-2", "SmolLM2-135M", "Llama-3.2-1B", "Qwen2-0.5B"])
def test_real_models_have_as_many_as_they_say(make, count):
    """Their matrices are never written here, and so take no memory."""
    assert make().count_params() == count


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

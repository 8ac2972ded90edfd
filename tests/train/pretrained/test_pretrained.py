"""Reading model folders and GGUF files, and writing model folders."""

import json
import mmap
import shutil

import numpy as np
import pytest

from npdl import safetensors
from npdl.adapt import add_lora, merge_lora, quantize_linears
from npdl.adapt.linears import QuantLinear
from npdl.core import named_layers
from npdl.errors import InputError
from npdl.layers.dropout import Dropout
from npdl.train.pretrained import hash_model, load, to_huggingface
from tests.train.pretrained import model_folders
from tests.train.pretrained.model_folders import KINDS, write_model_folder

every_kind = pytest.mark.parametrize("kind", KINDS)
IDS = np.random.default_rng(1).integers(0, 320, (2, 9))


def assert_same_model(model, other):
    wanted = model.state_dict()
    assert wanted.keys() == other.state_dict().keys()
    for name, array in other.state_dict().items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)


@every_kind
def test_written_folder_loads_as_same_model(tmp_path, kind):
    made = write_model_folder(tmp_path / "a", KINDS[kind], tokenizer=False)
    found = load(tmp_path / "a")
    assert_same_model(made.model, found.model)
    assert not list(found.model.params())                       # frozen
    assert_same_model(made.model.astype("float64"), load(tmp_path / "a", "float64").model)
    to_huggingface(found, tmp_path / "b")
    assert_same_model(made.model, load(tmp_path / "b").model)
    assert hash_model(tmp_path / "a") == hash_model(tmp_path / "b")


def test_float16_loads_as_float32(tmp_path):
    write_model_folder(tmp_path / "a", tokenizer=False)
    halves = {n: a.astype("f2") for n, a in model_folders.read_model_arrays(tmp_path / "a").items()}
    safetensors.write(tmp_path / "a" / "model.safetensors", halves)
    W = load(tmp_path / "a").model.embedding.W.data
    np.testing.assert_array_equal(W, halves["model.embed_tokens.weight"].astype("f4"))
    assert W.dtype == "f4"


def test_shards_unprefixed_names_and_buffers_load(tmp_path):
    made = write_model_folder(tmp_path / "a", KINDS["gpt2"], tokenizer=False)
    arrays = {name.removeprefix("transformer."): array
              for name, array in model_folders.read_model_arrays(tmp_path / "a").items()}
    arrays["h.0.attn.bias"] = np.ones((1, 1, 64, 64), "u1")
    (tmp_path / "a" / "model.safetensors").unlink()
    names, last = list(arrays), tmp_path / "a" / "model-00002-of-00002.safetensors"
    for part, path in ((names[:7], last.with_stem("model-00001-of-00002")), (names[7:], last)):
        safetensors.write(path, {name: arrays[name] for name in part})
    assert_same_model(made.model, load(tmp_path / "a").model)
    last.unlink()
    with pytest.raises(InputError, match="is not in the files; download them again"):
        load(tmp_path / "a")


def test_float32_arrays_are_memory_mapped(tmp_path):
    write_model_folder(tmp_path / "a", tokenizer=False)
    before = hash_model(tmp_path / "a")
    model = load(tmp_path / "a").model
    for name, param in model.params(with_frozen=True):
        base = param.data
        while isinstance(getattr(base, "base", None), np.ndarray):
            base = base.base
        assert isinstance(memoryview(base.base).obj, mmap.mmap), name
    model.set_trainable(True)
    for _, param in model.params():
        param.data[...] = 0                                 # this process's own pages
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert hash_model(tmp_path / "b") == before


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "llama untied"])
def test_quantizing_while_or_after_loading_is_the_same(tmp_path, kind):
    write_model_folder(tmp_path / "a", KINDS[kind], tokenizer=False)
    whole = load(tmp_path / "a").model
    names = quantize_linears(whole, 4, rounding="nearest", block=8)
    found = load(tmp_path / "a", bits=4, block=8, rounding="nearest")
    assert_same_model(whole, found.model)
    assert isinstance(found.model.classifier, QuantLinear) == ("classifier" in names)
    np.testing.assert_array_equal(found.model.forward(IDS)[0], whole.forward(IDS)[0])
    to_huggingface(found, tmp_path / "b")                   # floats again
    plain = load(tmp_path / "b").model.forward(IDS)[0]
    assert abs(plain - whole.forward(IDS)[0]).max() < 1e-4


def test_writing_merged_adapters_leaves_model_unchanged(tmp_path):
    found = model_folders.make_random_model(KINDS["llama"])
    add_lora(found.model, rank=2, where="W_Q")
    found.model.blocks[0].attention.W_Q.B.data[...] = 1
    before = found.model.state_dict()
    found.path = tmp_path                                   # no tokenizer there
    to_huggingface(found, tmp_path / "b")
    assert before.keys() == found.model.state_dict().keys()
    merge_lora(found.model)
    assert_same_model(found.model, load(tmp_path / "b").model)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "stored"), [
    ("llama", "F32"), ("llama untied", "F16"), ("qwen2", "Q8_0"), ("llama", "Q4_1"),
    ("qwen2", "BF16")])
def test_a_gguf_file_is_the_same_model(tmp_path, kind, stored):
    pytest.importorskip("gguf", reason="reads GGUF files")
    pytest.importorskip("tokenizers", reason="GGUF files hold a tokenizer")
    values = {name: value for name, value in KINDS[kind].items() if name != "head_dim"}
    made = write_model_folder(tmp_path / "a", values)
    model_folders.write_gguf(tmp_path / "a.gguf", tmp_path / "a", stored)
    found, folder = load(tmp_path / "a.gguf"), load(tmp_path / "a")
    limit = {"F32": 0, "F16": 2e-3, "BF16": 2e-2, "Q8_0": 2e-2, "Q4_1": 0.2}[stored]
    wanted = made.model.state_dict()
    for name, array in found.model.state_dict().items():
        assert abs(array - wanted[name]).max() <= limit, name
    text = "The lazy fox: 日本 12"
    np.testing.assert_array_equal(found.tokenizer.encode(text), folder.tokenizer.encode(text))
    hi = folder.tokenizer.encode_chat("hi")
    np.testing.assert_array_equal(found.tokenizer.encode_chat("hi"), hi)
    assert found.tokenizer.ends == folder.tokenizer.ends == (0,)
    to_huggingface(found, tmp_path / "b")
    back = load(tmp_path / "b")
    assert_same_model(found.model, back.model)
    np.testing.assert_array_equal(back.tokenizer.encode_chat("hi"), hi)


def test_a_gguf_file_of_llama_3_2_has_its_scaled_frequencies(tmp_path):
    pytest.importorskip("gguf", reason="reads GGUF files")
    pytest.importorskip("tokenizers", reason="GGUF files hold a tokenizer")
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    values = KINDS["llama"] | {"rope_theta": 500000.0, "hidden_size": 64, "rope_scaling": scaling,
                               "num_key_value_heads": 4}
    made = write_model_folder(tmp_path / "a", values)
    f = 500000.0 ** -(np.arange(8) / 8)
    s = np.clip((8192 * f / (2 * np.pi) - 1) / 3, 0, 1)
    divisors = 1 / ((1 - s) / 32 + s)
    assert 1 == divisors[0] < divisors[4] < divisors[-1] == 32
    model_folders.write_gguf(tmp_path / "a.gguf", tmp_path / "a", divisors=divisors)
    found, ids = load(tmp_path / "a.gguf"), np.arange(40)[None]
    np.testing.assert_allclose(found.model.forward(ids)[0], made.model.forward(ids)[0], atol=1e-5)
    to_huggingface(found, tmp_path / "b")
    assert json.loads((tmp_path / "b" / "config.json").read_text())["rope_scaling"] == scaling
    model_folders.write_gguf(tmp_path / "odd.gguf", tmp_path / "a", divisors=divisors + (f < 1e-4))
    with pytest.raises(InputError, match="in another way than Llama 3"):
        load(tmp_path / "odd.gguf")


def test_gpt2_trains_with_the_dropout_rates_of_its_config(tmp_path):
    write_model_folder(tmp_path / "a", KINDS["gpt2"] | {"embd_pdrop": 0.3, "resid_pdrop": 0.2},
                       tokenizer=False)
    model = load(tmp_path / "a").model
    rates = {name: layer.rate for name, layer in named_layers(model) if isinstance(layer, Dropout)}
    assert rates.pop("dropout") == 0.3
    assert {name: rate for name, rate in rates.items() if "attention" in name} == {
        f"decoder.blocks.{i}.attention.dropout": 0.1 for i in range(2)}
    assert set(rates.values()) == {0.1, 0.2}


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_tied_weights_saved_as_lm_head_load(kind, tmp_path):
    found = write_model_folder(tmp_path / "model", KINDS[kind], tokenizer=False)
    name = found.architecture.prefix + found.architecture.embedding
    model_folders.rewrite_arrays(tmp_path / "model", lambda arrays: arrays.update(
        {"lm_head.weight": arrays.pop(name)}))
    ids = np.arange(5)[None]
    np.testing.assert_allclose(load(tmp_path / "model").model.forward(ids)[0],
                               found.model.forward(ids)[0], atol=1e-5)

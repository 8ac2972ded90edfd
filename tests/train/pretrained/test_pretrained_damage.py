"""Damaged, hostile and unsupported model folders: one clear line, status 2, and no memory."""

import json
import os
import struct
import sys
import tracemalloc

import numpy as np
import pytest

from npdl import safetensors
from npdl.cli.console import print_text
from npdl.errors import InputError
from npdl.train.pretrained import load
from tests.tools import commands
from tests.tools.refusals import status_of
from tests.train.pretrained.model_folders import (
    GPT2,
    KINDS,
    LLAMA,
    TEXT,
    arrays_of,
    rewrite,
    settings,
    write_folder,
    write_gguf,
)

pytest.importorskip("tokenizers", reason="what a folder is generated from")

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
Q = "model.layers.0.self_attn.q_proj.weight"


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


def without(name):
    return lambda folder: (folder / name).unlink()


def setting(**changes):
    return lambda folder: settings(folder, **changes)


def tokenizer(**changes):
    def damage(folder):
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return damage


def array(name, change):
    def damage(folder):
        def changed(arrays):
            arrays[name] = change(arrays.get(name))

        rewrite(folder, changed)
    return damage


def drop(name):
    return lambda folder: rewrite(folder, lambda arrays: arrays.pop(name) is None)


def holed(value):
    def change(W):
        W[3, 3] = value
        return W
    return change


def cut(count, name=WEIGHTS):
    return lambda folder: os.truncate(folder / name, count)


def shards(*names, map_=None):
    """An index with these shards, of which none is there."""
    def damage(folder):
        (folder / WEIGHTS).unlink()
        found = {f"w{i}": name for i, name in enumerate(names)} if map_ is None else map_
        (folder / INDEX).write_text(json.dumps({"weight_map": found}))
    return damage


def pickled(folder):
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")


BAD = [
    ("config.json gone", without("config.json"), "config.json is missing"),
    ("config.json a list", text("config.json", "[1]"), "not a JSON object"),
    ("config.json deep", text("config.json", "[" * 10**5), "nested too deeply"),
    ("another model", setting(model_type="bert"), "model_type is 'bert'; npdl has gpt2"),
    ("a million layers", setting(num_hidden_layers=10**6), "needs 1,000,000 layers, but the files"),
    ("twenty layers", setting(num_hidden_layers=20), "layers.2.input_layernorm.weight is not in"),
    ("a wide model", setting(hidden_size=2**23), "has shape (320, 32) in the files; the settings"),
    ("heads", setting(num_attention_heads=3), "does not divide"),
    ("odd heads", setting(head_dim=7), "head_dim is '7'; supported: an even"),
    ("eps", setting(rms_norm_eps=-1), "rms_norm_eps is '-1'"),
    ("tied maybe", setting(tie_word_embeddings="yes"), "tie_word_embeddings is 'yes'"),
    ("activation", setting(hidden_act="gelu"), "hidden_act is 'gelu'; supported: silu"),
    ("a scaling without its factor", setting(rope_scaling={"type": "linear"}), "factor is missing"),
    ("scaled turns, the new way", setting(rope_parameters={"rope_type": "yarn"}), "'yarn'"),
    ("part of a turn", setting(partial_rotary_factor=0.5), "partial_rotary_factor"),
    ("a window", setting(model_type="mistral", sliding_window=16), "sliding_window is '16'"),
    ("biases", setting(attention_bias=True), "attention_bias is 'True'; supported: False"),
    ("quantized elsewhere", setting(quantization_config={"bits": 4}), "quantization_config"),
    ("no numbers", without(WEIGHTS), f"holds no {WEIGHTS} and no {INDEX}"),
    ("a pickle", pickled, "a pickle, which can execute code"),
    ("a shard gone", shards("model-1.safetensors"), "model-1.safetensors is missing, although"),
    ("a shard above", shards("../model.safetensors"), "names '../model.safetensors', which is not"),
    ("an index of nothing", shards(), "has no weight_map"),
    ("cut in its numbers", cut(20_000), "cut short"),
    ("a header of 2^60", lambda folder: (folder / WEIGHTS).write_bytes(
        (2**60).to_bytes(8, "little") + b"{}"), "its header alone has"),
    ("integers", array(Q, lambda W: np.ones(W.shape, "i8")), "is I64; npdl reads"),
    ("NaN", array(Q, holed(np.nan)), "self_attn.q_proj.weight holds NaN or infinity"),
    ("a shape", array(Q, lambda W: W[:, :-1]), "q_proj.weight has shape (32, 31) in the files"),
    ("one parameter twice", array("embed_tokens.weight", lambda _: np.ones((320, 32))),
     "are the same parameter; remove one"),
    ("an array more", array("model.layers.0.self_attn.q_norm.weight", lambda _: np.ones(4)),
     "q_norm.weight is an array that npdl's llama does not have"),
    ("no tokenizer", without("tokenizer.json"), "holds no tokenizer.json"),
    ("a tokenizer of text", text("tokenizer.json", "hello"), "its tokenizer cannot be used"),
    ("a template that runs", text("chat_template.jinja", "{{ ''.__class__.__mro__ }}"),
     "the chat template fails"),
    ("a frame without its token", tokenizer(post_processor={
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
        "pair": [], "special_tokens": {}}), "tokenizer"),
    ("a template without end", text("chat_template.jinja",
                                    "{% for i in range(10**10) %}x{% endfor %}"), "Range too big"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "llama"
    write_folder(folder, LLAMA)
    return folder


@pytest.fixture
def folder(tmp_path, whole):
    for path in whole.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def refused(path, mentioned, capsys, *more):
    tracemalloc.start()
    status = status_of(commands.generate, [str(path), "hello", "--tokens", "2", *more])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    shown = capsys.readouterr()
    assert status == 2 and not shown.out, shown
    assert len(shown.err.splitlines()) == 1 and mentioned in shown.err, shown.err
    assert peak < 16 << 20


def test_the_whole_folder_is_fine(folder, capsys):
    for more in ((), ("--chat",)):
        assert commands.generate([str(folder), "hello", "--tokens", "2", *more]) == 0
        assert "2 tokens: the first after" in capsys.readouterr().err


def test_half_a_character_in_a_template_is_one_sign(folder, capsys):
    text("tokenizer_config.json", '{"chat_template": "\\ud800"}')(folder)
    assert commands.generate([str(folder), "hello", "--tokens", "2", "--chat"]) == 0
    assert "2 tokens" in capsys.readouterr().err


def test_a_terminal_is_told_nothing_but_text(capsys, monkeypatch):
    """A file gets the text as it is."""
    said = "a\x1b]0;title\x07\x1b[2J\tb\u202e\x9b3J 日本\u3000語\n"
    print_text(said)
    assert capsys.readouterr().out == said + "\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_text(said)
    assert capsys.readouterr().out == (
        "a\\x1b]0;title\\x07\\x1b[2J\tb\\u202e\\x9b3J 日本\u3000語\n\n")


@pytest.mark.parametrize("damage, mentioned", [pytest.param(*bad, id=what) for what, *bad in BAD])
def test_a_damaged_or_unsupported_folder_is_one_line(folder, capsys, damage, mentioned):
    damage(folder)
    refused(folder, mentioned, capsys, *(("--chat",) if "template" in mentioned or "Range" in
                                         mentioned or "characters" in mentioned else ()))


@pytest.mark.parametrize("change, mentioned", [
    ({"activation_function": "tanhshrink"}, "activation_function is 'tanhshrink'"),
    ({"activation_function": ["x"]}, "activation_function is"),
    ({"n_inner": 17}, "n_embd 16 does not divide n_inner 17"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ({"add_cross_attention": True}, "add_cross_attention"), ({"n_head": 3}, "does not divide"),
])
def test_a_gpt2_that_npdl_has_not(tmp_path, capsys, change, mentioned):
    write_folder(tmp_path / "a", GPT2)
    settings(tmp_path / "a", **change)
    refused(tmp_path / "a", mentioned, capsys)


def test_a_window_that_is_not_used_is_fine(tmp_path, capsys):
    write_folder(tmp_path / "a", KINDS["qwen2"])
    assert commands.generate([str(tmp_path / "a"), "hello", "--tokens", "2"]) == 0
    settings(tmp_path / "a", use_sliding_window=True)
    capsys.readouterr()
    refused(tmp_path / "a", "sliding_window is '32'", capsys)


def test_more_than_this_machine_holds(folder, capsys, monkeypatch):
    monkeypatch.setattr("npdl.train.pretrained.folder.total_memory", lambda: 1000)
    refused(folder, "this machine has 0; use a smaller model", capsys)


def test_tokens_that_the_model_has_not(folder, capsys):
    def smaller(arrays):
        arrays["model.embed_tokens.weight"] = arrays["model.embed_tokens.weight"][:300]

    rewrite(folder, smaller)
    settings(folder, vocab_size=300)
    found = load(folder, tokenizer=True).tokenizer
    assert found.rules.get_vocab_size() > 300 and len(found.encode("the")) == 2
    with pytest.raises(InputError, match="which the model doesn't have: its embedding matrix has"):
        found.encode(TEXT)


@pytest.mark.parametrize("name, package", [("tokenizers", "tokenizers"), ("gguf", "gguf"),
                                           ("jinja2", "jinja2")])
def test_without_a_package_it_says_what_to_install(folder, capsys, monkeypatch, name, package):
    path = folder
    if name == "gguf":
        pytest.importorskip("gguf", reason="writes the file")
        path = folder / "a.gguf"
        write_gguf(path, folder)
    monkeypatch.setitem(sys.modules, name, None)
    refused(path, f"install it with 'pip install {package}'", capsys, "--chat")


@pytest.fixture
def gguf_file(folder):
    pytest.importorskip("gguf", reason="reads GGUF files")
    write_gguf(folder / "a.gguf", folder)
    return folder / "a.gguf"


def with_bytes(find, replace):
    def damage(path):
        content = path.read_bytes()
        assert find in content
        path.write_bytes(content.replace(find, replace, 1))
    return damage


def length(name):
    """The name as GGUF writes it: its length first."""
    return len(name).to_bytes(8, "little") + name


NORM = length(b"output_norm.weight")
BAD_GGUF = [
    ("begins otherwise", with_bytes(b"GGUF", b"GGML"), "does not begin with GGUF"),
    ("version", lambda path: path.write_bytes(b"GGUF\1\0\0\0" + path.read_bytes()[8:]),
     "version is 1; supported: 2, 3"),
    ("cut in its numbers", lambda path: os.truncate(path, path.stat().st_size - 100_000),
     "cut short"),
    ("2^60 arrays", lambda path: path.write_bytes(
        path.read_bytes()[:8] + (2**60).to_bytes(8, "little") + path.read_bytes()[16:]),
     "cannot be read as GGUF"),
    ("2^22 numbers in a list", lambda path: path.write_bytes(
        path.read_bytes()[:16] + (1).to_bytes(8, "little") + length(b"x") + struct.pack(
            "<IIQ", 9, 0, 2**22) + bytes(2**22)), "4,194,304 items in a list"),
    ("a name of 2^60 bytes", with_bytes(length(b"general.architecture"),
                                        (2**60).to_bytes(8, "little") + b"general.architecture"),
     "longer than the file"),
    ("another model", with_bytes(length(b"llama"), length(b"llamo")), "architecture is 'llamo'"),
    ("another tokenizer", with_bytes(length(b"gpt-2"), length(b"gpt-9")),
     "model 'gpt2' and pre-tokenizer 'gpt-9'"),
    ("an unknown array", with_bytes(length(b"blk.0.ffn_up.weight"), length(b"blk.0.ffn_op.weight")),
     "is not in the files"),
    ("99 axes", with_bytes(NORM + b"\1\0\0\0", NORM + b"\x63\0\0\0"), "99 axes"),
    ("a type of the future", with_bytes(
        NORM + b"\1\0\0\0" + (32).to_bytes(8, "little") + bytes(4),
        NORM + b"\1\0\0\0" + (32).to_bytes(8, "little") + b"\xff\0\0\0"), "255"),
]


@pytest.mark.parametrize("damage, mentioned", [bad[1:] for bad in BAD_GGUF],
                         ids=[b[0] for b in BAD_GGUF])
def test_a_damaged_gguf_file_is_one_line(gguf_file, capsys, damage, mentioned):
    damage(gguf_file)
    refused(gguf_file, mentioned, capsys)


def test_no_folder_at_all(tmp_path, capsys):
    refused(tmp_path / "nowhere", "there is no such folder or file", capsys)
    refused(tmp_path / "nowhere.gguf", "there is no such folder or file", capsys)
    write_folder(tmp_path / "a", LLAMA)
    (tmp_path / "a" / WEIGHTS).unlink()
    os.mkfifo(tmp_path / "a" / WEIGHTS)                     # opening it waits for ever
    refused(tmp_path / "a", WEIGHTS, capsys)


def test_damage_that_comes_while_it_is_read(folder):
    file = safetensors.SafetensorsFile(folder / WEIGHTS)
    arrays_of(folder)
    os.truncate(folder / WEIGHTS, 30_000)
    with pytest.raises(Exception, match="cut short while it was read"):
        for name in file.entries:
            file.read(name)

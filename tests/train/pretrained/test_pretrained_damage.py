"""Damaged, hostile and unsupported model folders give one line and status 2, and fill no memory."""

import json
import os
import struct
import sys
import tracemalloc

import numpy as np
import pytest

from npdl import safetensors
from npdl.cli.console import print_generated_text
from npdl.errors import InputError
from npdl.train.pretrained import load
from tests.tools import commands
from tests.tools.refusals import run_and_get_status
from tests.train.pretrained import model_folders

pytest.importorskip("tokenizers", reason="what a folder is generated from")

WEIGHTS = "model.safetensors"
Q = "model.layers.0.self_attn.q_proj.weight"


def make_writer(name, content):
    return lambda folder: (folder / name).write_text(content)


def make_deleter(name):
    return lambda folder: (folder / name).unlink()


def make_setter(**changes):
    return lambda folder: model_folders.change_settings(folder, **changes)


def make_array_changer(change, name=Q):
    return lambda folder: model_folders.rewrite_arrays(
        folder, lambda arrays: arrays.update({name: change(arrays.get(name))}))


FRAME = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
         "pair": [], "special_tokens": {}}


def add_unknown_post_processor(folder):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": FRAME}))


BAD = {                             # {what the line mentions: the damage}
    "config.json is missing": make_deleter("config.json"),
    "not a JSON object": make_writer("config.json", "[1]"),
    "nested too deeply": make_writer("config.json", "[" * 10**5),
    "model_type is 'bert'; npdl has gpt2": make_setter(model_type="bert"),
    "layers.2.input_layernorm.weight is not in": make_setter(num_hidden_layers=10**6),
    "has shape (320, 32) in the files; the settings": make_setter(hidden_size=2**23),
    "files; the settings need (30, 32)": make_setter(num_attention_heads=3),
    "head_dim is '0'; supported": make_setter(num_attention_heads=64),
    "hidden_size is '16777216'; supported: an integer": make_setter(hidden_size=2**24),
    "rms_norm_eps is '-1'": make_setter(rms_norm_eps=-1),
    "tie_word_embeddings is 'yes'": make_setter(tie_word_embeddings="yes"),
    "tie_word_embeddings is missing; supported: true": make_setter(tie_word_embeddings=None),
    "hidden_act is 'gelu'; supported: silu": make_setter(hidden_act="gelu"),
    "factor is missing": make_setter(rope_scaling={"type": "linear"}),
    "'yarn'": make_setter(rope_parameters={"rope_type": "yarn"}),
    "partial_rotary_factor": make_setter(partial_rotary_factor=0.5),
    "sliding_window is '16'": make_setter(model_type="mistral", sliding_window=16),
    "attention_bias is 'True'; supported: False": make_setter(attention_bias=True),
    "quantization_config": make_setter(quantization_config={"bits": 4}),
    f"holds no {WEIGHTS} and no model-*-of-*": make_deleter(WEIGHTS),
    "a pickle, which can execute code":
        lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
    "is cut short": lambda folder: os.truncate(folder / WEIGHTS, 20_000),
    "has the dtype I64; npdl reads": make_array_changer(lambda W: np.ones(W.shape, "i8")),
    "self_attn.q_proj.weight holds NaN or infinity":
        make_array_changer(lambda W: np.where(W == W[3, 3], np.nan, W)),
    "q_proj.weight has shape (32, 31) in the files": make_array_changer(lambda W: W[:, :-1]),
    "are the same parameter; remove one":
        make_array_changer(lambda _: np.ones((320, 32)), "embed_tokens.weight"),
    "q_norm.weight is an array that npdl's llama does not have":
        make_array_changer(lambda _: np.ones(4), "model.layers.0.self_attn.q_norm.weight"),
    "holds no tokenizer.json": make_deleter("tokenizer.json"),
    "cannot be used": make_writer("tokenizer.json", "hello"),
    "tokenizer": add_unknown_post_processor,
    "the chat template fails": make_writer("chat_template.jinja", "{{ ''.__class__.__mro__ }}"),
    "fails (Range too big":
        make_writer("chat_template.jinja", "{% for i in range(10**10) %}x{% endfor %}"),
}


@pytest.fixture(scope="module")
def intact_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "llama"
    model_folders.write_model_folder(folder, model_folders.LLAMA)
    return folder


@pytest.fixture
def folder(tmp_path, intact_folder):
    for path in intact_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def assert_refused(path, mentioned, capsys, *more):
    tracemalloc.start()
    status = run_and_get_status(commands.generate, [str(path), "hello", "--tokens", "2", *more])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    shown = capsys.readouterr()
    assert status == 2 and not shown.out, shown
    assert len(shown.err.splitlines()) == 1 and mentioned in shown.err, shown.err
    assert peak < 16 << 20


def test_intact_folder_generates(folder, capsys):
    """A lone surrogate in its template is replaced."""
    make_writer("tokenizer_config.json", '{"chat_template": "\\ud800"}')(folder)
    for more in ((), ("--chat",)):
        assert commands.generate([str(folder), "hello", "--tokens", "2", *more]) == 0
        assert "2 tokens: the first after" in capsys.readouterr().err


def test_terminal_gets_no_control_characters(capsys, monkeypatch):
    """A file gets the text as it is."""
    said = "a\x1b]0;title\x07\x1b[2J\tb\u202e\x9b3J 日本\u3000語\n"
    print_generated_text(said)
    assert capsys.readouterr().out == said + "\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_generated_text(said)
    assert capsys.readouterr().out == (
        "a\\x1b]0;title\\x07\\x1b[2J\tb\\u202e\\x9b3J 日本\u3000語\n\n")


@pytest.mark.parametrize("mentioned", BAD)
def test_a_damaged_or_unsupported_folder_gives_one_error_line(folder, capsys, mentioned):
    BAD[mentioned](folder)
    assert_refused(folder, mentioned, capsys, *(["--chat"] if "fails" in mentioned else []))


@pytest.mark.parametrize("change, mentioned", [
    ({"activation_function": "tanhshrink"}, "activation_function is 'tanhshrink'"),
    ({"activation_function": ["x"]}, "activation_function is"),
    ({"n_inner": 17}, "n_inner is '17'; supported: multiples of n_embd 16"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ({"add_cross_attention": True}, "add_cross_attention"),
    ({"n_head": 3}, "num_heads = 3 does not divide d_model = 16"),
])
def test_unsupported_gpt2_is_refused(tmp_path, capsys, change, mentioned):
    model_folders.write_model_folder(tmp_path / "a", model_folders.GPT2)
    model_folders.change_settings(tmp_path / "a", **change)
    assert_refused(tmp_path / "a", mentioned, capsys)


def test_unused_sliding_window_is_allowed(tmp_path, capsys):
    model_folders.write_model_folder(tmp_path / "a", model_folders.KINDS["qwen2"])
    assert commands.generate([str(tmp_path / "a"), "hello", "--tokens", "2"]) == 0
    model_folders.change_settings(tmp_path / "a", use_sliding_window=True)
    capsys.readouterr()
    assert_refused(tmp_path / "a", "sliding_window is '32'", capsys)


def test_model_larger_than_memory_is_refused(folder, capsys, monkeypatch):
    monkeypatch.setattr("npdl.train.pretrained.folder.total_memory_bytes", lambda: 1000)
    assert_refused(folder, "this machine has 0; use a smaller model", capsys)


def test_tokens_outside_vocabulary_are_refused(folder, capsys):
    def shrink_embedding(arrays):
        arrays["model.embed_tokens.weight"] = arrays["model.embed_tokens.weight"][:300]

    model_folders.rewrite_arrays(folder, shrink_embedding)
    model_folders.change_settings(folder, vocab_size=300)
    found = load(folder, tokenizer=True).tokenizer
    assert found.rules.get_vocab_size() > 300 and len(found.encode("the")) == 2
    with pytest.raises(InputError, match="which the model doesn't have: its embedding matrix has"):
        found.encode(model_folders.TEXT)


@pytest.fixture
def gguf_file(folder):
    pytest.importorskip("gguf", reason="reads GGUF files")
    model_folders.write_gguf(folder / "a.gguf", folder)
    return folder / "a.gguf"


@pytest.mark.parametrize("name", ["tokenizers", "gguf", "jinja2"])
def test_missing_package_message_says_what_to_install(folder, capsys, monkeypatch, request, name):
    path = request.getfixturevalue("gguf_file") if name == "gguf" else folder
    monkeypatch.setitem(sys.modules, name, None)
    assert_refused(path, f"install it with 'pip install {name}'", capsys, "--chat")


def make_bytes_replacer(find, replace):
    def damage(path):
        content = path.read_bytes()
        assert find in content
        path.write_bytes(content.replace(find, replace, 1))
    return damage


def gguf_bytes(name):
    """The name as GGUF writes it: its length first."""
    return len(name).to_bytes(8, "little") + name


def make_header_replacer(start, replace):
    """Replace the bytes of the header from `start`."""
    return lambda path: path.write_bytes(
        path.read_bytes()[:start] + replace + path.read_bytes()[start + len(replace):])


NORM, LONG = gguf_bytes(b"output_norm.weight"), (2**60).to_bytes(8, "little")
BAD_GGUF = {
    "does not begin with GGUF": make_header_replacer(0, b"GGML"),
    "version 1 of GGUF; supported: 2, 3": make_header_replacer(4, b"\1"),
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 100_000),
    "arrays, more than": make_header_replacer(8, LONG),
    "settings, more than": make_header_replacer(16, LONG),
    "4,194,304 items in a list": lambda path: path.write_bytes(
        path.read_bytes()[:16] + (1).to_bytes(8, "little") + gguf_bytes(b"x") + struct.pack(
            "<IIQ", 9, 0, 2**22) + bytes(2**22)),
    "longer than the file": make_bytes_replacer(gguf_bytes(b"general.architecture"),
                                                LONG + b"general.architecture"),
    "unknown type 99": make_bytes_replacer(b"llama.context_length\4", b"llama.context_length\x63"),
    "llama.residual_scale is '64'; supported: 1.0":
        make_bytes_replacer(b"llama.context_length", b"llama.residual_scale"),
    "architecture is 'llamo'": make_bytes_replacer(gguf_bytes(b"llama"), gguf_bytes(b"llamo")),
    "'gpt2' with pre-tokenizer 'gpt-9'":
        make_bytes_replacer(gguf_bytes(b"gpt-2"), gguf_bytes(b"gpt-9")),
    "is not in the files":
        make_bytes_replacer(gguf_bytes(b"blk.0.ffn_up.weight"), gguf_bytes(b"blk.0.ffn_op.weight")),
    "layer_norm_rms_epsilon is missing": make_bytes_replacer(b"rms_epsilon", b"rms_epsilom"),
    "99 axes": make_bytes_replacer(NORM + b"\1\0\0\0", NORM + b"\x63\0\0\0"),
    "255": make_bytes_replacer(NORM + b"\1\0\0\0" + (32).to_bytes(8, "little") + bytes(4),
                               NORM + b"\1\0\0\0" + (32).to_bytes(8, "little") + b"\xff\0\0\0"),
}


@pytest.mark.parametrize("mentioned", BAD_GGUF)
def test_a_damaged_gguf_file_gives_one_error_line(gguf_file, capsys, mentioned):
    BAD_GGUF[mentioned](gguf_file)
    assert_refused(gguf_file, mentioned, capsys)


def test_missing_folder_is_refused(tmp_path, capsys):
    assert_refused(tmp_path / "nowhere", "there is no such folder or file", capsys)
    assert_refused(tmp_path / "nowhere.gguf", "there is no such folder or file", capsys)
    model_folders.write_model_folder(tmp_path / "a", model_folders.LLAMA)
    (tmp_path / "a" / WEIGHTS).unlink()
    os.mkfifo(tmp_path / "a" / WEIGHTS)                     # opening it waits for ever
    assert_refused(tmp_path / "a", WEIGHTS, capsys)


def test_file_damaged_during_reading_is_refused(folder):
    file = safetensors.SafetensorsFile(folder / WEIGHTS)
    os.truncate(folder / WEIGHTS, 30_000)
    with pytest.raises(Exception, match="cut short while it was read"):
        for name in file.entries:
            file.read(name)

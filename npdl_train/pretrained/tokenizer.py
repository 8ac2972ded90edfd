"""The tokenizer of a model folder, by the library `tokenizers`; its chat template, by jinja2."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from npdl.errors import InputError
from npdl.files import is_file, read_json, reason, write_json
from npdl_train.bounded import Bounded

TOKENIZER, SETTINGS, GENERATION = ("tokenizer.json", "tokenizer_config.json",
                                   "generation_config.json")
VOCABULARY, MERGES, TEMPLATE = "vocab.json", "merges.txt", "chat_template.jinja"
SPECIAL, ADDED = "special_tokens_map.json", "added_tokens.json"
FILES = (TOKENIZER, SETTINGS, GENERATION, VOCABULARY, MERGES, TEMPLATE, SPECIAL, ADDED,
         "tokenizer.model")
# The special tokens that a chat template may name.
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LARGEST = 256 << 20         # bytes of a tokenizer's file
# Bounds of its rules: at least so much time and memory, and more by the characters of a text.
SECONDS, MEMORY, A_SECOND, EACH = 30.0, 2 << 30, 50_000, 400
# How a text is cut before its pieces are merged, by the name that a GGUF file gives it.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CUTS = {"gpt-2": None, "smollm": None, "llama-bpe": LLAMA3,
        "qwen2": LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")}
CONTROL, USER_DEFINED = 3, 4    # kinds of tokens in a GGUF file
REPLACEMENT = "\ufffd"          # for bytes that are no whole character yet


class Tokenizer:
    """Text to ids and back, by the rules of a `source`, (a kind, what it is made of), which another
    process reads and follows (npdl_train.tokenizer_rules); `name` says whose they are.

    size      how many tokens it has
    added     tokens beyond those of the source, [(id or None, text, whether it is special)]
    limit     how many tokens the model has; the tokenizer may have more
    ends      ids that end a text; several for some models
    template  the chat template's source, or None
    special   {"bos_token": text, "eos_token": text, ..}, for the template
    """

    limit = None

    def __init__(self, name, source, ends=(), template=None, special=None, added=()):
        self.name, self.source, self.ends, self.template = name, source, tuple(ends), template
        self.special, self.added = special or {}, list(added)
        self._load()

    def _load(self):
        self._bounded = None
        bounded = Bounded()
        try:
            self.size = bounded(SECONDS, MEMORY, "load", *self.source)
            if self.added:
                self.size = bounded(SECONDS, MEMORY, "add", self.added)
        except InputError as error:
            raise InputError(f"{self.name}: its tokenizer cannot be used ({error}); if the files "
                             "are damaged, download them again, else use another model") from error
        self._bounded = bounded

    def encode(self, text, special=False):
        """Ids (int64, 1-D); with `special` what the model expects around a text, such as BOS."""
        ids = np.array(self._ask(len(text), "encode", _whole(text), special), np.int64)
        if self.limit is not None and ids.max(initial=-1) >= self.limit:
            raise InputError(f"the text contains token {ids.max()}, which the model doesn't have: "
                             f"its embedding matrix has {self.limit} rows; leave that token out")
        return ids

    def prompt(self, text):
        """Ids to continue: those of a text with what the model expects before it. Without any,
        the token that begins a text, or else the one that ends it."""
        ids = self.encode(text, special=True)
        if len(ids):
            return ids
        begin = self.id_of(self.special.get("bos_token"))
        ends = self.ends if begin is None else (begin,)
        if not ends:
            raise InputError("the prompt is empty, and the model has no token that begins a text; "
                             "give some text")
        return np.array(ends[:1], np.int64)

    def decode(self, ids):
        """The text of ids, without special tokens."""
        return self._ask(len(ids), "decode", [int(i) for i in ids])

    def id_of(self, token):
        """The id of a special token, or None."""
        return None if token is None else self._ask(len(token), "id", token)

    def _ask(self, length, what, *given):
        """What the tokenizer's rules make of a text or of ids: they are a program, and have bounds
        of time and memory by their length."""
        if self._bounded is None:
            self._load()
        try:
            return self._bounded(SECONDS + length / A_SECOND, MEMORY + length * EACH, what, *given)
        except InputError as error:
            self._bounded = None
            raise InputError(f"the model's tokenizer fails ({error}); use another text or another "
                             "model") from error

    def stream(self, before):
        """A function of one more id after the ids `before` that returns the text it completes,
        perhaps none; of no id, what waits for the rest of a character."""
        ids = [int(i) for i in before[-4:]]                 # a few, for spaces depend on neighbours
        shown = self.decode(ids)

        def more(token=None):
            nonlocal ids, shown
            ids += [] if token is None else [int(token)]
            text = self.decode(ids)
            if text.endswith(REPLACEMENT) and token is not None:    # half a character's bytes
                return ""
            new, ids = text[len(shown):], ids[-4:]
            shown = self.decode(ids)
            return new

        return more

    def chat(self, turns):
        """Ids of a conversation, the model's turn begun: of the user's words, or of turns in a
        list, the user's first, then the model's, and so on."""
        if self.template is None:
            raise InputError("the folder has no chat template; leave --chat out")
        turns = [turns] if isinstance(turns, str) else turns
        messages = [{"role": ("user", "assistant")[place % 2], "content": text}
                    for place, text in enumerate(turns)]
        require_package("jinja2", "a chat template", "leave --chat out")
        try:
            text = Bounded()(SECONDS, MEMORY, "render", self.template, messages, self.special)
        except InputError as error:
            raise InputError(f"the chat template fails ({error}); leave --chat out") from error
        return self.encode(text)

    def save(self, folder):
        """Write the files that `read_tokenizer` and other tools read."""
        (folder / TOKENIZER).write_text(self._ask(0, "text"), encoding="utf-8")
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **self.special}
        if self.template is not None:
            settings["chat_template"] = self.template
        write_json(folder / SETTINGS, settings)
        if self.ends:
            write_json(folder / GENERATION, {"eos_token_id": list(self.ends)})


def read_tokenizer(path, architecture, weights):
    """The Tokenizer of a model folder or of a GGUF file (then `weights` has its metadata)."""
    require_package("tokenizers", "a model's tokenizer", "use another model", run=True)
    path = Path(path)
    try:
        made = (_from_gguf(path, weights.whole_metadata()) if hasattr(weights, "metadata")
                else _from_folder(path, architecture.kind))
        made.ends = made.ends or _ids(architecture.values.get("eos_token_id"))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: its tokenizer cannot be used ({reason(error)}); if the files "
                         "are damaged, download them again, else use another model") from error
    made.limit = architecture.vocab_size
    return made


def require_package(name, user, otherwise, run=False):
    """Raise InputError unless an optional package is installed; with `run`, another process
    imports it and tells later if it does not load."""
    if find_spec(name) is None:
        raise InputError(f"{user} needs the package {name}; install it with 'pip install {name}', "
                         f"or {otherwise}")
    if run:
        return
    try:
        __import__(name)
    except ImportError as error:
        raise InputError(f"{user} needs the package {name}, which is installed but does not load "
                         f"({reason(error)}); reinstall it, or {otherwise}") from error


def _source(folder, kind, settings):
    """The files of a folder's tokenizer, as a Tokenizer's source."""
    if settings.get("split_special_tokens"):
        raise InputError(f"{folder / SETTINGS}: split_special_tokens is true, which npdl does not "
                         "have; use another model")
    prefix_space = settings.get("add_prefix_space") is True
    if _is_there(folder / TOKENIZER):
        rules = (folder / TOKENIZER).read_text(encoding="utf-8", errors="replace")
        if prefix_space and not re.search(r'"add_prefix_space"\s*:\s*true', rules):
            raise InputError(f"{folder / SETTINGS}: add_prefix_space is true, and {TOKENIZER} says "
                             "otherwise; set it to false, or save the tokenizer again")
        return "file", os.path.abspath(folder / TOKENIZER)
    if _is_there(folder / VOCABULARY) and _is_there(folder / MERGES):
        if kind != "gpt2":
            raise InputError(f"{folder}: {VOCABULARY} and {MERGES} of a {kind} model need its own "
                             f"rules; add {TOKENIZER} (save_pretrained writes it)")
        return ("tables", *(os.path.abspath(folder / name) for name in (VOCABULARY, MERGES)),
                prefix_space)
    raise InputError(f"{folder}: holds no {TOKENIZER} (nor {VOCABULARY} and {MERGES} of GPT-2); "
                     "download it with the model")


def _from_folder(folder, kind):
    settings, generation, names = (_settings(folder / name)
                                   for name in (SETTINGS, GENERATION, SPECIAL))
    template = settings.get("chat_template")
    if isinstance(template, list):                          # several, by name
        template = next((each["template"] for each in template if each["name"] == "default"), None)
    if _is_there(folder / TEMPLATE):
        template = (folder / TEMPLATE).read_text(encoding="utf-8")
    special = {name: token for name in NAMES
               if (token := _text(settings.get(name, names.get(name)))) is not None}
    more = settings.get("additional_special_tokens", names.get("additional_special_tokens"))
    more = [_text(token) for token in (more if isinstance(more, list) else [])]
    added = _added_tokens(folder, settings) + [
        (None, token, True) for token in [*special.values(), *more] if token is not None]
    made = Tokenizer(folder, _source(folder, kind, settings), (), template, special, added)
    made.ends = _ids(generation.get("eos_token_id")) or _ids(made.id_of(special.get("eos_token")))
    return made


def _added_tokens(folder, settings):
    """Return [(id, text, whether it is special)] of the tokens that a folder adds, by their ids."""
    added = {text: (place, False) for text, place in _settings(folder / ADDED).items()
             if type(place) is int}
    about = settings.get("added_tokens_decoder")
    for place, token in (about if isinstance(about, dict) else {}).items():
        if _text(token) is not None and place.isdecimal():
            added[_text(token)] = int(place), (isinstance(token, dict)
                                               and token.get("special") is True)
    return sorted((place, text, special) for text, (place, special) in added.items())


def _text(token):
    """Return the text of a token in a settings file: a string, or an object's "content"."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _is_there(path):
    """Whether a file is there; InputError for one that is too large to be what it says."""
    if not os.path.exists(path) or not is_file(path):
        return False
    if os.path.getsize(path) > LARGEST:
        raise InputError(f"{path}: has more than {LARGEST >> 20} MiB; fetch it again")
    return True


def _settings(path):
    values = read_json(path) if _is_there(path) else {}
    return values if isinstance(values, dict) else {}


def _ids(value):
    """One id, several, or none, as a tuple."""
    ids = value if isinstance(value, list) else [value]
    return tuple(i for i in ids if type(i) is int and i >= 0)


def _from_gguf(path, about):
    kind, cut = about.get("tokenizer.ggml.model"), about.get("tokenizer.ggml.pre")
    if kind != "gpt2" or cut not in CUTS:
        raise InputError(f"the file's tokenizer is {str(kind)[:20]!r}, {str(cut)[:20]!r}; npdl "
                         f"reads 'gpt2' with {', '.join(CUTS)}; use a folder with {TOKENIZER}")
    tokens, kinds = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"]
    control, added = ([token for token, each in zip(tokens, kinds, strict=True) if each == wanted]
                      for wanted in (CONTROL, USER_DEFINED))
    special = {}
    for name in ("bos_token", "eos_token"):
        place = about.get(f"tokenizer.ggml.{name}_id")
        if place is not None and 0 <= place < len(tokens):
            special[name] = tokens[place]
    if about.get("tokenizer.ggml.add_eos_token"):
        raise InputError("the file's tokenizer adds a token that ends each text (add_eos_token), "
                         f"which npdl does not; use a folder with {TOKENIZER}")
    begins = about.get("tokenizer.ggml.add_bos_token", cut == "llama-bpe")     # as llama.cpp does
    begin = special.get("bos_token") if begins else None
    source = ("lists", tokens, about["tokenizer.ggml.merges"], control, added, begin, CUTS[cut],
              cut == "smollm", cut == "llama-bpe")          # whole words first, as Llama 3
    return Tokenizer(path, source, _ids(about.get("tokenizer.ggml.eos_token_id")),
                     about.get("tokenizer.chat_template"), special)


def _whole(text):
    """A text without halves of characters, which a command line may have."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

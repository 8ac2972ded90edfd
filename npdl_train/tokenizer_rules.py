"""The rules of a tokenizer, as the library `tokenizers` reads and follows them: a stranger's
program, so that it is done in a process with bounds (npdl_train.bounded)."""

LOADED = {}


def load(kind, *given):
    """Keep the tokenizer of one of KINDS, instead of another; return its size."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(f"the package tokenizers does not load: {error}; reinstall it") from None

    made = LOADED["tokenizer"] = KINDS[kind](tokenizers, *given)
    made.no_padding()
    made.no_truncation()
    return made.get_vocab_size()


def add(tokens):
    """Add tokens, [(id or None for the next one, text, whether it is special)], unless they are
    there; return the tokenizer's size. ValueError if a token doesn't get its id."""
    import tokenizers

    made = LOADED["tokenizer"]
    for wanted, text, special in tokens:
        if made.token_to_id(text) is None:
            made.add_tokens([tokenizers.AddedToken(text, special=special, normalized=False)])
        elif special:
            made.add_special_tokens([text])
        if wanted not in (None, made.token_to_id(text)):
            raise ValueError(f"the added token {text[:40]!r} should have the id {wanted}; it has "
                             f"{made.token_to_id(text)}")
    return made.get_vocab_size()


def of_text(library, text):
    """A tokenizer.json's text."""
    return library.Tokenizer.from_str(text)


def of_file(library, path):
    """A tokenizer.json."""
    return library.Tokenizer.from_file(path)


def of_tables(library, vocabulary, merges, prefix_space):
    """GPT-2's two files."""
    made = byte_pairs(library, library.models.BPE.from_file(vocabulary, merges),
                      prefix_space=prefix_space)
    if made.token_to_id("<|endoftext|>") is not None:
        made.add_special_tokens(["<|endoftext|>"])
    return made


def of_lists(library, tokens, merges, control, added, begin, cut, digits, whole_words):
    """A GGUF file's lists; `begin` is the token that begins a text, or None."""
    model = library.models.BPE({token: i for i, token in enumerate(tokens)},
                               [tuple(pair.split(" ")) for pair in merges],
                               ignore_merges=whole_words)
    made = byte_pairs(library, model, cut, digits)
    made.add_special_tokens(control)
    made.add_tokens(added)
    if begin is not None:
        made.post_processor = library.processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, made.token_to_id(begin))])
    return made


def byte_pairs(library, model, cut=None, digits=False, prefix_space=False):
    """A byte-level BPE tokenizer as GPT-2's; `cut` is another way to cut a text than GPT-2's."""
    made, first = library.Tokenizer(model), []
    if digits:
        first = [library.pre_tokenizers.Digits(individual_digits=True)]
    if cut is not None:
        first = [library.pre_tokenizers.Split(library.Regex(cut), "isolated")]
    made.pre_tokenizer = library.pre_tokenizers.Sequence(
        [*first, library.pre_tokenizers.ByteLevel(add_prefix_space=prefix_space,
                                                  use_regex=cut is None)])
    made.decoder = library.decoders.ByteLevel()
    return made


def encode(text, special):
    return LOADED["tokenizer"].encode(text, add_special_tokens=special).ids


def decode(ids):
    return LOADED["tokenizer"].decode(ids)


def id_of(token):
    return LOADED["tokenizer"].token_to_id(token)


def text():
    """What a tokenizer.json holds."""
    return LOADED["tokenizer"].to_str(pretty=True)


KINDS = {"text": of_text, "file": of_file, "tables": of_tables, "lists": of_lists}
WORK = {"load": load, "add": add, "encode": encode, "decode": decode, "id": id_of, "text": text}

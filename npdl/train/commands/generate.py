"""Continue a prompt with a trained model: a run's folder, or a real model.

A real model is GPT-2 or of the Llama family (Llama, Mistral, Qwen2, Qwen3, SmolLM2): a folder with
config.json, model.safetensors and the tokenizer's files; for Llama and Qwen2 also a .gguf file.
Text is printed as it is generated. An LSTM summarises the whole text in its state. The other models
attend to at most as many tokens as they were trained on (the window). If the text becomes longer,
the oldest tokens are dropped. A run of train_seq2seq.py translates its prompt, a date.

  python -m npdl generate runs/gpt-p31-plus-seed0 "5 + 7 ="
  python -m npdl generate runs/gpt-p31-plus-seed0 "5 + 7 =" --method beam --width 3
  python -m npdl generate runs/gpt-text-plays-seed0 "ROMEO:" --method sample --top-k 20
  python -m npdl generate runs/seq2seq-dates-seed0 "March 3rd, 2021"
  python -m npdl generate SmolLM2-135M-Instruct "What is the capital of France?" --chat

Several prompts are continued one after the other. With --chat they are one conversation. With
--chat and no prompt, the lines of the conversation are read from standard input until an empty
line.
"""

import dataclasses
import math
import sys
import time

from npdl.cli.console import checked_path_text, print_generated_text, print_note, set_description
from npdl.cli.options import (
    COUNT,
    NATURAL,
    POSITIVE,
    SHARE,
    Range,
    add_setting_options,
    check_settings,
    integers_up_to,
    option_name,
    setting,
)
from npdl.decoding import beam_search, greedy, sample
from npdl.decoding.model_scorers import make_scorer
from npdl.decoding.repetition import PenalisedRepetition
from npdl.errors import InputError
from npdl.init import generator
from npdl.train.pretrained import is_real_model, load
from npdl.train.run import load_run

METHODS = {"greedy": "text", "beam": "beam search", "sample": "sampling"}     # headings of options
TOKENS = {"arithmetic": 8, "dates": 16, "text": 500, "model": 200}
LISTED = ("arithmetic", "dates")                # printed in one line, with the probability
BETWEEN = "-" * 40                              # a line between two texts


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of `generate`. If `tokens` is None, it depends on the kind of model."""

    chat: bool = setting("text", False, "a real model: insert the prompt into the model's "
                         "chat template, and print the answer")
    method: str = setting("text", "greedy", "greedy: the most probable token each time; beam: "
                          "beam search; sample: random tokens", allowed=tuple(METHODS))
    tokens: int | None = setting("text", None, "largest number of new tokens", "N",
                                 integers_up_to(100_000))
    repetition_penalty: float = setting("text", 1.0, "if above 1, tokens that are already in "
                                        "the text become less probable", "P", POSITIVE)
    width: int = setting("beam search", 5, "number of hypotheses", "W", integers_up_to(1000))
    length_power: float = setting("beam search", 0.0, "rank finished hypotheses by log "
                                  "probability / length^A", "A")
    n_best: int = setting("beam search", 1, "results to show", "N", COUNT)
    temperature: float = setting("sampling", 1.0, "below 1: less random", "T",
                                 Range(POSITIVE.holds, f"{POSITIVE.words}; for greedy decoding, "
                                       "give --method greedy"))
    top_k: int | None = setting("sampling", None, "only the K most probable tokens", "K", COUNT)
    top_p: float | None = setting("sampling", None, "only the most probable tokens whose "
                                  "probabilities sum to P", "P", SHARE)
    seed: int = setting("sampling", 0, "seed of the random tokens", allowed=NATURAL)


def add_arguments(p):
    """Add the options of `generate` to an argparse parser."""
    set_description(p, __doc__, omit_defaults=True)
    p.add_argument("run", type=checked_path_text,
                   help="a run folder, a model's folder or a .gguf file")
    p.add_argument("prompts", nargs="*", metavar="prompt", default=[], help="the text to "
                   "continue, or an equation with spaces between its tokens (default: empty)")
    add_setting_options(p, "generate", METHODS.values(), Settings(
        tokens=f"{TOKENS['text']}; {TOKENS['model']} for real models and {TOKENS['arithmetic']} "
               "for equations, which can end earlier"))


@dataclasses.dataclass
class Source:
    """A model and its vocabulary or tokenizer (`words`), from a folder.

    kind  "arithmetic", "dates", "text" or "model", the keys of TOKENS
    ends  the token that ends a text, a tuple of such tokens, or None
    """

    model: object
    words: object
    kind: str
    ends: object = None

    def encode(self, prompt, chat=False):
        """Return the ids of a prompt. If `chat` is True, it may be the list of all turns so far."""
        words, prompt = self.words, prompt or ""
        if chat and self.kind != "model":
            raise InputError("--chat is for real models, but this is a run of npdl; leave it out")
        if self.kind == "model":
            return words.encode_chat(prompt) if chat else words.encode_prompt(prompt)
        if self.kind == "arithmetic":
            prompt = "BOS " + prompt
        if self.kind == "text" and not prompt:
            prompt = "\n" if "\n" in words.characters else words.characters[0]
        return words.encode(prompt)

    def format_continuation(self, ids, hypothesis):
        """Return a prompt and its continuation as text."""
        if self.kind not in LISTED:
            return self.words.decode([*ids, *hypothesis.tokens])
        if self.kind == "dates":
            date = self.words.source.decode(ids).strip()
            text = f"{date} -> {self.words.decode(hypothesis.tokens)}"
        else:
            text = self.words.decode([*ids[1:], *hypothesis.tokens])
        return f"{text}    (probability {math.exp(hypothesis.log_prob):.4g})"


def load_source(path):
    """Return the Source of a run's folder, a model's folder or a .gguf file."""
    if is_real_model(path):
        loaded = load(path, tokenizer=True)
        return Source(loaded.model, loaded.tokenizer, "model", loaded.tokenizer.ends or None)
    return make_source_from_run(load_run(path))


def make_source_from_run(loaded_run):
    """Return the Source of a loaded run (load_run)."""
    words, config = loaded_run.task.vocabulary, loaded_run.config
    if config.translates:
        return Source(loaded_run.model, words, "dates", words.eos)
    if config.pretrained is not None:
        return Source(loaded_run.model, words, "model", words.ends or None)
    if config.text is not None:
        return Source(loaded_run.model, words, "text")
    return Source(loaded_run.model, words, "arithmetic", words.eos)


def generate(source, prompt=None, method="greedy", on_token=None, **settings):
    """Return (hypotheses, ids): the continuations of a prompt, best first, and the prompt's ids.

    With chat=True the prompt may be a list of turns, alternately of the user and the model; the
    first and the last are the user's. on_token(sequence, token) is called for each new token,
    except in beam search. Other arguments are fields of Settings. Raises InputError for settings
    that don't fit the source or the method.
    """
    chosen = Settings(method=method, **settings)
    check_settings(chosen)
    for field in dataclasses.fields(chosen):
        owner = next(name for name, group in METHODS.items() if group == field.metadata["group"])
        if field.name in settings and owner not in ("greedy", method):
            raise InputError(f"{option_name(field.name)} is for --method {owner}, not {method}; "
                             "leave it out")
    ids, model, eos = source.encode(prompt, chosen.chat), source.model, source.ends
    tokens = TOKENS[source.kind] if chosen.tokens is None else chosen.tokens
    options = {"first": [source.words.bos]} if source.kind == "dates" else {}
    if source.kind == "model":      # computing a whole long window again for each token is slow
        options["keep"] = model.max_len // 2
    scorer = make_scorer(model, ids, **options)
    if chosen.repetition_penalty != 1:
        scorer = PenalisedRepetition(scorer, chosen.repetition_penalty)
    if method == "beam":
        result = beam_search(scorer, chosen.width, tokens, eos, chosen.length_power,
                             n_best=chosen.n_best, keep_steps=False)
        return (result.finished + result.unfinished)[:chosen.n_best], ids
    if method == "sample":
        return sample(scorer, tokens, generator(chosen.seed), eos, temperature=chosen.temperature,
                      top_k=chosen.top_k, top_p=chosen.top_p, on_token=on_token), ids
    return greedy(scorer, tokens, eos, on_token), ids


class TextPrinter:
    """Prints a text token by token, and measures the time of each token.

    `before` are the ids of the prompt, and `prefix` is printed before the first token.
    """

    def __init__(self, source, before, prefix):
        self.prefix = prefix
        self.text = (source.words.make_stream_decoder(before) if source.kind == "model" else
                     lambda *token: source.words.decode(token))
        self.times = [time.perf_counter()]

    def __call__(self, sequence, token):
        self.times.append(time.perf_counter())
        print_generated_text(self.prefix + self.text(token), end="")
        self.prefix = ""

    def describe_timing(self):
        """Return a text with the time until the first token, and the speed after it."""
        start, first, *_, last = [*self.times, self.times[-1]]
        count = len(self.times) - 1
        rate = f", then {(count - 1) / (last - first):.1f} a second" if last > first else ""
        return f"{count} tokens: the first after {first - start:.2f} s{rate}"


def run(options):
    """Print the continuations of the prompts in the options, and return the exit status."""
    options = vars(options)
    source, prompts = load_source(options.pop("run")), options.pop("prompts")
    if "chat" in options:
        turns = []
        for turn in prompts or read_turns():
            turns.append(turn)
            turns.append(source.words.decode(print_continuations(source, turns, options)))
        return 0
    for i, prompt in enumerate(prompts or [None]):
        if i and source.kind not in LISTED:
            print(BETWEEN)
        print_continuations(source, prompt, options)
    return 0


def read_turns():
    """Yield lines of standard input until an empty line; on a terminal, print "> " before each."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


def print_continuations(source, prompt, options):
    """Print the continuations of a prompt, best first, and return the new tokens of the first.

    A single text is printed while it is generated.
    """
    is_chat, is_listed, printer = "chat" in options, source.kind in LISTED, None
    if not is_listed and options.get("method") != "beam":
        before = source.encode(prompt, is_chat)
        printer = TextPrinter(source, before, "" if is_chat else source.words.decode(before))
    hypotheses, ids = generate(source, prompt, **options, on_token=printer)
    for i, hypothesis in enumerate(hypotheses if printer is None else []):
        if i and not is_listed:
            print(BETWEEN)
        print_generated_text(source.format_continuation([] if is_chat else ids, hypothesis))
    if printer is not None:
        print_generated_text(printer.text())
        if source.kind == "model":
            print_note(printer.describe_timing())
    longest = len(ids) + max(len(hypothesis.tokens) for hypothesis in hypotheses)
    seen = getattr(source.model, "max_len", longest)
    if source.kind != "dates" and longest - 1 > seen:       # the model doesn't read the last token
        print_note(f"the text has {longest} tokens, but the model's window has only {seen}; the "
                   "oldest tokens were dropped")
    return hypotheses[0].tokens

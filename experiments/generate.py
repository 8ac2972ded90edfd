"""Continue a prompt with a trained model, from any run folder: arithmetic or text, GPT or LSTM.

Each step computes one token: keys and values (GPT) or the state (LSTM) of what came before are
kept. An LSTM carries everything along. A GPT sees as many tokens as it was trained on (its
window); beyond that the window slides, and the oldest tokens are forgotten.

  python experiments/generate.py runs/gpt-p31-plus-seed0 "5 + 7 ="
  python experiments/generate.py runs/gpt-p31-plus-seed0 "5 + 7 =" --method beam --width 3
  python experiments/generate.py runs/gpt-text-plays-seed0 "ROMEO:" --method sample --top-k 20
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import math
import sys

from npdl.decoding import beam_search, greedy, sample
from npdl.decoding.wiring import continuation
from npdl.errors import InputError, require_positive
from npdl.models.gpt import GPT
from npdl.training.cli import OneLineParser, guarded
from npdl.training.run import load_run

METHODS = {             # what each method can be told, and what it is when it is not
    "greedy": {},
    "beam": {"width": 5, "length_power": 0.0, "n_best": 1},
    "sample": {"count": 1, "temperature": 1.0, "top_k": None, "top_p": None, "seed": 0},
}
TOKENS = {"arithmetic": 8, "text": 500}


def parser():
    p = OneLineParser(description=__doc__, argument_default=argparse.SUPPRESS,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", help="a run folder")
    p.add_argument("prompt", nargs="?", default=None, help="what to continue: an equation's tokens "
                   "apart, or text (default: BOS, or a new line)")
    p.add_argument("--method", choices=tuple(METHODS), default="greedy",
                   help="the most probable token each time; beam search; or random draws "
                   "(default: greedy)")
    p.add_argument("--tokens", type=int, metavar="N", default=None, help="tokens at most "
                   f"(default: {TOKENS['text']}; equations, which end by themselves: "
                   f"{TOKENS['arithmetic']})")
    p.add_argument("--keep", type=int, metavar="N", default=None, help="GPT: tokens that stay when "
                   "the window is full (default: all but one, which recomputes the window at every "
                   "token; half of it is faster and forgets more)")
    beam = p.add_argument_group("beam search")
    beam.add_argument("--width", type=int, metavar="W", help="hypotheses kept (default: 5)")
    beam.add_argument("--length-power", type=float, metavar="A", help="rank finished ones by log "
                      "probability / length^A (default: 0)")
    beam.add_argument("--n-best", type=int, metavar="N", help="results to show (default: 1)")
    draw = p.add_argument_group("sampling")
    draw.add_argument("--count", type=int, metavar="N", help="continuations to draw (default: 1)")
    draw.add_argument("--temperature", type=float, metavar="T", help="below 1: closer to greedy "
                      "(default: 1)")
    draw.add_argument("--top-k", type=int, metavar="K", help="only the K most probable tokens")
    draw.add_argument("--top-p", type=float, metavar="P", help="only the most probable tokens that "
                      "together reach P")
    draw.add_argument("--seed", type=int, help="of the draws (default: 0)")
    return p


def generate(run, prompt=None, method="greedy", tokens=None, keep=None, **how):
    """Hypotheses that continue `prompt` with a run's (load_run) model, best first, and the ids of
    the prompt. `how` holds METHODS' options. Raises InputError for what cannot be done."""
    settings = method_settings(method, how)
    words, is_text = run.task.vocabulary, run.config.text is not None
    if is_text:
        ids = words.encode(prompt or _first(words))
    else:
        ids = words.encode("BOS " + (prompt or ""))
    if keep is not None and not isinstance(run.model, GPT):
        raise InputError("--keep is a GPT's; this run's LSTM carries everything along")
    tokens = TOKENS["text" if is_text else "arithmetic"] if tokens is None else tokens
    require_positive(tokens=tokens)
    options = {} if keep is None else {"keep": keep}
    scorer = continuation(run.model, ids, **options)
    eos = None if is_text else words.eos
    if method == "beam":
        n_best = settings["n_best"]
        result = beam_search(scorer, settings["width"], tokens, eos, settings["length_power"],
                             n_best)
        return (result.finished + result.unfinished)[:n_best], ids
    if method == "sample":
        seed = settings.pop("seed")
        return sample(scorer, tokens, seed, eos, **settings), ids
    return greedy(scorer, tokens, eos), ids


def method_settings(method, how):
    """METHODS' settings of a method, with `how` in their places."""
    odd = next((name for name in how if name not in METHODS[method]), None)
    if odd is not None:
        owner = next(name for name, options in METHODS.items() if odd in options)
        raise InputError(f"--{odd.replace('_', '-')} goes with --method {owner}, not {method}")
    if how.get("seed", 0) < 0:
        raise InputError(f"--seed {how['seed']}: must be 0 or more")
    return {**METHODS[method], **how}


def _first(words):
    """The character to begin with when there is no prompt."""
    return "\n" if "\n" in words.characters else words.characters[0]


def shown(run, ids, hypothesis):
    """A continuation as text, after its prompt."""
    words = run.task.vocabulary
    if run.config.text is not None:
        return words.decode([*ids, *hypothesis.tokens])
    text = words.decode([*ids[1:], *hypothesis.tokens])
    return f"{text}    (probability {math.exp(hypothesis.log_prob):.4g})"


def main(arguments=None):
    p = parser()
    options = vars(p.parse_args(arguments))

    def work():
        run = load_run(options.pop("run"))
        found, ids = generate(run, **options)
        for i, hypothesis in enumerate(found):
            if i and run.config.text is not None:
                print("-" * 40)
            print(shown(run, ids, hypothesis))
        longest = len(ids) + max(len(hypothesis.tokens) for hypothesis in found)
        if isinstance(run.model, GPT) and longest - 1 > run.model.max_len:  # the last is not read
            print(f"{p.prog}: the model sees {run.model.max_len} tokens; its window slid along "
                  f"these {longest}", file=sys.stderr)
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())

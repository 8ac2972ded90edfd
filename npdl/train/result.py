"""The result of a finished run, as it is printed: a table, or the loss and a sample of a text."""

import math

from npdl.backend import is_host
from npdl.cli.console import print_text
from npdl.decoding import sample
from npdl.decoding.continuation import continuation
from npdl.init import generator
from npdl.models.lstm_lm import LSTMLM
from npdl.train.summary import table

SAMPLE_LINES, SAMPLE_WIDTH = 5, 78


def print_result(run, task, summary):
    """Print the summary of a finished run (npdl.train.run.Run)."""
    if run.config.text is None:
        print(table(summary))
        print("L: lowest loss, A: best accuracy, t_f: the step that first reached it, "
              "Δt: from training's to validation's")
    else:
        print_text_result(run, task, summary)
    print(f"{run.step} steps in {summary['seconds']:.0f} s; "
          f"checkpoint, metrics and their curves are in {run.folder}")


def print_text_result(run, task, summary):
    """Print loss and perplexity and, for a model of npdl's own, a few lines that it writes."""
    part = "train" if summary["validation_loss"] is None else "validation"
    final, best = summary["final"][f"{part}_loss"], summary[f"{part}_loss"]
    if final is not None:
        print(f"{part} loss {final:.4f} (perplexity {math.exp(min(final, 700)):.2f}); lowest "
              f"{best:.4f} at step {summary[f't_f_{part}_loss']}")
    if run.config.pretrained is None and is_host():
        print("\nA sample:\n")
        for line in sample_lines(run.model, task.vocabulary):
            print_text(f"  {line}")
        print()
    print(f'more: python -m npdl generate {run.folder} "A prompt" --method sample')


def sample_lines(model, vocabulary, seed=0):
    """Return the first lines of a text that the model writes."""
    characters = vocabulary.characters
    ids = vocabulary.encode("\n" if "\n" in characters else characters[0])
    tokens = SAMPLE_LINES * SAMPLE_WIDTH
    options = {} if isinstance(model, LSTMLM) else {"capacity": len(ids) + tokens,
                                                    "keep": model.max_len // 2}
    [found] = sample(continuation(model, ids, **options), tokens, generator(seed), None, 1,
                     temperature=0.8)
    lines = [line[start : start + SAMPLE_WIDTH]
             for line in vocabulary.decode(found.tokens).split("\n") if line.strip()
             for start in range(0, len(line), SAMPLE_WIDTH)]
    return lines[:SAMPLE_LINES]

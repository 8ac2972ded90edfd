"""Print the result of a finished run: a table, or the loss and a sample of the text."""

import math

from npdl.backend import is_host
from npdl.cli.console import print_generated_text
from npdl.cli.process import peak_memory_bytes
from npdl.decoding import sample
from npdl.decoding.model_scorers import make_scorer
from npdl.init import generator
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.train.config import UserFunction
from npdl.train.folder import make_run_title
from npdl.train.summary import format_table

SAMPLE_LINES, SAMPLE_WIDTH = 5, 78


def print_result(run, task, records, summary):
    """Print the result of a finished Run (npdl.train.run) from its records and its summary."""
    if run.config.text is None:
        print(format_table({make_run_title(run.config): [summary]}))
        print("L: lowest loss, A: best accuracy, t_f: the step that first reached it, "
              "Δt: t_f of validation minus t_f of training")
    else:
        print_text_result(run, task, records[0], summary)
    print(f"{run.step} steps in {summary['seconds']:.0f} s; "
          f"checkpoint, metrics and their curves are in {run.folder}")


def print_text_result(run, task, first_record, summary):
    """Print loss, perplexity and a sample of text (for a real model, the peak memory instead)."""
    loss = "train_loss" if summary["validation_loss"] is None else "validation_loss"
    final, before = summary["final"][loss], ""
    if first_record["step"] == 0:
        before = f"; {first_record[loss]:.4f} at step 0"
    print(f"{loss.replace('_', ' ')} {final:.4f} (perplexity {math.exp(min(final, 700)):.2f}); "
          f"lowest {summary[loss]:.4f} at step {summary[f't_f_{loss}']}{before}")
    if run.config.pretrained is not None:
        if peak_memory_bytes() is not None:
            print(f"peak memory {peak_memory_bytes() / 2**20:,.0f} MiB")
    elif is_host():
        print("\nA sample:\n")
        for line in generate_sample_lines(run.model, task.vocabulary, run.config.block):
            print_generated_text(f"  {line}")
        print()
    if isinstance(run.config.model, UserFunction):
        print(f'for more text, give load_run("{run.folder}", config).model to npdl.decoding')
    else:
        print(f'for more text: python -m npdl generate {run.folder} "A prompt" --method sample')


def generate_sample_lines(model, vocabulary, window):
    """Return the first lines of a text that the model generates.

    If the user has written the model, it reads only the last `window` tokens.
    """
    characters = vocabulary.characters
    ids = vocabulary.encode("\n" if "\n" in characters else characters[0])
    tokens = SAMPLE_LINES * SAMPLE_WIDTH
    if isinstance(model, GPT):
        options = {"keep": model.max_len // 2}
    else:
        options = {} if isinstance(model, LSTMLM) else {"window": window}
    [hypothesis] = sample(make_scorer(model, ids, **options), tokens, generator(0), None, 1,
                          temperature=0.8)
    lines = [line[start : start + SAMPLE_WIDTH]
             for line in vocabulary.decode(hypothesis.tokens).split("\n") if line.strip()
             for start in range(0, len(line), SAMPLE_WIDTH)]
    return lines[:SAMPLE_LINES]

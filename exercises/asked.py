"""The questions that ask for code: where npdl has it, what runs it, how to write it yourself."""

import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).parents[1]
# {question: (module, what it asks for, the training script that runs it, homework's layer, or
# --level)} of those that ask for one thing; NOTEBOOK asks for several
CODE = {
    "004.1.1": ("layers.recurrent", "LSTMCell.forward", "train_lstm", "LSTMCell"),
    "004.1.2": ("layers.recurrent", "Recurrent.forward", "train_lstm", "--level lstm"),
    "004.1.4": ("models.lstm_lm", "LSTMLM.forward", "train_lstm", "LSTMLM"),
    "004.2.1": ("layers.layer_norm", "LayerNorm.forward", "train_gpt", "LayerNorm"),
    "004.2.2": ("layers.attention", "MultiHeadAttention.split", "train_gpt", "MultiHeadAttention"),
    "004.2.3": ("layers.attention", "attend", "train_gpt", "ScaledDotAttention"),
    "004.2.4": ("layers.attention", "attend", "train_gpt", "ScaledDotAttention"),
    "004.2.5": ("layers.attention", "MultiHeadAttention.forward", "train_gpt",
                "MultiHeadAttention"),
    "004.2.7": ("layers.embedding", "sinusoidal", "train_gpt", "SinusoidalPositions"),
    "004.2.8": ("layers.embedding", "SinusoidalPositions.forward", "train_gpt",
                "SinusoidalPositions"),
    "004.2.9": ("models.gpt", "GPT.forward", "train_gpt", "GPT"),
    "004.3": ("losses", "loss_and_accuracy", "train_lstm", "SequenceLoss"),
}
NOTEBOOK = "003.s5"
CODE |= {f"{NOTEBOOK} {name}": entry for name, entry in {
    "attention": ("layers.attention", "MultiHeadAttention.forward", "train_seq2seq",
                  "MultiHeadAttention"),
    "a block": ("layers.transformer", "Block.forward", "train_gpt", "Block"),
    "encoder and decoder": ("models.seq2seq", "Seq2Seq.forward", "train_seq2seq", "Seq2Seq"),
    "language model": ("models.gpt", "GPT.forward", "train_gpt", "GPT"),
}.items()}


def place(question):
    """ "npdl/layers/attention.py:32" of the code that a question asks for."""
    module, name, *_ = CODE[question]
    thing = importlib.import_module(f"npdl.{module}")
    for part in name.split("."):
        thing = getattr(thing, part)
    thing = inspect.unwrap(thing)
    return (f"{Path(inspect.getsourcefile(thing)).relative_to(ROOT).as_posix()}:"
            f"{thing.__code__.co_firstlineno}")


def lines(question):
    """What to say beside a question's solution; nothing where it asks for no code."""
    found = []
    for key, (_, name, script, layer) in CODE.items():
        if key == question or key.startswith(f"{question} "):
            way = layer if layer.startswith("--") else f"--layers {layer}"
            found += ["", f"The code that {key.replace(' ', ': ', 1)} asks for",
                      f"Code:     {name}, {place(key)}",
                      f"Run it:   python experiments/{script}.py",
                      f"Write it: python -m npdl homework --out homework --forward {way}"]
    return found

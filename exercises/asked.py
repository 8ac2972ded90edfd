"""The questions that ask for code: where npdl has it, what runs it, how to write it yourself."""

import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).parents[1]
# {question: (module, what it asks for, the training script that runs it, homework's layer)}
CODE = {
    "004.1.1": ("layers.recurrent", "LSTMCell.forward", "train_lstm", "LSTMCell"),
    "004.1.2": ("layers.recurrent", "Recurrent.forward", "train_lstm", ""),
    "004.1.4": ("models.lstm_lm", "LSTMLM.forward", "train_lstm", "LSTMLM"),
    "004.2.1": ("layers.layer_norm", "LayerNorm.forward", "train_gpt", "LayerNorm"),
    "004.2.2": ("layers.attention", "MultiHeadAttention.split", "train_gpt", ""),
    "004.2.3": ("layers.attention", "attend", "train_gpt", "ScaledDotAttention"),
    "004.2.4": ("layers.attention", "attend", "train_gpt", "ScaledDotAttention"),
    "004.2.5": ("layers.attention", "MultiHeadAttention.forward", "train_gpt",
                "MultiHeadAttention"),
    "004.2.7": ("layers.embedding", "sinusoidal", "train_gpt", ""),
    "004.2.8": ("layers.embedding", "SinusoidalPositions.forward", "train_gpt",
                "SinusoidalPositions"),
    "004.2.9": ("models.gpt", "GPT.forward", "train_gpt", "GPT"),
    "004.3": ("losses", "loss_and_accuracy", "train_lstm", "SequenceLoss"),
}


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
    if question not in CODE:
        return []
    _, name, script, layer = CODE[question]
    found = ["", f"The code that {question} asks for", f"Code:     {name}, {place(question)}",
             f"Run it:   python experiments/{script}.py"]
    if layer:
        found.append(f"Write it: python -m npdl homework --out homework --forward --layers {layer}")
    return found

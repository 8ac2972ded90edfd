"""Tiny trained models, one or two a chapter: what each layer is for, shown.

    python -m docs.book --train         # trains all of them again, and keeps what the pages need

`MODELS` are the functions that train them, by name; docs/book/pictures.py draws them. What a
training leaves is a JSON of a few kilobytes in data/; its numbers are rounded, and a test trains
them again and compares.
"""

import json
from pathlib import Path

from docs.book.trained import attention, basics, recurrent, training

DATA = Path(__file__).parent / "data"
MODELS = {function.__name__: function for function in (
    basics.thermometers, basics.bends, basics.letters, basics.week,
    recurrent.switch, recurrent.brackets, recurrent.names, recurrent.meanings,
    attention.depth, attention.one_vector, attention.dates, attention.heads, attention.blocks,
    attention.gpt, training.valley, training.sentences, training.ranks, training.late,
    training.further)}


def train(name):
    """Train a model, and return its record as JSON has it."""
    return json.loads(json.dumps(MODELS[name]()))


def keep(name):
    """Train a model, and write what it leaves; returns the file."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"{name}.json"
    path.write_text(json.dumps(train(name), separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def record(name):
    """Return the stored record of a model."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))

"""How much code runs in one forward and backward of a layer, and in one update of a training.

    python -m tests.base.trace_table

For each layer: the files of npdl, the functions in them and the lines that run, each counted
once; checks of what comes in (npdl/errors.py, training_errors.py) apart. For an update: how often
execution moves from one file to another, in how many threads, and how deep calls stand in each
other. For whole commands: the files of npdl and npdl_study in which a function runs, the
functions, the moves.
"""

import contextlib
import inspect
import os
import pathlib
import sys
import tempfile
import threading

import numpy as np

import npdl
from npdl.__main__ import main as command
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.recurrent import LSTM, LSTMLayer
from npdl.models.gpt import GPT
from npdl.optim import AdamW
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer

HOME = str(pathlib.Path(npdl.__file__).parent)      # and what begins so: npdl_study
CHECKS = {str(pathlib.Path(HOME, name)) for name in ("errors.py", "training_errors.py")}


class Traced:
    """What runs of npdl inside a `with tracing()` block."""

    def __init__(self):
        self.lines, self.functions, self.threads = set(), set(), set()
        self.moves, self.deepest, self._last = 0, 0, None

    def follow(self, frame, event, arg):
        code = frame.f_code
        if not (code.co_filename.startswith(HOME) and code.co_flags & inspect.CO_OPTIMIZED):
            return None                         # another's, or the body of a module or a class
        if event == "call":
            self.threads.add(threading.get_ident())
            self.functions.add((code.co_filename, code.co_qualname))
            self.moves += code.co_filename != self._last
            self._last = code.co_filename
            depth, above = 0, frame
            while above is not None:
                depth += above.f_code.co_filename.startswith(HOME)
                above = above.f_back
            self.deepest = max(self.deepest, depth)
        elif event == "line":
            self.lines.add((code.co_filename, frame.f_lineno))
        return self.follow

    def of_pages(self):
        """(files, functions, lines) without the checks, and the lines of the checks."""
        lines = {line for line in self.lines if line[0] not in CHECKS}
        functions = {function for function in self.functions if function[0] not in CHECKS}
        return (len({file for file, _ in lines}), len(functions), len(lines),
                len(self.lines) - len(lines))


@contextlib.contextmanager
def tracing():
    traced = Traced()
    threading.settrace(traced.follow)
    sys.settrace(traced.follow)
    try:
        yield traced
    finally:
        sys.settrace(None)
        threading.settrace(None)


class Lacking(LayerNorm):
    """A LayerNorm whose backward lacks a term."""

    @classmethod
    def sample(cls):
        return cls(4, dtype="float64"), np.random.default_rng(0).standard_normal((2, 3, 4))

    def backward(self, dy, cache):
        self.gain.grad += (dy * cache.x_hat).sum((0, 1))
        self.bias.grad += dy.sum((0, 1))
        dx_hat = dy * self.gain.data
        return (dx_hat - dx_hat.mean(-1, keepdims=True)) / cache.std


def of_command(*words):
    """What runs in a command, (files, functions, moves)."""
    traced = Traced()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        threading.setprofile(traced.follow)
        sys.setprofile(traced.follow)
        try:
            command(words)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return len({file for file, _ in traced.functions}), len(traced.functions), traced.moves


def of_layer(layer, *inputs):
    """Trace the second forward and backward: the first looks up NumPy's functions."""
    for _ in range(2):
        with tracing() as traced:
            out, cache = layer.forward(*inputs)
            dy = np.ones_like(out[0] if isinstance(out, tuple) else out)
            layer.backward(dy, cache)
    return traced


def of_adamw():
    """Trace one update."""
    optimizer = AdamW(LayerNorm(4))
    optimizer.step()
    with tracing() as traced:
        optimizer.step()
    return traced


def of_update(engine, threads=1):
    """Trace the second update of the GPT in the script."""
    trainer = Trainer(Config(model="gpt", engine=engine, threads=threads, clip=1.0))
    with tracing() as traced, trainer.engine:       # its threads are born traced
        trainer.update()
        traced.__init__()
        trainer.update()
    return traced


def layers():
    """{name: what ran} of a forward and a backward."""
    x, mask = np.ones((2, 3, 4)), causal_mask(3)
    return {
        "LayerNorm": of_layer(LayerNorm(4), x),
        "LSTM through time": of_layer(LSTMLayer(4, 4), x),
        "LSTM, several layers": of_layer(LSTM(4, 4, 2), x),
        "multi-head attention": of_layer(MultiHeadAttention(4, 2), x, x, x, mask),
        "GPT": of_layer(GPT(5, 4, 2, 2), np.ones((2, 3), int)),
        "AdamW": of_adamw(),
    }


def main():
    print("| | files | functions | lines | lines of checks |\n|---|--:|--:|--:|--:|")
    for name, traced in layers().items():
        print(f"| {name} | " + " | ".join(map(str, traced.of_pages())) + " |")
    print("\n| one update of the GPT in the script | files | moves between files | threads | "
          "deepest stack |\n|---|--:|--:|--:|--:|")
    for engine, threads in (("plain", 1), ("fast", 2)):
        traced = of_update(engine, threads)
        files = len({file for file, _ in traced.lines})
        print(f"| --engine {engine} | {files} | {traced.moves} | {len(traced.threads)} | "
              f"{traced.deepest} |")
    print("\n| a command | files | functions | moves between files |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for words in (("train-gpt", "--steps", "1", "--engine", "plain", "--quiet",
                       "--out", f"{folder}/1"),
                      ("train-gpt", "--steps", "1", "--engine", "fast", "--quiet",
                       "--out", f"{folder}/2"),
                      ("blame", f"{os.path.relpath(__file__)}:Lacking")):
            print(f"| {' '.join(words).replace(folder, 'FOLDER')} | ", end="")
            print(" | ".join(map(str, of_command(*words))) + " |")


if __name__ == "__main__":
    main()

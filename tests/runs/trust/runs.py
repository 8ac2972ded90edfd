"""Small real trainings, and how to tell that two of them ended alike."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from npdl_train.runs import checkpoint

ROOT = Path(__file__).parents[3]
TEXT = "".join(f"{a} green bottles and {b} more make {a + b}.\n" for a in range(20)
               for b in range(20))
RECORDS = ("--eval-first", 0, "--eval-every", 1, "--save-every", 3, "--threads", 1)
SMALL = ("--width", 8, "--layers", 1, *RECORDS)
ARITHMETIC = ("--p", 5, *SMALL)
KINDS = ("lstm arithmetic fast", "gpt arithmetic fast", "lstm text plain", "gpt text plain",
         "lstm arithmetic plain", "gpt arithmetic plain", "lstm text fast", "gpt text fast")


def options_of(kind, folder, steps):
    """(script, options) of a small training; a text is written into `folder`."""
    model, data, engine = kind.split()
    options = [*ARITHMETIC]
    if data == "text":
        path = Path(folder) / "bottles.txt"
        path.write_text(TEXT)
        options = ["--text", path, "--block", 8, "--batch", 4, "--eval-batches", 1, *SMALL]
    return f"train_{model}", [*options, *(("--heads", 2) if model == "gpt" else ()),
                              "--engine", engine, "--steps", steps]


def start(script, *arguments, threads=1, **how):
    """A script of experiments/, or a package, as a process; its streams are piped unless `how`."""
    path = ROOT / "experiments" / f"{script}.py"
    program = [path] if path.exists() else ["-m", script]
    return start_python(*program, *arguments, threads=threads, **how)


def start_python(*arguments, threads=1, **how):
    """Python with these arguments as a process; its output and errors are piped unless `how`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": str(threads),
                   "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, *map(str, arguments)]
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, "cwd": ROOT}
    return subprocess.Popen(command, text=True, **{**usual, **how})


def finish(process):
    """Wait for a process that must succeed; return what it wrote to (output, errors)."""
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output, errors


def fingerprint(folder):
    """SHA-256 of every array of a run's checkpoint with its name, and of its metrics."""
    sha256 = hashlib.sha256()
    arrays, _ = checkpoint.load(Path(folder) / "checkpoint.npz")
    for name in sorted(arrays):
        sha256.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        sha256.update(arrays[name].tobytes())
    sha256.update((Path(folder) / "metrics.jsonl").read_bytes())
    return sha256.hexdigest()


def saved_step(folder):
    """The step of the checkpoint, 0 before there is one; CheckpointError if it is not whole."""
    path = Path(folder) / "checkpoint.npz"
    return checkpoint.load(path)[1]["step"] if path.exists() else 0


def recorded_step(folder):
    """The last step that a whole line of the metrics records."""
    path = Path(folder) / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return json.loads(lines[-1])["step"] if lines else 0


def temporaries(folder):
    """Names of unfinished files in a run folder."""
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]

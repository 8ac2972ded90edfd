"""What computed a run: the engine's code by a digest, the processor, BLAS, the versions.

Two runs of the same settings are the same bit for bit where all of these are; a change of the
engine's code may change its rounding, which a training then makes visible.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import platform
import sys
from pathlib import Path

import numpy as np

import npdl
from npdl.backend import is_host, tf32, xp
from npdl.errors import CheckpointError
from npdl.files import read_json, write_json
from npdl.threads import threadpool_info

PACKAGES = Path(npdl.__file__).parents[1]
ENGINE = ("npdl/core.py", "npdl/functions.py", "npdl/losses.py", "npdl/optim.py", "npdl/layers",
          "npdl/models", "npdl/adapt", "npdl_train/fast")


def versions():
    """{npdl, engine, python, numpy, blas, kernels, machine, processor}, and of a GPU's run {cupy,
    card, products}."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {
        "npdl": npdl.__version__,
        "engine": engine_digest(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas.get('name')} {blas.get('version')}",
        "kernels": kernels(),
        "machine": platform.machine(),
        "processor": processor(),
    }
    if not is_host():
        found |= {"cupy": xp.__version__, "card": card(),
                  "products": "TF32" if tf32() else "float32"}
    return found


def card():
    """The name of the GPU that computes: the first that CUDA shows."""
    return xp.cuda.runtime.getDeviceProperties(0)["name"].decode()


@functools.cache
def engine_digest(packages=PACKAGES):
    """Twelve hexadecimal digits of the code that computes a step: every file of ENGINE.

    Of the code alone: a comment, a docstring or a line broken elsewhere changes nothing. It is
    kept beside the bytecode with the sizes and times of the files, and computed where they differ.
    """
    files = [Path(__file__), *engine_files(packages)]        # this one says how it is computed
    stamp = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    kept = Path(importlib.util.cache_from_source(
        packages / "npdl" / "engine.py")).with_suffix(".json")
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        found = read_json(kept)
        if found["files"] == stamp:
            return str(found["digest"])
    digest = _digest(packages, files[1:])
    if not sys.dont_write_bytecode:
        with contextlib.suppress(CheckpointError):
            write_json(kept, {"files": stamp, "digest": digest})
    return digest


def engine_files(packages):
    """The files of ENGINE, below the folder of both packages."""
    return [path for name in ENGINE for path in (
        [packages / name] if name.endswith(".py") else sorted((packages / name).rglob("*.py")))]


def _digest(packages, files):
    total = hashlib.sha256()
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        total.update(json.dumps([path.relative_to(packages).as_posix(), spelt(tree)]).encode())
    return total.hexdigest()[:12]


def spelt(node):
    """A syntax tree as lists, without docstrings and empty fields: alike for every Python."""
    if isinstance(node, list):
        return [spelt(part) for part in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    body = fields.get("body")
    if isinstance(body, list) and body and not isinstance(node, ast.IfExp) and _is_words(body[0]):
        fields["body"] = body[1:]
    if isinstance(node, ast.JoinedStr):         # Python 3.12 puts an empty string between two
        fields["values"] = [part for part in node.values if getattr(part, "value", "?") != ""]
    return [type(node).__name__, *([name, spelt(value)] for name, value in fields.items()
                                   if value not in (None, []))]


def _is_words(statement):
    return (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str))


@functools.cache
def processor():
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines
                    if line.startswith(("model name", "Model", "Hardware")))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


@functools.cache
def kernels():
    """The processor that BLAS takes this one for: it chooses the order in which it adds."""
    found = {info.get("architecture") for info in threadpool_info()
             if info.get("user_api") == "blas"}
    return ", ".join(sorted(filter(None, found))) or "unknown"

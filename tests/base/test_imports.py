"""Which module of npdl needs which: no circles, downwards only, and each can be the first."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
         for path in sorted((ROOT / "npdl").rglob("*.py"))}
ORDER = ("data", "layers", "models", "decoding", "fast", "training", "study")


@cache
def imported(name, lazily=False):
    """The modules of npdl that a module imports when it is loaded, or also inside its functions."""
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    if not lazily:
        inside = {id(part) for node in nodes if isinstance(node, (ast.FunctionDef, ast.Lambda))
                  for part in ast.walk(node)}
        nodes = [node for node in nodes if id(node) not in inside]
    found = set()
    for node in nodes:
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            found |= {node.module, *(f"{node.module}.{each}" for each in names)}
        elif isinstance(node, ast.Import):
            found |= set(names)
    return (found & FILES.keys()) - {name, "npdl"}


def reached(name):
    """Every module that is loaded with this one, by way of others too."""
    found, left = set(), [name]
    while left:
        new = imported(left.pop()) - found
        found |= new
        left += new
    return found


def test_no_module_comes_back_to_itself():
    assert [name for name in FILES if name in reached(name)] == []


def test_imports_point_down():
    """A folder reads those before it in ORDER; the loop reads a study tool for --check alone."""
    upward = set()
    for name in FILES:
        place = name.split(".")[1] if name.count(".") else ""
        for other in imported(name, lazily=True) if place in ORDER else ():
            below = other.split(".")[1]
            if below in ORDER and ORDER.index(below) > ORDER.index(place):
                upward.add((name, other))
    assert upward == {("npdl.training.cli", "npdl.training.nonfinite")}
    assert "npdl.training.nonfinite" not in imported("npdl.training.cli")
    assert "npdl.fast.engine" not in imported("npdl.training.engine")


ALONE = """
import importlib, sys
kept = set(sys.modules)
for name in sys.argv[1:]:
    for other in set(sys.modules) - kept:
        if other.split(".")[0] == "npdl":
            del sys.modules[other]
    importlib.import_module(name)
"""


@pytest.mark.slow
def test_each_can_be_the_first():
    names = [name for name in FILES if not name.endswith("__main__")]
    done = subprocess.run([sys.executable, "-c", ALONE, *names], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr

"""Imports between the packages, and the names that npdl imports on demand."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import npdl
from npdl.study.check.samples import find_layer_classes

ROOT = Path(__file__).resolve().parents[2]
# The library, then the packages inside of npdl: each imports itself and those before it. Nothing
# imports the programs.
PACKAGES = ("npdl", "npdl.engine", "npdl.cli", "npdl.train", "npdl.study")
PROGRAMS = {"exercises", "experiments", "docs", "tests"}
# The commands of npdl/__main__.py and the names of npdl/__init__.py are looked up on demand.
ON_DEMAND = {"npdl/__init__.py", "npdl/__main__.py"}
# The third-party modules that npdl may import, and the files in which it may.
CUPY = ("npdl/backend.py", "npdl/engine/cuda_target.py")
OPTIONAL = {"cupy": CUPY, "cupyx": CUPY, "cupy_backends": ("npdl/engine/cublas.py",),
            "threadpoolctl": ("npdl/threads.py",)}


@functools.cache
def imports_of(path):
    """Return the packages that a file imports: one of PACKAGES, or a module's first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            found |= {package_of(node.module), *(package_of(f"{node.module}.{alias.name}")
                                                 for alias in node.names)}
            if node.module == "npdl":               # look up the module of each name
                found |= {package_of(npdl._MODULES.get(alias.name, "npdl")) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {package_of(alias.name) for alias in node.names}
    return found


def package_of(module):
    """Return the one of PACKAGES that a module belongs to, or its first name."""
    first, _, rest = module.partition(".")
    inner = f"{first}.{rest.partition('.')[0]}"
    return inner if inner in PACKAGES else first


def package_by_file():
    """Return {file of npdl: its package}."""
    files = [path.relative_to(ROOT) for path in (ROOT / "npdl").rglob("*.py")]
    return {file.as_posix(): package_of(".".join(file.with_suffix("").parts)) for file in files}


def test_packages_import_only_lower_packages():
    wrong = {}
    for file, package in package_by_file().items():
        higher = PROGRAMS | set(PACKAGES[PACKAGES.index(package) + 1:])
        if names := imports_of(ROOT / file) & higher - ({*PACKAGES} if file in ON_DEMAND
                                                        else set()):
            wrong[file] = names
    assert not wrong


def test_npdl_imports_only_numpy_and_the_standard_library():
    wrong = set()
    for file, package in package_by_file().items():
        if file not in ON_DEMAND and package in PACKAGES[:2]:
            others = imports_of(ROOT / file) - {*PACKAGES, "numpy"} - sys.stdlib_module_names
            wrong |= {(file, name) for name in others if file not in OPTIONAL.get(name, ())}
    assert wrong == set()


def test_every_name_is_there_and_every_layer_is_found_by_its_name():
    for name in npdl.__all__:
        value = getattr(npdl, name)
        assert value.__name__ == name and value.__module__ == npdl._MODULES[name]
    assert set(npdl.__all__) <= set(dir(npdl)) and len(npdl.__all__) <= 70
    found = set(find_layer_classes())           # in npdl.layers, models, adapt and losses
    assert {"Linear", "ResetAfterGRUCell", "GPT", "LoRALinear", "CrossEntropy"} <= found
    assert not {"Layer", "Cell", "ChannelNorm"} & found          # abstract ones
    with pytest.raises(AttributeError, match="module 'npdl' has no attribute 'LTSM'"):
        npdl.LTSM  # noqa: B018


def test_unused_packages_are_not_imported():
    code = """
import sys, npdl
assert not [m for m in sys.modules if m.startswith("npdl.")] and "numpy" not in sys.modules
from npdl import LSTM
assert "npdl.layers.recurrent" in sys.modules
assert not [m for m in sys.modules if m.startswith(("npdl.study", "npdl.models", "npdl.optim"))]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)

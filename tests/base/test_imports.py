"""Which package may import which, and what the library does with NumPy alone."""

import ast
import functools
import sys
from pathlib import Path

import npdl

ROOT = Path(__file__).resolve().parents[2]
# The library, then the packages inside of npdl: each imports itself and those before it. Nothing
# imports the programs.
PACKAGES = ("npdl", "npdl.engine", "npdl.cli", "npdl.train", "npdl.study")
PROGRAMS = {"exercises", "experiments", "docs", "tests"}
# The commands of npdl/__main__.py and the names of npdl/__init__.py are looked up on demand.
ON_DEMAND = {"npdl/__init__.py", "npdl/__main__.py"}
# The third-party modules that npdl may import, and the files in which it may.
CUPY = ("npdl/backend.py", "npdl/engine/cuda_target.py")
OPTIONAL = {"cupy": CUPY, "cupyx": CUPY, "cupy_backends": ("npdl/cublas.py",),
            "threadpoolctl": ("npdl/threads.py",)}


@functools.cache
def imported(path):
    """Return the packages that a file imports: one of PACKAGES, or a module's first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            found |= {package_of(node.module), *(package_of(f"{node.module}.{alias.name}")
                                                 for alias in node.names)}
            if node.module == "npdl":               # what the package's names are looked up in
                found |= {package_of(npdl._MODULES.get(alias.name, "npdl"))
                          for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {package_of(alias.name) for alias in node.names}
    return found


def package_of(module):
    """Return the one of PACKAGES that a module belongs to, or its first name."""
    first, _, rest = module.partition(".")
    inner = f"{first}.{rest.partition('.')[0]}"
    return inner if inner in PACKAGES else first


def sources():
    """Return {file: its package} of npdl."""
    files = [path.relative_to(ROOT) for path in (ROOT / "npdl").rglob("*.py")]
    return {file.as_posix(): package_of(".".join(file.with_suffix("").parts)) for file in files}


def test_packages_import_only_lower_packages():
    wrong = {}
    for file, package in sources().items():
        higher = PROGRAMS | set(PACKAGES[PACKAGES.index(package) + 1:])
        if names := imported(ROOT / file) & higher - ({*PACKAGES} if file in ON_DEMAND else set()):
            wrong[file] = names
    assert not wrong


def test_npdl_imports_only_numpy_and_the_standard_library():
    wrong = set()
    for file, package in sources().items():
        if file not in ON_DEMAND and package in PACKAGES[:2]:
            others = imported(ROOT / file) - {*PACKAGES, "numpy"} - sys.stdlib_module_names
            wrong |= {(file, name) for name in others if file not in OPTIONAL.get(name, ())}
    assert wrong == set()

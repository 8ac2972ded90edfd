"""Which package may import which, and what the library does with NumPy alone."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def imported(path):
    """Return the packages that a file imports: one of PACKAGES, or a module's first name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and not node.level:
            found |= {package_of(node.module), *(package_of(f"{node.module}.{alias.name}")
                                                 for alias in node.names)}
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


EACH_FIRST = """
import importlib, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    for other in set(sys.modules) - before:
        if other.split(".")[0] == "npdl":
            del sys.modules[other]
    importlib.import_module(name)
"""


@pytest.mark.slow
def test_each_module_can_be_imported_first():
    files = [path.relative_to(ROOT).with_suffix("").parts
             for path in (ROOT / "npdl").rglob("*.py")
             if path.name != "__main__.py" and "templates" not in path.parts
             and (path.name != "cuda_target.py" or importlib.util.find_spec("cupy"))]
    names = sorted(".".join(parts).removesuffix(".__init__") for parts in files)
    done = subprocess.run([sys.executable, "-c", EACH_FIRST, *names], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


README_ALONE = """
import re, sys
sys.modules["npdl.train"] = sys.modules["npdl.study"] = None    # an import of either fails
text = open(sys.argv[1], encoding="utf-8").read()
program = next(block for block in re.findall(r"```python\\n(.*?)```", text, re.S)
               if "optimizer.step()" in block)
exec(program.replace("range(200)", "range(3)"))
again = GPT(data.vocabulary.size, d_model=16, num_heads=2, max_len=data.sequence_length, rng=1)
again.load("gpt.safetensors")
assert (again.forward(batch.inputs)[0] == model.forward(batch.inputs)[0]).all()
from npdl.adapt import add_lora
from npdl.decoding import greedy
from npdl.decoding.continuation import continuation
add_lora(again, 2)
assert len(greedy(continuation(again, batch.inputs[0, :3]), 2)[0].tokens) == 2
"""


def test_the_library_trains_saves_and_decodes_without_the_other_packages(tmp_path):
    done = subprocess.run([sys.executable, "-c", README_ALONE, ROOT / "README.md"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


WITHOUT_STUDY = """
import sys
sys.modules["npdl.study"] = None                # an import of it, or of a part of it, fails
from experiments import train_gpt
from npdl.__main__ import main
run, *options = sys.argv[1:]
assert train_gpt.main([*options, "--for-steps", "2", "--out", run]) == 0
assert train_gpt.main(["--resume", "--quiet", "--out", run]) == 0
assert main(["ask", run, "1 + 2 ="]) == main(["generate", run, "1 + 2 ="]) == 0
assert main(["finetune", run, "--operator", "-", "--steps", "2", "--quiet"]) == 0
"""


@pytest.mark.slow
def test_commands_train_resume_and_generate_without_the_study_tools(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_STUDY, tmp_path / "run", "--p", "5", "--width", "8",
         "--heads", "2", "--layers", "1", "--steps", "4", "--quiet"], cwd=ROOT,
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 + 2 =" in done.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 4

"""Who imports whom: no circle, downwards only, not late, each can be the first; npdl by itself."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.base.import_graph import (
    FILES,
    ROOT,
    ROOTS,
    circle,
    imports,
    of_files,
    of_rooms,
    room_of,
)

ORDER = ("npdl", "npdl.layers", "npdl.models", "npdl.data", "npdl.decoding", "npdl.adapt",
         "npdl_train", "npdl_train.pretrained", "npdl_train.fast", "npdl_train.runs",
         "npdl_train.commands")


# Modules that import inside functions: what stands in PyTorch's own process, and what another
# Python imports before it knows where npdl is.
LATE = {"experiments.bench_cpu", "experiments.bench.gpu_sides", "tests.tools.cupy_on_cpu"}


@pytest.mark.parametrize("graph", [pytest.param(of_files, marks=pytest.mark.slow), of_rooms])
def test_no_way_of_imports_comes_back(graph):
    way = circle(graph(LATE))
    assert way is None, "a circle: " + " -> ".join(way)


def test_a_circle_is_found_and_its_way_told():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}
    assert circle(graph) == ["b", "d", "b"]
    assert circle({**graph, "d": {"c"}}) is None


def test_nothing_is_imported_late_but_by_commands():
    """A command imports what it is asked for: __main__ alone."""
    late = {f"{name}: {other}" for name in FILES for other in imports(name)[1]
            if not name.endswith(".__main__") and name not in LATE}
    assert not late, "\n".join(sorted(late))


def test_imports_point_down():
    upward = {f"{name}: {other}" for name in FILES if name.startswith(("npdl.", "npdl_train."))
              and not name.endswith(".__main__") for other in imports(name)[0]
              if ORDER.index(room_of(other)) > ORDER.index(room_of(name))}
    assert not upward, "\n".join(sorted(upward))


def test_a_name_leads_to_one_file():
    """Every folder of modules is a package, and the root alone is where they are looked for."""
    odd = [path for root in ROOTS for path in (ROOT / root).rglob("*.py")
           if not (path.parent / "__init__.py").exists()
           and path.parent.name not in ("notebooks", "corpus")]         # read as texts
    assert odd == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["pythonpath"] == ["."]


@pytest.mark.parametrize("init", sorted(ROOT.glob("npdl_study/*/__init__.py")),
                         ids=lambda init: init.parent.name)
def test_a_room_says_what_stands_in_it(init):
    """Its own words name each of its modules."""
    said = set(re.findall(r"\w+", ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))))
    assert {path.stem for path in init.parent.glob("*.py")} - {"__init__"} <= said


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
    names = [name for name in FILES if name.startswith("npdl") and not name.endswith("__main__")]
    done = subprocess.run([sys.executable, "-c", ALONE, *names], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


# At most so many lines of Python in a package: who needs more moves its figure by hand, in the same
# commit, and says what for. Of npdl 50 are a Llama's decoding, of npdl_train 370 a Llama's step of
# LoRA; of npdl_study 30 homework's split, join, positions and accuracy, 40 blame's gradients that
# forward makes, 10 parameters that an object of one's own holds. Since then 10 of npdl_train name a
# run's GPU and spell code alike for every Python, 10 of npdl_study are blame's limits in its table;
# 420 are of blame: mistakes in lambdas and in the arguments of calls, gradients that begin with
# something, are stored elsewhere, or have another's shape, and where a backward that raises went
# wrong before; 80 are for the statements that wrong gradients alone are made of, and for views that
# stay inside of their arrays; 80 are for sizes that stay sizes, a dL_dw beside weights, and budgets
# that hold.
BUDGET = {"npdl": 7200, "npdl_train": 10330, "npdl_study": 15630}
LONGEST = {"npdl": 300, "npdl_train": 400, "npdl_study": 400}      # lines of a file


@pytest.mark.parametrize("package", BUDGET)
def test_a_package_keeps_to_its_lines(package):
    lines = {path: len(path.read_text(encoding="utf-8").splitlines())
             for path in (ROOT / package).rglob("*.py")}
    assert sum(lines.values()) <= BUDGET[package]
    assert [path for path, count in lines.items() if count > LONGEST[package]] == []


HANDED_ON = {"npdl/__init__.py", "npdl/__main__.py"}
# What npdl may import beside Python's own modules, and where.
OTHERS = {"cupy": "npdl/backend.py", "cupyx": "npdl/backend.py",
          "cupy_backends": "npdl/cublas.py", "threadpoolctl": "npdl/threads.py"}


def test_npdl_imports_numpy_and_itself():
    odd = set()
    for path in (ROOT / "npdl").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = ([node.module] if isinstance(node, ast.ImportFrom)
                       else [alias.name for alias in getattr(node, "names", ())]
                       if isinstance(node, ast.Import) else [])
            odd |= {(name, module) for module in {m.partition(".")[0] for m in modules}
                    - {"npdl", "numpy"} - sys.stdlib_module_names
                    if name not in HANDED_ON and OTHERS.get(module) != name}
    assert odd == set()


READ_ALONE = """
import re, sys
sys.modules["npdl_train"] = sys.modules["npdl_study"] = None    # an import of either fails
program, _ = re.findall(r"```python\\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S)
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


def test_npdl_trains_saves_and_decodes_where_the_other_packages_are_not(tmp_path):
    """The README's training loop, with npdl alone."""
    done = subprocess.run([sys.executable, "-c", READ_ALONE, ROOT / "README.md"], cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


BY_ITSELF = """
import sys
sys.modules["npdl_study"] = None                # an import of it, or of a part of it, fails
from npdl.__main__ import main
run, *options = sys.argv[1:]
assert main(["train-gpt", *options, "--for-steps", "2", "--out", run]) == 0
assert main(["train-gpt", "--resume", "--quiet", "--out", run]) == 0
assert main(["ask", run, "1 + 2 ="]) == main(["generate", run, "1 + 2 ="]) == 0
assert main(["finetune", run, "--operator", "-", "--steps", "2", "--quiet"]) == 0
"""


@pytest.mark.slow
def test_npdl_trains_resumes_and_generates_without_the_study_tools(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BY_ITSELF, tmp_path / "run", "--p", "5", "--width", "8", "--heads",
         "2", "--layers", "1", "--steps", "4", "--quiet"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 + 2 =" in done.stdout
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["steps"] == 4

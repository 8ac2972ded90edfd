"""`python -m npdl single MODEL`: a file that needs NumPy alone and computes what npdl computes."""

import ast
import functools
import subprocess
import sys

import pytest

import npdl
from npdl.errors import InputError
from npdl_train.commands.single import LOOPS, loop_of, single
from tests.tools import slow

STEPS = "range(200)"
made_of = functools.cache(single)


def ran(text, capsys):
    exec(compile(text, "<single>", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.mark.parametrize("name", slow.but(["LSTMLM", "GPT"], list(LOOPS)))
def test_each_model_in_a_file_computes_the_same_digits(capsys, name):
    made, short = made_of(name), "range(51)"
    assert made.count(STEPS) == 1
    names = ", ".join(sorted(npdl.__all__))
    loop = "\n".join(line[4:] for line in loop_of(name).splitlines())
    theirs = f"import numpy as np\nfrom npdl import {names}\n{loop}"
    found = ran(made.replace(STEPS, short), capsys)
    assert found == ran(theirs.replace(STEPS, short), capsys) and found.count("\n") == 2


@pytest.mark.parametrize("name", slow.but(["MLP"], list(LOOPS)))
def test_each_file_learns_by_itself(tmp_path, name):
    path = tmp_path / f"{name.lower()}.py"
    path.write_text(single(name), encoding="utf-8")
    done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("\n") == 5, done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_nothing_in_it_is_npdls_doors_or_is_missing(name):
    text = made_of(name)
    imported = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.Import, ast.ImportFrom))}
    assert imported <= {"numpy", "math", "copy", "contextlib"}
    for word in ("InputError", "is_host", "xp.", "cupy", "require_"):
        assert word not in text, word
    assert max(map(len, text.splitlines())) <= 100


def test_an_unknown_model_is_refused():
    with pytest.raises(InputError, match="model 'LSTM' is unknown; give one of: GPT, "):
        single("LSTM")

"""What computed a run: the engine's digest follows the code, and only that."""

import ast
import copy
import json
import os
import sys

import pytest

from npdl_train.runs import versions
from npdl_train.runs.config import Config
from npdl_train.runs.run import resumed_config, train

CODE = '''"""Words."""


def f(x):
    """More words."""
    return x + 1    # why
'''


def package(folder, code, more=""):
    """A package of one engine file, and something beside it."""
    for name in versions.ENGINE:
        place = folder / name
        if place.suffix:
            place.parent.mkdir(exist_ok=True)
            place.write_text(code)
        else:
            place.mkdir(parents=True, exist_ok=True)
            (place / "a.py").write_text(code)
    (folder / "script.py").write_text(more)
    return versions.engine_digest.__wrapped__(folder)


@pytest.mark.parametrize("code, same", [
    (CODE.replace("# why", "# because"), True), (CODE.replace("More words.", "Other."), True),
    (CODE.replace("x + 1", "(x +\n            1)"), True), (CODE.replace("+ 1", "+ 2"), False),
    (CODE.replace("x + 1", "1 + x"), False), (CODE + "\n\nf(2)\n", False),
])
def test_the_digest_is_of_the_code_alone(tmp_path, code, same):
    before = package(tmp_path, CODE)
    assert package(tmp_path, CODE, "print()") == before and len(before) == 12
    assert (package(tmp_path, code) == before) is same


def test_an_f_string_is_spelt_alike_by_every_python():
    """Python 3.12 parses nothing between two replaced fields, or before one, as a string of it."""
    (of_311,) = ast.parse('f"{a}{b}"').body
    of_312 = copy.deepcopy(of_311)
    of_312.value.values.insert(1, ast.Constant(""))
    assert versions.spelt(of_312) == versions.spelt(of_311)
    of_312.value.values[1] = ast.Constant(" ")
    assert versions.spelt(of_312) != versions.spelt(of_311)


def test_the_digest_is_kept_until_a_file_has_another_size_or_time(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "npdl" / "__pycache__").mkdir(parents=True)
    first, digest = package(tmp_path, CODE), versions.engine_digest.__wrapped__
    (kept,) = (tmp_path / "npdl" / "__pycache__").iterdir()
    changed, path = CODE.replace("+ 1", "+ 2"), tmp_path / "npdl" / "core.py"
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_text(changed)
    os.utime(path, ns=times)
    assert digest(tmp_path) == first                    # it was not read again
    os.utime(path)
    second = digest(tmp_path)
    assert second != first and digest(tmp_path) == second
    for damage in ("", "[]", '{"files": 1}'):
        kept.write_text(damage)
        assert digest(tmp_path) == second


def test_this_machine_is_named():
    found = versions.versions()
    assert all(isinstance(value, str) and value for value in found.values())
    assert found["engine"] == versions.engine_digest()


def test_a_run_that_other_code_goes_on_with_says_so(tmp_path, capsys):
    config = Config(p=5, width=8, heads=2, steps=3, threads=1)
    train(config, tmp_path, quiet=True)
    path = tmp_path / "config.json"
    saved = json.loads(path.read_text())
    now, saved["versions"]["engine"] = saved["versions"]["engine"], "0123456789ab"
    path.write_text(json.dumps(saved))
    for steps in (4, 5):
        train(resumed_config(tmp_path, {"steps": steps}), tmp_path, resume=True, quiet=True)
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert "was begun by engine 0123456789ab" in line and "may round otherwise" in line
        assert json.loads(path.read_text())["versions"]["engine"] == f"0123456789ab+{now}"

"""A class of pretended students: each gets its points, and none can stop or touch the rest."""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import COMMANDS, main
from npdl.backend import xp
from npdl_study.check import gradcheck
from npdl_study.homework import homework_class, homework_worker
from npdl_study.homework import homework_grade as grade
from npdl_study.homework.assignment import homework
from npdl_study.homework.blanks import loaded

RIGHT = """
        rows, dy_rows = cache.rows, dy.reshape(-1, dy.shape[-1])
        self.W.grad += rows.T @ dy_rows
        self.b.grad += sum_rows(dy_rows)
        return (dy_rows @ self.W.data.T).reshape(cache.shape)
"""
# What a student writes: the body of Linear.backward, after AT_LOAD what ends the file.
AT_LOAD = "# at load\n"
BORROWED = """
        own = OWN
        return own.backward(self, dy, cache)
"""
DIFFERENCES = """
        x, found = cache.rows.reshape(cache.shape), []
        for array in (self.W.data, self.b.data, x):
            found.append(np.zeros_like(array))
            for i in np.ndindex(array.shape):
                kept, sides = array[i], []
                for h in (1.0, -1.0):
                    array[i] = kept + h
                    sides.append((self.FORWARD(x)[0] * dy).sum())
                    array[i] = kept
                found[-1][i] = (sides[0] - sides[1]) / 2
        self.W.grad += found[0]
        self.b.grad += found[1]
        return found[2]
"""
STUDENTS = {        # and the points of Linear
    "right": (RIGHT, 3),
    "wrong": (RIGHT.replace("rows.T @ dy_rows", "2 * (rows.T @ dy_rows)"), 0),
    "rude": (RIGHT.replace("rows, dy_rows", "dy *= 1.0 + 1e-6; rows, dy_rows"), 0),
    "blank": (None, 0),
    "endless": ("\n        while True:\n            pass\n", 0),
    "stubborn": ("\n        while True:\n            try:\n                while True:\n"
                 "                    pass\n            except BaseException:\n"
                 "                pass\n", 0),
    "crashing": ("\n        import os\n        os.abort()\n", 0),
    "leaving": ("\n        import os\n        os._exit(0)\n", 0),
    "hungry": ("\n        return np.ones((1 << 40,))\n", 0),
    "borrowed": ("\n        from npdl.layers.linear import Linear as Own\n"
                 "        return Own.backward(self, dy, cache)\n", 0),
    "writing": ("\n        open(VICTIM, 'w').write('x')\n", 0),
    "removing": ("\n        import shutil\n        shutil.rmtree(FOLDER)\n", 0),
    "moving": ("\n        import os\n        os.rename(VICTIM, 'own')\n", 0),
    "calling": ("\n        import subprocess\n        subprocess.run(['true'])\n", 0),
    "spawning": ("\n        from multiprocessing import util\n"
                 "        util.spawnv_passfds(b'/bin/sh', ['sh', '-c', '>' + VICTIM + '2'], [])"
                 "\n", 0),
    "threading": ("\n        import threading\n"
                  "        threading.Thread(target=print).start()\n", 0),
    "storing": ("\n        import sqlite3\n        sqlite3.connect(VICTIM + '2')\n", 0),
    "descending": ("\n        import os\n        os.makedirs('a/b/c')\n        os.chdir('a/b/c')\n",
                   0),
    "compiling": ("\n        import shutil, _json\n"
                  "        shutil.copyfile(_json.__file__, 'own.so')\n        import own\n", 0),
    "flooding": ("\n        import os\n        while True:\n            for n in range(3, 9):\n"
                 "                try:\n                    os.write(n, bytes(1 << 20))\n"
                 "                except OSError:\n                    pass\n", 0),
    "copying": (BORROWED.replace("OWN", "CODE.module_from_spec(SPEC); SPEC.loader.exec_module(own);"
                                 " own = own.Linear") + AT_LOAD
                + "import importlib.util as CODE\nimport npdl.layers.linear as npdl_own\n"
                "SPEC = CODE.spec_from_file_location('other', npdl_own.__file__)\n", 0),
    "hiding": (BORROWED.replace("OWN", "npdl_own.Linear; sys.setprofile(None)") + AT_LOAD
               + "import sys\nimport npdl.layers.linear as npdl_own\n", 0),
    "differencing": (DIFFERENCES.replace("FORWARD", "forward"), 0),
    "patching": ("\n        return dy\n" + AT_LOAD + "from npdl_study import homework_grade as g\n"
                 "g.assert_outputs = g.assert_gradients = lambda *a, **k: None\n"
                 "g.assert_manners = g.assert_own = g.assert_outputs\n", 0),
    "bending": ("\n        return dy\n" + AT_LOAD + "from npdl_study.check.gradcheck import Report\n"
                "Report.ok.__code__ = (lambda self, limit=0: True).__code__\n", 0),
    "numpy": (RIGHT.replace("rows, dy_rows", "np.abs = np.zeros_like; rows, dy_rows"), 0),
    "encoding": ("\n        return dy\n" + AT_LOAD + "import json\n"
                 "json.JSONEncoder.encode = lambda self, o: str([o[0], '']).replace(\"'\", '\"')\n",
                 0),
    "boasting": ("\n        import os\n        for n in range(1, 9):\n"
                 "            try:\n                os.write(n, b'[\"gradients\", \"\"]\\n')\n"
                 "            except OSError:\n                pass\n        return dy\n", 0),
}
REASONS = {
    "wrong": "W.grad", "blank": "yours to write", "endless": "not at an end after 5 seconds",
    "stubborn": "not at an end", "crashing": "ended by signal 6",
    "leaving": "ended the program before its tests", "hungry": "MemoryError",
    "borrowed": "npdl's own", "writing": "PermissionError", "removing": "PermissionError",
    "moving": "PermissionError", "calling": "PermissionError", "spawning": "PermissionError",
    "threading": "PermissionError", "storing": "ImportError", "descending": "os.chdir",
    "compiling": "import own is not allowed", "flooding": "not at an end", "copying": "npdl's own",
    "hiding": "sys.setprofile is not allowed", "differencing": "calls forward: derive it",
    "patching": "changes npdl_study.homework.homework_grade.assert_",
    "bending": "changes npdl_study.check.gradcheck.Report.ok.__code__",
    "numpy": "changes numpy.abs", "encoding": "changes json.",
}


def hand_in(tmp_path, bodies):
    """A homework of Linear, and a class of which each student has written a body."""
    homework(tmp_path / "homework", ["Linear"])
    text = (tmp_path / "homework" / "linear.py").read_text()
    begin = text.index("        # Yours to write")
    end = text.index("\n\n\ndef sum_rows")
    for name, body in bodies.items():
        folder = tmp_path / "class" / name
        folder.mkdir(parents=True)
        body, _, at_load = (body or text[begin:end]).partition(AT_LOAD)
        (folder / "linear.py").write_text(text[:begin] + body + text[end:] + at_load)


def graded(tmp_path, *options):
    """(exit status, grades.json, rows of grades.csv) of the class."""
    status = main(["homework", "grade", str(tmp_path / "class"), "--homework",
                   str(tmp_path / "homework"), "--out", str(tmp_path / "grades"), *options])
    rows = csv.DictReader((tmp_path / "grades" / "grades.csv").read_text().splitlines())
    return status, json.loads((tmp_path / "grades" / "grades.json").read_text()), list(rows)


@pytest.mark.slow
def test_a_class(tmp_path, capsys):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "grades").write_text("kept")
    hand_in(tmp_path, {
        name: body and body.replace("VICTIM", repr(str(victim / "grades"))).replace(
            "FOLDER", repr(str(victim))) for name, (body, _) in STUDENTS.items()})
    (tmp_path / "class" / "absent").mkdir()
    status, grades, rows = graded(tmp_path, "--limit", "5")
    assert status == 0 and "right: 3 of 3\n" in capsys.readouterr().out
    for name, (_, points) in STUDENTS.items():
        task = grades["submissions"][name]["tasks"]["Linear"]
        assert task["points"] == points, (name, task)
        if points < 3 and name in REASONS:
            assert any(REASONS[name] in why for why in task["checks"].values()), (name, task)
    assert "is not there" in grades["submissions"]["absent"]["tasks"]["Linear"]["checks"]["runs"]
    assert {row["submission"]: int(row["points"]) for row in rows} == {
        "absent": 0, **{name: points for name, (_, points) in STUDENTS.items()}}
    assert (victim / "grades").read_text() == "kept" and len(list(victim.iterdir())) == 1


def test_the_students_file_is_graded_not_one_of_the_teachers(tmp_path, monkeypatch):
    """A solved linear.py beside the grader is nobody's; a name is no formula of a spreadsheet."""
    hand_in(tmp_path, {"=right": RIGHT, "wrong": RIGHT.replace("rows.T @", "2 * rows.T @")})
    solved = (tmp_path / "class" / "=right" / "linear.py").read_text()
    (tmp_path / "solved").mkdir()
    (tmp_path / "solved" / "linear.py").write_text(solved)
    monkeypatch.chdir(tmp_path / "solved")
    monkeypatch.syspath_prepend(tmp_path / "solved")        # as `python -m npdl` does
    status, grades, rows = graded(tmp_path)
    points = {name: found["points"] for name, found in grades["submissions"].items()}
    assert status == 0 and points == {"=right": 3, "wrong": 0}
    assert [row["submission"] for row in rows] == ["'=right", "wrong"]


@pytest.mark.parametrize("limit, own, why", [
    ("0.01", "Linear.backward", "not at an end after 0.01 seconds before student code was read"),
    ("60", "Linear.nothing", "has no attribute 'nothing'"),         # homework of another npdl
])
def test_what_the_grader_fails_at_costs_no_points(tmp_path, capsys, limit, own, why):
    """A process that dies before it reads student code is an error of the grader's."""
    hand_in(tmp_path, {"right": RIGHT})
    tests = tmp_path / "homework" / "test_homework.py"
    tests.write_text(tests.read_text().replace("Linear.backward", own))
    status, grades, rows = graded(tmp_path, "--limit", limit)
    said = capsys.readouterr()
    assert status == 2 and "1 of 1 submissions are not graded" in said.err
    assert said.out.startswith("right: not graded: Linear: ") and why in said.out
    assert grades["submissions"]["right"]["points"] is None
    assert rows[0]["Linear"] == rows[0]["points"] == "not graded"


def test_limits_below_the_graders_own_are_kept():
    """As under `ulimit -v 3500000`."""
    pytest.importorskip("resource")
    ran = subprocess.run([sys.executable, "-c", (
        "import resource; which = resource.RLIMIT_AS; least = 3500000 << 10\n"
        "resource.setrlimit(which, (least, least))\n"
        "from npdl_study import homework_worker; homework_worker.limit()\n"
        "assert resource.getrlimit(which) == (least, least)\n"
        "assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == 16 << 20")],
        capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_what_a_process_has_started_ends_with_it():
    process = subprocess.Popen(["sh", "-c", "sleep 20 & echo started; wait"], text=True,
                               stdout=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdout.readline() == "started\n"
        began = time.monotonic()
        homework_class._kill(process)
        assert process.stdout.read() == "" and time.monotonic() - began < 10    # sleep held it


def test_what_student_code_changes_is_seen(monkeypatch):
    """A name, a method's code, a registry's entry, another module under the same name."""
    before = homework_worker.kept()
    assert homework_worker.altered(before) == ""
    for change, said in [
        (lambda m: m.setattr(np, "abs", np.zeros_like), "numpy.abs"),
        (lambda m: m.setattr(gradcheck.Report.ok, "__defaults__", (1.0,)),
         "npdl_study.check.gradcheck.Report.ok.__defaults__"),
        (lambda m: m.setitem(COMMANDS, "homework", None), "npdl.__main__.COMMANDS.homework"),
        (lambda m: m.setattr(xp, "arctan", np.zeros_like), "npdl.backend.xp.arctan"),
        (lambda m: m.setitem(sys.modules, "npdl.core", np), "sys.modules.npdl.core"),
        (lambda m: m.setattr(json.JSONEncoder, "encode", str), "json.encoder.JSONEncoder.encode"),
        (lambda m: m.setattr("builtins.max", min), "builtins.max"),
    ]:
        with monkeypatch.context() as changing:
            change(changing)
            seen = homework_worker.altered(before)
        assert seen == said
        assert homework_worker.altered(before) == ""


def test_differences_are_no_derivation(tmp_path):
    hand_in(tmp_path, {"same": DIFFERENCES.replace("FORWARD", "forward"), "right": RIGHT,
                       "npdls": DIFFERENCES.replace("self.FORWARD", "Own.forward(self, ").replace(
                           "Own.forward(self, (x)", "Own.forward(self, x)")
                       + AT_LOAD + "from npdl import Linear as Own\n"})
    for name in ("same", "npdls", "right"):
        text = (tmp_path / "class" / name / "linear.py").read_text()
        cls = loaded(text, "linear").Linear
        grade.assert_gradients(cls)
        if name == "right":
            grade.assert_own(cls, ["npdl.layers.linear:Linear.backward"])
        else:
            with pytest.raises(AssertionError, match="backward calls forward: derive it"):
                grade.assert_own(cls, ["npdl.layers.linear:Linear.backward"])


@pytest.mark.parametrize("what, said", [
    (["nothing", "--homework", "homework"], "cannot be read"),
    (["empty", "--homework", "homework"], "holds no folders"),
    (["class", "--homework", "empty"], "is no folder that `python -m npdl homework` wrote"),
    (["class", "--homework", "homework", "--limit", "0"], "--limit 0"),
    (["class", "--homework", "homework", "--jobs", "0"], "--jobs 0"),
])
def test_what_cannot_be_graded(what, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    homework("homework", ["Tanh"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "class" / "one").mkdir(parents=True)
    assert main(["homework", "grade", *what, "--out", "grades"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "grades").exists()


@pytest.mark.parametrize("hidden", [
    "    def params(self, prefix=''):\n        return []\n",
    "    @classmethod\n    def sample(cls):\n        return cls(3, 4), np.zeros((0, 3))\n",
    "    def count(self):\n        self.params = lambda prefix='': []\n",
])
def test_no_layer_brings_its_own_params_or_numbers(tmp_path, hidden):
    """Else a backward that leaves W and b without a gradient would be right."""
    hand_in(tmp_path, {"hiding": "\n        return dy @ self.W.data.T\n"})
    text = (tmp_path / "class" / "hiding" / "linear.py").read_text()
    text = text.replace("    def backward(", hidden + "\n    def backward(")
    text = text.replace("    def forward(self, x):\n", "    def forward(self, x):\n" + (
        "        self.count()\n" if "count" in hidden else ""))
    cls = loaded(text, "linear").Linear
    grade.assert_gradients(cls)
    with pytest.raises(AssertionError, match="(params|sample) of its own"):
        grade.assert_own(cls, [])

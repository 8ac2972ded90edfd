"""A class of pretended students: each gets its points, and none can stop or touch the rest."""

import contextlib
import csv
import io
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import main
from npdl_study.homework import grading, isolated
from npdl_study.homework.assignment import homework
from npdl_study.homework.grading import grade_class
from npdl_study.homework.judging import questions
from npdl_study.homework.submissions import NotOwn
from npdl_train.process import SEALS
from tests.study.test_homework import ALL, solved
from tests.study.test_judging import styled
from tests.tools import slow

pytestmark = pytest.mark.skipif((sys.platform, platform.machine()) not in SEALS,
                                reason="needs Linux's seccomp")
ROOT = Path(__file__).parents[2]
RIGHT = """
        rows, dy_rows = cache.rows, dy.reshape(-1, dy.shape[-1])
        self.W.grad += rows.T @ dy_rows
        self.b.grad += sum_rows(dy_rows)
        return (dy_rows @ self.W.data.T).reshape(cache.shape)
"""
ZEROS = """
        return np.zeros(cache.shape, dy.dtype)
"""
# name: (the body of Linear.backward, what is done to the whole file, points, words of the reason)
STUDENTS = {
    "right": (RIGHT, None, 3, ""),
    "wrong": (RIGHT.replace("rows.T @", "2 * rows.T @"), lambda text:
              text + "\n\nopen('/tmp/npdl-written', 'w').write('the whole file was run')\n", 0,
              "the gradient of W is wrong"),
    "two_axes": (RIGHT.replace("sum_rows(dy_rows)", "dy.sum(0)"), None, 1, "(more axes; x ("),
    "rude": (RIGHT.replace("rows, dy_rows", "dy *= 2; dy = dy / 2; rows, dy_rows"),
             None, 2, "dy is written into"),
    "sets": (RIGHT.replace("W.grad +=", "W.grad ="), None, 2, "never `self.W.grad = ...`"),
    "blank": (None, None, 0, "is yours to write; the equation: y = x W + b"),
    "helped": (RIGHT.replace("rows.T @ dy_rows", "product(self, rows, dy_rows)"), lambda text:
               text.replace("    def backward(", "    def turned(self, a):\n        return a.T\n\n"
                            "    def backward(") +
               "\n\nHALF = 0.5\n\n\ndef product(layer, a, b):\n"
               "    return layer.turned(a) @ b * HALF * 2\n\n\n"
               "raise SystemExit('no helper: not run')\n", 3, ""),
    "stylish": (RIGHT, styled, 3, ""),
    "lying": ("\n        raise NotImplementedError('\\x1b[2J\\n=1+1')\n", None, 0,
              "not written: ?[2J =1+1"),
    "greek": (RIGHT.replace("dy_rows", "µ"), lambda text: "# coding: latin-1\n" + text, 3, ""),
    "raising": (RIGHT.replace("rows.T @", "rows @"), None, 0,
                ": self.W.grad += rows @ dy_rows)"),
    "forward": (ZEROS, lambda text: text.replace("        y = ", "        y = 0 * x[..., :1] + ", 1)
                .replace("return y, Cache(", "return 0 * y, Cache("), 0, "the gradient of x"),
    "endless": ("\n        while True:\n            pass\n", None, 0, "not at an end after 3 s"),
    "crashing": ("\n        np.asarray(type('Far', (), {"
                 "'__array_interface__': {'shape': (9,), 'typestr': '<f8', 'data': (8, False),"
                 " 'version': 3}})()).sum()\n", None, 0, "ended by signal"),
    "beyond": ("\n        np.lib.stride_tricks.as_strided(dy, (1 << 40,), (8,)).sum()\n", None, 0,
               "reaches beyond the array"),
    "hungry": ("\n        return np.ones(1 << 40)\n", None, 0, "MemoryError"),
    "leaving": ("\n        raise KeyboardInterrupt\n", None, 0, "ended the program before"),
    "float32": (RIGHT.replace("rows, dy_rows", "dy = dy if dy.dtype == 'float64' else 2 * dy\n"
                              "        rows, dy_rows"), None, 1, "(in float32; x ("),
    "borrowed": ("\n        from npdl.layers.linear import Linear as Own\n"
                 "        return Own.backward(self, dy, cache)\n", None, 0,
                 "imports npdl.layers.linear: write it here"),
    "differencing": ("\n        return self.forward(dy)[0]\n", None, 0,
                     "uses forward: derive it"),
    "complex": (RIGHT.replace("dy.reshape", "(dy + 0j).imag.reshape"), None, 0,
                ": derive it, differences and others' code"),
    "reading": ("\n        exec(open('/etc/passwd').read())\n", None, 0,
                ": derive it, differences and others' code"),
    "pickled": ("\n        return np.array([object()])\n", None, 0, "the gradient of"),
    "a text": (RIGHT, lambda text: text + "\0", 0, "can't be read"),
    "caf\udce9 \x1b[31m=": (RIGHT, None, 3, ""),
    "=1+1": (RIGHT, None, 3, ""),
}


# The same of Tanh.backward; what is built out of characters no reader of the text sees.
HIDDEN = {
    "npdl's own": ("""
        own = next(cls for cls in Layer.__subclasses__() if cls.__name__ == "Tanh")
        return own.backward(self, dy, cache)
""", None, 0, "is not in this process"),
    "another's": ("""
        other = next(cls for cls in Layer.__subclasses__() if cls.__name__ == "Sigmoid")
        return 2 * other.backward(other(), 2 * dy, Cache(y=(1 + cache.y) / 2))
""", None, 0, "is not in this process"),
    "differences": ("""
        x, h = xp.arctanh(cache.y), 0.05
        f = getattr(type(self), "for" + "ward")
        t = [(f(self, x + h / 2**k)[0] - f(self, x - h / 2**k)[0]) / (2 * h / 2**k)
             for k in range(6)]
        for m in range(1, 6):
            t = [(4**m * b - a) / (4**m - 1) for a, b in zip(t, t[1:])]
        return dy * t[0]
""", None, 0, "forward is not in this process"),
    "killed": ("""
        from collections import _sys
        _sys.modules["os"].kill(_sys.modules["os"].getpid(), 9)
""", None, 0, "Operation not permitted"),
}


def hand_in(folder, students, beside="", layer="Linear"):
    """A homework folder of a layer, and a class folder with these bodies of its backward."""
    (file, given), = homework(folder / "homework", [layer]).files.items()
    head, hole = given.split("        # Yours to write")
    tail = hole[hole.index("\n        )\n") + len("\n        )\n"):]
    for name, (body, change, *_) in students.items():
        text = given if body is None else head + body.lstrip("\n") + tail
        place = folder / "class" / name / beside
        place.mkdir(parents=True)
        (place / file).write_text(change(text) if change else text)


def graded(folder, *options):
    """(exit status, grades.json, rows of grades.csv) of the command."""
    status = main(["homework", "grade", str(folder / "class"), "--homework",
                   str(folder / "homework"), "--out", str(folder / "grades"), *options])
    rows = csv.DictReader(io.StringIO((folder / "grades" / "grades.csv").read_text()))
    return status, json.loads((folder / "grades" / "grades.json").read_text()), list(rows)


@pytest.mark.slow
def test_a_class(tmp_path, capsys):
    hand_in(tmp_path, STUDENTS)
    status, _, rows = graded(tmp_path, "--limit", "3")
    said = capsys.readouterr().out
    assert status == 0 and said.startswith("note: ") and "container" in said
    assert not Path("/tmp/npdl-written").exists()
    assert "right: 3 of 3\n" in said and "blank: 0 of 3\n" in said and "\x1b" not in said
    shown = {name: name.replace("\x1b", "\\x1b").replace("\udce9", "\\udce9")
             for name in STUDENTS}
    found = {row["submission"].lstrip("'"): row for row in rows}
    for name, (_, _, points, words) in STUDENTS.items():
        row = found[shown[name]]
        assert row["points"] == row["Linear"] == str(points), (name, row)
        assert words in row["reason"] and bool(words) == bool(row["reason"]), (name, row)
    lines = (tmp_path / "class" / "raising" / "linear.py").read_text().splitlines()
    number = lines.index("        self.W.grad += rows @ dy_rows") + 1
    assert f"(linear.py, line {number}: self.W.grad" in found["raising"]["reason"]
    assert "'=1+1" in {row["submission"] for row in rows}
    assert len(list((tmp_path / "grades" / "students").iterdir())) == len(STUDENTS)
    letter = (tmp_path / "grades" / "students" / "wrong.txt").read_text()
    assert letter.startswith("wrong: 0 of 3\n\nLinear: 0 of 3\n  the gradient of W is wrong, by")


def test_no_two_submissions_are_asked_the_same():
    (_, one), (_, another) = (questions("Linear", seed, False) for seed in (1, 2))
    assert not np.array_equal(one["sample/gradient/x"], another["sample/gradient/x"])
    assert one["more axes/gradient/x"].shape != another["more axes/gradient/x"].shape


def test_what_is_hidden_is_not_there(tmp_path, capsys):
    """No right answer, no forward and no other layer's backward is in the process."""
    hand_in(tmp_path, HIDDEN, layer="Tanh")
    found = {row["submission"]: row for row in graded(tmp_path)[2]}
    for name, (_, _, points, words) in HIDDEN.items():
        assert found[name]["points"] == str(points) and words in found[name]["reason"], found[name]


def test_what_else_a_layer_has_is_there(tmp_path, capsys):
    hand_in(tmp_path, {"sizes": ("""
        assert self.own.sizes
        return self.own.backward(dy, cache.own), self.relu.backward(dy, cache.relu)
""", None)}, layer="AddReLU")
    assert graded(tmp_path)[2][0]["reason"] == ""


@pytest.mark.slow
def test_odd_folders(tmp_path, capsys):
    """Names that look alike keep their own grades and letters; a task handed in twice is for the
    teacher; a link and what is no zip have no points; what is neither folder nor zip is named."""
    long = "n" * 245
    right, blank = STUDENTS["right"], STUDENTS["blank"]
    hand_in(tmp_path, {"v\\x01'": right, "v\\x01": blank, "v\x01": blank, f"{long}_right": right,
                       f"{long}_wrong": blank, "twice/a": blank, "twice/b": right})
    (tmp_path / "class" / "link").symlink_to(f"{long}_right")
    for name in (".hidden", "zipped"):
        (tmp_path / "class" / name).mkdir()
    for name in ("zoe\n.zip", "zipped/hw.zip"):
        (tmp_path / "class" / name).touch()
    status, grades, _ = graded(tmp_path)
    points = {name: found["Linear"]["points"] for name, found in grades["submissions"].items()}
    assert status == 2 and points == {
        "v\\\\x01'": 3, "v\\\\x01": 0, "v\\x01": 0, f"{long}_right": 3, f"{long}_wrong": 0,
        "twice": None, "link": 0, "zipped": 0, "zoe\\n.zip": 0}
    letters = [path.read_text() for path in (tmp_path / "grades" / "students").iterdir()]
    assert len(letters) == 9 and f"{long}_right: 3 of 3" in "".join(letters)
    said = capsys.readouterr().out
    assert "twice: not graded: Linear: linear.py is there 2 times, a/linear.py and b/" in said
    assert ".hidden: passed over, " in said
    for name, words in (("link", "it is a link, which is not followed"),
                        ("zipped", "is not there; there is hw.zip (no zip that can be"),
                        ("zoe\\n.zip", "no zip that can be read (File is not a zip file)")):
        assert words in grades["submissions"][name]["Linear"]["reason"], name


@pytest.mark.parametrize("how", slow.but(
    ["{'forward': True}"], [{"forward": True}, {"level": "line"}, {"level": "lstm"}]), ids=str)
def test_every_kind_of_homework(tmp_path, how):
    """npdl's own lines have full points, in whole files and in one line."""
    layers = None if "lstm" in how.values() else ["RNNCell", "Softmax", "LayerNorm"]
    made = homework(tmp_path / "homework", layers, **how)
    (tmp_path / "class" / "right").mkdir(parents=True)
    for name in made.files:
        (tmp_path / "class" / "right" / name).write_text(solved(made, name))
    found = grade_class(tmp_path / "class", tmp_path / "homework",
                        tmp_path / "grades").submissions
    assert [told["points"] for told in found["right"].values()] == [3] * len(made.graded), found


@pytest.mark.slow
def test_every_layers_own_solution_has_full_points_in_class(tmp_path):
    """What it needs of Python and npdl is in the sealed process, whatever its text is."""
    made = homework(tmp_path / "homework", ALL)
    (tmp_path / "class" / "right").mkdir(parents=True)
    for name in made.files:
        (tmp_path / "class" / "right" / name).write_text(solved(made, name))
    found, = grade_class(tmp_path / "class", tmp_path / "homework",
                         tmp_path / "grades").submissions.values()
    assert {told["points"] for told in found.values()} == {3}, grading.reasons(found)


@pytest.mark.slow
def test_a_killed_grader_leaves_nobody_and_goes_on(tmp_path, capsys):
    """What was graded is there, and isn't graded again."""
    hand_in(tmp_path, {"a": STUDENTS["right"], "b": STUDENTS["endless"]}, beside="homework")
    command = [sys.executable, "-m", "npdl", "homework", "grade", "class", "--homework",
               "homework", "--out", "grades", "--jobs", "1", "--limit", "60"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}) as grader:
        assert grader.stdout.readline().startswith("note: ")
        assert grader.stdout.readline() == "a: 3 of 3\n"
        children = Path(f"/proc/{grader.pid}/task")
        while not (running := {int(pid) for task in children.glob("*/children")
                               for pid in task.read_text().split()}):
            os.sched_yield()
        grader.kill()
    for pid in running:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                os.sched_yield()
    before = json.loads((tmp_path / "grades" / "grades.json").read_text())["submissions"]
    assert graded(tmp_path, "--limit", "1", "--resume")[0] == 0
    assert capsys.readouterr().out.count("a: 3 of 3") == 0
    after = json.loads((tmp_path / "grades" / "grades.json").read_text())["submissions"]
    assert after["a"] == before["a"] and after["b"]["Linear"]["points"] == 0
    assert main(["homework", "grade", str(tmp_path / "class"), "--homework",
                 str(tmp_path / "homework"), "--out", str(tmp_path / "grades")]) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.slow
def test_who_stops_the_grader_at_once_goes_on(tmp_path, monkeypatch):
    hand_in(tmp_path, {"right": STUDENTS["right"]})

    def stopped(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(grading.Grades, "keep", stopped)
        assert main(["homework", "grade", str(tmp_path / "class"), "--homework",
                     str(tmp_path / "homework"), "--out", str(tmp_path / "grades")]) == 130
    assert graded(tmp_path, "--resume")[0] == 0


def test_what_the_grader_fails_at_costs_no_points(tmp_path, capsys):
    """A process that dies before it reads student code is an error of the grader's."""
    hand_in(tmp_path, {"right": STUDENTS["right"]})
    status, grades, rows = graded(tmp_path, "--limit", "0.01")
    said = capsys.readouterr()
    assert status == 2 and "1 of 1 submissions are not graded" in said.err
    assert "right: not graded: Linear: not at an end after 0.01 seconds, before" in said.out
    assert grades["submissions"]["right"]["Linear"]["points"] is None
    assert rows[0]["Linear"] == rows[0]["points"] == "not graded"
    assert graded(tmp_path, "--resume")[0] == 0


def test_what_the_system_refuses_is_no_students_fault(tmp_path, monkeypatch):
    hand_in(tmp_path, {"a": STUDENTS["right"], "b": STUDENTS["right"]})
    real, calls = os.memfd_create, []

    def full(name):
        calls.append(1)
        if len(calls) == 1:
            raise OSError(24, "Too many open files")
        return real(name)

    monkeypatch.setattr(isolated.os, "memfd_create", full)
    grades = grade_class(tmp_path / "class", tmp_path / "homework", tmp_path / "grades",
                         grading.Settings(jobs=1))
    assert [one["Linear"]["points"] for one in grades.submissions.values()] == [None, 3]


def test_whoever_is_killed_is_graded(tmp_path, monkeypatch):
    """The memory of the machine ran out, say: --resume would find the same again."""
    fake = tmp_path / "python"
    fake.write_text(f"#!{sys.executable}\nimport os, pickle, sys\n"
                    "os.write(pickle.load(sys.stdin.buffer)['begun'], b'.')\n"
                    "os.kill(os.getpid(), 9)\n")
    fake.chmod(0o755)
    monkeypatch.setattr(isolated.sys, "executable", str(fake))
    with pytest.raises(NotOwn, match="ended by signal 9"):
        isolated.isolated({}, 20)


@pytest.mark.parametrize("what, said", [
    (["nothing", "--homework", "homework"], "cannot be read"),
    (["empty", "--homework", "homework"], "holds no folders"),
    (["class", "--homework", "empty"], "is no folder that `python -m npdl homework` wrote"),
    ([".", "--homework", "homework"], "Python is run in it"),
    (["..", "--homework", "homework"], "Python is run in it"),
    (["class", "--homework", "homework", "--limit", "0"], "--limit 0"),
    (["class", "--homework", "homework", "--jobs", "0"], "--jobs 0"),
    (["class", "--homework", "homework", "--seed", "0"], "--seed 0"),       # home's
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


@pytest.mark.slow
def test_a_grade_is_a_fact(tmp_path, capsys, monkeypatch):
    """A class has one seed, which stands in all that is written; graded twice it gives the same
    bytes; a student's text has the command that computes that grade again."""
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path, {"ada": STUDENTS["wrong"], "-b e": STUDENTS["wrong"], "c": STUDENTS["rude"]})
    command = ["homework", "grade", "class", "--homework", "homework", "--out"]
    assert main([*command, "one"]) == 0
    seed = json.loads(Path("one/grades.json").read_text())["seed"]
    assert main([*command, "two", "--seed", str(seed)]) == 0
    files = [{path.relative_to(out): path.read_bytes() for path in Path(out).rglob("*.*")}
             for out in ("one", "two")]
    assert files[0] == files[1] and len(files[0]) == 5
    rows = list(csv.DictReader(Path("one/grades.csv").read_text().splitlines()))
    assert {row["seed"] for row in rows} == {str(seed)}
    assert rows[0]["reason"] == rows[1]["reason"] != ""
    for name in ("ada", "-b e"):
        text = Path(f"one/students/{name}.txt").read_text()
        again = text.splitlines()[-1].strip()
        assert f"--seed {seed} " in again and again.startswith("python -m npdl ")
        assert main(shlex.split(again)[3:]) == 0
        assert Path(f"again/students/{name}.txt").read_text() == text
        assert [path.name for path in Path("again/students").iterdir()] == [f"{name}.txt"]
        shutil.rmtree("again")
    assert main([*command, "one", "--resume", "--seed", str(seed + 1)]) == 2
    assert f"its class has seed {seed}; leave --seed out" in capsys.readouterr().err


@pytest.mark.slow
def test_who_is_graded_again(tmp_path, capsys):
    """By name, or because files changed; with the class's seed."""
    hand_in(tmp_path, {name: STUDENTS["wrong"] for name in ("ada", "ben", "cyd")})
    first = graded(tmp_path)[1]
    (tmp_path / "class" / "ben" / "notes.txt").touch()
    hand_in(tmp_path / "new", {"ben": STUDENTS["right"]})
    shutil.copy(tmp_path / "new" / "class" / "ben" / "linear.py", tmp_path / "class" / "ben")
    capsys.readouterr()
    again = graded(tmp_path, "--again", "ada", "cyd")[1]
    assert capsys.readouterr().out.count("0 of 3") == 2 and again == first
    after = graded(tmp_path, "--resume")[1]
    said = capsys.readouterr().out
    assert "ben: its files changed since they were graded: Linear\nben: 3 of 3" in said
    assert after["seed"] == first["seed"] and "ada: 0" not in said
    assert after["submissions"]["ben"]["Linear"]["points"] == 3
    assert after["submissions"]["ada"] == first["submissions"]["ada"]
    assert main(["homework", "grade", str(tmp_path / "class"), "--homework",
                 str(tmp_path / "homework"), "--out", str(tmp_path / "grades"), "--again",
                 "zoe"]) == 2
    assert "--again zoe: there is no such submission" in capsys.readouterr().err


@pytest.mark.parametrize("cell, shown", [
    ("=1+1", "'=1+1"), (" ＝1", " '＝1"), ("n;=1+1", "n;'=1+1"), ("a\t@x", "a\t'@x"),
    ('"=1', "\"'=1"), ("n;\"'-1", "n;\"''-1"),
    ("a-b", "a-b"), ("x; y = 2", "x; y = 2"), ("\r\n+1", "\r\n'+1")])
def test_no_cell_is_a_formula(cell, shown):
    assert grading.FORMULA.sub(r"\1'", cell) == shown

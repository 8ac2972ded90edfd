"""A class of pretended students: each gets its points, and none can stop or touch the rest."""

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import main
from npdl_study.homework import isolated
from npdl_study.homework.assignment import homework
from npdl_study.homework.grading import grade_class

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups")
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
    "wrong": (RIGHT.replace("rows.T @", "2 * rows.T @"), None, 0, "the gradient of W is wrong"),
    "two_axes": (RIGHT.replace("sum_rows(dy_rows)", "dy.sum(0)"), None, 1, "(inputs: x ("),
    "rude": (RIGHT.replace("rows, dy_rows", "dy *= 2; dy = dy / 2; rows, dy_rows"),
             None, 2, "dy is written into"),
    "sets": (RIGHT.replace("W.grad +=", "W.grad ="), None, 0, "the gradient of W is wrong"),
    "blank": (None, None, 0, "is yours to write; the equation: y = x W + b"),
    "helped": (RIGHT.replace("rows.T @ dy_rows", "product(self, rows, dy_rows)"), lambda text:
               text.replace("    def backward(", "    def turned(self, a):\n        return a.T\n\n"
                            "    def backward(") +
               "\n\nHALF = 0.5\n\n\ndef product(layer, a, b):\n"
               "    return layer.turned(a) @ b * HALF * 2\n\n\n"
               "raise SystemExit('no helper: not run')\n", 3, ""),
    "raising": (RIGHT.replace("rows.T @", "rows @"), None, 0,
                ": self.W.grad += rows @ dy_rows)"),
    "forward": (ZEROS, lambda text: text.replace("        y = ", "        y = 0 * x[..., :1] + ", 1)
                .replace("return y, Cache(", "return 0 * y, Cache("), 0, "the gradient of W"),
    "endless": ("\n        while True:\n            pass\n", None, 0, "not at an end after 3 s"),
    "crashing": ("\n        np.lib.stride_tricks.as_strided(dy, (1 << 40,), (8,)).sum()\n", None,
                 0, "ended by signal"),
    "hungry": ("\n        return np.ones(1 << 40)\n", None, 0, "MemoryError"),
    "leaving": ("\n        raise KeyboardInterrupt\n", None, 0, "ended by signal 2"),
    "borrowed": ("\n        from npdl.layers.linear import Linear as Own\n"
                 "        return Own.backward(self, dy, cache)\n", None, 0,
                 "imports npdl.layers.linear: write it here"),
    "differencing": ("\n        return self.forward(dy)[0]\n", None, 0,
                     "calls forward: derive it, differences are no derivation"),
    "complex": (RIGHT.replace("dy.reshape", "(dy + 0j).imag.reshape"), None, 0,
                "no derivation needs"),
    "reading": ("\n        exec(open('/etc/passwd').read())\n", None, 0, "no derivation needs"),
    "pickled": ("\n        return np.array([object()])\n", None, 0, "the gradient of"),
    "a text": (RIGHT, lambda text: text + "\0", 0, "can't be read"),
    "caf\udce9 \x1b[31m=": (RIGHT, None, 3, ""),
    "=1+1": (RIGHT, None, 3, ""),
}


def hand_in(folder, students, beside=""):
    """A homework folder of Linear, and a class folder with these bodies of its backward."""
    made = homework(folder / "homework", ["Linear"])
    head, hole = made.files["linear.py"].split("        # Yours to write")
    tail = hole[hole.index("\n        )\n") + len("\n        )\n"):]
    for name, (body, change, *_) in students.items():
        text = made.files["linear.py"] if body is None else head + body.lstrip("\n") + tail
        place = folder / "class" / name / beside
        place.mkdir(parents=True)
        (place / "linear.py").write_text(change(text) if change else text)


def graded(folder, *options):
    """(exit status, grades.json, rows of grades.csv) of the command."""
    status = main(["homework", "grade", str(folder / "class"), "--homework",
                   str(folder / "homework"), "--out", str(folder / "grades"), *options])
    rows = csv.DictReader(io.StringIO((folder / "grades" / "grades.csv").read_text()))
    return status, json.loads((folder / "grades" / "grades.json").read_text()), list(rows)


def test_a_class(tmp_path, capsys):
    hand_in(tmp_path, STUDENTS)
    status, grades, rows = graded(tmp_path, "--limit", "3")
    said = capsys.readouterr().out
    assert status == 0 and said.startswith("note: ") and "container" in said
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
    assert letter.startswith("wrong: 0 of 3\n") and "self.W.grad += 2 * rows.T @ dy_rows" in letter
    letter = (tmp_path / "grades" / "students" / "forward.txt").read_text()
    assert "not graded, as only the marked places are: Linear.forward" in letter
    assert len({found["seed"] for found in grades["submissions"].values()}) == len(STUDENTS)


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
    assert after["a"] == before["a"] and after["b"]["points"] == 0
    assert main(["homework", "grade", str(tmp_path / "class"), "--homework",
                 str(tmp_path / "homework"), "--out", str(tmp_path / "grades")]) == 2
    assert "--resume" in capsys.readouterr().err


def test_what_the_grader_fails_at_costs_no_points(tmp_path, capsys):
    """A process that dies before it reads student code is an error of the grader's."""
    hand_in(tmp_path, {"right": STUDENTS["right"]})
    status, grades, rows = graded(tmp_path, "--limit", "0.01")
    said = capsys.readouterr()
    assert status == 2 and "1 of 1 submissions are not graded" in said.err
    assert "right: not graded: Linear: not at an end after 0.01 seconds, before" in said.out
    assert grades["submissions"]["right"]["points"] is None
    assert rows[0]["Linear"] == rows[0]["points"] == "not graded"
    assert graded(tmp_path, "--resume")[0] == 0


def test_a_full_disk_is_no_students_fault(tmp_path, monkeypatch):
    hand_in(tmp_path, {"a": STUDENTS["right"], "b": STUDENTS["right"]})
    real, calls = isolated.tempfile.TemporaryFile, []

    def full():
        calls.append(1)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        return real()

    monkeypatch.setattr(isolated.tempfile, "TemporaryFile", full)
    found = grade_class(tmp_path / "class", tmp_path / "homework", tmp_path / "grades", jobs=1)
    assert [one["points"] for one in found.values()] == [None, 3]


@pytest.mark.parametrize("attack, refused", [
    ("open('written', 'w').write('x')", (OSError,)),
    ("open('/tmp/npdl-written', 'wb', 0).write(b'x')", (OSError,)),
    ("__import__('os').fork()", (OSError,)),
    ("__import__('threading').Thread(target=print).start()", (RuntimeError,)),
    ("bytearray(3 << 30)", (MemoryError,)),
    ("open(isolated.__file__)", (OSError, None)),
    ("[open('/dev/null') for _ in range(100)]", (OSError,)),
    ("__import__('os').kill(__import__('os').getppid(), 0)", (PermissionError, None)),
])
def test_what_the_process_may_do(tmp_path, attack, refused):
    """npdl's sources and a signal to the grader are out of reach where that is root; elsewhere
    they are the container's."""
    code = ("import os, sys\nfrom npdl_study.homework import isolated\n"
            "isolated._leave_alone(20, os.getppid())\n"
            f"try:\n    {attack}\nexcept BaseException as error:\n"
            "    print(type(error).__mro__)\nelse:\n    print(None)\n")
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, timeout=60,
                         stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT),
                                                      "OPENBLAS_NUM_THREADS": "1"})
    assert any(f"'{kind.__name__}'" in ran.stdout if kind else
               "None" in ran.stdout and os.geteuid() for kind in refused), ran.stdout
    Path("/tmp/npdl-written").unlink(missing_ok=True)


def test_answers_are_read_with_distrust():
    def packed(**arrays):
        file = io.BytesIO()
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    large = io.BytesIO()
    with zipfile.ZipFile(large, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\0v\0{'descr': '<f8', 'fortran_order': False, "
                         b"'shape': (9999999999999,), }".ljust(128) + b"\n")
    assert list(isolated._unpacked(packed(a=np.ones(3)))) == ["a"]
    for said in (b"", b"x", packed(a=np.ones(3))[:-9], packed(a=np.zeros(1 << 20)),
                 packed(a=np.array([{}], object)), large.getvalue()):
        assert isolated._unpacked(said) == {}


def test_processes_end_with_their_group(monkeypatch):
    process = subprocess.Popen(["sh", "-c", "sleep 20 & echo started; wait"], text=True,
                               stdout=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdout.readline() == "started\n"
        isolated.end(process)
        assert process.stdout.read() == "" and process.returncode == -signal.SIGKILL


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

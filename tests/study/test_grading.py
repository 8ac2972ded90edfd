"""Grading a class: submissions, the process of each, grades and feedback."""

import csv
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.study.homework import commands, sandbox
from npdl.study.homework.answers import explain_lost_points
from npdl.study.homework.exercise import Exercise
from npdl.study.homework.grading import Grader, grade_submissions, sum_grades
from npdl.study.homework.handout import write_homework
from npdl.study.homework.submissions import find_submissions, read_submitted_file
from tests.study.test_homework import make_solution

SEALED = sandbox.can_restrict_system_calls()
LINEAR = Exercise("Linear")
RIGHT = make_solution("Linear")
WRONG = make_solution("Linear", "self.b.grad += ", "self.b.grad += 2 * ")
FULL = "5 of 5"
GRADE = ["homework", "grade", "class", "--homework", "homework", "--out", "grades"]


def add_to_backward(*lines):
    """Return a right file whose backward begins with other lines."""
    head = "def backward(self, dy, cache):\n"
    assert RIGHT.count(head) == 1
    return RIGHT.replace(head, head + "".join(f"        {line}\n" for line in lines))


def write_files(folder, files):
    """Write {path: text or bytes} into a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def grade_files(tmp_path, seconds=20.0, **files):
    """Return {submission: Grade of Linear} of {submission: text or bytes of linear.py}."""
    write_files(tmp_path / "class", {f"{name}/linear.py": text for name, text in files.items()})
    grader = Grader({"Linear": LINEAR}, SEALED, seconds)
    grades = grade_submissions(tmp_path / "class", grader, tmp_path / "grades")
    return {name: theirs["Linear"] for name, theirs in grades.items()}


def test_grades_csv_and_feedback_show_points_and_copies(tmp_path, capsys):
    renamed = RIGHT.replace("dy_rows", "upstream").replace("# dx", "# my own").replace(
        '        check_gradient(dy, (*cache.shape[:-1], E), "Linear")\n', "")
    grade_files(tmp_path, ada=RIGHT, ben=WRONG, blank=LINEAR.format_student_file(),
                **{"=SUM(1)": renamed})
    assert {"ben: 2 of 5", "blank: 0 of 5"} <= {*capsys.readouterr().out.split("\n")}
    content = (tmp_path / "grades" / "grades.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    rows = {row["submission"]: row
            for row in csv.DictReader(content.decode("utf-8-sig").splitlines())}
    assert rows["ada"]["same as"] == "'=SUM(1) (Linear); npdl (Linear)"
    assert rows["'=SUM(1)"]["same as"] == "ada (Linear); npdl (Linear)"
    assert not rows["ben"]["same as"]
    assert rows["'=SUM(1)"]["points"] == rows["'=SUM(1)"]["of"] == "5"
    assert rows["ben"]["points"] == "2" and "gradient of b: wrong" in rows["ben"]["reason"]
    feedback = (tmp_path / "grades" / "feedback" / "ben.txt").read_text()
    assert "most likely wrong: line" in feedback and "self.b.grad += 2 *" in feedback
    assert "fix" not in feedback and feedback.startswith("ben: 2 of 5\n")


def make_file_that_attempts(*attempts, error):
    """Return a right file whose backward raises AssertionError unless each attempt fails."""
    return add_to_backward(*(line for code in attempts for line in (
        "try:", f"    {code}", f"except {error}:", "    pass", "else:",
        f"    raise AssertionError({code!r})")))


@pytest.mark.skipif(not SEALED, reason="needs seccomp")
def test_a_submission_cannot_reach_files_network_or_processes(tmp_path):
    target = tmp_path / "grades" / "written"
    [one] = grade_files(tmp_path, attacks=make_file_that_attempts(
        f"open({str(target)!r}, 'w').write('5 of 5')",
        f"open({LINEAR.cls.backward.__code__.co_filename!r}).read()",
        "import os; os.listdir('/')",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        f"import subprocess; subprocess.run(['touch', {str(target)!r}])",
        "import os; os.kill(os.getppid(), 9)", error="(OSError, ImportError)")).values()
    assert explain_lost_points(one.points) == [] and not target.exists()


CENTRAL = add_to_backward(
    "import numpy as np",
    "x = cache.rows.reshape(cache.shape)",
    "steps = 1e-5 * np.eye(x.size).reshape(-1, *x.shape)",
    "changes = [self.forward(x + s)[0] - self.forward(x - s)[0] for s in steps]",
    "return np.reshape([(change * dy).sum() / 2e-5 for change in changes], x.shape)")


@pytest.mark.slow
def test_endless_greedy_and_lying_submissions_cost_their_own_points_alone(tmp_path):
    grades = grade_files(
        tmp_path, seconds=8.0,
        endless=add_to_backward("while True: pass"),
        memory=add_to_backward("x = bytearray(1 << 40)"),
        prints=add_to_backward(
            "import os", "os.write(1, b'linear: 5 of 5')", "raise SystemExit(0)"),
        forges=add_to_backward(
            "import os", "os.write(1, b'PK')", "os.write(3, b'5 of 5')", "os._exit(0)"),
        nan=RIGHT.replace("sum_rows(dy_rows)", "sum_rows(dy_rows) * float('nan')"),
        differences=CENTRAL, good=RIGHT)
    reasons = {name: one.points["gradient of x"] for name, one in grades.items()}
    assert {name: one.earned for name, one in grades.items()} == {
        "differences": 0, "endless": 0, "forges": 0, "good": 5, "memory": 0, "nan": 2, "prints": 0}
    assert "NaN" in grades["nan"].points["gradient of b"] and "MemoryError" in reasons["memory"]
    assert reasons["endless"] == "the code did not finish within 8 seconds"
    assert "relative error" in reasons["differences"]


def test_npdls_own_answer_is_not_in_the_process(tmp_path):
    grades = grade_files(
        tmp_path,
        inherits=add_to_backward("return super().backward(dy, cache)"),
        attempts=make_file_that_attempts(
            "import npdl.layers.linear as own; own.Linear.backward(self, dy, cache)",
            "from npdl.adapt.linears import FrozenLinear as F; F.backward(self, dy, cache)",
            "from npdl.study.check import differences; "
            "differences.estimate_derivative(1, 1, 0, *4 * [dy])",
            "import linecache, npdl.layers.linear as own; linecache.cache[own.__file__]",
            error="(NotImplementedError, KeyError)"))
    assert str(grades["inherits"]) == "0 of 5"
    assert explain_lost_points(grades["attempts"].points) == []
    assert "npdl's own answer is not available" in explain_lost_points(grades["inherits"].points)[0]


def test_honest_work_in_other_encodings_and_dtypes_has_a_reason(tmp_path):
    prints = "from npdl import blame, gradcheck\n" + add_to_backward(
        "import os; print(1); os.write(1, b'1'); os.write(2, b'1')").replace("dy_rows", "δ")
    grades = grade_files(tmp_path, utf16=RIGHT.encode("utf-16"),
                         bom=prints.encode("utf-8-sig"), syntax=add_to_backward("x = = 1"),
                         missing="import no_such_module\n" + RIGHT,
                         float32=RIGHT.replace("(-1, E)", "(-1, E).astype('float32')"))
    assert {str(grades[name]) for name in ("utf16", "bom")} == {FULL}
    assert "Python 3." in explain_lost_points(grades["syntax"].points)[0]
    missing = explain_lost_points(grades["missing"].points)[0]
    assert "No module named 'no_such_module'. Import only" in missing
    assert "converted to float32?" in grades["float32"].points["gradient of x"]


def test_folders_zips_and_canvas_files_are_graded_and_notebooks_are_not(tmp_path):
    folder = tmp_path / "class"
    write_files(folder, {
        "deep_assignsubmission_file/a/linear.py": RIGHT, "text/linear.py.txt": "", "notes.txt": "",
        "deep_assignsubmission_onlinetext/.venv/linear.py": "", "empty/linear.txt": "",
        "twice/a/linear.py": RIGHT, "twice/b/linear.py": "other", "book/a.ipynb": "{}",
        "archive/a.RAR": "", "broken.zip": b"PK", "doejane_LATE_12345_678901_linear-1.py": RIGHT,
        "doejane_54321_678902_linear-1.py": "print("})
    with zipfile.ZipFile(folder / "zipped.zip", "w") as archive:
        archive.writestr("work\\linear.py", RIGHT)
        archive.writestr("__MACOSX/linear.py", "")
    found = grade_submissions(folder, Grader({"Linear": LINEAR}, SEALED), tmp_path / "grades")
    points = {name: str(sum_grades(grades)) for name, grades in found.items()}
    assert {name for name, said in points.items() if said == FULL} == {
        "deep", "doejane_12345", "zipped"}
    assert "a/linear.py and b/linear.py are two versions" in points["twice"]
    for name, file in (("book", "a.ipynb"), ("archive", "a.RAR"), ("text", "linear.py.txt")):
        assert f"linear.py is missing; {file} is not graded; ask for linear.py" in points[name]
    assert points["empty"] == points["doejane_54321"] == "0 of 5"
    assert "can't be read as a zip" in points["broken"]


def test_large_files_zips_and_links_are_not_read(tmp_path):
    folder = tmp_path / "class"
    (folder / "link").mkdir(parents=True)
    (folder / "link" / "linear.py").symlink_to("/etc/hostname")
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("linear.py", bytes(8 << 20))
    with open(folder / "large.zip", "wb") as file:
        file.truncate(30 << 20)
    found = find_submissions(folder)
    for name, error, words in (("bomb", sandbox.InvalidFile, "more than 100000 bytes"),
                               ("large", sandbox.NotGraded, "more than 20971520 bytes"),
                               ("link", sandbox.InvalidFile, "linear.py is missing")):
        with pytest.raises(error, match=words):
            read_submitted_file(found[name], "linear.py")


@pytest.mark.parametrize("content, found", [
    (b'{"s/gradient.x": [1.0, NaN], "s/error": "x\\n"}', ["s/gradient.x", "s/error"]),
    (b"", []), (b"[]", []), (b'{"x": [[1], [2, 3]]}', []), (b'{"x": null, "y": {}}', []),
    (b'{"x": 1' + b"0" * 400 + b"}", []), (b"[" * 100_000, []), (b"\xff", [])])
def test_untrusted_answers_are_validated(content, found):
    answers = sandbox.parse_answers(content)
    assert list(answers) == found and answers.get("s/error", "x\\n") == "x\\n"


@pytest.fixture
def homework_folder(tmp_path, monkeypatch):
    """Work in a folder with a homework and a class of one."""
    monkeypatch.chdir(tmp_path)
    write_homework("homework", ["Linear"])
    write_files(Path("class"), {"ada/linear.py": RIGHT})


def test_without_a_filter_the_grader_says_that_it_is_no_sandbox(
        homework_folder, monkeypatch, capsys):
    monkeypatch.setattr(commands, "can_restrict_system_calls", lambda: False)
    assert main(GRADE) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("note: submissions run without") and said[1] == "ada: 5 of 5"


def test_the_last_line_names_submissions_that_cannot_be_graded(homework_folder, capsys):
    write_files(Path("class"), {f"notebook{number:02}/linear.ipynb": "" for number in range(11)})
    assert main(GRADE) == 2
    assert "notebook08 and 2 more can't be graded" in capsys.readouterr().err


@pytest.mark.parametrize("given, words", [
    (["class", "--homework", "class", "--out", "new"], "class has no valid homework.json"),
    (["class/ada", "--homework", "homework", "--out", "new"], "is not a folder with submissions"),
    (["homework", "--homework", "homework"], "give FOLDER, which has the submissions"),
    (["class", "--homework", "homework", "--out", "homework"], "is not an empty folder"),
    (["class", "--homework", "homework", "--gradescope", "new.zip"], "leave out FOLDER and --out"),
])
def test_bad_folders_give_one_error_line_and_status_2(
        homework_folder, monkeypatch, capsys, given, words):
    monkeypatch.setattr(commands, "can_restrict_system_calls", lambda: True)
    assert main(["homework", "grade", *given]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert said.startswith("python -m npdl homework grade: ")


def test_gradescope_zip_grades_in_its_folders(tmp_path, homework_folder):
    """The scripts run with a venv that is made from this Python, and without apt-get or pip."""
    assert not main(["homework", "grade", "--homework", "homework", "--gradescope", "a.zip"])
    source, submission = tmp_path / "auto" / "source", tmp_path / "auto" / "submission"
    with zipfile.ZipFile("a.zip") as archive:
        archive.extractall(source)
        modes = {name: archive.getinfo(name).external_attr >> 16 & 0o777
                 for name in ("setup.sh", "run_autograder")}
    assert set(modes.values()) == {0o755}
    for folder in (submission, tmp_path / "auto" / "results", source / "venv" / "bin"):
        folder.mkdir(parents=True)
    (submission / "linear.py").write_text(WRONG)
    (tmp_path / "auto" / "run_autograder").write_bytes((source / "run_autograder").read_bytes())
    python = source / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    subprocess.run(["bash", "auto/run_autograder"], check=True, timeout=120, env={
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    results = json.loads((tmp_path / "auto" / "results" / "results.json").read_text())
    assert sum(test["score"] for test in results["tests"]) == 2
    assert "most likely wrong: line" in results["output"]
    subprocess.run(["bash", "-n", source / "setup.sh"], check=True)
    assert "'numpy>=2'" in (source / "setup.sh").read_text()        # the newest that Python has

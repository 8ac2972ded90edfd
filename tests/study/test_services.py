"""The zip for Gradescope, run as that service runs it, and the workflow for GitHub Classroom."""

import base64
import hashlib
import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl_study.homework.assignment import homework
from npdl_train.process import SEALS
from tests.study.test_grading import STUDENTS, hand_in
from tests.study.test_own_layers import MINE

pytestmark = pytest.mark.skipif((sys.platform, platform.machine()) not in SEALS,
                                reason="needs Linux's seccomp")


@pytest.fixture(autouse=True)
def _forgotten():
    """Every test has a mine.py of its own."""
    yield
    sys.modules.pop("mine", None)


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def installed(root, made):
    """The zip's own scripts in a folder that is laid out as the service documents it."""
    for name in ("source", "submission", "results"):
        (root / name).mkdir(parents=True)
    subprocess.run(["unzip", "-q", made, "-d", root / "source"], check=True)
    (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
    (root / "run_autograder").chmod(0o755)
    with_python(root, "apt-get", "exit 9")      # the Python of these tests has the NumPy asked for
    subprocess.run(["bash", root / "source" / "setup.sh"], cwd="/", check=True,
                   env=ENVIRONMENT | with_python(root, "python3", f'exec {sys.executable} "$@"'))
    assert not (root / "source" / "venv").exists()


def with_python(root, name, script):
    """PATH with a program of this name, and others made so before, in front."""
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (root / "bin" / name).chmod(0o755)
    return {"PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def results(root, text, name="linear.py"):
    """What the service reads of a submission that holds this file."""
    for place in (root / "submission").iterdir():
        place.unlink()
    (root / "submission" / name).write_text(text)
    done = subprocess.run([root / "run_autograder"], cwd=root, env=ENVIRONMENT, text=True,
                          capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads((root / "results" / "results.json").read_text())


@pytest.mark.slow
def test_gradescope(tmp_path, capsys, monkeypatch):
    """A test a point, the reason as its output; the same as the class's grader says; npdl's own
    layer and one of the teacher's; the same zip each time."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    hand_in(tmp_path, {name: STUDENTS[name] for name in ("right", "two_axes", "rude")})
    homework("both", ["Linear", "mine.py:Shift"])
    command = ["homework", "grade", "--homework", "both", "--seed", "5", "--gradescope"]
    assert main([*command, "one.zip"]) == main([*command, "two.zip"]) == 0
    assert Path("one.zip").read_bytes() == Path("two.zip").read_bytes()
    assert "one.zip: written, with seed 5 for the class" in capsys.readouterr().out
    with zipfile.ZipFile("one.zip") as archive:
        for script in ("setup.sh", "run_autograder"):
            assert archive.getinfo(script).external_attr >> 16 == 0o755
            subprocess.run(["bash", "-n"], input=archive.read(script), check=True)
    root = tmp_path / "autograder"
    installed(root, tmp_path / "one.zip")
    assert main(["homework", "grade", "class", "--homework", "homework", "--out", "grades",
                 "--seed", "5"]) == 0
    grades = json.loads(Path("grades/grades.json").read_text())["submissions"]
    for student, found in grades.items():
        told = results(root, (tmp_path / "class" / student / "linear.py").read_text())
        linear, shift = told["tests"][:3], told["tests"][3:]
        assert [test["name"] for test in linear] == [
            "Linear: gradients", "Linear: other sizes and options", "Linear: manners"]
        assert sum(test["score"] for test in linear) == found["Linear"]["points"]
        lost = {test["name"].partition(": ")[2]: test["output"] for test in linear
                if not test["score"]}
        assert lost == found["Linear"]["lost"]
        assert {(test["max_score"], test["visibility"]) for test in linear} == {(1, "visible")}
        assert all("mine.py is not there" in test["output"] for test in shift)
        assert told["extra_data"]["seed"] == 5
    told = results(root, MINE, "mine.py")["tests"]
    assert [test["score"] for test in told] == [0, 0, 0, 1, 1, 1]
    told = results(root, MINE.replace("self.sign * sum", "sum"), "mine.py")["tests"]
    assert [test["score"] for test in told[3:]] == [1, 0, 0] and "(sample 2; " in told[4]["output"]


def test_what_the_grader_fails_at_gives_gradescope_no_results(tmp_path, capsys):
    """So that the service says that the autograder failed, and no one has 0 points for it."""
    hand_in(tmp_path, {"right": STUDENTS["right"]})
    assert main(["homework", "grade", str(tmp_path / "class" / "right"), "--homework",
                 str(tmp_path / "homework"), "--limit", "0.01", "--results",
                 str(tmp_path / "results.json")]) == 2
    assert "not graded: Linear: not at an end" in capsys.readouterr().err
    assert not (tmp_path / "results.json").exists()


def test_github_classroom(tmp_path, monkeypatch, capsys):
    """Its own commands, run on a repository, give the step's output that the reporter sums."""
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path, {"submission": STUDENTS["two_axes"]})
    assert main(["homework", "grade", "--homework", "homework", "--classroom", "classroom.yml",
                 "--seed", "7"]) == 0
    text = Path("classroom.yml").read_text()
    (tmp_path / "homework" / "linear.py").write_text(
        Path("class/submission/linear.py").read_text())
    Path("homework").rename("submission")
    digest = hashlib.sha256(Path("submission/handed_out.json").read_bytes()).hexdigest()
    assert f'echo "{digest}  submission/handed_out.json" | sha256sum --check' in text
    script = text.rpartition("run: |\n")[2].partition("      - uses")[0]
    step = tmp_path / "output"
    root = str(Path(__file__).parents[2])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = ENVIRONMENT | {"GITHUB_OUTPUT": str(step), "PYTHONPATH": root, "PATH": path}
    subprocess.run(["bash", "-e", "-c", script], check=True, env=environment)
    result = json.loads(base64.b64decode(step.read_text().removeprefix("result=")))
    assert result["max_score"] == 3 and [test["score"] for test in result["tests"]] == [1, 0, 0]
    assert result["status"] == "fail" and "(more axes; x (" in result["tests"][1]["message"]
    with open("submission/handed_out.json", "a") as file:
        file.write(" ")
    done = subprocess.run(["bash", "-e", "-c", script], env=environment, capture_output=True)
    assert done.returncode != 0 and len(step.read_text().splitlines()) == 1
    Path("mine.py").write_text(MINE)
    homework("own", ["mine.py:Shift"])
    assert main(["homework", "grade", "--homework", "own", "--classroom", "x.yml"]) == 2
    assert "use --gradescope" in capsys.readouterr().err and not Path("x.yml").exists()


@pytest.mark.parametrize("options, words", [
    ([], "FOLDER and --out are needed"), (["class"], "FOLDER and --out are needed"),
    (["--results", "x.json"], "FOLDER and --out are needed"),
    (["--gradescope", "x.zip", "--visibility", "all"], "invalid choice: 'all'"),
    (["--gradescope", "x.zip", "--classroom", "x.yml"], "not allowed with"),
])
def test_wrong_commands(tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    homework("homework", ["Tanh"])
    try:
        status = main(["homework", "grade", "--homework", "homework", *options])
    except SystemExit as error:
        status = error.code
    assert status == 2 and words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["homework"]

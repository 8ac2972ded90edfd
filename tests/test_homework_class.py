"""A class of pretended students: each gets its points, and none can stop or touch the rest."""

import csv
import json

import pytest

from npdl.__main__ import main
from npdl.study.homework import homework

RIGHT = """
        rows, dy_rows = cache.rows, dy.reshape(-1, dy.shape[-1])
        self.W.grad += rows.T @ dy_rows
        self.b.grad += sum_rows(dy_rows)
        return (dy_rows @ self.W.data.T).reshape(cache.shape)
"""
STUDENTS = {        # the body of Linear.backward, and the points of Linear
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
    "boasting": ("\n        import os\n        for n in range(1, 9):\n"
                 "            try:\n                os.write(n, b'[\"gradients\", \"\"]\\n')\n"
                 "            except OSError:\n                pass\n        return dy\n", 0),
}
REASONS = {
    "wrong": "W.grad", "blank": "yours to write", "endless": "not at an end after 5 seconds",
    "stubborn": "not at an end", "crashing": "ended by signal 6",
    "leaving": "ended the program before its tests", "hungry": "MemoryError",
    "borrowed": "npdl's own", "writing": "PermissionError", "removing": "PermissionError",
    "moving": "PermissionError", "calling": "PermissionError",
}


@pytest.mark.slow
def test_a_class(tmp_path, capsys):
    homework(tmp_path / "homework", ["Linear"])
    text = (tmp_path / "homework" / "linear.py").read_text()
    begin = text.index("        # Yours to write")
    end = text.index("\n\n\ndef sum_rows")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "grades").write_text("kept")
    for name, (body, _) in STUDENTS.items():
        folder = tmp_path / "class" / name
        folder.mkdir(parents=True)
        if body is not None:
            body = body.replace("VICTIM", repr(str(victim / "grades")))
            body = text[:begin] + body.replace("FOLDER", repr(str(victim))) + text[end:]
        (folder / "linear.py").write_text(body or text)
    (tmp_path / "class" / "absent").mkdir()
    assert main(["homework", "grade", str(tmp_path / "class"), "--homework",
                 str(tmp_path / "homework"), "--out", str(tmp_path / "grades"),
                 "--limit", "5"]) == 0
    assert "right: 3 of 3\n" in capsys.readouterr().out
    grades = json.loads((tmp_path / "grades" / "grades.json").read_text())
    for name, (_, points) in STUDENTS.items():
        task = grades["submissions"][name]["tasks"]["Linear"]
        assert task["points"] == points, (name, task)
        if points < 3 and name in REASONS:
            assert any(REASONS[name] in why for why in task["checks"].values()), (name, task)
    assert "is not there" in grades["submissions"]["absent"]["tasks"]["Linear"]["checks"]["runs"]
    rows = list(csv.DictReader((tmp_path / "grades" / "grades.csv").read_text().splitlines()))
    assert {row["submission"]: int(row["points"]) for row in rows} == {
        "absent": 0, **{name: points for name, (_, points) in STUDENTS.items()}}
    assert (victim / "grades").read_text() == "kept"


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

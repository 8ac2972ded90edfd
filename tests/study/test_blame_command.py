"""`blame` and `step` as commands, on files of the user's own: every way in which they may fail."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl.losses import SequenceLoss
from npdl_study.blame.blame import blame
from npdl_study.check.target import find_class
from npdl_study.homework.assignment import homework
from tests.study.test_own_layers import MINE

ROOT = Path(__file__).parents[2]

OWN = '''
import numpy as np
from npdl.core import Cache, Layer, Param


class Square(Layer):
    @classmethod
    def sample(cls):
        return cls(), np.arange(1.0, 7.0).reshape(2, 3)

    def forward(self, x):
        y = x * x
        return y, Cache(x=x)

    def backward(self, dy, cache):
        dx = 2 * dy * cache.x
        return dx
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Writes OWN with a change into a new file; returns "file.py:Square"."""
    monkeypatch.chdir(tmp_path)

    def write(old="", new="", text=OWN):
        assert old in text
        path = tmp_path / f"own_{abs(hash((old, new, text)))}.py"
        path.write_text(text.replace(old, new))
        return f"{path.name}:Square"

    return write


@pytest.mark.parametrize(("command", "words"), [
    ([], "a command is missing; give one of: step, blame, example, homework, plot, finetune"),
    (["stp"], "command 'stp' is unknown; did you mean step?"),
    (["step", "LayrNorm"], "layer 'LayrNorm' is unknown; did you mean LayerNorm"),
    (["blame", "Linear", "--seed", "-1"], "--seed -1: must be an integer, 0 or more"),
    (["blame", "Linear", "--input", "x=2,3", "--set", "colour=3"], "unexpected keyword argument"),
    (["step", "Linear", "--html", "setup.cfg/page.html"], "--html setup.cfg/page.html: can't be"),
    (["step", "Linear", "--html", "."], "--html .: can't be written"),
    (["blame", "nowhere.at.all:Net"], "module 'nowhere.at.all' can't be imported"),
])
def test_bad_usage_is_one_line_and_status_2(command, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "setup.cfg").write_text("")
    try:
        status = main(command)
    except SystemExit as leave:
        status = leave.code
    found = capsys.readouterr()
    assert status == 2 and not found.out
    assert words in found.err and found.err.count("\n") == 1


@pytest.mark.parametrize(("old", "new", "words"), [
    ("class Square(Layer):", "class Square(Layer:", "SyntaxError"),
    ("class Square(Layer):", "class Round(Layer):", "has no class 'Square'; it has: Round"),
    ("class Square(Layer):", "class Square:\n    pass\nclass Round(Layer):", "is not a Layer"),
    ("class Square(Layer):", "1 / 0\nclass Square(Layer):", "ZeroDivisionError: division by zero "
     "(line 6)"),
    ("class Square(Layer):", "raise SystemExit(3)\nclass Square(Layer):", "SystemExit: 3"),
    ("return cls(), np", "return cls(3), np", "its sample raised TypeError"),
    ("return cls(), np", "return np", "sample() must return (layer, inputs)"),
    ("    @classmethod\n    def sample(cls):", "    def other(cls):", "no inputs are known for"),
])
@pytest.mark.parametrize("command", ["step", "blame"])
def test_a_file_that_cannot_be_used_is_one_line(own, capsys, command, old, new, words):
    assert main([command, own(old, new)]) == 2
    found = capsys.readouterr()
    assert words in found.err and found.err.count("\n") == 1 and not found.out


def test_a_file_without_its_class_is_asked_for_one(own, capsys):
    name = own()
    assert main(["blame", name.removesuffix(":Square")]) == 2
    assert "which of its classes? Give own_" in capsys.readouterr().err
    assert main(["blame", name]) == 0


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("y = x * x", "y = x @ x", 12, ["Square.forward", "ValueError", "when the forward runs"]),
    ("return y, Cache(x=x)", "return y", 13, ["must return a pair: its output and a Cache"]),
    ("* cache.x", "* cache.z", 16, ["the cache has no z; it has: x"]),
    ("2 * dy * cache.x", "dy @ cache.x", 16, ["the line read cache.x (2, 3), dy (2, 3)"]),
    ("dx = 2 * dy * cache.x", "raise NotImplementedError('yours: dx')", 16,
     ["not written yet:", "yours: dx"]),
])
def test_what_a_layer_raises_is_blamed_on_its_line(own, capsys, old, new, line, words):
    name = own(old, new)
    assert main(["blame", name]) == 1
    found = capsys.readouterr().out
    assert f"{name.split(':')[0]}:{line} in Square." in found
    assert all(word in found for word in words), found


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_a_method_that_is_not_there_is_said(own, capsys, name):
    assert main(["blame", own(f"def {name}", "def other")]) == 1
    assert f"Square has no {name}(self, " in capsys.readouterr().out


@pytest.mark.parametrize(("old", "last"), [("y = x * x", "y = x @ x"),
                                           ("dx = 2 * dy * cache.x", "dx = dy @ cache.x")])
def test_an_exception_still_gives_the_page_up_to_its_line(own, capsys, tmp_path, old, last):
    assert main(["step", own(old, last), "--html", "page.html"]) == 1
    assert "ended by ValueError" in capsys.readouterr().out
    assert "ValueError" in (tmp_path / "page.html").read_text()
    assert main(["step", own(old, last)]) == 1
    assert capsys.readouterr().out.rstrip().splitlines()[-1].startswith("ended by ValueError")


def test_npdls_own_refusal_stays_a_refusal(capsys):
    with pytest.raises(InputError, match="Linear"):
        blame(find_class("Linear")(4, 2), np.ones((2, 3)))
    assert main(["blame", "Linear", "--input", "x=2,3", "--set", "d_in=4"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_named_as_a_module_that_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text(OWN.replace("2 * dy", "3 * dy"))
    cls = find_class("random.py:Square")
    report = blame(*cls.sample())
    assert not report.right and report.line == 16 and "`dx = 2 * dy * cache.x`" in report.diagnosis


def test_a_sample_of_another_class_is_not_taken(tmp_path, monkeypatch, capsys):
    homework(tmp_path / "work", level="lstm")
    monkeypatch.chdir(tmp_path / "work")
    assert main(["blame", "lstm.py:Cell"]) == 2
    assert "Cell is no layer of its own" in capsys.readouterr().err


def run(*arguments, env=None, code=None, **options):
    command = ["-c", code] if code else ["-m", "npdl"]
    return subprocess.Popen([sys.executable, *command, *arguments], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, **(env or {})}, **options)


@pytest.mark.slow
def test_a_closed_pipe_is_quiet():
    with run("step", "LSTM") as process:
        assert process.stdout.readline() == "\n"
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, "")


def test_an_interrupt_is_quiet_and_status_130(monkeypatch, capsys):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("npdl_study.commands.run_step", interrupted)
    assert main(["step", "LSTM"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_output_that_knows_ascii_only():
    out, said = run("step", "LayerNorm", env={"PYTHONIOENCODING": "ascii"}).communicate(timeout=60)
    assert "LayerNorm.backward" in out and not said


@pytest.mark.slow
def test_under_a_debugger_or_a_coverage_tool_it_says_the_same():
    code = ("import sys, npdl_study.commands; from npdl.__main__ import main; "
            "sys.settrace(lambda *a: None); sys.exit(main(sys.argv[1:]))")
    said = [run("step", "LayerNorm", **how).communicate(timeout=60) for how in ({}, {"code": code})]
    assert said[0] == said[1] and "LayerNorm.backward" in said[0][0]


@pytest.mark.slow
def test_options_are_asked_too(tmp_path, monkeypatch, capsys):
    """A class with the name of one of npdl's, right as it is and wrong with an option; one that
    brings another sample; and a right one."""
    monkeypatch.chdir(tmp_path)
    lines, reads = inspect.getsource(inspect.getmodule(SequenceLoss)), (
        '[:, None] if self.reduction == "none" else dloss')
    assert lines.count(reads) == 1
    Path("ours.py").write_text(lines)
    Path("deaf.py").write_text(lines.replace(reads, ""))
    Path("own.py").write_text(MINE.replace("self.sign * sum_rows", "sum_rows"))
    for layer, status, words in (
            ("ours.py:SequenceLoss", 0, "right"),
            ("deaf.py:SequenceLoss", 1, "with reduction='none': "),
            ("own.py:Shift", 1, "with sample 2: ")):
        assert main(["blame", layer]) == status
        assert capsys.readouterr().out.startswith(words), layer

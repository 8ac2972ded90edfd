"""`step` and a student's code that exits, hangs, holds itself or says odd things."""

import numpy as np
import pytest

from npdl import gradcheck
from npdl.__main__ import main
from npdl.core import Cache, Layer, Param
from npdl_study.blame.blame import blame
from npdl_study.check.target import find_class
from npdl_study.containment import written
from npdl_study.step import record, show_html
from npdl_study.step.step import step
from tests.study.test_step_page import page_data
from tests.tools import slow

MINE = '''
import sys
import numpy as np
from npdl.core import Cache, Layer, Param

class Mine(Layer):
    def __init__(self):
        self.W = Param(np.ones((3, 3)))
        {init}
    @classmethod
    def sample(cls):
        {sample}
        return cls(), np.random.default_rng(0).standard_normal((2, 3))
    def forward(self, x):
        {forward}
        y = x @ self.W.data
        return y, Cache(x=x)
    def backward(self, dy, cache):
        {backward}
        self.W.grad += cache.x.T @ dy
        dx = dy @ self.W.data.T
        return dx
'''


def mine(tmp_path, **lines):
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(**dict.fromkeys(("init", "sample", "forward", "backward"), "")
                                | lines))
    return f"{path}:Mine"


CASES = {
    "sys.exit in forward": (dict(forward="sys.exit(0)"), 1, "forward called sys.exit(0)"),
    "sys.exit in backward": (dict(backward="sys.exit(7)"), 1, "backward called sys.exit(7)"),
    "sys.exit in __init__": (dict(init="sys.exit(0)"), 2, "its sample called sys.exit(0)"),
    "sys.exit in sample": (dict(sample="sys.exit()"), 2, "its sample called sys.exit(None)"),
    "GeneratorExit": (dict(forward="raise GeneratorExit"), 1, "which is no Exception"),
    "BaseException": (dict(backward="raise BaseException('x')"), 1, "BaseException: x, which"),
    "holds itself": (dict(init="self.me = self"), 2, "Mine holds itself, as self.me"),
    "in a list": (dict(init="self.parts = [self]"), 2, "Mine holds itself, as self.parts.0"),
    "no layer": (dict(sample="return 5, np.ones((2, 3))"), 2, "sample() must return (layer,"),
    "no text": (dict(backward="raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})"),
                1, "Odd: (its text can't be shown: "),
    "a surrogate": (dict(backward="raise ValueError('a \\ud800 b')"), 1, "ValueError: a ? b"),
    "escape codes": (dict(backward="raise ValueError('\\x1b[31mred')"), 1, "ValueError: ?[31mred"),
    "recursion": (dict(forward="self.forward(x)"), 1, "RecursionError"),
    "an endless forward": (dict(forward="while True: pass"), 2, "not at an end after 0.5 seconds"),
    "an endless backward": (dict(backward="while True: dy = dy + 0"), 2, "mine.py:19: a loop"),
    "a view beyond its array": (
        dict(sample="global view; from numpy.lib.stride_tricks import as_strided as view",
             backward="view(dy, (9,), (8,)).sum()"), 1, "beyond the array of shape (2, 3)"),
    "Ctrl-C": (dict(forward="raise KeyboardInterrupt"), 130, ""),
}


@pytest.mark.parametrize("what", slow.but(CASES.keys() - {"an endless forward"}, CASES))
def test_a_clear_word_and_a_status(tmp_path, capsys, what):
    lines, status, words = CASES[what]
    limit, name = "0.5" if "endless" in what else "60", mine(tmp_path, **lines)
    assert main(["step", name, "--limit", limit]) == status
    said = capsys.readouterr()
    assert words in said.out + said.err and "Traceback" not in said.err
    assert said.err.count("\n") == (status == 2) and "\033" not in said.out
    assert main(["blame", name, "--limit", limit]) == status
    said = capsys.readouterr()
    (said.out + said.err).encode("utf-8")
    assert said.err.count("\n") == (status == 2) and "\033" not in said.out


def test_a_page_is_alive_whatever_an_error_says(tmp_path):
    name = mine(tmp_path, backward="raise ValueError('not <!-- a <script> tag \\ud800')")
    page = tmp_path / "page.html"
    assert main(["step", name, "--html", str(page)]) == 1
    text = page.read_text(encoding="utf-8")
    assert "<!--" not in text and text.count("<script") == 2
    assert page_data(text)["error"] == "ValueError: not <!-- a <script> tag ?"


def test_an_existing_page_stays_until_the_new_one_is_complete(tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("old")
    walk = step(*find_class(mine(tmp_path)).sample())
    monkeypatch.setattr(show_html, "_data", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        walk.to_html(page)
    monkeypatch.setattr("os.replace", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        written(page, "new")
    assert page.read_text() == "old" and {p.name for p in tmp_path.iterdir()} >= {"page.html"}
    assert not list(tmp_path.glob("*.tmp"))


def test_a_long_recording_is_cut_and_the_gradients_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "MOST_STEPS", 50)
    for way, name in (("forward", "x"), ("backward", "dy")):
        (tmp_path / way).mkdir()
        loop = f"for i in range(60):\n            {name} = {name} * 1.0"
        walk = step(*find_class(mine(tmp_path / way, **{way: loop})).sample())
        assert walk.recording.cut == [way] and f"of the {way}, the first" in walk.notes[0]
        assert len(walk.recording.phase(way)) == 50 and len(walk.recording.steps) < 60
        assert len(walk.finals) == 2 and all(f.right for f in walk.finals)


def test_checks_of_lines_end_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr("npdl_study.step.step.WORK", 0)
    walk = step(*find_class(mine(tmp_path)).sample())
    assert "were ended after 0 values" in walk.notes[0] and not walk.marks
    assert len(walk.finals) == 2 and all(f.right for f in walk.finals)


def test_an_example_to_start_from(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["example"]) == 0
    assert "python -m npdl blame mine.py:MyLayer" in capsys.readouterr().out
    for command in ("step", "blame"):
        assert main([command, "mine.py:MyLayer"]) == 0
    text = (tmp_path / "mine.py").read_text()
    assert main(["example"]) == 2 and main(["example", "--out", "mine.txt"]) == 2
    assert capsys.readouterr().err.count("\n") == 2 and (tmp_path / "mine.py").read_text() == text
    assert main(["example", "--out", "wrong.py"]) == 0
    (tmp_path / "wrong.py").write_text(text.replace("dz = ds * s", "dz = -ds * s"))
    capsys.readouterr()
    assert main(["blame", "wrong.py:MyLayer"]) == 1
    assert "dz = -ds * s * (1 - s)" in capsys.readouterr().out


@pytest.mark.slow
def test_names_are_no_commands_to_a_terminal(capsys):
    class Odd(Layer):
        def __init__(self):
            self.parts = {"W\x1b[31m\x07": Param(np.ones((3, 2)))}

        def forward(self, x):
            W = self.parts["W\x1b[31m\x07"]
            return x @ W.data, Cache(x=x)

        def backward(self, dy, cache):
            W = self.parts["W\x1b[31m\x07"]
            W.grad += 2 * (cache.x.T @ dy)
            return dy @ W.data.T

    x = np.random.default_rng(1).standard_normal((4, 3))
    step(Odd(), x).show()
    for said in (capsys.readouterr().out, str(blame(Odd(), x)), str(gradcheck(Odd(), x))):
        assert r"W\x1b[31m\x07" in said and said.replace("\n", "").isprintable()

"""Homework of a layer that a teacher wrote: its own file with holes, graded as npdl's are."""

import importlib.util
import platform
import sys
import types
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl_study.check.samples import own_samples
from npdl_study.homework.assignment import homework
from npdl_study.homework.grading import grade_class
from npdl_study.homework.selftest import first_trouble
from npdl_train.process import SEALS
from tests.tools import slow

MINE = '''"""A layer of a teacher's."""

import numpy as np

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.functions import sum_rows

SIGNS = {"plus": 1.0, "minus": -1.0}


class Inner(Layer):
    """y = tanh(x)."""

    def forward(self, x):
        y = xp.tanh(x)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        return dy * (1 - cache.y**2)


class Shift(Layer):
    """y = a * tanh(x) + s b,   s = 1 or -1."""

    def __init__(self, d, sign="plus"):
        self.a, self.b = Param(np.ones(d)), Param(np.zeros(d))
        self.inner, self.sign = Inner(), SIGNS[sign]

    @classmethod
    def samples(cls):
        x = np.random.default_rng(0).standard_normal((3, 4))
        return [(cls(4), x), (cls(4, "minus"), x)]

    def forward(self, x):
        t, c = self.inner.forward(x)
        y = self.a.data * t + self.sign * self.b.data
        return y, Cache(t=t, c=c)

    def backward(self, dy, cache):
        self.a.grad += sum_rows(dy * cache.t)
        self.b.grad += self.sign * sum_rows(dy)
        dt = dy * self.a.data
        return self.inner.backward(dt, cache.c)
'''
WAYS = {    # name: (what is replaced, by what, points, words of the reason)
    "right": ("", "", 3, ""),
    "wrong": ("dt = dy", "dt = 2 * dy", 0, "the gradient of x is wrong"),
    "plus": ("self.sign * sum_rows", "sum_rows", 1, "the gradient of b is wrong, by "),
    "axes": ("sum_rows(dy)", "dy.sum(0)", 1, "(more axes; x ("),
    "rude": ("dt = dy *", "dy *= 1.5; dt = dy / 1.5 *", 2, "dy is written into"),
    "peeking": ("dt = dy", "import mine; dt = dy", 0, "imports mine"),
    "hidden": ("dt = dy", "from collections import _sys; _sys.modules['mine'].Shift.backward(self, "
               "dy, cache); dt = dy", 0, "Shift raised RecursionError"),
    "answers": ("dt = dy", "from collections import _sys\n        "
                "frame = _sys._getframe()\n        while 'asked' not in frame.f_locals:\n          "
                "  frame = frame.f_back\n        "
                "assert not frame.f_locals['asked'].keys() & {'given', 'layer'}\n        "
                "frame.f_locals['asked']['given']\n        dt = dy", 0, "KeyError: 'given'"),
    "reading": ("dt = dy", "from collections import _sys\n        "
                "_sys.modules['io'].FileIO('mine.py')\n        dt = dy", 0, "not permitted"),
}


@pytest.fixture(autouse=True)
def _forgotten(tmp_path, monkeypatch):
    """Every test has a mine.py of its own."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    yield
    sys.modules.pop("mine", None)


@pytest.mark.slow
@pytest.mark.skipif((sys.platform, platform.machine()) not in SEALS, reason="needs seccomp")
def test_a_class_and_its_homes(monkeypatch):
    """The class and the tests at home agree; neither has the solution in its process or folder.
    That another module has the file's name already changes nothing."""
    monkeypatch.setitem(sys.modules, "mine", types.ModuleType("mine"))
    made = homework("homework", ["mine.py:Shift", "Tanh"])
    assert [hole.qualname for hole in made.holes] == ["Tanh.backward", "Shift.backward"]
    assert "dt = " not in "".join(path.read_text() for path in Path("homework").iterdir())
    assert "npdl has a solution" not in Path("homework/README.md").read_text()
    for name, (old, new, _, _) in WAYS.items():
        (Path("class") / name).mkdir(parents=True)
        assert old in MINE
        (Path("class") / name / "mine.py").write_text(MINE.replace(old, new) if old else MINE)
    found = grade_class("class", "homework", "grades").submissions
    for name, (_, _, points, words) in WAYS.items():
        told = found[name]["Shift"]
        assert told["points"] == points and words in told["reason"], (name, told)
        assert bool(words) == bool(told["reason"])


@pytest.mark.parametrize("name", slow.but(
    ["right", "wrong"], sorted(WAYS.keys() - {"hidden", "answers", "reading"})))
def test_at_home(name, monkeypatch):
    old, new, _, words = WAYS[name]
    homework("homework", ["mine.py:Shift"])
    del sys.modules["mine"]                                 # a student has no mine.py but her own
    monkeypatch.chdir("homework")
    assert "Shift.backward in mine.py is yours to write" in first_trouble("Shift")
    Path("mine.py").write_text(MINE.replace(old, new) if old else MINE)
    said = first_trouble("Shift")
    assert words in said and bool(words) == bool(said)


def test_what_a_process_has_loaded_before_is_no_matter(tmp_path, monkeypatch):
    """Another folder's file of the name, or the same file before it was written anew."""
    homework("homework", ["mine.py:Shift"])
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "two")
    Path("mine.py").write_text(MINE)
    homework("homework", ["mine.py:Shift"])
    for name in ("handed_out.json", "mine.py", "README.md"):
        assert Path("homework", name).read_bytes() == (tmp_path / "homework" / name).read_bytes()
    Path("mine.py").write_text(MINE.replace("dt = dy", "dt = 2 * dy"))
    with pytest.raises(InputError, match="its own gradients are not right"):
        homework("new", ["mine.py:Shift"])


def test_forwards_of_ones_own(monkeypatch):
    homework("homework", ["mine.py:Shift"], forward=True)
    monkeypatch.chdir("homework")
    assert "yours to write" in first_trouble("Shift")
    Path("mine.py").write_text(MINE)
    assert first_trouble("Shift") == ""
    Path("mine.py").write_text(MINE.replace("self.sign * self.b.data", "self.b.data"))
    assert "Shift.forward: output y is wrong" in first_trouble("Shift")


@pytest.mark.parametrize("text, layers, words", [
    (MINE, ["mine.py:Inner"], "no inputs are known for Inner: give it a classmethod sample()"),
    (MINE, ["mine.py:None"], "has no class 'None'"), (MINE, ["yours.py:Shift"], "no file yours.py"),
    (MINE.replace("dt = dy", "dt = 2 * dy"), ["mine.py:Shift"], "its own gradients are not right"),
    (MINE.replace("return [(cls(4), x)", "return [(cls(4), 1 / 0)"), ["mine.py:Shift"],
     "its sample raised ZeroDivisionError"),
    (MINE.replace("return [", "return ["[:-1] + "tuple([").replace('x)]', 'x)])'),
     ["mine.py:Shift"], "must return a list"),
    (MINE, ["mine.py:Shift", "mine.py:Shift", "json:JSONDecoder"], "is not a Layer"),
    (MINE.replace("import numpy as np", "import numpy as np\nimport helpers"), ["mine.py:Shift"],
     "it imports helpers.py, which students do not have"),
    (MINE.replace("Shift", "Tanh"), ["Tanh", "mine.py:Tanh"], "with a name, as its class has"),
])
def test_what_is_no_exercise(text, layers, words):
    Path("helpers.py").touch()
    Path("mine.py").write_text(text)
    with pytest.raises(InputError) as said:
        homework("homework", layers)
    assert words in str(said.value) and not Path("homework").exists()


def test_one_line_each_at_a_time_is_npdls_alone(capsys):
    assert main(["homework", "--out", "x", "--layers", "mine.py:Shift", "--level", "line"]) == 2
    assert "a layer of your own goes with --level layer" in capsys.readouterr().err


def test_grading_needs_the_teachers_file(capsys):
    homework("homework", ["mine.py:Shift"])
    Path("mine.py").rename("yours.py")
    del sys.modules["mine"]
    Path("class/ada").mkdir(parents=True)
    assert main(["homework", "grade", "class", "--homework", "homework", "--out", "g"]) == 2
    assert "there is no file mine.py" in capsys.readouterr().err


def test_samples_that_a_class_brings():
    spec = importlib.util.spec_from_file_location("mine", "mine.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(own_samples(module.Shift)) == 2
    assert own_samples(module.Shift)[1][0].sign == -1 and own_samples(module.Inner) == []

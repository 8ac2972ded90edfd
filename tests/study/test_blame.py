"""`blame`: the first wrong line of a backward, what it should have been, and why."""

import collections
import sys

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.core import Cache, Layer, Param
from npdl.layers.linear import Linear
from npdl_study.blame.blame import assert_right, blame
from npdl_study.blame.search import search
from npdl_study.check.samples import layer_classes, sample
from npdl_study.check.subjects import Subject
from tests.tools import blame_score, slow
from tests.tools.blame_score import functions
from tests.tools.mutants import mutants
from tests.tools.mutation_score import score, share
from tests.tools.student import FAULTS, STUDENT, student


def test_the_right_file_is_right(tmp_path):
    cls, _ = student(tmp_path)
    layer, x = cls.sample()
    report = blame(layer, x)
    assert report.right and "right: 5 gradients" in str(report)
    assert_right(layer, x)


# Two, by what is written; all with --slow.
KINDS = ("self.b.grad = dz", "dz @ self.W.data")


@pytest.mark.parametrize(("old", "new", "kind"), slow.but(KINDS, FAULTS, lambda fault: fault[1]),
                         ids=[new for _, new, _ in FAULTS])
def test_the_wrong_line_is_named(tmp_path, old, new, kind):
    cls, line = student(tmp_path, old, new)
    layer, x = cls.sample()
    report = blame(layer, x)
    assert not report.right
    if new.endswith("= cache"):                         # an unpacking is not accused
        return
    assert (report.line, report.function) == (line, "Net.backward"), str(report)
    assert new.split("[")[0] in report.source
    assert kind is None or report.kind == kind, str(report)


@pytest.mark.slow
def test_what_it_computed_and_what_it_should_have_been(tmp_path):
    right, _ = student(tmp_path)
    wrong, _ = student(tmp_path, "dh_hat = dy * self.gain.data", "dh_hat = -dy * self.gain.data")
    report = blame(*wrong.sample())
    assert report.name == "dh_hat"
    np.testing.assert_allclose(report.computed, -report.wanted, rtol=1e-6)
    assert "the sign is wrong" in report.diagnosis


@pytest.mark.slow
def test_the_turn_of_the_loop_is_named(tmp_path):
    cls, _ = student(tmp_path, "dh = dz @ self.U.data.T", "dh = dz @ self.U.data.T * (t != 1)")
    report = blame(*cls.sample())
    assert report.iteration == ((("t", 1),),), str(report)
    cls, _ = student(tmp_path, "(1 - hs", "(1 + hs")
    assert blame(*cls.sample()).iteration


@pytest.mark.slow
def test_two_faults_are_both_named(tmp_path):
    text = STUDENT.replace("self.b.grad += dz", "self.b.grad = dz")
    cls, line = student(tmp_path, "self.U.grad +=", "self.U.grad -=", text)
    report = blame(*cls.sample())
    other = 1 + text[: text.index("self.b.grad = dz")].count("\n")
    assert not report.right and {report.line, report.second} == {line, other}
    assert any("another line is wrong too" in note for note in report.notes)
    assert "every gradient is right" not in report.diagnosis and not report.new


def test_a_layer_that_raises_is_named_with_its_error(tmp_path):
    cls, line = student(tmp_path, "hs[t].T @ dz", "hs[t] @ dz")
    report = blame(*cls.sample())
    assert report.line == line and isinstance(report.error, ValueError)
    assert "raised" in str(report) and "hs[t].T @ dz" in report.diagnosis
    cls, line = student(tmp_path, "dx[:, t] = dz", "dx[:, t] = dzz")
    report = blame(*cls.sample())
    assert report.line == line and isinstance(report.error, NameError)


def test_assert_right_shows_the_report(tmp_path):
    cls, line = student(tmp_path, "(1 - hs", "(1 + hs")
    with pytest.raises(AssertionError, match=rf"student.py:{line} in Net.backward"):
        assert_right(*cls.sample())


class Half(Layer):
    """y = x / 2, with a chosen sin."""

    def __init__(self, sin):
        self.sin = sin

    def forward(self, x, ids=None):
        if self.sin == "writes x":
            x *= 0.5
            return x, Cache()
        return np.maximum(x, 0) if self.sin == "kink" else x / 2, Cache(x=x)

    def backward(self, dy, cache):
        if self.sin == "writes dy":
            dy *= 0.5
            return dy
        if self.sin == "spoils x":
            cache.x[...] = 0
        if self.sin == "kink":
            return dy * (cache.x > 0)
        if self.sin == "nothing":
            return None
        return dy / 2


@pytest.mark.parametrize(("sin", "right", "words"), [
    ("writes dy", False, "changes the gradient that it is handed in place"),
    ("spoils x", False, "changes input x in place"),
    ("writes x", False, "forward changes its inputs in place"),
    ("nothing", False, "backward returned no gradient"),
])
def test_aliasing_and_absence_are_said(sin, right, words):
    report = blame(Half(sin), np.arange(1.0, 7.0).reshape(2, 3))
    assert report.right is right and words in str(report)


def test_kinks_and_integers_are_said():
    report = blame(Half("kink"), np.zeros((2, 2)))
    assert report.kind == "unchecked" and "kink" in str(report)
    report = blame(Half(""), np.ones((2, 2)), np.array([1, 2]))
    assert report.right and "input ids is int64: it has no gradient" in str(report)


@pytest.mark.parametrize("ends", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_a_backward_overwrites_is_said_and_put_back(ends):
    class Spoils(Linear):
        def backward(self, dy, cache):
            dx = super().backward(dy, cache)
            cache.rows[...] = 0
            self.W.data[...] = 0
            if ends:
                raise ValueError("ends here")
            return dx

    check = Subject(Spoils(3, 2), (np.ones((4, 3)),))
    before = [a.copy() for a in (check.inputs[0], check.layer.W.data)]
    report = search(check)
    assert not report.right
    assert ends or "backward changes parameter W in place" in " ".join(str(report).split())
    for array, own in zip((check.inputs[0], check.layer.W.data), before, strict=True):
        assert np.array_equal(array, own)


class Tied(Layer):
    """y = x W W^T: one parameter used twice."""

    def __init__(self):
        self.W = Param(np.eye(3) + 0.1)

    def forward(self, x):
        u = x @ self.W.data
        y = u @ self.W.data.T
        return y, Cache(x=x, u=u)

    def backward(self, dy, cache):
        self.W.grad += dy.T @ cache.u
        du = dy @ self.W.data
        self.W.grad += cache.x.T @ dy
        dx = du @ self.W.data.T
        return dx


def test_a_parameter_used_twice():
    report = blame(Tied(), np.random.default_rng(0).standard_normal((4, 3)))
    assert not report.right and report.source == "self.W.grad += cache.x.T @ dy"


@pytest.mark.slow
@pytest.mark.parametrize("cls", layer_classes().values(), ids=lambda cls: cls.__name__)
def test_every_layer_is_right(cls):
    layer, inputs, options = sample(cls)
    if cls.__name__ in ("ThresholdNeuron", "XOR"):      # no gradient but 0, anywhere
        assert "every gradient is 0" in blame(layer, *inputs, **options).diagnosis
        return
    assert_right(layer, *inputs, **options)


class IntoItself(Linear):
    """A wrong sign, and a list that holds itself."""

    def backward(self, dy, cache):
        parts = [dy]
        parts.insert(0, parts)
        self.W.grad -= cache.rows.T @ dy
        self.b.grad += dy.sum(0)
        return dy @ self.W.data.T


def test_a_list_in_itself_does_not_stop_the_search():
    found = blame(IntoItself(3, 2), np.random.default_rng(0).standard_normal((4, 3)))
    assert "self.W.grad -= cache.rows.T @ dy" in str(found) and "sign" in str(found)


def test_the_layer_and_its_inputs_stay_as_they_are():
    layer, x = Linear(3, 2), np.ones((4, 3), "float32")
    before = layer.state_dict()
    layer.W.grad[...] = 7
    blame(layer, x)
    assert (x == 1).all() and (layer.W.grad == 7).all()
    assert all((before[name] == own).all() for name, own in layer.state_dict().items())


def test_it_runs_under_a_debugger():
    sys.settrace(lambda *event: None)
    try:
        assert blame(Linear(2, 2), np.ones((1, 2))).right
    finally:
        sys.settrace(None)


def test_the_command_and_its_exit_status(tmp_path, capsys):
    def run(*arguments):
        return main(["blame", *arguments]), *capsys.readouterr()

    student(tmp_path, "(1 - hs", "(1 + hs")
    status, said, _ = run(f"{tmp_path}/student.py:Net")
    assert status == 1 and "student.py:40 in Net.backward" in said
    status, said, _ = run("LayerNorm")
    assert status == 0 and said.startswith("right: 3 gradients")
    for arguments, words in [
        (["Nothing"], "layer 'Nothing' is unknown"),
        ([f"{tmp_path}/student.py:Nobody"], "has no class 'Nobody'; it has: Net"),
        ([f"{tmp_path}/none.py:Net"], "there is no file"),
        (["LayerNorm", "--input", "x=2,a"], "a shape is lengths of at least 1"),
        (["Linear", "--input", "q=2,3"], "forward has no argument 'q'"),
    ]:
        status, said, trouble = run(*arguments)
        assert status == 2 and words in trouble and trouble.count("\n") == 1 and not said


QUICK = {"LayerNorm.backward": {"LayerNorm"}, "LSTMCell.backward": {"LSTMCell"},
         "attend_backward": {"DotAttention"}, "Linear.backward": {"Linear"}}


@pytest.mark.slow
def test_the_mutation_score_of_a_sample():
    total, missed = collections.Counter(), []
    for name, classes in QUICK.items():
        chosen = [f for f in functions() if name in f.__qualname__]
        pool = [mutant for f in chosen for mutant in mutants(f)[::9]]
        rows, lines = score(pool, blame_score.judge_of(chosen, classes), blame_score,
                            shown=("survived", "on another line"))
        total, missed = sum(rows.values(), total), missed + lines
    assert sum(total.values()) - total["equivalent"] > 12
    for words, least in blame_score.GOALS.items():
        assert share(total, words, blame_score.CAUGHT) >= least, "\n".join(missed)


def test_mutants_change_one_token():
    function = next(f for f in functions() if f.__qualname__ == "Tanh.backward")
    found = {(m.was, m.now) for m in mutants(function)}
    assert {("*", "/"), ("-", "+"), ("1", "2"), ("dy", "y")} <= found

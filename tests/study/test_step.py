"""`step`: what a layer computes, statement by statement, and what is said about it."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.backend import xp
from npdl.core import Cache, Layer
from npdl.errors import InputError
from npdl.layers.activation import ReLU
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl_study.check.examples import EXAMPLES
from npdl_study.check.samples import layer_classes, sample
from npdl_study.check.subjects import Subject
from npdl_study.step.pictures import Summary
from npdl_study.step.record import Recorder
from npdl_study.step.step import step
from tests.study.test_step_page import page_data
from tests.tools import slow

ROOT = Path(__file__).parents[2]
CLASSES = layer_classes()


class InPlace(Layer):
    """y = 3 x, by as many kinds of writing in place as there are."""

    def forward(self, x):
        y = np.zeros_like(x)
        y += x
        np.add.at(y, (np.array([0]), np.array([700])), x[0, 700])
        y[0, 700] -= x[0, 700]
        np.copyto(y, 2 * x)
        np.add(y, x,
               out=y)
        half = y[:, :1000]
        half *= 1.0
        half[...] = half
        return y, Cache()

    def backward(self, dy, cache):
        dx = np.empty_like(dy)
        left, right = dx[:, :1000], dx[:, 1000:]
        left[...] = 3 * dy[:, :1000]
        right[...] = 3 * dy[:, 1000:]
        return dx


class Fails(Linear):
    """A Linear whose backward multiplies the wrong way round."""

    def backward(self, dy, cache):
        self.b.grad += dy.sum(0)
        self.W.grad += dy @ cache.rows.T
        return dy @ self.W.data.T


def written(walk, line_of):
    """{name: how} of what the statement that contains a text wrote."""
    found = next(s for s in walk.recording.steps if line_of in s.line.source)
    return {w.name: w.how for w in found.writes}


def test_every_kind_of_write_in_place_is_seen():
    walk = step(InPlace(), np.random.default_rng(0).standard_normal((1, 2000)))
    for text in ("y += x", "np.add.at", "y[0, 700] -=", "np.copyto", "out=y", "half[...] = half"):
        assert set(written(walk, text)) & {"y", "half"}, text
    assert written(walk, "np.add.at") == {"y": "in place"}
    assert written(walk, "left[...] =") == {"left": "in place", "dx": "through a view"}
    assert written(walk, "right[...] =") == {"right": "in place", "dx": "through a view"}
    assert all(f.right for f in walk.finals)


def test_a_statement_over_several_lines_is_one_step():
    walk = step(InPlace(), np.ones((1, 2000)))
    found = [s for s in walk.recording.steps if "np.add(y, x" in s.line.source]
    assert len(found) == 1 and found[0].line.last == found[0].line.first + 1


@pytest.mark.slow
@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_stepping_changes_no_result(cls):
    layer, inputs, options = sample(cls)
    subject = Subject(layer, inputs, options)

    def gradients():
        found, _ = subject.backward(subject.upstream(subject.paths), subject.run()[1])
        return [*subject.outputs(), *found.values()]

    plain, watched = gradients(), []
    recorder = Recorder(gradients)
    recorder.run(subject.layer, subject.inputs, subject.run,
                 lambda outputs: watched.extend(gradients()))
    assert recorder.recording.steps
    for one, other in zip(plain, watched, strict=True):
        assert np.array_equal(one, other)


# A few, and one whose every gradient is 0; all with --slow.
QUICK = ("Dropout", "LSTMCell", "Linear", "MessagePassing", "ThresholdNeuron")


@pytest.mark.parametrize("name", slow.but(QUICK, sorted(CLASSES)))
def test_every_layer_steps_and_no_right_value_is_called_wrong(name):
    cls = CLASSES[name]
    layer, inputs, options = sample(cls)
    walk = step(layer, *inputs, **options)
    assert walk.recording.error is None and walk.steps(("backward",))
    assert not [mark for mark in walk.marks.values() if mark.right is False]
    assert not [n for n in walk.notes if "as its name" in n]
    flat = name in ("ThresholdNeuron", "XOR")           # every gradient is 0: nothing is seen
    assert walk.finals and all(f.right is None if flat else f.right for f in walk.finals)
    unknown = {w.name for s in walk.steps(("backward",)) for w in s.writes
               if w.how == "bound" and getattr(walk.mark(s, w.name), "right", None) is None}
    assert unknown <= UNKNOWN


# Nothing that is checked depends on the gradient of a state that was not given, nor on zeros that
# are all written over (a table's `total`, of ids that all occur).
UNKNOWN = {"dstart", "dstart_a", "dstart_b", "total"}


def test_samples_name_layers_that_exist():
    assert not set(EXAMPLES) - set(CLASSES)


def test_an_lstm_is_mathematics_line_by_line():
    """At most five statements only carry states about; each gate's line is judged at each t."""
    layer, inputs, options = sample(LSTM)
    walk = step(layer, *inputs, **options)
    around = [s.line.source.strip() for s in walk.steps() if "LSTMCell" not in s.call.name]
    starts = ("state =", "dstate =", "(x, last)", "dx, dstart")
    carrying = [s for s in around if s.startswith(starts)]
    assert len(carrying) <= 5
    assert {s.split("#")[0].strip() for s in around if s not in carrying} \
        == {"new, step = self.cell.forward(x[:, t], state)", "y = xp.stack(ys, 1)", "dh = dy[:, t]",
            "dx, dstate = self.cell.backward(add_dh(dstate, dh), steps[t])",
            "dx = xp.stack(dxs[::-1], 1)"}
    judged = {}
    for one in walk.steps(("backward",)):
        for write in one.writes:
            verdict = walk.mark(one, write.name)
            if "LSTMCell" in one.call.name:
                assert verdict.right, one.line.source
                judged.setdefault(write.name, set()).add(one.turns[-1])
    assert set("di df do dg dz_i dz_f dz_o dz_g dz self.W_h.grad".split()) <= set(judged)
    assert all(turns == {(("t", t),) for t in range(3)} for turns in judged.values())
    walk.show(file=(out := io.StringIO()))
    assert "NaN" not in out.getvalue()


def test_a_line_shows_what_it_read_as_it_was_then():
    walk = step(InPlace(), np.ones((1, 2000)))
    read = {s.line.source.strip(): s.reads for s in walk.recording.steps}
    (_, before), = read["y += x"]["y"]                  # y was room full of zeros
    assert before.norm == 0 and read["y += x"]["x"][0][1].norm > 1
    assert list(read["left[...] = 3 * dy[:, :1000]"]) == ["dy[:, :1000]"]


@pytest.mark.slow
def test_the_lines_at_the_heart_of_a_layer_norm_are_judged_too():
    class Wrong(LayerNorm):
        def backward(self, dy, cache):
            dx_hat = dy * self.gain.data
            self.gain.grad += (dy * cache.x_hat).sum(0)
            self.bias.grad += dy.sum(0)
            shift = 2 * dx_hat.mean(-1, keepdims=True)
            stretch = (dx_hat * cache.x_hat).mean(-1, keepdims=True)
            return (dx_hat - shift - stretch * cache.x_hat) / cache.std

    x = np.random.default_rng(0).standard_normal((3, 5))
    for cls in (LayerNorm, Wrong):
        walk = step(cls(5), x)
        known = {w.name: walk.mark(s, w.name) for s in walk.steps(("backward",))
                 for w in s.writes}
        assert known["dx_hat"].right and known["self.gain.grad"].right
        assert bool(known["shift"] and known["shift"].right) == (cls is LayerNorm)


def test_a_gradient_that_is_replaced_is_wrong_though_its_value_is_not():
    class Replaces(Linear):
        def backward(self, dy, cache):
            self.b.grad += dy.sum(0)
            self.W.grad = cache.rows.T @ dy
            return dy @ self.W.data.T

    walk = step(Replaces(3, 4), np.random.default_rng(0).standard_normal((5, 3)))
    known = {w.name: walk.mark(s, w.name).right for s in walk.steps(("backward",))
             for w in s.writes if w.name.endswith("grad")}
    assert known == {"self.b.grad": True, "self.W.grad": False}


def test_zeros_are_not_right_because_one_use_leads_nowhere():
    class Zeros(Layer):
        def forward(self, x):
            return x * x, Cache(x=x)                    # of this x the gradient is 0

        def backward(self, dy, cache):
            dx = 0 * dy * cache.x
            return dx

    walk = step(Zeros(), np.random.default_rng(0).standard_normal((2, 3)))
    mark = next(walk.mark(s, "dx") for s in walk.steps(("backward",)) for w in s.writes)
    assert mark.right is False and not mark.follows and "x" in walk.said()


class Folded(Layer):
    """Attention whose scale is multiplied in elsewhere on the way back: right, under odd names."""

    def forward(self, q, k):
        s = q @ k.T
        a = 0.5 * s
        p = np.tanh(a)
        return p, Cache(q=q, k=k, p=p)

    def backward(self, dp, cache):
        ds = dp * (1 - cache.p**2)                      # the gradient of a, in truth
        dq = 0.5 * ds @ cache.k
        dk = 0.5 * ds.T @ cache.q
        return dq, dk


def test_no_line_is_wrong_because_of_its_name():
    rng = np.random.default_rng(0)
    walk = step(Folded(), rng.standard_normal((3, 2)), rng.standard_normal((4, 2)))
    walk.show(file=(out := io.StringIO()))
    assert "WRONG" not in out.getvalue() and all(f.right for f in walk.finals)
    assert any("ds is not the gradient of s, as its name may say" in note for note in walk.notes)


def test_what_changed_afterwards_is_not_shown_under_its_old_name():
    class Reused(LayerNorm):
        def backward(self, dy, cache):
            dgain = dy * cache.x_hat
            self.gain.grad += dgain.sum(0)
            self.bias.grad += dy.sum(0)
            dx_hat = np.multiply(dy, self.gain.data, out=dgain)
            stretch = (dx_hat * cache.x_hat).mean(-1, keepdims=True)
            return (dx_hat - dx_hat.mean(-1, keepdims=True) - stretch * cache.x_hat) / cache.std

    walk = step(Reused(5), np.random.default_rng(0).standard_normal((3, 5)))
    walk.show(file=(out := io.StringIO()))
    assert "dgain is dx_hat now" in out.getvalue() and "dgain (3, 5) (in" not in out.getvalue()


def test_a_kink_is_said():
    walk = step(ReLU(), np.array([[0.0, 0.0]]))
    assert walk.finals[0].right is None
    out = io.StringIO()
    walk.show(file=out)
    assert "at a kink" in out.getvalue() and "WRONG" not in out.getvalue()


def test_an_exception_still_gives_a_walk_and_a_page(tmp_path):
    walk = step(Fails(3, 4), np.ones((5, 3)))
    assert isinstance(walk.recording.error, ValueError)
    last = walk.steps()[-1]
    assert "self.W.grad" in last.line.source and last.error is walk.recording.error
    data = page_data(walk.to_html(tmp_path / "fails.html").read_text())
    assert data["error"].startswith("ValueError") and data["steps"][-1]["error"]
    forward = step(Linear(3, 4), np.ones((5, 2)))       # forward itself refuses
    assert isinstance(forward.recording.error, InputError)


def test_it_runs_under_a_debugger():
    sys.settrace(lambda *event: None)
    try:
        walk = step(LayerNorm(3), np.random.default_rng(0).standard_normal((2, 3)))
    finally:
        sys.settrace(None)
    assert walk.steps() and all(f.right for f in walk.finals)


def test_all_is_as_it_was_after_an_error():
    before = Fails.backward.__code__
    step(Fails(3, 4), np.ones((5, 3)))
    assert Fails.backward.__code__ is before and "__npdl__" not in globals()
    assert xp.empty is np.empty                         # and what is unwritten is left alone again


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_text_where_there_is_no_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    walk = step(LayerNorm(3), np.random.default_rng(0).standard_normal((2, 3)))
    shown = {}
    for name, out in (("file", io.StringIO()), ("terminal", Terminal())):
        walk.show(file=out)
        shown[name] = out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    walk.show(file=out)
    assert "\033" not in shown["file"] and out.getvalue() == shown["file"]
    assert "\033" in shown["terminal"] and "▀" in shown["terminal"]
    assert "dx_hat = dy * self.gain.data" in shown["file"]
    assert "dx\u0302 = dy ⊙ gain" in shown["file"] and "right (error" in shown["file"]
    assert "from dy (2, 3)" in shown["file"] and "right (moved a little" in shown["file"]
    walk.show(("forward",), out := io.StringIO())
    assert "backward" not in out.getvalue()


def test_a_summary_counts_what_is_not_finite():
    array = np.array([[1.0, -3.0], [np.nan, np.inf]])
    found = Summary.from_array(array)
    assert (found.nan, found.inf, found.low, found.high) == (1, 1, -3.0, 1.0)
    assert found.norm == pytest.approx(np.sqrt(10)) and found.dtype == "float64"
    array[...] = 0                                      # a summary keeps what it saw
    assert found.values[0, 1] == -3.0
    big = Summary.from_array(np.arange(100.0 * 33).reshape(10, 10, 33))
    assert big.cells.shape == (16, 16) and big.values is None
    assert big.cells.mean() == pytest.approx(np.arange(3300).mean(), rel=0.01)
    assert Summary.from_array(np.float64(2)).shape == ()
    for shape in (0,), (0, 3), (2, 0), (0, 0), (1, 2, 0), (0, 2, 3):
        empty = Summary.from_array(np.zeros(shape))
        assert empty.norm == 0 and empty.line().split(")")[1].strip() == "empty"


def test_the_command(tmp_path, capsys):
    def run(*arguments):
        status = main(["step", *arguments])
        return status, *capsys.readouterr()

    status, said, _ = run("linear", "--backward")
    assert status == 0 and "Linear.backward" in said
    assert "Linear.forward" not in said and "\033" not in said
    page = tmp_path / "deep" / "page.html"
    status, *_ = run("npdl.layers.layer_norm:LayerNorm", "--input", "x=2,3,4", "--html", str(page))
    assert status == 0 and page.exists()
    own = tmp_path / "own.py"
    own.write_text((ROOT / "npdl/layers/dropout.py").read_text().replace("Dropout", "Own"))
    status, said, _ = run(f"{own}:Own", "--input", "x=2,3", "--set", "rate=0.5")
    assert status == 0 and "Own.forward" in said
    status, _, trouble = run(f"{own}:Own")
    assert status == 2 and "no inputs are known for Own" in trouble

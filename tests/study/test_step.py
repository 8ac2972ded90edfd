"""step: what each statement wrote, which values are right, and how it is shown."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from npdl import LSTM, Cache, Layer, LayerNorm, Linear, ReLU, step
from npdl.__main__ import main
from npdl.errors import InputError
from npdl.study.check.samples import find_layer_classes, make_example_call
from npdl.study.step import record
from npdl.study.step.pictures import ArraySummary
from npdl.study.step.show_html import format_page
from npdl.study.step.step import PHASES
from tests.layers.cases import is_composed
from tests.tools import slow

ROOT = Path(__file__).parents[2]
CLASSES = find_layer_classes()
X = np.random.default_rng(0).standard_normal((5, 3))


def capture_show(walk, *phases):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        walk.show(*phases)
    return out.getvalue()


@pytest.fixture(scope="module")
def lstm_walk():
    return step(LSTM(2, 3), np.random.default_rng(0).standard_normal((2, 3, 2)))


def get_mark_kinds(walk):
    """Return {name: the kind of its Mark, or ""} of what backward wrote."""
    writes = [w for s in walk.recording.list_steps("backward") for w in s.writes]
    return {w.name: w.mark.kind if w.mark else "" for w in writes}


# --- what is recorded -------------------------------------------------------------------------


class InPlace(Layer):
    """y = 3 x, written in place in every way."""

    def forward(self, x):
        y = np.zeros_like(x)
        y += x
        np.add.at(y, (np.array([0]), np.array([2])), x[0, 2])
        y[0, 2] -= x[0, 2]
        np.copyto(y, 2 * x)
        np.add(y, x,
               out=y)
        self.y = y * 1.0
        return y, Cache()

    def backward(self, dy, cache):
        dx = np.zeros_like(dy)
        left, right = dx[:, :1], dx[:, 1:]
        left[...] = 3 * dy[:, :1]
        right[...] = 3 * dy[:, 1:]
        return dx


class Fails(Linear):
    """A Linear whose backward multiplies in the wrong order."""

    def backward(self, dy, cache):
        self.b.grad += dy.sum(0)
        self.W.grad += dy @ cache.rows.T
        return dy @ self.W.data.T


def test_every_kind_of_write_in_place_is_recorded():
    walk = step(InPlace(), X)
    for text in ("y += x", "np.add.at", "y[0, 2] -=", "np.copyto", "out=y", "left[...] ="):
        [found] = [s for s in walk.recording.steps if text in s.statement.source]
        assert [w.name for w in found.writes] == ["left" if "left" in text else "y"]
        assert found.statement.last_line - found.statement.first_line == (text == "out=y")
    assert all(row.right for row in walk.finals)


def test_a_long_recording_is_cut_and_the_gradients_are_checked(monkeypatch):
    monkeypatch.setattr(record, "MOST_STEPS", 3)
    walk = step(Linear(3, 4), X)
    assert walk.recording.cut[-1] == "backward" and "the first 3 statements of" in walk.notes[0]
    assert len(walk.finals) == 3 and all(row.right for row in walk.finals)


def test_an_exception_still_gives_a_walk_and_a_page(tmp_path):
    code = Fails.backward.__code__
    walk = step(Fails(3, 4), X)
    assert isinstance(walk.recording.error, ValueError)
    last = walk.steps()[-1]
    assert "self.W.grad" in last.statement.source and last.error is walk.recording.error
    data = read_page_data(walk.to_html(tmp_path / "fails.html").read_text())
    assert data["error"].startswith("ValueError") and data["steps"][-1]["error"]
    forward = step(Linear(3, 4), np.ones((5, 2)))       # forward raises, too
    assert isinstance(forward.recording.error, InputError)
    assert Fails.backward.__code__ is code and "__npdl__" not in globals()


# --- what is right ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow.mark_except(      # and two composed of other layers
    ("Dropout", "LSTMCell", "Linear", "MessagePassing", "ThresholdNeuron"),
    ["Bidirectional", "GPT", *(name for name in CLASSES if not is_composed(CLASSES[name]))]))
def test_no_value_of_npdls_layers_is_wrong(name):
    layer, inputs, options = make_example_call(CLASSES[name])
    walk = step(layer, *inputs, **options)
    assert walk.recording.error is None and walk.steps(("backward",))
    assert set(get_mark_kinds(walk).values()) <= {"right", ""}
    all_zero = name in ("ThresholdNeuron", "XOR")
    assert walk.finals and all(row.right is (None if all_zero else True) for row in walk.finals)
    assert all_zero or "right" in get_mark_kinds(walk).values()


def test_each_line_of_an_lstm_is_compared_at_each_time_step(lstm_walk):
    compared = {}
    for one in lstm_walk.steps(("backward",)):
        for write in one.writes:
            if write.mark is not None and "LSTMCell" in one.call.name:
                assert write.mark.kind == "right", one.statement.source
                compared.setdefault(write.name, set()).add(one.iterations[-1])
    assert set("di df do dg dz_i dz_f dz_o dz_g dz self.W_h.grad".split()) <= set(compared)
    assert all(found == {"t = 0", "t = 1", "t = 2"} for found in compared.values())
    assert re.search(r"LSTMCell.backward  called by line \d+ of Recurrent", capture_show(lstm_walk))


class WrongShift(LayerNorm):
    def backward(self, dy, cache):
        dx_hat = dy * self.gain.data
        self.gain.grad += (dy * cache.x_hat).sum(0)
        self.bias.grad += dy.sum(0)
        shift = 2 * dx_hat.mean(-1, keepdims=True)
        stretch = (dx_hat * cache.x_hat).mean(-1, keepdims=True)
        dx = (dx_hat - shift - stretch * cache.x_hat) / cache.std
        return dx


class InDicts:
    def __init__(self):
        self.params, self.grads = {"W": np.ones((3, 2)), "b": np.zeros(2)}, {}

    def forward(self, x):
        self.x = x
        return np.dot(x, self.params["W"]) + self.params["b"]

    def backward(self, dy):
        self.grads["W"] = np.dot(self.x.T, dy)
        self.grads["b"] = dy.sum(0)
        return np.dot(dy, self.params["W"].T)


class Replaces(Linear):
    def backward(self, dy, cache):
        self.b.grad += dy.sum(0)
        self.W.grad = cache.rows.T @ dy
        return dy @ self.W.data.T


@pytest.mark.parametrize(("layer", "inputs", "marks", "wrong", "words"), [
    (InDicts(), (X,), {"self.grads['W']": "right", "self.grads['b']": "right", "return": "right"},
     [], []),
    # the line that blame finds is wrong, and others are wrong or upstream
    (WrongShift(3), (X,), {"dx_hat": "right", "self.gain.grad": "right", "self.bias.grad": "right",
                           "shift": "wrong", "stretch": "", "dx": "upstream", "return": "upstream"},
     ["input x"], ["WRONG", "wrong, here or upstream", "note: line "]),
    # a gradient that is replaced is wrong, although its value is right
    (Replaces(3, 4), (X,), {"self.b.grad": "right", "self.W.grad": "right", "return": "right"},
     ["W"], ["overwritten"])], ids=lambda value: getattr(type(value), "__name__", ""))
def test_values_are_marked(layer, inputs, marks, wrong, words):
    walk = step(layer, *inputs)
    assert get_mark_kinds(walk) == marks
    assert [row.name for row in walk.finals if row.right is False] == wrong
    assert not [word for word in words if word not in capture_show(walk)]


def test_a_kink_is_inconclusive():
    text = capture_show(step(ReLU(), np.array([[0.0, 0.0]])))
    assert "inconclusive at [0, 0] and 1 other entry: the derivatives from the left" in text
    assert "WRONG" not in text


def test_code_without_source_is_checked_and_named():
    names = {"Linear": Linear, "__name__": "mine"}
    exec("class Net(Linear):\n    def backward(self, dy, cache):\n        return 2 * dy", names)
    walk = step(names["Net"](3, 3), X)
    assert not any(row.right for row in walk.finals)
    assert "no source was found" in "".join(walk.notes)


# --- the terminal -----------------------------------------------------------------------------


def test_colours_are_used_in_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    walk = step(LayerNorm(3), X)
    with contextlib.redirect_stdout(Terminal()) as terminal:
        walk.show()
    monkeypatch.setenv("NO_COLOR", "1")
    with contextlib.redirect_stdout(Terminal()) as without:
        walk.show()
    assert "\033" in terminal.getvalue() and without.getvalue() == capture_show(walk)
    assert "\033" not in capture_show(walk) and "backward" not in capture_show(walk, ("forward",))


def test_a_summary_counts_entries_that_are_not_finite():
    array = np.array([[1.0, -3.0], [np.nan, np.inf]])
    found = ArraySummary.from_array(array)
    assert (found.nan, found.inf, found.low, found.high) == (1, 1, -3.0, 1.0)
    assert found.norm == pytest.approx(np.sqrt(10))
    array[...] = 0                                      # a summary keeps its values
    assert found.entries[0, 1] == -3.0
    big = ArraySummary.from_array(np.arange(100.0 * 33).reshape(10, 10, 33))
    assert big.entries.shape == (16, 16)
    assert big.entries.mean() == pytest.approx(np.arange(3300).mean(), rel=0.01)
    assert ArraySummary.from_array(np.zeros((1, 2, 0))).format_line().endswith("empty")


def test_the_transcript_in_the_docs_is_what_the_command_prints(capsys):
    """Every line in docs/study-tools.md, in order; a rounding error may differ."""
    document = (ROOT / "docs" / "study-tools.md").read_text(encoding="utf-8")
    command, kept = re.search(r"^\$ python -m npdl (step .*)\n((?:.*\n)+?)```", document,
                              re.M).groups()
    assert main(shlex.split(command)) == 0
    said, wanted = (re.sub(r"error \d\S*?\)", "error)", text).splitlines()
                    for text in (capsys.readouterr().out, kept))
    lines = [line for line in wanted if line not in ("", "...")]
    assert len(lines) > 8
    rest = iter(said)
    for line in lines:
        assert line in rest, f"{line!r} is not what `python -m npdl {command}` prints"


# --- the page ---------------------------------------------------------------------------------


def read_page_data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert "<" not in found[1]                          # no tag and no comment can begin
    return json.loads(found[1])


def test_the_page_is_one_small_file_that_loads_nothing(lstm_walk, tmp_path):
    text = lstm_walk.to_html(tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 1_000_000
    assert "default-src 'none'" in text and not re.search(r"(src|href|url)\s*[=(]", text)
    assert "http" not in text.replace("http-equiv", "")
    assert str(ROOT) not in text and str(Path.home()) not in text
    data = read_page_data(text)
    calls, functions = data["calls"], data["functions"]
    for one in data["steps"]:
        function = functions[calls[one["call"]]["function"]]
        assert one["from"] in [line[0] for line in function["lines"]]
        assert all(data["arrays"][a["array"]]["entries"] for a in (*one["writes"], *one["reads"]))
    checks = [w["check"]["kind"] for s in data["steps"] for w in s["writes"] if w["check"]]
    assert {*checks} == {"right"} and {c["phase"] for c in calls} == {"forward", "backward"}


class Hostile(Layer):
    """Its source and its exception contain what would end a script."""

    def forward(self, x):
        y = x * len("</script><b>&amp;")
        return y, Cache()

    def backward(self, dy, cache):
        raise ValueError("not <!-- <script> in </script> \ud800")


def test_source_and_exceptions_cannot_break_the_page():
    text = format_page(step(Hostile(), np.ones((2, 2))), PHASES)
    assert text.count("</script>") == 2 and "<!--" not in text
    lines = read_page_data(text)["functions"][0]["lines"]
    assert any("&lt;/script&gt;&lt;b&gt;&amp;amp;" in line[1] for line in lines)


class Pair:
    def forward(self, x):
        y = np.tanh(x)
#        y = np.sin(x)
        return y, x

    def backward(self, dy, dx):
        dz = 3 * dy
        return dz, dx


def test_no_formula_is_of_a_comment_or_repeats_a_returned_tuple():
    walk = step(Pair(), np.ones((2, 2)))
    assert '"","y = np.sin(x)"' in format_page(walk, PHASES)    # an editor made it a comment
    assert capture_show(walk).count("return dz, dx") == 1

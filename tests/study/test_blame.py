"""blame: the incorrect line of a backward, the value that it should have, and a verified fix."""

import numpy as np
import pytest

import npdl
from npdl import Cache, Layer, Param, assert_right, blame
from npdl.__main__ import main
from npdl.study.blame import blame as blaming
from npdl.study.blame.report import format_array
from tests.study.test_conventions import StateAndMemory, TupleOfGradients, make_layer
from tests.tools.blame_files import make_answer, run_blame

HALF = "dh * (1 - h ** 2)", "dh * (1 - h)"
X = np.random.default_rng(0).standard_normal((3, 4))
TWO = '''
import numpy as np
def net_sample():
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), rng.standard_normal(5)
def net_forward(x, W, b):
    h = np.tanh(x @ W + b)
    return h * h, (x, W, h)
def net_backward(dy, cache):
    x, W, h = cache
    dh = 2 * dy * h
    dz = dh * (1 - h ** 2)
    dW = x.T @ dz
    db = dz.sum(0)
    dx = dz @ W.T
    return dx, dW, db
'''


def blame_changed_file(tmp_path, *changes, text=TWO):
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return run_blame(text, tmp_path)


def test_the_answer_names_line_values_fix_and_gradients(tmp_path):
    report = blame_changed_file(tmp_path, *HALF)
    assert (report.line, report.function, report.source) == (12, "net_backward",
                                                             "dz = dh * (1 - h)")
    said = str(report)
    assert said.startswith("incorrect line:")
    for part in ("  computed   dz (4, 5)", "  expected   dz (4, 5)", "  diagnosis  ",
                 f"  fix        {report.fix}", "verified: with this line, all gradients are",
                 "  wrong      gradients of input x (relative error "):
        assert part in said
    with pytest.raises(AssertionError, match="incorrect line"):
        assert_right(Scaled(2.0), X)
    assert_right(npdl.LayerNorm(4), X)


@pytest.mark.parametrize("old, new", [
    ("dz @ W.T", "dz @ W"), ("dz.sum(0)", "dz.sum(1)"), ("2 * dy * h", "2 * dy"),
    ("x.T @ dz", "x.T @ dh"), ("dx, dW", "dW, dx"), ("dh * (1 - h ** 2)", "dh * h ** 2"),
    ("dh * (1 - h ** 2)", "dh"), ("dh * (1 - h ** 2)", "dh * np.cos(h)")])
def test_a_mistake_is_named_with_a_fix_that_can_be_pasted(tmp_path, old, new):
    text = TWO.replace(old, new)
    wrong, = (n for n, pair in enumerate(zip(text.split("\n"), TWO.split("\n"), strict=True), 1)
              if pair[0] != pair[1])
    answer = make_answer(text, wrong, tmp_path)
    assert answer.is_on_line and answer.is_true


@pytest.mark.parametrize(("changes", "line", "fix", "words"), [
    # no small edit corrects this line
    (("dh * (1 - h ** 2)", "np.sort(dh * (1 - h ** 2), 0) * 1.37 - dh ** 2"), 12, "",
     ["most likely incorrect line:", "none found", "expected   dz (4, 5)"]),
    # two and three mistakes
    (("x.T @ dz", "-x.T @ dz", "dz.sum(0)", "2 * dz.sum(0)"), 13, "dW = x.T @ dz",
     ["verified: all gradients are correct with this line, if line 14 is corrected, too",
      "note: another incorrect line remains"]),
    (("x.T @ dz", "-x.T @ dz", "dz.sum(0)", "2 * dz.sum(0)", "dz @ W.T", "dh @ W.T"), 13,
     "dW = x.T @ dz", ["with this line, the gradient of input W is correct"]),
    # no array of this shape is correct; the correction of either of two lines is enough
    (("dz.sum(0)", "dz.sum(1)"), 14, None, ["expected   unknown: blame found no correct value"]),
    (("2 * dy * h", "2 * dy"), 11, None, ["line 12 instead: dz = dh * (1 -", "fix: dz = dh *"]),
    # two arrays that look alike when they are printed
    (("(4, 3)", "(40, 3)", "    dx = dz @ W.T",
      "    dx = dz @ W.T + (np.arange(120).reshape(40, 3) == 61) * dz[0, 0] ** 2"), 15, None,
     ["differs in 1 of"]),
    # an integer that NumPy can't square
    (("import numpy as np", "import numpy as np\nMOST = 2**62", *HALF), 13, None,
     ["verified: with"]),
    # exceptions
    (("dz @ W.T", "dz @ W"), 15, "dx = dz @ W.T", ["raised     ValueError", "verified: with"]),
    (("dW = x.T @ dz", "dW = missing(x)"), 13, None,
     ["this line raises an exception:", "NameError"]),
    (("    dh = 2 * dy * h", "    raise NotImplementedError('yours')"), 11, "",
     ["not written yet", "yours"]),
    (("np.tanh(x @ W + b)", "np.tanh(np.mean(x, axis=5))"), 0, "",     # raised in NumPy's file
     ["not checked:", "sample()", ".py:7,"])])
def test_the_answer_names_a_line_and_says_what_is_known(tmp_path, changes, line, fix, words):
    report = blame_changed_file(tmp_path, *changes)
    assert report.line == line and (fix is None or report.fix == fix), report
    assert not [word for word in words if word not in str(report)], report


LOOP = '''
import numpy as np
def step_forward(x, h, W, U):
    a, b = np.tanh(x @ W), np.tanh(h @ U)
    return a * b + h, (x, h, W, U, a, b)
def step_backward(dy, cache):
    x, h, W, U, a, b = cache
    da = dy * b
    db = dy * a
    dp = da * (1 - a ** 2)
    dq = db * (1 - b ** 2)
    return dp @ W.T, dq @ U.T + dy, x.T @ dp, h.T @ dq
def run_sample():
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape) for shape in ((3, 2, 3), (2, 4), (3, 4), (4, 4)))
def run_forward(x, h, W, U):
    hs, caches = [], []
    for t in range(len(x)):
        h, cache = step_forward(x[t], h, W, U)
        hs.append(h)
        caches.append(cache)
    return np.stack(hs), caches
def run_backward(dhs, caches):
    dh, dxs, dW, dU = 0, [], 0, 0
    for t in reversed(range(len(dhs))):
        dx, dh, dW_t, dU_t = step_backward(dhs[t] + dh, caches[t])
        dxs.insert(0, dx)
        dW = dW + dW_t
        dU = dU + dU_t
    return np.stack(dxs), dh, dW, dU
'''


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "line", "fix"), [
    (("1 - a ** 2", "1 - a", "dU + dU_t", "dU_t"), 10, "dp = da * (1 - a * a)"),
    (("da = dy * b", "da = dy", "db = dy * a", "db = -dy * a"), 9, "db = dy * a")])
def test_two_mistakes_in_a_time_loop_are_found_by_checking_the_step_alone(tmp_path, changes, line,
                                                                          fix):
    report = blame_changed_file(tmp_path, *changes, text=LOOP)
    assert (report.line, report.fix) == (line, fix) and "gradients of step are" in report.verified
    assert "step is incorrect when it is checked alone" in report.notes[0]
    assert any("another incorrect line remains" in note for note in report.notes)
    left = blame_changed_file(tmp_path, *changes[2:], text=LOOP)     # the other mistake alone
    assert left.verified.endswith("all gradients are correct") or "of step are" in left.verified


def test_one_mistake_in_a_part_gets_a_fix_that_is_right_for_the_whole(tmp_path):
    report = blame_changed_file(tmp_path, "db * (1 - b ** 2)", "db * (1 - b)", text=LOOP)
    assert report.line == 11 and not any("remains" in note for note in report.notes)


def test_part_with_gradient_before_tanh_is_not_accused(tmp_path):
    """The backward of Dense takes the gradient before tanh, so it looks wrong alone."""
    report = blame_changed_file(tmp_path, text='''
import numpy as np
class Dense:
    def __init__(self):
        self.W = np.random.default_rng(0).standard_normal((4, 4))
    def forward(self, x):
        self.x, self.y = x, np.tanh(x @ self.W)
        return self.y
    def backward(self, dz):
        self.dW = self.x.T @ dz
        return dz @ self.W.T
class Net:
    def __init__(self):
        self.dense = Dense()
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(1).standard_normal((3, 4))
    def forward(self, x):
        return self.dense.forward(x) ** 2
    def backward(self, dy):
        dh = dy * self.dense.y
        dz = dh * (1 - self.dense.y ** 2)
        return self.dense.backward(dz)
''')
    assert report.function == "Net.backward" and report.line in (21, 22) and report.verified


class Scaled(Layer):
    """y = w x, and a backward that is wrong by a factor."""

    def __init__(self, factor=1.0):
        self.w, self.factor = Param(np.ones(4)), factor

    def forward(self, x):
        return x * self.w.data, Cache(x=x)

    def backward(self, dy, cache):
        self.w.grad += (dy * cache.x).sum(0)
        dx = dy * self.w.data * self.factor
        return dx


def test_a_search_has_time_after_a_long_check(tmp_path, monkeypatch):
    monkeypatch.setattr(blaming, "SECONDS", 0.0)
    assert blame_changed_file(tmp_path, *HALF).verified
    monkeypatch.setattr(blaming, "SEARCH_SECONDS", 0.0)
    report = blame_changed_file(tmp_path, *HALF)
    assert "the search reached its limit of time or work" in str(report)


def return_without_factor(self, dy, cache):
    self.w.grad += (dy * cache.x).sum(0)
    return dy


def write_into_upstream(self, dy, cache):
    self.w.grad += (dy * cache.x).sum(0)
    dy *= self.w.data
    return dy


def return_mask(self, dy, cache):
    return cache.x > 0


@pytest.mark.parametrize("cls, backward, fix", [    # w starts at 1, which hides the factor
    (Scaled, return_without_factor, "dy * self.w.data"),
    (npdl.ReLU, return_mask, "(cache.x > 0) * dy")])
def test_a_missing_factor_is_the_fix(cls, backward, fix):
    report = blame(make_layer(cls, backward=backward), X)
    assert report.fix == f"return {fix}" and report.verified


def test_write_into_upstream_is_a_side_effect():
    report = blame(make_layer(Scaled, backward=write_into_upstream), X)
    assert report.kind == "side effect" and not report.right
    assert "although every gradient agrees" in str(report)


def test_a_backward_may_take_all_gradients_or_the_first_alone():
    report = blame(StateAndMemory(), X)
    assert report.right and "backward takes the gradient of the first" in report.notes[-1]
    for cls in (TupleOfGradients, StateAndMemory):
        report = blame(cls(2), X)
        assert not report.right and report.source.startswith("self.dW = self.times")


def test_unclear_backward_call_is_no_mistake():
    report = blame(make_layer(StateAndMemory, backward=lambda self, dh: dh.undefined), X)
    assert report.kind == "unchecked" and not report.line
    assert "backward accepts neither their gradients together" in report.diagnosis


@pytest.mark.parametrize("source", [
    "def f_forward(x):\n    return x * x, x\ndef f_backward(dy, x):\n    dx = 2 * x * dy\n",
    "class f:\n    def forward(self, x):\n        self.x = x\n        return x * x\n"
    "    def backward(self, dy):\n        dx = 2 * self.x * dy\n"])
def test_a_missing_return_is_asked_about_at_the_last_line_of_the_students_backward(
        tmp_path, capsys, source):
    (tmp_path / "mine.py").write_text(source)
    assert main(["blame", f"{tmp_path / 'mine.py'}:f", "--input", "x=2,3"]) == 1
    said = capsys.readouterr().out
    last = source.count("\n")
    assert f"mine.py:{last} in f" in said and "backward returns nothing: a return is miss" in said


def test_other_inputs_are_tried_where_the_given_ones_show_nothing():
    class OneSide(Layer):
        def forward(self, x):
            return np.where(x > 0, x, 0.1 * x), Cache(x=x)

        def backward(self, dy, cache):
            return np.where(cache.x > 0, dy, 0.2 * dy)

    report = blame(OneSide(), np.abs(X) + 0.1)
    assert not report.right and "but not with the float inputs times -1" in report.notes[0]
    assert report.fix == "return np.where(cache.x > 0, dy, 0.1 * dy)"


def test_a_mistake_in_a_loop_names_the_loop_variables(tmp_path):
    report = blame_changed_file(tmp_path, "dhs[t] + dh,", "dhs[t] - dh,", text=LOOP)
    assert report.line == 26 and ", first at t = 1" in str(report) and report.verified


def test_a_notebook_shows_html_and_escapes_the_source(tmp_path):
    report = blame_changed_file(tmp_path, "dh * (1 - h ** 2)", "dh * (h < 1)")
    shown = report._repr_html_()
    assert shown.startswith("<pre") and "h &lt; 1" in shown and "<mark" in shown


def test_an_array_with_four_axes_is_printed_as_a_matrix():
    assert format_array(np.full((2, 1, 1, 2), -0.0)) == (
        "(2, 1, 1, 2), printed as (2, 2)\n    [[ 0.  0.]\n     [ 0.  0.]]")


def test_the_command_and_its_exit_statuses(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(TWO)
    assert main(["blame", f"{path}:net"]) == 0
    assert capsys.readouterr().out.startswith("correct: 3 of 3 gradients agree with")
    shapes = ["--input", "x=2,3", "--input", "W=3,4", "--input", "b=4"]
    assert main(["blame", f"{path}:net", *shapes]) == 0
    path.write_text(TWO.replace("dz.sum(0)", "dz.mean(0)"))
    assert main(["blame", f"{path}:net"]) == 1 and "db = dz.sum(0)" in capsys.readouterr().out
    assert main(["blame", f"{path}:nothing"]) == 2
    assert main(["blame", "LSTMCell"]) == 0

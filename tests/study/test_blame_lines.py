"""Which line `blame` names where several could mend what is wrong, and that it says why."""

import ast
import re

import numpy as np
import pytest

from docs.book.mistakes import Mistake, blamed, edited, edited_code
from docs.book.sources import find
from npdl.core import Cache, Layer
from npdl.layers.linear import Linear
from npdl_study.blame.blame import blame
from npdl_study.blame.edits import edits
from npdl_study.blame.scope import Scope
from npdl_study.check.target import find_class

DENSITY = "return xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)"
STEP = "dx, dstate = self.cell.backward(add_dh(dstate, dh), steps[t])"
CALLEE = pytest.mark.xfail(reason="the line that makes dh is named, where dstate can be added too")


@pytest.mark.parametrize("place, layer, was, now, says", [case if i < 1 else pytest.param(
    *case, marks=[pytest.mark.slow, *[CALLEE] * (i == 3)]) for i, case in enumerate([
    # a library's function and what it was handed: the latter, unless only the former explains it
    ("npdl.layers.activation:GELU", "GELU", "slope = cdf + x * normal_density(x)",
     "slope = cdf + normal_density(x)", r"normal_density\(x\)"),
    ("npdl.functions:normal_density", "GELU", DENSITY, DENSITY.replace("2 * ", ""),
     "factor|number"),
    # 3 is a number of its own, even where an array has 3 rows
    ("npdl.layers.activation:TanhGELU", "TanhGELU",
     "du_dx = self.scale * (1 + 3 * self.cubic * x * x)",
     "du_dx = self.scale * (1 + self.cubic * x * x)", r"\* 3"),
    # what a call is handed, where the line before it only takes a part of an array
    ("npdl.layers.recurrent:RecurrentLayer", "GRULayer", STEP,
     STEP.replace("add_dh(dstate, dh)", "dh"), ""),
    ("npdl.layers.recurrent:RecurrentLayer", "RNNLayer", "dh = dy[:, t]", "dh = dy[:, 0]",
     ""),
    # not the line of a loop that ran first, but the one that was wrong first
    ("npdl.layers.bidirectional:Bidirectional", "Bidirectional",
     "dy_b = reverse(dy_b, cache.lengths)", "dy_b = xp.flip(dy_b)", ""),
    ("npdl.layers.attention:MultiHeadAttention", "MultiHeadAttention",
     "dV = self.W_V.backward(self.join(dv), cache.V)", "dV = self.join(dv)",
     r"W_V\.backward is not called: nothing is added to the gradient of W_V\.W, W_V\.b$"),
    # one of three values that a line binds is right by its name, the others are not in question
    ("npdl.layers.grouped:GroupedQueryAttention", "GroupedQueryAttention",
     "dq = self.rotary.backward(dq, cache.q)", "dq, _ = self.rotary.forward(dq)", ""),
    # no line whose other values would change one that is right
    ("npdl.layers.grouped:GroupedQueryAttention", "GroupedQueryAttention",
     "dk = self.rotary.backward(dk, cache.k)", "dk, _ = self.rotary.forward(dk)", ""),
    ("npdl.layers.llama:SwiGLU", "SwiGLU", "slope = s + silu * (1 - s)", "slope = s * (1 - s)",
     ""),
])], ids=lambda text: re.sub(r".*\.| = .*", "", text))
def test_the_line_that_was_changed_is_named(place, layer, was, now, says):
    function, statement, now = edited(find(place), Mistake(0, was, now))
    report = blamed(find_class(layer), function, edited_code(function, statement, now))
    assert (report.function, report.line) == (function.__qualname__, statement.first), str(report)
    assert re.search(says, report.diagnosis), str(report)
    assert "the only wrong line" not in str(report)
    assert not np.array_equal(np.round(report.computed, 4), np.round(report.wanted, 4))


@pytest.mark.slow
def test_axes_that_are_handed_on_wrong_are_named_where_the_mean_is_taken():
    """The first wrong number is the mean's, inside; the mend has the axes that were meant."""
    function, statement, now = edited(find("npdl.layers.batch_norm:BatchNorm"), Mistake(
        0, "dx = normalise_backward(dx_hat, x_hat, std, (0, *places(dy)))",
        "dx = normalise_backward(dx_hat, x_hat, std, (0,))"))
    report = blamed(find_class("BatchNorm"), function, edited_code(function, statement, now))
    assert report.function == "mean_over" and "axis=(0, 2)" in report.new, str(report)
    assert not np.array_equal(np.round(report.computed, 4), np.round(report.wanted, 4))


class Half(Layer):
    """y = x W / 2, whose backward forgets its Linear."""

    def __init__(self):
        self.linear = Linear(3, 3)

    def forward(self, x):
        y, c = self.linear.forward(x)
        return y / 2, Cache(linear=c)

    def backward(self, dy, cache):
        du = dy / 2
        dx = du * 3
        return dx


def test_a_call_that_is_left_out_is_said():
    report = blame(Half(), np.random.default_rng(0).standard_normal((4, 3)))
    assert "linear.backward is not called" in report.diagnosis and report.kind == "missing call"


@pytest.mark.slow
def test_a_function_that_cannot_be_run_again_is_no_trouble():
    class Hidden(Layer):
        def forward(self, x, m):
            return np.concatenate([x, x * x], 1) * m, Cache(x=x, m=m)

        def backward(self, dy, cache):
            one = dy[:, :3]
            two = dy[:, 3:] * 2 * cache.x
            dx = one + two
            return dx, np.concatenate([cache.x, cache.x * cache.x], 1) * dy

    rng = np.random.default_rng(0)
    report = blame(Hidden(), rng.standard_normal((4, 3)), rng.standard_normal((4, 6)))
    assert not report.right and report.line


def test_a_shape_is_multiplied_by_nothing():
    """(8, 3) * 7 are 14 axes: a run that would never end."""
    [statement] = ast.parse("ch = np.broadcast_to(ch, k.shape)").body

    def tried(*shapes):
        words = Scope(["ch"], ["n"], ["n"], shapes=set(shapes))
        return [edit.new for edit in edits(statement, words) if "k.shape) * n" in str(edit.new)]

    assert tried() and not tried("k.shape")


def test_what_gives_items_without_an_end_is_indexed():
    """np.asarray(np.r_) would be a run that never ends, too."""
    def changed(function):
        [statement] = ast.parse(f"s = np.{function}[a, b]").body
        return {edit.new if isinstance(edit.new, str) else ast.unparse(edit.new)
                for edit in edits(statement, Scope(["a", "b"], [], []))
                if edit.part is not None and f"np.{function}" in ast.unparse(edit.part)}

    assert "np.w" in changed("w") and "np.w ** 2" in changed("w")
    assert changed("r_") and not [new for new in changed("r_") if re.search(r"np\.r_(?!\[)", new)]

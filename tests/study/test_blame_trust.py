"""When blame may not say "right", and what it says then; and no line accused for its name alone."""


import numpy as np
import pytest

from npdl.core import Cache, Layer, Param
from npdl.errors import InputError
from npdl_study.blame.blame import blame
from npdl_study.check.examples import Repeated
from npdl_study.check.target import find_class
from npdl_study.step.step import step
from tests.tools import slow

x = np.random.default_rng(0).standard_normal((3, 4))


class Drop(Layer):
    """Dropout that forgets 1/keep in its backward, with a mask from where `source` says."""

    def __init__(self, source):
        self.source, self.rng, self.calls = source, np.random.default_rng(0), 0

    def forward(self, x, rng=None):
        if self.source == "own":
            mask = self.rng.random(x.shape) < 0.6
        elif self.source == "global":
            mask = np.random.rand(*x.shape) < 0.6
        elif self.source == "counter":
            self.calls += 1
            mask = np.arange(x.size).reshape(x.shape) % 3 == self.calls % 3
        else:
            mask = rng.random(x.shape) < 0.6
        y = x * mask / 0.6
        return y, Cache(mask=mask)

    def backward(self, dy, cache):
        dx = dy * cache.mask
        return dx


def test_a_forward_that_is_not_repeatable_is_never_right():
    report = blame(Drop("counter"), x)
    assert not report.right and report.kind == "random"
    assert "Hand over a generator that repeats" in " ".join(str(report).split())


@pytest.mark.parametrize("source", slow.but(
    ["given"], ["own", "global", "given", "repeated"]))
def test_with_random_numbers_the_line_is_found(source):
    rng = {"given": np.random.default_rng(0), "repeated": Repeated(3)}.get(source)
    report = blame(Drop(source), x, rng=rng)
    assert report.source == "dx = dy * cache.mask" and not report.right


class Bare(Layer):
    """y = x W, with W a bare array."""

    def __init__(self):
        self.W = np.eye(4)

    def forward(self, x):
        return x @ self.W, Cache(x=x)

    def backward(self, dy, cache):
        self.dW = 7 * cache.x.T @ dy
        return dy @ self.W.T


def test_a_bare_array_is_told_and_is_not_right():
    report = blame(Bare(), x)
    assert not report.right and "was not checked" in str(report)
    assert "self.W = Param(...)" in report.diagnosis


def test_a_constant_is_only_noted():
    class Fixed(Layer):
        def __init__(self):
            self.table = np.eye(4)

        forward = lambda self, x: (x @ self.table, Cache())      # noqa: E731
        backward = lambda self, dy, cache: dy @ self.table.T     # noqa: E731

    report = blame(Fixed(), x)
    assert report.right and "Fixed.table is an array and no Param" in str(report)


class Nothing(Layer):
    """Ids in, a table out: there is no gradient to check."""

    def forward(self, ids):
        return np.eye(4)[ids], Cache()

    def backward(self, dy, cache):
        return None


def test_where_nothing_was_checked_it_is_not_right():
    report = blame(Nothing(), np.array([1, 2]))
    assert not report.right and "nothing was checked" in str(report)


class Attention(Layer):
    """softmax(q k^T / sqrt(d)) v, the scale folded into ds, which is no gradient of s then."""

    def __init__(self, wrong):
        self.wrong = wrong

    def forward(self, q, k, v):
        s = q @ k.T / np.sqrt(q.shape[1])
        e = np.exp(s - s.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return p @ v, (q, k, v, p)

    def backward(self, dy, cache):
        q, k, v, p = cache
        dv = p.T @ dy
        dp = dy @ v.T
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.sqrt(q.shape[1])
        dq = ds @ k
        dk = (ds if self.wrong else ds.T) @ q
        return dq, dk, dv


@pytest.mark.parametrize("wrong", [False, True])
def test_no_line_is_wrong_because_of_its_name(wrong):
    q, k, v = np.random.default_rng(1).standard_normal((3, 3, 3))
    report = blame(Attention(wrong), q, k, v)
    walk = step(Attention(wrong), q, k, v)
    accused = {s.line.source.strip() for s in walk.recording.steps for w in s.writes
               if (found := walk.mark(s, w.name)) is not None and found.right is False}
    line = "dk = (ds if self.wrong else ds.T) @ q"
    assert report.right is not wrong and (not wrong or report.source == line)
    assert not any("ds = p" in source for source in accused) and (line in accused) is wrong


OWN = '''
import numpy as np
from npdl.core import Cache, Layer


class Net(Layer):
    @classmethod
    def sample(cls):
        return cls(), np.ones(3)

    def forward(self, x):
        self.x = x
        return 2.0 * x

    def backward(self, dy):
        return 2.0 * dy


def two_forward(x):
    return 2.0 * x, (x,)


def two_backward(dy, cache):
    return 2.0 * dy
'''


def test_a_cache_in_self_is_recognised_and_functions_are_read(tmp_path):
    path = tmp_path / "styles.py"
    path.write_text(OWN)
    layer, given = find_class(f"{path}:Net").sample()
    assert blame(layer, given).right
    assert blame(find_class(f"{path}:two")(), np.ones(3)).right
    with pytest.raises(InputError, match="it has: Net, two_backward"):
        find_class(f"{path}:Nothing")


class Leaves(Layer):
    """A backward that leaves by other ways than an Exception."""

    def __init__(self, how):
        self.how, self.W = how, Param(np.eye(4))

    def forward(self, x):
        return x @ self.W.data, Cache(x=x)

    def backward(self, dy, cache):
        raise self.how("gone")


@pytest.mark.parametrize("how", [SystemExit, GeneratorExit])
def test_what_is_no_exception_is_blamed_on_its_line(how):
    report = blame(Leaves(how), x)
    assert not report.right and report.source == 'raise self.how("gone")'
    assert ("sys.exit" if how is SystemExit else how.__name__) in str(report)


class Count(Layer):
    """Sums from the right by a `while`, whose last step a mistake leaves out."""

    def forward(self, x):
        return np.cumsum(x, axis=1), Cache()

    def backward(self, dy, cache):
        dx, t, after = np.zeros_like(dy), dy.shape[1], np.zeros(len(dy))
        while t > 1:
            t -= 1
            after = after + dy[:, t]
            dx[:, t] = after
        return dx


def test_no_edit_makes_a_while_without_an_end():
    report = blame(Count(), x)
    assert report.source == "while t > 1:" and "the loop does not take every turn" in str(report)

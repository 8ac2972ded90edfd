"""The check of every numbered equation: code that compares it with the layer's own numbers.

The checks of a chapter share one namespace, in order. It begins with np, rng, close, numeric,
ready, inside and everything of npdl. Each check must assert something, by `close` wherever arrays
are compared, and is refused when it would not notice that they are a millionth off.
"""

import ast
import linecache
import sys
import zlib
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

import npdl
from npdl_study.check.subjects import randomise

REL = 1e-9
OFF = 1e-6


def numeric(f, x, dout, step=1e-3):
    """The gradient of sum(f(x) * dout) at x by fourth-order differences; x's shape."""
    x = np.array(x, "float64")
    dx = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        def loss(way, at=at):
            moved = x.copy()
            moved[at] += way * step
            return float(np.sum(f(moved) * dout))
        dx[at] = (8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * step)
    return dx


def inside(function, *args, **options):
    """(what `function` returns, its local names as they stand then)."""
    code, held = getattr(function, "__func__", function).__code__, {}

    def watch(frame, event, arg):
        if event == "return" and frame.f_code is code:
            held.clear()
            held.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        found = function(*args, **options)
    finally:
        sys.setprofile(before)
    return found, SimpleNamespace(**held)


def difference(a, b):
    """The largest difference of two float64 values, as a share of the largest entry of b."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape} differ"
    for side in (a, b):
        assert side.dtype.kind != "f" or side.dtype == np.float64, \
            f"{side.dtype} given, float64 wanted: make the layer ready(...)"
    a, b = a.astype("float64"), b.astype("float64")
    assert a.size and np.isfinite(a).all() and np.isfinite(b).all(), "empty, or not finite"
    return float(np.abs(a - b).max() / (np.abs(b).max() or 1.0))


@dataclass
class Close:
    """`close(a, b)`: whether two float64 values agree to 1e-9 of the largest entry of b.

    Keeps count, the worst difference, and how often a millionth more would have been noticed.
    """

    count: int = 0
    worst: float = 0.0
    sharp: int = 0

    def __call__(self, a, b, rel=REL):
        error = difference(a, b)
        self.count += 1
        self.sharp += difference(np.asarray(a) * (1 + OFF), b) > rel
        if error <= rel:                                # `assert not close(...)` is a check too
            self.worst = max(self.worst, error)
        return error <= rel


def seed(name):
    """A chapter's own."""
    return zlib.crc32(name.encode())


def ready(layer, rng):
    """The layer in float64, its parameters random (gains and biases too)."""
    layer = layer.astype("float64")
    randomise(layer, rng)
    return layer


def namespace(name, close):
    """What the checks of a chapter begin with."""
    rng = np.random.default_rng(seed(name))
    found = {n: getattr(npdl, n) for n in npdl.__all__}
    return found | {"np": np, "rng": rng, "close": close, "numeric": numeric,
                    "ready": lambda layer: ready(layer, rng), "inside": inside,
                    "__name__": "checks"}


def run(chapter, space=None):
    """{label: Close} of every check of a chapter; BookError for the first that fails.

    `space`, an empty dictionary, takes the names that the checks leave behind.
    """
    found, space = {}, {} if space is None else space
    space |= namespace(chapter.name, None)
    for part in chapter.of("check"):
        code = _compiled(chapter, part)
        space["close"] = found[part.given] = Close()
        _execute(chapter, part, code, space)
        if found[part.given].count and not found[part.given].sharp:
            chapter.fail(part.line, f"check {part.given} compares nothing: what it compares is "
                                    "zero, or its tolerance too large")
    return found


def _compiled(chapter, part):
    """The check's code, its lines numbered as in the chapter's file."""
    file = str(chapter.path)
    try:
        tree = ast.parse(part.body, file)
    except SyntaxError as error:
        chapter.fail(part.line + (error.lineno or 1), f"check {part.given}: {error.msg}")
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        chapter.fail(part.line, f"check {part.given} asserts nothing")
    linecache.checkcache(file)
    return compile(ast.increment_lineno(tree, part.line), file, "exec")


def _execute(chapter, part, code, space):
    try:
        with np.errstate(invalid="raise"):
            exec(code, space)
    except Exception as error:
        line, at = part.line, error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == str(chapter.path):
                line = at.tb_lineno
            at = at.tb_next
        said = str(error) or linecache.getline(str(chapter.path), line).strip()
        chapter.fail(line, f"check {part.given} fails: {type(error).__name__}: {said}")

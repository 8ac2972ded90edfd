"""Decide whether an equation holds for arrays; `Close` compares two arrays."""

import itertools
from dataclasses import dataclass, field

import numpy as np

from docs.book.equations.tex import Big, NotRead, Number, find_symbols, parse_equation, walk_tree
from docs.book.equations.values import OPERATIONS, Values
from npdl.study.relative_error import relative_error

REL = 1e-9          # the allowed relative error
OFF = 1e-6          # an error of this size has to be noticed


def max_relative_error(a, b):
    """Return the largest difference of two float64 arrays, divided by the largest entry of b."""
    a, b = (np.asarray(side) * 1.0 for side in (a, b))
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape} differ"
    for side in (a, b):
        assert side.dtype in (np.float64, np.complex128), \
            f"{side.dtype} given, float64 wanted: make the layer ready(...)"
    assert a.size and np.isfinite(a).all() and np.isfinite(b).all(), "empty, or not finite"
    return relative_error(a, b, 0.0 if b.any() else 1.0)


@dataclass
class Close:
    """close(a, b) returns True if two float64 arrays agree to a relative error of 1e-9.

    `count` is the number of comparisons, and `worst` the largest accepted error. `sharp` counts the
    comparisons that would have failed for a relative error of OFF.
    """

    count: int = 0
    worst: float = 0.0
    sharp: int = 0

    def __call__(self, a, b, rel=REL):
        error = max_relative_error(a, b)
        self.count += 1
        self.sharp += max_relative_error(np.asarray(a) * (1 + OFF), b) > rel
        if error <= rel:                                # `assert not close(...)` is a check too
            self.worst = max(self.worst, error)
        return error <= rel


@dataclass
class Equation:
    """An equation in printed TeX. Commas and arrows separate its statements.

    equation(names, x=x, ..) raises AssertionError if it is false, and NotRead for unknown symbols.

    around     {name: value} for symbols that are not passed in the call
    evaluated  the numbers of the statements that were evaluated
    bounds     {inequality: cases}: "tight" if both sides were equal once, "strict" if they differed
    """

    tex: str
    around: dict = field(default_factory=dict)
    close: Close = field(default_factory=Close)
    evaluated: set = field(default_factory=set)
    bounds: dict = field(default_factory=dict)

    def __post_init__(self):
        self.statements = parse_equation(self.tex)

    def __call__(self, names=None, /, *, part=None, rel=REL, tight=False, **more):
        """Return True if it holds. `part`: a statement's number; `tight`: equality somewhere."""
        values = Values({**(names or {}), **more}, self.around)
        for number, chain in enumerate(self.statements, 1):
            if part in (None, number):
                for place, one in enumerate(chain, 1):
                    self._check_relation(values, one, rel, tight, f"{number}.{place}")
                self.evaluated.add(number)
        return True

    def _check_relation(self, values, relation, rel, tight, label):
        (left, right), op = relation.parts, relation.operation
        domains = values.find_indices(relation)
        summed = {name for one in walk_tree(relation) if isinstance(one, Big) for name in one.names}
        indexed = {one.base.partition("_")[0] for one in find_symbols(relation) if one.low}
        for name, over in domains.items():
            if name in summed:
                raise NotRead(f"{name}, the index of a sum, is used outside of the sum")
            if name in indexed:
                raise NotRead(f"{name} is an index, but also has an index")
            if over is None:
                raise NotRead(f"the range of {name} is unknown: give it, holds({name}=range(...))")
        sides = [], []
        for place in itertools.product(*domains.values()):
            at = dict(zip(domains, place, strict=True))
            a = values.evaluate_symbol(left, at, "_new") if op == "<-" else values.evaluate(left,
                                                                                            at)
            b = values.evaluate(right, at)
            for x, y in zip(*(s if isinstance(s, tuple) else (s,) for s in (a, b)), strict=True):
                for side, value in zip(sides, _broadcast_sides(x, y), strict=True):
                    side.append(value.reshape(-1))
        a, b = (np.concatenate(side) for side in sides)
        if op == "~" and isinstance(right, Number):
            for exact in a[np.round(a, right.places) != np.round(b, right.places)]:
                raise AssertionError(f"{exact:.6f} is not {b[0]:.{right.places}f}, rounded")
        if op in ("=", "<-"):
            self.close.sharp += right == Number(0.0)
            assert self.close(a, b, rel), (
                f"{self.tex} does not hold: the sides differ by {max_relative_error(a, b):.1e}")
        else:
            near = np.abs(a - b).min() <= 10 * OFF * np.abs(b).max()
            assert near or not tight, f"{self.tex}: the sides are nowhere equal"
            if op in ("<=", ">="):
                apart = (np.abs(a - b) > 0.01 * np.abs(b)).any()
                self.bounds.setdefault(label, set()).update(
                    {"tight"} if near else (), {"strict"} if apart else ())
            elif op in ("<", ">") and right != Number(0.0):         # near, as far as it is printed
                near = (np.abs(a - b) <= 0.01 * np.abs(b)).any()
                self.bounds.setdefault(label, {"strict"}).update({"tight"} if near else ())
            self.close.count, self.close.sharp = self.close.count + 1, self.close.sharp + 1
            assert _is_ordered(op, a, b, rel), f"{self.tex} does not hold: {op} fails"


def _broadcast_sides(a, b):
    """Return both as float arrays of one shape, after broadcasting a number."""
    a, b = (np.asarray(side) * 1.0 for side in (a, b))
    if a.ndim and b.ndim and a.shape != b.shape:
        raise AssertionError(f"the sides have shapes {a.shape} and {b.shape}")
    return np.broadcast_arrays(a, b)


def _is_ordered(op, a, b, rel):
    """Return True if a op b holds up to rounding; op "~" allows a difference of 5 %."""
    if op == "~":
        return bool((np.abs(a - b) <= 0.05 * np.abs(b)).all())
    room = rel * max(np.abs(a).max(), np.abs(b).max())
    limit = {"<=": b + room, ">=": b - room}.get(op, b)
    return bool(OPERATIONS[op](a, limit).all())

"""What a tree of TeX is: arrays, numbers and functions in place of its symbols."""

import itertools
from collections.abc import Mapping

import numpy as np

from npdl_study.equations.tex import NotRead, script

BUILT_IN = {
    "log": np.log, "exp": np.exp, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt,
    "sign": np.sign, "pi": np.pi, "e": np.e, "diag": np.diag, "rank": np.linalg.matrix_rank,
    "sigma": lambda x: 1 / (1 + np.exp(-np.asarray(x, float))), "Var": np.var, "mean": np.mean,
    "max": lambda *a: np.max(a[0]) if len(a) == 1 else np.maximum(*a),
    "min": lambda *a: np.min(a[0]) if len(a) == 1 else np.minimum(*a)}
COMPARED = {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
            "=": np.equal, "!=": np.not_equal}
CHILDREN = {"neg", "add", "sub", "times", "dot", "over", "by", "mod", "power", "transposed",
            "abs", "norm", "floor", "ceil", "inner", "tuple", "beside"}


class Values:
    """The values of trees: a symbol is what `given` calls it, else `around`, else what is built in.

    `\\hat x_k` is `x_hat` with the index k, `dW_x` is `dW_x`, `h_{t-1}` is `h_prev`, `x'` is
    `x_prime`, `norm_2.b` is `norm_2_b`. What is given for an index (a range or a list) is what it
    goes over; it is found from the shapes where it is not. Arrays, lists, dicts and functions can
    be indexed.
    """

    def __init__(self, given, around):
        self.given, self.around = given, around

    def known(self, name):
        return name in self.given or name in self.around or name in BUILT_IN

    # -- symbols and their scripts --------------------------------------------------------------

    def resolved(self, node, suffix=""):
        """(value, its indices) of a symbol, as `given` and `around` have it."""
        _, base, low, high, attribute = node
        sub, sup = (f"_{s[0]}" if s else "" for s in (low, high))
        rest = attribute + suffix
        ways = [(base + "_at" + rest, (high, low))] if sup.startswith("_(") else []
        ways += [(base + sup + sub + rest, ()), (base + sub + rest, (high,)),
                (base + sup + rest, (low,)), (base + rest, (high, low))]
        found = []
        for rank, place in zip((0, 1, 4), (self.given, self.around, BUILT_IN), strict=True):
            if place is self.around and base == "e" and not low and not rest:
                continue                                # e^x is Euler's, unless e is given
            for name, scripts in ways:
                if name in place:
                    scripts = [s[1] for s in scripts if s]
                    weak = bool(scripts) and isinstance(place[name], np.ndarray)
                    found.append((rank + 1.5 * weak, place[name], scripts))
        if not found:
            raise NotRead(f"{base + sub} has no value: give it one, holds({base + sub}=...)")
        _, value, scripts = min(found, key=lambda one: one[0])      # a name beats an array's entry
        return value, [script(one) for one in scripts]

    def symbol(self, node, at, suffix=""):
        _, base, low, high, attribute = node
        if not low and not high and not attribute and base in at:
            return at[base]
        value, scripts = self.resolved(node, suffix)
        for one in scripts:
            value = item(value, [self.of(i, at) for i in one], base)
        return float(value) if isinstance(value, np.bool_) else value

    def indices(self, node, bound=frozenset()):
        """{index: what it goes over, or None} of the indices that no sum of the tree binds."""
        found = {}
        for name, over in self._indices(node, bound):
            if name in self.given:
                if not isinstance(self.given[name], range | list):
                    continue
                over = self.given[name]
            if over is not None and found.get(name) is not None and [*found[name]] != [*over]:
                raise NotRead(f"{name} goes over {found[name]} and {over}: say which, "
                              f"holds({name}=range(...))")
            found[name] = found.get(name) or over
        return found

    def _indices(self, node, bound):
        kind = node[0] if isinstance(node, tuple) and node else None
        if kind == "symbol":
            try:
                value, scripts = self.resolved(node)
            except NotRead:
                return
            for one in scripts:
                yield from self._of_script(one, value, bound)
                value = self._entry(value, one)
        elif kind == "big":
            yield from self._indices(node[7], bound | set(node[2]))
        elif kind == "item":
            inner = script(node[2])
            yield from self._indices(node[1], bound)
            yield from self._of_script(inner, None, bound)
        elif kind == "call":
            yield from self._indices(node[1], bound)
            for part in node[2]:
                yield from self._indices(part, bound)
        elif kind == "cases":
            for value, chain in node[1]:
                yield from self._indices(value, bound)
                yield from self._indices(("where", chain), bound)
        elif kind == "where":
            for _, left, right in node[1]:
                yield from self._indices(left, bound)
                yield from self._indices(right, bound)
        elif kind in CHILDREN:
            for part in node[1] if kind in ("tuple", "beside") else node[1:]:
                yield from self._indices(part, bound)

    def _entry(self, value, one):
        """value[one] where no index of it is open, else None."""
        try:
            return item(value, [self.of(i) for i in one], "")
        except (NotRead, TypeError, ValueError, IndexError, KeyError):
            return None

    def _of_script(self, one, value, bound):
        for place, index in enumerate(one):
            if index[0] == "symbol" and index[2:] == (None, None, ""):
                if index[1] not in bound:
                    yield index[1], extent(value, place)
            else:
                for node in _symbols(index):
                    if node[2:] == (None, None, "") and node[1] not in bound:
                        if not self.known(node[1]) or isinstance(
                                self.given.get(node[1]), range | list):
                            yield node[1], None
                    else:
                        yield from self._indices(node, bound)

    # -- values ---------------------------------------------------------------------------------

    def of(self, node, at=None):
        """The value of a tree where the indices are `at`."""
        at = {} if at is None else at
        kind, *parts = node
        if kind in ("number", "symbol", "big", "cases", "where", "call", "item"):
            return getattr(self, kind)(node, at)
        if kind in ("tuple", "beside"):
            values = [self.of(part, at) for part in parts[0]]
            return tuple(values) if kind == "tuple" else beside(values)
        if kind == "norm" and "norm" in self.given:
            return self.given["norm"](self.of(parts[0], at))
        first, *others = (self.of(part, at) for part in parts)
        return getattr(Apply, kind)(first, *others)

    def number(self, node, at):
        return node[1]

    def call(self, node, at):
        function = self.of(node[1], at)
        arguments = [self.of(part, at) for part in node[2]]
        return function(*arguments) if callable(function) else item(function, arguments, node[1][1])

    def item(self, node, at):
        return item(self.of(node[1], at), [self.of(i, at) for i in script(node[2])], "...")

    def where(self, node, at):
        return np.all([self.compared(*one, at) for one in node[1]], 0) * 1.0

    def compared(self, op, left, right, at):
        """Whether a relation holds, entry by entry."""
        left, right = self.of(left, at), self.of(right, at)
        if op in ("in", "not in"):
            return np.asarray((left in right) == (op == "in"))
        return COMPARED[op](left, right)

    def cases(self, node, at):
        """Each value where its condition holds."""
        values = [self.of(value, at) for value, _ in node[1]]
        conditions = [self.where(("where", chain), at) > 0 for _, chain in node[1]]
        return np.select(np.broadcast_arrays(*conditions), np.broadcast_arrays(*values), np.nan)

    def big(self, node, at):
        _, kind, names, start, high, members, condition, body = node
        if start is not None:
            overs = [range(round(self.of(start, at)), round(self.of(high, at)) + 1)]
        elif members is not None:
            overs = [self.of(members, at)]
        else:
            inside = self.indices(body)
            overs = [self.given[n] if isinstance(self.given.get(n), range | list)
                     else inside.get(n) for n in names]
        if None in overs:
            raise NotRead(f"what {names} goes over is not known: holds({names[0]}=range(...))")
        step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
        total = None
        for values in itertools.product(*overs):
            here = at | dict(zip(names, values, strict=True))
            if condition and not all(self.compared(*one, here) for one in condition):
                continue
            value = self.of(body, here)
            total = value if total is None else step(total, value)
        return {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[kind] if (
            total is None) else total


class Apply:
    """The operations on values."""

    def neg(a):
        return -np.asarray(a)

    def add(a, b):
        return np.asarray(a) + b

    def sub(a, b):
        return np.asarray(a) - b

    def times(a, b):
        return np.asarray(a) * b

    def over(a, b):
        return np.asarray(a) / b

    def mod(a, b):
        return np.mod(a, b)

    def power(a, b):
        return np.asarray(a) ** b

    def by(a, b):
        """Side by side: of a function its value, a factor, or the product of matrices."""
        if callable(a):
            return a(b)
        return a * np.asarray(b) if not np.ndim(a) or not np.ndim(b) else np.asarray(a) @ b

    def dot(a, b):
        if np.ndim(a) and np.ndim(b):
            return (np.asarray(a) * b).sum(-1)
        return np.asarray(a) * b

    def transposed(a):
        return np.swapaxes(a, -1, -2) if np.ndim(a) > 1 else a

    def inner(a, b):
        if np.shape(a) != np.shape(b):
            raise NotRead(f"the two sides of a bracket have shapes {np.shape(a)}, {np.shape(b)}")
        return (np.asarray(a) * b).sum()

    def norm(a):
        return np.sqrt((np.asarray(a) ** 2).sum())

    abs, floor, ceil = staticmethod(np.abs), staticmethod(np.floor), staticmethod(np.ceil)


def item(value, places, name):
    """value[i, j], or value(i, j) of a function."""
    if isinstance(value, Mapping | list | tuple):
        first = places[0]
        entry = value[round(float(first)) if isinstance(first, float | np.ndarray) else first]
        return entry if len(places) == 1 else item(entry, places[1:], name)
    places = [p if np.ndim(p) else round(float(p)) for p in places]
    if callable(value):
        return value(*places)
    if np.ndim(value) < len(places):
        raise NotRead(f"{name} has {np.ndim(value)} axes and {len(places)} indices")
    if any(np.ndim(p) == 0 and p < 0 for p in places):
        raise NotRead(f"{name} has no place {places}")
    return np.asarray(value)[tuple(places)]


def beside(values):
    """Arrays side by side; a number fills the shape of the first."""
    shape = np.shape(values[0])
    return np.concatenate([np.broadcast_to(v, shape) if shape and not np.ndim(v)
                           else np.atleast_1d(v) for v in values], -1)


def extent(value, place):
    """What the index at a place goes over; None where the value does not tell."""
    if isinstance(value, Mapping):
        return list(value) if place == 0 and not isinstance(next(iter(value)), tuple) else None
    if isinstance(value, list | tuple) and place == 0:
        return range(len(value))
    if not isinstance(value, np.ndarray) or value.ndim <= place:
        return None
    return range(np.shape(value)[place])


def _symbols(node):
    if isinstance(node, tuple) and node and node[0] == "symbol":
        yield node
    elif isinstance(node, tuple):
        for part in node[1:]:
            yield from _symbols(part)

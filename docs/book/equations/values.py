"""Evaluate a tree of TeX. Its symbols stand for arrays, numbers and functions."""

import itertools
from collections.abc import Mapping

import numpy as np

from docs.book.equations.tex import Big, NotRead, Symbol, find_symbols, parse_script

BUILT_IN = {
    "log": np.log, "exp": np.exp, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt,
    "sign": np.sign, "pi": np.pi, "e": np.e, "diag": np.diag, "rank": np.linalg.matrix_rank,
    "sigma": lambda x: 1 / (1 + np.exp(-np.asarray(x, float))), "Var": np.var, "mean": np.mean,
    "max": lambda *a: np.max(a[0]) if len(a) == 1 else np.maximum(*a),
    "min": lambda *a: np.min(a[0]) if len(a) == 1 else np.minimum(*a)}
BIG = {"sum": (0.0, np.add), "prod": (1.0, np.multiply), "max": (-np.inf, np.maximum),
       "min": (np.inf, np.minimum)}


class Values:
    """An evaluator of trees. A symbol's value comes from `given`, then `around`, then BUILT_IN.

    `\\hat x_k` is `x_hat` with the index k, `dW_x` is `dW_x`, `h_{t-1}` is `h_prev`, `x'` is
    `x_prime`, `g.backward` is `g_backward`. If `given` has a range or list for an index, it takes
    these values; else they follow from the shapes. Arrays, lists, dicts and functions can be
    indexed.
    """

    def __init__(self, given, around):
        self.given, self.around = given, around

    # -- symbols and their scripts --------------------------------------------------------------

    def resolve_symbol(self, node, suffix=""):
        """Return (value, scripts that are indices) of a symbol.

        The longest name is tried first. A value with the whole name has precedence over an entry of
        an array with a shorter name.
        """
        sub, sup = (f"_{s[0]}" if s else "" for s in (node.low, node.high))
        base, rest = node.base, node.attribute + suffix
        ways = [(base + "_at" + rest, (node.high, node.low))] if sup.startswith("_(") else []
        ways += [(base + sup + sub + rest, ()), (base + sub + rest, (node.high,)),
                 (base + sup + rest, (node.low,)), (base + rest, (node.high, node.low))]

        def find_candidates(namespace):
            return [(namespace[name], [s[1] for s in scripts if s])
                    for name, scripts in ways if name in namespace]

        euler = base == "e" and not node.low and not rest           # unless e is given
        found = find_candidates(self.given) + ([] if euler else find_candidates(self.around))
        found.sort(key=lambda way: bool(way[1]) and isinstance(way[0], np.ndarray))
        found += find_candidates(BUILT_IN)
        if not found:
            raise NotRead(f"{base + sub} has no value: give it one, holds({base + sub}=...)")
        value, scripts = found[0]
        return value, [parse_script(one) for one in scripts]

    def evaluate_symbol(self, node, index_values, suffix=""):
        if node.is_bare and node.base in index_values:
            return index_values[node.base]
        value, scripts = self.resolve_symbol(node, suffix)
        for one in scripts:
            value = get_entry(value, [self.evaluate(i, index_values) for i in one], node.base)
        return value

    def find_indices(self, node):
        """Return {index: its range, or None if unknown} of the free indices of a tree."""
        found = {}
        for name, over in self._yield_indices(node, frozenset()):
            if name in self.given:
                if not isinstance(self.given[name], range | list):
                    continue
                over = self.given[name]
            if over is not None and found.get(name) is not None and [*found[name]] != [*over]:
                raise NotRead(f"{name} has the ranges {found[name]} and {over}: choose one, "
                              f"holds({name}=range(...))")
            found[name] = found.get(name) or over
        return found

    def _yield_indices(self, node, bound_names):
        """Yield (index, its range or None) for every occurrence of an index in a tree."""
        if isinstance(node, Symbol):
            try:
                value, scripts = self.resolve_symbol(node)
            except NotRead:
                return
            for one in scripts:
                yield from self._yield_script_indices(one, value, bound_names)
                value = self._entry_or_none(value, one)
        if isinstance(node, Big):
            bound_names = bound_names | set(node.names)
        parts = node.parts
        if getattr(node, "operation", "") == "entry":
            yield from self._yield_script_indices(parts[1:], None, bound_names)
            parts = parts[:1]
        for part in parts:
            yield from self._yield_indices(part, bound_names)

    def _entry_or_none(self, value, indices):
        """Return value[script] if the script has no free index, else None."""
        try:
            return get_entry(value, [self.evaluate(i) for i in indices], "")
        except (NotRead, TypeError, ValueError, IndexError, KeyError):
            return None

    def _yield_script_indices(self, indices, value, bound_names):
        for place, index in enumerate(indices):
            if isinstance(index, Symbol) and index.is_bare:
                if index.base not in bound_names:
                    yield index.base, index_range(value, place)
                continue
            for node in find_symbols(index):
                if not node.is_bare or node.base in bound_names:
                    yield from self._yield_indices(node, bound_names)
                elif not any(node.base in one for one in (self.given, self.around, BUILT_IN)):
                    yield node.base, None

    # -- values ---------------------------------------------------------------------------------

    def evaluate(self, node, index_values=None):
        """Return the value of a tree for {index: number}."""
        return getattr(self, f"evaluate_{type(node).__name__.lower()}")(
            node, {} if index_values is None else index_values)

    def evaluate_number(self, node, index_values):
        return node.value

    def evaluate_apply(self, node, index_values):
        first, *rest = (self.evaluate(part, index_values) for part in node.parts)
        if node.operation == "call" and not callable(first):
            return get_entry(first, rest, node.parts[0].base)
        if node.operation == "norm" and "norm" in self.given:
            return self.given["norm"](first)
        return OPERATIONS[node.operation](first, *rest)

    def evaluate_big(self, node, index_values):
        total, step = BIG[node.kind]
        used = {one.base for one in find_symbols(node.body)} | self.find_indices(node.body).keys()
        if node.kind in ("max", "min") and not used & {*node.names}:
            raise NotRead(f"the {node.kind} over {', '.join(node.names)} has a term without it")
        for values in itertools.product(*self._index_ranges(node, index_values)):
            here = index_values | dict(zip(node.names, values, strict=True))
            if all(self.evaluate(one, here) for one in node.condition or ()):
                total = step(total, self.evaluate(node.body, here))
        return total

    def _index_ranges(self, node, index_values):
        """Return a list with the range of each index of a Big."""
        if node.members is not None:
            return [self.evaluate(node.members, index_values)]
        inside = self.find_indices(node.body)
        overs = [self.given[n] if isinstance(self.given.get(n), range | list)
                 else inside.get(n) for n in node.names]
        if None in overs:
            raise NotRead(f"the range of {node.names} is unknown: give it, "
                          f"holds({node.names[0]}=range(...))")
        return overs


# -- the operations on values ------------------------------------------------------------------

def multiply_or_call(a, b):
    """Return a(b) for a function a, a multiple if a or b is a number, or else a matrix product."""
    if callable(a):
        return a(b)
    return a * np.asarray(b) if not np.ndim(a) or not np.ndim(b) else np.asarray(a) @ b


def dot_product(a, b):
    """Return the inner products along the last axis. The product with a scalar is elementwise."""
    product = np.multiply(a, b)
    return product.sum(-1) if np.ndim(a) and np.ndim(b) else product


def transpose(a):
    if np.ndim(a) < 2:
        raise NotRead(f"the transpose of an array with {np.ndim(a)} axes has no effect")
    return np.swapaxes(a, -1, -2)


def inner_product(a, b):
    if np.shape(a) != np.shape(b):
        raise NotRead(f"the parts of an inner product have shapes {np.shape(a)} and {np.shape(b)}")
    return np.multiply(a, b).sum()


def select_case(*parts):
    """Return each value where its condition holds. Arguments alternate: value, condition, ..."""
    conditions = np.broadcast_arrays(*(np.asarray(one) > 0 for one in parts[1::2]))
    if np.any(np.sum(conditions, 0) != 1):
        raise NotRead("an entry belongs to no case, or to two cases")
    return np.select(conditions, np.broadcast_arrays(*parts[::2]), np.nan)


def concatenate(*values):
    """Concatenate arrays along the last axis; a number is broadcast to the shape of the first."""
    shape = np.shape(values[0])
    return np.concatenate([np.broadcast_to(v, shape) if shape and not np.ndim(v)
                           else np.atleast_1d(v) for v in values], -1)


OPERATIONS = {
    "neg": np.negative, "add": np.add, "sub": np.subtract, "times": np.multiply,
    "over": np.true_divide, "mod": np.mod, "power": np.power, "abs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "by": multiply_or_call, "dot": dot_product, "transposed": transpose,
    "inner": inner_product, "beside": concatenate, "cases": select_case,
    "several": lambda *values: values, "call": lambda function, *arguments: function(*arguments),
    "where": lambda *conditions: np.all(conditions, 0) * 1.0, "in": lambda a, b: np.asarray(a in b),
    "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
    "=": np.equal, "!=": np.not_equal,
    "range": lambda start, end: range(round(start), round(end) + 1),
    "entry": lambda value, *places: get_entry(value, places, "..."),
    "norm": lambda a: np.sqrt((np.asarray(a) ** 2).sum())}


def get_entry(value, indices, name):
    """Return value[i, j] for the indices (i, j), or value(i, j) for a function."""
    if isinstance(value, Mapping | list | tuple):
        first = indices[0]
        if not isinstance(value, Mapping) and round(float(first)) < 0:
            raise NotRead(f"{name} has no entry {first}")
        entry = value[round(float(first)) if isinstance(first, float | np.ndarray) else first]
        return entry if len(indices) == 1 else get_entry(entry, indices[1:], name)
    indices = [p if np.ndim(p) else round(float(p)) for p in indices]
    if callable(value):
        return value(*indices)
    if np.ndim(value) < len(indices):
        raise NotRead(f"{name} has {np.ndim(value)} axes and {len(indices)} indices")
    if any(np.ndim(p) == 0 and p < 0 for p in indices):
        raise NotRead(f"{name} has no entry {indices}")
    return np.asarray(value)[tuple(indices)]


def index_range(value, axis):
    """Return the range of the index on an axis of a value, or None if it is unknown."""
    if isinstance(value, Mapping):
        return list(value) if axis == 0 else None
    if isinstance(value, list | tuple) and axis == 0:
        return range(len(value))
    if not isinstance(value, np.ndarray) or value.ndim <= axis:
        return None
    return range(np.shape(value)[axis])

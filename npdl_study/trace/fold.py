"""Which statements of a recording are mathematics, and which only carry arrays about.

Left out are checks of inputs, what takes fields out of a cache, heads of loops, returns of what is
there already, helpers of a statement or two, and whatever hands an array on as it is. What is
wrong, or raised, is never left out.
"""

import ast
import functools

import numpy as np

DOORS = ("check", "checked", "require", "refuse", "validate", "assert")
NAMED = ("normal_cdf",)         # known by its name, however it is computed
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.Load,
         ast.Store)
CARRYING = (*PLAIN, ast.Call, ast.keyword)


def is_door(name):
    """Whether a function, by its name, only looks at what it is given."""
    return name.lstrip("_").split("_")[0] in DOORS or name == "gradients_of"


def is_pass(call):
    """Whether a call is a forward or a backward, and so mathematics whatever its length."""
    name = call.function.name
    return call.parent is None or "forward" in name or "backward" in name


@functools.lru_cache(maxsize=4096)
def is_checking(node):
    """Whether a statement checks something: `check_width(x)`, `dy = checked(dy)`, `raise`."""
    if isinstance(node, (ast.Raise, ast.Assert)):
        return True
    if isinstance(node, ast.If):
        return not node.orelse and all(is_checking(inner) for inner in node.body)
    value = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
    called = value.func if isinstance(value, ast.Call) else None
    name = getattr(called, "attr", getattr(called, "id", ""))
    return bool(name) and is_door(name)


@functools.lru_cache(maxsize=4096)
def only_names(node):
    """Whether a statement only names what is there: `x, h = cache.x, cache.h`, `return dx`."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.Return)) or value is None:
        return isinstance(node, ast.For)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    parts = [p for p in parts if not (isinstance(p, ast.Call) and ast.unparse(p.func) == "Cache")]
    return all(_is_named(n) for part in parts for n in ast.walk(part))


def _is_named(node):
    """Whether a node is part of an expression such as cache.x, or shape[1]."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    return isinstance(node, PLAIN) and getattr(node, "attr", "") != "T"


@functools.lru_cache(maxsize=4096)
def _only_calls(node):
    """Whether a statement's own text has no operator, index or method of an array."""
    value = getattr(node, "value", None)
    return value is not None and all(isinstance(n, CARRYING) for n in ast.walk(value))


def _is_gradient(step):
    """`dx = dy`, with a verdict: an equation, though a short one."""
    node = step.statement.node
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and all(
        w.name[:1] == "d" for w in step.writes)


class Folder:
    """Decides for the steps of a walk; `verdict(step, name)` is what is known of a write."""

    def __init__(self, recording, verdict):
        self.verdict = verdict
        self.helpers = {}
        for step in recording.steps:
            self.helpers.setdefault(step.call.number, []).append(step)

    def shows(self, step):
        """Whether a step is shown."""
        verdicts = [v for w in step.writes if (v := self.verdict(step, w.name)) is not None
                    and v.right is not None]
        if step.error is not None or any(not v.right for v in verdicts):
            return True
        return self._is_mathematics(step, bool(verdicts))

    def would_show(self, step):
        """Whether a step is shown even without a verdict."""
        return self._is_mathematics(step, False)

    def _is_mathematics(self, step, judged):
        if not step.writes or self._folded(step.call) or is_checking(step.statement.node):
            return False
        if only_names(step.statement.node):
            return judged and _is_gradient(step)
        if step.carried == "view" and _only_calls(step.statement.node):
            return judged
        return step.carried != "same"

    def _folded(self, call):
        """Whether a call, or one around it, is a helper that is left out."""
        while call is not None and not is_pass(call):
            steps = [s for s in self.helpers.get(call.number, ()) if s.statement.kind != "if"]
            short = len({s.statement for s in steps}) <= 2
            known = is_door(call.function.name) or call.key in NAMED
            if short or known or all(map(self._moves, steps)):
                return True
            call = call.parent
        return False

    def _moves(self, step):
        """Whether what a statement of a helper wrote is carried on, or room full of zeros."""
        zero = all(not summary.scale for w in step.writes for _, summary in w.shown or ())
        return step.error is None and (zero or bool(step.carried)
                                       or only_names(step.statement.node))


def carried(values, before):
    """"same" when every float array among `values` was held before, "view" when each is at least
    a view of one that was, else ""."""
    wanted = list(_arrays(values))
    held = {id(a): a for a in _arrays(before)}
    if not wanted or all(id(a) in held for a in wanted):
        return "same" if wanted else ""
    starts = {id(_root(a)) for a in held.values()}
    return "view" if all(id(_root(a)) in starts for a in wanted) else ""


def _root(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(value, depth=4):
    """The float arrays of a nest of tuples and lists."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield value
    elif isinstance(value, (tuple, list)) and depth:
        for item in value:
            yield from _arrays(item, depth - 1)


def makes_room(statement):
    """Whether a statement makes arrays of zeros, for others to fill."""
    if statement.parts:
        return all(map(makes_room, statement.parts))
    value = getattr(statement.node, "value", None)
    made = value.elts if isinstance(value, ast.Tuple) else [value]
    return bool(made) and all(isinstance(item, ast.Call) and ast.unparse(item.func).split(".")[
        -1].removesuffix("_like") in ("zeros", "empty") for item in made)

"""Which statements of a Recording are mathematics, and which only carry arrays about.

Left out are checks of inputs, what takes fields out of a cache, heads of loops, returns of what is
there already, helpers of a statement or two, and whatever hands an array on as it is. What is
wrong, or raised, is never left out.
"""

import ast
import functools

import numpy as np

from npdl_study.step.pictures import arrays_in

CHECKS = ("check", "checked", "require", "refuse", "validate", "assert")
NAMED = ("normal_cdf",)         # known by its name, however it is computed
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.Load,
         ast.Store)
CARRYING = (*PLAIN, ast.Call, ast.keyword)


def is_check(name):
    """Whether a function, by its name, only looks at what it is given."""
    return name.lstrip("_").split("_")[0] in CHECKS or name == "gradients_of"


def is_pass(call):
    """Whether a call is a forward or a backward, and so mathematics whatever its length."""
    name = call.code.co_name
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
    return bool(name) and is_check(name)


@functools.lru_cache(maxsize=4096)
def only_names(node):
    """Whether a statement only names what is there: `x, h = cache.x, cache.h`, `return dx`."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.Return)) or value is None:
        return isinstance(node, ast.For)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    parts = [p for p in parts if not (isinstance(p, ast.Call) and ast.unparse(p.func) == "Cache")]
    return all(_is_plain_access(n) for part in parts for n in ast.walk(part))


def _is_plain_access(node):
    """Whether a node is part of an expression such as cache.x, or shape[1]."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    return isinstance(node, PLAIN) and getattr(node, "attr", "") != "T"


@functools.lru_cache(maxsize=4096)
def _only_calls(node):
    """Whether a statement's own text has no operator, index or method of an array."""
    value = getattr(node, "value", None)
    return value is not None and all(isinstance(n, CARRYING) for n in ast.walk(value))


class Folder:
    """Decides for the steps of a walk; `mark(step, name)` is what is known of a write."""

    def __init__(self, recording, mark):
        self.mark, self.helpers = mark, {}
        for step in recording.steps:
            self.helpers.setdefault(step.call, []).append(step)

    def shows(self, step):
        """Whether a step is shown."""
        marks = [m for w in step.writes if (m := self.mark(step, w.name)) is not None]
        if step.error is not None or any(mark.right is False for mark in marks):
            return True
        return self.is_mathematics(step, any(mark.right for mark in marks))

    def is_mathematics(self, step, judged=False):
        """Whether a step is shown without a mark, or with one, `judged`."""
        node = step.line.node
        if not step.writes or self._folded(step.call) or is_checking(node):
            return False
        if only_names(node):                            # dx = dy: an equation, though a short one
            return judged and isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Name) and all(w.name[:1] == "d" for w in step.writes)
        if step.carried == "view" and _only_calls(node):
            return judged and all(w.is_one for w in step.writes)
        return step.carried != "same"

    def _folded(self, call):
        """Whether a call, or one around it, is a helper that is left out."""
        while call is not None and not is_pass(call):
            steps = self.helpers.get(call, ())
            short = len({s.line for s in steps}) <= 2
            known = is_check(call.code.co_name) or call.name in NAMED
            if short or known or all(map(self._moves, steps)):
                return True
            call = call.parent
        return False

    def _moves(self, step):
        """Whether what a statement of a helper wrote is carried on, or room full of zeros."""
        zero = all(not summary.scale for w in step.writes for _, summary in w.shown or ())
        return step.error is None and (zero or bool(step.carried) or only_names(step.line.node))


def carried(values, before):
    """"same" when every float array among `values` was held before, "view" when each is at least
    a view of one that was, else ""."""
    wanted, held = ([a for _, a in arrays_in(nest)] for nest in (values, before))
    known = {id(a) for a in held}
    if not wanted or all(id(a) in known for a in wanted):
        return "same" if wanted else ""
    starts = {id(_root(a)) for a in held}
    return "view" if all(id(_root(a)) in starts for a in wanted) else ""


def _root(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

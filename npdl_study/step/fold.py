"""Decide which statements of a Recording are mathematics, and shown.

Left out are checks of inputs, reads of a cache, loop headers, returns of an existing array, short
helper functions, and everything that passes on an array unchanged. Statements that are wrong, or
that raised an exception, are always shown.
"""

import ast
import functools

import numpy as np

from npdl_study.step.pictures import arrays_in

CHECKS = ("check", "checked", "require", "refuse", "validate", "assert")
NAMED = ("normal_cdf",)         # a function that a formula shows by its name
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.Load,
         ast.Store)
CARRYING = (*PLAIN, ast.Call, ast.keyword)


def is_check(name):
    """Return True if a function, by its name, only checks its arguments."""
    return name.lstrip("_").split("_")[0] in CHECKS or name == "gradients_of"


def is_pass(call):
    """Return True for a call of a forward or a backward."""
    name = call.code.co_name
    return call.parent is None or "forward" in name or "backward" in name


@functools.lru_cache(maxsize=4096)
def is_checking(node):
    """Return True for a check: `check_width(x)`, `dy = checked(dy)`, `raise`."""
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
    """Return True for a statement that only names values: `x = cache.x`, `return dx`."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.Return)) or value is None:
        return isinstance(node, ast.For)
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    parts = [p for p in parts if not (isinstance(p, ast.Call) and ast.unparse(p.func) == "Cache")]
    return all(_is_plain_access(n) for part in parts for n in ast.walk(part))


def _is_plain_access(node):
    """Return True for a part of an expression such as cache.x, or shape[1]."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    return isinstance(node, PLAIN) and getattr(node, "attr", "") != "T"


@functools.lru_cache(maxsize=4096)
def _only_calls(node):
    """Return True if a statement has no operator, index or transpose."""
    value = getattr(node, "value", None)
    return value is not None and all(isinstance(n, CARRYING) for n in ast.walk(value))


class Folder:
    """Decides which steps to show; `mark(step, name)` is the Mark of a write, or None."""

    def __init__(self, recording, mark):
        self.mark, self.helpers = mark, {}
        for step in recording.steps:
            self.helpers.setdefault(step.call, []).append(step)

    def shows(self, step):
        """Return True if a step is shown."""
        marks = [m for w in step.writes if (m := self.mark(step, w.name)) is not None]
        if step.error is not None or any(mark.right is False for mark in marks):
            return True
        return self.is_mathematics(step, any(mark.right for mark in marks))

    def is_mathematics(self, step, judged=False):
        """Return True for a statement that computes; `judged` says if it has a mark."""
        node = step.line.node
        if not step.writes or self._folded(step.call) or is_checking(node):
            return False
        if only_names(node):                            # dx = dy is an equation too
            return judged and isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Name) and all(w.name[:1] == "d" for w in step.writes)
        if step.carried == "view" and _only_calls(node):
            return judged and all(w.is_one for w in step.writes)
        return step.carried != "same"

    def _folded(self, call):
        """Return True if a call, or one around it, is a helper that is left out."""
        while call is not None and not is_pass(call):
            steps = self.helpers.get(call, ())
            short = len({s.line for s in steps}) <= 2
            known = is_check(call.code.co_name) or call.name in NAMED
            if short or known or all(map(self._moves, steps)):
                return True
            call = call.parent
        return False

    def _moves(self, step):
        """Return True if a statement of a helper passes on an array, or makes one of zeros."""
        zero = all(not summary.scale for w in step.writes for _, summary in w.shown or ())
        return step.error is None and (zero or bool(step.carried) or only_names(step.line.node))


def carried(values, before):
    """Return "same" if all float arrays of `values` existed before, "view" if they are views."""
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

"""Decide which statements of a Recording are mathematics, and shown.

Left out are checks of arguments, statements that only name existing values, arrays that are passed
on unchanged, and short helper functions. Statements that are wrong, or that raised an exception,
are always shown.
"""

import ast
import functools

import numpy as np

from npdl.study.step.pictures import arrays_in

CHECKS = ("check", "checked", "require", "refuse", "validate", "assert")
NAMED = ("normal_cdf",)         # functions that a formula shows by their names
PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Starred, ast.expr_context)


def is_check(name):
    """Return True if a function, by its name, only checks its arguments."""
    return name.lstrip("_").split("_")[0] in CHECKS or name == "gradients_of"


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
    return all(_is_plain(n) for part in parts for n in ast.walk(part))


def _is_plain(node):
    """Return True for a part of an expression such as cache.x, or shape[1]."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant)
    return isinstance(node, PLAIN) and getattr(node, "attr", "") != "T"


def is_copy(node):
    """Return True for `dx = dy`, which is an equation though it computes nothing."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and all(
        isinstance(target, ast.Name) and target.id[:1] == "d" for target in node.targets)


def is_shown(step):
    """Return True if a step is shown."""
    marks = [write.mark for write in step.writes if write.mark is not None]
    if step.error is not None or any(mark.is_wrong for mark in marks):
        return True
    node = step.line.node
    if not step.writes or is_checking(node) or _is_folded(step.call):
        return False
    if step.carried == "view":
        return bool(marks) or "reshape" not in step.line.source
    return is_copy(node) or not only_names(node) and not step.carried


def _is_folded(call):
    """Return True if a call, or one around it, is a helper that is left out."""
    while call is not None:
        name = call.code.co_name
        if call.parent is None or "forward" in name or "backward" in name:
            return False
        if is_check(name) or call.name in NAMED or len(call.ran) <= 2:
            return True
        call = call.parent
    return False


def carried(values, before):
    """Return "same" if all float arrays of `values` existed before, "view" if they are views."""
    wanted, held = ([a for _, a in arrays_in(nest)] for nest in (values, before))
    known = {id(a) for a in held}
    if not wanted or all(id(a) in known for a in wanted):
        return "same" if wanted else ""
    bases = {id(_base(a)) for a in held}
    return "view" if all(id(_base(a)) in bases for a in wanted) else ""


def _base(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array

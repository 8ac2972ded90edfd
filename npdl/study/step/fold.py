"""Decide which statements of a Recording are mathematics, and shown.

Left out are checks of arguments, statements that only name or pass on existing values, and short
helper functions. Statements that are wrong, or that raised an exception, are always shown.
"""

import ast
import functools

CHECKS = ("check", "checked", "require", "refuse", "validate", "assert")
NAMED = ("normal_cdf",)         # functions that a formula shows by their names


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
    return isinstance(node, (ast.Assign, ast.Return)) and _is_plain(node.value)


def _is_plain(node):
    """Return True for x, cache.x, shape[1], x.reshape(..), Cache(..), and tuples of these."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name == "Cache" or name.endswith(".reshape") and _is_plain(node.func.value)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _is_plain(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr != "T" and _is_plain(node.value)
    return isinstance(node, (ast.Name, ast.Constant))


def is_shown(step):
    """Return True if a step is shown."""
    marks = [write.mark for write in step.writes if write.mark is not None]
    if step.error is not None or any(mark.is_wrong for mark in marks):
        return True
    node = step.line.node
    if not step.writes or is_checking(node) or _is_folded(step.call):
        return False
    if step.is_new:
        return bool(marks) or not only_names(node)
    return bool(marks) and isinstance(node, ast.Assign) and only_names(node)    # dx = dy


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


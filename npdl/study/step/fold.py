"""Decide which recorded statements are shown.

Two kinds of statements are left out: statements that only rename or pass on existing values, and
the statements of short helper functions. Statements that are wrong or that raised an exception are
always shown.
"""

import ast

NAMED = ("normal_cdf",)         # functions that have a symbol in formulas


def _is_trivial(node):
    """Return True if an expression computes nothing: x, cache.x, x.reshape(..), or a tuple."""
    if isinstance(node, ast.Tuple):
        return all(map(_is_trivial, node.elts))
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name == "Cache" or name.endswith(".reshape") and _is_trivial(node.func.value)
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _is_trivial(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr != "T" and _is_trivial(node.value)
    return isinstance(node, (ast.Name, ast.Constant))


def is_shown(step):
    """Return True if a Step (a statement that ran) is shown to the user."""
    marks = [write.mark for write in step.writes if write.mark is not None]
    if step.error is not None or any(mark.is_wrong for mark in marks):
        return True
    node = step.statement.node
    if not step.writes or _is_in_short_helper(step.call):
        return False
    is_naming = isinstance(node, (ast.Assign, ast.Return)) and _is_trivial(node.value)
    if step.is_new:
        return bool(marks) or not is_naming
    return bool(marks) and is_naming and isinstance(node, ast.Assign)       # such as dx = dy


def _is_in_short_helper(call):
    """Return True if a call, or a call around it, runs a helper of at most two statements."""
    while call is not None:
        name = call.code.co_name
        if call.parent is None or "forward" in name or "backward" in name:
            return False
        if call.name in NAMED or len(call.ran) <= 2:
            return True
        call = call.parent
    return False

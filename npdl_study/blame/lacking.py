"""Edits that supply what a statement lacks: a term, a factor, the slope of a function."""

import ast
import re

from npdl_study.blame.counts import ODD_COUNT, PLAIN_COUNT
from npdl_study.trace.pairs import partners
from npdl_study.trace.syntax import binary, is_read, parsed

ONE = ast.Constant(1)


def lacking(node, words):
    """(rank, kind, replacement) for one node of a statement, of a Vocabulary."""
    if isinstance(node, ast.BinOp):
        yield from ((PLAIN_COUNT, "slope", new) for new in _other_slope(node))
    if not is_read(node):
        return
    own = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else ""
    is_array = words.names.get(own) == "array"
    if is_array or isinstance(node, ast.Call):
        for sign in "+-":
            yield ODD_COUNT, "missing term", binary(node, sign, ONE)
    yield from _with_others(node, words)
    if is_array:                                        # da, where only dh was computed as yet
        for text in (text for name in partners(own) for text in (*words.names, *words.fields)
                     if re.split(r"\W+", text.rstrip("']"))[-1] == name):
            for slope in slopes(parsed(text)):
                yield 4, "missing factor", binary(node, "*", slope)
    if is_array or own in words.fields or own in words.numbers or \
            words.names.get(own) == "number":
        yield PLAIN_COUNT, "complement", binary(ONE, "-", node)


def _with_others(node, words):
    """c[:, t] - h[:, t] for c[:, t]: a local array with another, entry by entry."""
    base = node.value if isinstance(node, ast.Subscript) else node
    if not isinstance(base, ast.Name) or words.names.get(base.id) != "array":
        return
    for name in (name for name in words.local("array") if name != base.id):
        other = ast.Name(name, ast.Load())
        if base is not node:
            other = ast.Subscript(other, node.slice, node.ctx)
        for sign in "+-*":
            kind = "missing factor" if sign == "*" else "missing term"
            yield ODD_COUNT, kind, binary(node, sign, other)


def lacking_whole(value, words, factors):
    """(rank, kind, replacement) of a whole expression: an array of the function, the slope of a
    sigmoid, a tanh or a ReLU, or one of the `factors` of the forward is missing."""
    arrays = [parsed(text) for text in words.arrays]
    for a in arrays:
        for sign in "+-":
            yield ODD_COUNT, "missing term", binary(value, sign, a)
        for slope in (a, binary(ONE, "-", a), *slopes(a)):
            yield ODD_COUNT, "missing factor", binary(value, "*", slope)
    for factor in map(parsed, factors):
        yield ODD_COUNT + 1, "missing factor", binary(value, "*", factor)
        for a in (a for a in arrays if isinstance(a, ast.Name) and partners(a.id)):
            for sign in "+-":
                yield ODD_COUNT + 1, "missing term", binary(value, sign, binary(a, "*", factor))


def slopes(a):
    """a * (1 - a), 1 - a * a, a > 0: the slope of a sigmoid, a tanh, a ReLU with output a."""
    return (binary(a, "*", binary(ONE, "-", a)), binary(ONE, "-", binary(a, "*", a)),
            ast.Compare(a, [ast.Gt()], [ast.Constant(0)]))


def _other_slope(node):
    """a * (1 - a) for 1 - a**2 or 1 - a * a, and back."""
    left, right = node.left, node.right
    if isinstance(node.op, ast.Sub) and _is_one(left) and _is_square(right):
        yield slopes(right.left)[0]
    if isinstance(node.op, ast.Mult) and isinstance(right, ast.BinOp) and isinstance(
            right.op, ast.Sub) and _is_one(right.left):
        a = right.right
        if _same(left, a):
            yield slopes(a)[1]
        elif isinstance(left, ast.BinOp) and _same(left.right, a):      # da * a * (1 - a)
            yield ast.BinOp(left.left, left.op, slopes(a)[1])


def _is_one(node):
    return isinstance(node, ast.Constant) and node.value == 1


def _is_square(node):
    if not isinstance(node, ast.BinOp):
        return False
    return isinstance(node.op, ast.Pow) and ast.unparse(node.right) == "2" or isinstance(
        node.op, ast.Mult) and _same(node.left, node.right)


def _same(a, b):
    return ast.unparse(a) == ast.unparse(b)

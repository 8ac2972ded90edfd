"""Edits of what counts in a statement: numbers, lengths, brackets, slices, subscripts."""

import ast
import itertools

from npdl_study.trace.syntax import SIGNS, binary, indexed, indices, is_read, parsed

PLAIN_COUNT, ODD_COUNT = 3, 5   # ranks: one number for another; a number that is computed of two
FACTORS = (2, 3, 4, 5, 6)       # small numbers by which a length may be wrong


def counts(node, words):
    """(rank, kind, replacement) for one node of a statement, of a Vocabulary."""
    if isinstance(node, ast.BinOp):
        yield from ((2, "brackets", new) for new in _bracketed(node))
    elif isinstance(node, ast.Subscript):
        yield from _of_slices(node, words.numbers)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, words)
    if is_read(node) and is_literal(node):
        yield from _of_others(node, words, ODD_COUNT)
    elif is_read(node) and is_number(node, words):
        yield from _of_others(node, words, PLAIN_COUNT)
        for text in words.arrays:
            yield 4, "count", parsed(text)
            yield 4, "count", parsed(f"{text}[:, None]")
        for n in FACTORS:
            yield ODD_COUNT + 1, "count", binary(node, "*", ast.Constant(n))
            yield ODD_COUNT + 1, "count", binary(node, "//", ast.Constant(n))


def is_literal(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_number(node, words):
    """Whether an expression is a number that the function holds, or a length."""
    if isinstance(node, ast.Name):
        return words.names.get(node.id) in ("index", "number")
    if isinstance(node, ast.BinOp):
        return all(is_number(side, words) or isinstance(side, ast.Constant)
                   for side in (node.left, node.right))
    if not isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        return False
    text = ast.unparse(node)
    if isinstance(node, ast.Subscript):
        return text in words.numbers or ast.unparse(node.value).endswith(".shape")
    return text in words.numbers or text.endswith(".size") or text.startswith("len(")


def _of_others(node, words, rank):
    """Another number in a number's place, or computed of the two."""
    own = ast.unparse(node)
    for text in (text for text in words.numbers if text != own):
        other = parsed(text)
        if text not in words.names or not isinstance(node, ast.Name):
            yield rank, "count", other
        for sign in ("*", "//", "/", "+", "-"):
            yield ODD_COUNT, "count", binary(node, sign, other)
        for sign in ("*", "-"):
            yield ODD_COUNT, "count", binary(other, sign, node)


def _bracketed(node):
    """a - b**2 for (a - b)**2, a * b - c for a * (b - c), a / (b * c) for a / b * c, and back."""
    if isinstance(node.left, ast.BinOp):
        inner = node.left
        yield ast.BinOp(inner.left, inner.op, ast.BinOp(inner.right, node.op, node.right))
    if isinstance(node.right, ast.BinOp):
        inner = node.right
        yield ast.BinOp(ast.BinOp(node.left, node.op, inner.left), inner.op, inner.right)


def _of_slices(node, numbers):
    """Another part of an axis: [1:] for [:-1], [:n] for [n:], [p:p + n] for [:n]."""
    items = indices(node)
    for i, item in enumerate(items):
        if isinstance(item, ast.Slice) and item.step is None and (item.lower or item.upper):
            for rank, lower, upper in _ends(item.lower, item.upper, numbers):
                yield rank, "window", indexed(node, [*items[:i], ast.Slice(lower, upper),
                                                     *items[i + 1 :]])
    for text in numbers:                                # [p:p + H, p:p + W] for [:H, :W]
        moved = [_moved(item, text) for item in items]
        if sum(a is not b for a, b in zip(moved, items, strict=True)) > 1:
            yield ODD_COUNT, "window", indexed(node, moved)
    for text in numbers:                                # [i:i + s * H:s] for [i:i + H]
        strided = [_strided(item, parsed(text)) for item in items]
        if any(a is not b for a, b in zip(strided, items, strict=True)):
            yield ODD_COUNT, "window", indexed(node, strided)


def _ends(lower, upper, numbers):
    """(rank, lower, upper) of other slices of about the same length."""
    if lower is None:
        yield PLAIN_COUNT, _negative(upper), None
        yield PLAIN_COUNT, upper, None
    elif upper is None:
        yield PLAIN_COUNT, None, _negative(lower)
        yield PLAIN_COUNT, None, lower
    by = [(PLAIN_COUNT, ast.Constant(1))] + [(ODD_COUNT, parsed(text)) for text in numbers]
    for (rank, n), sign in itertools.product(by, "+-"):
        moved = [end and binary(end, sign, n) for end in (lower, upper)]
        if lower is not None and upper is not None:
            yield rank, *moved
        elif lower is None and sign == "+":
            yield rank, n, moved[1]


def _moved(item, text):
    """[p:p + n] for [:n]; anything else as it is."""
    if isinstance(item, ast.Slice) and item.lower is item.step is None and item.upper is not None:
        return ast.Slice(parsed(text), binary(parsed(text), "+", item.upper))
    return item


def _strided(item, step):
    """A slice of as many entries in steps; anything else as it is."""
    if not isinstance(item, ast.Slice) or item.step is not None or item.upper is None:
        return item
    upper = item.upper
    if item.lower is None:
        return ast.Slice(None, binary(upper, "*", step), step)
    if isinstance(upper, ast.BinOp) and isinstance(upper.op, SIGNS["+"]) and ast.unparse(
            upper.left) == ast.unparse(item.lower):
        return ast.Slice(item.lower, binary(upper.left, "+", binary(upper.right, "*", step)), step)
    return item


def _negative(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return ast.UnaryOp(ast.USub(), node)


def _of_call(node, words):
    """Other letters in einsum's subscripts; an array that is there for zeros like it."""
    name = ast.unparse(node.func).split(".")[-1]
    if name == "einsum" and node.args and isinstance(node.args[0], ast.Constant):
        for text in _subscripts(str(node.args[0].value)):
            yield 2, "subscripts", ast.Call(node.func, [ast.Constant(text), *node.args[1:]],
                                            node.keywords)
    if name in ("zeros_like", "zeros"):
        for text in words.arrays:
            yield ODD_COUNT, "room", parsed(f"{text}.copy()")


def _subscripts(text):
    """Subscripts in which two letters of one operand or of the result have changed places."""
    parts = text.replace("->", ",").split(",")
    for i, part in enumerate(parts):
        for a, b in itertools.combinations(range(len(part)), 2):
            if part[a] != part[b]:
                letters = list(part)
                letters[a], letters[b] = letters[b], letters[a]
                other = [*parts[:i], "".join(letters), *parts[i + 1 :]]
                yield ",".join(other[:-1]) + "->" + other[-1] if "->" in text else ",".join(other)

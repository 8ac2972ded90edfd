"""Edits of what counts in a statement: numbers, lengths, brackets, slices, subscripts, entries of a
cache; and of the terms and factors that it lacks."""

import ast
import itertools
import re

from npdl.study.pairs import partners

PLAIN_COUNT, ODD_COUNT = 3, 5   # ranks: one number for another; a number that is computed of two


def number(value):
    """A number as syntax: -1 is minus 1."""
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def counts(node, names, fields, numbers):
    """(rank, kind, replacement) for one node of a statement; arguments as those of `edits`."""
    if isinstance(node, ast.BinOp):
        yield from ((2, "brackets", new) for new in _bracketed(node))
        yield from ((PLAIN_COUNT, "slope", new) for new in _other_slope(node))
    elif isinstance(node, ast.Subscript):
        yield from _of_slices(node, numbers)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, names, fields)
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    plain = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    if plain or is_number(node, names, numbers):
        own = ast.unparse(node)
        for text in (text for text in numbers if text != own):
            other = _parsed(text)
            if text not in names or not isinstance(node, ast.Name):
                yield ODD_COUNT if plain else PLAIN_COUNT, "count", other
            for op in (ast.Mult(), ast.FloorDiv(), ast.Div(), ast.Add(), ast.Sub()):
                yield ODD_COUNT, "count", ast.BinOp(node, op, other)
            for op in (ast.Mult(), ast.Sub()):
                yield ODD_COUNT, "count", ast.BinOp(other, op, node)
        arrays = [text for text, kind in names.items() if kind == "array"]
        for text in () if plain else (*arrays, *fields):
            yield 4, "count", _parsed(text)
            yield 4, "count", _parsed(f"{text}[:, None]")
        for n in () if plain else (2, 3, 4, 5, 6):
            yield ODD_COUNT + 1, "count", ast.BinOp(node, ast.Mult(), ast.Constant(n))
            yield ODD_COUNT + 1, "count", ast.BinOp(node, ast.FloorDiv(), ast.Constant(n))
    own = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) else ""
    if names.get(own) == "array" or isinstance(node, ast.Call):
        for op in (ast.Add(), ast.Sub()):
            yield ODD_COUNT, "missing term", ast.BinOp(node, op, ast.Constant(1))
    base = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(base, ast.Name) and names.get(base.id) == "array":
        for text in (name for name, kind in names.items() if kind == "array" and name != base.id):
            other = _parsed(text)
            if base is not node:                        # c[:, t] - h[:, t]
                other = ast.Subscript(other, node.slice, node.ctx)
            for op in (ast.Add(), ast.Sub(), ast.Mult()):
                kind = "missing factor" if isinstance(op, ast.Mult) else "missing term"
                yield ODD_COUNT, kind, ast.BinOp(node, op, other)
    if names.get(own) == "array":                       # da, where only dh was computed as yet
        for text in (text for name in partners(own) for text in (*names, *fields)
                     if re.split(r"\W+", text.rstrip("']"))[-1] == name):
            for slope in _slopes(_parsed(text)):
                yield 4, "missing factor", ast.BinOp(node, ast.Mult(), slope)
    if own in fields or own in numbers or names.get(own) in ("array", "number"):
        yield PLAIN_COUNT, "complement", ast.BinOp(ast.Constant(1), ast.Sub(), node)


def more(value, names, fields, factors):
    """(rank, kind, replacement) of a whole expression that lacks a term or a factor: an array of
    the function, the slope of a sigmoid, a tanh or a ReLU, or what the forward multiplies with."""
    arrays = [_parsed(text) for text in
              [*(name for name, kind in names.items() if kind == "array"), *fields]]
    for a in arrays:
        for op in (ast.Add(), ast.Sub()):
            yield ODD_COUNT, "missing term", ast.BinOp(value, op, a)
        for slope in (a, ast.BinOp(ast.Constant(1), ast.Sub(), a), *_slopes(a)):
            yield ODD_COUNT, "missing factor", ast.BinOp(value, ast.Mult(), slope)
    for factor in map(_parsed, factors):
        yield ODD_COUNT + 1, "missing factor", ast.BinOp(value, ast.Mult(), factor)
        for a in (a for a in arrays if isinstance(a, ast.Name) and partners(a.id)):
            for op in (ast.Add(), ast.Sub()):
                yield ODD_COUNT + 1, "missing term", ast.BinOp(
                    value, op, ast.BinOp(a, ast.Mult(), factor))


def _slopes(a):
    """a * (1 - a), 1 - a * a, a > 0: the slope of a sigmoid, a tanh, a ReLU with output a."""
    one = ast.Constant(1)
    yield ast.BinOp(a, ast.Mult(), ast.BinOp(one, ast.Sub(), a))
    yield ast.BinOp(one, ast.Sub(), ast.BinOp(a, ast.Mult(), a))
    yield ast.Compare(a, [ast.Gt()], [ast.Constant(0)])


def other_keys(node, keys):
    """(rank, kind, replacement): another entry of a cache, s["c"] for s["c_prev"], s.c for s.h."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if node.slice.value in keys:
            for key in keys:
                yield 2, "name", ast.Subscript(node.value, ast.Constant(key), node.ctx)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in keys:
        for key in keys:
            yield 2, "name", ast.Attribute(node.value, key, node.ctx)


def is_number(node, names, numbers):
    """Whether an expression is a number that the function holds, or a length."""
    if isinstance(node, ast.Name):
        return names.get(node.id) in ("index", "number")
    if isinstance(node, ast.BinOp):
        return all(is_number(side, names, numbers) or isinstance(side, ast.Constant)
                   for side in (node.left, node.right))
    text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)) else ""
    if isinstance(node, ast.Subscript):
        return text in numbers or ast.unparse(node.value).endswith(".shape")
    return text in numbers or text.endswith(".size") or text.startswith("len(")


def _bracketed(node):
    """a - b**2 for (a - b)**2, a * b - c for a * (b - c), a / (b * c) for a / b * c, and back."""
    if isinstance(node.left, ast.BinOp):
        inner = node.left
        yield ast.BinOp(inner.left, inner.op, ast.BinOp(inner.right, node.op, node.right))
    if isinstance(node.right, ast.BinOp):
        inner = node.right
        yield ast.BinOp(ast.BinOp(node.left, node.op, inner.left), inner.op, inner.right)


def _other_slope(node):
    """a * (1 - a) for 1 - a**2, and back."""
    left, right = node.left, node.right
    if isinstance(node.op, ast.Sub) and _is_one(left) and isinstance(right, ast.BinOp):
        square = isinstance(right.op, ast.Pow) and ast.unparse(right.right) == "2"
        if square or isinstance(right.op, ast.Mult) and ast.unparse(right.left) == ast.unparse(
                right.right):
            yield next(_slopes(right.left))
    if isinstance(node.op, ast.Mult) and isinstance(right, ast.BinOp) and isinstance(
            right.op, ast.Sub) and _is_one(right.left):
        if ast.unparse(right.right) == ast.unparse(left):
            yield list(_slopes(left))[1]
        elif isinstance(left, ast.BinOp) and ast.unparse(left.right) == ast.unparse(right.right):
            yield ast.BinOp(left.left, left.op, list(_slopes(left.right))[1])


def _is_one(node):
    return isinstance(node, ast.Constant) and node.value == 1


def _of_slices(node, numbers):
    """Another part of an axis: [1:] for [:-1], [:n] for [n:], [p:p + n] for [:n]."""
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    for i, item in enumerate(items):
        if not isinstance(item, ast.Slice) or item.step is not None or (
                item.lower is None and item.upper is None):
            continue
        for rank, lower, upper in _ends(item.lower, item.upper, numbers):
            yield rank, "window", _indexed(node, [*items[:i], ast.Slice(lower, upper),
                                                  *items[i + 1 :]])
    for text in numbers:                                # [p:p + H, p:p + W] for [:H, :W]
        moved = [ast.Slice(_parsed(text), ast.BinOp(_parsed(text), ast.Add(), item.upper))
                 if isinstance(item, ast.Slice) and item.lower is item.step is None
                 and item.upper is not None else item for item in items]
        if sum(a is not b for a, b in zip(moved, items, strict=True)) > 1:
            yield ODD_COUNT, "window", _indexed(node, moved)
    for text in numbers:                                # [i:i + s * H:s] for [i:i + H]
        strided = [_strided(item, _parsed(text)) for item in items]
        if any(a is not b for a, b in zip(strided, items, strict=True)):
            yield ODD_COUNT, "window", _indexed(node, strided)


def _indexed(node, items):
    index = ast.Tuple(items, ast.Load()) if len(items) > 1 else items[0]
    return ast.Subscript(node.value, index, node.ctx)


def _strided(item, step):
    """A slice of as many entries in steps; anything else as it is."""
    if not isinstance(item, ast.Slice) or item.step is not None or item.upper is None:
        return item
    upper = item.upper
    if item.lower is None:
        return ast.Slice(None, ast.BinOp(upper, ast.Mult(), step), step)
    if isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add) and ast.unparse(
            upper.left) == ast.unparse(item.lower):
        far = ast.BinOp(upper.right, ast.Mult(), step)
        return ast.Slice(item.lower, ast.BinOp(upper.left, ast.Add(), far), step)
    return item


def _ends(lower, upper, numbers):
    """(rank, lower, upper) of other slices of about the same length."""
    if lower is None:
        yield PLAIN_COUNT, _negative(upper), None
        yield PLAIN_COUNT, upper, None
    elif upper is None:
        yield PLAIN_COUNT, None, _negative(lower)
        yield PLAIN_COUNT, None, lower
    by = [(PLAIN_COUNT, ast.Constant(1))] + [(ODD_COUNT, _parsed(text)) for text in numbers]
    for rank, n in by:
        for op in (ast.Add(), ast.Sub()):
            moved = [end and ast.BinOp(end, op, n) for end in (lower, upper)]
            if lower is not None and upper is not None:
                yield rank, *moved
            elif lower is None and isinstance(op, ast.Add):
                yield rank, n, moved[1]


def _negative(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return ast.UnaryOp(ast.USub(), node)


def _of_call(node, names, fields):
    """Other letters in einsum's subscripts; an array that is there for zeros like it."""
    name = ast.unparse(node.func).split(".")[-1]
    if name == "einsum" and node.args and isinstance(node.args[0], ast.Constant):
        for text in _subscripts(str(node.args[0].value)):
            yield 2, "subscripts", ast.Call(node.func, [ast.Constant(text), *node.args[1:]],
                                            node.keywords)
    if name in ("zeros_like", "zeros"):
        arrays = [text for text, kind in names.items() if kind == "array"]
        for text in (*arrays, *fields):
            yield ODD_COUNT, "room", _parsed(f"{text}.copy()")


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


def _parsed(text):
    return ast.parse(text, mode="eval").body

"""An expression with one of its parts changed: what it would give.

Of `a + b @ c.T` the parts are `a`, `b @ c.T`, `b`, `c.T` and `c`. `changed()` puts another array
in the place of each, or the same array times or divided by one, reversed or turned.
"""

import ast
from types import FunctionType

import numpy as np

from npdl import functions
from npdl.errors import broadcasts
from npdl_study.blame.atoms import derived, factors_of, fittings, is_mask

PURE = {"sum", "mean", "max", "min", "reshape", "transpose", "swapaxes", "copy", "astype", "ravel",
        "squeeze", "dot", "items", "keys", "conj", "cumsum", "repeat"}
PART = "part_in_question"
FUNCTIONS = {name: f for name, f in vars(functions).items()
             if isinstance(f, FunctionType) and f.__module__ == functions.__name__}


def expression_of(node, name, path):
    """The expression that a statement gives to `name`, or to the item at `path` of a return."""
    value = getattr(node, "value", None)
    if isinstance(node, ast.Return) and path and isinstance(value, ast.Tuple):
        return value.elts[path[0]] if len(path) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        if not isinstance(value, ast.Tuple) or len(value.elts) != len(node.targets[0].elts):
            return None
        return next((v for t, v in zip(node.targets[0].elts, value.elts, strict=True)
                     if ast.unparse(t) == name), None)
    return value if not path else None


def changed(node, names, atoms, numbers):
    """Yield (kind, words, weight, value of the whole) for each change of a part of an expression.

    `atoms` are the arrays, `numbers` [(label, number)] what the part may be multiplied with.
    """
    for part in [n for n in ast.walk(node) if isinstance(n, ast.expr)]:
        if isinstance(getattr(part, "ctx", ast.Load()), ast.Load) and not isinstance(
                part, (ast.Constant, ast.Slice, ast.Tuple, ast.List)):
            value = evaluated(part, names, "fb")        # not of an index, a shape or a count
            whole = _compiled(_replaced(node, part)) if value is not None else None
            if whole is not None and (value.ndim or part is not node):
                for kind, words, weight, other in _quietly(_changes(value, atoms, numbers)):
                    found = _run(whole, names | {PART: other})
                    if found is not None:
                        where = "" if part is node else f"in `{ast.unparse(part)}`: "
                        yield kind, where + words, weight + (part is not node), found


def _quietly(items):
    """The items of a generator, whose arithmetic warns of nothing."""
    while True:
        with np.errstate(all="ignore"):
            item = next(items, None)
        if item is None:
            return
        yield item


def _changes(value, atoms, numbers):
    """(kind, words, weight, new value) of what a part may be instead."""
    if not value.ndim:
        return
    for axis in range(value.ndim):
        yield ("reversed", f"it is not reversed along axis {axis}: [{':, ' * axis}::-1] is missing",
               1, np.flip(value, axis))
    if value.ndim > 1:
        yield "transposed", "a transpose is missing", 1, value.swapaxes(-1, -2)
    yield "sign", "the sign is wrong", 1, -value
    for power in (2, 3):
        yield "power", f"a power is missing: **{power}", 1, value**power
    fits = fittings(atoms, value.shape)
    for atom in fits:
        yield "name", f"it should be {atom.label}", 2 + atom.weight, atom.array
    wide = [a for a in atoms if a.array.ndim == value.ndim and a.array.size > value.size
            and broadcasts(value.shape, a.array.shape)]
    for atom in derived(fits + wide):
        words = f"{atom.label} (the mask)" if is_mask(atom.array) else atom.label
        yield ("missing factor", f"a factor is missing: * {words}", 2 + atom.weight,
               value * atom.array)
        if not atom.slope and (atom.array != 0).all():
            yield ("missing factor", f"/ {atom.label} is missing, or * {atom.label} is one factor "
                   "too many", 2 + atom.weight, value / atom.array)
    for atom in fits:
        for sign, other in (("-", value - atom.array), ("+", value + atom.array)):
            yield ("missing term", f"a term is missing: {sign} {atom.label}", 6 + atom.weight,
                   other)
    for name in ("exp", "log", "tanh"):
        yield "function", f"a function is missing: np.{name}", 3, getattr(np, name)(value)
    for axis, n in enumerate(value.shape):
        for by in (1, -1) if n > 1 else ():
            yield ("moved", f"it must be moved by {by} along axis {axis}, with zeros at the end", 3,
                   shifted(value, axis, by))
    for label, number in factors_of(numbers):
        yield "factor", f"a factor is missing: * {label}", 2, value * number
        yield "factor", f"a factor is missing: / {label}", 2, value / number


def shifted(array, axis, by):
    """An array moved along an axis, with zeros where nothing came."""
    moved = np.roll(array, by, axis)
    rows = np.moveaxis(moved, axis, 0)
    rows[slice(None, by) if by > 0 else slice(by, None)] = 0
    return moved


def _replaced(tree, part):
    """A copy of an expression with a name in the place of a part."""
    if tree is part:
        return ast.Name(PART, ast.Load())
    if isinstance(tree, list):
        return [_replaced(item, part) for item in tree]
    if not isinstance(tree, ast.AST):
        return tree
    return type(tree)(**{name: _replaced(value, part) for name, value in ast.iter_fields(tree)})


def evaluated(node, names, kinds="fiub"):
    """The value of an expression as a float array; None where it cannot be had without harm, or
    is of none of these kinds."""
    code = _compiled(node)
    return _run(code, names, kinds) if code is not None else None


def _compiled(node):
    """The code of an expression; None if it might do more than compute."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not _is_pure(part.func) or isinstance(
                part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return None
    try:
        return compile(ast.unparse(node), "", "eval")
    except (SyntaxError, ValueError):
        return None


def _run(code, names, kinds="fiub"):
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(eval(code, dict(names)))
        return value.astype(float) if value.dtype.kind in kinds and value.size else None
    except Exception:
        return None


def _is_pure(func):
    """Whether a call only computes: of a function of NumPy's or of npdl.functions, or a method of
    an array."""
    if isinstance(func, ast.Name):
        return func.id in FUNCTIONS or func.id in (
            "len", "range", "slice", "min", "max", "abs", "float", "int")
    return isinstance(func, ast.Attribute) and (
        ast.unparse(func.value) in ("np", "xp", "numpy") and func.attr not in ("copyto", "put")
        or func.attr in PURE)

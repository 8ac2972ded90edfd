"""Edits of one token of a statement: an operator, a sign, a name, an axis, a transpose."""

import ast
import itertools

from npdl_study.trace.syntax import indexed, indices, is_read, method, number, parsed

OPPOSITE = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
ALIKE = (("add", "subtract", "multiply", "divide"), ("sum", "mean", "max"), ("sin", "cos"),
         ("zeros_like", "ones_like"), ("zeros", "ones"), ("exp", "log", "tanh"),
         ("maximum", "minimum"))
FUNCTIONS = {name: tuple(other for other in group if other != name)
             for group in ALIKE for name in group}
IDENTITIES = (ast.Is, ast.IsNot)
COMPARISONS = (ast.Lt, ast.Gt, ast.LtE, ast.GtE, ast.Eq, ast.NotEq)
AXES = (0, 1, -1, -2)


def slips(node, words, is_value):
    """(rank, kind, replacement) for one node of a statement, of a Vocabulary; `is_value` for what
    is assigned or returned."""
    if isinstance(node, ast.BinOp):
        yield from _of_operator(node)
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPPOSITE:
        yield 0, "sign", ast.AugAssign(node.target, OPPOSITE[type(node.op)](), node.value)
        if isinstance(node.op, ast.Add):
            yield from _of_repeated(node.target, node.value)
    elif isinstance(node, ast.Assign):
        yield from _of_assignment(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield 0, "sign", node.operand
    elif isinstance(node, ast.Name) and node.id in words.names:
        yield from _of_name(node, words)
    elif isinstance(node, ast.Attribute) and is_read(node):
        yield from _of_attribute(node, words)
    elif isinstance(node, ast.Subscript) and is_read(node):
        yield from _of_subscript(node, words.fields)
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from _of_items(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from _of_literal(node.value)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in IDENTITIES if isinstance(node.ops[0], IDENTITIES) else COMPARISONS:
            yield 2, "comparison", ast.Compare(node.left, [op()], node.comparators)
    if is_value:
        yield from _of_value(node)


def other_keys(node, keys):
    """(rank, kind, replacement): another entry of a cache, s["c"] for s["c_prev"], s.c for s.h."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if node.slice.value in keys:
            for key in keys:
                yield 2, "name", ast.Subscript(node.value, ast.Constant(key), node.ctx)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in keys:
        for key in keys:
            yield 2, "name", ast.Attribute(node.value, key, node.ctx)


def _of_operator(node):
    left, op, right = node.left, node.op, node.right
    kind = type(op)
    if kind in OPPOSITE:
        sign = kind in (ast.Add, ast.Sub)
        yield 0, "sign" if sign else "factor", ast.BinOp(left, OPPOSITE[kind](), right)
        if kind in (ast.Mult, ast.Div):
            yield 2, "operator", ast.BinOp(left, ast.Sub(), right)
        yield 4, "extra part", left
        yield 4, "extra part", right
        yield 2, "order", ast.BinOp(right, op, left)
    if kind is ast.MatMult:
        yield 1, "transposed", ast.BinOp(right, op, left)
        yield 1, "transposed", ast.BinOp(_transposed(left), op, right)
        yield 1, "transposed", ast.BinOp(left, op, _transposed(right))
        yield 1, "transposed", ast.BinOp(_transposed(right), op, _transposed(left))
        yield 2, "transposed", ast.BinOp(_swapped(left), op, right)
        yield 2, "transposed", ast.BinOp(left, op, _swapped(right))


def _swapped(node):
    return method(node, "swapaxes", number(-1), number(-2))


def _transposed(node):
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    return ast.Attribute(node, "T", ast.Load())


def _of_assignment(node):
    """+= for =."""
    target = node.targets[0]
    if isinstance(target, ast.Name) or ast.unparse(target).endswith((".grad", "]")):
        yield 0, "overwritten", ast.AugAssign(target, ast.Add(), node.value)
        yield from _of_repeated(target, node.value)


def _of_repeated(target, value):
    """G[i] += v adds once where an index comes twice."""
    if isinstance(target, ast.Subscript) and not any(
            isinstance(part, ast.Slice) for part in ast.walk(target.slice)):
        where = [parsed(ast.unparse(part)) for part in (target.value, target.slice, value)]
        yield 1, "repeated", ast.Expr(ast.Call(parsed("np.add.at"), where, []))


def _of_name(node, words):
    own = words.names[node.id]
    for name, kind in words.names.items():
        if name != node.id:
            alike = kind == own and is_read(node)
            yield 3 if alike else 6, "name", ast.Name(name, node.ctx)
    if not is_read(node):
        return
    if own == "index":
        for op in (ast.Add(), ast.Sub()):
            yield 2, "step", ast.BinOp(node, op, ast.Constant(1))
    if own == "array":
        for text in words.fields:
            yield 4, "name", parsed(text)
        yield from _reversed(node.id)


def _reversed(text):
    for index in ("", ":, "):
        yield 4, "reversed", parsed(f"{text}[{index}::-1]")


def _of_attribute(node, words):
    if node.attr == "T":
        yield 0, "transposed", node.value
    for name in FUNCTIONS.get(node.attr, ()):
        yield 1, "operator", ast.Attribute(node.value, name, ast.Load())
    own = ast.unparse(node)
    if own in words.fields:
        for text in words.fields:
            if text != own and text.partition(".")[0] == own.partition(".")[0]:
                yield 2, "name", parsed(text)
        for name in words.local("array"):
            yield 4, "name", ast.Name(name, ast.Load())
        yield from _reversed(own)


def _of_subscript(node, fields):
    """x[:, ::-1] for x[:, :], and the other way round; another field of a dict."""
    own, items = ast.unparse(node), indices(node)
    if own not in fields:
        yield 3, "part", node.value
    at = [i for i, item in enumerate(items) if not isinstance(item, ast.Slice)]
    if len(at) == 1 and all(item.lower is item.upper is item.step is None for i, item in
                            enumerate(items) if i not in at):
        yield 3, "missing sum", method(node.value, "sum", number(at[0]))
    for i, item in enumerate(items):
        if isinstance(item, ast.Slice) and item.lower is None and item.upper is None:
            turned = ast.Slice(None, None, number(-1) if item.step is None else None)
            yield 3, "reversed", indexed(node, [*items[:i], turned, *items[i + 1 :]])
    if own in fields:
        for text in fields:
            if text.startswith(ast.unparse(node.value) + "["):
                yield 2, "name", parsed(text)


def _of_items(node):
    """Two of a few items exchanged; other axes for those of a tuple such as (0, 2)."""
    if is_read(node) and node.elts and all(
            isinstance(item, ast.Constant) and item.value in range(4) for item in node.elts):
        for count in (1, 2, 3):
            for axes in itertools.combinations(range(4), count):
                yield 1, "axis", ast.Tuple([number(axis) for axis in axes], node.ctx)
    for i, j in itertools.combinations(range(min(len(node.elts), 6)), 2):
        items = list(node.elts)
        items[i], items[j] = items[j], items[i]
        yield 3, "order", type(node)(items, node.ctx)


def _of_literal(value):
    for other in (value + 1, value - 1, -value, 2 * value, value / 2):
        if other != value and (type(other) is type(value) or other != int(other)):
            yield 1, "number", number(other)


def _of_call(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in ("sum", "mean"):
        yield from _of_sum(node)
    if name == "reshape":
        yield from _of_reshape(node)
    if len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        yield 2, "order", ast.Call(node.func, node.args[::-1], node.keywords)
    for i, argument in enumerate(node.args):
        if len(node.args) > 1 and not isinstance(argument, ast.Starred):
            yield 4, "sign", ast.Call(node.func, [ast.UnaryOp(ast.USub(), a) if j == i else a
                                                  for j, a in enumerate(node.args)], node.keywords)


def _of_sum(node):
    """Other axes for those of a sum; no sum."""
    plain = [k for k in node.keywords if k.arg != "keepdims"]
    for axis in AXES:
        if any(k.arg == "axis" for k in node.keywords):
            yield 0, "axis", ast.Call(node.func, node.args, [
                ast.keyword("axis", number(axis)) if k.arg == "axis" else k
                for k in node.keywords])
        elif ast.unparse(node.func.value) in ("np", "xp"):
            yield 0, "axis", ast.Call(node.func, node.args[:1], [
                ast.keyword("axis", number(axis)), *node.keywords])
        elif not node.args or ast.unparse(node.args[0]) != str(axis):
            yield 0, "axis", ast.Call(node.func, [number(axis)], node.keywords)
    yield 1, "axis", ast.Call(node.func, [ast.Tuple([number(0), number(1)], ast.Load())], plain)
    if not node.keywords:
        yield 3, "extra sum", node.func.value


def _of_reshape(node):
    """Two axes exchanged before a reshape, or after one to lengths that are exchanged."""
    for i in (1, 0, 2):
        axes = [number(i), number(i + 1)]
        before = method(node.func.value, "swapaxes", *axes)
        yield 3, "transposed", method(before, "reshape", *node.args)
        if i + 1 < len(node.args):
            lengths = list(node.args)
            lengths[i : i + 2] = lengths[i : i + 2][::-1]
            yield 4, "transposed", method(ast.Call(node.func, lengths, []), "swapaxes", *axes)


def _of_value(node):
    yield 2, "sign", ast.UnaryOp(ast.USub(), node)
    keep = ast.keyword("keepdims", ast.Constant(True))
    for axis in AXES:
        total = ast.Attribute(node, "sum", ast.Load())
        yield 3, "missing sum", ast.Call(total, [number(axis)], [])
        yield 3, "missing sum", ast.Call(total, [number(axis)], [keep])
    yield 3, "transposed", ast.Attribute(node, "T", ast.Load())
    for name in ("exp", "log", "sqrt", "tanh", "sign"):
        yield 4, "function", ast.Call(parsed(f"np.{name}"), [node], [])

"""Small edits of one statement of a function, tried to find out which of them makes it right.

An edit changes one thing: an operator, a number, a name, a transpose, the axis of a sum, a term
or a factor. npdl.study.repair tries them.
"""

import ast
import copy
import io
import itertools
import textwrap
import tokenize
from dataclasses import dataclass, replace

from npdl.study.counts import PLAIN_COUNT, counts, more, number, other_keys
from npdl.study.pairs import partners

LENGTHS_OF = ("len", "np.zeros_like", "np.ones_like", "np.empty_like")
ONLY_LENGTHS = 8                # the rank of another array that only lends its shape
OPPOSITE = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
SIGNS = ("+", "-", "*", "/", "@", "**", "//")
ALIKE = (("add", "subtract", "multiply", "divide"), ("sum", "mean", "max"), ("sin", "cos"),
         ("zeros_like", "ones_like"), ("zeros", "ones"), ("exp", "log", "tanh"),
         ("maximum", "minimum"))
FUNCTIONS = {name: tuple(other for other in group if other != name)
             for group in ALIKE for name in group}


@dataclass
class Edit:
    """A statement's replacement; `rank` orders edits from the likeliest slip to the least."""

    rank: int
    kind: str
    was: str
    now: str
    node: ast.AST
    of: object = None               # the Statement, where it is one of several on a line


def edits(statement, names, fields, numbers=(), known=frozenset(), keys=()):
    """Every Edit of a statement.

    names    {local name: kind of its value}; those of one kind are likelier to be confused
    fields   what could stand for one beside the names: "cache.x_hat", 'cache["x"]', "self.W.data"
    numbers  what the function holds of numbers: "N", "self.stride", "x.shape[1]"
    known    expressions of the forward; what a statement has in common with these is likelier
    keys     the names under which the forward keeps something in caches
    """
    if statement.parts:
        found = [replace(edit, of=part) for part in statement.parts
                 for edit in edits(part, names, fields, numbers, known, keys)]
        return sorted(found, key=lambda edit: edit.rank)
    found, whole = [], header(statement.node)
    steps = {id(part) for node in ast.walk(whole) if isinstance(node, ast.Slice)
             and node.step is not None for part in ast.walk(node.step)}
    measured = set(_measured(whole))
    for node in ast.walk(whole):
        for rank, kind, new in itertools.chain(_variants(node, names, fields, whole),
                                               counts(node, names, fields, numbers),
                                               other_keys(node, keys)):
            kind = "reversed" if id(node) in steps else kind
            rank = ONLY_LENGTHS if id(node) in measured and kind == "name" else rank
            rank = PLAIN_COUNT if kind == "count" and ast.unparse(new) in known else rank
            tree = cloned(whole, node, new)
            found.append(Edit(rank, kind, ast.unparse(node), ast.unparse(new), tree))
    slices = [node for node in ast.walk(whole) if isinstance(node, ast.Slice)
              and not node.lower is node.upper is None]
    for one, other in itertools.combinations(slices, 2):
        if ast.unparse(one) != ast.unparse(other):      # y[:n] = x[k:] for y[k:] = x[:n]
            found.append(Edit(3, "window", ast.unparse(one), ast.unparse(other),
                              cloned(whole, one, other, other, one)))
    for one, other in itertools.combinations(_read(whole, names, fields), 2):
        found.append(Edit(3, "swapped", one, other, _exchanged(whole, one, other)))
    found += _of_tokens(statement)
    value = getattr(whole, "value", None)
    if statement.binds and isinstance(whole, (ast.Assign, ast.AugAssign)):
        factors = sorted({text for text in known if _reads(text) <= {*names, "np", "self"}})
        plain = 4 if isinstance(value, ast.Name) else ONLY_LENGTHS      # dz = da: what was meant?
        found += [Edit(min(rank, plain), kind, ast.unparse(value), ast.unparse(new),
                       cloned(whole, value, new)) for rank, kind, new in
                  more(value, names, fields, factors)]
    for term in terms(getattr(whole, "value", None)):
        for name in (n for n, kind in names.items() if kind == "index"):
            new = ast.BinOp(term, ast.Mult(), ast.Name(name, ast.Load()))
            found.append(Edit(5, "missing factor", ast.unparse(term), ast.unparse(new),
                              cloned(whole, term, new)))
    meant = {own for name in statement.binds for own in partners(name)}
    return sorted((e for e in found if not holds_itself(e.node)),
                  key=lambda e: (e.rank, e.now not in meant))


def _measured(node):
    """The ids of the nodes of which a statement reads the lengths alone: x in x.shape[0]."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in ("shape", "size", "ndim"):
            yield id(part.value)
        elif isinstance(part, ast.Call) and ast.unparse(part.func) in LENGTHS_OF:
            yield from map(id, part.args)


def _reads(text):
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def terms(value):
    """The terms of a sum, or the one."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        yield from terms(value.left)
        value = value.right
    if isinstance(value, ast.expr):
        yield value


def holds_itself(node):
    """Whether a statement puts a list into itself, of which NumPy makes an array without an end."""
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
               and call.func.attr in ("append", "insert", "extend")
               and any(ast.unparse(call.func.value) == ast.unparse(a) for a in call.args)
               for call in ast.walk(node))


def _read(node, names, fields):
    """The arrays that a statement reads, as source."""
    found = {ast.unparse(part) for part in ast.walk(node) if isinstance(
        part, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(part.ctx, ast.Load)}
    return sorted(text for text in found if names.get(text) == "array" or text in fields)


def _exchanged(node, one, other):
    """A copy of a statement in which two expressions that it reads have changed places."""
    if isinstance(node, list):
        return [_exchanged(item, one, other) for item in node]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), ast.Load):
        text = ast.unparse(node)
        if text in (one, other):
            return _parsed(other if text == one else one)
    return type(node)(**{name: _exchanged(value, one, other)
                         for name, value in ast.iter_fields(node)})


def _of_tokens(statement):
    """Edits of one operator in the text, so that the order of operations may change too."""
    source = textwrap.dedent(statement.source)
    lines = source.splitlines()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source + "\n").readline))
    except (tokenize.TokenError, IndentationError):
        return
    for token in tokens:
        if token.string not in SIGNS:
            continue
        row, start = token.start
        for sign in SIGNS:
            if sign == token.string:
                continue
            line = lines[row - 1]
            changed = [*lines]
            changed[row - 1] = line[:start] + sign + line[start + len(token.string):]
            try:
                node = ast.parse("\n".join(changed)).body[0]
            except SyntaxError:
                continue
            yield Edit(2, "operator", token.string, sign, node)


def _variants(node, names, fields, whole):
    """(rank, kind, replacement) for one node of a statement."""
    if isinstance(node, ast.BinOp):
        yield from _of_operator(node)
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPPOSITE:
        yield 0, "sign", ast.AugAssign(node.target, OPPOSITE[type(node.op)](), node.value)
        if isinstance(node.target, ast.Subscript) and isinstance(node.op, ast.Add):
            yield from _of_repeated(node.target, node.value)
    elif isinstance(node, ast.Assign) and (isinstance(node.targets[0], ast.Name) or
                                           ast.unparse(node.targets[0]).endswith((".grad", "]"))):
        yield 0, "overwritten", ast.AugAssign(node.targets[0], ast.Add(), node.value)
        if isinstance(node.targets[0], ast.Subscript):
            yield from _of_repeated(node.targets[0], node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield 0, "sign", node.operand
    elif isinstance(node, ast.Name) and node.id in names:
        for name in names:
            if name != node.id:
                alike = names[name] == names[node.id] and isinstance(node.ctx, ast.Load)
                yield 3 if alike else 6, "name", ast.Name(name, node.ctx)
        if names[node.id] == "index" and isinstance(node.ctx, ast.Load):
            for op in (ast.Add(), ast.Sub()):
                yield 2, "step", ast.BinOp(node, op, ast.Constant(1))
        if names[node.id] == "array" and isinstance(node.ctx, ast.Load):
            for text in fields:
                yield 4, "name", _parsed(text)
            yield from ((4, "reversed", _parsed(f"{node.id}[{index}::-1]"))
                        for index in ("", ":, "))
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        yield from _of_attribute(node, fields, names)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _of_subscript(node, fields)
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from _of_items(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from _ofnumber(node.value)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        same = isinstance(node.ops[0], (ast.Is, ast.IsNot))
        for op in (ast.Is, ast.IsNot) if same else (ast.Lt, ast.Gt, ast.LtE, ast.GtE, ast.Eq,
                                                    ast.NotEq):
            yield 2, "comparison", ast.Compare(node.left, [op()], node.comparators)
    value = getattr(whole, "value", None)
    if node is value and node is not None:
        yield from _of_value(node)


def _of_operator(node):
    kind = type(node.op)
    if kind in OPPOSITE:
        sign = kind in (ast.Add, ast.Sub)
        yield 0, "sign" if sign else "factor", ast.BinOp(node.left, OPPOSITE[kind](), node.right)
        if kind in (ast.Mult, ast.Div):
            yield 2, "operator", ast.BinOp(node.left, ast.Sub(), node.right)
        yield 4, "extra part", node.left
        yield 4, "extra part", node.right
        yield 2, "order", ast.BinOp(node.right, node.op, node.left)
    if kind is ast.MatMult:
        yield 1, "transposed", ast.BinOp(node.right, node.op, node.left)
        yield 1, "transposed", ast.BinOp(_transposed(node.left), node.op, node.right)
        yield 1, "transposed", ast.BinOp(node.left, node.op, _transposed(node.right))
        yield 1, "transposed", ast.BinOp(_transposed(node.right), node.op,
                                         _transposed(node.left))
        yield 2, "transposed", ast.BinOp(_swapped(node.left), node.op, node.right)
        yield 2, "transposed", ast.BinOp(node.left, node.op, _swapped(node.right))


def _parsed(text):
    return ast.parse(text, mode="eval").body


def _of_repeated(target, value):
    """G[i] += v adds once where an index comes twice."""
    if not any(isinstance(part, ast.Slice) for part in ast.walk(target.slice)):
        where = [_parsed(ast.unparse(part)) for part in (target.value, target.slice, value)]
        yield 1, "repeated", ast.Expr(ast.Call(_parsed("np.add.at"), where, []))


def _of_subscript(node, fields):
    """x[:, ::-1] for x[:, :], and the other way round; another field of a dict."""
    if ast.unparse(node) not in fields:
        yield 3, "part", node.value
    items = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    at = [i for i, item in enumerate(items) if not isinstance(item, ast.Slice)]
    if len(at) == 1 and all(item.lower is item.upper is item.step is None for i, item in
                            enumerate(items) if i not in at):
        yield 3, "missing sum", ast.Call(ast.Attribute(node.value, "sum", ast.Load()),
                                         [number(at[0])], [])
    for i, item in enumerate(items):
        if isinstance(item, ast.Slice) and item.lower is None and item.upper is None:
            turned = ast.Slice(None, None, number(-1) if item.step is None else None)
            parts = [*items[:i], turned, *items[i + 1 :]]
            index = ast.Tuple(parts, ast.Load()) if len(parts) > 1 else parts[0]
            yield 3, "reversed", ast.Subscript(node.value, index, node.ctx)
    if ast.unparse(node) in fields:
        for text in fields:
            if text.startswith(ast.unparse(node.value) + "["):
                yield 2, "name", _parsed(text)


def _of_items(node):
    """Two of a few items exchanged; other axes for those of a tuple such as (0, 2)."""
    if isinstance(node.ctx, ast.Load) and node.elts and all(
            isinstance(item, ast.Constant) and item.value in range(4) for item in node.elts):
        for count in (1, 2, 3):
            for axes in itertools.combinations(range(4), count):
                yield 1, "axis", ast.Tuple([number(axis) for axis in axes], node.ctx)
    for i, j in itertools.combinations(range(min(len(node.elts), 6)), 2):
        items = list(node.elts)
        items[i], items[j] = items[j], items[i]
        yield 3, "order", type(node)(items, node.ctx)


def _swapped(node):
    return ast.Call(ast.Attribute(node, "swapaxes", ast.Load()), [number(-1), number(-2)], [])


def _transposed(node):
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    return ast.Attribute(node, "T", ast.Load())


def _of_attribute(node, fields, names):
    if node.attr == "T":
        yield 0, "transposed", node.value
    if node.attr in FUNCTIONS:
        for name in FUNCTIONS[node.attr]:
            yield 1, "operator", ast.Attribute(node.value, name, ast.Load())
    own = ast.unparse(node)
    if own in fields:
        for text in fields:
            if text != own and text.partition(".")[0] == own.partition(".")[0]:
                yield 2, "name", _parsed(text)
        for name in (n for n, kind in names.items() if kind == "array"):
            yield 4, "name", ast.Name(name, ast.Load())
        for index in ("", ":, "):
            yield 4, "reversed", _parsed(f"{own}[{index}::-1]")


def _ofnumber(value):
    for other in (value + 1, value - 1, -value, 2 * value, value / 2):
        if other != value and (type(other) is type(value) or other != int(other)):
            yield 1, "number", number(other)


def _of_call(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    plain = [k for k in node.keywords if k.arg != "keepdims"]
    if name in ("sum", "mean"):
        for axis in (0, 1, -1, -2):
            if any(k.arg == "axis" for k in node.keywords):
                yield 0, "axis", ast.Call(node.func, node.args, [
                    ast.keyword("axis", number(axis)) if k.arg == "axis" else k
                    for k in node.keywords])
            elif ast.unparse(node.func.value) in ("np", "xp"):
                yield 0, "axis", ast.Call(node.func, node.args[:1], [
                    ast.keyword("axis", number(axis)), *node.keywords])
            elif not node.args or ast.unparse(node.args[0]) != str(axis):
                yield 0, "axis", ast.Call(node.func, [number(axis)], node.keywords)
        yield 1, "axis", ast.Call(node.func, [ast.Tuple([number(0), number(1)], ast.Load())],
                                  plain)
        if isinstance(node.func.value, ast.expr) and not node.keywords:
            yield 3, "extra sum", node.func.value
    if name == "reshape":
        yield from _of_reshape(node)
    if len(node.args) == 2 and not any(isinstance(a, ast.Starred) for a in node.args):
        yield 2, "order", ast.Call(node.func, node.args[::-1], node.keywords)
    for i, argument in enumerate(node.args):
        if len(node.args) > 1 and not isinstance(argument, ast.Starred):
            yield 4, "sign", ast.Call(node.func, [ast.UnaryOp(ast.USub(), a) if j == i else a
                                                  for j, a in enumerate(node.args)], node.keywords)


def _of_reshape(node):
    """Two axes exchanged before a reshape, or after one to lengths that are exchanged."""
    for i in (1, 0, 2):
        axes = [number(i), number(i + 1)]
        before = ast.Call(ast.Attribute(node.func.value, "swapaxes", ast.Load()), axes, [])
        yield 3, "transposed", ast.Call(ast.Attribute(before, "reshape", ast.Load()), node.args, [])
        if i + 1 < len(node.args):
            lengths = list(node.args)
            lengths[i : i + 2] = lengths[i : i + 2][::-1]
            turned = ast.Call(node.func, lengths, [])
            yield 4, "transposed", ast.Call(
                ast.Attribute(turned, "swapaxes", ast.Load()), axes, [])


def _of_value(node):
    yield 2, "sign", ast.UnaryOp(ast.USub(), node)
    for axis in (0, 1, -1, -2):
        call = ast.Attribute(node, "sum", ast.Load())
        yield 3, "missing sum", ast.Call(call, [number(axis)], [])
        keep = [ast.keyword("keepdims", ast.Constant(True))]
        yield 3, "missing sum", ast.Call(call, [number(axis)], keep)
    yield 3, "transposed", ast.Attribute(node, "T", ast.Load())
    for name in ("exp", "log", "sqrt", "tanh", "sign"):
        yield 4, "function", ast.Call(_parsed(f"np.{name}"), [node], [])


def header(node):
    """A statement without the body of a loop, an `if` or a `with`."""
    if not hasattr(node, "body"):
        return node
    alone = copy.copy(node)
    alone.body = [ast.Pass()]
    for part in ("orelse", "handlers", "finalbody"):
        if hasattr(node, part):
            setattr(alone, part, [])
    return alone


def cloned(tree, *changes):
    """A copy of a syntax tree, with changes (target, new, target, new ...) of its nodes."""
    for target, new in zip(changes[::2], changes[1::2], strict=True):
        if tree is target:
            return cloned(new)
    if isinstance(tree, list):
        return [cloned(item, *changes) for item in tree]
    if not isinstance(tree, ast.AST):
        return tree
    return type(tree)(**{name: cloned(value, *changes)
                         for name, value in ast.iter_fields(tree)})

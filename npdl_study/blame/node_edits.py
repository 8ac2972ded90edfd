"""Edits by what stands there alone: (cost, kind, what takes its place) of a statement (= for +=,
np.add.at for [] =, nothing), an operator, a call, a tuple, a slice, a constant."""

import ast
import itertools

from npdl_study.blame.weights import FACTOR, FORMULA, PAIRED, TERM, TOKEN
from npdl_study.trace.syntax import binary, cloned, method, names_of, number, parsed

OPERATORS = {ast.Add: "-*", ast.Sub: "+*", ast.Mult: "/+-@", ast.Div: "*-", ast.MatMult: "*",
             ast.Pow: "*", ast.FloorDiv: "*"}
SAME_WAY = {frozenset("+-"): "sign", frozenset("*/"): "factor"}
SIGN_OF = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@"}
AXES = ("0", "1", "-1", "-2", "2", "None", "(0, 1)", "(0, 2)", "(0, 2, 3)", "(1, 2)", "(2, 3)")


def statement_edits(node):
    """(cost, kind, [statements]) of another whole statement."""
    if isinstance(node, ast.AugAssign):
        for sign, op in (("-", ast.Sub), ("+", ast.Add), ("*", ast.Mult), ("/", ast.Div)):
            if not isinstance(node.op, op):
                kind = "sign" if sign in "+-" else "operator"
                yield TOKEN, kind, [ast.AugAssign(node.target, op(), node.value)]
        yield TOKEN, "overwritten", [ast.Assign([node.target], node.value)]
        if isinstance(node.target, ast.Name):
            apart = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            yield TOKEN, "in place", [ast.Assign([node.target], apart)]
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(
        node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(target, (ast.Name, ast.Attribute,
                                                            ast.Subscript)):
        yield TOKEN, "overwritten", [ast.AugAssign(target, ast.Add(), node.value)]
        if isinstance(target, ast.Name):
            both = ast.BinOp(ast.Name(target.id, ast.Load()), ast.Add(), node.value)
            yield TOKEN, "overwritten", [ast.Assign([target], both)]
        yield FACTOR, "sign", [ast.AugAssign(target, ast.Sub(), node.value)]
        yield FACTOR, "operator", [ast.AugAssign(target, ast.Mult(), node.value)]
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute,
                                                                ast.Subscript)):
        yield TOKEN, "in place", [ast.Assign(node.targets, method(node.value, "copy"))]
    if isinstance(target, ast.Subscript) and not any(
            isinstance(part, ast.Slice) for part in ast.walk(target.slice)):
        where = [parsed(ast.unparse(part)) for part in (target.value, target.slice)]
        yield TOKEN, "repeated", [ast.Expr(ast.Call(parsed("np.add.at"), [*where, node.value], []))]
    if isinstance(target, ast.Subscript) and isinstance(node, ast.Assign) and not (
            isinstance(node.value, ast.Constant) and node.value.value == 0):
        yield FACTOR, "number", [ast.Assign([target], ast.Constant(0))]
    if isinstance(node, ast.For):
        for text in (f"reversed({ast.unparse(node.iter)})",
                     f"list({ast.unparse(node.iter)})[::-1]"):
            yield TOKEN, "reversed", [ast.For(node.target, parsed(text), node.body, node.orelse)]
    if isinstance(node, ast.Expr):
        yield from _kept(node.value)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
        yield TERM, "extra line", [ast.Pass()]


def _kept(value):
    """What is computed and kept nowhere: returned, or kept."""
    if isinstance(value, ast.Compare):
        target = parsed(ast.unparse(value.left))
        if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
            target.ctx = ast.Store()
            yield TOKEN, "lost", [ast.Assign([target], value.comparators[0])]
        return
    yield TOKEN, "lost", [ast.Return(value)]
    first = next((n for n in ast.walk(value) if isinstance(n, ast.Name)
                  and n.id not in ("np", "self")), None)
    if first is not None:
        yield TOKEN, "lost", [ast.Assign([ast.Name(first.id, ast.Store())], value)]


def of_tuple(node):
    if not isinstance(node, (ast.Tuple, ast.List)):
        return
    for i, j in itertools.combinations(range(min(len(node.elts), 6)), 2):
        items = list(node.elts)
        items[i], items[j] = items[j], items[i]
        yield TOKEN, "order", type(node)(items, node.ctx)


def of_operator(node):
    left, op, right = node.left, node.op, node.right
    own = SIGN_OF.get(type(op), "")
    for sign in OPERATORS.get(type(op), ""):
        yield TOKEN, SAME_WAY.get(frozenset((own, sign)), "operator"), binary(left, sign, right)
    yield TOKEN, "extra part", left
    yield TOKEN, "extra part", right
    yield TOKEN, "transposed" if own == "@" else "order", ast.BinOp(right, op, left)
    if own == "@":
        yield FACTOR, "transposed", f"({ast.unparse(right)}).T @ ({ast.unparse(left)}).T"
    for inner, new in ((left, lambda i: ast.BinOp(i.left, i.op, ast.BinOp(i.right, op, right))),
                       (right, lambda i: ast.BinOp(ast.BinOp(left, op, i.left), i.op, i.right))):
        if isinstance(inner, ast.BinOp):
            yield FACTOR, "brackets", new(inner)
            for sign in OPERATORS.get(type(inner.op), "") if inner is left else ():
                yield TERM, "brackets", binary(inner.left, sign, ast.BinOp(inner.right, op, right))


def of_sign(node, text):
    """Another sign, or the axes of an array in another order."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield TOKEN, "sign", node.operand
    else:
        yield FACTOR, "sign", f"-({text})"
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield TOKEN, "transposed", node.value
    yield TOKEN, "transposed", f"({text}).T"
    yield FACTOR, "transposed", f"({text}).swapaxes(-1, -2)"
    yield TERM, "missing term", f"({text}) + ({text}).swapaxes(-1, -2)"
    yield TERM, "missing term", f"(({text}) + ({text}).swapaxes(-1, -2)) / 2"
    if isinstance(node, (ast.Name, ast.Attribute)):
        for place in ("::-1", ":, ::-1"):
            yield TERM, "reversed", f"{text}[{place}]"


def of_call(node):
    func = node.func
    library = isinstance(func, ast.Attribute) and ast.unparse(func.value) in ("np", "xp", "numpy")
    if isinstance(func, ast.Attribute) and not library:
        yield FACTOR, "extra sum" if func.attr in ("sum", "mean") else "extra part", func.value
    first = getattr(func, "attr", "") == "where"        # a mask stays where it is
    for i in range(1, len(node.args) * first):
        yield TOKEN, "extra part", ast.Call(func, [*node.args[:i], number(1),
                                                   *node.args[i + 1 :]], node.keywords)
    for arg in node.args[:2]:
        if not isinstance(arg, ast.Starred):
            yield FACTOR, "extra part", arg
    for i, j in itertools.combinations(range(first, len(node.args)), 2):
        swapped = list(node.args)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield TOKEN, "order", ast.Call(func, swapped, node.keywords)
    for i in range(len(node.keywords)):
        yield FACTOR, "axis", ast.Call(func, node.args, node.keywords[:i] + node.keywords[i + 1 :])
    word = getattr(func, "attr", "")
    if word in ("sum", "mean", "max", "cumsum"):
        named = {k.arg for k in node.keywords}
        own = node.args[:1] if library else []
        for axis in AXES if "axis" not in named else ():
            yield TOKEN, "axis", ast.Call(func, own, [*node.keywords,
                                                  ast.keyword("axis", parsed(axis))])
        if "keepdims" not in named:
            yield TOKEN, "axis", ast.Call(func, node.args, [
                *node.keywords, ast.keyword("keepdims", ast.Constant(True))])
    if word == "reshape":
        for i in (0, 1, 2):
            axes = [number(i), number(i + 1)]
            yield TERM, "transposed", method(method(func.value, "swapaxes", *axes), "reshape",
                                            *node.args)
            lengths = list(node.args)
            if i + 1 < len(lengths):
                lengths[i : i + 2] = lengths[i : i + 2][::-1]
                yield TERM, "transposed", method(ast.Call(func, lengths, []), "swapaxes", *axes)


def of_keyword(node):
    if node.arg == "axis":
        for axis in AXES:
            yield TOKEN, "axis", ast.keyword("axis", parsed(axis))
    elif isinstance(getattr(node.value, "value", None), bool):
        yield TOKEN, "axis" if node.arg == "keepdims" else "function", ast.keyword(
            node.arg, ast.Constant(not node.value.value))


def of_slice(node, scope):
    lower, upper = node.lower, node.upper
    if lower is None and upper is None:
        return
    ones = ["1", *scope.counts]
    ends = [(None, upper), (lower, None), (upper, lower), (upper, None), (None, lower)]
    for end in (_negative(upper), _negative(lower)):
        ends += [(end, None), (None, end)]
    for n in ones:
        for sign in "+-":
            moved = [e and binary(e, sign, parsed(n)) for e in (lower, upper)]
            ends += [tuple(moved), (moved[0], upper), (lower, moved[1])]
        if lower is None:
            ends.append((parsed(n), binary(upper, "+", parsed(n))))
    for i, (low, high) in enumerate(ends):
        yield TERM if i < 15 else FORMULA, "window", ast.Slice(low, high, node.step)


def _negative(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand
    return node and ast.UnaryOp(ast.USub(), node)


def of_constant(node, parent, scope):
    value = node.value
    if isinstance(value, str) and "->" in value:        # of einsum: two letters exchanged
        parts = value.replace("->", ",").split(",")
        for i, part in enumerate(parts):
            for a, b in itertools.combinations(dict.fromkeys(part), 2):
                other = [*parts[:i], part.translate(str.maketrans(a + b, b + a)), *parts[i + 1 :]]
                yield TOKEN, "subscripts", ast.Constant(",".join(other[:-1]) + "->" + other[-1])
    elif isinstance(value, str) and value in scope.keys:
        yield from ((TOKEN, "name", ast.Constant(key)) for key in scope.keys if key != value)
    elif type(value) in (int, float):
        whole = isinstance(parent, (ast.Subscript, ast.Slice, ast.keyword, ast.Tuple))
        power = isinstance(parent, ast.UnaryOp) or isinstance(getattr(parent, "op", None), ast.Pow)
        for new in (value + 1, value - 1, -value, 2 * value, value / 2, 0, 1, 2, 3, 0.5, 1.5,
                    -0.5, -1.5):
            if new != value and not (whole and new != int(new)):
                new = int(new) if type(value) is int and new == int(new) else new
                yield TERM if power else TOKEN, "number", number(new)


def terms_alike(node, text, scope):
    """A term that is missing beside one of two arrays: the same of two others."""
    read = [n for n in ast.walk(node) if ast.unparse(n) in scope.arrays and isinstance(
        n, (ast.Name, ast.Attribute))]
    if len(read) == 2:
        for a, b in itertools.permutations(scope.arrays[:PAIRED], 2):
            if names_of(*read) != {a, b}:
                yield FORMULA, "missing term", f"({text}) + " + ast.unparse(cloned(
                    node, read[0], parsed(a), read[1], parsed(b)))


def optional(name, default, scope):
    """What may be given to an argument, that is not or has a default."""
    if name in ("axis", "axes"):
        return ["0", "1", "-1"]
    if isinstance(default, bool):
        return [str(not default)]
    if default is None:
        return [*scope.all, *sorted(scope.shapes), *(f"{a}.shape{part}" for a in scope.arrays
                                                     for part in ("", "[2:]", "[1:]", "[:2]"))]
    return scope.numbers if isinstance(default, (int, float)) else sorted(scope.shapes)

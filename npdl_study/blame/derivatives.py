"""The derivatives of what a forward computes entry by entry, as formulas of what a backward holds.

Every expression of forward is written in the arrays that it begins with, derived by one of them,
and what the backward has at hand is put into it by its name.
"""

import ast
import itertools
from dataclasses import dataclass

import numpy as np

from npdl_study.blame.weights import ZERO
from npdl_study.trace.runs import quiet
from npdl_study.trace.source import defined
from npdl_study.trace.syntax import binary, cloned, names_of, number, parsed

LARGEST = 80                    # nodes of an expression that is derived
MOST = 40                       # expressions
LEAF = "leaf"
# By the name of a function of NumPy, of {a}: its derivative.
RULES = {"exp": "np.exp({a})", "log": "1 / {a}", "tanh": "(1 - np.tanh({a}) ** 2)",
         "sin": "np.cos({a})", "cos": "-np.sin({a})", "tan": "(1 + np.tan({a}) ** 2)",
         "sinh": "np.cosh({a})", "cosh": "np.sinh({a})", "arctan": "1 / (1 + {a} ** 2)",
         "arcsin": "1 / np.sqrt(1 - {a} ** 2)", "arccos": "-1 / np.sqrt(1 - {a} ** 2)",
         "arcsinh": "1 / np.sqrt(1 + {a} ** 2)", "arctanh": "1 / (1 - {a} ** 2)",
         "sqrt": "0.5 / np.sqrt({a})", "square": "2 * {a}", "cbrt": "1 / (3 * np.cbrt({a}) ** 2)",
         "abs": "np.sign({a})", "absolute": "np.sign({a})", "reciprocal": "-1 / {a} ** 2",
         "log1p": "1 / (1 + {a})", "expm1": "np.exp({a})", "exp2": "np.exp2({a}) * np.log(2)",
         "log2": "1 / ({a} * np.log(2))", "log10": "1 / ({a} * np.log(10))", "negative": "-1",
         "copy": "1", "array": "1", "asarray": "1"}
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}
PASSING = ("copy", "astype")    # methods that change no value


@dataclass
class Derivative:
    """The derivative of `of` by `by`, both as source: a formula in the leaves that `space` holds,
    and its array."""

    of: str
    by: str
    tree: ast.expr
    space: dict
    array: np.ndarray


def derivatives(oracle):
    """The Derivatives of what an Oracle's forward computes by the arrays that it begins with."""
    values, found, seen = {}, [], set()
    for key, value in oracle.values.items():
        values.setdefault((oracle.places[key[0]].function, oracle.places[key[0]].text), value)
    for function in dict.fromkeys(function for function, _ in values):
        leaves, space = {}, {**function.space}

        def leaf(node, function=function, leaves=leaves, space=space):
            text = ast.unparse(node)
            if (function, text) not in values:
                return node
            name = leaves.setdefault(text, f"{LEAF}{len(leaves)}")
            space[name] = values[function, text]
            return ast.Name(name, ast.Load())

        for text, tree in expressions_of(function.node, leaf, function):
            for by, name in list(leaves.items()):
                key = (ast.unparse(tree), by)
                if name not in names_of(tree) or key in seen or len(found) > MOST:
                    continue
                seen.add(key)
                try:
                    slope = differentiate(tree, name)
                    array = value_of(slope, space) if slope is not None else None
                except (Unknown, RecursionError):
                    continue
                if array is not None and () != np.shape(array)[-np.ndim(space[name]):] == np.shape(
                        space[name]):
                    found.append(Derivative(text, by, slope, space, array))
    return found


def formula(derivative, operands):
    """A Derivative as source, in the names of Operands; None where one is missing."""
    named = {}
    for operand in operands:
        named.setdefault(operand.array.shape, []).append(operand)

    def fill(node):
        if isinstance(node, (ast.Name, ast.BinOp, ast.Call)) and names_of(node) & {
                n for n in derivative.space if n.startswith(LEAF)}:
            value = value_of(node, derivative.space)
            for operand in named.get(np.shape(value), ()):
                if np.allclose(operand.array, value, ZERO, ZERO / 1000):
                    return parsed(operand.label)
            if isinstance(node, ast.Name):
                raise Unknown
        return type(node)(**{name: [fill(n) for n in part] if isinstance(part, list) else fill(
            part) if isinstance(part, ast.expr) else part for name, part in ast.iter_fields(node)})

    try:
        return ast.unparse(ast.fix_missing_locations(fill(derivative.tree)))
    except Unknown:
        return None


class Unknown(Exception):
    """What is not computed entry by entry, or by what no rule is known."""


def value_of(node, space):
    """The value of an expression, or None."""
    try:
        with quiet():
            return np.asarray(eval(compile(ast.fix_missing_locations(
                ast.Expression(cloned(node))), "slope", "eval"), space), float)
    except Exception:
        return None


def expressions_of(tree, leaf, function, given=()):
    """(source of what a function binds or returns, its expression in the leaves)."""
    known = dict(given)

    def expand(node, known=known):
        text = ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        if text in known:
            return known[text]
        if text:
            return node if given else leaf(node)
        own = function.space.get(ast.unparse(node.func)) if isinstance(node, ast.Call) else None
        if own is not None and hasattr(own, "__code__") and not node.keywords:
            inner, _ = defined(own.__code__) or (None, "")
            if inner is not None and len(inner.args.args) == len(node.args) and not any(
                    isinstance(n, (ast.For, ast.While, ast.If)) for n in ast.walk(inner)):
                args = [expand(n, known) for n in node.args]
                *_, (_, found) = [("", node), *expressions_of(inner, leaf, function, dict(
                    zip([a.arg for a in inner.args.args], args, strict=True)))]
                return found
        if isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and ast.unparse(func.value) not in ("np", "xp"):
                func = ast.Attribute(expand(func.value, known), func.attr, func.ctx)
            return ast.Call(func, [expand(a, known) for a in node.args], node.keywords)
        return type(node)(**{
            name: [expand(n, known) if isinstance(n, ast.expr) else n for n in part] if isinstance(
                part, list) else expand(part, known) if isinstance(part, ast.expr) else part
            for name, part in ast.iter_fields(node)})

    for node, to, part in bound_parts(tree):
        if known and not given:                         # by what it reads itself, as it stands
            yield ast.unparse(part), expand(part, {})
        found, whole = expand(part), to.value if isinstance(to, ast.Subscript) else to
        before = expand(parsed(ast.unparse(whole))) if whole is not None else None
        if isinstance(node, ast.AugAssign):
            found = ast.BinOp(before, node.op, found)
        if whole is not to:                             # z[mask] = a
            found = ast.Call(parsed("np.where"), [expand(to.slice), found, before], [])
        for call in ast.walk(found):                    # the terms of a sum, the a of tanh(a)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                own = ast.unparse(call.func.value) not in ("np", "xp")
                yield ast.unparse(part), call.func.value if own else (call.args or [call])[0]
        if sum(1 for _ in ast.walk(found)) > LARGEST:
            known.pop(whole is not None and ast.unparse(whole), None)
            continue
        if whole is not None:
            known[ast.unparse(whole)] = found
        yield ast.unparse(part), found


def bound_parts(tree):
    """(statement, target, expression) of what a function binds, or, without a target, returns; of
    tuples, part by part."""
    for node in tree.body:
        value = getattr(node, "value", None)
        if value is None or isinstance(node, ast.Expr):
            continue
        target = getattr(node, "targets", [getattr(node, "target", None)])[0]
        parts = zip(getattr(target, "elts", [None] * len(value.elts)), value.elts, strict=False) \
            if isinstance(value, ast.Tuple) else [(target, value)]
        yield from ((node, *pair) for pair in parts)


def differentiate(node, name):
    """The derivative of an expression by a name, or None where it is 0."""
    if name not in names_of(node):
        return None
    if isinstance(node, ast.Name):
        return number(1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _minus(differentiate(node.operand, name))
    if isinstance(node, ast.BinOp):
        sign = next((s for s, kind in (("+", ast.Add), ("-", ast.Sub), ("*", ast.Mult), (
            "/", ast.Div), ("**", ast.Pow)) if isinstance(node.op, kind)), "")
        return _of_two(sign, node.left, node.right, name)
    if not isinstance(node, ast.Call) or node.keywords:
        raise Unknown
    func = getattr(node.func, "attr", "")
    library = ast.unparse(getattr(node.func, "value", node.func)) in ("np", "xp")
    if not library and func in PASSING:
        return differentiate(node.func.value, name)
    if library and func in SIGNS:
        return _of_two(SIGNS[func], *node.args, name)
    if library and func in ("maximum", "minimum"):
        a, b = node.args
        mask = ast.Compare(a, [ast.Gt() if func == "maximum" else ast.Lt()], [b])
        return _where(mask, differentiate(a, name), differentiate(b, name))
    if library and func == "where" and len(node.args) == 3:
        return _where(node.args[0], *(differentiate(a, name) for a in node.args[1:]))
    if library and func == "clip" and len(node.args) == 3:
        a, low, high = node.args
        mask = binary(ast.Compare(a, [ast.Gt()], [low]), "*", ast.Compare(a, [ast.Lt()], [high]))
        return _where(mask, differentiate(a, name), None)
    if library and func in RULES and len(node.args) == 1:
        slope = parsed(RULES[func].replace("{a}", "__a__"))
        held = [n for n in ast.walk(slope) if isinstance(n, ast.Name) and n.id == "__a__"]
        slope = cloned(slope, *itertools.chain(*((n, node.args[0]) for n in held)))
        return _times(slope, differentiate(node.args[0], name))
    raise Unknown


def _of_two(sign, a, b, name):
    da, db = differentiate(a, name), differentiate(b, name)
    if sign in ("+", "-"):
        return _plus(da, db and (db if sign == "+" else _minus(db)))
    if sign == "*":
        return _plus(da and _times(b, da), db and _times(a, db))
    if sign == "/":
        return _plus(da and _over(da, b), db and _minus(_over(
            _times(a, db), binary(b, "**", number(2)))))
    if sign == "**":
        less = number(b.value - 1) if isinstance(b, ast.Constant) else binary(b, "-", number(1))
        power = a if isinstance(less, ast.Constant) and less.value == 1 else binary(a, "**", less)
        return _plus(da and _times(binary(b, "*", power), da), db and _times(_times(binary(
            a, "**", b), ast.Call(parsed("np.log"), [a], [])), db))
    raise Unknown


def _minus(a):
    return a.operand if _negative(a) else ast.UnaryOp(ast.USub(), a)


def _negative(a):
    return isinstance(a, ast.UnaryOp) and isinstance(a.op, ast.USub)


def _times(a, b):
    if _negative(a) or _negative(b):
        return _minus(_times(_minus(a), b) if _negative(a) else _times(a, _minus(b)))
    one = [isinstance(n, ast.Constant) and n.value == 1 for n in (a, b)]
    return a if one[1] else b if one[0] else binary(a, "*", b)


def _over(a, b):
    return _minus(_over(_minus(a), b)) if _negative(a) else binary(a, "/", b)


def _plus(a, b):
    if a and b and _negative(b):
        return binary(a, "-", _minus(b))
    return binary(a, "+", b) if a and b else a or b


def _where(mask, a, b):
    return ast.Call(parsed("np.where"), [mask, *(number(0) if n is None else n
                                                 for n in (a, b))], [])

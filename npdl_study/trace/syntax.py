"""Expressions and statements as syntax trees: written, taken apart, copied with a change."""

import ast
import copy
import re

SIGNS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "@": ast.MatMult,
         "**": ast.Pow, "//": ast.FloorDiv}
PURE = {"sum", "mean", "max", "min", "reshape", "transpose", "swapaxes", "copy", "astype", "ravel",
        "squeeze", "dot", "repeat", "cumsum", "len", "range", "float", "int", "abs"}



def parsed(text):
    """The tree of an expression."""
    return ast.parse(text, mode="eval").body


def number(value):
    """A number as syntax: -1 is minus 1."""
    if value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def binary(left, sign, right):
    """left + right, or with another of SIGNS."""
    return ast.BinOp(left, SIGNS[sign](), right)


def method(node, name, *arguments):
    """node.name(arguments)"""
    return ast.Call(ast.Attribute(node, name, ast.Load()), list(arguments), [])


def indices(node):
    """The items between the brackets of a subscript."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def indexed(node, items):
    """A subscript with other items between its brackets."""
    index = ast.Tuple(items, ast.Load()) if len(items) > 1 else items[0]
    return ast.Subscript(node.value, index, node.ctx)


def names_of(*nodes):
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def bound_by(node):
    """The names that a statement binds."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {part.id for t in targets if t is not None for part in ast.walk(t)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def parts_of(node):
    """[(a value that a statement binds, returns or hands over, what that stands in, as which
    field)]: of a tuple or a dict each."""
    value, around = getattr(node, "value", None), (node, "value")
    if isinstance(node, ast.Expr) and isinstance(value, ast.Call) and value.args:
        value, around = value.args[-1], (value, "args")
    field = {ast.Tuple: "elts", ast.Dict: "values"}.get(type(value))
    return [(part, (value, field)) for part in getattr(value, field)] if field else [
        (value, around)] * (value is not None)


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
    return _copy(tree, lambda part: cloned(part, *changes))


def exchanged(tree, one, other):
    """A copy of a statement in which two expressions that it reads, as source, change places."""
    if isinstance(tree, ast.expr) and isinstance(getattr(tree, "ctx", None), ast.Load):
        text = ast.unparse(tree)
        if text in (one, other):
            return parsed(other if text == one else one)
    return _copy(tree, lambda part: exchanged(part, one, other))


def _copy(tree, each):
    """A node or a list of them, with `each` for its parts; anything else as it is."""
    if isinstance(tree, list):
        return [each(part) for part in tree]
    if not isinstance(tree, ast.AST):
        return tree
    return type(tree)(**{name: each(value) for name, value in ast.iter_fields(tree)})


def renames(node):
    """Whether a statement only binds what has a name already: x = cache.x, n = x.shape[0]."""
    words = set(re.findall(r"\w+", ast.unparse(node.value)))
    return isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple)) and (
        "shape" in words or bound_by(node) <= words)


def lifted(tree):
    """A copy of a function's tree in which each lambda is a function that stands before its
    statement; what that returns is `written` as (the statement, the lambda in it)."""
    return _Lift().visit(copy.deepcopy(tree)) if has_lambda(tree) else tree


def lambdas(node):
    """The functions that the lambdas of a simple statement are."""
    simple = isinstance(node, ast.stmt) and not hasattr(node, "body") and has_lambda(node)
    return lifted(node)[:-1] if simple else []


def has_lambda(node):
    return any(isinstance(part, ast.Lambda) for part in ast.walk(node))


class _Lift(ast.NodeTransformer):
    """Makes functions of the lambdas of simple statements, but of those in a comprehension."""

    made = None

    def visit(self, node):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            return super().visit(node)
        self.statement, self.made = copy.deepcopy(node), []
        for new, old in zip(ast.walk(node), ast.walk(self.statement), strict=True):
            new.old = old
        node = self.generic_visit(node)
        found, self.made = [*self.made, node], None
        return found

    def visit_Lambda(self, node):
        outer = self.made
        if outer is None:
            return node
        self.made = []
        done = ast.copy_location(ast.Return(self.visit(node.body)), node.body)
        done.written = self.statement, node.old
        new = ast.FunctionDef(f"lambda_{node.lineno}_{node.col_offset}", node.args,
                              [*self.made, done], [])
        self.made = [*outer, ast.copy_location(new, node)]
        return ast.copy_location(ast.Name(new.name, ast.Load()), node)

    def visit_ListComp(self, node):
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp


def is_pass_through(node, parts):
    """Return True if a statement only returns, unpacks or stores the values `parts`."""
    simple = isinstance(node, ast.Return) or isinstance(node, ast.Assign) and not isinstance(
        node.targets[0], ast.Name)
    return simple and all(isinstance(p, (ast.Name, ast.Constant, ast.Attribute)) for p in parts)


def only_unpacks(node):
    """Return True for a statement such as x, w = cache."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(
        node.value, (ast.Name, ast.Attribute, ast.Subscript))


def is_pure(node):
    """Return True if an expression only computes."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            func = part.func
            library = isinstance(func, ast.Attribute) and ast.unparse(func.value) in (
                "np", "xp", "numpy", "math")
            own = getattr(func, "attr", getattr(func, "id", "")) in PURE
            if not (library or own) or "random" in ast.unparse(func):
                return False
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)):
            return False
    return True

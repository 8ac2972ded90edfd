"""Parse, split and copy the syntax trees of expressions and statements."""

import ast
import itertools

# Functions whose arguments are sizes, and functions and methods without side effects.
SIZED = ("zeros", "ones", "empty", "full", "range", "arange", "eye")
PURE = {"sum", "mean", "max", "min", "reshape", "transpose", "swapaxes", "copy", "astype", "ravel",
        "squeeze", "dot", "repeat", "cumsum", "len", "range", "float", "int", "abs"}


def parse_expression(text):
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def find_names(*nodes):
    """Return the set of the names in syntax nodes."""
    return {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}


def clone_tree(tree, target=None, new=None):
    """Copy a syntax tree or a list of nodes, and replace its node `target` by `new`."""
    if isinstance(tree, list):
        return [clone_tree(part, target, new) for part in tree]
    if not isinstance(tree, ast.AST):
        return tree
    if tree is target:
        return clone_tree(new)
    return type(tree)(**{name: clone_tree(value, target, new)
                         for name, value in ast.iter_fields(tree)})


def is_pass_through(node, values):
    """Return True if a statement only passes values on: `return dx`, `x, h = cache.x, cache.h`.

    `values` are the syntax nodes of the values that it returns, unpacks or stores.
    """
    simple = isinstance(node, ast.Return) or isinstance(
        node, ast.Assign) and not isinstance(node.targets[0], ast.Name)
    return simple and all(isinstance(p, (ast.Name, ast.Constant, ast.Attribute)) for p in values)


def is_pure(node):
    """Return True if evaluating an expression has no side effects."""
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


def find_top_expressions(node):
    """Yield a pair (expression, is_value) for each expression of a statement's node.

    `is_value` is True if the statement assigns or returns the expression, or passes it as the last
    argument of a call. It is False, for example, for an index or a condition.
    """
    value = getattr(node, "value", None)
    if isinstance(node, (ast.For, ast.While, ast.If)):
        yield node.iter if isinstance(node, ast.For) else node.test, False
        return
    if isinstance(value, (ast.Tuple, ast.List)) and not isinstance(node, ast.Expr):
        yield from ((part, True) for part in value.elts)
    elif isinstance(value, ast.Dict):
        yield from ((part, True) for part in value.values)
    elif isinstance(node, ast.Expr) and isinstance(value, ast.Call):
        yield from ((part, part is value.args[-1]) for part in value.args)
    elif value is not None:
        yield value, True
    for target in [*getattr(node, "targets", []), getattr(node, "target", None)]:
        if isinstance(target, ast.Subscript):
            yield target.slice, False


def walk_subexpressions(node, parent=None, is_index=False):
    """Yield (part, parent, is_index) for all subexpressions.

    `is_index` is True for a part of an index, as in x[i + 1], or of a size, as in np.zeros(n).
    """
    yield node, parent, is_index
    is_sized = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(
        node.func, "id", "")) in SIZED
    for name, value in ast.iter_fields(node):
        inside = is_index or is_sized and name == "args" or isinstance(
            node, ast.Subscript) and name == "slice"
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.expr, ast.keyword)) and not isinstance(
                    getattr(child, "ctx", None), ast.Store):
                yield from walk_subexpressions(child, node, inside)


def make_swapped_copies(items):
    """Yield copies of a list with two items swapped, for each pair of the first six items."""
    for i, j in itertools.combinations(range(min(len(items), 6)), 2):
        swapped = list(items)
        swapped[i], swapped[j] = items[j], items[i]
        yield swapped

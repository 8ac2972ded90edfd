"""Statements that only hand on what they were handed: what is wrong in it was made elsewhere."""

import ast

import numpy as np

from npdl_study.trace.trace import original_file

PLAIN_NODES = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.Constant, ast.Slice,
               ast.BinOp, ast.operator, ast.expr_context)


def is_alias(statement):
    """Whether a statement only gives a value another name."""
    return isinstance(getattr(statement.node, "value", None), ast.Name)


def makes_room(statement):
    """Whether a statement makes arrays of zeros, for others to fill."""
    if statement.parts:
        return all(map(makes_room, statement.parts))
    value = getattr(statement.node, "value", None)
    made = value.elts if isinstance(value, ast.Tuple) else [value]
    return bool(made) and all(isinstance(item, ast.Call) and ast.unparse(item.func).split(".")[
        -1].removesuffix("_like") in ("zeros", "empty") for item in made)


def returned_by_name(statement, path):
    """Whether the item of a returned tuple is a name: what is wrong in it was made before."""
    value = getattr(statement.node, "value", None)
    return statement.is_return and isinstance(value, ast.Tuple) and bool(path) and isinstance(
        value.elts[path[0]], ast.Name)


def learned_without_param(arrays):
    """The name of an array W of a layer whose methods speak of dW too, or ""."""
    for part, name in arrays:
        words = {word for cls in type(part).__mro__ for f in vars(cls).values()
                 if hasattr(f, "__code__") for word in (*f.__code__.co_names,
                                                        *f.__code__.co_varnames)}
        if {f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"} & words:
            return name
    return ""


def hands_on(unit):
    """Whether a statement returns what it has, takes turns over it, gives it another shape, or
    unpacks what it was handed."""
    step, node = unit.steps[0], unit.statement.node
    value = getattr(node, "value", None)
    if isinstance(node, ast.For):
        return not any(isinstance(part, ast.BinOp) for part in ast.walk(node.iter))
    if unit.statement.is_return:
        return isinstance(value, ast.Name) or isinstance(value, ast.Tuple) and all(
            isinstance(item, (ast.Name, ast.Constant)) for item in value.elts)
    handed = set(_cache_names(step.call.function))
    return isinstance(node, ast.Assign) and unit.statement.reads <= handed and all(
        isinstance(part, PLAIN_NODES) for part in ast.walk(value)) and not any(
        isinstance(part, ast.BinOp) for part in _outside_indices(value))


def is_librarys(step):
    """Whether a step is in a function that another file has, and that is no part of a backward: of
    a function and of what it was handed, the latter is likelier to be wrong."""
    call = step.call
    return call.parent is not None and call.owner is None and not call.pairs \
        and "backward" not in call.function.name \
        and original_file(call.code.co_filename) != original_file(call.parent.code.co_filename)


def only_takes(node):
    """Whether an expression has no arithmetic: parts of arrays, tuples of names."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
            "split", "array_split"):
        return True
    return node is not None and not isinstance(node, ast.Name) and not any(
        isinstance(part, (ast.BinOp, ast.UnaryOp, ast.Call)) for part in _outside_indices(node))


def _cache_names(function):
    """The names of a backward's cache, of what is unpacked from it, and of its loops' turns."""
    known = {"self", *function.arguments} - set(function.given[:1])
    yield from known
    for statement in function.statements:
        turns = isinstance(statement.node, ast.For)
        plain = isinstance(statement.node, ast.Assign) and all(
            isinstance(part, PLAIN_NODES) for part in ast.walk(statement.node.value))
        if turns or (plain and statement.reads <= known):
            known.update(statement.binds)
            yield from statement.binds


def _outside_indices(node):
    """The parts of an expression that are not inside the brackets of a subscript."""
    yield node
    for name, child in ast.iter_fields(node):
        if name == "slice":
            continue
        for part in child if isinstance(child, list) else [child]:
            if isinstance(part, ast.AST):
                yield from _outside_indices(part)


def called_by_another(unit, others):
    """Whether a Unit's function is called by several statements, one of which could mend all too:
    then that one has called it with something wrong."""
    callers = {id(step.call.from_statement) for step in unit.steps}
    return len(callers) > 1 and any(id(other.statement) in callers for other in others)


def is_promised(step, name, verdicts):
    """Whether one of several values that a step binds is the gradient that its name says."""
    verdict = verdicts.of.get((step.index, name))
    return verdict is not None and bool(verdict.right) and name in step.statement.binds


def takes_on(unit, call, verdict, verdicts):
    """Whether a Unit gives an argument of its call, wrong by its Verdict, the same name and value
    again (dy = np.asarray(dy)), and it stays wrong."""
    for step in unit.steps:
        for write in step.writes if step.call is call else ():
            found = verdicts.of.get((step.index, write.name))
            if write.name == verdict.name and found is not None and found.right is False:
                return np.array_equal(write.value, verdict.value)
    return False

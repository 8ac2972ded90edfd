"""Run a function with one of its statements replaced."""

import ast
import contextlib
import copy
import functools
import inspect
import linecache


def edited_code(code, statement, node):
    """The code of the function with one statement replaced by `node`."""
    text = "".join(linecache.getlines(code.co_filename))
    module = module_of(text, code.co_qualname)
    body, i = _place(module, statement)
    held, body[i] = body[i], _placed(node, body[i])
    try:
        compiled = compile(ast.fix_missing_locations(module), code.co_filename, "exec")
    finally:
        body[i] = held
    return find_code(compiled, code.co_qualname)


@functools.lru_cache(maxsize=256)
def _place(module, statement):
    """(the list of statements that holds a statement, its index in it)."""
    where = statement.first, statement.node.col_offset
    for parent in ast.walk(module):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(parent, name, None)
            for i, child in enumerate(body if isinstance(body, list) else []):
                if (child.lineno, child.col_offset) == where and not isinstance(
                        child, (ast.ClassDef, ast.FunctionDef)):
                    return body, i
    raise ValueError("no such statement")


def _placed(node, where):
    """A statement put at the lines of another, whose body it takes if it has one."""
    new = copy.copy(node)
    for part in ast.walk(new):
        part.lineno = part.end_lineno = where.lineno
        part.col_offset = part.end_col_offset = where.col_offset
    for name in ("body", "orelse", "handlers", "finalbody"):
        if hasattr(where, name):
            setattr(new, name, getattr(where, name))
    return new


@functools.lru_cache(maxsize=64)
def module_of(text, qualname):
    """A module with nothing but the definition of a function, in the classes around it."""
    tree, *names = (ast.parse(text), *qualname.split("."))
    for name in names:
        tree = next(child for child in ast.walk(tree) if child is not tree
                    and isinstance(child, (ast.ClassDef, ast.FunctionDef)) and child.name == name)
    tree.decorator_list = []
    for name in reversed(names[:-1]):
        tree = ast.ClassDef(name, [], [], [tree], [], lineno=1, col_offset=0)
    return ast.fix_missing_locations(ast.Module([tree], []))


def find_code(compiled, qualname):
    """The code object of a function inside that of its module."""
    for constant in compiled.co_consts:
        if inspect.iscode(constant):
            if constant.co_qualname == qualname:
                return constant
            inner = find_code(constant, qualname)
            if inner is not None:
                return inner
    return None


@contextlib.contextmanager
def patched(function, code):
    """Run with another code object in a function."""
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before

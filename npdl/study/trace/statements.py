"""Describe functions, their statements and their expressions by reading their source."""

import ast
import contextlib
import functools
import linecache
import textwrap
from dataclasses import dataclass, field

from npdl.study.trace.source import find_definitions

COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try)
WRITES_FIRST_ARGUMENT = {"copyto", "put", "place", "putmask", "at", "fill_diagonal"}
BINDING = (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)


@dataclass(eq=False)
class Statement:
    """A statement of a function.

    function     the WatchedFunction that contains it
    node         its syntax node
    loops        the syntax nodes of the loops around it
    expressions  the expressions that it assigns, returns or passes to a call, as indices of
                 Watch.expressions
    first_line   the line number at which the statement begins
    last_line    the line number at which it ends; for a loop or a branch, the end of its header
    is_return    True for a return statement
    is_simple    False for a statement with a body, such as a loop or a branch
    """

    function: object
    node: ast.stmt
    loops: tuple = ()
    expressions: list = field(default_factory=list)

    def __post_init__(self):
        body = getattr(self.node, "body", None)
        self.first_line = self.node.lineno
        self.last_line = max(self.first_line, body[0].lineno - 1) if body else self.node.end_lineno
        self.is_return = isinstance(self.node, ast.Return)
        self.is_simple = not isinstance(self.node, COMPOUND)

    @property
    def text(self):
        """Return the source in one line; for a loop or a branch, only its header."""
        return ast.unparse(self.node).split("\n")[0]

    @property
    def source(self):
        """Return the source of the statement, without its indentation."""
        lines = linecache.getlines(self.function.file)
        return textwrap.dedent("".join(lines[self.first_line - 1 : self.last_line])).strip()


@dataclass(eq=False)
class WatchedFunction:
    """A function that ran, whose values a Watch (npdl.study.trace.watch) can record.

    code       its code object
    node       the syntax node of its definition
    owner      the name of the class around it, or ""
    functions  the function objects that share the code object
    rewritten  the code object that passes each value to the Watch
    file, qualname    its file, and its name with that of the class
    arguments  the names of its positional arguments
    """

    code: object
    node: ast.FunctionDef
    owner: str
    functions: list
    rewritten: object = None

    def __post_init__(self):
        self.file, self.qualname = self.code.co_filename, self.code.co_qualname
        self.arguments = [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args)]

    @functools.cached_property
    def statements(self):
        """Return the Statements of the function in their order, without the docstring."""
        return list(_walk_statements(self, self.node))

    @property
    def globals(self):
        return self.functions[0].__globals__

    def find_statement(self, line_number):
        """Return the innermost Statement of the function at a line number of its file, or None."""
        found = [s for s in self.statements if s.first_line <= line_number <= s.node.end_lineno]
        return max(found, key=lambda statement: statement.first_line, default=None)


@dataclass(eq=False)
class Expression:
    """An expression of a function.

    node       its syntax node
    statement  the Statement that contains it; None for an argument of the function
    function   the WatchedFunction that contains it
    root       True if the Statement assigns or returns the whole expression, or passes it to a call
    names      the variables to which the value is assigned, as source
    """

    node: ast.expr
    statement: object
    function: object
    root: bool = False
    names: tuple = ()

    @property
    def text(self):
        return ast.unparse(self.node)


def make_watched_function(code):
    """Return the WatchedFunction of a code object, or None if its source is not found.

    Its list `functions` is still empty. linecache reads the source, so this works for the cell of a
    notebook, too.
    """
    with contextlib.suppress(SyntaxError):
        known = find_definitions("".join(linecache.getlines(code.co_filename)))
        found = known.get((code.co_firstlineno, code.co_name))
        return found and WatchedFunction(code, *found, [])


def _walk_statements(function, node, loops=()):
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if isinstance(child, (ast.ClassDef, ast.AsyncFunctionDef)) or is_text:
            continue
        is_loop = isinstance(child, (ast.For, ast.While))
        if isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef):
            yield Statement(function, child, loops)
        yield from _walk_statements(function, child, (*loops, child) if is_loop else loops)


@functools.lru_cache(maxsize=4096)
def list_read_variables(node):
    """Return the variables that a statement reads, such as ["x", "hs[t + 1]", "self.W.data"]."""
    found = _find_variable_nodes(getattr(node, "value", None))
    if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
        found.insert(0, node.target)
    return list(dict.fromkeys(map(ast.unparse, found)))


def _find_variable_nodes(node):
    """Return the nodes of the variables that a node reads: self.W.data, but not its part self.W."""
    if _is_variable(node):
        return [node]
    if node is None or isinstance(node, BINDING):
        return []
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        if ast.unparse(node.func) == "Cache":           # its arguments are only stored
            return []
        parts = [getattr(node.func, "value", None), *node.args,
                 *(k.value for k in node.keywords if k.arg != "out")]
    return [path for part in parts for path in _find_variable_nodes(part)]


def _is_variable(node):
    return isinstance(node, ast.Name) or isinstance(
        node, (ast.Attribute, ast.Subscript)) and _is_variable(node.value)


@functools.lru_cache(maxsize=4096)
def list_bound_and_changed_variables(node):
    """Return (binds, changes), lists of the variables that a statement assigns or changes.

    binds    "dx" for `dx = ..`, "self.dW" for `self.dW = ..`, "grads['W']" for `grads["W"] = ..`
    changes  "self.W.grad" for `self.W.grad += ..`, "dz" for `dz[i] = ..` and for `out=dz`
    """
    targets = [*getattr(node, "targets", [getattr(node, "target", None)])]
    binds, changes = [], []
    while targets:
        target = targets.pop(0)
        if isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
            targets = [*getattr(target, "elts", [getattr(target, "value", None)]), *targets]
        elif isinstance(target, ast.Name):
            binds.append(target.id)
        elif isinstance(target, ast.Attribute) or isinstance(target, ast.Subscript) and isinstance(
                getattr(target.slice, "value", None), str):         # an entry of a dict
            (changes if isinstance(node, ast.AugAssign) else binds).append(ast.unparse(target))
        elif isinstance(target, ast.Subscript):
            changes.append(ast.unparse(target.value))
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        changes += [ast.unparse(k.value) for k in call.keywords if k.arg == "out"]
        if getattr(call.func, "attr", "") in WRITES_FIRST_ARGUMENT and call.args:
            changes.append(ast.unparse(call.args[0]))
    return binds, list(dict.fromkeys(changes))

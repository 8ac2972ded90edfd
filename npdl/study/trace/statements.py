"""Describe functions, their statements and their expressions by reading their source."""

import ast
import functools
import io
import linecache
import tokenize
from dataclasses import dataclass, field

from npdl.study.trace.source import find_definition

COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try)
WRITES_FIRST_ARGUMENT = {"copyto", "put", "place", "putmask", "at", "fill_diagonal"}
BINDING = (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)


@dataclass(eq=False)
class Line:
    """A statement of a function.

    function  the Watched that contains it
    node      its syntax node
    loops     the nodes of the loops around it
    places    the numbers of the Places that it assigns, returns or passes to a call
    """

    function: object
    node: ast.stmt
    loops: tuple = ()
    places: list = field(default_factory=list)

    @property
    def first(self):
        """Return the number of its first line in the file."""
        return self.node.lineno

    @property
    def text(self):
        """Return the source in one line; for a loop or a branch, only the header."""
        return ast.unparse(self.node).split("\n")[0]

    @property
    def last(self):
        """Return the number of its last line; for a loop or a branch, of the header."""
        body = getattr(self.node, "body", None)
        return max(self.first, body[0].lineno - 1) if body else self.node.end_lineno

    @property
    def is_return(self):
        return isinstance(self.node, ast.Return)

    @property
    def is_simple(self):
        """Return True unless the statement is a loop or a branch."""
        return not isinstance(self.node, COMPOUND)

    @property
    def parts(self):
        """Return a pair (code, comment) for each line of the statement."""
        return code_and_comments(self.function.code.co_filename)[self.first - 1 : self.last]

    @property
    def comment(self):
        """Return the comments that follow code on the lines of the statement."""
        return " ".join(comment for code, comment in self.parts if code and comment)

    @property
    def source(self):
        """Return the lines of the statement as they are written."""
        lines = linecache.getlines(self.function.code.co_filename)[self.first - 1 : self.last]
        return "\n".join(line.rstrip() for line in lines).strip()


@dataclass(eq=False)
class Watched:
    """A function that ran.

    code       its code object
    node       the syntax node of its definition
    owner      the name of the class around it, or ""
    functions  the function objects that run the code
    rewritten  the code object with hooks (npdl.study.trace.watch)
    """

    code: object
    node: ast.FunctionDef
    owner: str
    functions: list
    rewritten: object = None

    @functools.cached_property
    def lines(self):
        """Return the Lines of the function in the order of the source, without the docstring."""
        return list(_lines(self, self.node))

    @property
    def file(self):
        return self.code.co_filename

    @property
    def qualname(self):
        return self.code.co_qualname

    @property
    def arguments(self):
        return [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args)]

    @property
    def space(self):
        return self.functions[0].__globals__

    def at(self, number):
        """Return the innermost Line at a line number of the file, or None."""
        found = [line for line in self.lines if line.first <= number <= line.node.end_lineno]
        return max(found, key=lambda line: line.first, default=None)


@dataclass(eq=False)
class Place:
    """An expression of a function.

    node      its syntax node
    line      the Line that contains it; None for an argument of the function
    function  the Watched that contains it
    root      True if the Line assigns, returns or passes on the value of the expression
    names     the variables to which the value is assigned
    """

    node: ast.expr
    line: object
    function: object
    root: bool = False
    names: tuple = ()

    @property
    def text(self):
        return ast.unparse(self.node)


def parse_lines(code):
    """Return a Watched for a code object, without functions, or None if there is no source."""
    found = find_definition(code)
    return found and Watched(code, *found, [])


def _lines(function, node, loops=()):
    for child in ast.iter_child_nodes(node):
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if isinstance(child, (ast.ClassDef, ast.AsyncFunctionDef)) or is_text:
            continue
        is_loop = isinstance(child, (ast.For, ast.While))
        if isinstance(child, ast.stmt) and not isinstance(child, ast.FunctionDef):
            yield Line(function, child, loops)
        yield from _lines(function, child, (*loops, child) if is_loop else loops)


def code_and_comments(filename):
    """Return a pair (code, comment) for each line of a file."""
    return _code_and_comments("".join(linecache.getlines(filename)))


@functools.lru_cache(maxsize=64)
def _code_and_comments(text):
    found = [(line.rstrip(), "") for line in text.split("\n")]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, at = token.start
            found[row - 1] = token.line[:at].rstrip(), token.string.lstrip("#").strip()
    return found


@functools.lru_cache(maxsize=4096)
def find_reads(node):
    """Return the sources of the variables that a statement reads, such as "x" or "hs[t + 1]".

    Each source is as long as possible: "self.W.data", not "self.W".
    """
    found = _paths(getattr(node, "value", None))
    if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
        found.insert(0, node.target)
    return list(dict.fromkeys(map(ast.unparse, found)))


def _paths(node):
    """Return the names, attributes and entries that a node reads, each as long as possible."""
    if _is_path(node):
        return [node]
    if node is None or isinstance(node, BINDING):
        return []
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        if ast.unparse(node.func) == "Cache":           # its arguments are only stored
            return []
        parts = [getattr(node.func, "value", None), *node.args,
                 *(k.value for k in node.keywords if k.arg != "out")]
    return [path for part in parts for path in _paths(part)]


def _is_path(node):
    return isinstance(node, ast.Name) or isinstance(
        node, (ast.Attribute, ast.Subscript)) and _is_path(node.value)


@functools.lru_cache(maxsize=4096)
def find_writes(node):
    """Return (binds, changes), the variables that a statement assigns or changes, as sources.

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
        elif isinstance(target, ast.Attribute) or is_entry(target):
            (changes if isinstance(node, ast.AugAssign) else binds).append(ast.unparse(target))
        elif isinstance(target, ast.Subscript):
            changes.append(ast.unparse(target.value))
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        changes += [ast.unparse(k.value) for k in call.keywords if k.arg == "out"]
        if getattr(call.func, "attr", "") in WRITES_FIRST_ARGUMENT and call.args:
            changes.append(ast.unparse(call.args[0]))
    return binds, list(dict.fromkeys(changes))


def is_entry(node):
    """Return True for an entry of a dict, such as grads["W"]."""
    return isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)

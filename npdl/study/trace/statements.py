"""Functions, their statements and their expressions: what can be read of them without a run."""

import ast
import functools
import io
import linecache
import tokenize
from dataclasses import dataclass, field

from npdl.study.trace.source import defined, original_file

COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try)
WRITES_FIRST_ARGUMENT = {"copyto", "put", "place", "putmask", "at", "fill_diagonal"}
BINDING = (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)


@dataclass(eq=False)
class Line:
    """A statement of a function.

    loops    the loops around it
    places   the places of the values that it computes: what it assigns, returns or hands to a call
    """

    function: object
    node: ast.stmt
    loops: tuple = ()
    places: list = field(default_factory=list)

    @property
    def first(self):
        return self.node.lineno

    @property
    def text(self):
        """Return the statement on one line; of a loop or a branch, only its head."""
        return ast.unparse(self.node).split("\n")[0]

    @property
    def last(self):
        body = getattr(self.node, "body", None)
        return max(self.first, body[0].lineno - 1) if body else self.node.end_lineno

    @property
    def is_return(self):
        return isinstance(self.node, ast.Return)

    @property
    def is_simple(self):
        """Return True unless it is the head of a loop or a branch."""
        return not isinstance(self.node, COMPOUND)

    @property
    def parts(self):
        """Return [(code, comment)] of its lines."""
        return code_and_comments(self.function.code.co_filename)[self.first - 1 : self.last]

    @property
    def comment(self):
        """Return the comments that follow code on its lines."""
        return " ".join(comment for code, comment in self.parts if code and comment)

    @property
    def source(self):
        lines = linecache.getlines(self.function.code.co_filename)[self.first - 1 : self.last]
        return "\n".join(line.rstrip() for line in lines).strip()


@dataclass(eq=False)
class Watched:
    """A function that ran.

    code, node  as it was written; `owner` is the name of the class around it, or ""
    functions   the function objects that run the code
    rewritten   the code with hooks (npdl.study.trace.watch)
    """

    code: object
    node: ast.FunctionDef
    owner: str
    functions: list
    rewritten: object = None

    @functools.cached_property
    def lines(self):
        """Return the Lines of the function, in their order, without a docstring."""
        return list(_lines(self, self.node))

    @property
    def file(self):
        return original_file(self.code.co_filename)

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
        """Return the innermost Line at a line of the file, or None."""
        found = [line for line in self.lines if line.first <= number <= line.node.end_lineno]
        return max(found, key=lambda line: line.first, default=None)


@dataclass(eq=False)
class Place:
    """An expression of a function.

    line    the Line that it is in; None for an argument of the function
    root    True if it is a value of the Line's own
    names   the names that its value is given to
    """

    node: ast.expr
    line: object
    function: object
    root: bool = False
    names: tuple = ()

    @property
    def text(self):
        return ast.unparse(self.node)


def lines_of(code):
    """Return a Watched for the Lines of a code that doesn't run, or None without source."""
    found = defined(code)
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
    """Return [(code, comment)] of the lines of a file."""
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
def read_by(node):
    """Return the sources of what a statement reads: names, attributes and parts of them.

    Each source is as long as possible: x, self.W.data, hs[t + 1].
    """
    found = _paths(getattr(node, "value", None))
    if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
        found.insert(0, node.target)
    return list(dict.fromkeys(map(ast.unparse, found)))


def _paths(node):
    """Return the expressions in a node that only look something up, each as long as possible."""
    if _is_path(node):
        return [node]
    if node is None or isinstance(node, BINDING):
        return []
    parts = ast.iter_child_nodes(node)
    if isinstance(node, ast.Call):
        if ast.unparse(node.func) == "Cache":           # what is only kept for backward
            return []
        parts = [getattr(node.func, "value", None), *node.args,
                 *(k.value for k in node.keywords if k.arg != "out")]
    return [path for part in parts for path in _paths(part)]


def _is_path(node):
    return isinstance(node, ast.Name) or isinstance(
        node, (ast.Attribute, ast.Subscript)) and _is_path(node.value)


@functools.lru_cache(maxsize=4096)
def written_by(node):
    """Return (sources of what a statement binds, sources of what it changes in place).

    It binds "dx" in dx = .., "self.dW" in self.dW = .., "grads['W']" in grads["W"] = ..; it changes
    "self.W.grad" in self.W.grad += .., "dz" in dz[i] = .., and the arrays that `out=` names.
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
    """Return True for an entry of a dict: grads["W"]."""
    return isinstance(node, ast.Subscript) and isinstance(getattr(node.slice, "value", None), str)

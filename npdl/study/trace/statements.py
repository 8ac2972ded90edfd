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
PATH = (ast.Constant, ast.Name, ast.Slice, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.operator,
        ast.unaryop, ast.Load)


@dataclass(eq=False)
class Line:
    """A statement of a watched function, and the places of the values that it computes: what it
    assigns, returns or hands to a call."""

    function: object
    node: ast.stmt
    places: list = field(default_factory=list)
    loops: tuple = ()

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
    def inside(self):
        """Return True if it is in a function that its own function defines."""
        return any(isinstance(n, ast.FunctionDef) and n is not self.function.node
                   and n.lineno <= self.first <= n.end_lineno
                   for n in ast.walk(self.function.node))

    @property
    def is_simple(self):
        """Return True unless it is the head of a loop or a branch."""
        return not isinstance(self.node, COMPOUND)

    @property
    def comment(self):
        """Return the comments that follow code on its lines."""
        said = comments("".join(linecache.getlines(self.function.code.co_filename)))
        found = (said.get(n, ("", True)) for n in range(self.first, self.last + 1))
        return " ".join(text for text, alone in found if not alone)

    @property
    def source(self):
        lines = linecache.getlines(self.function.code.co_filename)[self.first - 1 : self.last]
        return "\n".join(line.rstrip() for line in lines).strip()


@dataclass(eq=False)
class Watched:
    """A function that ran: its code as it was, its tree, the objects that run it."""

    code: object
    node: ast.FunctionDef
    owner: str
    functions: list
    lines: list = field(default_factory=list)
    rewritten: object = None

    @property
    def file(self):
        return original_file(self.code.co_filename)

    @property
    def qualname(self):
        return self.code.co_qualname

    @functools.cached_property
    def has_while(self):
        return any(isinstance(node, ast.While) for node in ast.walk(self.node))

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
    """An expression: as it was written, the Line that it is in (None: an argument of the function),
    whether it is a value of the Line's own, and the names that it is given to."""

    node: ast.expr
    line: object
    function: object
    root: bool = False
    names: tuple = ()

    @property
    def text(self):
        return ast.unparse(self.node)


def lines_of(code):
    """Return a Watched with the Lines of a code, in their order, or None without source."""
    found = defined(code) if not code.co_name.startswith("<") else None
    if found is None:
        return None
    watched = Watched(code, *found, [])
    watched.lines = [Line(watched, node) for node in _statements(watched.node.body)]
    return watched


def _statements(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or isinstance(
                node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        for part in ("body", "handlers", "orelse", "finalbody"):
            for child in getattr(node, part, []):
                yield from _statements(child.body if isinstance(child, ast.ExceptHandler)
                                       else [child])


@functools.lru_cache(maxsize=64)
def comments(text):
    """Return {line: (its comment, True if it is on a line of its own)}."""
    return {token.start[0]: (token.string.lstrip("#").strip(),
                             not token.line[: token.start[1]].strip())
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT}


@functools.lru_cache(maxsize=4096)
def read_by(node):
    """Return the sources of what a statement reads: names, attributes and parts of them.

    Each source is as long as possible: x, self.W.data, hs[t + 1].
    """
    found = {}
    if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
        found[ast.unparse(node.target)] = None
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)):
        _read(node.value, found)
    return list(found)


def _read(node, found):
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and _is_path(node):
        found[ast.unparse(node)] = None
        return
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        inner = [node.value]
    elif isinstance(node, ast.Call):
        if ast.unparse(node.func) == "Cache":
            return                                      # what is only kept for backward
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        inner += node.args + [k.value for k in node.keywords if k.arg != "out"]
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)):
        return                                          # their names are bound inside
    else:
        inner = list(ast.iter_child_nodes(node)) if node is not None else []
    for child in inner:
        _read(child, found)


def _is_path(node):
    """Return True if an expression only looks something up."""
    if isinstance(node, ast.Subscript):
        return all(isinstance(n, PATH) for n in ast.walk(node.slice)) and _is_path(node.value)
    return isinstance(node, ast.Name) or isinstance(node, ast.Attribute) and _is_path(node.value)


@functools.lru_cache(maxsize=4096)
def written_by(node):
    """Return (names that a statement binds, sources of what it changes in place).

    It changes "self.W.grad" in self.W.grad += .., "dz" in dz[i] = .., and the arrays that `out=`
    names.
    """
    targets = [*getattr(node, "targets", [getattr(node, "target", None)])]
    binds, changes = [], []
    while targets:
        target = targets.pop(0)
        if isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
            targets = [*getattr(target, "elts", [getattr(target, "value", None)]), *targets]
        elif isinstance(target, ast.Name):
            binds.append(target.id)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            whole = target.value if isinstance(target, ast.Subscript) else target
            changes.append(ast.unparse(whole))
    for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
        changes += [ast.unparse(k.value) for k in call.keywords if k.arg == "out"]
        if getattr(call.func, "attr", "") in WRITES_FIRST_ARGUMENT and call.args:
            changes.append(ast.unparse(call.args[0]))
    return binds, list(dict.fromkeys(changes))

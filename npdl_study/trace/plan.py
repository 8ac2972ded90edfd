"""What each statement of a source file reads and writes, found in its syntax tree.

The tracer is told line numbers only. A plan maps them to statements, and says which names a
statement binds and which arrays it changes in place: `dW[...] = `, `x += `, `out=dx`,
`xp.copyto(x, ...)`. Nothing is imported or run to make a plan.
"""

import ast
import copy
import functools
import io
import linecache
import tokenize
from dataclasses import dataclass, field

WRITES_FIRST_ARGUMENT = {"copyto", "put", "place", "putmask", "at", "fill_diagonal"}
HEADERS = (ast.For, ast.While, ast.If, ast.With, ast.Try)


@dataclass(repr=False)
class Statement:
    """One simple statement, or the head of a compound one.

    first, last  its lines
    binds        the names that it binds to a new value
    changes      expressions whose arrays it changes in place, as source ("self.W.grad", "dz_i")
    reads        the names that it reads
    loops        the loops around it, outermost first: the first line of each one's head
    parts        the Statements that share its line, itself the first: `a = 1; b = 2`, `if x: y = 1`
    """

    node: ast.AST
    first: int
    last: int
    source: str
    comment: str = ""
    kind: str = "statement"
    binds: tuple = ()
    changes: tuple = ()
    reads: frozenset = frozenset()
    loops: tuple = ()
    parts: tuple = ()

    @property
    def is_return(self):
        return any(isinstance(part.node, ast.Return) for part in self.parts or (self,))

    def __hash__(self):
        return id(self)


@dataclass(repr=False)
class Function:
    """A function's statements, and the statement that each of its lines belongs to.

    `head` is the first line after the `def`.
    """

    name: str
    qualname: str
    first: int
    last: int
    head: int
    arguments: tuple
    statements: list = field(default_factory=list)
    at: dict = field(default_factory=dict)

    @property
    def given(self):
        """Its arguments but self."""
        return [name for name in self.arguments if name != "self"]


@functools.lru_cache(maxsize=48)
def _functions(filename, text):
    comments = _comments(text)
    lines = text.splitlines()
    found = {}
    for node, qualname in _walk_functions(ast.parse(text), ""):
        arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        head = 1 + max([node.lineno] + [n.end_lineno for n in ast.walk(node.args)
                                        if hasattr(n, "end_lineno")])
        function = Function(node.name, qualname, node.lineno, node.end_lineno, head,
                            tuple(arguments))
        _collect(node.body, function, comments, lines, ())
        first = min([node.lineno] + [d.lineno for d in node.decorator_list])
        found[first] = function
    return found


def plan(code):
    """The Function of a code object, or None when there is no source (or it is a lambda)."""
    if code.co_name.startswith("<"):
        return None
    text = "".join(linecache.getlines(code.co_filename))
    if not text:
        return None
    return _functions(code.co_filename, text).get(code.co_firstlineno)


def _walk_functions(node, prefix):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child, prefix + child.name
            yield from _walk_functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _walk_functions(child, f"{prefix}{child.name}.")
        else:
            yield from _walk_functions(child, prefix)


def _comments(text):
    """{line: text of the comment at its end}, for lines that hold code too."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip():
            found[token.start[0]] = token.string.lstrip("#").strip()
    return found


def _collect(body, function, comments, lines, loops):
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue                                    # a docstring
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        last = node.end_lineno
        if isinstance(node, HEADERS):
            last = max(node.lineno, min(part.lineno for part in node.body) - 1)
        statement = _statement(node, last, comments, lines, loops)
        before = function.at.get(node.lineno)
        if before is not None and before.kind in ("statement", "if") and statement.kind not in (
                "for", "while"):
            _join(before, statement, function)
            continue
        function.statements.append(statement)
        for line in range(node.lineno, last + 1):
            function.at.setdefault(line, statement)
        inner = (*loops, node.lineno) if isinstance(node, (ast.For, ast.While)) else loops
        for part in ("body", "handlers", "orelse", "finalbody"):
            for child in getattr(node, part, []) if isinstance(node, HEADERS) else []:
                _collect([child] if not isinstance(child, ast.ExceptHandler) else child.body,
                         function, comments, lines, inner if part == "body" else loops)


def _join(first, other, function):
    """Make a Statement one with another on its line: the tracer can't tell them apart."""
    first.parts = (*(first.parts or (copy.copy(first),)), other)
    for part in first.parts:
        part.source = ast.unparse(part.node) if part.kind == "statement" else part.source
    first.kind, first.node = "statement", ast.If(
        ast.Constant(True), [part.node for part in first.parts], [],
        lineno=first.first, col_offset=first.node.col_offset)
    first.binds = tuple(dict.fromkeys((*first.binds, *other.binds)))
    first.changes = tuple(dict.fromkeys((*first.changes, *other.changes)))
    first.reads, first.last = first.reads | other.reads, max(first.last, other.last)
    function.at |= dict.fromkeys(range(other.first, other.last + 1), first)


def _statement(node, last, comments, lines, loops):
    source = "\n".join(lines[node.lineno - 1 : last])
    kind = type(node).__name__.lower() if isinstance(node, HEADERS) else "statement"
    head = _head(node)
    binds, changes = _targets(node)
    for call in (n for part in head for n in ast.walk(part) if isinstance(n, ast.Call)):
        changes += [ast.unparse(k.value) for k in call.keywords if k.arg == "out"]
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if name in WRITES_FIRST_ARGUMENT and call.args:
            changes.append(ast.unparse(call.args[0]))
    reads = {n.id for part in head for n in ast.walk(part)
             if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        reads.add(node.target.id)
    comment = " ".join(comments[n] for n in range(node.lineno, last + 1) if n in comments)
    return Statement(node, node.lineno, last, source, comment, kind, tuple(binds),
                     tuple(dict.fromkeys(changes)), frozenset(reads), loops)


def _head(node):
    """The parts of a node that run with its own line."""
    if isinstance(node, ast.For):
        return [node.target, node.iter]
    if isinstance(node, (ast.If, ast.While)):
        return [node.test]
    if isinstance(node, ast.With):
        return [item for item in node.items]
    return [] if isinstance(node, ast.Try) else [node]


def _targets(node):
    """(names bound, expressions changed in place) by an assignment or a loop."""
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars]
    else:
        return [], []
    binds, changes = [], []
    while targets:
        target = targets.pop(0)
        if isinstance(target, (ast.Tuple, ast.List)):
            targets = target.elts + targets
        elif isinstance(target, ast.Starred):
            targets.insert(0, target.value)
        elif isinstance(target, ast.Name):
            binds.append(target.id)
        elif isinstance(target, ast.Subscript):
            changes.append(ast.unparse(target.value))
        elif isinstance(target, ast.Attribute):
            changes.append(ast.unparse(target))
    return binds, changes

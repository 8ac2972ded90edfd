"""Report each statement that runs to a Recorder, and find the variables that a statement reads."""

import ast
import functools

from npdl.study.trace.source import HOOK
from npdl.study.trace.watch import Rewrite, loaded

BINDING = (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)


class StatementRewrite(Rewrite):
    """A Rewrite that also calls the hook when a function begins, and after each statement.

    Then the hook gets a negative number: watch.marked[~number] is the Watched or the Line.
    """

    def visit_FunctionDef(self, node):
        node = super().visit_FunctionDef(node)
        node.body.insert(0, ast.Expr(self._mark(self.function)))
        return node

    def around(self, node):
        """Yield a statement between the calls of the hook that belong to it.

        Before `z += e`, z is passed to the hook, because the statement reads it.
        """
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
            yield ast.copy_location(ast.Expr(self.hooked(loaded(node.target))), node)
        yield from super().around(node)
        if isinstance(node, ast.Return):
            node.value = ast.copy_location(self._mark(self.line, node.value), node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            yield ast.copy_location(ast.Expr(self._mark(self.line)), node)

    def _mark(self, thing, value=None):
        """Return a call of the hook that reports a function that begins, or a Line that has run."""
        self.watch.marked.append(thing)
        place = ast.Constant(~(len(self.watch.marked) - 1))
        return ast.Call(ast.Name(HOOK, ast.Load()), [place, value or ast.Constant(None)], [])


@functools.lru_cache(maxsize=4096)
def read_by(node):
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

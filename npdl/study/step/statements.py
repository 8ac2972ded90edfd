"""Rewrite functions so that they report each statement that runs to a Recorder."""

import ast

from npdl.study.trace.source import HOOK
from npdl.study.trace.watch import Rewrite, loaded


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

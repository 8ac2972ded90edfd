"""Rewrite a layer's functions so that every value that they compute passes through one hook.

Each expression e of a student's functions becomes hook(n, e), where n is the expression's number.
The hook is a Watch. It records the value of e, adds an array to it, or replaces it. An expression
in a loop computes several values, so a value is identified by a key (number, occurrence).
"""

import ast
import builtins
import contextlib
import copy
import functools
import gc
import sys
from collections import Counter
from types import FunctionType, ModuleType

import numpy as np

from npdl.core import rebuild
from npdl.study.containment import NPDL, is_library_file
from npdl.study.trace.source import HOOK, compile_definition
from npdl.study.trace.statements import Expression, make_watched_function
from npdl.study.trees import is_float

WRAPPED = (ast.BinOp, ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.IfExp, ast.UnaryOp)
NPDLS = ("layers", "models", "adapt", "losses", "functions")      # the watched packages of npdl
MOST_RECORDED = 1 << 22         # entries that one run records; a larger number needs more memory


class Rewrite(ast.NodeTransformer):
    """Rewrites one function so that the hook, a Watch, receives the values of its expressions."""

    def __init__(self, watch, function):
        self.watch, self.function, self.statement = watch, function, None
        self.node = copy.deepcopy(function.node)
        self.originals = dict(zip(ast.walk(self.node), ast.walk(function.node), strict=True))
        self.statements = {one.node: one for one in function.statements}
        self.modules = {name for name, value in function.globals.items()
                        if isinstance(value, (ModuleType, type, FunctionType))} | {"self", "cls"}

    def rewrite_definition(self):
        """Return the rewritten definition, which also passes the arguments to the hook."""
        return ast.fix_missing_locations(ast.copy_location(
            self.visit_FunctionDef(self.node), self.function.node))

    def visit_FunctionDef(self, node):
        node.body = self.generic_visit(ast.Module(node.body, [])).body
        if node is self.node:
            node.body[:0] = [ast.Assign([ast.Name(name, ast.Store())], self.make_hook_call(
                ast.Name(name, ast.Load()), names=(name,)))
                for name in self.function.arguments if name not in ("self", "cls")]
        return node

    def visit(self, node):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef):
            statement, outer = self.statements.get(self.originals[node]), self.statement
            if statement is None:                       # a docstring, a class
                return node
            self.statement = statement
            found = [*self.surround_with_hooks(self._rewrite_statement(node))]
            self.statement = outer
            return found
        if isinstance(node, WRAPPED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            if isinstance(node, ast.Name) and node.id in self.modules or isinstance(
                    node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
                return node
            return self.make_hook_call(self._hook_parts(node))
        return super().visit(node)

    def surround_with_hooks(self, node):
        """Yield a statement. After an update such as `z *= e`, also yield `z = hook(n, z)`."""
        yield node
        if isinstance(node, ast.AugAssign) and not isinstance(
                node.op, ast.Add) and not isinstance(node.target, ast.Attribute):
            read = copy.deepcopy(node.target)
            read.ctx = ast.Load()
            call = self.make_hook_call(read, True, (ast.unparse(read),))
            call.args.append(ast.Constant(True))
            yield ast.copy_location(ast.Assign([copy.deepcopy(node.target)], call), node)

    def _rewrite_statement(self, node):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)) and node.value:
            target, *_ = getattr(node, "targets", [getattr(node, "target", None)])
            if isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Add):
                target = None                           # z -= e: not the gradient of z
            node.value = self._hook_result(node.value, target)
            return node
        call = getattr(node, "value", None)
        # np.add.at(dW, ids, dy) changes dW in place, so only the last argument gets the hook.
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args \
                and not self._is_watched_call(call):
            call.args[-1] = self._hook_result(call.args[-1])
            return node
        return self.generic_visit(node)

    def _hook_result(self, node, target=None):
        """Put the hook around an assigned or returned value; for a tuple, around each item."""
        if isinstance(node, ast.Starred):
            return self.generic_visit(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            targets = getattr(target, "elts", ())
            if len(targets) != len(node.elts):          # such as x = a, b or x, *y = a, b, c
                targets = [None] * len(node.elts)
            node.elts = list(map(self._hook_result, node.elts, targets))
            return node
        if isinstance(node, ast.Dict) and None not in node.keys:
            node.values = [
                self._hook_result(value, target and ast.Subscript(target, key, ast.Load()))
                for key, value in zip(node.keys, node.values, strict=True)]
            return node
        names = tuple(ast.unparse(t) for t in getattr(target, "elts", [target] * bool(target)))
        return self.make_hook_call(self._hook_parts(node), True, names)

    def _is_watched_call(self, call):
        return getattr(call.func, "id", getattr(call.func, "attr", "")) in self.watch.watched_names

    def _hook_parts(self, node):
        """Return a node with the hook around its operands and arguments, but not around indices."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node.func.value = self.visit(node.func.value)
            wrap = self._hook_result if self._is_watched_call(node) else self.visit
            node.args = [wrap(a) for a in node.args]
            node.keywords = [ast.keyword(k.arg, wrap(k.value)) for k in node.keywords]
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node.value = self.visit(node.value)
        else:
            return self.generic_visit(node)
        return node

    def make_hook_call(self, node, root=False, names=()):
        """Return the syntax tree of hook(n, node), for a new Expression with `root`, `names`."""
        number, original = len(self.watch.expressions), self.originals.get(node, node)
        self.watch.expressions.append(Expression(
            original, self.statement, self.function, root, names))
        if root and self.statement is not None:
            self.statement.expressions.append(number)
        return ast.copy_location(ast.Call(ast.Name(HOOK, ast.Load()),
                                          [ast.Constant(number), node], []), original)


class Watch:
    """Records or changes the values that functions compute between `start` and `stop`.

    functions       the functions that `work()` calls, each a WatchedFunction; functions of npdl are
                    left out if `watches_npdl` is False
    expressions     all their Expressions; the number in a key is an index of this list
    without_source  the names of the functions whose source wasn't found
    work            the number of values computed so far; 256 entries of an array count as one
    """

    rewriter = Rewrite              # the class that puts the hook into a function

    def __init__(self, work, watches_npdl):
        self.functions, self.expressions, self.without_source, self.work = [], [], [], 0
        self.is_hooked, called = False, {}
        with contextlib.suppress(Exception), profile_calls(
                lambda frame, event, _: called.setdefault(frame.f_code)):
            work()
        codes = [code for code in called if _is_watched_code(code, watches_npdl)]
        codes = [code for code in codes if not any(code in around.co_consts for around in codes)]
        holders = {}
        for f in gc.get_referrers(*codes) if codes else ():
            if isinstance(f, FunctionType):
                holders.setdefault(f.__code__, []).append(f)
        self.watched_names = {code.co_name for code in codes}
        for code in codes:
            watched = make_watched_function(code)
            if watched is not None and code in holders:
                watched.functions = holders[code]
                node = self.rewriter(self, watched).rewrite_definition()
                watched.rewritten = compile_definition(code, node, watched.owner)
                if watched.rewritten is not None:
                    self.functions.append(watched)
                    continue
            self.without_source.append(code.co_qualname)
        self.stop()

    @property
    def main_file(self):
        """Return the file of the function that was called first."""
        return self.functions[0].file if self.functions else ""

    def start(self, expression_numbers, record=False, additions=None, replacements=None,
              record_locals=False):
        """Begin to watch the expressions whose numbers are in `expression_numbers`.

        record         True records the values in the attribute `seen`, {key: array}
        additions      {key: array}, arrays that are added to the values
        replacements   {key: array}, arrays that replace the values
        record_locals  True also records the local variables in `locals`, {key: {name: value}}
        """
        self.expression_numbers, self.counts = expression_numbers, Counter()
        self.additions, self.replacements = additions or {}, replacements or {}
        self.seen, self.recorded = ({} if record else None), 0
        self.locals = {} if record_locals else None
        if not self.is_hooked:
            self.is_hooked = True           # first, so that stop() also undoes a part of this block
            setattr(builtins, HOOK, self)
            for watched in self.functions:
                for f in watched.functions:
                    f.__code__ = watched.rewritten

    def stop(self):
        """Stop watching. The functions then run without hooks, which is faster."""
        self.expression_numbers, self.additions, self.replacements = (), {}, {}
        if self.is_hooked:
            for watched in self.functions:
                for f in watched.functions:
                    f.__code__ = watched.code
            delattr(builtins, HOOK)
            self.is_hooked = False

    def __call__(self, number, value, into=False):
        """Record a value, and return it or its replacement. Rewritten functions call this hook.

        If `into` is True, the replacement is written into the array `value`.
        """
        self.work += 1 + value.size // 256 if isinstance(value, np.ndarray) else 1
        if number not in self.expression_numbers:
            return value
        new = self._record_or_change_nested(number, value)
        if into and new is not value and isinstance(value, np.ndarray):
            value[...] = new
            return value
        return new

    def _record_or_change_nested(self, number, value, depth=3):
        if is_float(value):
            return self._record_or_change(number, value)
        if isinstance(value, (tuple, list)) and depth:
            items = [self._record_or_change_nested(number, v, depth - 1) for v in value]
            if any(a is not b for a, b in zip(items, value, strict=True)):
                return rebuild(value, items)
        return value

    def _record_or_change(self, number, value):
        key = (number, self.counts[number])
        self.counts[number] += 1
        if key in self.replacements:
            new = self.replacements[key]
            return new.copy() if isinstance(value, np.ndarray) else new[()]
        if self.seen is not None and self.recorded < MOST_RECORDED:
            self.recorded += np.size(value)
            self.seen[key] = np.array(value, dtype=float)
            if self.locals is not None:
                frame = sys._getframe(2)
                while frame.f_code.co_filename == __file__ or frame.f_code.co_name[0] == "<":
                    frame = frame.f_back
                self.locals[key] = {
                    n: copy.copy(v) if isinstance(v, (np.ndarray, list, dict)) else v
                    for n, v in frame.f_locals.items() if not key[1] or isinstance(v, int)}
        return value + self.additions[key] if key in self.additions else value


@contextlib.contextmanager
def profile_calls(callback):
    """Call callback(frame, event, _) when a function begins or ends in the `with` block."""
    before = sys.getprofile()
    sys.setprofile(callback)
    try:
        yield
    finally:
        sys.setprofile(before)


@functools.lru_cache(maxsize=4096)
def _is_watched_code(code, watches_npdl):
    """Return True for a student's code, and for code of npdl's layers if `watches_npdl` is True."""
    if code.co_name[0] == "<":                          # a lambda, a comprehension
        return False
    name = code.co_filename
    if name.startswith(NPDL):
        return watches_npdl and name[len(NPDL):].startswith(NPDLS)
    return not is_library_file(name)

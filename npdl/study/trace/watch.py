"""A layer's functions, rewritten so that every value they compute passes through one hook.

Each expression e of a student's functions becomes hook(n, e), where n tells the place. So a run can
record the values, add something to one of them, or put others in their stead. What a place computes
in its second turn, or for its second use, stands apart from the first: a key is (place, turn).
"""

import ast
import contextlib
import copy
import functools
import gc
import inspect
import sys
from collections import Counter
from types import FunctionType, ModuleType

import numpy as np

from npdl.study.containment import is_library
from npdl.study.trace.source import HOOK, LAMBDA, defined, recompiled
from npdl.study.trace.statements import Line, Place, Watched
from npdl.study.trace.syntax import lifted

WRAPPED = (ast.BinOp, ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.IfExp, ast.UnaryOp)
NPDL = sys.modules["npdl"].__file__.rpartition("__init__")[0]
MOST_KEPT = 1 << 22             # entries of all that one run records
TURNS = 3                       # of a place, whose locals are kept


def is_float(value):
    return isinstance(value, float) or (
        isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f")


class Watch:
    """The functions that `work()` runs, watched while `with watch:` lasts.

    One that `marks` statements too is called with a negative place where a function begins and
    after each statement: `marked[~place]` is the Watched, or the Line with what it returns.

    functions   [Watched]; npdl's own only with `npdls`
    places      the Place of each number
    unseen      names of functions of which no source could be had
    work        how many values were computed so far, of a large array one for 256 entries
    """

    marks = False

    def __init__(self, work, npdls=False):
        self.functions, self.places, self.unseen, self.work = [], [], [], 0
        self.entered = self.always = False
        self.edits, self.whole = {}, set()              # whole: the places of -1 in z[i] = -1
        codes = _run_codes(work, npdls)
        inner = {c for code in codes for c in _inside(code)}
        codes = [code for code in codes if code not in inner]
        holders = {}
        for f in gc.get_referrers(*codes) if codes else ():
            if isinstance(f, FunctionType):
                holders.setdefault(f.__code__, []).append(f)
        self.always = any(not c.co_name.startswith("<") or c.co_name == LAMBDA
                          for c in inner)                   # what is made inside runs later
        sources = {code: defined(code) for code in codes}
        self.own = {code.co_name for code in codes} | {
            found[1] for code, found in sources.items() if found and code.co_name == "__init__"}
        for code, found in sources.items():
            if found is None or code not in holders:
                self.unseen.append(code.co_qualname)
                continue
            node, owner = found
            watched = Watched(code, node if self.marks else lifted(node), owner, holders[code])
            tree = _Rewrite(self, watched).whole(copy.deepcopy(watched.node))
            watched.rewritten = recompiled(code, tree, watched.owner)
            if watched.rewritten is None:
                self.unseen.append(code.co_qualname)
            else:
                self.functions.append(watched)
        self.stop()

    @property
    def home(self):
        """Return the file of the function that was called first."""
        return self.functions[0].file if self.functions else ""

    def __enter__(self):
        for watched in self.functions:
            for f in watched.functions:
                f.__globals__[HOOK] = self
        self.entered = True
        self._hook(self.always)
        return self

    def __exit__(self, *_):
        self._hook(False)
        self.entered = False
        for watched in self.functions:
            for f in watched.functions:
                f.__globals__.pop(HOOK, None)

    def _hook(self, on):
        """Let the functions run with their hooks, or as they were written, which is faster; one
        that is edited as that."""
        for watched in self.functions if self.entered else ():
            code = self.edits.get(watched, watched.rewritten if on else watched.code)
            for f in watched.functions:
                f.__code__ = code

    @contextlib.contextmanager
    def counting(self):
        """Count in `work` what runs, though it is not looked at."""
        self._hook(True)
        try:
            yield
        finally:
            self._hook(self.always)

    @contextlib.contextmanager
    def edited(self, watched, code):
        """Run with another code in a function, itself not watched."""
        self.edits = {watched: code}
        self._hook(self.always)
        try:
            yield
        finally:
            self.edits = {}
            self._hook(self.always)

    def start(self, only, record=False, add=None, put=None, frames=False):
        """Watch the places in `only` from now on.

        Record into `seen` and `locals`, shift by `add`, and replace by `put`, both {key: array}.
        """
        self.only, self.add, self.put, self.counts = only, add or {}, put or {}, Counter()
        self.seen, self.kept = ({} if record else None), 0
        self.locals = {} if frames else None
        self._hook(True)

    def stop(self):
        self.only, self.add, self.put = None, {}, {}
        self._hook(self.always)

    def __call__(self, place, value, into=False):
        """Return the value that a place is to have; with `into`, write it into the array it has."""
        self.work += 1 + value.size // 256 if isinstance(value, np.ndarray) else 1
        if self.only is None or place not in self.only:
            return value
        new = self._nest(place, value)
        if into and new is not value and isinstance(value, np.ndarray):
            value[...] = new
            return value
        return new

    def _nest(self, place, value, depth=3):
        if is_float(value) or place in self.whole and type(value) is int:
            return self._one(place, value)
        if isinstance(value, (tuple, list)) and depth:
            items = [self._nest(place, v, depth - 1) for v in value]
            if any(a is not b for a, b in zip(items, value, strict=True)):
                return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    def _one(self, place, value):
        key = (place, self.counts[place])
        self.counts[place] += 1
        if key in self.put:
            new = self.put[key]
            return new.copy() if isinstance(value, np.ndarray) else new[()]
        if self.seen is not None and self.kept < MOST_KEPT:
            self.kept += np.size(value)
            self.seen[key] = np.array(value, dtype=float)
            if self.locals is not None:
                frame = sys._getframe(2)
                while frame.f_code.co_filename == __file__ or frame.f_code.co_name.replace(
                        LAMBDA, "")[:1] == "<":
                    frame = frame.f_back
                whole = key[1] < TURNS
                self.locals[key] = {n: _copied(v) for n, v in frame.f_locals.items()
                                    if whole or isinstance(v, int)}
        return value + self.add[key] if key in self.add else value


def _copied(value):
    return copy.copy(value) if isinstance(value, (np.ndarray, list, dict)) else value


def _run_codes(work, npdls):
    """Return the codes of the functions that `work` calls, without those of libraries."""
    found = {}

    def called(frame, event, _):
        if event == "call":
            found.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    except Exception:
        pass
    finally:
        sys.setprofile(before)
    return [code for code in found if _is_own(code, npdls)]


@functools.lru_cache(maxsize=4096)
def _is_own(code, npdls):
    if code.co_name.startswith("<") and code.co_name != LAMBDA:
        return False
    name = code.co_filename
    if name.startswith(NPDL):
        part = name[len(NPDL):]
        return part.startswith(("layers", "models", "adapt", "losses", "functions")) and (
            npdls or "#" in part)
    return not is_library(name)


def _inside(code):
    """Yield the codes defined in a code."""
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield constant
            yield from _inside(constant)


def _loaded(target):
    """Return the target of an assignment as an expression that reads it."""
    target = copy.deepcopy(target)
    target.ctx = ast.Load()
    return target


class _Rewrite(ast.NodeTransformer):
    """Puts the hook around the expressions of one function."""

    def __init__(self, watch, function):
        self.watch, self.function = watch, function
        self.line, self.loops = None, ()
        originals = (n for n in ast.walk(function.node) if isinstance(n, ast.stmt))
        self.originals = {(n.lineno, n.col_offset, type(n)): n for n in originals}
        self.modules = {name for name, value in function.space.items()
                        if isinstance(value, (ModuleType, type, FunctionType))} | {"self", "cls"}

    def whole(self, node):
        """Return the function's own node, with its arguments hooked too."""
        node.decorator_list = []
        node = self.visit_FunctionDef(node)
        entered = node.body[0] if self.watch.marks else None
        for name in self.function.arguments:
            if name not in ("self", "cls"):
                value = ast.Name(name, ast.Load())
                call = self._hooked(value, value, False, (name,))
                node.body.insert(0, ast.Assign([ast.Name(name, ast.Store())], call))
        if entered is not None:
            node.body.insert(0, node.body.pop(node.body.index(entered)))
        return ast.fix_missing_locations(ast.copy_location(node, self.function.node))

    def visit_FunctionDef(self, node):
        found = [self.visit(n) for n in node.body]
        node.body = [n for one in found for n in (one if isinstance(one, list) else [one])]
        if self.watch.marks:
            node.body.insert(0, ast.Expr(self._marker(self.function)))
        own = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(
            n.ctx, ast.Store)} | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        around = [ast.Name(n, ast.Load()) for n in self.function.arguments if n not in own]
        if around:                                      # what a function is made in is seen in it
            node.body.insert(0, ast.copy_location(ast.Expr(ast.Tuple(around, ast.Load())), node))
        return node

    def _marker(self, thing, value=None):
        """Return a call that reports a function that begins, or a Line that has run."""
        self.watch.marked.append(thing)
        place = ast.Constant(~(len(self.watch.marked) - 1))
        return ast.Call(ast.Name(HOOK, ast.Load()), [place, value or ast.Constant(None)], [])

    def _marked(self, node, after):
        """Return a statement, the nodes `after` it, and its mark.

        Before an augmented assignment, the old value of its target is hooked.
        """
        if isinstance(node, ast.Return):
            node.value = ast.copy_location(self._marker(self.line, node.value), node)
            return node
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)) or isinstance(
                node.value, ast.Constant) and isinstance(node, ast.Expr):
            return node
        found = [node, *after, ast.copy_location(ast.Expr(self._marker(self.line)), node)]
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
            target = _loaded(node.target)
            read = ast.Expr(self._hooked(target, copy.deepcopy(target)))
            found.insert(0, ast.copy_location(read, node))
        return found

    def _changed(self, node):
        """Return [statement that hooks z after `z *= e`]; [] for `z += e`, where e is hooked."""
        if not isinstance(node, ast.AugAssign) or isinstance(node.op, ast.Add) or isinstance(
                node.target, ast.Attribute):
            return []
        target = _loaded(node.target)
        call = self._hooked(target, copy.deepcopy(target), True, (ast.unparse(target),))
        call.args.append(ast.Constant(True))
        return [ast.copy_location(ast.Assign([copy.deepcopy(node.target)], call), node)]

    def visit_ClassDef(self, node):
        return node

    visit_JoinedStr = visit_AsyncFunctionDef = visit_Delete = visit_ClassDef

    def visit(self, node):
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            outer, loops = self.line, self.loops
            original = self.originals[node.lineno, node.col_offset, type(node)]
            self.line = Line(self.function, original, loops=loops)
            self.function.lines.append(self.line)
            if isinstance(node, (ast.For, ast.While)):
                self.loops = (*loops, original)
            node = self._statement(node)
            after = self._changed(node)
            node = self._marked(node, after) if self.watch.marks else [node, *after]
            self.line, self.loops = outer, loops
            return node
        if isinstance(node, WRAPPED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            if isinstance(node, ast.Name) and node.id in self.modules or isinstance(
                    node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
                return node
            original = copy.deepcopy(node)
            return self._hooked(self._inside(node), original)
        return super().visit(node)

    def _statement(self, node):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)) and node.value:
            target, *_ = getattr(node, "targets", [getattr(node, "target", None)])
            if isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Add):
                target = None                           # z -= e: not the gradient of z
            node.value = self._root(node.value, target)
            return node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if not isinstance(call.func, ast.Name) and call.args:
                call.args[-1] = self._root(call.args[-1])
                if self._is_own(call):
                    node.value = self._inside(call, done=True)
                return node
        return self.generic_visit(node)

    def _root(self, node, target=None):
        """Hook a value that is the Line's own, or each item of a tuple."""
        if isinstance(node, ast.Starred):
            return self.generic_visit(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            targets = getattr(target, "elts", [None] * len(node.elts))
            if len(targets) == len(node.elts):
                node.elts = [self._root(*pair) for pair in zip(node.elts, targets, strict=True)]
                return node
            return self.generic_visit(node)
        if isinstance(node, ast.Dict) and None not in node.keys:
            node.values = [self._root(value, target and ast.Subscript(target, key, ast.Load()))
                           for key, value in zip(node.keys, node.values, strict=True)]
            return node
        original = copy.deepcopy(node)
        bare = isinstance(node, ast.Name) and node.id in self.modules
        inner = self._inside(node) if isinstance(node, WRAPPED) and not bare else self.visit(node)
        names = tuple(ast.unparse(t) for t in getattr(target, "elts", [target] * bool(target)))
        filled = isinstance(target, ast.Subscript) and isinstance(self.line.node, ast.Assign)
        if filled and ast.unparse(original).removeprefix("-").lstrip("0").isdigit():
            self.watch.whole.add(len(self.watch.places))
        return self._hooked(inner, original, True, names)

    def _is_own(self, call):
        return getattr(call.func, "id", getattr(call.func, "attr", "")) in self.watch.own

    def _inside(self, node, done=False):
        """Hook the parts of a node, except for a called function and an index."""
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                node.func.value = self.visit(node.func.value)
            wrap = self._root if self._is_own(node) else self.visit
            last = len(node.args) - 1 if done else None
            node.args = [a if i == last else wrap(a) for i, a in enumerate(node.args)]
            node.keywords = [ast.keyword(k.arg, wrap(k.value)) for k in node.keywords]
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            node.value = self.visit(node.value)
        else:
            return self.generic_visit(node)
        return node

    def _hooked(self, node, original, root=False, names=()):
        place = len(self.watch.places)
        self.watch.places.append(Place(original, self.line, self.function, root, names))
        if root and self.line is not None:
            self.line.places.append(place)
        return ast.copy_location(ast.Call(ast.Name(HOOK, ast.Load()),
                                          [ast.Constant(place), node], []), original)

"""What a statement may be made of: names, numbers, keys and indices that stand where it does."""

import ast
import contextlib
import inspect
import re
from collections import Counter
from dataclasses import dataclass, field
from types import FunctionType

import numpy as np

from npdl_study.blame.edits import index_source
from npdl_study.blame.weights import PART, SLIGHT
from npdl_study.trace.runs import quiet
from npdl_study.trace.source import defined
from npdl_study.trace.syntax import bound_by, names_of

PURE = {"sum", "mean", "max", "min", "reshape", "transpose", "swapaxes", "copy", "astype", "ravel",
        "squeeze", "dot", "repeat", "cumsum", "len", "range", "slice", "float", "int", "abs"}


@dataclass
class Helper:
    """A function that a student wrote beside his forward and backward: how many arguments it
    `needs`, what it `takes`, {name: default or None}, and whether it only computes what it
    returns."""

    needs: int
    takes: dict
    pure: bool


@dataclass
class Scope:
    """What stands at a Line, as source.

    arrays    float arrays and masks that its function holds; `numbers` numbers, and `counts` the
              whole ones of these
    targets   what its function assigns to; `keys` of its dicts; `places` indices, in forward too
    forwards  {names: forward's expressions in which these stand}
    shapes    tuples: a product of one and a number is a far larger array's
    unused    the names that its function binds and never reads; `once` those it reads once
    helpers   {source of what is called: Helper}, of the module, and of self
    dead      whether it binds anew what nothing has read since it was bound
    eps       the small numbers that forward adds
    """

    arrays: list = field(default_factory=list)
    numbers: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    keys: list = field(default_factory=list)
    places: list = field(default_factory=list)
    forwards: dict = field(default_factory=dict)
    shapes: set = field(default_factory=set)
    unused: set = field(default_factory=set)
    once: set = field(default_factory=set)
    helpers: dict = field(default_factory=dict)
    dead: bool = False
    eps: list = field(default_factory=list)

    @property
    def all(self):
        return [*self.arrays, *self.numbers]


def scope_of(line, frame, watch, forwards):
    """The Scope of a Line, of the locals there, and of the keys of what forward computes."""
    names, tree = names_in_scope(line, frame), line.function.node
    found = _values(line, names)
    arrays, numbers, counts = [], [], []
    for text, value in found.items():
        if isinstance(value, (bool, np.bool_)):
            continue
        if isinstance(value, (int, np.integer)):
            counts.append(text)
            numbers.append(text)
        elif isinstance(value, (float, np.floating)):
            numbers.append(text)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "fbiu":
            arrays.append(text)
    own = ast.unparse(line.node)
    unread = [n for n in line.function.arguments if n in arrays and n not in names_of(*tree.body)]
    for name in unread:                                 # the upstream gradient, that nothing reads
        arrays += [name + index for index in ("[:, None]", "[..., None]", "[..., None, None]")]
        arrays += [f"{name}.reshape({text}.shape)" for text in arrays if text in found and np.size(
            found[text]) == np.size(found[name]) and np.shape(found[text]) != np.shape(found[name])]
    numbers += [text for text in _lengths(arrays, found, own) if text not in numbers]
    arrays.sort(key=lambda t: (t not in own, not t.isidentifier(), len(t)))
    targets = [ast.unparse(n) for n in ast.walk(tree) if isinstance(
        n, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)]
    keys = {k for v in names.values() if isinstance(v, dict) for k in v if isinstance(k, str)}
    places = [index_source(n) for f in watch.functions for n in ast.walk(f.node)
              if isinstance(n, ast.Subscript)]
    return Scope(arrays, numbers, counts, targets=sorted(dict.fromkeys(targets), key=len),
                 keys=sorted(keys), places=list(dict.fromkeys(places)),
                 forwards=_forward_expressions(watch, forwards),
                 shapes={text for text, value in found.items() if isinstance(value, tuple)} | {
                     f"{text}.shape" for text in arrays if text.replace(".", "").isidentifier()},
                 unused={*unused_in(tree), *unread}, once=set(unused_in(tree, 1)),
                 dead=_overwrites_unread(line),
                 helpers=helpers_in_scope(line.function, names.get("self"), {
                     ast.unparse(n.func) for f in watch.functions for n in ast.walk(f.node)
                     if isinstance(n, ast.Call)}),
                 eps=small_constants({watch.places[key[0]].function for key in forwards}))


def _values(line, names):
    """{source: value} of names, of what is in caches and dicts, and of the small expressions in a
    Line's function: hs[t + 1], x.shape[0], 1 - z."""
    found = {}
    for name, value in names.items():
        found[name] = value
        if name == "self" and hasattr(value, "__dict__") or type(value).__name__ in (
                "Cache", "SimpleNamespace"):
            for key, part in vars(value).items():
                is_param = hasattr(part, "data") and hasattr(part, "grad")
                found[f"{name}.{key}" + ".data" * is_param] = part.data if is_param else part
        elif isinstance(value, dict):
            found |= {f"{name}[{key!r}]": part for key, part in value.items()}
    space = {**line.function.space, **names}
    for node in ast.walk(line.function.node):
        small = isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(
            node.ctx, ast.Load) or isinstance(node, ast.BinOp) and sum(
            1 for _ in ast.walk(node)) < PART
        text = ast.unparse(node) if small and is_pure(node) else ""
        for one in (text, re.sub(r" [+-] 1\]$", "]", text)):    # of hs[t + 1], hs[t] too
            with contextlib.suppress(Exception), quiet():
                found[one] = found[one] if one in found else eval(one, dict(space))
    return found


def _lengths(arrays, found, own):
    """The lengths of arrays, each of the first array that has it, and of those that stand in
    `own`: x.shape[0]."""
    lengths = {}
    for text in arrays:
        if text in found and (text.isidentifier() or text.count(".") == 1):
            for i, n in enumerate(np.shape(found[text])):
                if lengths.setdefault(n, (text, []))[0] == text:
                    lengths[n][1].append(i)
    read = re.findall(r"[A-Za-z_]\w*", own)
    own = {text: found[text] for text in arrays if text.rpartition(".")[2] in read
           and text in found and np.ndim(found[text])}
    return [f"{text}.shape[{i}]" for n, (text, axes) in lengths.items() if n > 1 for i in axes] + [
        f"{text}.{end}" for text, value in own.items()
        for end in (*(f"shape[{i}]" for i in range(value.ndim)), *["size"] * (value.ndim > 1))]


def small_constants(functions):
    """The small numbers that functions write: 1e-7 of np.log(y + 1e-7)."""
    return sorted({repr(n.value) for f in functions for n in ast.walk(f.node) if isinstance(
        n, ast.Constant) and type(n.value) is float and 0 < n.value < SLIGHT})


def _forward_expressions(watch, forwards):
    """{names: [sources]} of what forward computes, by the names that are read."""
    found = {}
    for place in {watch.places[key[0]] for key in forwards}:
        for node in ast.walk(place.node):
            if isinstance(node, (ast.BinOp, ast.Call, ast.UnaryOp)) and is_pure(node):
                found.setdefault(frozenset(names_of(node)), set()).add(ast.unparse(node))
    return {names: sorted(sources) for names, sources in found.items()}


def names_in_scope(line, frame):
    """{name: value} of a module's numbers and arrays, and of the locals at a Line but what is left
    from a loop that it does not stand in, and what a turn before has left."""
    tree = line.function.node
    loops = [n for n in ast.walk(tree) if isinstance(n, ast.For)]
    left, around = (set().union(*(names_of(n.target) for n in some)) for some in (
        [n for n in loops if n not in line.loops], [n for n in loops if n in line.loops]))
    first = {}
    for other in line.function.lines:
        for target in bound_by(other.node):
            first[target] = min(first.get(target, other.first), other.first)
    return {n: v for n, v in line.function.space.items()
            if isinstance(v, (int, float, np.ndarray)) and not n.startswith("__")} | {
        n: v for n, v in frame.items() if n not in left - around and first.get(n, 0) <= line.first}


def helpers_in_scope(function, holder, called=()):
    """{source: Helper} of the functions of a module, of the methods of self, and of the methods
    `called` as they stand: of what is not called, those that only compute what they return."""
    own = {name: f for name, f in function.space.items()
           if isinstance(f, FunctionType) and f.__code__.co_filename == function.code.co_filename}
    own |= {f"self.{name}": getattr(holder, name) for name, f in vars(type(holder)).items()
            if isinstance(f, (FunctionType, staticmethod)) and name[:2] != "__"
            } if holder is not None else {}
    for text in sorted(called - own.keys()):            # self.dbn.ppf
        with contextlib.suppress(Exception):
            f = eval(text, dict(function.space), {"self": holder})
            own |= {text: f} if f.__func__.__code__.co_filename == function.code.co_filename else {}
    found = {}
    for name, f in own.items():
        pure = f.__code__ is not function.code and _is_pure_function(f.__code__)
        if (pure or name in called) and not re.search("forward|backward|sample", name):
            taken = inspect.signature(f).parameters.values()
            found[name] = Helper(sum(p.default is p.empty for p in taken), {
                p.name: None if p.default is p.empty else p.default for p in taken}, pure)
    return found


def _is_pure_function(code):
    """Whether a function has an argument, no loop, and returns what it computes."""
    node, _ = defined(code) or (None, "")
    simple = (ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.Expr)
    return node is not None and bool(code.co_argcount) and isinstance(
        node.body[-1], (ast.Return, ast.If)) and all(
        isinstance(n, simple) for part in node.body for n in ast.walk(part)
        if isinstance(n, ast.stmt))


def _overwrites_unread(line):
    """Whether a Line binds a name that stands bound before it, in the same block, unread."""
    name = bound_by(line.node)
    body = line.loops[-1].body if line.loops else line.function.node.body
    if len(name) != 1 or line.node not in body or name & names_of(
            *[n for n in ast.walk(line.node) if isinstance(getattr(n, "ctx", None), ast.Load)]):
        return False
    for node in reversed(body[: body.index(line.node)]):
        if any(isinstance(n, ast.Name) and n.id in name and isinstance(n.ctx, ast.Load)
               for n in ast.walk(node)) or isinstance(node, (ast.If, ast.For, ast.While)):
            return False
        if name & bound_by(node):
            return not isinstance(node.value, (ast.Constant, ast.Name))
    return False


def unused_in(tree, times=0):
    """The names that a function binds and never reads; or so many times."""
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    read = Counter(n.id for n in names if isinstance(n.ctx, ast.Load))
    return [n for n in dict.fromkeys(n.id for n in names if isinstance(n.ctx, ast.Store))
            if read[n] == times and n != "_"]


def is_pure(node):
    """Whether an expression only computes."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            func = part.func
            library = isinstance(func, ast.Attribute) and ast.unparse(func.value) in (
                "np", "xp", "numpy", "math")
            if not library and getattr(func, "attr", getattr(func, "id", "")) not in PURE:
                return False
        elif isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True

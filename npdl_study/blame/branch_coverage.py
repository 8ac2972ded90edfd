"""Which element-wise choices of a layer its inputs reach on one side only.

np.clip where nothing is cut, a comparison that is True everywhere: whatever the backward says of
the other side, no gradient at these inputs shows it. `one_sided()` runs a forward and a backward
whose choices note what they choose, and tells of those that chose one way only.
"""

import ast
import contextlib
import copy
from dataclasses import dataclass, field

import numpy as np

from npdl_study.blame.weights import SLIGHT
from npdl_study.check.adapters import Functions
from npdl_study.trace.source import recompiled
from npdl_study.trace.watch import NPDL, Watch
from npdl_study.trees import copied, mapped

CALLS = {"clip", "minimum", "maximum", "where", "abs", "absolute", "fabs", "sign"}
GUARDS = {"0", "0.0", *(f"{sign}{module}.inf" for sign in ("", "-") for module in ("np", "math"))}
SIDE = "__npdl_side__"


@dataclass(eq=False)
class Choice:
    """One choice in the code; `missed` are the sides that no entry took, in words."""

    file: str
    line: int
    source: str
    needs: set = field(default_factory=set)
    took: set = field(default_factory=set)

    @property
    def missed(self):
        return sorted(self.needs - self.took)

    def __str__(self):
        return f"`{self.source}` {' and '.join(self.missed)} here"

    @property
    def key(self):
        return self.file, self.line, self.source

    def note(self, sides):
        """File what one run took: {side that may be missed: whether an entry took it}."""
        self.needs |= set(sides)
        self.took |= {side for side, taken in sides.items() if taken}


def choices_of(subject):
    """({key: Choice} of all choices that a Subject's layer makes at its inputs, [the functions of
    which no source could be had])."""
    def run():
        with np.errstate(all="ignore"):
            _, cache = subject.run()
            subject.backward(copied(subject.dout), cache)

    watch = Watch(run, type(subject.layer).__module__.startswith("npdl."))
    choices = []
    with contextlib.ExitStack() as stack:
        for function in sorted(watch.functions, key=lambda f: (f.file, f.code.co_firstlineno)):
            stack.enter_context(_watched(function, choices))
        run()
    return {choice.key: choice for choice in choices}, watch.unseen


def scaled(inputs, factor):
    """Inputs with every float array times a number; others are as they were."""
    return mapped(inputs, lambda leaf: leaf * factor if (
        isinstance(leaf, (np.ndarray, np.floating)) and leaf.dtype.kind == "f") else leaf)


def unlike_inputs(subject):
    """(in words, inputs) that are what a Subject's are not: with a repeated id, a mask of both
    kinds; of a class, whose inputs are no parameters, a second row or time step."""
    inputs = subject.inputs

    def changed(kind, which, change):
        found = [a for a in inputs if isinstance(a, np.ndarray) and a.dtype.kind in kind and which(
            a)]
        return [change(a) if any(a is b for b in found) else a for a in inputs] if found else None

    def last(value):
        def change(array):
            array = array.copy()
            array.flat[-1] = value(array.flat[0])
            return array
        return change

    ways = [("a repeated id", changed("iu", lambda a: a.size > 1 == (
        np.unique(a).size == a.size), last(lambda one: one))),
        ("a mask that is True and False", changed("b", lambda a: a.size > 1 and np.unique(
            a).size == 1, last(lambda one: not one)))]
    shapes = ((0, 2, "row"), (1, 3, "time step"))
    for axis, least, what in () if isinstance(subject.layer, Functions) else shapes:
        ways.append((f"a second {what}", changed(
            "fiub", lambda a, at=axis, n=least: a.ndim >= n and a.shape[at] == 1,
            lambda a, at=axis: np.concatenate([a, a * 2 if a.dtype.kind == "f" else a], at))))
    return [(words, tuple(found)) for words, found in ways if found is not None]


def is_finite(subject):
    """Whether the outputs of a Subject are numbers."""
    with np.errstate(all="ignore"):
        return all(np.isfinite(array).all() for array in subject.outputs())


@contextlib.contextmanager
def _watched(function, choices):
    """Run a function with its choices noted."""
    watch = _ChoiceHooks(function.file, len(choices))
    tree = ast.fix_missing_locations(watch.visit(copy.deepcopy(function.node)))
    new = recompiled(function.code, tree, function.owner)
    if new is None or not watch.choices:
        yield
        return
    choices += watch.choices
    for f in function.functions:
        f.__globals__[SIDE] = lambda number, *given, **named: _noted(choices[number], *given,
                                                                     **named)
        f.__code__ = new
    try:
        yield
    finally:
        for f in function.functions:
            f.__code__ = function.code
            f.__globals__.pop(SIDE, None)


def _noted(choice, *given, **named):
    """A value that is noted, or what a function returns whose arguments are."""
    if len(given) == 1 and not named:
        choice.note(_mask_sides(given[0]))
        return given[0]
    function, *arguments = given
    returned = function(*arguments, **named)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ndarray):
        arguments = [owner, *arguments]
    name = function.__name__
    sides = {"clip": _clip_sides, "where": _mask_sides, "minimum": _maximum_sides,
             "maximum": _maximum_sides}.get(name, _sign_sides)
    with contextlib.suppress(TypeError, ValueError):    # of arguments that are no numbers
        choice.note(sides(*arguments, **named))
    return returned


def _mask_sides(mask, *_, **__):
    mask = np.asarray(mask)
    if mask.dtype.kind != "b" or not mask.size:
        return {}
    return {"is never True": mask.any(), "is never False": not mask.all()}


def _clip_sides(x, low=None, high=None, **named):
    low = named.get("a_min", named.get("min", low))
    high = named.get("a_max", named.get("max", high))
    cut, sides = np.zeros(np.shape(x), bool), {}
    for bound, beyond, word in ((low, np.less, "below"), (high, np.greater, "above")):
        if bound is not None and not _guards(bound):
            cuts = beyond(x, bound)
            sides[f"never clips from {word}"], cut = cuts.any(), cut | cuts
    return sides and sides | {"clips everywhere": not cut.all()}


def _maximum_sides(a, b, **_):
    counts = any(np.ndim(n) == 0 and n == 1 and (np.ndim(m) == 0 or m.dtype.kind in "iu")
                 for n, m in ((a, b), (b, a)))          # np.maximum(mask.sum(), 1)
    if counts or _guards(a) or _guards(b):
        return {}
    first, second = np.less(a, b).any(), np.greater(a, b).any()
    return {"is never larger in its first argument": second,
            "is never larger in its second argument": first} if first or second else {}


def _sign_sides(x, **_):
    return {"meets no number above 0": np.greater(x, 0).any(),
            "meets no number below 0": np.less(x, 0).any()} if _is_float(x) else {}


def _is_float(x):
    return isinstance(x, (np.ndarray, np.floating)) and x.dtype.kind == "f" and x.size > 0


def _guards(bound):
    """Whether a bound is there for rounding only, such as 1e-12 or 1 - 1e-7."""
    size = np.abs(np.asarray(bound, float))
    return size.ndim == 0 and (0 < size < SLIGHT or 0 < abs(size - 1) < SLIGHT)


class _ChoiceHooks(ast.NodeTransformer):
    """Puts a hook around every choice of a function; one that leads to nothing but an exception
    is none."""

    def __init__(self, file, first):
        self.file, self.first, self.choices = file, first, []

    def _hooked(self, node, source, *arguments, keywords=()):
        number = ast.Constant(self.first + len(self.choices))
        self.choices.append(Choice(self.file, node.lineno, source))
        call = ast.Call(ast.Name(SIDE, ast.Load()), [number, *arguments], list(keywords))
        return ast.copy_location(call, node)

    def visit_If(self, node):
        if not node.orelse and isinstance(node.body[-1], ast.Raise):
            return node
        return self.generic_visit(node)

    def visit_Assert(self, node):
        return node

    def visit_Compare(self, node):
        source = ast.unparse(node)
        equal = isinstance(node.ops[0], (ast.Eq, ast.NotEq))
        none = isinstance(node.ops[0], (ast.Is, ast.IsNot)) and self.file.startswith(NPDL)
        if len(node.ops) > 1 or none or isinstance(node.ops[0], (ast.In, ast.NotIn)) or (
                equal and ast.unparse(node.comparators[0]) in GUARDS):
            return node
        return self._hooked(node, source, self.generic_visit(node))

    def visit_Call(self, node):
        source = ast.unparse(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        compared = bool(node.args) and isinstance(node.args[0], ast.Compare)
        node = self.generic_visit(node)
        if name not in CALLS or not (node.args or node.keywords) or name == "where" and (
                compared or len(node.args) < 3):
            return node
        return self._hooked(node, source, node.func, *node.args, keywords=node.keywords)

    def visit_Subscript(self, node):
        source, plain = ast.unparse(node), isinstance(node.slice, (ast.Name, ast.Attribute))
        node = self.generic_visit(node)
        if plain:
            node.slice = self._hooked(node, source, node.slice)
        return node

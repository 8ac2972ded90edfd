"""Ask blame about mutants of npdl's own layers: is the line named, is the verified fix true?

    python -m tests.tools.blame_mutants                         # the table of a sample
    python -m tests.tools.blame_mutants --count 50 --seed 1 --show

Each layer is written in three styles: a class with a Cache, a class that keeps its cache in self,
and a pair of functions. A mutant differs from it in one token or one statement of backward. A
neutral mutant differs and computes the same: operands of `+` and `*` that are swapped, a renamed
variable, a value that is first assigned to another variable.
"""

import argparse
import ast
import contextlib
import copy
import functools
import inspect
import itertools
import random
import sys
import tempfile
import textwrap
from collections import Counter
from dataclasses import dataclass

import numpy as np

from npdl.core import Layer, Param
from npdl_study.check.samples import layer_classes, sample
from tests.tools.blame_files import answer, ask, is_right

STYLES = ("cache", "self", "functions")
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
         ast.MatMult: ast.Mult}
CALLS = {"sum": "mean", "mean": "sum", "exp": "tanh", "zeros_like": "ones_like", "max": "min"}


@dataclass
class Mutant:
    """A source with a change in one line, which is in words."""

    name: str
    text: str
    line: int
    change: str

    def __str__(self):
        return f"{self.name}, line {self.line}: {self.change}"


# Layers in three styles

@functools.cache
def source(name, style):
    """Return the source of a layer in a style, or None if it can't be written so."""
    cls = layer_classes()[name]
    if "backward" not in vars(cls) or "forward" not in vars(cls):
        return None
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    for node in ast.walk(tree):                         # docstrings are not needed
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    space = vars(inspect.getmodule(cls))
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & set(space)
                   - {name} | {"Cache", "xp"} & set(space))
    head = f"from {cls.__module__} import {', '.join(names)}\n\n\n" if names else ""
    with contextlib.suppress(LookupError, StopIteration):
        written = {"cache": ast.unparse, "self": _in_self,
                   "functions": functools.partial(_functions, name)}[style](tree)
        return ast.unparse(ast.parse(head + written))   # every simple statement on one line
    return None


def _method(tree, name):
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def _in_self(tree):
    forward, backward = _method(tree, "forward"), _method(tree, "backward")

    class InSelf(ast.NodeTransformer):
        def visit_Return(self, node):
            kept = ast.parse("out, self.cache = value").body[0]
            kept.value = node.value
            return [kept, ast.Return(ast.Name("out", ast.Load()))]

    forward.body = [n for s in forward.body for n in _listed(InSelf().visit(s))]
    cache = backward.args.args.pop().arg
    backward.body.insert(0, ast.parse(f"{cache} = self.cache").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _functions(name, tree):
    layer, inputs, options = sample(layer_classes()[name])
    params = dict(layer.params())
    if options or not all(isinstance(vars(layer).get(n), Param) for n in params) or any(
            isinstance(value, (Layer, list)) for value in vars(layer).values()):
        raise LookupError(name)
    forward, backward = _method(tree, "forward"), _method(tree, "backward")
    added = Counter(ast.unparse(n.target) for n in ast.walk(backward)
                    if isinstance(n, ast.AugAssign))
    in_loops = {n for loop in ast.walk(backward) if isinstance(loop, (ast.For, ast.If))
                for n in ast.walk(loop)}

    class Functions(ast.NodeTransformer):
        def visit_Attribute(self, node):
            text = ast.unparse(node)
            known = {f"self.{p}.{part}": word + p for p in params
                     for part, word in (("data", ""), ("grad", "d_"))}
            if text in known:
                return ast.Name(known[text], node.ctx)
            return self.generic_visit(node)

        def visit_Name(self, node):
            return ast.Name("_layer", node.ctx) if node.id == "self" else node

        def visit_AugAssign(self, node):
            alone = added[ast.unparse(node.target)] == 1 and node not in in_loops
            is_grad = ast.unparse(node.target) in {f"self.{p}.grad" for p in params}
            node = self.generic_visit(node)
            return ast.Assign([node.target], node.value) if alone and is_grad else node

        def visit_Return(self, node):
            node = self.generic_visit(node)
            if node.value in caches and params:
                kept = [node.value.elts[1], *(ast.Name(p, ast.Load()) for p in params)]
                node.value.elts[1] = ast.Tuple(kept, ast.Load())
            elif node in returns and params:
                first = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                own = [ast.Name(f"d_{p}", ast.Load()) for p in params]
                node.value = ast.Tuple([*first, *own], ast.Load())
            return node

    returns = [n for n in ast.walk(backward) if isinstance(n, ast.Return)]
    caches = [n.value for n in ast.walk(forward) if isinstance(n, ast.Return)]
    if not all(isinstance(value, ast.Tuple) and len(value.elts) == 2 for value in caches):
        raise LookupError(name)
    several = [p for p in params if added[f"self.{p}.grad"] != 1 or any(
        isinstance(n, ast.AugAssign) and ast.unparse(n.target) == f"self.{p}.grad"
        for n in in_loops)]
    for function in (forward, backward):
        function.args.args = function.args.args[1:]
        function.name = f"my_{name.lower()}_{function.name}"
    own = forward.args
    fixed = [*zip(own.args[::-1], own.defaults[::-1], strict=False),
             *zip(own.kwonlyargs, own.kw_defaults, strict=True)]
    fixed = [ast.Assign([ast.Name(a.arg, ast.Store())], value) for a, value in fixed
             if a not in own.args[: len(inputs)]]
    own.args = own.args[: len(inputs)] + [ast.arg(p) for p in params]
    own.defaults, own.kwonlyargs, own.kw_defaults = [], [], []
    forward.body = fixed + forward.body
    start = [ast.parse(f"{', '.join(['cache', *params])} = cache").body[0]] * bool(params) + [
        ast.parse(f"d_{p} = np.zeros_like({p})").body[0] for p in several]
    if backward.args.args[-1].arg != "cache":
        raise LookupError(name)
    parts = [Functions().visit(function) for function in (forward, backward)]
    parts[1].body = start + parts[1].body
    code = "\n\n\n".join(ast.unparse(ast.fix_missing_locations(part)) for part in parts)
    return (f"import numpy as np\nfrom npdl_study.check.samples import layer_classes, sample\n"
            f"_layer, _inputs, _ = sample(layer_classes()[{name!r}])\n\n\n"
            f"def my_{name.lower()}_sample():\n    return (*_inputs, *(p.data for _, p in "
            f"_layer.params()))\n\n\n{code}")


def _listed(found):
    return found if isinstance(found, list) else [found]


# Mutants

def backward_of(tree):
    return next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
                and n.name.endswith("backward"))


def mutants(name, style, rng):
    """Yield the Mutants of a layer in a style."""
    text = source(name, style)
    function = backward_of(ast.parse(text))
    names = sorted({n.id for n in ast.walk(function) if isinstance(n, ast.Name)
                    and isinstance(n.ctx, ast.Load)} & {n.id for n in ast.walk(function)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
    for statement in ast.walk(function):
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return)) and statement.value:
            if "check_" in ast.unparse(statement) or "gradients_of" in ast.unparse(statement):
                continue
            for node in ast.walk(statement):
                for new in _changes(node, statement, names, rng):
                    yield _mutant(f"{name} ({style})", text, statement, node, new)


def _mutant(name, text, statement, node, new):
    """Return the Mutant of a source with `new` in the place of a node of a statement."""
    lines = text.split("\n")
    changed = copy.deepcopy(statement)
    for mine, own in zip(list(ast.walk(changed)), list(ast.walk(statement)), strict=True):
        if own is node:
            changed = _replaced(changed, mine, new)
            break
    at = statement.lineno - 1
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    text = ast.unparse(ast.fix_missing_locations(changed))
    was, lines[at] = lines[at].strip(), indent + text
    return Mutant(name, "\n".join(lines), at + 1, f"{was}  ->  {text}")


def _replaced(tree, old, new):
    class Replace(ast.NodeTransformer):
        def visit(self, node):
            return new if node is old else self.generic_visit(node)
    return Replace().visit(tree)


def _changes(node, statement, names, rng):
    """Yield what a node of a statement is changed to, each with a mistake of one kind."""
    if node is statement:
        if isinstance(node, ast.AugAssign):
            yield ast.Assign([node.target], node.value)
        if not isinstance(node.value, ast.Tuple):
            negative = copy.copy(node)
            negative.value = ast.UnaryOp(ast.USub(), node.value)
            yield negative
    elif isinstance(node, ast.BinOp):
        if type(node.op) in SWAPS:
            yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
        yield node.left
        yield node.right
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield ast.Name(rng.choice([n for n in names if n != node.id] or names), ast.Load())
    elif isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in CALLS:
            other = ast.Attribute(node.func.value, CALLS[node.func.attr], ast.Load())
            yield ast.Call(other, node.args, node.keywords)
        if node.func.attr in ("sum", "mean") and not isinstance(node.func.value, ast.Name):
            yield node.func.value
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        yield ast.Subscript(node.value, ast.BinOp(node.slice, ast.Sub(), ast.Constant(1)), node.ctx)


def neutral_mutants(name, style, _):
    """Yield Mutants that compute the same as a layer."""
    text = source(name, style)
    tree = ast.parse(text)
    function, title = backward_of(tree), f"{name} ({style})"
    bound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)
             and isinstance(n.ctx, ast.Store)}
    inner = [n for n in ast.walk(function) if isinstance(n, (ast.Lambda, ast.FunctionDef))
             and n is not function]
    for statement in ast.walk(function):
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return)):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
                swapped = ast.BinOp(node.right, node.op, node.left)
                yield _mutant(title, text, statement, node, swapped)
            if isinstance(node, ast.BinOp) and ast.unparse(node).endswith("** 2"):
                product = ast.BinOp(node.left, ast.Mult(), node.left)
                yield _mutant(title, text, statement, node, product)
    for old in sorted(bound - {"cache"}) if not inner else ():
        renamed = copy.deepcopy(tree)
        for node in ast.walk(backward_of(renamed)):
            if isinstance(node, ast.Name) and node.id == old:
                node.id = f"{old}_value"
        if old not in {a.arg for a in function.args.args}:
            yield Mutant(title, ast.unparse(renamed), function.lineno, f"{old} renamed")


def layers():
    return [(name, style) for name, cls in layer_classes().items()
            for style in STYLES if type(sample(cls)[0]) is cls and source(name, style)]


def score(pool, count, folder, show=False):
    """Ask blame about `count` Mutants; return a Counter of answers, and the longest seconds."""
    found, longest = Counter(), 0.0
    for mutant in pool:
        if found["mutants"] >= count:
            break
        try:
            given = answer(mutant.text, mutant.line, folder)
        except Exception as error:
            print(f"blame raised {type(error).__name__}: {error} for {mutant}", flush=True)
            found["raised"] += 1
            continue
        silent = given.report.right or given.report.kind == "unchecked"
        if silent and is_right(mutant.text, folder):
            found["equivalent"] += 1
            continue
        longest = max(longest, given.seconds)
        found["mutants"] += 1
        found["on the line"] += given.on_line
        found["among the lines"] += given.on_line or mutant.line in given.report.either
        found["called right"] += given.report.right
        found["no line"] += not given.report.line and not given.report.right
        found["fixes true"] += given.is_true is True
        found["fixes false"] += given.is_true is False
        if show and (not given.on_line or given.is_true is False):
            print(f"\n{mutant}\n{given}\n{given.report}", flush=True)
    return found, longest


def chosen(seed, kind=mutants):
    """Yield all mutants of a kind in a random order: one of each layer and style, then a second."""
    rng, pools, order = random.Random(seed), {}, layers()
    rng.shuffle(order)
    for turn in itertools.count():
        for layer in order:
            if layer not in pools:
                pools[layer] = list(kind(*layer, rng))
                rng.shuffle(pools[layer])
            yield from pools[layer][turn : turn + 1]
        if turn >= max(map(len, pools.values())):
            return


def main(given):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.blame_mutants")
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--neutral", type=int, default=0, help="how many neutral mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print the answers on other lines")
    options = parser.parse_args(given)
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        found, longest = score(chosen(options.seed), options.count, folder, options.show)
        print(*(f"{what:<16} {n}" for what, n in found.items()), sep="\n")
        print(f"longest          {longest:.1f} s of processor time")
        accused = []
        for i, mutant in enumerate(chosen(options.seed, neutral_mutants)):
            if i >= options.neutral:
                break
            report = ask(mutant.text, folder)
            if not report.right and report.kind != "unchecked":
                accused.append(f"{mutant}\n{report}")
        print(f"neutral          {options.neutral}, accused {len(accused)}", *accused, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

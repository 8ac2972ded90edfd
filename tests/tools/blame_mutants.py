"""Count how often `blame` names the line and the fix in mutants of npdl's layers.

    python -m tests.tools.blame_mutants                         # the table of a sample
    python -m tests.tools.blame_mutants --count 50

Each layer is written in three styles (see layer_styles.py). A mutant differs from it in one token
or one statement of backward. A neutral mutant computes the same in another form: swapped operands
of `+` or `*`, a product for a square, or a renamed variable.
"""

import argparse
import ast
import copy
import itertools
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass

import numpy as np

from npdl.study.trace.syntax import clone_tree
from tests.tools import blame_files
from tests.tools.blame_files import make_answer, replace_line, reports_error, run_blame
from tests.tools.layer_styles import list_layer_styles, make_source

SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
         ast.MatMult: ast.Mult}
CALLS = {"sum": "mean", "mean": "sum", "exp": "tanh", "zeros_like": "ones_like", "max": "min"}


@dataclass
class Mutant:
    """A source with a change in one line, and a description of the change."""

    name: str
    text: str
    line: int
    change: str

    def __str__(self):
        return f"{self.name}, line {self.line}: {self.change}"


def find_backward(tree):
    return next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
                and n.name.endswith("backward"))


def make_mutants(name, style, rng):
    """Yield the Mutants of the layer `name`, written in a style."""
    text = make_source(name, style)
    function = find_backward(ast.parse(text))
    names = sorted({n.id for n in ast.walk(function) if isinstance(n, ast.Name)
                    and isinstance(n.ctx, ast.Load)} & {n.id for n in ast.walk(function)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
    for statement in ast.walk(function):
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return)) and statement.value:
            if "check_" in ast.unparse(statement) or "checked_gradients" in ast.unparse(statement):
                continue
            for node in ast.walk(statement):
                for new in _yield_replacements(node, statement, names, rng):
                    yield _make_mutant(f"{name} ({style})", text, statement, node, new)


def _make_mutant(name, text, statement, node, new):
    """Return the Mutant in which `new` replaces the syntax-tree node `node` of a statement."""
    changed = ast.unparse(ast.fix_missing_locations(clone_tree(statement, node, new)))
    number = statement.lineno
    was = text.split("\n")[number - 1].strip()
    return Mutant(name, replace_line(text, number, changed), number, f"{was}  ->  {changed}")


def _yield_replacements(node, statement, names, rng):
    """Yield syntax-tree nodes that replace `node`. Each makes one kind of mistake."""
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


def make_neutral_mutants(name, style, _):
    """Yield Mutants of a layer that compute the same."""
    text = make_source(name, style)
    tree = ast.parse(text)
    function, title = find_backward(tree), f"{name} ({style})"
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
                yield _make_mutant(title, text, statement, node, swapped)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and getattr(
                    node.right, "value", None) == 2:
                product = ast.BinOp(node.left, ast.Mult(), node.left)
                yield _make_mutant(title, text, statement, node, product)
    for old in sorted(bound - {"cache"}) if not inner else ():
        renamed = copy.deepcopy(tree)
        for node in ast.walk(find_backward(renamed)):
            if isinstance(node, ast.Name) and node.id == old:
                node.id = f"{old}_value"
        if old not in {a.arg for a in function.args.args}:
            yield Mutant(title, ast.unparse(renamed), function.lineno, f"{old} renamed")


def score_mutants(mutants, count, folder):
    """Run `blame` on `count` Mutants; return a Counter of outcomes, and the longest seconds."""
    found, longest = Counter(), 0.0
    for mutant in mutants:
        if found["mutants"] >= count:
            break
        try:
            given = make_answer(mutant.text, mutant.line, folder)
        except Exception as error:
            print(f"blame raised {type(error).__name__}: {error} for {mutant}", flush=True)
            found["raised"] += 1
            continue
        silent = given.report.right or given.report.kind == "unchecked"
        if silent and blame_files.has_right_gradients(mutant.text, folder):
            found["equivalent"] += 1
            continue
        longest = max(longest, given.seconds)
        found["mutants"] += 1
        found["on the line"] += given.is_on_line
        found["called right"] += given.report.right
        found["fixes true"] += given.is_true is True
        found["fixes false"] += given.is_true is False
    return found, longest


def yield_shuffled_mutants(seed, kind=make_mutants):
    """Yield all mutants in random order: first one of each layer and style, then a second, ..."""
    rng, pools, order = random.Random(seed), {}, list_layer_styles()
    rng.shuffle(order)
    for turn in itertools.count():
        for layer in order:
            if layer not in pools:
                pools[layer] = list(kind(*layer, rng))
                rng.shuffle(pools[layer])
            yield from pools[layer][turn : turn + 1]
        if turn >= max(map(len, pools.values())):
            return


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.blame_mutants")
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--neutral", type=int, default=0, help="how many neutral mutants")
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as folder:
        found, longest = score_mutants(yield_shuffled_mutants(0), options.count, folder)
        print(*(f"{what:<16} {n}" for what, n in found.items()), sep="\n")
        print(f"longest          {longest:.1f} s of processor time")
        accused = []
        for i, mutant in enumerate(yield_shuffled_mutants(0, make_neutral_mutants)):
            if i >= options.neutral:
                break
            report = run_blame(mutant.text, folder)
            if reports_error(report):
                accused.append(f"{mutant}\n{report}")
        print(f"neutral          {options.neutral}, accused {len(accused)}", *accused, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])

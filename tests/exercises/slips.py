"""Operators exchanged in the code of worked solutions: does the print change, and who sees it?

    python -m tests.exercises.slips [COUNT SEED]        # of each exercise, and what was not seen
"""

import ast
import random
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np

from exercises import witness
from exercises.framework import calculated_again, modules, name_of, solution_text

SWAP = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


def solved(tree, module):
    """[(print without its checks, whether all checks hold)] of the solutions of changed code."""
    changed = ModuleType(module.__name__)
    vars(changed).update(__file__=module.__file__, __package__=module.__package__)
    with witness.watching(), np.errstate(all="ignore"):
        exec(compile(tree, module.__file__, "exec"), vars(changed))
        found = [calculated_again(module, s.whole()) for s in changed.solutions()]
    return [("\n".join(line for line in solution_text(s).splitlines() if not line.startswith(
        ("Check:", "OUR COMPUTATION"))), all(check.holds for check in s.checks)) for s in found]


def places(tree):
    """The operators between numbers in the functions that make a solution or a step."""
    makers = [f for f in tree.body if isinstance(f, ast.FunctionDef) and any(
        isinstance(n, ast.Name) and n.id in ("Solution", "Step") for n in ast.walk(f))]
    return [n for f in makers for n in ast.walk(f) if isinstance(n, ast.BinOp)
            and type(n.op) in SWAP and not any(isinstance(side, ast.JoinedStr) or isinstance(
                getattr(side, "value", None), str) for side in (n.left, n.right))]


def fates(module, count, seed, told=lambda line: None):
    """ "seen", "unseen", "same" (no print changes) or "raised" of `count` slips."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    before, chosen = solved(tree, module), places(tree)
    assert all(holds for _, holds in before), name_of(module)
    for node in random.Random(seed).sample(chosen, min(count, len(chosen))):
        kept, node.op = node.op, SWAP[type(node.op)]()
        try:
            now = solved(tree, module)
        except Exception:
            now = None
        finally:
            node.op = kept
        if now is None:
            yield "raised"
        elif not all(holds for _, holds in now):
            yield "seen"
        elif now == before:
            yield "same"
        else:
            told(f"{name_of(module)}:{node.lineno}")
            yield "unseen"


if __name__ == "__main__":
    number, start = map(int, sys.argv[1:] or (8, 1))
    print(Counter(fate for module in modules() if hasattr(module, "solutions")
                  for fate in fates(module, number, start, print)))

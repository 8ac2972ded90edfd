"""Edits of several statements at once: (Edit, the statement that is named, what is said)."""

import ast
import itertools

from npdl_study.blame.edits import Edit
from npdl_study.blame.scope import unused_in
from npdl_study.blame.weights import FACTOR, TOKEN
from npdl_study.trace.syntax import bound_by, names_of, parsed

MOST = 3                        # names that a turn may hand on to the next


def move_return(line):
    """A return that ends a loop in its first turn, put behind the loop of a Line."""
    loop = line.node
    last = loop.body[-1] if isinstance(loop, (ast.For, ast.While)) else None
    if isinstance(last, ast.Return) and len(loop.body) > 1:
        head = [loop.target, loop.iter] if isinstance(loop, ast.For) else [loop.test]
        new = [type(loop)(*head, loop.body[:-1], loop.orelse), ast.Return(last.value)]
        yield (Edit(TOKEN, "early return", None, new, loop), last,
               "the loop returns in its first turn: the return belongs behind it")


def carry_to_next_turn(line):
    """What a loop computes and never uses, given to what its next turn reads, after a Line."""
    loop = line.loops[-1] if line.loops else None
    tree, own = line.function.node, bound_by(line.node)
    inside = [n for node in ast.walk(loop) for n in bound_by(node)] if loop else []
    unused = [n for n in unused_in(tree) if n in inside]
    if not unused or len(unused) > MOST or unused[-1] not in own:
        return
    outside = {n for node in ast.walk(tree) for n in bound_by(node)}
    carried = sorted((names_of(loop) & outside) - set(inside) - names_of(loop.iter))
    says = f"{' and '.join(unused)} {'is' if len(unused) == 1 else 'are'} computed and never " \
           "used: a line is missing after it"
    for names in itertools.permutations(carried, len(unused)):
        pairs = zip(names, unused, strict=True)
        new = [ast.Assign([ast.Name(n, ast.Store())], ast.Name(u, ast.Load())) for n, u in pairs]
        yield Edit(FACTOR, "missing line", None, [line.node, *new], line.node), line.node, says


def copy_before_write(line):
    """An array of its own for what a function writes into one that it was handed, from a Line on:
    dx = np.ones_like(x); dx[x < 0] = ..; return dx."""
    place = getattr(line.node, "target", None) or getattr(line.node, "targets", [None])[0]
    target = getattr(place.value, "id", "") if isinstance(place, ast.Subscript) else ""
    block = line.loops[-1].body if line.loops else line.function.node.body
    if target not in line.function.arguments or line.node not in block or any(
            target in bound_by(node) for node in ast.walk(line.function.node)):
        return
    rest, own = block[block.index(line.node) :], f"d{target}"
    for begin in (f"np.ones_like({target})", f"np.zeros_like({target})", f"{target}.copy()"):
        new = [ast.Assign([ast.Name(own, ast.Store())], parsed(begin))]
        for node in rest:
            whole = isinstance(node, ast.Return)
            found = ast.parse(ast.unparse(node)).body[0]
            for part in ast.walk(found) if whole else [getattr(
                    found, "target", None) or getattr(found, "targets", [None])[0]]:
                base = getattr(part, "value", part) if not whole else part
                if isinstance(base, ast.Name) and base.id == target:
                    base.id = own
            new.append(found)
        yield (Edit(FACTOR, "in place", None, new, line.node, span=len(rest)), line.node,
               f"{target} is written into, which {line.function.code.co_name} was handed: the "
               "result needs an array of its own")

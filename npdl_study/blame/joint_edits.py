"""Edits of several statements at once: (Edit, the statement that is named, what is said)."""

import ast
import itertools

from npdl_study.blame.edits import Edit, edits
from npdl_study.blame.scope import unused_in
from npdl_study.blame.weights import FACTOR, PASSED_ON, STAGES, TOKEN
from npdl_study.trace.syntax import bound_by, names_of, parsed


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
    if not unused or len(unused) > PASSED_ON or unused[-1] not in own:
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


def edit_twice(line, scope):
    """One slip in a Line and in the next statement, which is the same with other names."""
    body = line.loops[-1].body if line.loops else line.function.node.body
    if not isinstance(line.node, ast.Assign) or line.node not in body[:-1]:
        return
    other = body[body.index(line.node) + 1]
    to = dict(zip(*([n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
                    for node in (line.node, other)), strict=False))
    if ast.dump(_renamed(line.node, to)) != ast.dump(_renamed(other, {})) or not to:
        return
    for edit in edits(line.node, scope, True, STAGES[1]):
        with edit.made() as made:
            texts = [ast.unparse(ast.fix_missing_locations(node)) for node in made]
        new = ast.parse(texts[0]).body[0]
        if len(texts) == 1 and not isinstance(new, ast.Pass):
            both = [new, _renamed(new, to)]
            found = Edit(edit.cost, edit.kind, None, both, line.node, span=2,
                         also=(ast.unparse(other), ast.unparse(both[1])))
            yield found, line.node, ""


def _renamed(node, to):
    """A copy of a statement with other names."""
    found = ast.parse(ast.unparse(node)).body[0]
    for part in ast.walk(found):
        if isinstance(part, ast.Name):
            part.id = to.get(part.id, part.id)
    return found

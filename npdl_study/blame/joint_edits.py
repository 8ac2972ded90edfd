"""Edits of several statements at once: (Edit, the statement that is named, what is said)."""

import ast
import itertools

from npdl_study.blame.edits import Edit, edits, names_read_by
from npdl_study.blame.scope import unused_in
from npdl_study.blame.weights import FACTOR, PASSED_ON, STAGES, TERM, TOKEN
from npdl_study.trace.statements import WRITES_FIRST_ARGUMENT, written_by
from npdl_study.trace.syntax import bound_by, names_of, parsed, parts_of


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


def begin_with_zeros(line):
    """Zeros in the place of what a Line binds, which is added to or written into after it, or
    bound anew in a loop."""
    node, rest = line.node, [one for one in line.function.lines if one.is_simple]
    to = getattr(node, "targets", [None])[0]
    for at, (part, around) in enumerate(parts_of(node) if to else ()):
        text = ast.unparse(getattr(to, "elts", [to] * (at + 1))[at])
        if not isinstance(part, ast.Constant) and "zeros" not in ast.unparse(part) and any(
                text in written_by(one.node)[1] or text in written_by(one.node)[0] and (
                    one.loops != line.loops or isinstance(one.node, ast.AugAssign))
                for one in rest if one.first > line.first):
            yield (Edit(TOKEN, "begins", part, _zeros(part), node, node, around=around), node, "")


def _zeros(node):
    """Zeros of the shape of an expression, as source."""
    name, args = getattr(getattr(node, "func", None), "attr", ""), getattr(node, "args", [])
    if args and name in ("empty", "ones", "full"):
        return f"np.zeros({ast.unparse(args[0])})"
    if name.endswith("_like") or name in ("copy", "array"):
        node = args[0] if args else node.func.value
    return f"np.zeros_like({ast.unparse(node)})"


def store_elsewhere(line, scope):
    """Another name, which is read after it, in the place of what a Line stores to."""
    node = line.node
    call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    to = call.args[:1] if getattr(getattr(call, "func", None), "attr", "") in \
        WRITES_FIRST_ARGUMENT else getattr(node, "targets", [getattr(node, "target", node)])
    stored = {part for one in to for part in ast.walk(one)}
    read = {n.id for n in ast.walk(line.function.node) if isinstance(n, ast.Name)
            and isinstance(n.ctx, ast.Load) and (n.lineno > line.last or line.loops)}
    return ((edit, node, "") for edit in edits(node, scope, False) if edit.kind == "name"
            and edit.part in stored and names_read_by(edit.new) & (read | {"self"}))


def shape_anew(line, ends):
    """What a Line computes with one of `ends` after it: its axes in another order, reshaped."""
    for part, around in parts_of(line.node):
        text = ast.unparse(part)
        if "zeros" not in text and (isinstance(line.node, ast.Return) or not isinstance(
                part, (ast.Name, ast.Attribute))):
            own = text if text.isidentifier() else f"({text})"
            kind = "transposed" if "transpose" in ends[0] else "shape"
            yield from ((Edit(TERM, kind, part, own + end, line.node, line.node, around=around),
                         line.node, "") for end in ends)

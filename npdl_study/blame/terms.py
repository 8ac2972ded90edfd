"""What is missing in a wrong value, found among the arrays that its function holds.

`explained(turns)` looks at what a statement wrote and what it should have written, and tries: a
factor, an order of entries, a part of the expression, a sum, a term, by their numbers alone.
"""

import ast
import itertools
import re
from dataclasses import dataclass, field, replace

import numpy as np

from npdl_study.blame.atoms import (
    CLOSE,
    LITERALS,
    Atom,
    atoms_of,
    derived,
    fitted,
    fittings,
    is_length,
    is_mask,
    is_plain,
    literal,
    number_named,
    numbers_of,
    ratio_of,
    readable,
    same,
)
from npdl_study.blame.inside import changed, evaluated, shifted
from npdl_study.blame.monomials import monomials
from npdl_study.blame.products import MOST_ATOMS, proportional

MOST_FOUND = 6
ODD = 4                         # the weight of a number that is none of the function's


@dataclass
class Explanation:
    """`kind` in a word; `text` says what is missing; `weight` is small for what is simple."""

    kind: str
    text: str
    weight: int = 1


@dataclass
class Turn:
    """What a statement wrote once, and should have: `names` are the locals that it could read,
    `further` those that are bound after it, `node` the expression, `care` 1 in the entries on
    which a gradient depends (the others are 0 in both)."""

    value: np.ndarray
    wanted: np.ndarray
    names: dict
    node: object = None
    further: dict = field(default_factory=dict)
    atoms: list = field(default_factory=list)
    care: object = 1.0


def explained(turns, source="", looks=None):
    """An Explanation of [Turn] or None.

    It has to hold in every turn in which the two differ. What the statement's `source` reads is
    tried first; `looks` are PARTS, what could be missing, or WHOLES, what it should be.
    """
    turns = [replace(t, atoms=atoms_of(t.names, t.wanted, source, t.further)) for t in turns
             if np.shape(t.value) == np.shape(t.wanted) and not same(t.value, t.wanted)]
    if not turns:
        return None
    few = turns[0].value.size < 3                       # two entries in one turn prove nothing
    best = None
    for look in looks or PARTS:
        if few and len(turns) == 1 and look is not _factors:
            continue
        found = {}
        for e in itertools.islice(look(turns[0]), MOST_FOUND):
            found.setdefault(e.text, e)
        for more in turns[1:]:
            if found:
                held = {e.text for e in itertools.islice(look(more), 8 * MOST_FOUND)}
                found = {text: e for text, e in found.items() if text in held}
        best = min([*found.values(), *[best] * (best is not None)], key=lambda e: e.weight,
                   default=None)
        if best is not None and best.weight < ODD:
            return best
    return best


def summed(turns, source):
    """An Explanation of a sum over [Turn] of one expression, that lacks `turns[0].wanted`: the
    same change of the expression in every turn; or None."""
    totals = []
    for turn in turns:
        own = evaluated(turn.node, turn.names) if turn.node is not None else None
        if own is None or own.shape != turn.wanted.shape:
            return None
        atoms = atoms_of(turn.names, turn.wanted, source)
        totals.append({(kind, text, weight): found - own for kind, text, weight, found in changed(
            turn.node, turn.names, [a for a in atoms if a.array.size > 1][:MOST_ATOMS],
            numbers_of(atoms)) if found.shape == own.shape})
    everywhere = [key for key in totals[0] if all(key in more for more in totals)]
    found = [Explanation(*key) for key in everywhere
             if same(sum(more[key] for more in totals), turns[0].wanted)]
    return min(found, key=lambda e: e.weight, default=None)


def scaled(ratio, step, names):
    """An Explanation of a value that one number, `ratio`, makes right; None where there is none."""
    if ratio is None:
        return None
    return _named_factor(ratio, atoms_of(names, step.writes[0].value))


def _factors(turn):
    """A factor is missing, or one too many: a number, a length, arrays."""
    v, wanted, atoms = turn.value, turn.wanted, turn.atoms
    ratio = ratio_of(v, wanted)
    if ratio is not None and (v.size > 1 or is_plain(ratio)):
        yield _named_factor(ratio, atoms)
        return
    if v.size < 2 or ratio is not None or (wanted[v == 0] != 0).any():
        return
    with np.errstate(all="ignore"):
        quotient = np.where(v == 0, 0, wanted / np.where(v == 0, 1, v))
    for atom in monomials(quotient, atoms, 2, turn.care):
        c = ratio_of(v * atom.array, wanted)
        if c is None:
            continue
        over = atom.label.removeprefix("1 / ")
        if over != atom.label and " / " not in over and number_named(c, ()) == "1":
            yield Explanation("missing factor", f"/ {over} is missing, or * {over} is one factor "
                              "too many", atom.weight)
            continue
        words = " (the mask)" if is_mask(atom.array) else ""
        yield Explanation("missing factor", f"a factor is missing: * {_times(c, atom.label)}"
                          f"{words}", atom.weight)


def _times(c, label, numbers=()):
    number = number_named(c, numbers)
    return label if number == "1" else f"{number} * {label}" if number[0] != "-" \
        else f"({number}) * {label}"


def _named_factor(c, atoms):
    """The Explanation of a value that is right times c: what number of the function's is c?"""
    if abs(c + 1) < CLOSE:
        return Explanation("sign", "the sign is wrong")
    ways = (way for label, value in numbers_of(atoms) for way in _ways(label, value))
    found = next((text for text, n in ways if abs(n - c) < CLOSE * abs(c)), "")
    says = f"it is {readable(1 / c)} times what it should be"
    odd = not found and not is_plain(c)
    either = f", or * {readable(c)}" if "sqrt" in found and is_plain(c) else ""     # of 4, of 9
    return Explanation("factor", f"{says}: {found or '* ' + readable(c)} is missing{either}",
                       1 + 3 * odd)


def _ways(label, value):
    """(text, number) of the factors that one number gives."""
    if value in LITERALS and is_length(label):          # one as good as the other
        label = literal(label, value)
    yield f"* {label}", value
    yield f"/ {label}", 1 / value
    if value > 0:
        yield f"* np.sqrt({label})", value**0.5
        yield f"/ np.sqrt({label})", value**-0.5
    if 0 < value < 1:
        yield f"* (1 - {label})", 1 - value
        yield f"/ (1 - {label})", 1 / (1 - value)


def _orders(turn):
    """The entries in another order: reversed, transposed, moved along an axis, blocks swapped;
    or another part of an array."""
    v, wanted = turn.value, turn.wanted
    for count in range(1, v.ndim + 1):
        for axes in itertools.combinations(range(v.ndim), count):
            if same(np.flip(v, axes), wanted):
                index = ", ".join("::-1" if i in axes else ":" for i in range(axes[-1] + 1))
                yield Explanation("reversed", f"it is not reversed along axis "
                                  f"{' and '.join(map(str, axes))}: [{index}] is missing, or one "
                                  "too many")
    for i, j in itertools.combinations(range(v.ndim), 2):
        if v.shape[i] == v.shape[j] and same(np.swapaxes(v, i, j), wanted):
            yield Explanation("transposed", "it is transposed"
                              + (f" (axes {i} and {j})" if v.ndim > 2 else ""))
    for axis, n in enumerate(v.shape):
        for count in (c for c in (2, 3, 4) if n % c == 0):
            blocks = np.split(v, count, axis)
            for order in itertools.permutations(range(count)):
                if list(order) != list(range(count)) and same(
                        np.concatenate([blocks[i] for i in order], axis), wanted):
                    yield Explanation("order", f"its {count} parts along axis {axis} are in "
                                      f"another order: they should be {list(order)} of these")
    for axis, n in enumerate(v.shape):
        for by in (1, -1, 2, -2) if n > 2 else ():
            if same(np.roll(v, by, axis), wanted) or same(shifted(v, axis, by), wanted):
                yield Explanation("moved", f"it must be moved by {by} along axis {axis}: another "
                                  "part of the array is meant")
    yield from _windows(turn)
    if v.size > 3 and same(np.sort(v, None), np.sort(wanted, None)):
        yield Explanation("order", "its entries are right, but in another order: a transpose, or "
                          "another order of the axes before a reshape, is missing", 2)


def _windows(turn):
    """It should be another part of an array, a slice of an axis or two."""
    wanted = turn.wanted
    for atom in turn.atoms if wanted.ndim else ():
        a = atom.array
        pairs = list(zip(a.shape, wanted.shape, strict=False))
        if a.ndim != wanted.ndim or not 1 <= sum(n != m for n, m in pairs) <= 2:
            continue
        for slices in itertools.product(*(_slices_of(n, m) for n, m in pairs)):
            part = a[slices]
            if same(part, wanted) and part.any():
                index = ", ".join(_shown_slice(s, n) for s, (n, _) in
                                  zip(slices, pairs, strict=True))
                yield Explanation("part", "another part of the array is meant: it should be "
                                  f"{atom.label}[{re.sub('(, :)+$', '', index)}]")


def _slices_of(n, count):
    """The slices of n entries that have `count`, in steps of 1, 2 or 3."""
    if n == count:
        return [slice(0, n, 1)]
    steps = (1, 2, 3) if count > 1 else (1,)
    return [slice(first, first + step * (count - 1) + 1, step) for step in steps
            for first in range(n - step * (count - 1))]


def _shown_slice(part, n):
    end = "" if part.stop == n else part.stop
    return f"{part.start or ''}:{end}" + (f":{part.step}" if part.step > 1 else "")


def _inside(turn):
    """One part of the expression lacks a factor, or is in another order, or another is meant."""
    value = evaluated(turn.node, turn.names) if turn.node is not None else None
    if value is None or value.shape != turn.value.shape or value.size < 2:
        return
    target = value + (turn.wanted - turn.value)
    atoms = [a for a in turn.atoms if a.array.size > 1][:MOST_ATOMS]
    for kind, text, weight, found in changed(turn.node, turn.names, atoms, numbers_of(turn.atoms)):
        if found.shape == target.shape and same(
                *(np.where(turn.care, a, 0.0) for a in (found, target))):
            yield Explanation(kind, text, weight)


def _where(turn):
    """It is wrong only where a mask of the function's is 0, or 1."""
    bad = np.abs(turn.value - turn.wanted) > CLOSE * np.abs(turn.wanted).max(initial=0)
    for atom in derived(fittings(turn.atoms, bad.shape)) if bad.any() and not bad.all() else ():
        for sign in (0, 1) if is_mask(atom.array) else ():
            if ((atom.array == sign) == bad).all():
                yield Explanation("mask", "it is wrong in the entries where the mask "
                                  f"{atom.label} is {sign}, and right in the others", 4)


def _reductions(turn):
    """Of a part of the expression a sum, over other axes, is meant."""
    wanted = turn.wanted
    nodes = [n for n in ast.walk(turn.node) if isinstance(n, ast.expr)] if turn.node else []
    for node in nodes:
        array = evaluated(node, turn.names)
        if array is None or array.size <= wanted.size or array.size > 4096 or not wanted.size > 1:
            continue
        for count in (1, 2):
            for axes in itertools.combinations(range(array.ndim), count):
                for keep in (False, True):
                    total = array.sum(axes, keepdims=keep)
                    c = ratio_of(total, wanted) if total.shape == wanted.shape else None
                    if c is not None and is_plain(c):
                        at = axes[0] if count == 1 else axes
                        yield Explanation(
                            "missing sum", "a sum is missing: it should be "
                            f"{_times(c, f'({ast.unparse(node)}).sum({at})')}")


def _terms(turn):
    """A term is missing: what has to be added is an expression of the function's arrays."""
    itself = Atom("(what it is now)", turn.value, 3)
    numbers = numbers_of(turn.atoms)
    for label, c, words, weight in proportional(turn.wanted - turn.value, [*turn.atoms, itself],
                                                turn.care):
        number = number_named(abs(c), numbers)
        mean = words.replace("the sum", "the mean") if number.startswith("1/") else words
        yield Explanation("missing term", f"a term is missing: {'-' if c < 0 else '+'} "
                          f"{'' if number == '1' else number + ' * '}{label}{mean}",
                          2 + weight + (number != "1") + ODD * ("." in number))


def _wholes(turn):
    """It should be another expression of the function's arrays."""
    v, wanted, atoms = turn.value, turn.wanted, turn.atoms
    for label, c, words, weight in proportional(wanted, atoms, turn.care):
        right = _times(c, label, numbers_of(atoms))
        yield Explanation("expression", f"it should be {right}{words}", weight + 2)
    yield from _projections(wanted, atoms)
    zero = np.abs(wanted) <= 1e-9 * max(np.abs(wanted).max(initial=0), 1e-300)
    same_entries = np.abs(v - wanted) <= CLOSE * max(np.abs(wanted).max(initial=0), 1e-300)
    if (zero | same_entries).all():
        yield Explanation("mask", "it should be 0 in the entries that are wrong: "
                          "a mask is not applied")
    for atom in fittings(atoms, wanted.shape) if 0 < zero.sum() < zero.size - 2 else ():
        if same(np.where(zero, 0.0, atom.array), wanted):
            yield Explanation("mask", f"it should be {atom.label} in some entries, and 0 in the "
                              "others: a mask, or an index, is missing")


def _sums(turn):
    """It should be the sum of an array and a product of powers."""
    wanted = turn.wanted
    for first in fittings(turn.atoms, wanted.shape)[:MOST_ATOMS] if wanted.size > 5 else ():
        for more in monomials((wanted - first.array) * turn.care, turn.atoms, 2, turn.care):
            c = ratio_of(more.array, (wanted - first.array) * turn.care)
            if c is not None and is_plain(c):
                yield Explanation("expression", f"it should be {first.label} "
                                  f"{'-' if c < 0 else '+'} {_times(abs(c), more.label)}",
                                  3 + first.weight + more.weight)


def _projections(wanted, atoms):
    """It should be one of the forms that a softmax or a norm gives, times a factor of the layer's.

    Their outputs depend on each other along an axis; so a sum over it is subtracted.
    """
    if wanted.size <= 3:
        return
    full = [a for a in atoms if a.array.shape == wanted.shape]
    factors = [Atom("", np.ones(()))] + [
        Atom(a.label, f) for a in atoms if (f := fitted(a.array, wanted.shape)) is not None]
    factors += [Atom(f"1 / {f.label}", 1 / f.array) for f in factors[1:] if (f.array != 0).all()]
    for axis in (*range(wanted.ndim - 1), -1):
        for a, b in itertools.permutations(full, 2):
            for (label, array, kind, what), f in itertools.product(_forms(a, b, axis), factors):
                c = ratio_of(array * f.array, wanted)
                if c is not None:
                    whole = f"{f.label} * ({label})" if f.label else label
                    yield Explanation(
                        f"missing {kind}", f"the {kind} {what} is missing or wrong: the entries "
                        f"along axis {axis} depend on each other; it should be {_times(c, whole)}",
                        3)


def _forms(a, b, axis):
    """(label, array, "sum" or "mean", which) where one of b, or of b * a, over an axis is
    subtracted."""
    def over(label, array, kind):
        return f"{label}.{kind}({axis}, keepdims=True)", getattr(array, kind)(axis, keepdims=True)

    x, g, product = a.array, b.array, f"({b.label} * {a.label})"
    along, s = over(product, x * g, "sum")
    mean_along, m = over(product, x * g, "mean")
    mean, m0 = over(b.label, g, "mean")
    yield f"{a.label} * ({b.label} - {along})", x * (g - s), "sum", along
    yield f"{b.label} - {mean}", g - m0, "mean", mean
    yield f"{b.label} - {a.label} * {along}", g - x * s, "sum", along
    yield f"{b.label} - {a.label} * {mean_along}", g - x * m, "mean", mean_along
    yield (f"{b.label} - {mean} - {a.label} * {mean_along}", g - m0 - x * m, "mean",
           f"{mean} and {mean_along}")


PARTS, WHOLES = (_factors, _orders, _inside, _reductions, _terms), (_wholes, _where, _sums)

"""The arrays and numbers that a function holds, as what a wrong value may lack."""

import itertools
import re
from dataclasses import dataclass

import numpy as np

from npdl.core import Cache, Layer, Param
from npdl_study.blame.weights import CLOSE, ZERO
from npdl_study.deviation import deviation


@dataclass
class Operand:
    """An array that the function holds, or a simple expression of one."""

    label: str
    array: np.ndarray
    weight: int = 0
    read: bool = False
    slope: bool = False


def agree(a, b):
    """Whether two arrays agree, to rounding."""
    return deviation(a, b, ZERO) <= CLOSE


def operands(names, like, source=""):
    """The Operands among a function's locals: arrays, numbers, fields of caches, parameters."""
    found = {}
    turns = {n: int(v) for n, v in names.items() if isinstance(v, int) and not isinstance(v, bool)}

    def add(label, value, weight):
        if isinstance(value, (bool, str)) or value is None:
            return
        if isinstance(value, list):                     # those of this turn
            for text, at, odd in _turns(turns, len(value)):
                if hasattr(value[at], "dtype"):
                    add(f"{label}[{text}]", value[at], weight + odd)
            return
        if isinstance(value, (int, float, np.ndarray, np.number)):
            array = np.asarray(value)
            if array.dtype.kind in "fiub" and array.size <= 4096 and (array.size or None):
                found.setdefault(label, Operand(label, array.astype(float), weight))

    for name, value in names.items():
        add(name, value, 0)
        if isinstance(value, dict):
            for key, item in value.items():
                add(f'{name}["{key}"]', item, 0)
        elif isinstance(value, (Cache, Layer)) or name == "self" and hasattr(value, "__dict__"):
            for field, item in vars(value).items():
                add(f"{name}.{field}" + ".data" * isinstance(item, Param),
                    item.data if isinstance(item, Param) else item, 0)
    for operand in list(found.values()):            # of dy (B, T, D), the turn's own dy[:, t]
        if operand.array.ndim == np.ndim(like) + 1 > 1 and not re.search(r"\[[^\"]", operand.label):
            for text, at, odd in _turns(turns, operand.array.shape[1]):
                add(f"{operand.label}[:, {text}]", operand.array[:, at], 1 + odd)
    for operand in list(found.values()):                   # 1 where an array of classes points
        a = operand.array
        if np.ndim(like) and a.shape == np.shape(like)[:-1] and a.size > 1 \
                and (a == np.round(a)).all() and 0 <= a.min() <= a.max() < np.shape(like)[-1]:
            add(f"np.eye({np.shape(like)[-1]})[{operand.label}]",
                np.eye(np.shape(like)[-1])[a.astype(int)], 1)
    if np.ndim(like) == 2 and len(set(np.shape(like))) == 1 < np.shape(like)[0]:
        add(f"np.eye({np.shape(like)[0]})", np.eye(len(like)), 1)
    seen, kept = set(), []
    for operand in sorted(found.values(), key=lambda a: (a.weight, "[" in a.label, "." in a.label)):
        key = (operand.array.shape, operand.array.tobytes())
        if key not in seen:                              # x, and the same as cache.x
            seen.add(key)
            kept.append(operand)
    for operand in kept:
        operand.read = re.search(rf"(?<![\w.]){re.escape(operand.label)}(?!\w)", source) is not None
        operand.weight += not operand.read
    return sorted(kept, key=lambda a: (not a.read, a.array.shape != np.shape(like),
                                           a.array.size))


def _turns(turns, length):
    """(text, index, weight): t, t + 1 and t - 1 for every number t, later names (loops' turns)
    first."""
    for i, (name, t) in enumerate(reversed(turns.items())):
        for text, at in ((name, t), (f"{name} + 1", t + 1), (f"{name} - 1", t - 1)):
            if 0 <= at < length:
                yield text, at, (at != t) + 2 * (i > 0)


def broadcast_or_none(array, shape):
    """`array` broadcast to a shape, or None; (B,) rows count for (B, 1) too."""
    return next((f for _, f in _spread(array, shape)), None)


def broadcasts_of(operands, shape):
    """Operands broadcast to a shape, in every way in which axes may be put in: x, x[:, None, :]."""
    found, own = [], set()
    for operand in sorted(operands, key=lambda a: a.weight):
        for index, array in _spread(operand.array, shape) if operand.array.size > 1 else ():
            key = array.tobytes()
            if key not in own:
                own.add(key)
                found.append(Operand(operand.label + index, array, operand.weight))
    return found


def _spread(array, shape):
    """(index, array) of the ways in which an array may be broadcast to a shape."""
    missing = len(shape) - array.ndim
    for places in itertools.combinations(range(len(shape)), missing) if missing >= 0 else ():
        own = [i for i in range(len(shape)) if i not in places]
        if all(n in (1, shape[i]) for i, n in zip(own, array.shape, strict=True)):
            index = ", ".join("None" if i in places else ":" for i in range(len(shape)))
            leading = places == tuple(range(missing))
            yield "" if leading else f"[{index}]", np.broadcast_to(
                np.expand_dims(array, places), shape)


def is_mask(array):
    return bool(np.isin(array, (0.0, 1.0)).all())


def with_slopes(operands):
    """Operands, and what a slope is made of: 1 - a, 1 - a**2, a > 0."""
    with np.errstate(all="ignore"):
        for operand in operands:
            a, label = operand.array, operand.label
            yield operand
            slopes = [(f"(1 - {label})", 1 - a)]
            if not is_mask(a):
                slopes += [(f"(1 - {label}**2)", 1 - a * a), (f"({label} > 0)", 1.0 * (a > 0))]
            yield from (Operand(text, array, operand.weight + 1, slope=True)
                        for text, array in slopes)


def ratio_of(v, wanted):
    """c with c * v == wanted, or None."""
    size = (v * v).sum()
    if not np.isfinite(size) or size == 0:
        return None
    c = float((v * wanted).sum() / size)
    return c if c != 0 and agree(c * v, wanted) else None


def format_number(number):
    """A number as a student would write it: 3, 1/4, sqrt(2), 1/sqrt(3), 0.3679."""
    sign, size = "-" * (number < 0), abs(number)
    if size == 0 or not np.isfinite(size):
        return str(number)
    for most, value, text in ((64, size, "{}"), (64, 1 / size, "1/{}"), (16, size**2, "sqrt({})"),
                              (16, size**-2, "1/sqrt({})")):
        whole = round(value)
        if 0 < whole <= most and abs(value - whole) < CLOSE * value:
            return sign + text.format(whole)
    return f"{number:.4g}"


def is_plain(number):
    return "." not in format_number(number) and "e" not in format_number(number)


def numbers_of(operands):
    """[(label, value)] of the function's numbers, and of the lengths of its arrays."""
    found = [(a.label, float(a.array.ravel()[0])) for a in operands if a.array.size == 1]
    for operand in operands:
        if operand.array.size > 1:
            found += [(f"{operand.label}.shape[{i}]", n) for i, n in enumerate(operand.array.shape)]
            found += [(f"{operand.label}.size", operand.array.size)] * (operand.array.ndim > 1)
    first = {}
    for label, value in found:
        first.setdefault(value, label)
    return [(label, value) for value, label in first.items() if value not in (0, 1)]


def is_length(label):
    return label.endswith((".size", "]")) and ".s" in label


def name_number(c, numbers):
    """A number in the function's own words: dloss / N, np.sqrt(D), 1/2, 0.3679."""
    if is_plain(c):
        return format_number(c)
    own = [("1", 1.0), *numbers, *((f"(1 - {a})", 1 - x) for a, x in numbers if 0 < x < 1)]
    ways = [(f"{a} * {b}", x * y) for (a, x), (b, y) in itertools.combinations(own, 2)]
    ways += [(f"{a} / {b}", x / y) for (a, x), (b, y) in itertools.permutations(own, 2)]
    ways += [(f"{a} * np.sqrt({b})", x * y**0.5) for a, x in own[:1] for b, y in numbers if y > 0]
    for text, value in ways:
        if abs(abs(value) - abs(c)) < CLOSE * abs(c):
            return "-" * (value * c < 0) + text.removeprefix("1 * ")
    return format_number(c)

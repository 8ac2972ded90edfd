"""Products of powers of the arrays that a function holds: which of them is a given array?"""

import itertools
from dataclasses import replace

import numpy as np

from npdl_study.blame.operands import Operand, agree, broadcasts_of, is_mask, with_slopes
from npdl_study.blame.weights import POINTS, POWER, RIDGE, ZERO

BASES, SLOPES = 14, 40          # arrays that are tried, and their slopes: 1 - a, 1 - a**2
POWERS = {-3, -2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 3}


def power_products(goal, operands, most=4, care=1.0):
    """Yield the Operands a * b / c**2 ... of which `goal` is a multiple where `care` is 1 (it is 0
    elsewhere), the simplest first.

    The logarithm of such a product is linear in the powers; so these are solved for, for every
    choice of a few arrays at once, rounded, and the product is compared with the goal.
    """
    size = np.abs(goal).max(initial=0)
    known = np.abs(goal) > ZERO * size if size else np.zeros(goal.shape, bool)
    count = int(known.sum())
    if count < 2 or not np.isfinite(goal).all():
        return
    aligned = broadcasts_of(operands, goal.shape)
    zeros = ~known & (np.broadcast_to(care, goal.shape) == 1)
    masks = [m for m in with_slopes(aligned) if is_mask(m.array)
             and ((m.array * care == 0) == ~known).all()] if zeros.any() else []
    yield from masks[:1] if masks and agree(
        *_scaled(goal, masks[0].array * care)) else ()
    bases = [a for a in aligned if _varies(a.array[known])][:BASES]
    slopes = [d for d in with_slopes(aligned[:BASES])
              if d.slope and _varies(d.array[known])][:SLOPES]
    at = np.flatnonzero(known)[:: -(-count // POINTS)]
    logs = np.log(np.abs([a.array.ravel()[at] for a in bases + slopes] + [goal.ravel()[at]]))
    logs -= logs.mean(1, keepdims=True)                 # a factor is free
    gram = logs @ logs.T
    for chosen in _choices(len(bases), len(slopes), min(most, len(at) - 1)):
        square = gram[chosen[:, :, None], chosen[:, None, :]]
        square = square + RIDGE * np.trace(square, axis1=1, axis2=2)[:, None, None] * np.eye(
            chosen.shape[1])
        try:
            powers = np.linalg.solve(square, gram[chosen, -1][..., None])[..., 0]
        except np.linalg.LinAlgError:                   # of arrays that are too much alike
            continue
        rounded = np.round(2 * powers) / 2
        close = (np.abs(powers - rounded) < POWER).all(1) & np.isin(rounded, list(POWERS)).all(1)
        for row in np.flatnonzero(close)[:200]:
            found = _product([((bases + slopes)[i], p) for i, p in
                              zip(chosen[row], rounded[row], strict=True)])
            for mask in (None, *masks[:1]):
                whole = found if mask is None else replace(
                    _product([(found, 1), (mask, 1)]), weight=found.weight + 1)
                whole = replace(whole, array=whole.array * care)
                if agree(*_scaled(goal, whole.array)):
                    yield whole


def _choices(bases, slopes, most):
    """Arrays of the choices of one base and more, with one slope or none: (choices, size)."""
    for size in range(1, most + 1):
        plain = np.array(list(itertools.combinations(range(bases), size)), int)
        fewer = np.array(list(itertools.combinations(range(bases), size - 1)), int)
        if len(plain):
            yield plain
        if len(fewer) and slopes:
            own = np.tile(np.arange(bases, bases + slopes), len(fewer))
            beside = np.repeat(fewer.reshape(len(fewer), size - 1), slopes, 0)
            yield np.concatenate([beside, own[:, None]], 1)


def _varies(array):
    with np.errstate(all="ignore"):
        return bool((array != 0).all() and np.ptp(np.abs(array)) > ZERO * np.abs(array).max())


def _scaled(goal, array):
    """The goal, and the multiple of an array that comes nearest to it."""
    with np.errstate(all="ignore"):
        size = (array * array).sum()
        return goal, array * ((array * goal).sum() / size if np.isfinite(size) and size else 0.0)


def _product(factors):
    """The Operand of [(operand, power)], those that divide last."""
    over = [(a, p) for a, p in factors if p > 0]
    under = [(a, -p) for a, p in factors if p < 0]
    array, weight = np.ones(()), 0
    for operand, power in factors:
        base = operand.array if power == round(power) else np.abs(operand.array)
        with np.errstate(all="ignore"):
            array = array * base**power
        weight += 1 + operand.weight + (abs(power) != 1)
    text = " * ".join(_powered(a.label, p) for a, p in over) or "1"
    return Operand(text + "".join(f" / {_powered(a.label, p)}" for a, p in under), array, weight)


def _powered(label, power):
    if power == 0.5:
        return f"np.sqrt({label})"
    if power == 1:
        return label
    return f"{label}**{power:g}"

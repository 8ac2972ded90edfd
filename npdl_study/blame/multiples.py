"""Expressions of a function's arrays of which a given array is a multiple: products of powers,
matrix products, sums of products."""

import itertools
import re

import numpy as np

from npdl_study.blame.operands import broadcast_or_none, name_number, numbers_of, ratio_of
from npdl_study.blame.power_products import power_products
from npdl_study.blame.weights import ODD, PAIRED, PRODUCT, ZERO


def multiples_of(goal, operands, care=1.0):
    """(label, factor, note, weight) of the candidates of which `goal` is a multiple where `care`
    is 1, odd factors last."""
    size = np.abs(goal).max(initial=0)
    if goal.size < 2 or size == 0:
        return
    unit = goal / np.sqrt((goal * goal).sum())
    numbers, odd, simple = numbers_of(operands), [], []

    def candidates():
        for a in power_products(goal, operands, care=care):
            yield a.label, a.array, "", a.weight
        for label, array, note in _candidates(operands, goal.shape):
            yield label, array, note, None
        if not simple:
            yield from _scaled(goal, operands)

    for label, array, note, weight in candidates():
        with np.errstate(all="ignore"):
            array = array * care
            projection, length = (array * unit).sum(), (array * array).sum()
            if projection * projection > (1 - ZERO) * length > 0:
                c = ratio_of(array, goal)
                weight = _complexity(label, operands) if weight is None else weight
                if c is not None and "." not in name_number(c, ()):
                    simple.append(label)
                    yield label, c, note, weight
                elif c is not None:
                    odd.append((label, c, note, weight + ODD["term"]))
    named = [found for found in odd if "." not in name_number(found[1], numbers).replace(".s", "")]
    yield from named or odd[:1]


def _scaled(goal, operands):
    """Matrix products and sums of products, times or by one array or two, that give `goal`."""
    few = [a for a in operands if a.array.size > 1][:PAIRED]
    sums = (found for label, product in _products(few[:8], goal.shape)
            for found in _sums(label, product, goal.shape))
    for label, array, *note in itertools.chain(_matrix_products(few, goal.shape), sums):
        if array.all():
            for by in power_products(goal / array, operands, 2):
                inner = label if ".sum(" in label else f"({label})"
                yield f"{by.label} * {inner}", array * by.array, "".join(note), None


def _complexity(label, operands):
    """How much is in an expression: its operations, and what its arrays weigh."""
    read = [a.weight for a in operands
            if re.search(rf"(?<![\w.]){re.escape(a.label)}(?!\w)", label)]
    return 1 + len(re.findall(r" [*@+-] |sum", label)) + max(read, default=0)


def _products(operands, shape):
    """(label, array) of arrays, and of products of two, outer and matrix products too."""
    for operand in operands:
        yield operand.label, operand.array
    for a, b in itertools.combinations_with_replacement(operands, 2):
        try:
            if np.prod(np.broadcast_shapes(a.array.shape, b.array.shape)) <= PRODUCT:
                yield f"{a.label} * {b.label}", a.array * b.array
        except ValueError:
            continue
    yield from _matrix_products(operands, shape)


def _matrix_products(operands, shape):
    """(label, array) of the outer and matrix products of two arrays that have a shape."""
    for a, b in itertools.permutations(operands, 2):
        if a.array.ndim == b.array.ndim == 1 and (a.array.size, b.array.size) == tuple(shape):
            yield f"np.outer({a.label}, {b.label})", np.outer(a.array, b.array)
        if a.array.ndim < 2 or b.array.ndim < 2:
            continue
        left, right = np.swapaxes(a.array, -1, -2), np.swapaxes(b.array, -1, -2)
        for label, x, y in ((f"{a.label} @ {b.label}", a.array, b.array),
                            (f"{a.label} @ {b.label}.T", a.array, right),
                            (f"{a.label}.T @ {b.label}", left, b.array)):
            if x.shape[-1] == y.shape[-2] and (*x.shape[:-1], y.shape[-1]) == tuple(shape):
                try:
                    yield label, x @ y
                except ValueError:
                    continue


def _candidates(operands, shape):
    """(label, array, note) of what a missing term may be beside products of powers."""
    operands = [a for a in operands if a.array.size > 1][:PAIRED]
    flips = [(f"{a.label}[{':, ' * axis}::-1]", np.flip(a.array, axis))
             for a in operands for axis in range(a.array.ndim) if a.array.shape == tuple(shape)]
    sums = []
    for label, product in itertools.chain(_products(operands, shape), flips):
        if product.shape == tuple(shape):
            yield label, product, ""
        sums += _sums(label, product, shape)
    yield from sums


def _sums(label, product, shape):
    """The sums of a product over one axis, or two of three, that fit a shape."""
    found = []
    n = product.ndim
    for axes in [(axis,) for axis in range(n)] + [(0, 1), (0, 2), (1, 2)] * (n == 3):
        if len(shape) and all(product.shape[axis] > 1 for axis in axes):
            keep = n == len(shape)
            aligned = broadcast_or_none(product.sum(axes, keepdims=keep), shape)
            if aligned is None and keep:
                keep, aligned = False, broadcast_or_none(product.sum(axes), shape)
            last = axes == (n - 1,)
            where = "the last axis" if last else " and ".join(f"axis {axis}" for axis in axes)
            at = -1 if last else axes[0] if len(axes) == 1 else axes
            if aligned is not None:
                found.append((f"({label}).sum({at}{', keepdims=True' * keep})", aligned,
                              f" (the sum over {where} of {label})"))
    return found

"""What a wrong value lacks, found in its numbers among the arrays that its function holds.

A factor, a term, a sum, another expression: each is given as the whole new one, to be run.
"""

import ast
import itertools

import numpy as np

from npdl_study.blame.derivatives import formula
from npdl_study.blame.multiples import multiples_of
from npdl_study.blame.operands import (
    agree,
    format_number,
    is_length,
    is_plain,
    name_number,
    numbers_of,
    ratio_of,
)
from npdl_study.blame.power_products import power_products
from npdl_study.blame.weights import (
    ARRAY,
    CLOSE,
    FACTOR,
    FORMULA,
    LETTER,
    MISSING,
    ODD,
    OF_A_KIND,
    TERM,
)


def numeric_edits(value, wanted, text, operands, derivatives=()):
    """(cost, kind, expression, note) of what could be meant by an expression that gives `value`
    where `wanted` is right, the simplest first; of forward's Derivatives too."""
    if np.shape(value) != np.shape(wanted) or agree(value, wanted):
        return []
    found = []
    for find_kind in (_factors, _terms, _expressions, _rearrangements):
        with np.errstate(all="ignore"):
            found += itertools.islice(find_kind(value, wanted, text, operands), OF_A_KIND)
    found += _slope_products(wanted, operands, derivatives)
    return sorted(found, key=lambda f: f[0])


def _bracketed(text):
    return text if text.isidentifier() else f"({text})"


def _number(c, numbers):
    """A number as source: N, 1 / N, np.sqrt(d), 0.5."""
    named = name_number(c, numbers)
    if named.startswith("sqrt(") or "/sqrt(" in named:
        named = named.replace("sqrt", "np.sqrt")
    return named


def _factors(value, wanted, text, operands):
    c = ratio_of(value, wanted)
    own = _bracketed(text)
    if c is not None:
        if value.size == 1 and not is_plain(c):
            return
        if abs(c + 1) < CLOSE:
            yield FACTOR, "sign", f"-{own}", "the sign is wrong"
            return
        says = f"it is {format_number(1 / c)} times what it should be"
        for label, n in numbers_of(operands):
            cost = FORMULA if is_length(label) else TERM
            for new, factor in ((f"{own} * {label}", n), (f"{own} / {label}", 1 / n),
                                (f"{own} * np.sqrt({label})", abs(n) ** 0.5),
                                (f"{own} / np.sqrt({label})", abs(n) ** -0.5),
                                (f"{own} * (1 - {label})", 1 - n)):
                if abs(factor - c) < CLOSE * abs(c):
                    yield cost, "factor", new, says
        cost = MISSING["factor"] + ODD["factor"] * (not is_plain(c))
        yield cost, "factor", f"{own} * {_number(c, ())}", says
        return
    if value.size < 2 or (wanted[value == 0] != 0).any():
        return
    quotient = np.where(value == 0, 0, wanted / np.where(value == 0, 1, value))
    for operand in power_products(quotient, operands, 2):
        c = ratio_of(value * operand.array, wanted)
        if c is None:
            continue
        number = _number(c, numbers_of(operands))
        label = operand.label                           # 1 / a / b
        new = f"{own}{label[1:]}" if label.startswith("1 / ") else f"{own} * {label}"
        new += "" if number == "1" else f" * ({number})"
        yield (MISSING["factor"] + ARRAY * operand.weight + ODD["factor"] * ("." in number),
               "missing factor", new,
               f"a factor is missing: {new.removeprefix(own).strip()}")


def _terms(value, wanted, text, operands):
    numbers = numbers_of(operands)
    for label, c, note, weight in multiples_of(wanted - value, operands):
        number = _number(abs(c), numbers)
        term = label if number == "1" else f"{number} * {_bracketed_sum(label)}"
        sign = "-" if c < 0 else "+"
        if sign == "-":
            term = term if number != "1" else _bracketed_sum(label)
        yield (MISSING["term"] + ARRAY * weight + (number != "1") + ODD["term"] * ("." in number),
               "missing term",
               f"{text} {sign} {term}", f"a term is missing: {sign} {term}{note}")


def _expressions(value, wanted, text, operands):
    numbers = numbers_of(operands)
    for label, c, note, weight in multiples_of(wanted, operands):
        number = _number(c, numbers)
        new = label if number == "1" else f"-{_bracketed_sum(label)}" if number == "-1" else \
            f"{number} * {_bracketed_sum(label)}"
        yield (MISSING["whole"] + ARRAY * weight + ODD["term"] * ("." in number), "expression", new,
               f"it should be {new}{note}")
    yield from _softmaxes(wanted, operands)
    for operand in operands:                                  # a + products: dy + dq
        if operand.array.shape == wanted.shape and operand.weight < 2 and wanted.size > 1:
            for more in power_products(wanted - operand.array, operands, 2):
                c = ratio_of(more.array, wanted - operand.array)
                if c is not None and is_plain(c):
                    term = more.label if abs(c) == 1 else f"{format_number(abs(c))} * {more.label}"
                    new = f"{operand.label} {'-' if c < 0 else '+'} {term}"
                    cost = MISSING["sum"] + ARRAY * more.weight
                    yield cost, "expression", new, f"it should be {new}"


def _slope_products(wanted, operands, derivatives):
    """f'(a), alone or times a gradient."""
    for slope in (d for d in derivatives if wanted.size > 1):
        shape, ahead = slope.array.shape, tuple(range(slope.array.ndim - wanted.ndim))
        if shape[len(ahead):] != wanted.shape:
            continue
        for g in [None, *(a for a in operands if a.array.shape in (shape, ()))]:
            with np.errstate(all="ignore"):
                product = (slope.array * (1 if g is None else g.array)).sum(ahead)
                c = ratio_of(product, wanted)
            text = formula(slope, operands) if c is not None and is_plain(c) else None
            if text:
                new = text if g is None else f"{g.label} * {_bracketed_factor(text)}"
                new = f"({new}).sum({ahead[0] if len(ahead) == 1 else ahead})" if ahead else new
                cost = MISSING["slope"] + ARRAY * (g.weight if g else 0) + LETTER * len(new)
                yield (cost, "expression", _times(c, new),
                       f"f'({slope.by}) is missing: the slope of {slope.of} is {text}")


def _bracketed_factor(text):
    """A factor as source, in brackets where it is no product."""
    node = ast.parse(text, mode="eval").body
    return f"({text})" if isinstance(node, ast.UnaryOp) or isinstance(
        node, ast.BinOp) and not isinstance(node.op, (ast.Mult, ast.Pow)) else text


def _softmaxes(wanted, operands):
    """The whole Jacobian of a softmax p, times a gradient: p is positive, its rows sum to 1."""
    alike = [a for a in operands if a.array.shape == wanted.shape and wanted.ndim]
    for p in alike:
        if np.allclose(np.exp(p.array).sum(-1), 1):     # its logarithm
            for g in alike:
                if agree(g.array - np.exp(p.array) * g.array.sum(-1, keepdims=True), wanted):
                    new = f"{g.label} - np.exp({p.label}) * {g.label}.sum(-1, keepdims=True)"
                    yield MISSING["softmax"] + ARRAY * g.weight, "expression", new, (
                        "each output of a log-softmax depends on its whole row: a sum over the "
                        "last axis is missing")
        if (p.array > 0).all() and np.allclose(p.array.sum(-1), 1):
            for g in alike:
                inner = g.array - (g.array * p.array).sum(-1, keepdims=True)
                c = ratio_of(p.array * inner, wanted)
                if c is not None and is_plain(c):
                    dot = f"({g.label} * {p.label}).sum(-1, keepdims=True)"
                    new = _times(c, f"{p.label} * ({g.label} - {dot})")
                    yield MISSING["softmax"] + ARRAY * g.weight, "expression", new, (
                        "each output of a softmax depends on its whole row: the Jacobian takes "
                        f"{dot} away")


def _times(c, text):
    return text if abs(c - 1) < CLOSE else f"{format_number(c)} * {_bracketed_factor(text)}"


def _bracketed_sum(label):
    """A label, in brackets where it is a sum."""
    node = ast.parse(label, mode="eval").body
    plus = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.MatMult))
    return f"({label})" if plus else label


def _rearrangements(value, wanted, text, _):
    own = _bracketed(text)
    for count in range(1, value.ndim + 1):
        for axes in itertools.combinations(range(value.ndim), count):
            if agree(np.flip(value, axes), wanted):
                index = ", ".join("::-1" if i in axes else ":" for i in range(axes[-1] + 1))
                yield TERM, "reversed", f"{own}[{index}]", ""
    for i, j in itertools.combinations(range(value.ndim), 2):
        if value.shape[i] == value.shape[j] and agree(np.swapaxes(value, i, j), wanted):
            yield TERM, "transposed", f"{own}.swapaxes({i}, {j})", "it is transposed"

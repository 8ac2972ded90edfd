"""Equations of modular arithmetic, quantized matrices, adapters, clipping."""

import functools
import math

import numpy as np

from exercises.references.functions import times, wide
from exercises.references.table import SHOWN, forward, layer, same


@layer("LoRALinear")
def lora(self, x):
    return forward(self.base, x) + self.scale * times(times(x, self.A.data), wide(self.B.data).T)


@same("adapt.models", "merged_linear")
def merged_linear(adapter):
    update = [times(wide(adapter.A.data)[d][None], wide(adapter.B.data).T)[0]
              for d in range(adapter.sizes[0])]
    return wide(matrix(adapter.base)) + adapter.scale * np.array(update)


def parts_of(thing):
    """A layer and all layers in it."""
    inner = thing if isinstance(thing, (list, tuple)) else getattr(thing, "__dict__", {}).values()
    return [*([thing] if hasattr(thing, "forward") else []), *(
        part for item in inner if isinstance(item, (list, tuple)) or hasattr(item, "forward")
        for part in parts_of(item))]


@same("adapt.models", "report")
def report(model, rows=1):
    """Numbers that learn, numbers that do not, bytes: array by array."""
    learned = frozen = stored = 0
    for part in parts_of(model):
        arrays = [a for a in vars(part).values() if hasattr(a, "trainable") and np.ndim(a.data)]
        learned += sum(a.data.size for a in arrays if a.trainable)
        stored += sum(len(a.data.tobytes()) for a in arrays)
        still = [a for a in arrays if not a.trainable]
        if hasattr(part, "packed"):                         # its bytes and steps stand for W
            still = [a for a in still if a not in (part.packed, part.step, part.scale)]
            frozen += part.sizes[0] * part.sizes[1]
        frozen += sum(a.data.size for a in still)
    return learned, frozen, stored


@same("optim", "clip_by_global_norm")
def clip_by_global_norm(params, max_norm):
    """(the norm before, every gradient after); called before npdl's own changes them."""
    grads = [wide(p.grad) for p in params]
    norm = math.sqrt(math.fsum(g**2 for grad in grads for g in grad.flat))
    return norm, [g * min(1.0, max_norm / (norm + 1e-6)) for g in grads]


@same("data.arithmetic", "ModularArithmetic._solved")
def solved(self, order):
    """Operands and results, sorted."""
    return equations(self.p, self.q, self.operator, self.symmetric, order)


@functools.cache
def equations(p, q, operator, symmetric, order):
    """Every a o b o c = r, one at a time, from left to right, modulo q."""
    rows = []
    for operands in np.ndindex(*(p,) * order):
        if symmetric and list(operands) != sorted(operands):
            continue
        total = operands[0]
        if operator == "/":
            if 0 in operands[1:]:
                continue
            for b in operands[1:]:
                total = next(c for c in range(p) if c * b % p == total)
        for b in operands[1:]:
            total = {"+": total + b, "-": total - b, "*": total * b}.get(operator, total)
        rows.append((*operands, total % q))
    return np.array(sorted(rows))


@same("data.arithmetic", "ModularArithmetic._split")
def split(self):
    """Places in the shuffled equations: of each group the first share, and what is left."""
    train, rest = [], []
    for order in self.orders if self.stratified else [None]:
        rows = [i for i, own in enumerate(self.equations.orders) if order in (None, own)]
        cut = round(len(rows) * self.r_train)
        train, rest = train + rows[:cut], rest + rows[cut:]
    return np.array(train, int), np.array(rest, int)


@same("data.arithmetic", "ModularArithmetic._listed")
def listed(self):
    """The tokens of every equation, (N, S + 1), sorted: BOS a o b = r EOS PAD .."""
    ids, rows = {token: i for i, token in enumerate(self.vocabulary.tokens)}, []
    for order in self.orders:
        for *operands, result in solved(self, order):
            row = [ids["BOS"]]
            for a in operands:
                row += [ids[str(a)], ids[self.operator]]
            row[-1:] = [ids["="], ids[str(result)], ids["EOS"]]
            rows.append(row + [ids["PAD"]] * (self.sequence_length + 1 - len(row)))
    return np.array(sorted(rows))


def codes_of(packed, size):
    """What m bits a number stand for: bit b of number i is bit 7 - i % 8 of packed[b, i // 8]."""
    i, total = np.arange(size), np.zeros(size, int)
    for b, plane in enumerate(packed.astype(int)):
        total += (plane[i // 8] >> (7 - i % 8) & 1) * 2**b
    return total - 2 ** (len(packed) - 1)


def quantile(p):
    """Where the standard normal's distribution function is p, by halving."""
    low, high = -9.0, 9.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle / math.sqrt(2)) < 2 * p else (low, middle)
    return low


OUTER = 929 / 960                   # NF4's largest probability (arXiv:2305.14314)
SPREAD = [0.5 + k * (OUTER - 0.5) / 8 for k in range(9)], [0.5 + k * (OUTER - 0.5) / 7
                                                            for k in range(1, 8)]
LEVELS = np.array([*(-quantile(p) for p in SPREAD[1][::-1]), 0, *map(quantile, SPREAD[0][1:])]
                  ) / quantile(OUTER)


@same("adapt.quantize", "dequantize")
def dequantize(codes, step, block=None, rounding="floor"):
    own, units = np.arange(codes.size) // (block or codes.size), codes.ravel().astype(int)
    units = LEVELS[units + 8] if rounding == "nf4" else units
    return (units * wide(step)[own]).reshape(codes.shape)


@same("adapt.quantize", "quantize")
def quantize(W, bits=4, rounding="floor", block=None):
    """(codes, steps). A quotient within rounding of an integer is that integer."""
    top, own = 2 ** (bits - 1) - 1, np.arange(W.size) // (block or W.size)
    flat, near = wide(W).ravel(), 8 * np.finfo(np.promote_types(W.dtype, np.float32)).eps
    largest = np.array([abs(flat[own == k]).max() for k in range(own[-1] + 1)])
    if rounding == "nf4":
        units = flat / np.where(largest == 0, 1, largest)[own]
        codes = abs(units[:, None] - LEVELS).argmin(1) - 8
        return codes.reshape(W.shape), largest
    q = flat * top / np.where(largest == 0, 1, largest)[own]
    whole = np.round(q)
    whole = np.where((abs(q - whole) <= near * abs(whole)) | (rounding == "nearest"), whole,
                     np.floor(q))
    return whole.reshape(W.shape), largest / top


@same("adapt.quantize", "quantize_steps")
def quantize_steps(step):
    mean = step.mean()
    codes, scale = quantize(step - mean, 8, "nearest", 256)
    return codes, [*scale, mean]


@same("adapt.linears", "QuantLinear.weight")
def quant_weight(self):
    codes = codes_of(self.packed.data, self.sizes[0] * self.sizes[1]).reshape(self.sizes)
    step = wide(self.step.data)
    if self.scale is not None:
        *scale, mean = wide(self.scale.data)
        step = np.array([code * scale[i // 256] + mean for i, code in enumerate(step)])
    return dequantize(codes, step, self.block, self.rounding)


def matrix(linear):
    """W (D, E) of a linear map, as floats."""
    return quant_weight(linear) if hasattr(linear, "packed") else linear.W.data


@same("adapt.quantize", "pack")
def pack(codes, bits):
    """The codes, to be compared with what the packed bytes stand for, and the bytes' shape."""
    return codes.ravel(), [bits, math.ceil(codes.size / 8)]


@same("adapt.quantize", "stored_bytes")
def stored_bytes(size, bits, block=None, itemsize=4, double=False):
    steps = math.ceil(size / (block or size))
    of_steps = steps + itemsize * (math.ceil(steps / 256) + 1) if double else itemsize * steps
    return bits * math.ceil(size / 8) + of_steps


def of_examples(examples, dataset):
    """The rows of `listed`, out of npdl's Examples."""
    rows = np.column_stack([examples.inputs, examples.targets[:, -1:]])
    eq = [list(row).index(dataset.vocabulary.eq) - 1 for row in rows]
    fine = ((examples.eq_positions == eq).all() and (examples.inputs[:, 1:] ==
            examples.targets[:, :-1]).all() and (examples.orders * 2 - 1 == eq).all()
            and (examples.mask == (examples.targets != dataset.vocabulary.pad)).all())
    return np.array(sorted(map(list, rows))) if fine else None


SHOWN |= {                          # what of a result is compared, where that is not the result
    report: lambda result, *_: (result.trainable, result.frozen, result.stored_bytes),
    merged_linear: lambda result, adapter: result.W.data,
    clip_by_global_norm: lambda norm, params, *_: (norm, [p.grad for p in params]),
    solved: lambda result, *_: np.array(sorted(map(tuple, np.column_stack(result)))),
    listed: lambda result, dataset: of_examples(result, dataset),
    quantize_steps: lambda result, step: (result[0], list(result[1])),
    pack: lambda packed, codes, bits: (codes_of(packed, codes.size), list(packed.shape)),
}

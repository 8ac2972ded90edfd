"""Document 000, Question 4: the m-bit quantizer, its inverse, and what four bits can mean."""

from fractions import Fraction
from functools import partial
from math import floor

import numpy as np

from exercises.framework import Claim, judge
from exercises.references.data import LEVELS
from exercises.worked import Solution, Table, num, vec
from npdl.adapt import report
from npdl.adapt.linears import QuantLinear
from npdl.adapt.quantize import NF4, dequantize, quantize, stored_bytes
from npdl.layers.linear import Linear

QUESTION = """\
4.   QLoRA keeps a frozen matrix as m-bit integers:
       quant(W) = floor(W / step),  step = max|W| / (2^(m-1) - 1),  dequant = step * quant(W).
     Do these two formulas do what they are given for, and is this the quantization of QLoRA?"""
TITLES = {"4.4": "The m-bit quantizer, there and back"}

BITS = tuple(range(2, 17))

claim = partial(Claim, "000", "Q4")


def quantize_exactly(values, bits, rounding="floor"):
    """(codes, step) of a list of numbers, in fractions: the document's formula to the letter.

    rounding "floor", or "nearest" (halves to even). The formula divides by zero for 1 bit, and
    where all values are 0.
    """
    values = [Fraction(value) for value in values]
    largest = max(map(abs, values), default=Fraction(0))
    step = largest / (2 ** (bits - 1) - 1)
    return [(floor if rounding == "floor" else round)(value / step) for value in values], step


def relative_error(W, kind, bits=4):
    """RMS error after quantization and back, relative to the RMS of W.

    kind: "floor" and "nearest" with one step size, "blocks" (nearest, blocks of 64), "nf4".
    """
    block = 64 if kind in ("blocks", "nf4") else None
    rounding = "nearest" if kind == "blocks" else kind
    back = dequantize(*quantize(W, bits, rounding, block), block, rounding)
    return float(np.sqrt(np.mean((back - W) ** 2) / np.mean(W**2)))


def normal_matrix(d=256, seed=0):
    """A (d, d) float64 matrix of standard normal numbers."""
    return np.random.default_rng(seed).standard_normal((d, d))


def claims():
    return [*formula_claims(), inverse_claim(), rounding_claim(), *qlora_claims()]


def formula_claims():
    values = [Fraction(k, 1009) for k in range(-1009, 1010)]  # a prime: no ties but 0 and +-1
    W = np.array([float(v) for v in values])
    used, top = {}, {}
    agree = True
    for bits in BITS:
        codes, _ = quantize_exactly(values, bits)
        top[bits] = 2 ** (bits - 1) - 1
        used[bits] = min(codes) >= -top[bits] and max(codes) == top[bits]
        agree &= quantize(W, bits)[0].tolist() == codes
    patterns_used = 2 * top[4] + 1
    return [
        claim("4", "The codes fit into m bits.", "m-bit integers",
              f"m = 4: -{top[4]} to {top[4]}, so {patterns_used} of the 16 patterns",
              judge(all(used.values()), provided=agree),
              f"fractions, m = 2 to 16; npdl's codes are "
              f"{'the same' if agree else 'others'}; one pattern is always left over"),
    ]


def inverse_claim(bits=4):
    rng = np.random.default_rng(3)
    values = [Fraction(int(k), 1000) for k in rng.integers(-1000, 1001, 500)]
    codes, step = quantize_exactly(values, bits)
    errors = [value - code * step for value, code in zip(values, codes, strict=True)]
    exact = sum(error == 0 for error in errors)
    inside = all(0 <= error < step for error in errors)
    mean_steps = float(sum(errors) / len(errors) / step)
    grid = [code * step for code in codes]
    again, _ = quantize_exactly(grid, bits)
    return claim(
        "4", "Dequantizing gives the original matrix W back.", "W = dequant(quant(W))",
        f"W - step < dequant(quant(W)) <= W; equal only where W is a multiple of the step: "
        f"{exact} of {len(values)} numbers at m = {bits}",
        judge(exact == len(values), provided=inside and again == codes),
        "an example, seed 3: "
        f"in fractions {'all' if inside else 'not all'} errors lie between 0 and one step, mean "
        f"{mean_steps:.2f} steps; of multiples of the step it is "
        f"{'' if again == codes else 'not '}the inverse")


def rounding_claim():
    W = normal_matrix()
    shown = {kind: [100 * relative_error(W, kind, bits) for bits in (4, 8)]
             for kind in ("floor", "nearest")}
    ratio = shown["floor"][0] / shown["nearest"][0]
    return claim(
        "4", "Codes are rounded down.", "floor brackets",
        f"RMS error at m = 4: {shown['floor'][0]:.1f} % of W rounded down, "
        f"{shown['nearest'][0]:.1f} % to the nearest; at m = 8: "
        f"{shown['floor'][1]:.2f} % and {shown['nearest'][1]:.2f} %",
        judge(ratio > 1.8, "convention"),
        "an example, seed 0: "
        f"a 256 x 256 normal matrix: {ratio:.2f} times the error; floor lowers every entry by "
        "half a step on average, which the sums of a product add up")


def qlora_claims():
    W = normal_matrix()
    error = {kind: 100 * relative_error(W, kind) for kind in ("floor", "nearest", "blocks", "nf4")}
    gaps = np.diff(NF4)
    plain, double = (8 * stored_bytes(W.size, 4, 64, double=d) / W.size for d in (False, True))
    saved, one_step = plain - double, 8 * stored_bytes(W.size, 4) / W.size
    base = Linear(*W.shape, bias=False)
    base.W.data[...] = W
    kept = [8 * report(QuantLinear(base, rounding="nf4", block=64, double=d)).stored_bytes / W.size
            for d in (False, True)]
    yield claim("1", "QLoRA's base model is quantized to 4 bits, NF4.",
                "4-bit NF4; in part 4, m-bit integers",
                "NF4 is a table of 16 levels for each block, not step times integer: RMS errors "
                + ", ".join(f"{kind} {e:.1f} %" for kind, e in error.items()),
                judge(gaps.max() / gaps.min() > 2 and error["nf4"] < error["blocks"],
                      "under-specified", provided=np.allclose(NF4, LEVELS)),
                "errors of an example, seed 0; "
                f"gaps between NF4's levels from {gaps.min():.3f} to {gaps.max():.3f}; the two "
                "answers use two quantizers, and only part 4's is defined in the question")
    yield claim("1", "Double quantization saves memory beyond 4 bits.", "further reduces memory",
                f"{plain:.3f} bits a number with one 32-bit step for 64 numbers, {double:.3f} "
                "with 8-bit steps, one 32-bit scale for 256 of them and their mean",
                judge(double < plain, provided=kept == [plain, double]),
                f"counted in npdl's NF4 map of {W.size:,} numbers: {saved:.3f} bits a "
                "number; a single step for the whole matrix, as in part 4, takes "
                f"{one_step:.4f}")


WEIGHTS = tuple(Fraction(value, 10) for value in (7, -3, 2, 5, -6))


def there_and_back(weights, codes, step):
    """(what the codes stand for, the errors)."""
    back = [code * step for code in codes]
    return back, [value - again for value, again in zip(weights, back, strict=True)]


def patterns(bits):
    """(patterns of m bits, codes that are used, the largest code)."""
    top = 2 ** (bits - 1) - 1
    return 2**bits, 2 * top + 1, top


def solutions(bits=3):
    codes, step = quantize_exactly(WEIGHTS, bits)
    back, errors = there_and_back(WEIGHTS, codes, step)
    every, used, top = patterns(bits)
    power, largest = bits - 1, float(max(map(abs, WEIGHTS)))
    near, _ = quantize_exactly(WEIGHTS, bits, "nearest")
    W = np.array(WEIGHTS, float)
    library = quantize(W, bits)
    numbers = np.linspace(-1, 1, 4001).reshape(1, -1)
    ratio = relative_error(numbers, "floor") / relative_error(numbers, "nearest")
    rows = tuple(zip(map(float, WEIGHTS), [num(w / step) for w in WEIGHTS], codes, map(float, back),
                     map(float, errors), near, strict=True))
    work = Solution("4.4", f"Five weights and m = {bits} bits.")
    work.step("Find the step: the largest magnitude is to become the largest code.",
              "Δ = max|W| / (2^(m−1) − 1)",
              f"2^{power} − 1 = {top};   Δ = {num(largest, 1)} / {top} = "
              f"{num(step)} ≈ {num(float(step))}")
    work.step("Divide by the step and round down: these integers are stored. Multiply them by the "
              "step again: this is used.", "quant(W) = ⌊W / Δ⌋      dequant = Δ · quant(W)",
              table=Table(("W", "W / Δ", "⌊W / Δ⌋", "dequant", "error", "round(W / Δ)"),
                          rows))
    work.step("Read off the error. Rounding down leaves between 0 and one step, always to the "
              "same side; rounding to the nearest at most half a step to either side.",
              "0 ≤ W − Δ⌊W/Δ⌋ < Δ      |W − Δ round(W/Δ)| ≤ Δ/2",
              f"errors {vec([float(e) for e in errors])}, one step is {num(float(step))}; equal "
              f"to W: {sum(e == 0 for e in errors)} of {len(WEIGHTS)}")
    work.step("Count the patterns that m bits have, and those that are used.",
              "2^m patterns, codes from −(2^(m−1) − 1) to 2^(m−1) − 1",
              f"m = {bits}: {every} patterns, {used} codes; m = 1 would divide by {patterns(1)[2]}")
    work.answer = ("The codes fit into m bits (m ≥ 2), but dequant(quant(W)) is W only where W is "
                   f"a multiple of Δ; rounding down costs about {num(ratio, 1)} times the error "
                   "of rounding to the nearest.")
    work.check("npdl's quantize and dequantize give the same codes and numbers.",
               library[0].tolist() == codes
               and np.allclose(dequantize(*library), np.array(back, float), atol=1e-12))
    work.check("All errors lie between 0 and one step.", all(0 <= e < step for e in errors))
    work.check("On 4001 even numbers rounding down has twice the error, to 10 %.",
               abs(ratio - 2) < 0.2)
    yield work

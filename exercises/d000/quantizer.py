"""Document 000, Question 4: the m-bit quantizer, its inverse, and the 4 bits of QLoRA.

quant(W) = floor(W / step), step = max|W| / (2^(m-1) - 1), dequant = step · quant(W).
"""

from fractions import Fraction
from math import floor

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.adapt.quantize import NF4, dequantize, quantize, stored_bytes

WEIGHTS = [Fraction(value, 10) for value in (7, -3, 2, 5, -6)]


def quantize_exactly(values, bits, rounding=floor):
    """Return the document's codes and step for a list of fractions."""
    step = max(map(abs, values)) / (2 ** (bits - 1) - 1)
    return [rounding(value / step) for value in values], step


def relative_error(W, kind, bits=4):
    """Return the RMS error of quantization in percent of the RMS of W.

    `kind` is "floor" or "nearest" with one step, "blocks" (nearest, blocks of 64) or "nf4".
    """
    block = 64 if kind in ("blocks", "nf4") else None
    rounding = "nearest" if kind == "blocks" else kind
    back = dequantize(*quantize(W, bits, rounding, block), block, rounding)
    return 100 * float(np.sqrt(np.mean((back - W) ** 2) / np.mean(W**2)))


@question("000.4.4", "The m-bit quantizer, there and back")
def quantizer(say, step, answer, check, claim):
    """Say whether quantization and dequantization to m-bit integers do what they are given for."""
    bits, count = 3, len(WEIGHTS)
    codes, delta = quantize_exactly(WEIGHTS, bits)
    near, _ = quantize_exactly(WEIGHTS, bits, round)
    back = [code * delta for code in codes]
    errors = [value - again for value, again in zip(WEIGHTS, back, strict=True)]
    top = 2 ** (bits - 1) - 1
    numbers = np.linspace(-1, 1, 4001)
    ratio = relative_error(numbers, "floor") / relative_error(numbers, "nearest")
    say(f"Five weights and m = {bits} bits.")
    step("Find the step: the largest magnitude is to become the largest code.",
         "Δ = max|W| / (2^(m−1) − 1)",
         f"2^{bits - 1} − 1 = {top};   Δ = {float(max(map(abs, WEIGHTS)))} / {top} = {delta} ≈ "
         f"{float(delta):.3f}")
    step("Divide by the step and round down: these integers are stored. Multiply them by the "
         "step again: this is used.", "quant(W) = ⌊W / Δ⌋      dequant = Δ · quant(W)",
         table(("W", "W / Δ", "⌊W / Δ⌋", "dequant", "error", "round(W / Δ)"),
               [(float(w), str(w / delta), code, float(b), float(e), other)
                for w, code, b, e, other in zip(WEIGHTS, codes, back, errors, near,
                                                strict=True)]))
    step("Read off the error. Rounding down leaves between 0 and one step, always to the same "
         "side; rounding to the nearest at most half a step to either side.",
         "0 ≤ W − Δ⌊W/Δ⌋ < Δ      |W − Δ round(W/Δ)| ≤ Δ/2",
         f"errors {vec(map(float, errors))}, one step is {float(delta):.3f}; equal to W: "
         f"{errors.count(0)} of {count}")
    step("Count the patterns that m bits have, and those that are used.",
         "2^m patterns, codes from −(2^(m−1) − 1) to 2^(m−1) − 1",
         f"m = {bits}: {2**bits} patterns, {2 * top + 1} codes; m = 1 would divide by {2**0 - 1}")
    answer("The codes fit into m bits (m ≥ 2), but dequant(quant(W)) is W only where W is a "
           f"multiple of Δ; rounding down costs about {ratio:.1f} times the error of rounding "
           "to the nearest.")
    library = quantize(np.array(WEIGHTS, float), bits)
    check("npdl's quantize and dequantize give the same codes and numbers.",
          library[0].tolist() == codes
          and np.allclose(dequantize(*library), np.array(back, float)))
    check("All errors lie between 0 and one step.", all(0 <= e < delta for e in errors))
    check("On 4001 evenly spaced numbers rounding down has twice the error, to 10 %.",
          abs(ratio - 2) < 0.2)
    values = [Fraction(k, 1009) for k in range(-1009, 1010)]    # a prime: ties only at 0 and +-1
    tops = {bits: 2 ** (bits - 1) - 1 for bits in range(2, 17)}
    by_bits = {bits: quantize_exactly(values, bits)[0] for bits in tops}
    check("npdl's codes are the same, m = 2 to 16.",
          all(quantize(np.array(values, float), bits)[0].tolist() == own
              for bits, own in by_bits.items()))
    claim("", "The codes fit into m bits.", "m-bit integers",
          f"m = 4: -{tops[4]} to {tops[4]}, so {2 * tops[4] + 1} of the 16 patterns",
          judge(all(min(own) >= -tops[bits] and max(own) == tops[bits]
                    for bits, own in by_bits.items())),
          "fractions, m = 2 to 16; npdl's codes are the same; one pattern is always left over")
    claim("", "Dequantizing gives the original matrix W back.", "W = dequant(quant(W))",
          "W - step < dequant(quant(W)) <= W; equal only where W is a multiple of the step: "
          f"{errors.count(0)} of the {count} numbers above", judge(errors.count(0) == count),
          "in fractions all errors lie between 0 and one step")
    W = np.random.default_rng(0).standard_normal((256, 256))
    low, near, low_8, near_8 = (relative_error(W, kind, bits) for bits in (4, 8)
                                for kind in ("floor", "nearest"))
    claim("", "Codes are rounded down.", "floor brackets",
          f"RMS error at m = 4: {low:.1f} % of W rounded down, {near:.1f} % to the nearest; "
          f"at m = 8: {low_8:.2f} % and {near_8:.2f} %", judge(low / near > 1.8, "convention"),
          f"a 256 x 256 normal matrix, seed 0: {low / near:.2f} times the error; floor lowers "
          "every entry by half a step on average")


def nf4_claims(claim):
    """Add the claims of 4.1 on QLoRA's own quantization."""
    W = np.random.default_rng(0).standard_normal((256, 256))
    error = {kind: relative_error(W, kind) for kind in ("floor", "nearest", "blocks", "nf4")}
    gaps = np.diff(NF4)
    plain, double, single = (8 * stored_bytes(W.size, 4, block, double=twice) / W.size
                             for block, twice in ((64, False), (64, True), (None, False)))
    claim("", "QLoRA's base model is quantized to 4 bits, NF4.",
          "4-bit NF4; in part 4, m-bit integers",
          "NF4 is a table of 16 levels for each block, not step times integer: RMS errors "
          + ", ".join(f"{kind} {e:.1f} %" for kind, e in error.items()),
          judge(gaps.max() / gaps.min() > 2 and error["nf4"] < error["blocks"],
                "under-specified"),
          f"seed 0; gaps between NF4's levels from {gaps.min():.3f} to {gaps.max():.3f}; only "
          "part 4's quantizer is defined in the question")
    claim("", "Double quantization saves memory beyond 4 bits.", "further reduces memory",
          f"{plain:.3f} bits a number with one 32-bit step for 64 numbers, {double:.3f} with "
          "8-bit steps, one 32-bit scale for 256 of them and their mean", judge(double < plain),
          f"stored by npdl for {W.size:,} numbers; a single step for the whole matrix takes "
          f"{single:.4f}")

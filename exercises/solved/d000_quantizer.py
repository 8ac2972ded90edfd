"""The worked solution of document 000, Question 4.4's quantizer, there and back."""

from fractions import Fraction

import numpy as np

from exercises.d000_quantizer import quantize_exactly, relative_error
from exercises.worked import Check, Solution, Step, Table, num, vec
from npdl.adapt.quantize import dequantize, quantize

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
    near, _ = quantize_exactly(WEIGHTS, bits, "nearest")
    W = np.array(WEIGHTS, float)
    library = quantize(W, bits)
    numbers = np.linspace(-1, 1, 4001).reshape(1, -1)
    ratio = relative_error(numbers, "floor") / relative_error(numbers, "nearest")
    rows = tuple(zip(map(float, WEIGHTS), [num(w / step) for w in WEIGHTS], codes, map(float, back),
                     map(float, errors), near, strict=True))
    return [Solution(
        "4.4",
        (Step("Find the step: the largest magnitude is to become the largest code.",
              "Δ = max|W| / (2^(m−1) − 1)",
              f"2^{bits - 1} − 1 = {top};   Δ = {num(float(max(map(abs, WEIGHTS))), 1)} / {top} = "
              f"{num(step)} ≈ {num(float(step))}"),
         Step("Divide by the step and round down: these integers are stored. Multiply them by the "
              "step again: this is used.", "quant(W) = ⌊W / Δ⌋      dequant = Δ · quant(W)",
              table=Table(("W", "W / Δ", "⌊W / Δ⌋", "back", "error", "nearest"), rows)),
         Step("Read off the error. Rounding down leaves between 0 and one step, always to the same "
              "side; rounding to the nearest at most half a step to either side.",
              "0 ≤ W − Δ⌊W/Δ⌋ < Δ      |W − Δ round(W/Δ)| ≤ Δ/2",
              f"errors {vec([float(e) for e in errors])}, one step is {num(float(step))}; equal to "
              f"W: {sum(e == 0 for e in errors)} of {len(WEIGHTS)}"),
         Step("Count the patterns that m bits have, and those that are used.",
              "2^m patterns, codes from −(2^(m−1) − 1) to 2^(m−1) − 1",
              f"m = {bits}: {every} patterns, {used} codes; m = 1 would divide by "
              f"{patterns(1)[2]}")),
        "The codes fit into m bits (m ≥ 2), but dequant(quant(W)) is W only where W is a multiple "
        f"of Δ; rounding down costs about {num(ratio, 1)} times the error of rounding to the "
        "nearest.",
        (Check("npdl's quantize and dequantize give the same codes and numbers.",
               library[0].tolist() == codes
               and np.allclose(dequantize(*library), np.array(back, float), atol=1e-12)),
         Check("All errors lie between 0 and one step.", all(0 <= e < step for e in errors)),
         Check("On 4001 even numbers rounding down has twice the error, to 10 %.",
               abs(ratio - 2) < 0.2)),
        f"Five weights and m = {bits} bits.",
        picture="the error against the number of bits")]

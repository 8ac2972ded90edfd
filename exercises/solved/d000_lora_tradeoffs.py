"""The worked solutions of document 000, Questions 4.1 to 4.3: LoRA and QLoRA."""

from fractions import Fraction

import numpy as np

from exercises.d000_lora_tradeoffs import adapted, update_error
from exercises.d000_quantizer import quantize_exactly
from exercises.worked import Check, Solution, Step, Table, num
from npdl.adapt import merged_linear, multiplies
from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.layers.linear import Linear

W = np.array([[0.7, -0.25], [0.45, -0.55]])
A, B = np.array([[1.0], [2.0]]), np.array([[0.1], [-0.1]])
X = np.array([[1.0, 0.5]])
BITS = 4
EXAMPLE = "A frozen 2 x 2 matrix W, an adapter of rank r = 1, one input row x."
GIVEN = {"W": W, "A": A, "B": B, "x": X}


def solutions():
    return [method_solution(), rank_solution(), inference_solution()]


def packed():
    """W after quantization and back."""
    codes, step = quantize_exactly([Fraction(str(w)) for w in W.ravel()], BITS)
    return np.array(codes).reshape(W.shape), float(step)


def library(bits=None):
    """npdl's LoRALinear with the example's matrices."""
    linear = Linear(2, 2, bias=False, dtype="float64")
    linear.W.data[...] = W
    layer = LoRALinear(linear if bits is None else QuantLinear(linear, bits), 1)
    layer.A.data[...], layer.B.data[...] = A, B
    return layer


def method_solution():
    codes, step = packed()
    again = codes * step
    out = {"LoRA": X @ W + X @ A @ B.T, "QLoRA": X @ again + X @ A @ B.T}
    return Solution(
        "4.1",
        (Step("What both do: W stays as it is, and a product of two thin matrices is added to it. "
              "Only A and B learn.", "y = x W + (x A) Bᵀ",
              arrays={"A Bᵀ": A @ B.T, "x A": X @ A, "(x A) Bᵀ": X @ A @ B.T}),
         Step("LoRA: W is kept in floating point.", "y = x W + (x A) Bᵀ",
              arrays={"x W": X @ W, "y": out["LoRA"]}),
         Step("QLoRA: W is kept as small integers with a step, made into floats for each product; "
              "the adapter is the same, in floating point.",
              "y = x (Δ · quant(W)) + (x A) Bᵀ", f"Δ = {num(step)}",
              {"quant(W)": codes, "Δ quant(W)": again, "y": out["QLoRA"]}),
         Step("Compare what is stored and what learns.", table=Table(
             ("", "bits of W", "numbers that learn", "y₁", "y₂"), (
                 ("LoRA", 32 * W.size, A.size + B.size, *out["LoRA"][0].tolist()),
                 ("QLoRA", BITS * W.size + 32, A.size + B.size, *out["QLoRA"][0].tolist()))))),
        "The update A Bᵀ is the same; QLoRA adds it to a W that is stored in few bits and "
        "dequantized for each product, so it is smaller and W is a little wrong.",
        tuple(Check(f"npdl's LoRALinear over {base} gives the same y.", bool(np.allclose(
            library(bits).forward(X)[0], out[name], atol=1e-6)))
            for name, bits, base in (("LoRA", None, "a float W"), ("QLoRA", BITS, "QuantLinear"))),
        EXAMPLE, GIVEN)


def rank_solution(d=4):
    sizes = np.array([3.0, 2.0, 1.0, 0.5])
    update = np.diag(sizes)
    ranks = (0, 1, 2, 3, 4)
    left = {r: float(np.sqrt((sizes[r:] ** 2).sum())) for r in ranks}
    relative = {r: left[r] / left[0] for r in ranks}
    return Solution(
        "4.2",
        (Step("Memory: A and B hold r columns of d numbers each. It is linear in r, and the same "
              "in LoRA and QLoRA, whose frozen parts do not change with r.", "2 d r numbers",
              f"d = {d}: " + ", ".join(f"r = {r}: {2 * d * r}" for r in ranks)),
         Step("Quality: the best A Bᵀ of rank r keeps the r largest singular values of the update "
              "that is needed, and misses the others.",
              "‖update − A Bᵀ‖² = σ_(r+1)² + … + σ_d²",
              f"r = 2: √({num(sizes[2], 1)}² + {num(sizes[3], 1)}²) = {num(left[2])}",
              table=Table(("r", "numbers that learn", "missed", "of the update"), tuple(
                  (r, 2 * d * r, left[r], relative[r]) for r in ranks))),
         Step("So more rank helps until the rank of what is to be learned, and not beyond it; on "
              "few noisy data a larger rank fits the noise too.",
              numbers=f"from r = 3 to r = 4 the miss falls by {num(relative[3] - relative[4])} "
                      f"of the update, from 0 to 1 by {num(relative[0] - relative[1])}")),
        "Memory grows as 2 d r in both; a higher rank can represent more, and helps as far as the "
        "update needs it. QLoRA's saving on W leaves room for a larger r.",
        (Check("npdl's LoRALinear, set to the best adapter of each rank, misses the same share.",
               all(abs(update_error(np.zeros((d, d)), update, r) - relative[r]) < 1e-6
                   for r in ranks[1:])),
         Check("It has 2 d r numbers that learn.",
               all(adapted(np.zeros((d, d)), update, r).count_params() == 2 * d * r
                   for r in ranks[1:]))),
        f"An update of {d} x {d} with the singular values "
        f"{', '.join(num(s, 1) for s in sizes)}.", picture="training and test error by rank")


def inference_solution(d=64, r=4):
    apart, whole = d * d + 2 * d * r, d * d
    rows = [(n, n * whole, n * apart, n * apart + d * d, (n * apart + d * d) / (n * whole))
            for n in (1, 512)]
    plain, quantized = library(), library(BITS)
    thin, zero = np.eye(d), np.zeros((d, d))
    counted = [multiplies(adapted(zero, thin, r), n) for n in (1, 512)]
    counted4 = [multiplies(adapted(thin, thin, r, bits=BITS), n) for n in (1, 512)]
    return Solution(
        "4.3",
        (Step("Merge: the sum of W and the adapter is one matrix of the old size. After that LoRA "
              "costs what the model cost, in time and in memory.", "W' = W + A Bᵀ,   y = x W'",
              arrays={"W'": W + A @ B.T, "x W'": X @ (W + A @ B.T)}),
         Step("Count the multiplications of n rows, d = 64, r = 4: merged, not merged, and with "
              "the d² of dequantization in each pass.",
              "merged n d²      apart n (d² + 2 d r)      QLoRA n (d² + 2 d r) + d²",
              table=Table(("rows n", "merged", "LoRA apart", "QLoRA", "QLoRA / merged"),
                          tuple(rows))),
         Step("Count the memory that is read for one row: this sets the pace where one token at a "
              "time is generated.", "32 bits against m bits a weight",
              f"{32 * d * d:,} bits against {BITS * d * d:,}: {32 // BITS} times less"),
         Step("QLoRA can be merged as well, but only into a float matrix: rounding the sum back to "
              "m bits loses a small update.", numbers=f"one step is {num(packed()[1])} here, the "
              f"largest entry of A Bᵀ {num(float(np.abs(A @ B.T).max()))}")),
        "LoRA: nothing once merged, a little when not; QLoRA: d² more a pass, which matters for "
        "few rows, against reading 8 times less memory.",
        (Check("npdl's merged layers give the outputs of the layers with their adapters.", all(
            np.allclose(layer.forward(X)[0], merged_linear(layer).forward(X)[0], atol=1e-6)
            for layer in (plain, quantized))),
         Check("npdl counts the same multiplications.",
               counted == [row[2] for row in rows] and counted4 == [row[3] for row in rows])),
        EXAMPLE, GIVEN)

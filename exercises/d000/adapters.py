"""Document 000, Question 4.1 to 4.4: LoRA against QLoRA, by experiment, and the m-bit quantizer.

quant(W) = floor(W / step), step = max|W| / (2^(m-1) - 1), dequant = step · quant(W).
"""

from fractions import Fraction
from math import floor

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.adapt import add_lora, count_multiplications, make_report, merged_linear, quantize_linears
from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.adapt.quantize import NF4, count_bytes, dequantize, quantize
from npdl.layers.linear import Linear
from npdl.layers.transformer import Block

WEIGHTS = [Fraction(value, 10) for value in (7, -3, 2, 5, -6)]


def quantize_exactly(values, bits, rounding=floor):
    """Return the codes and the step of the document's formula for a list of fractions."""
    step = max(map(abs, values)) / (2 ** (bits - 1) - 1)
    return [rounding(value / step) for value in values], step


def rms_error_percent(W, kind, bits=4):
    """Return the RMS error of quantization in percent of the RMS of W.

    `kind` is "floor" or "nearest" with one step, "blocks" (nearest, blocks of 64) or "nf4".
    """
    block = 64 if kind in ("blocks", "nf4") else None
    rounding = "nearest" if kind == "blocks" else kind
    back = dequantize(*quantize(W, bits, rounding, block), block, rounding)
    return 100 * float(np.sqrt(np.mean((back - W) ** 2) / np.mean(W**2)))


@question("000.4.4", "Quantization to m bits, and dequantization")
def solve_m_bit_quantizer(say, step, answer, check, claim):
    """Say whether quantization to m-bit integers and dequantization do what the question states."""
    bits, count = 3, len(WEIGHTS)
    codes, delta = quantize_exactly(WEIGHTS, bits)
    near, _ = quantize_exactly(WEIGHTS, bits, round)
    decoded = [code * delta for code in codes]
    errors = [value - estimate for value, estimate in zip(WEIGHTS, decoded, strict=True)]
    top = 2 ** (bits - 1) - 1
    numbers = np.linspace(-1, 1, 4001)
    ratio = rms_error_percent(numbers, "floor") / rms_error_percent(numbers, "nearest")
    say(f"The example has five weights and m = {bits} bits.")
    step("Find the step size Δ. The largest magnitude becomes the largest code.",
         "Δ = max|W| / (2^(m−1) − 1)", f"2^{bits - 1} − 1 = {top};   Δ = "
         f"{float(max(map(abs, WEIGHTS)))} / {top} = {delta} ≈ {float(delta):.3f}")
    step("Divide by the step size and round down. These integers, the codes, are stored. For use, "
         "the codes are multiplied by the step size again.",
         "quant(W) = ⌊W / Δ⌋      dequant = Δ · quant(W)",
         format_table(("W", "W / Δ", "⌊W / Δ⌋", "dequant", "error", "round(W / Δ)"), [
             (float(w), str(w / delta), code, float(b), float(e), other)
             for w, code, b, e, other in zip(WEIGHTS, codes, decoded, errors, near, strict=True)]))
    step("Compare the errors. The error of rounding down is between 0 and one step, always in the "
         "same direction. The error of rounding to the nearest is at most half a step in either "
         "direction.", "0 ≤ W − Δ⌊W/Δ⌋ < Δ      |W − Δ round(W/Δ)| ≤ Δ/2",
         f"errors {vec(map(float, errors))}, one step is {float(delta):.3f}; {errors.count(0)} of "
         f"{count} weights are restored exactly")
    step("Count the bit patterns of m bits, and the patterns that are used.",
         "2^m patterns, codes from −(2^(m−1) − 1) to 2^(m−1) − 1",
         f"m = {bits}: {2**bits} patterns, {2 * top + 1} codes; m = 1 would divide by {2**0 - 1}")
    answer("The codes fit into m bits (m ≥ 2). But dequant(quant(W)) is W only where W is a "
           f"multiple of Δ. Rounding down has about {ratio:.1f} times the error of rounding to "
           "nearest.")
    library = quantize(np.array(WEIGHTS, float), bits)
    check("npdl's quantize and dequantize give the same codes and numbers.",
          library[0].tolist() == codes
          and np.allclose(dequantize(*library), np.array(decoded, float)))
    check("On 4001 evenly spaced numbers, rounding down has twice the error, to within 10 %.",
          abs(ratio - 2) < 0.2)
    values = [Fraction(k, 1009) for k in range(-1009, 1010)]    # a prime: ties only at 0 and +-1
    tops = {bits: 2 ** (bits - 1) - 1 for bits in range(2, 17)}
    by_bits = {bits: quantize_exactly(values, bits)[0] for bits in tops}
    check("npdl's codes are the same for m = 2 to 16.",
          all(quantize(np.array(values, float), bits)[0].tolist() == own
              for bits, own in by_bits.items()))
    claim("", "The codes fit into m bits.", "m-bit integers",
          f"m = 4: -{tops[4]} to {tops[4]}, so {2 * tops[4] + 1} of the 16 patterns",
          judge(all(min(own) >= -tops[bits] and max(own) == tops[bits]
                    for bits, own in by_bits.items())),
          "exact fractions for m = 2 to 16; npdl's codes are the same; one pattern is never used")
    claim("", "Dequantizing gives the original matrix W back.", "W = dequant(quant(W))",
          "W - step < dequant(quant(W)) <= W; equal only where W is a multiple of the step: "
          f"{errors.count(0)} of the {count} numbers above", judge(errors.count(0) == count),
          "in exact fractions, all errors lie between 0 and one step")
    W = np.random.default_rng(0).standard_normal((256, 256))
    low, nearest, low_8, near_8 = (rms_error_percent(W, kind, bits) for bits in (4, 8)
                                   for kind in ("floor", "nearest"))
    claim("", "Codes are rounded down.", "floor brackets", "RMS error relative to W, at m = 4: "
          f"{low:.1f} % rounded down, {nearest:.1f} % rounded to the nearest; at m = 8: "
          f"{low_8:.2f} % and {near_8:.2f} %", judge(low / nearest > 1.8, "convention"),
          f"a 256 x 256 normal matrix, seed 0: {low / nearest:.2f} times the error; floor lowers "
          "every entry by half a step on average")


W = np.array([[0.7, -0.25], [0.45, -0.55]])
A, B = np.array([[1.0], [2.0]]), np.array([[0.1], [-0.1]])
X = np.array([[1.0, 0.5]])
EXAMPLE = ("The example has a frozen 2 x 2 matrix W, an adapter of rank r = 1, and one input x.",
           format_arrays({"W": W, "A": A, "B": B, "x": X}))


def make_lora_linear(W, A, B, bits=None):
    """Return npdl's LoRALinear over W, quantized if `bits`, with the adapter A Bᵀ."""
    linear = Linear(*W.shape, bias=False, dtype="float64")
    linear.W.data[...] = W
    layer = LoRALinear(QuantLinear(linear, bits) if bits else linear, A.shape[1])
    layer.A.data[...], layer.B.data[...] = A, B
    return layer


def rank_r_error(W, update, r, bits=None):
    """Return the part of an update that the best LoRALinear of rank r misses (Eckart-Young)."""
    base = make_lora_linear(W, *np.zeros((2, len(W), 1)), bits).base.weight()
    U, s, Vt = np.linalg.svd(W + update - base)
    merged = merged_linear(make_lora_linear(W, U[:, :r] * s[:r], Vt[:r].T, bits)).W.data
    return float(np.linalg.norm(merged - W - update) / np.linalg.norm(update))


UPDATE = np.diag([3.0, 2.0, 1.0, 0.5])                  # what an adapter of 4.2 is to learn


@question("000.4.1", "How LoRA and QLoRA update a layer")
def solve_lora_and_qlora_updates(say, step, answer, check, claim):
    """Say how LoRA and QLoRA differ in their low-rank updates."""
    codes, delta = quantize_exactly([Fraction(str(w)) for w in W.ravel()], 4)
    codes, delta = np.reshape(codes, W.shape), float(delta)
    low = X @ A @ B.T
    plain, packed = X @ W + low, X @ (codes * delta) + low
    say(*EXAMPLE)
    step("Both methods leave W unchanged and add a product of two low-rank factors to it. Only A "
         "and B are trained.", "y = x W + (x A) Bᵀ",
         format_arrays({"A Bᵀ": A @ B.T, "x A": X @ A, "(x A) Bᵀ": low}))
    step("LoRA stores W in floating point.", "y = x W + (x A) Bᵀ",
         format_arrays({"x W": X @ W, "y": plain}))
    step("QLoRA stores W as small integers with a step size, and converts them to floats for each "
         "product. The adapter is the same, in floating point.", "y = x (Δ · quant(W)) + (x A) Bᵀ",
         f"Δ = {delta:.3f}",
         format_arrays({"quant(W)": codes, "Δ quant(W)": codes * delta, "y": packed}))
    step("Compare the stored bits and the trainable parameters.",
         format_table(("", "bits of W", "trainable parameters", "y₁", "y₂"),
                      [("LoRA", 32 * W.size, A.size + B.size, *plain[0]),
                       ("QLoRA", 4 * W.size + 32, A.size + B.size, *packed[0])]))
    answer("The update A Bᵀ is the same. QLoRA adds it to a W that is stored in few bits and "
           "dequantized for each product, so W needs less memory and has a small error. The "
           "original QLoRA also uses NF4 levels, 8-bit step sizes (double quantization), and "
           "adapters at all linear layers. LoRA mostly adapts the projections of attention.")
    for base, y, bits in (("a float W", plain, None), ("QuantLinear", packed, 4)):
        check(f"npdl's LoRALinear over {base} gives the same y.",
              np.allclose(make_lora_linear(W, A, B, bits).forward(X)[0], y, atol=1e-6))
    d, r = 64, 4
    plain, packed = (Block(d, num_heads=4) for _ in range(2))
    before = plain.state_dict()
    add_lora(plain, r)
    quantize_linears(packed)
    add_lora(packed, r)
    after = plain.state_dict()
    kept = sum(any(np.array_equal(value, other) for other in after.values())
               for value in before.values())
    one, two = make_report(plain), make_report(packed)
    claim("", "LoRA leaves the base model unquantized.", "no quantization",
          f"{kept} of {len(before)} frozen arrays are unchanged", judge(kept == len(before)),
          "npdl's add_lora on a transformer block: the arrays are bitwise identical")
    claim("", "LoRA reduces the trainable parameters; QLoRA reduces the base's memory too.",
          "further reduces memory", f"block of width {d}, r = {r}: {one.trainable:,} of "
          f"{one.trainable + one.frozen:,} parameters are trainable in both; {one.stored_bytes:,} "
          f"bytes in LoRA, {two.stored_bytes:,} in QLoRA",
          judge(one.trainable == two.trainable and two.stored_bytes < one.stored_bytes / 3),
          "npdl's report of both models")
    gigabytes = [7e9 * bits / 8 / 1e9 for bits in (32, 16, 4.127)]
    claim("", "LoRA suits moderate memory limits, QLoRA very large models on one device.", "use "
          "cases", f"7e9 frozen parameters: {gigabytes[0]:.0f} GB with 32 bits, {gigabytes[1]:.0f} "
          f"GB with 16 bits, {gigabytes[2]:.1f} GB with 4 bits and double quantization", "essay",
          "arithmetic; both methods also need memory for adapters, activations and optimizer")
    half, full = rank_r_error(0 * UPDATE, UPDATE, 2), rank_r_error(0 * UPDATE, UPDATE, 4)
    coarse, fine = (rank_r_error(W, A @ B.T / 10, 1, bits) for bits in (4, 12))
    claim("", "LoRA performs as well as full fine-tuning.", "matches", "an update of rank 4 is "
          f"represented exactly at r = 4, and with an error of {100 * half:.0f} % at r = 2",
          judge(full < 1e-6 and half > 0.1, "under-specified"), "best adapters (Eckart-Young) for "
          "the update of 4.2; LoRA matches if the rank of the update is at most r")
    claim("", "QLoRA matches 16-bit fine-tuning in spite of 4 bits.", "matches", "a small update, "
          f"A Bᵀ / 10, is represented with an error of {100 * coarse:.0f} % over a 4-bit base, and "
          f"{100 * fine:.1f} % over a 12-bit base", judge(coarse > 0.1 > fine, "under-specified"),
          "best adapters of rank 1; the rounding errors of the question's quantizer have full "
          "rank; only an experiment shows how much a model suffers")
    normal = np.random.default_rng(0).standard_normal((256, 256))
    kinds = "floor", "nearest", "blocks", "nf4"
    error = {kind: rms_error_percent(normal, kind) for kind in kinds}
    gaps = np.diff(NF4)
    plain, double, single = (8 * count_bytes(normal.size, 4, block, double=twice) / normal.size
                             for block, twice in ((64, False), (64, True), (None, False)))
    claim("", "QLoRA's base model is quantized to 4 bits, NF4.",
          "4-bit NF4; in part 4, m-bit integers",
          "NF4 is a table of 16 levels for each block, not a step size times an integer; RMS: "
          + ", ".join(f"{kind} {e:.1f} %" for kind, e in error.items()),
          judge(gaps.max() / gaps.min() > 2 and error["nf4"] < error["blocks"], "under-specified"),
          f"seed 0; the gaps between NF4's levels are {gaps.min():.3f} to {gaps.max():.3f}; the "
          "question defines only the quantizer of part 4")
    claim("", "Double quantization saves memory beyond 4 bits.", "further reduces memory",
          f"{plain:.3f} bits per weight with a 32-bit step size for every 64 weights; {double:.3f} "
          "with 8-bit step sizes and, for every 256 of these, a 32-bit scale, and their mean",
          judge(double < plain), f"stored by npdl for {normal.size:,} weights; a single step size "
          f"for the whole matrix takes {single:.4f} bits per weight")


@question("000.4.2", "What the rank of an adapter changes")
def solve_effect_of_rank(say, step, answer, check, claim):
    """Say how the rank changes the quality and the memory of LoRA and QLoRA."""
    d, ranks, sizes = 4, (0, 1, 2, 3, 4), np.diag(UPDATE)
    left = np.array([np.linalg.norm(sizes[r:]) for r in ranks])
    share = left / left[0]
    say(f"The update is a {d} x {d} matrix with the singular values {', '.join(map(str, sizes))}.")
    step("Memory: A and B have r columns of d entries each, so the memory is linear in r. It is "
         "the same in LoRA and QLoRA, because their frozen parts do not change with r.",
         "2 d r parameters", f"d = {d}: " + ", ".join(f"r = {r}: {2 * d * r}" for r in ranks))
    step("Quality: the best A Bᵀ of rank r keeps the r largest singular values of the required "
         "update and loses the others.", "‖update − A Bᵀ‖² = σ_(r+1)² + … + σ_d²",
         f"r = 2: √({sizes[2]}² + {sizes[3]}²) = {left[2]:.3f}",
         format_table(("r", "trainable parameters", "error", "relative error"),
                      [(r, 2 * d * r, left[r], share[r]) for r in ranks]))
    step("So a higher rank helps up to the rank of the required update, but not beyond it. On few "
         "noisy data, a higher rank also fits the noise.",
         f"the relative error falls by {share[3] - share[4]:.3f} from r = 3 to r = 4, and by "
         f"{share[0] - share[1]:.3f} from r = 0 to r = 1")
    answer("The memory grows as 2 d r in both methods. A higher rank can represent more, and helps "
           "up to the rank of the required update. QLoRA saves memory on W, so r can be larger.")
    check("npdl's LoRALinear with the best adapter of each rank has the same relative error.",
          np.allclose([rank_r_error(0 * UPDATE, UPDATE, r) for r in ranks[1:]], share[1:],
                      atol=1e-6))
    ranks = (0, 1, 2, 4, 8, 16)
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 16, 2))
    noisy = left @ right.T + rng.standard_normal((16, 16))
    U, s, Vt = np.linalg.svd(noisy)
    fits = [(U[:, :r] * s[:r]) @ Vt[:r] for r in ranks]
    train, test = (np.array([((fit - target) ** 2).mean() for fit in fits])
                   for target in (noisy, left @ right.T))
    best = ranks[test.argmin()]
    params = [make_lora_linear(UPDATE, *np.zeros((2, 4, r))).count_params() for r in (1, 4)]
    d = 4096
    freed = d**2 * (32 - 4) / 8
    affordable = int(freed // (2 * d * 16))
    claim("", "A higher rank performs better.", "better performance",
          f"the training error falls: {', '.join(f'{e:.3f}' for e in train)}; the test error is "
          f"smallest at r = {best}: {', '.join(f'{e:.2f}' for e in test)}",
          judge((np.diff(train) < 0).all() and best < ranks[-1], "under-specified"),
          f"r = {', '.join(map(str, ranks))}; an update of rank 2 with noise, seed 0; a higher "
          "rank is never worse on the training data")
    claim("", "A higher rank needs more memory.", "increased memory",
          f"{params[0]} parameters at r = 1, {params[1]} at r = 4 (d = 4)",
          judge(params[1] == 4 * params[0]), "2dr, counted in npdl; the frozen base is the same")
    claim("", "A low rank may underperform on complex tasks.", "potential underperformance",
          f"relative error for the update of rank 4 above: {100 * share[1]:.0f} % at r = 1, "
          f"{100 * share[2]:.0f} % at r = 2", judge(share[1] > share[2] > 0.1),
          "the error is 0 at r = 4; a rank above the required one gains nothing")
    claim("", "QLoRA's savings make room for higher ranks.", "supports higher ranks",
          f"one matrix of d = {d} frees {freed / 1e6:.1f} MB, which is enough for r = {affordable}",
          judge(affordable > 64), "freed: 28 of 32 bits of d^2 weights; needed: 16 bytes (with "
          "gradient and Adam's moments) for each of 2dr parameters")


@question("000.4.3", "LoRA and QLoRA at inference: speed and latency")
def solve_inference_speed(say, step, answer, check, claim, d=64, r=4):
    """Say what LoRA and QLoRA trade in speed and latency at inference."""
    rows = [(n, n * d * d, n * (d * d + 2 * d * r), n * (d * d + 2 * d * r) + d * d)
            for n in (1, 512)]
    codes, delta = quantize(W, 4)
    half = float(delta[0]) / 2
    updates = {"A Bᵀ": A @ B.T, "A Bᵀ / 10": A @ B.T / 10}
    requantized = {name: quantize(dequantize(codes, delta) + update, 4, "nearest")
                   for name, update in updates.items()}
    lost = np.array_equal(requantized["A Bᵀ / 10"][0], codes)

    def format_codes(codes):
        return " ".join(str(int(code)) for code in codes.ravel())

    say(*EXAMPLE)
    step("Merge the adapter. The sum of W and A Bᵀ is one matrix of the original size. After "
         "merging, LoRA needs the same time and memory as the original model.",
         "W' = W + A Bᵀ,   y = x W'", format_arrays({"W'": W + A @ B.T, "x W'": X @ (W + A @ B.T)}))
    step("Count the multiplications for n rows, d = 64 and r = 4: merged, not merged, and with the "
         "d² of dequantization in each pass.",
         "merged n d²      apart n (d² + 2 d r)      QLoRA n (d² + 2 d r) + d²",
         format_table(("rows n", "merged", "LoRA apart", "QLoRA", "QLoRA / merged"),
                      [(*row, row[3] / row[1]) for row in rows]))
    step("Count the memory that is read for one row. It limits the speed if one token at a time is "
         "generated.", "32 bits against m bits per weight",
         f"{32 * d * d:,} bits against {4 * d * d:,}: {32 // 4} times less")
    step("QLoRA can be merged as well, but only into a float matrix. If the sum is quantized "
         "again, with its own step size, an update of a step or more remains. An update below half "
         "a step is lost, because no code changes.", "Δ' = max|W + update| / (2^(m−1) − 1),   "
         "codes round((W + update) / Δ')", f"Δ = {2 * half:.3f}, half a step {half:.3f}",
         format_table(
             ("update", "its largest entry", "codes before", "step after", "codes after"),
             [(name, float(np.abs(update).max()), format_codes(codes), float(new[1][0]),
               format_codes(new[0])) for (name, update), new in zip(
                   updates.items(), requantized.values(), strict=True)]))
    answer("LoRA adds no multiplications after merging, and 2 d r per row without merging. QLoRA "
           "adds d² more per pass, which matters for few rows. But it reads 8 times less memory.")
    check("npdl's merged layers give the outputs of the layers with their adapters.",
          all(np.allclose(layer.forward(X)[0], merged_linear(layer).forward(X)[0], atol=1e-6)
              for layer in (make_lora_linear(W, A, B), make_lora_linear(W, A, B, 4))))
    plain, packed = (make_lora_linear(np.eye(d), np.eye(d, r), np.eye(d, r), bits)
                     for bits in (None, 4))
    check("npdl counts the same numbers of multiplications.",
          all((count_multiplications(plain, row[0]),
               count_multiplications(packed, row[0])) == row[2:]
              for row in rows))
    slower = {n: count_multiplications(packed, n) / count_multiplications(plain, n)
              for n in (1, 512)}
    merged = merged_linear(plain).W.data.size
    whole, stored = 4 * merged, make_report(QuantLinear(Linear(64, 64, bias=False))).stored_bytes
    claim("", "LoRA adds no latency at inference.", "no additional latency",
          f"merged, as the document's table says: {merged:,} multiplications per row, as before",
          judge(merged == 64 * 64), "the outputs agree; without merging it would be "
          f"{count_multiplications(plain, 1):,}, which the same table calls a minimal overhead")
    claim("", "QLoRA must compute its adapters separately.", "separate adapter computations",
          "it can also be merged into a float matrix, and is then as fast and as large as LoRA",
          judge(lost, "under-specified"), "the merged outputs agree; merged back into 4 bits, the "
          "small update A Bᵀ / 10 changes no code and is lost")
    claim("", "QLoRA is slower, because of dequantization.", "higher latency",
          "ratio of multiplications, QLoRA to LoRA: "
          + ", ".join(f"{factor:.2f} at n = {n}" for n, factor in slower.items()),
          judge(slower[1] > 1.5 and slower[512] < 1.01, "under-specified"), "d^2 more for each "
          "pass, which matters for few rows; but QLoRA reads 4 bits instead of 32")
    claim("", "LoRA needs more memory at inference than QLoRA.", "higher (full precision)",
          f"{whole:,} bytes compared with {stored:,} for a matrix of 64 x 64",
          judge(stored < whole / 4), "bytes stored by npdl, without adapters")

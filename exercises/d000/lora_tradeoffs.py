"""Document 000, Question 4.1 to 4.3: LoRA against QLoRA, the rank, and inference, by experiment."""

from fractions import Fraction
from functools import partial

import numpy as np

from exercises.d000.quantizer import quantize_exactly
from exercises.framework import Claim, judge, judgement
from exercises.probes import estimate, learned
from exercises.worked import Check, Solution, Table, below, num
from npdl.adapt import add_lora, merged_linear, multiplies, quantize_linears, report
from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.adapt.quantize import dequantize, quantize
from npdl.layers.linear import Linear
from npdl.layers.transformer import Block

QUESTION = """\
4.1  How do LoRA and QLoRA differ in their low-rank updates?
4.2  How does the rank change quality and memory in each?
4.3  What do they trade in speed and latency at inference?"""
TITLES = {"4.1": "LoRA and QLoRA, how they update a layer",
          "4.2": "What the rank of an adapter changes",
          "4.3": "LoRA and QLoRA at inference: speed and latency"}

claim = partial(Claim, "000", "Q4")


def low_rank(matrix, r):
    """(A, B) with A B^T the best approximation of rank r in squared error (Eckart & Young)."""
    U, s, Vt = np.linalg.svd(matrix, full_matrices=False)
    return U[:, :r] * s[:r], Vt[:r].T


def adapted(W, update, r, bits=None):
    """LoRALinear over W (d, e), quantized if `bits`, with the adapter that comes closest to
    W + update."""
    linear = Linear(*W.shape, bias=False, dtype="float64")
    linear.W.data[...] = W
    layer = LoRALinear(QuantLinear(linear, bits) if bits else linear, r)
    layer.A.data[...], layer.B.data[...] = low_rank(W + update - layer.base.weight(), r)
    return layer


def update_error(W, update, r, bits=None):
    """What the best adapter of rank r misses of W + update, relative to the update."""
    missing = merged_linear(adapted(W, update, r, bits)).W.data - (W + update)
    return float(np.sqrt((missing**2).sum() / (update**2).sum()))


def pretrained(d=48, seed=0):
    """A frozen matrix W (d, d), an update of rank 4 and one of full rank of the same size."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d, d)) / np.sqrt(d)
    thin = rng.standard_normal((d, 4)) @ rng.standard_normal((4, d))
    full = rng.standard_normal((d, d))
    size = 0.1 * np.linalg.norm(W)
    return W, size * thin / np.linalg.norm(thin), size * full / np.linalg.norm(full)


def fit_errors(ranks, d=16, samples=32, true_rank=2, noise=1.0, draws=40, seed=0):
    """{rank: (mean training error, mean test error, its standard error)} of the best adapter.

    Targets are X (W + update) + noise; the best update of each rank for the squared training
    error is the least-squares one, projected on its outputs' first directions.
    """
    rng = np.random.default_rng(seed)
    train, test = ({r: [] for r in ranks} for _ in range(2))
    for _ in range(draws):
        X, X_new = rng.standard_normal((2, samples, d))
        left, right = rng.standard_normal((2, d, true_rank))
        update = left @ right.T / np.sqrt(d)
        Y = X @ update + noise * rng.standard_normal((samples, d))
        free = np.linalg.lstsq(X, Y, rcond=None)[0]
        directions = np.linalg.svd(X @ free, full_matrices=False)[2]
        for r in ranks:
            fitted = free @ directions[:r].T @ directions[:r]
            train[r].append(((X @ fitted - Y) ** 2).mean())
            test[r].append(((X_new @ (fitted - update)) ** 2).mean() + noise**2)
    return {r: (float(np.mean(train[r])), *estimate(test[r])) for r in ranks}


def codes_moved(relative_size, d=64, r=4, bits=4, seed=0):
    """Share of 4-bit codes that change when an adapter of a given size is merged into them."""
    rng = np.random.default_rng(seed)
    codes, step = quantize(rng.standard_normal((d, d)), bits)
    W = dequantize(codes, step)
    update = rng.standard_normal((d, r)) @ rng.standard_normal((r, d))
    update *= relative_size * np.linalg.norm(W) / np.linalg.norm(update)
    again, step_again = quantize(W + update, bits, "nearest")
    lost = dequantize(again, step_again) - (W + update)
    return float((again != codes).mean()), float(np.linalg.norm(lost) / np.linalg.norm(update))


def claims():
    return [*method_claims(), *quality_claims(), *rank_claims(), *inference_claims()]


def method_claims(d=64, r=4):
    plain, packed = (Block(d, num_heads=4) for _ in range(2))
    before = plain.state_dict()
    add_lora(plain, r)
    quantize_linears(packed)
    add_lora(packed, r)
    after = plain.state_dict()
    kept = sum(np.array_equal(value, after.get(name, after.get(".base.".join(
        name.rsplit(".", 1))))) for name, value in before.items())
    one, two, seven = report(plain), report(packed), 7e9
    total = one.trainable + one.frozen
    gigabytes = {bits: seven * bits / 8 / 1e9 for bits in (32, 16, 4.127)}
    yield claim("1", "LoRA leaves the base model unquantized.", "no quantization",
                f"{kept} of {len(before)} frozen arrays unchanged", judge(kept == len(before)),
                "npdl's add_lora on a transformer block: arrays equal bit for bit")
    yield claim("1", "LoRA reduces the trainable parameters; QLoRA reduces the base's memory too.",
                "further reduces memory",
                f"block of width {d}, r = {r}: {one.trainable:,} of "
                f"{total:,} numbers learn in both; {one.stored_bytes:,} and "
                f"{two.stored_bytes:,} bytes",
                judge(one.trainable == two.trainable and two.stored_bytes < one.stored_bytes / 3),
                "npdl's report of both models")
    yield claim("1", "LoRA suits moderate memory limits, QLoRA very large models on one device.",
                "use cases",
                f"7e9 frozen numbers: {gigabytes[32]:.0f} GB in 32 bits, {gigabytes[16]:.0f} "
                f"GB in 16, {gigabytes[4.127]:.1f} GB in 4 with double quantization",
                judgement("essay", provided=two.stored_bytes < one.stored_bytes / 3),
                "arithmetic; adapters, activations and optimizer come on top in both")


def quality_claims():
    W, thin, full = pretrained()
    errors = {name: update_error(W, update, 4) for name, update in
              (("rank 4", thin), ("full", full))}
    packed = update_error(W, thin, 4, bits=4)
    finer = update_error(W, thin, 4, bits=12)
    full_percent, packed_percent, finer_percent = 100 * errors["full"], 100 * packed, 100 * finer
    return [
        claim("1", "LoRA performs as well as full fine-tuning.", "matches",
              f"r = 4, an update of rank 4: error {below(errors['rank 4'], 1e-6)}; of full rank: "
              f"{full_percent:.0f} % of the update is missed",
              judge(errors["rank 4"] < 1e-6 and errors["full"] > 0.5, "under-specified"),
              "best possible adapters (Eckart-Young) in npdl's LoRALinear, d = 48: it matches "
              "where the needed update has rank r at most"),
        claim("1", "QLoRA matches 16-bit fine-tuning in spite of 4 bits.", "matches",
              f"the same update over a 4-bit base: {packed_percent:.0f} % missed, over a 12-bit "
              f"base {finer_percent:.1f} %",
              judge(packed > 0.5 > finer, "under-specified"),
              "an example, seed 0: "
              "with the question's quantizer the rounding error has full rank and is larger than "
              "the update; whether a model's answers suffer is an experiment on that model"),
    ]


def rank_claims():
    ranks = (0, 1, 2, 4, 8, 16)
    found = fit_errors(ranks)
    train = [found[r][0] for r in ranks]
    best = min(ranks, key=lambda r: found[r][1])
    W, thin, _ = pretrained()
    exact = [update_error(W, thin, r) for r in (1, 2, 4, 8)]
    params = {r: learned(adapted(W, thin, r)) for r in (1, 8)}
    d, freed = 4096, 4096**2 * (32 - 4) / 8
    affordable, megabytes = int(freed // (2 * d * 16)), freed / 1e6
    yield claim("2", "A higher rank performs better.", "better performance",
                "training error falls: " + ", ".join(f"{e:.3f}" for e in train) + "; test error is "
                f"least at r = {best}: " + ", ".join(f"{found[r][1]:.2f}" for r in ranks),
                judge(train == sorted(train)[::-1] and best < ranks[-1], "under-specified"),
                f"r = {', '.join(map(str, ranks))}; noisy data of a rank-2 update, 40 draws, "
                f"standard errors at most {max(found[r][2] for r in ranks):.2f}: better on the "
                "data it is fitted to, in theory never worse there")
    yield claim("2", "A higher rank needs more memory.", "increased memory",
                f"{params[1]} numbers at r = 1, {params[8]} at r = 8 (d = 48)",
                judge(params[8] == 8 * params[1], provided=params[1] == 2 * len(W)),
                "2dr: counted in npdl; the frozen base is the same")
    yield claim("2", "A low rank may underperform on complex tasks.", "potential underperformance",
                "error on an update of rank 4 at r = 1, 2, 4, 8: "
                + ", ".join(f"{e:.2f}" for e in exact),
                judge(exact[0] > exact[1] > 0.3, provided=exact[2] < 1e-6),
                "an example, seed 0: nothing is gained beyond the rank that is needed")
    yield claim("2", "QLoRA's savings make room for higher ranks.", "supports higher ranks",
                f"{megabytes:.1f} MB freed by one matrix of d = {d} pay for r = {affordable}",
                judge(affordable > 64),
                "28 of 32 bits of d^2 numbers against 2dr numbers of 16 bytes (value, gradient, "
                "two moments of Adam)")


def inference_claims(d=64, r=4):
    W, thin, _ = pretrained(d)
    x = np.random.default_rng(5).standard_normal((10, d))
    plain, packed = adapted(W, thin, r), adapted(W, thin, r, bits=4)
    errors = [np.abs(layer.forward(x)[0] - merged_linear(layer).forward(x)[0]).max()
              for layer in (plain, packed)]
    cost = {n: (multiplies(plain, n), multiplies(packed, n)) for n in (1, 512)}
    slower = {n: b / a for n, (a, b) in cost.items()}
    merged = merged_linear(plain).W.data.size               # one multiplication for each entry
    moved, lost = (100 * share for share in codes_moved(0.02))
    whole = d * d * 4
    stored = report(QuantLinear(Linear(d, d, bias=False))).stored_bytes
    yield claim("3", "LoRA adds no latency at inference.", "no additional latency",
                f"merged, as its table says: {merged:,} multiplications a row, as before",
                judge(merged == d * d, provided=errors[0] < 1e-12),
                f"outputs agree to {below(errors[0], 1e-12)}; not merged it would be "
                f"{cost[1][0]:,}, the minimal overhead of the same table's row on speed")
    yield claim("3", "QLoRA must compute its adapters separately.", "separate adapter computations",
                "it can be merged into a float matrix too, and is then as fast and as large as "
                "LoRA", judge(errors[1] < 1e-12, if_true="under-specified"),
                "an example (seeds 0 and 5): "
                f"merged outputs agree to {below(errors[1], 1e-12)}; merged back into 4 bits an "
                f"update of 2 % of W moves {moved:.1f} % of the codes and is lost "
                f"({lost:.0f} % of its size in error)")
    yield claim("3", "QLoRA is slower, because of dequantization.", "higher latency",
                "multiplications, QLoRA to LoRA: " + ", ".join(
                    f"{factor:.2f} at n = {n}" for n, factor in slower.items()),
                judge(slower[1] > 1.5 and slower[512] < 1.01, "under-specified"),
                "d^2 more for each pass, which matters for few rows; where memory sets the pace, "
                "4 bits instead of 32 are read")
    yield claim("3", "LoRA needs more memory at inference than QLoRA.", "higher (full precision)",
                f"{whole:,} bytes against {stored:,} for a matrix of {d} x {d}",
                judge(stored < d * d), "stored bytes in npdl, adapters left out")


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
    work = Solution("4.1", EXAMPLE, GIVEN)
    work.step("What both do: W stays as it is, and a product of two thin matrices is added to it. "
              "Only A and B learn.", "y = x W + (x A) Bᵀ",
              arrays={"A Bᵀ": A @ B.T, "x A": X @ A, "(x A) Bᵀ": X @ A @ B.T})
    work.step("LoRA: W is kept in floating point.", "y = x W + (x A) Bᵀ",
              arrays={"x W": X @ W, "y": out["LoRA"]})
    work.step("QLoRA: W is kept as small integers with a step, made into floats for each product; "
              "the adapter is the same, in floating point.", "y = x (Δ · quant(W)) + (x A) Bᵀ",
              f"Δ = {num(step)}", {"quant(W)": codes, "Δ quant(W)": again, "y": out["QLoRA"]})
    work.step("Compare what is stored and what learns.",
              table=Table(
                  ("", "bits of W", "numbers that learn", "y₁", "y₂"), (
                  ("LoRA", 32 * W.size, A.size + B.size, *out["LoRA"][0].tolist()),
                  ("QLoRA", BITS * W.size + 32, A.size + B.size, *out["QLoRA"][0].tolist()))))
    work.answer = ("The update A Bᵀ is the same; QLoRA adds it to a W that is stored in few bits "
                   "and dequantized for each product, so it is smaller and W is a little wrong. "
                   "(The QLoRA of its paper has NF4 levels, step sizes in 8 bits too, double "
                   "quantization, and adapters at all linear maps, where LoRA's are mostly at "
                   "those of attention.)")
    work.checks.extend(
        tuple(Check(f"npdl's LoRALinear over {base} gives the same y.", bool(np.allclose(
            library(bits).forward(X)[0], out[name], atol=1e-6)))
            for name, bits, base in (("LoRA", None, "a float W"), ("QLoRA", BITS, "QuantLinear"))))
    return work


def rank_solution(d=4):
    sizes = np.array([3.0, 2.0, 1.0, 0.5])
    update = np.diag(sizes)
    ranks = (0, 1, 2, 3, 4)
    left = {r: float(np.sqrt((sizes[r:] ** 2).sum())) for r in ranks}
    relative = {r: left[r] / left[0] for r in ranks}
    learn = {r: 2 * d * r for r in ranks}
    first_gain, last_gain = relative[0] - relative[1], relative[3] - relative[4]
    work = Solution("4.2",
                    f"An update of {d} x {d} with the singular values "
                    f"{', '.join(num(s, 1) for s in sizes)}.")
    work.step("Memory: A and B hold r columns of d numbers each. It is linear in r, and the same "
              "in LoRA and QLoRA, whose frozen parts do not change with r.", "2 d r numbers",
              f"d = {d}: " + ", ".join(f"r = {r}: {count}" for r, count in learn.items()))
    work.step("Quality: the best A Bᵀ of rank r keeps the r largest singular values of the update "
              "that is needed, and misses the others.", "‖update − A Bᵀ‖² = σ_(r+1)² + … + σ_d²",
              f"r = 2: √({num(sizes[2], 1)}² + {num(sizes[3], 1)}²) = {num(left[2])}",
              table=Table(("r", "numbers that learn", "missed", "of the update"), tuple(
                  (r, learn[r], left[r], relative[r]) for r in ranks)))
    work.step("So more rank helps until the rank of what is to be learned, and not beyond it; on "
              "few noisy data a larger rank fits the noise too.",
              numbers=f"from r = 3 to r = 4 the miss falls by {num(last_gain)} of "
                      f"the update, from 0 to 1 by {num(first_gain)}")
    work.answer = ("Memory grows as 2 d r in both; a higher rank can represent more, and helps as "
                   "far as the update needs it. QLoRA's saving on W leaves room for a larger r.")
    work.check("npdl's LoRALinear, set to the best adapter of each rank, misses the same share.",
               all(abs(update_error(np.zeros((d, d)), update, r) - relative[r]) < 1e-6
                   for r in ranks[1:]))
    work.check("It has 2 d r numbers that learn.",
               all(adapted(np.zeros((d, d)), update, r).count_params() == learn[r]
                   for r in ranks[1:]))
    return work


def spaced(codes):
    return " ".join(map(num, codes.ravel().tolist()))


def inference_solution(d=64, r=4):
    apart, whole = d * d + 2 * d * r, d * d
    rows = [(n, n * whole, n * apart, n * apart + d * d, (n * apart + d * d) / (n * whole))
            for n in (1, 512)]
    plain, quantized = library(), library(BITS)
    thin, zero = np.eye(d), np.zeros((d, d))
    counted = [multiplies(adapted(zero, thin, r), n) for n in (1, 512)]
    counted4 = [multiplies(adapted(thin, thin, r, bits=BITS), n) for n in (1, 512)]
    codes, step = packed()
    half_step = step / 2
    bits_32, bits_m, saving = 32 * d * d, BITS * d * d, 32 // BITS
    (moved, wider), (kept, same) = (quantize(codes * step + update, BITS, "nearest")
                                    for update in (A @ B.T, A @ B.T / 10))
    work = Solution("4.3", EXAMPLE, GIVEN)
    work.step("Merge: the sum of W and the adapter is one matrix of the old size. After that LoRA "
              "costs what the model cost, in time and in memory.", "W' = W + A Bᵀ,   y = x W'",
              arrays={"W'": W + A @ B.T, "x W'": X @ (W + A @ B.T)})
    work.step("Count the multiplications of n rows, d = 64, r = 4: merged, not merged, and with "
              "the d² of dequantization in each pass.",
              "merged n d²      apart n (d² + 2 d r)      QLoRA n (d² + 2 d r) + d²",
              table=Table(("rows n", "merged", "LoRA apart", "QLoRA", "QLoRA / merged"),
                          tuple(rows)))
    work.step("Count the memory that is read for one row: this sets the pace where one token at a "
              "time is generated.", "32 bits against m bits a weight",
              f"{bits_32:,} bits against {bits_m:,}: {saving} times less")
    work.step("QLoRA can be merged as well, but only into a float matrix. Quantizing the sum "
              "anew, with its own step, keeps an update of a step or more, and loses one that "
              "stays below half a step: every code is the old one again.",
              "Δ' = max|W + update| / (2^(m−1) − 1),   codes round((W + update) / Δ')",
              f"Δ = {num(step)}, half a step {num(half_step)}",
              table=Table(("update", "its largest entry", "codes before", "step after",
                           "codes after"), tuple(
                  (name, float(np.abs(update).max()), spaced(codes), float(new[0]), spaced(after))
                  for name, update, new, after in (("A Bᵀ", A @ B.T, wider, moved),
                                                   ("A Bᵀ / 10", A @ B.T / 10, same, kept)))))
    work.answer = ("LoRA costs no multiplication once merged, 2 d r a row when not; QLoRA: d² "
                   "more a pass, which matters for few rows, against reading 8 times less memory.")
    work.check("A Bᵀ / 10 is below half a step: npdl's quantize, to the nearest, gives the codes "
               "of W again; of A Bᵀ it does not.",
               np.abs(A @ B.T).max() / 10 < half_step and all(
                   np.array_equal(quantize(codes * step + update, BITS, "nearest")[0], codes)
                   == lost for update, lost in ((A @ B.T / 10, True), (A @ B.T, False))))
    work.check("npdl's merged layers give the outputs of the layers with their adapters.",
               all(
                   np.allclose(layer.forward(X)[0], merged_linear(layer).forward(X)[0], atol=1e-6)
                   for layer in (plain, quantized)))
    work.check("npdl counts the same multiplications.",
               counted == [row[2] for row in rows] and counted4 == [row[3] for row in rows])
    return work

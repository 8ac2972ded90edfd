"""Document 000, Question 4.4: parameters, multiplications and bytes of LoRA and QLoRA, counted."""

from functools import lru_cache, partial

import numpy as np

from exercises.d000.lora_layer import LowRankLayer, Size, choices, counted, exact, ratios
from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, num

QUESTION = """\
4.4  One layer: attention of h heads, each with d x d matrices W_Q, W_K, W_V, and W_O (dh x d);
     then a linear map W_F (d x d). W_Q, W_K, W_V and W_F carry adapters A B^T, A and B (d x r).
     All W are frozen, in 32 bits (LoRA) or m bits (QLoRA, dequantized for use); n rows of input.
     (a) What are the times of a forward pass and the numbers of trainable parameters?
     (b) Which of LoRA and QLoRA for each of the two parts: with little memory, for fast
         inference, for both?"""
TITLES = {
    "4.4a": "Parameters and multiplications with LoRA and QLoRA",
    "4.4b": "Which of LoRA and QLoRA to choose",
}


SMALL = (Size(n=3, d=8, r=2, h=2), Size(n=16, d=4, r=4, h=3), Size(n=1, d=6, r=1, h=1))
SHOWN = Size(n=32, d=64, r=4, h=8)
claim = partial(Claim, "000", "Q4")
a, b = partial(claim, "4a"), partial(claim, "4b")


def claims():
    return [*shape_claims(), *ffn_claims(), *mha_claims(), *dequantization_claims(),
            *summary_claims(), *choice_claims()]


@lru_cache
def totals_agree(part):
    """Whether the counted multiplications equal the exact formula, for every small size."""
    return all(sum(counted(size, part, quantized).values()) == exact(size, part, quantized)
               for size in SMALL for quantized in (False, True))


def shape_claims():
    layer = LowRankLayer(SHOWN)
    A, B = layer.F.A.data, layer.F.B.data
    d, r, h = SHOWN.d, SHOWN.r, SHOWN.h
    params = {part: {bits: LowRankLayer(SHOWN, bits, bits).trainable(part) for bits in (None, 4)}
              for part in ("FFN", "MHA")}
    output_adapter = d * h * r + d * r
    sizes = f"d = {d}, r = {r}, h = {h}"
    return [
        *[a(f"LFFN with {name} has 2dr trainable parameters.", "2dr",
            f"{params['FFN'][bits]} = 2dr at {sizes}",
            proved(params["FFN"][bits] == A.size + B.size == 2 * d * r),
            "counted in npdl's adapters")
          for name, bits in (("LoRA", None), ("QLoRA", 4))],
        *[a(f"MHA with {name} has 6hdr trainable parameters.", "6hdr",
            f"{params['MHA'][bits]} = 6hdr at {sizes}",
            proved(params["MHA"][bits] == 3 * h * (A.size + B.size) == 6 * h * d * r),
            f"counted; W_O has no adapter in the formulas (one would add {output_adapter})")
          for name, bits in (("LoRA", None), ("QLoRA", 4))],
    ]


def ffn_claims():
    counts = counted(SHOWN, "FFN")
    first = counted(SHOWN, "FFN", adapter_first=True)
    n, d, r = SHOWN.n, SHOWN.d, SHOWN.r
    low, high = ratios("FFN", False)
    yield a("The frozen product of LFFN takes O(n d^2).", "O(n d^2)",
            f"{counts['FFN base']:,} = n d^2 multiplications",
            judge(counts["FFN base"] == n * d * d, provided=totals_agree("FFN")),
            f"counted at n = {n}, d = {d}")
    yield a("Its adapter adds O(n d r).", "O(n d r)",
            f"(X A) B^T: {counts['FFN adapter']:,} = 2ndr; X (A B^T): {first['FFN adapter']:,} = "
            "d^2 r + n d^2",
            judge(counts["FFN adapter"] == 2 * n * d * r
                  and first["FFN adapter"] == d * d * r + n * d * d, "under-specified"),
            "holds for the first order of multiplication; the second costs more than the frozen "
            "product itself")
    yield a("LFFN with LoRA takes O(n d^2 + n d r).", "O(n d^2 + n d r)",
            "n d^2 + 2ndr, that is O(n d^2) as r is at most d",
            judge(0 < low <= high < 10, provided=totals_agree("FFN")),
            f"count / expression between {low:.2f} and {high:.2f} over n, d, r from 1 to 2048")


def mha_claims():
    counts, (n, d, r, h) = counted(SHOWN, "MHA"), (SHOWN.n, SHOWN.d, SHOWN.r, SHOWN.h)
    base = counts["MHA base"]
    low, high = ratios("MHA", False)
    wide = [Size(n, 64, 64, 8) for n in (1, 64, 4096)]
    yield a("The Q, K, V products of MHA take O(3 n d^2 + 3 n d r).", "O(3 n d^2 + 3 n d r)",
            f"for one head 3 n d^2 + 6ndr; for all h heads {base:,} + {counts['MHA adapter']:,} = "
            "h (3 n d^2 + 6ndr)",
            judge(base == 3 * h * n * d * d and counts["MHA adapter"] == 6 * h * n * d * r,
                  "under-specified"),
            f"counted at n = {n}, d = {d}, r = {r}, h = {h}: this is for a single head and counts "
            "one of the adapter's two products; constants inside O() mean nothing")
    yield a("Scores and weighted values take O(n^2 d).", "O(n^2 d)",
            f"2 n^2 d for one head, {counts['attention']:,} = 2h n^2 d for all",
            judge(counts["attention"] == 2 * h * n * n * d, "under-specified"),
            f"counted; right for a single head, h = {h} of them here; the softmax's h n^2 "
            "quotients vanish in it")
    yield a("The output projection takes O(n d^2 h).", "O(n d^2 h)",
            f"{counts['output']:,} = n dh d",
            judge(counts["output"] == n * d * d * h, provided=totals_agree("MHA")), "counted")
    yield a("MHA with LoRA takes O(h (n d^2 + n^2 d) + n d^2 h).", "O(h (n d^2 + n^2 d) + n d^2 h)",
            "h (3 n d^2 + 6ndr + 2 n^2 d) + n d^2 h, that is O(h n d (n + d))",
            judge(0 < low <= high < 20, provided=totals_agree("MHA")),
            f"count / expression between {low:.2f} and {high:.2f} over n, d, r from 1 to 2048, h "
            "to 64; n d^2 h stands in it twice")
    yield a("In that total the adapters' n d r may be dropped, though LFFN's total keeps it.",
            "dropped for MHA, kept for LFFN",
            "legal in both, as r <= d; even at r = d the ratio stays below "
            f"{max(ratios('MHA', False, wide)):.1f}",
            judge(max(ratios("MHA", False, wide)) < 20, provided=totals_agree("MHA")),
            "6ndr <= 6 n d^2; without r <= d neither could be dropped")


def dequantization_claims():
    one, part = counted(SHOWN, "FFN", True), counted(SHOWN, "MHA", True)
    d, h = SHOWN.d, SHOWN.h
    claimed, wanted = 3 * d * d, 4 * h * d * d
    percent = {n: 100 * (wanted / exact(Size(n, d, SHOWN.r, h), "MHA")) for n in (1, 32, 1024)}
    layer = LowRankLayer(SHOWN, 4, 4)
    X = np.random.default_rng(2).standard_normal((SHOWN.n, d)).astype("float32")
    ours, library = layer.forward(X)[0], layer.library_forward(X)
    same = np.abs(ours - library).max() < 1e-4 * np.abs(library).max()
    calls = dequantizations(layer.F, X, steps=3)
    yield a("Dequantizing LFFN's matrix costs O(d^2).", "O(d^2)",
            f"{one['FFN dequantization']:,} = d^2 multiplications",
            judge(one["FFN dequantization"] == d * d, provided=totals_agree("FFN")),
            f"counted at d = {d}")
    yield a("That cost is paid once.", "a one-time cost",
            f"{calls} times in 3 training steps of npdl: in each forward and each backward",
            judge(calls == 1, if_false="under-specified"),
            "once for each pass; kept for good, the float matrix would take back the memory that "
            "was saved")
    yield a("The products are computed in 32-bit floats, as for LoRA.", "float32",
            f"dequantized weights: {layer.F.base.weight().dtype}, outputs: {ours.dtype}",
            judge(layer.F.base.weight().dtype == ours.dtype == np.float32, provided=same),
            "the counted forward equals npdl's layers to float32 rounding")
    yield a("Dequantization adds O(3 d^2) to MHA.", "3 d^2, for W_Q, W_K, W_V",
            f"{part['MHA dequantization']:,} = 4h d^2: h heads of three, and W_O (dh x d)",
            judge(part["MHA dequantization"] == claimed, provided=totals_agree("MHA")),
            f"counted at h = {h}: all pretrained matrices are quantized, W_O too; {wanted:,} "
            f"against {claimed:,}")
    yield a("Dequantization is a minor cost.", "minor",
            "of MHA's other multiplications: " + ", ".join(
                f"{share:.1f} % at n = {n}" for n, share in percent.items()),
            judge(percent[1] > 50 and percent[1024] < 1, "under-specified"),
            "holds for many rows; when one token at a time is generated, n = 1")
    for part, key in (("LFFN", "FFN"), ("MHA", "MHA")):
        low, high = ratios(key, True)
        yield a(f"{part} with QLoRA takes the same O() as with LoRA.", "the same",
                f"count / expression between {low:.2f} and {high:.2f}",
                judge(0 < low <= high < 20, provided=totals_agree(part)),
                "the d^2 (4h d^2) of dequantization is at most the n d^2 (4hn d^2) of the products")


def dequantizations(layer, X, steps):
    """How often an adapter's quantized base makes its float matrix in some training steps."""
    calls, original = [], layer.base.weight
    layer.base.weight = lambda: calls.append(1) or original()
    for _ in range(steps):
        y, cache = layer.forward(X)
        layer.backward(y, cache)
    del layer.base.weight
    return len(calls)


def summary_claims():
    plain, packed = LowRankLayer(SHOWN), LowRankLayer(SHOWN, 4, 4)
    stored = [sum(layer.frozen_bytes(part) for part in ("MHA", "FFN")) for layer in (plain, packed)]
    one = Size(1, SHOWN.d, SHOWN.r, SHOWN.h)
    factor = exact(one, "MHA", True) / exact(one, "MHA")
    smaller = stored[0] / stored[1]
    return [
        a("One row of the summary serves both methods.", "LoRA / QLoRA in one row",
          f"the same O(), not the same count: at n = 1 QLoRA's MHA multiplies {factor:.2f} times "
          "as much", judge(max(ratios("MHA", True)[1], ratios("FFN", True)[1]) < 20,
                            provided=totals_agree("MHA") and totals_agree("FFN")),
          f"exact formulas agree with the counts at {len(SMALL)} sizes"),
        a("Space is counted in trainable parameters, so both methods need the same.",
          "2dr and 6hdr for both",
          f"frozen matrices: {stored[0]:,} bytes in 32 bits, {stored[1]:,} in 4 "
          f"({smaller:.2f} times less)",
          judge(plain.trainable("MHA") == packed.trainable("MHA"), "convention"),
          "the question's definition leaves out exactly what QLoRA changes; bytes counted in "
          f"npdl's layers at d = {SHOWN.d}, h = {SHOWN.h}"),
    ]


def choice_claims():
    found = choices(SHOWN)
    least = min(found, key=lambda key: found[key][0])
    fastest = min(found, key=lambda key: found[key][1])
    best = [key for key, (size, work) in found.items()
            if not any(s <= size and w <= work and (s, w) != (size, work)
                       for s, w in found.values())]
    mixed = found["QLoRA", "LoRA"]
    both, none = found["QLoRA", "QLoRA"], found["LoRA", "LoRA"]
    fewer = none[0] / both[0]
    saved = 100 * (1 - both[0] / none[0])
    mixed_share = 100 * ((none[0] - mixed[0]) / (none[0] - both[0]))
    work = {size: sum(exact(size, part, merged=True) for part in ("MHA", "FFN"))
            for size in (SHOWN, Size(1, SHOWN.d, SHOWN.r, SHOWN.h))}
    slow = {size.n: 100 * (choices(size)["QLoRA", "QLoRA"][1] / own) for size, own in work.items()}
    yield b("With little memory: QLoRA for both.", "QLoRA, QLoRA",
            f"{least[0]}, {least[1]}: {both[0]:,} bytes against {none[0]:,}",
            judge(least == ("QLoRA", "QLoRA")), "frozen bytes of all four choices in npdl's layers")
    yield b("For faster inference: LoRA for both.", "LoRA, LoRA",
            f"fewest multiplications: {fastest[0]}, {fastest[1]} (merged: none beyond the model's "
            f"own {work[SHOWN]:,})", judge(fastest == ("LoRA", "LoRA"), "under-specified"),
            "holds where multiplications set the pace and the adapters are merged; one token at a "
            f"time waits for the weights, of which QLoRA reads {fewer:.1f} times less")
    yield b("For both at once: QLoRA for both.", "QLoRA, QLoRA",
            f"no choice of the four is beaten ({len(best)} of 4 undominated); QLoRA for MHA and "
            f"LoRA for LFFN has {mixed_share:.1f} % of the saving",
            judge(len(best) == 4, "under-specified"),
            "MHA holds 4h of the 4h + 1 frozen matrices; bytes and extra multiplications: "
            f"{mixed[0]:,} and {mixed[1]:,} against {both[0]:,} and {both[1]:,}")
    yield b("QLoRA loses a negligible amount of speed.", "negligible",
            f"adapters and dequantization: {slow[1]:.0f} % more multiplications at n = 1, "
            f"{slow[SHOWN.n]:.0f} % at n = {SHOWN.n}",
            judge(slow[1] > 50 > slow[SHOWN.n], "under-specified"),
            f"against merged LoRA, d = {SHOWN.d}, r = {SHOWN.r}; negligible for many rows and "
            "small r / d")
    yield b("QLoRA saves a substantial part of the memory.", "substantial",
            f"{saved:.1f} % of the frozen bytes at 4 bits",
            judge(both[0] < none[0] / 4),
            "trainable numbers, activations and optimizer not counted")


SIZE, LARGE = Size(n=3, d=4, r=1, h=2), Size(n=32, d=64, r=4, h=8)
EXAMPLE = (f"n = {SIZE.n} rows, width d = {SIZE.d}, rank r = {SIZE.r}, h = {SIZE.h} heads. A "
           "product of an (a x b) and a (b x c) matrix takes a b c multiplications.")


def products(size):
    """(part, what, shapes, times, multiplications of one) of every product of a forward pass."""
    n, d, r, h = size.n, size.d, size.r, size.h
    return [
        ("MHA base", "H W for Q, K, V", (n, d, d), 3 * h),
        ("MHA adapter", "H A for Q, K, V", (n, d, r), 3 * h),
        ("MHA adapter", "(H A) Bᵀ for Q, K, V", (n, r, d), 3 * h),
        ("attention", "Q Kᵀ", (n, d, n), h),
        ("attention", "weights V", (n, n, d), h),
        ("output", "heads W_O", (n, d * h, d), 1),
        ("FFN base", "X W_F", (n, d, d), 1),
        ("FFN adapter", "X A_F", (n, d, r), 1),
        ("FFN adapter", "(X A_F) B_Fᵀ", (n, r, d), 1),
    ]


def solutions():
    return [cost_solution(), choice_solution()]


def cost_solution():
    d, r, h = SIZE.d, SIZE.r, SIZE.h
    rows, sums = [], {}
    for part, what, (a, b, c), times in products(SIZE):
        total = a * b * c * times
        sums[part] = sums.get(part, 0) + total
        rows.append((what, f"{a}x{b} · {b}x{c}", times, total))
    ffn = sums["FFN base"] + sums["FFN adapter"]
    mha = sum(sums.values()) - ffn
    quant = {"FFN": d * d, "MHA": 3 * h * d * d + d * h * d}
    params = {"FFN": 2 * d * r, "MHA": 3 * h * 2 * d * r}
    layer, (own, own4) = LowRankLayer(SIZE), (counted(SIZE, quantized=q) for q in (False, True))
    work = Solution("4.4a", EXAMPLE)
    work.step("Count what learns: only A and B of each adapted matrix, whatever the frozen ones "
              "are stored in.", "FFN: 2 d r      MHA: 3 matrices · h heads · 2 d r = 6 h d r",
              f"FFN: 2 · {d} · {r} = {params['FFN']}      MHA: 6 · {h} · {d} · {r} = "
              f"{params['MHA']}")
    work.step("Write every product with its shapes; multiply the three sizes, and the number of "
              "times it is done.",
              table=Table(("product", "shapes", "times", "multiplications"), tuple(rows)))
    work.step("Add them up. (H A) Bᵀ must be done in this order: A Bᵀ first would be a d x d "
              "matrix again, and cost more than W itself.",
              "FFN: n d² + 2 n d r      MHA: h (3 n d² + 6 n d r + 2 n² d) + n d² h",
              f"FFN: {sums['FFN base']} + {sums['FFN adapter']} = {ffn}\nMHA: {sums['MHA base']} "
              f"+ {sums['MHA adapter']} + {sums['attention']} + {sums['output']} = {mha}")
    work.step("QLoRA multiplies each entry of a quantized matrix by its step once in every pass, "
              "so that both factors of the products are floats: all W_Q, W_K, W_V; W_O; W_F.",
              "FFN: + d²      MHA: + 3 h d² + (d h) d = 4 h d²",
              f"FFN: + {quant['FFN']};   MHA: + {quant['MHA']}")
    work.step("Keep the fastest growing terms: 2 n d r ≤ 2 n d² because r ≤ d, and d² ≤ n d².",
              "FFN: O(n d² + n d r) = O(n d²)      MHA: O(h (n d² + n² d))")
    work.answer = ("FFN O(n d² + n d r) with 2 d r numbers, MHA O(h (n d² + n² d)) with 6 h d r, "
                   "for both methods; QLoRA adds d² and 4 h d² multiplications, which O() does "
                   "not show.")
    work.check("npdl's layers, run on this size, count the same products one by one.",
               all(own[part] == total for part, total in sums.items())
               and own4["FFN dequantization"] == quant["FFN"]
               and own4["MHA dequantization"] == quant["MHA"])
    work.check("npdl's adapters have these numbers of trainable parameters.",
               all(layer.trainable(part) == number for part, number in params.items()))
    return work


def choice_solution():
    size = LARGE
    found = choices(size)
    own = sum(a * b * c * times for part, _, (a, b, c), times in products(size)
              if "adapter" not in part)
    d, h = size.d, size.h
    bytes_32, bytes_4 = 4 * d * d, d * d // 2
    matrices = {"MHA": 4 * h, "FFN": 1}
    rows = tuple((*kinds, memory, extra, f"{num(percent, 1)} %")
                 for kinds, (memory, extra) in found.items() for percent in [100 * extra / own])
    least = min(found, key=lambda kinds: found[kinds][0])
    fastest = min(found, key=lambda kinds: found[kinds][1])
    mixed = found["QLoRA", "LoRA"]
    saved = found["LoRA", "LoRA"][0] - found["QLoRA", "QLoRA"][0]
    mixed_share = 100 * ((found["LoRA", "LoRA"][0] - mixed[0]) / saved)
    work = Solution("4.4b", f"n = {size.n}, d = {size.d}, r = {size.r}, h = {size.h}, 4 bits.")
    work.step("Count the frozen matrices of both parts: where most of them are, most of the "
              "memory is.", "MHA: 3 h + h = 4 h matrices of d x d      FFN: 1",
              f"h = {h}: {matrices['MHA']} and {matrices['FFN']}; each 4 d² = {bytes_32:,} bytes "
              f"in 32 bits, d² / 2 = {bytes_4:,} in 4 (and a step)")
    work.step("Count what each choice computes beyond the model: LoRA nothing once merged, QLoRA "
              "the dequantization and its adapters.",
              "MHA: 4 h d² + 6 h n d r      FFN: d² + 2 n d r",
              f"MHA: {found['QLoRA', 'LoRA'][1]:,}      FFN: {found['LoRA', 'QLoRA'][1]:,}")
    work.step("Set the four choices side by side.",
              table=Table(
                  ("MHA", "LFFN", "frozen bytes", "extra multiplications", "of the model's"), rows))
    work.step("Decide. One goal has one best choice; two goals have none, as none of the four is "
              "better than another in both.",
              numbers=f"memory: {least[0]}, {least[1]}\nspeed: {fastest[0]}, {fastest[1]}\nboth: "
                      f"QLoRA for MHA alone already saves {num(mixed_share, 1)} % of what both "
                      "save")
    work.answer = (f"Memory limit: {' and '.join(least)}; faster inference: "
                   f"{' and '.join(fastest)}, merged; both: QLoRA where the memory is (MHA), for "
                   "LFFN either, by what matters more.")
    work.check("The bytes are those that npdl's layers store.",
               found["LoRA", "LoRA"][0] == bytes_32 * sum(matrices.values()))
    work.check("None of the four is beaten in both columns.",
               not any(
                   a != b and found[a][0] <= found[b][0] and found[a][1] <= found[b][1]
                   for a in found for b in found))
    return work

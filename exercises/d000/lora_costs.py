"""Document 000, Question 4.4: parameters, multiplications and bytes of LoRA and QLoRA, counted.

One layer: attention of h heads, each with d x d matrices W_Q, W_K, W_V, and W_O (dh x d); then a
linear map W_F (d x d). W_Q, W_K, W_V and W_F carry adapters A Bᵀ, A and B (d x r). All W are
frozen, in 32 bits (LoRA) or in m bits (QLoRA, dequantized for use); there are n rows of input.
"""

from collections import namedtuple
from itertools import product

import numpy as np

from exercises.course import format_table, judge, question
from npdl.adapt import count_multiplications
from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.layers.linear import Linear

Size = namedtuple("Size", "n d r h")
SMALL, LARGE = Size(3, 4, 1, 2), Size(32, 64, 4, 8)
PARTS = "MHA", "FFN"


def list_matrix_products(size):
    """Return (part, description, sizes of the product, count) of each product of a forward pass."""
    n, d, r, h = size
    return [("MHA base", "H W for Q, K, V", (n, d, d), 3 * h),
            ("MHA adapter", "H A for Q, K, V", (n, d, r), 3 * h),
            ("MHA adapter", "(H A) Bᵀ for Q, K, V", (n, r, d), 3 * h),
            ("MHA attention", "Q Kᵀ", (n, d, n), h), ("MHA attention", "weights V", (n, n, d), h),
            ("MHA output", "heads W_O", (n, d * h, d), 1), ("FFN base", "X W_F", (n, d, d), 1),
            ("FFN adapter", "X A_F", (n, d, r), 1), ("FFN adapter", "(X A_F) B_Fᵀ", (n, r, d), 1)]


def multiplications_by_part(size, quantized=False):
    """Return {part: number of multiplications} of a forward pass."""
    counts = {}
    for part, _, (a, b, c), times in list_matrix_products(size):
        counts[part] = counts.get(part, 0) + a * b * c * times
    if quantized:
        counts["MHA dequantization"] = 4 * size.h * size.d**2
        counts["FFN dequantization"] = size.d**2
    return counts


def total_cost(size, part, quantized=False, merged=False):
    """Return the number of multiplications of "MHA" or "FFN". `merged` leaves out the adapters."""
    return sum(number for kind, number in multiplications_by_part(size, quantized).items()
               if kind.startswith(part) and not (merged and kind.endswith("adapter")))


def cost_ratio_range(part, quantized=False):
    """Return the least and largest ratio of a count to its printed O(), over a grid of sizes."""
    grid = (1, 4, 32, 256, 2048)
    ratios = [total_cost(Size(n, d, r, h), part, quantized) / (
        n * d * d + n * d * r if part == "FFN" else h * (n * d * d + n * n * d) + n * d * d * h)
        for n, d, r, h in product(grid, grid, grid, (1, 8, 64)) if r <= d]
    return min(ratios), max(ratios)


def make_linear_layers(size, bits=None):
    """Return npdl's linear layers of MHA (Q, K, V of each head, then W_O), and of the FFN."""
    def make_frozen_linear(d_in):
        linear = Linear(d_in, size.d, bias=False)
        return FrozenLinear(linear) if bits is None else QuantLinear(linear, bits)

    heads = [LoRALinear(make_frozen_linear(size.d), size.r) for _ in range(3 * size.h)]
    return {"MHA": [*heads, make_frozen_linear(size.d * size.h)],
            "FFN": [LoRALinear(make_frozen_linear(size.d), size.r)]}


def count_trainable(layers):
    """Return the number of trainable parameters in layers."""
    return sum(param.data.size for layer in layers for _, param in layer.params()
               if param.trainable)


def count_frozen_bytes(layers):
    """Return the number of bytes of the frozen parameters in layers."""
    return sum(param.data.nbytes for layer in layers for _, param in layer.params(with_frozen=True)
               if not param.trainable)


@question("000.4.4a", "Parameters and multiplications with LoRA and QLoRA")
def solve_lora_costs(say, step, answer, check, claim):
    """Give the time of a forward pass and the number of trainable parameters for LoRA and QLoRA."""
    n, d, r, h = SMALL
    sums = multiplications_by_part(SMALL, quantized=True)
    say(f"The example has n = {n} rows, width d = {d}, rank r = {r} and h = {h} heads. A product "
        "of an (a x b) and a (b x c) matrix takes a b c multiplications.")
    step("Count the trainable parameters. Only A and B of each adapted matrix are trained, in both "
         "methods.", "FFN: 2 d r      MHA: 3 matrices · h heads · 2 d r = 6 h d r",
         f"FFN: 2 · {d} · {r} = {2 * d * r}      MHA: 6 · {h} · {d} · {r} = {6 * h * d * r}")
    step("Write down the shapes of every product. Multiply the three sizes, and the number of "
         "times that the product is computed.",
         format_table(("product", "shapes", "times", "multiplications"),
                      [(what, f"{a}x{b} · {b}x{c}", times, a * b * c * times)
                       for _, what, (a, b, c), times in list_matrix_products(SMALL)]))
    step("Add them up. (H A) Bᵀ must be computed in this order, because A Bᵀ is a d x d matrix and "
         "would cost more than W itself.", "FFN: n d² + 2 n d r      MHA: h (3 n d² + 6 n d r + 2 "
         "n² d) + n d² h", f"FFN: {sums['FFN base']} + {sums['FFN adapter']} = "
         f"{total_cost(SMALL, 'FFN')}", f"MHA: {sums['MHA base']} + {sums['MHA adapter']} + "
         f"{sums['MHA attention']} + {sums['MHA output']} = {total_cost(SMALL, 'MHA')}")
    step("QLoRA multiplies each entry of the quantized matrices W_Q, W_K, W_V, W_O and W_F by its "
         "step size once in every pass, so that both factors of the products are floats.",
         "FFN: + d²      MHA: + 3 h d² + (d h) d = 4 h d²",
         f"FFN: + {sums['FFN dequantization']};   MHA: + {sums['MHA dequantization']}")
    step("Keep the fastest-growing terms. 2 n d r ≤ 2 n d² because r ≤ d, and d² ≤ n d².",
         "FFN: O(n d² + n d r) = O(n d²)      MHA: O(h (n d² + n² d))")
    answer("In both methods, the FFN takes O(n d² + n d r) and has 2 d r trainable parameters. The "
           "MHA takes O(h (n d² + n² d)) and has 6 h d r. QLoRA adds d² and 4 h d² "
           "multiplications, which do not change O().")
    check("npdl counts the same multiplications in the linear layers of both methods.",
          all(sum(count_multiplications(layer, n)
                  for layer in make_linear_layers(SMALL, bits)[part])
              == total_cost(SMALL, part, bits) - (part == "MHA") * sums["MHA attention"]
              for part in PARTS for bits in (None, 4)))
    for part, name, formula, expected, evidence in (
            ("FFN", "LFFN", "2dr", 2 * d * r, "counted in npdl's adapters"),
            ("MHA", "MHA", "6hdr", 6 * h * d * r, "counted in npdl's adapters; W_O has no adapter "
                                                  "in the formulas (an adapter would add "
                                                  f"{d * h * r + d * r})")):
        for method, bits in (("LoRA", None), ("QLoRA", 4)):
            number = count_trainable(make_linear_layers(SMALL, bits)[part])
            claim("", f"{name} with {method} has {formula} trainable parameters.", formula,
                  f"{number} = {formula} at d = {d}, r = {r}, h = {h}",
                  judge(number == expected), evidence)
    low, high = cost_ratio_range("FFN")
    other = d * r * d + n * d * d                                       # X (A Bᵀ)
    claim("", "The frozen product of LFFN takes O(n d^2).", "O(n d^2)",
          f"{sums['FFN base']:,} = n d^2 multiplications",
          judge(sums["FFN base"] == n * d * d), f"counted at n = {n}, d = {d}")
    claim("", "Its adapter adds O(n d r).", "O(n d r)",
          f"(X A) B^T: {sums['FFN adapter']:,} = 2ndr; X (A B^T): {other:,} = d^2 r + n d^2",
          judge(sums["FFN adapter"] == 2 * n * d * r < sums["FFN base"] < other, "under-specified"),
          "true for the first order; the second order costs more than the frozen product")
    claim("", "LFFN with LoRA takes O(n d^2 + n d r).", "O(n d^2 + n d r)", "n d^2 + 2ndr, that is "
          "O(n d^2) because r is at most d", judge(0 < low <= high < 10), "the ratio of count and "
          f"expression is {low:.2f} to {high:.2f} for n, d, r from 1 to 2048")
    low, high = cost_ratio_range("MHA")
    claim("", "The Q, K, V products of MHA take O(3 n d^2 + 3 n d r).", "O(3 n d^2 + 3 n d r)",
          f"for one head 3 n d^2 + 6ndr; for all h heads {sums['MHA base']:,} + "
          f"{sums['MHA adapter']:,} = h (3 n d^2 + 6ndr)",
          judge((sums["MHA base"], sums["MHA adapter"])
                == (3 * h * n * d * d, 6 * h * n * d * r), "under-specified"),
          f"counted at n = {n}, d = {d}, r = {r}, h = {h}; the claim is for a single head and one "
          "of the adapter's two products; constants do not change O()")
    claim("", "Scores and weighted values take O(n^2 d).", "O(n^2 d)",
          f"2 n^2 d for one head, {sums['MHA attention']:,} = 2h n^2 d for all",
          judge(sums["MHA attention"] == 2 * h * n * n * d, "under-specified"),
          f"counted; true for a single head, but the layer has h = {h}; the h n^2 divisions of the "
          "softmax do not change O()")
    claim("", "The output projection takes O(n d^2 h).", "O(n d^2 h)",
          f"{sums['MHA output']:,} = n dh d", judge(sums["MHA output"] == n * d * d * h), "counted")
    claim("", "MHA with LoRA takes O(h (n d^2 + n^2 d) + n d^2 h).", "O(h (n d^2 + n^2 d) + n d^2 "
          "h)", "h (3 n d^2 + 6ndr + 2 n^2 d) + n d^2 h, that is O(h n d (n + d))",
          judge(0 < low <= high < 20), f"the ratio of count and expression is {low:.2f} to "
          f"{high:.2f} for n, d, r from 1 to 2048; the expression has n d^2 h twice")
    claim("", "In that total the adapters' n d r may be dropped, though LFFN's total keeps it.",
          "dropped for MHA, kept for LFFN",
          f"allowed in both, because r <= d; even at r = d the ratio is at most {high:.1f}",
          judge(high < 20), "6ndr <= 6 n d^2; without r <= d neither could be dropped")
    plain, packed = make_linear_layers(SMALL), make_linear_layers(SMALL, 4)
    (layer,) = packed["FFN"]
    weights, (y, _) = layer.base.weight(), layer.forward(np.ones((n, d), "float32"))
    added = count_multiplications(layer, n) - count_multiplications(plain["FFN"][0], n)
    expected = sums["MHA dequantization"]
    percent = {n: 100 * expected / total_cost(Size(n, d, r, h), "MHA") for n in (1, 32, 1024)}
    claim("", "Dequantizing LFFN's matrix costs O(d^2).", "O(d^2)",
          f"{sums['FFN dequantization']:,} = d^2 multiplications",
          judge(sums["FFN dequantization"] == d * d == weights.size), f"counted at d = {d}")
    claim("", "That cost is paid once.", "a one-time cost",
          f"it is paid in every pass: npdl counts {added} more multiplications for each forward "
          "pass", judge(added == 0, if_false="under-specified"),
          "to pay once, one must keep the float matrix, and the saved memory is lost")
    claim("", "The products are computed in 32-bit floats, as for LoRA.", "float32",
          f"dequantized weights: {weights.dtype}, outputs: {y.dtype}",
          judge(weights.dtype == y.dtype == np.float32), "npdl's QuantLinear in a LoRALinear")
    claim("", "Dequantization adds O(3 d^2) to MHA.", "3 d^2, for W_Q, W_K, W_V",
          f"{expected:,} = 4h d^2: three matrices for each of h heads, and W_O (dh x d)",
          judge(expected == 3 * d * d),
          f"all pretrained matrices are quantized, also W_O; {expected:,} instead of {3 * d * d:,}")
    claim("", "Dequantization is a minor cost.", "minor",
          "relative to MHA's other multiplications: "
          + ", ".join(f"{share:.1f} % at n = {n}" for n, share in percent.items()),
          judge(percent[1] > 50 and percent[1024] < 1, "under-specified"),
          "true for many rows; but n = 1 when one token at a time is generated")
    for name, part in (("LFFN", "FFN"), ("MHA", "MHA")):
        low, high = cost_ratio_range(part, True)
        claim("", f"{name} with QLoRA takes the same O() as with LoRA.", "the same", "the ratio of "
              f"count and expression is {low:.2f} to {high:.2f}", judge(0 < low <= high < 20),
              "dequantization adds d^2 (MHA: 4h d^2), at most the products' n d^2 (4hn d^2)")
    one = SMALL._replace(n=1)
    stored = [sum(map(count_frozen_bytes, maps.values())) for maps in (plain, packed)]
    claim("", "One row of the summary serves both methods.", "LoRA / QLoRA in one row",
          "the same O(), but not the same count: at n = 1, QLoRA's MHA has "
          f"{total_cost(one, 'MHA', True) / total_cost(one, 'MHA'):.2f} times as many "
          "multiplications",
          judge(max(cost_ratio_range("MHA", True)[1], cost_ratio_range("FFN", True)[1]) < 20),
          "the formulas agree with npdl's counts")
    claim("", "Space is counted in trainable parameters, so both methods need the same.",
          "2dr and 6hdr for both", f"frozen matrices: {stored[0]:,} bytes with 32 bits, "
          f"{stored[1]:,} with 4 bits ({stored[0] / stored[1]:.2f} times less)",
          judge(count_trainable(plain["MHA"]) == count_trainable(packed["MHA"]), "convention"),
          "the definition leaves out the frozen matrices, which QLoRA makes smaller; bytes of "
          "npdl's layers")


@question("000.4.4b", "Which of LoRA and QLoRA to choose")
def solve_choice_of_method(say, step, answer, check, claim):
    """Choose LoRA or QLoRA for each of two parts: little memory, fast inference, or both."""
    n, d, r, h = LARGE
    memory = {name: {part: count_frozen_bytes(maps)
                     for part, maps in make_linear_layers(LARGE, bits).items()}
              for name, bits in (("LoRA", None), ("QLoRA", 4))}
    own = sum(total_cost(LARGE, part, merged=True) for part in PARTS)
    extra = {"LoRA": dict.fromkeys(PARTS, 0), "QLoRA": {
        part: total_cost(LARGE, part, True) - total_cost(LARGE, part, merged=True)
        for part in PARTS}}
    choices = {(a, b): (memory[a]["MHA"] + memory[b]["FFN"], extra[a]["MHA"] + extra[b]["FFN"])
               for a, b in product(memory, repeat=2)}      # LoRA's adapters are merged
    least, fastest = (min(choices, key=lambda kinds: choices[kinds][i]) for i in (0, 1))
    none, both, mixed = choices["LoRA", "LoRA"], choices["QLoRA", "QLoRA"], choices["QLoRA", "LoRA"]
    share = 100 * (none[0] - mixed[0]) / (none[0] - both[0])
    best = [a for a, cost in choices.items() if not any(
        a != b and other[0] <= cost[0] and other[1] <= cost[1] for b, other in choices.items())]
    say(f"The example has n = {n}, d = {d}, r = {r}, h = {h}, and 4 bits.")
    step("Count the frozen matrices of both parts. The part with most of the matrices has most of "
         "the memory.", "MHA: 3 h + h = 4 h matrices of d x d      FFN: 1",
         f"h = {h}: {4 * h} and 1 matrices; each has 4 d² = {4 * d * d:,} bytes with 32 bits, d² / "
         f"2 = {d * d // 2:,} with 4 (and a step size)")
    step("Count the extra multiplications of each choice. LoRA has none after merging. QLoRA has "
         "the dequantization and its adapters.", "MHA: 4 h d² + 6 h n d r      FFN: d² + 2 n d r",
         f"MHA: {mixed[1]:,}      FFN: {choices['LoRA', 'QLoRA'][1]:,}")
    step("Compare the four choices.",
         format_table(("MHA", "LFFN", "frozen bytes", "extra multiplications", "relative"),
                      [(*kinds, memory, extra, f"{100 * extra / own:.1f} %")
                       for kinds, (memory, extra) in choices.items()]))
    step("Decide. Each goal alone has one best choice. The two goals together have none, because "
         "none of the four choices is better than another in both.",
         f"memory: {least[0]}, {least[1]}", f"speed: {fastest[0]}, {fastest[1]}",
         f"both: QLoRA for MHA alone already saves {share:.1f} % of the bytes")
    answer(f"For MHA and LFFN, choose {' and '.join(least)} if memory is limited, and "
           f"{' and '.join(fastest)}, merged, for fast inference. For both goals, choose QLoRA for "
           "MHA, which has most of the memory, and either method for LFFN.")
    check("The bytes are those that npdl's layers store.", none[0] == 4 * d * d * (4 * h + 1))
    slow, slow_one = (100 * sum(total_cost(size, part, True) for part in PARTS)
                      / sum(total_cost(size, part, merged=True) for part in PARTS) - 100
                      for size in (LARGE, LARGE._replace(n=1)))
    claim("", "With little memory: QLoRA for both.", "QLoRA, QLoRA",
          f"{least[0]}, {least[1]}: {both[0]:,} bytes instead of {none[0]:,}",
          judge(least == ("QLoRA", "QLoRA")), "frozen bytes of all four choices in npdl's layers")
    claim("", "For faster inference: LoRA for both.", "LoRA, LoRA",
          f"fewest multiplications: {fastest[0]}, {fastest[1]} (merged: only the model's own "
          f"{own:,})", judge(fastest == ("LoRA", "LoRA"), "under-specified"),
          "true if multiplications limit the speed; if one token at a time is generated, reading "
          f"the weights limits it, and QLoRA reads {none[0] / both[0]:.1f} times less")
    claim("", "For both at once: QLoRA for both.", "QLoRA, QLoRA", "no choice is worse than "
          f"another in both goals ({len(best)} of 4 undominated); QLoRA for MHA and LoRA for LFFN "
          f"has {share:.1f} % of the saving", judge(len(best) == 4, "under-specified"),
          f"MHA holds 4h of the 4h + 1 frozen matrices; it needs {mixed[0]:,} bytes and "
          f"{mixed[1]:,} extra multiplications, QLoRA for both {both[0]:,} and {both[1]:,}")
    claim("", "QLoRA loses a negligible amount of speed.", "negligible",
          f"adapters and dequantization: {slow_one:.0f} % more multiplications at n = 1, "
          f"{slow:.0f} % at n = {n}", judge(slow_one > 50 > slow, "under-specified"),
          f"compared with merged LoRA, d = {d}, r = {r}; negligible for many rows and small r / d")
    claim("", "QLoRA saves a substantial part of the memory.", "substantial",
          f"with 4 bits, it saves {100 * (1 - both[0] / none[0]):.1f} % of the frozen bytes",
          judge(both[0] < none[0] / 4),
          "trainable parameters, activations and optimizer are not counted")

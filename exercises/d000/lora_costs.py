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
    found = {}
    for part, _, (a, b, c), times in list_matrix_products(size):
        found[part] = found.get(part, 0) + a * b * c * times
    if quantized:
        found["MHA dequantization"] = 4 * size.h * size.d**2
        found["FFN dequantization"] = size.d**2
    return found


def total_cost(size, part, quantized=False, merged=False):
    """Return the number of multiplications of "MHA" or "FFN". `merged` leaves out the adapters."""
    return sum(number for kind, number in multiplications_by_part(size, quantized).items()
               if kind.startswith(part) and not (merged and kind.endswith("adapter")))


def cost_ratio_range(part, quantized=False):
    """Return the least and largest ratio of a count to its printed O(), over a grid of sizes."""
    grid = (1, 4, 32, 256, 2048)
    found = [total_cost(Size(n, d, r, h), part, quantized) / (
        n * d * d + n * d * r if part == "FFN" else h * (n * d * d + n * n * d) + n * d * d * h)
        for n, d, r, h in product(grid, grid, grid, (1, 8, 64)) if r <= d]
    return min(found), max(found)


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
    """Give times of a forward pass and numbers of trainable parameters for LoRA and QLoRA."""
    n, d, r, h = SMALL
    sums = multiplications_by_part(SMALL, quantized=True)
    say(f"n = {n} rows, width d = {d}, rank r = {r}, h = {h} heads. A product of an (a x b) "
        "and a (b x c) matrix takes a b c multiplications.")
    step("Count what learns: only A and B of each adapted matrix, whatever the frozen ones "
         "are stored in.", "FFN: 2 d r      MHA: 3 matrices · h heads · 2 d r = 6 h d r",
         f"FFN: 2 · {d} · {r} = {2 * d * r}      MHA: 6 · {h} · {d} · {r} = {6 * h * d * r}")
    step("Write every product with its shapes; multiply the three sizes, and the number of "
         "times it is done.",
         format_table(("product", "shapes", "times", "multiplications"),
                      [(what, f"{a}x{b} · {b}x{c}", times, a * b * c * times)
                       for _, what, (a, b, c), times in list_matrix_products(SMALL)]))
    step("Add them up. (H A) Bᵀ must be done in this order: A Bᵀ first would be a d x d "
         "matrix again, and cost more than W itself.",
         "FFN: n d² + 2 n d r      MHA: h (3 n d² + 6 n d r + 2 n² d) + n d² h",
         f"FFN: {sums['FFN base']} + {sums['FFN adapter']} = {total_cost(SMALL, 'FFN')}",
         f"MHA: {sums['MHA base']} + {sums['MHA adapter']} + {sums['MHA attention']} + "
         f"{sums['MHA output']} = {total_cost(SMALL, 'MHA')}")
    step("QLoRA multiplies each entry of a quantized matrix by its step once in every pass, "
         "so that both factors of the products are floats: all W_Q, W_K, W_V; W_O; W_F.",
         "FFN: + d²      MHA: + 3 h d² + (d h) d = 4 h d²",
         f"FFN: + {sums['FFN dequantization']};   MHA: + {sums['MHA dequantization']}")
    step("Keep the fastest growing terms: 2 n d r ≤ 2 n d² because r ≤ d, and d² ≤ n d².",
         "FFN: O(n d² + n d r) = O(n d²)      MHA: O(h (n d² + n² d))")
    answer("FFN O(n d² + n d r) with 2 d r numbers, MHA O(h (n d² + n² d)) with 6 h d r, for "
           "both methods; QLoRA adds d² and 4 h d² multiplications, which O() does not show.")
    check("npdl counts as many multiplications in the linear maps of both methods.",
          all(sum(count_multiplications(layer, n)
                  for layer in make_linear_layers(SMALL, bits)[part])
              == total_cost(SMALL, part, bits) - (part == "MHA") * sums["MHA attention"]
              for part in PARTS for bits in (None, 4)))
    for part, name, formula, wanted, evidence in (
            ("FFN", "LFFN", "2dr", 2 * d * r, "counted in npdl's adapters"),
            ("MHA", "MHA", "6hdr", 6 * h * d * r, "counted; W_O has no adapter in the formulas "
             f"(one would add {d * h * r + d * r})")):
        for method, bits in (("LoRA", None), ("QLoRA", 4)):
            number = count_trainable(make_linear_layers(SMALL, bits)[part])
            claim("", f"{name} with {method} has {formula} trainable parameters.", formula,
                  f"{number} = {formula} at d = {d}, r = {r}, h = {h}",
                  judge(number == wanted), evidence)
    low, high = cost_ratio_range("FFN")
    other = d * r * d + n * d * d                                       # X (A Bᵀ)
    claim("", "The frozen product of LFFN takes O(n d^2).", "O(n d^2)",
          f"{sums['FFN base']:,} = n d^2 multiplications",
          judge(sums["FFN base"] == n * d * d), f"counted at n = {n}, d = {d}")
    claim("", "Its adapter adds O(n d r).", "O(n d r)",
          f"(X A) B^T: {sums['FFN adapter']:,} = 2ndr; X (A B^T): {other:,} = d^2 r + n d^2",
          judge(sums["FFN adapter"] == 2 * n * d * r < sums["FFN base"] < other, "under-specified"),
          "holds for the first order; the second costs more than the frozen product")
    claim("", "LFFN with LoRA takes O(n d^2 + n d r).", "O(n d^2 + n d r)",
          "n d^2 + 2ndr, that is O(n d^2) as r is at most d", judge(0 < low <= high < 10),
          f"count / expression between {low:.2f} and {high:.2f} over n, d, r from 1 to 2048")
    low, high = cost_ratio_range("MHA")
    claim("", "The Q, K, V products of MHA take O(3 n d^2 + 3 n d r).", "O(3 n d^2 + 3 n d r)",
          f"for one head 3 n d^2 + 6ndr; for all h heads {sums['MHA base']:,} + "
          f"{sums['MHA adapter']:,} = h (3 n d^2 + 6ndr)",
          judge((sums["MHA base"], sums["MHA adapter"])
                == (3 * h * n * d * d, 6 * h * n * d * r), "under-specified"),
          f"counted at n = {n}, d = {d}, r = {r}, h = {h}: for a single head, with one of the "
          "adapter's two products; constants in O() mean nothing")
    claim("", "Scores and weighted values take O(n^2 d).", "O(n^2 d)",
          f"2 n^2 d for one head, {sums['MHA attention']:,} = 2h n^2 d for all",
          judge(sums["MHA attention"] == 2 * h * n * n * d, "under-specified"),
          f"counted; right for a single head, h = {h} of them here; the softmax's h n^2 "
          "quotients vanish in it")
    claim("", "The output projection takes O(n d^2 h).", "O(n d^2 h)",
          f"{sums['MHA output']:,} = n dh d", judge(sums["MHA output"] == n * d * d * h), "counted")
    claim("", "MHA with LoRA takes O(h (n d^2 + n^2 d) + n d^2 h).",
          "O(h (n d^2 + n^2 d) + n d^2 h)",
          "h (3 n d^2 + 6ndr + 2 n^2 d) + n d^2 h, that is O(h n d (n + d))",
          judge(0 < low <= high < 20),
          f"count / expression between {low:.2f} and {high:.2f} over n, d, r from 1 to 2048; "
          "n d^2 h is in it twice")
    claim("", "In that total the adapters' n d r may be dropped, though LFFN's total keeps "
          "it.", "dropped for MHA, kept for LFFN",
          f"legal in both, as r <= d; even at r = d the ratio is at most {high:.1f}",
          judge(high < 20), "6ndr <= 6 n d^2; without r <= d neither could be dropped")
    plain, packed = make_linear_layers(SMALL), make_linear_layers(SMALL, 4)
    (layer,) = packed["FFN"]
    weights, (y, _) = layer.base.weight(), layer.forward(np.ones((n, d), "float32"))
    passed = count_multiplications(layer, n) - count_multiplications(plain["FFN"][0], n)
    wanted = sums["MHA dequantization"]
    percent = {n: 100 * wanted / total_cost(Size(n, d, r, h), "MHA") for n in (1, 32, 1024)}
    claim("", "Dequantizing LFFN's matrix costs O(d^2).", "O(d^2)",
          f"{sums['FFN dequantization']:,} = d^2 multiplications",
          judge(sums["FFN dequantization"] == d * d == weights.size), f"counted at d = {d}")
    claim("", "That cost is paid once.", "a one-time cost",
          f"in every pass: npdl counts {passed} multiplications more for each forward",
          judge(passed == 0, if_false="under-specified"),
          "once for each pass; a float matrix that is kept takes back the memory saved")
    claim("", "The products are computed in 32-bit floats, as for LoRA.", "float32",
          f"dequantized weights: {weights.dtype}, outputs: {y.dtype}",
          judge(weights.dtype == y.dtype == np.float32), "npdl's QuantLinear in a LoRALinear")
    claim("", "Dequantization adds O(3 d^2) to MHA.", "3 d^2, for W_Q, W_K, W_V",
          f"{wanted:,} = 4h d^2: h heads of three, and W_O (dh x d)", judge(wanted == 3 * d * d),
          f"all pretrained matrices are quantized, W_O too; {wanted:,} against {3 * d * d:,}")
    claim("", "Dequantization is a minor cost.", "minor", "of MHA's other multiplications: "
          + ", ".join(f"{share:.1f} % at n = {n}" for n, share in percent.items()),
          judge(percent[1] > 50 and percent[1024] < 1, "under-specified"),
          "holds for many rows; when one token at a time is generated, n = 1")
    for name, part in (("LFFN", "FFN"), ("MHA", "MHA")):
        low, high = cost_ratio_range(part, True)
        claim("", f"{name} with QLoRA takes the same O() as with LoRA.", "the same",
              f"count / expression between {low:.2f} and {high:.2f}", judge(0 < low <= high < 20),
              "dequantization's d^2 (4h d^2) is at most the products' n d^2 (4hn d^2)")
    one = SMALL._replace(n=1)
    stored = [sum(map(count_frozen_bytes, maps.values())) for maps in (plain, packed)]
    claim("", "One row of the summary serves both methods.", "LoRA / QLoRA in one row",
          "the same O(), not the same count: at n = 1 QLoRA's MHA multiplies "
          f"{total_cost(one, 'MHA', True) / total_cost(one, 'MHA'):.2f} times as much",
          judge(max(cost_ratio_range("MHA", True)[1], cost_ratio_range("FFN", True)[1]) < 20),
          "the formulas agree with npdl's counts")
    claim("", "Space is counted in trainable parameters, so both methods need the same.",
          "2dr and 6hdr for both",
          f"frozen matrices: {stored[0]:,} bytes in 32 bits, {stored[1]:,} in 4 "
          f"({stored[0] / stored[1]:.2f} times less)",
          judge(count_trainable(plain["MHA"]) == count_trainable(packed["MHA"]), "convention"),
          "the question's definition leaves out what QLoRA changes; bytes of npdl's layers")


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
    found = {(a, b): (memory[a]["MHA"] + memory[b]["FFN"], extra[a]["MHA"] + extra[b]["FFN"])
             for a, b in product(memory, repeat=2)}      # LoRA's adapters are merged
    least, fastest = (min(found, key=lambda kinds: found[kinds][i]) for i in (0, 1))
    none, both, mixed = found["LoRA", "LoRA"], found["QLoRA", "QLoRA"], found["QLoRA", "LoRA"]
    share = 100 * (none[0] - mixed[0]) / (none[0] - both[0])
    best = [a for a in found if not any(
        a != b and found[b][0] <= found[a][0] and found[b][1] <= found[a][1] for b in found)]
    say(f"n = {n}, d = {d}, r = {r}, h = {h}, 4 bits.")
    step("Count the frozen matrices of both parts: where most of them are, most of the memory "
         "is.", "MHA: 3 h + h = 4 h matrices of d x d      FFN: 1",
         f"h = {h}: {4 * h} and 1; each 4 d² = {4 * d * d:,} bytes in 32 bits, d² / 2 = "
         f"{d * d // 2:,} in 4 (and a step)")
    step("Count what each choice computes beyond the model: LoRA nothing once merged, QLoRA "
         "the dequantization and its adapters.", "MHA: 4 h d² + 6 h n d r      FFN: d² + 2 n d r",
         f"MHA: {mixed[1]:,}      FFN: {found['LoRA', 'QLoRA'][1]:,}")
    step("Set the four choices side by side.",
         format_table(("MHA", "LFFN", "frozen bytes", "extra multiplications", "of the model's"),
                      [(*kinds, memory, extra, f"{100 * extra / own:.1f} %")
                       for kinds, (memory, extra) in found.items()]))
    step("Decide. One goal has one best choice; two goals have none, as none of the four is "
         "better than another in both.",
         f"memory: {least[0]}, {least[1]}", f"speed: {fastest[0]}, {fastest[1]}",
         f"both: QLoRA for MHA alone already saves {share:.1f} % of what both save")
    answer(f"Memory limit: {' and '.join(least)}; faster inference: {' and '.join(fastest)}, "
           "merged; both: QLoRA where the memory is (MHA), for LFFN either, by what matters more.")
    check("The bytes are those that npdl's layers store.", none[0] == 4 * d * d * (4 * h + 1))
    slow, slow_one = (100 * sum(total_cost(size, part, True) for part in PARTS)
                      / sum(total_cost(size, part, merged=True) for part in PARTS) - 100
                      for size in (LARGE, LARGE._replace(n=1)))
    claim("", "With little memory: QLoRA for both.", "QLoRA, QLoRA",
          f"{least[0]}, {least[1]}: {both[0]:,} bytes against {none[0]:,}",
          judge(least == ("QLoRA", "QLoRA")), "frozen bytes of all four choices in npdl's layers")
    claim("", "For faster inference: LoRA for both.", "LoRA, LoRA",
          f"fewest multiplications: {fastest[0]}, {fastest[1]} (merged: none beyond the "
          f"model's own {own:,})", judge(fastest == ("LoRA", "LoRA"), "under-specified"),
          "holds where multiplications set the pace; one token at a time waits for the "
          f"weights, of which QLoRA reads {none[0] / both[0]:.1f} times less")
    claim("", "For both at once: QLoRA for both.", "QLoRA, QLoRA",
          f"no choice of the four is beaten ({len(best)} of 4 undominated); QLoRA for MHA and "
          f"LoRA for LFFN has {share:.1f} % of the saving",
          judge(len(best) == 4, "under-specified"),
          "MHA holds 4h of the 4h + 1 frozen matrices; bytes and extra multiplications: "
          f"{mixed[0]:,} and {mixed[1]:,} against {both[0]:,} and {both[1]:,}")
    claim("", "QLoRA loses a negligible amount of speed.", "negligible",
          f"adapters and dequantization: {slow_one:.0f} % more multiplications at n = 1, "
          f"{slow:.0f} % at n = {n}", judge(slow_one > 50 > slow, "under-specified"),
          f"against merged LoRA, d = {d}, r = {r}; negligible for many rows and small r / d")
    claim("", "QLoRA saves a substantial part of the memory.", "substantial",
          f"{100 * (1 - both[0] / none[0]):.1f} % of the frozen bytes at 4 bits",
          judge(both[0] < none[0] / 4), "trainable numbers, activations and optimizer not counted")

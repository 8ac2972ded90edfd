"""The worked solutions of document 000, Question 4.4: parameters, multiplications, choices."""

from exercises.d000_lora_costs import LowRankLayer, Size, choices, counted
from exercises.worked import Check, Solution, Step, Table, num

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
    return Solution(
        "4.4a",
        (Step("Count what learns: only A and B of each adapted matrix, whatever the frozen ones "
              "are stored in.", "FFN: 2 d r      MHA: 3 matrices · h heads · 2 d r = 6 h d r",
              f"FFN: 2 · {d} · {r} = {params['FFN']}      "
              f"MHA: 6 · {h} · {d} · {r} = {params['MHA']}"),
         Step("Write every product with its shapes; multiply the three sizes, and the number of "
              "times it is done.",
              table=Table(("product", "shapes", "times", "multiplications"), tuple(rows))),
         Step("Add them up. (H A) Bᵀ must be done in this order: A Bᵀ first would be a d x d "
              "matrix again, and cost more than W itself.",
              "FFN: n d² + 2 n d r      MHA: h (3 n d² + 6 n d r + 2 n² d) + n d² h",
              f"FFN: {sums['FFN base']} + {sums['FFN adapter']} = {ffn}\nMHA: {sums['MHA base']} + "
              f"{sums['MHA adapter']} + {sums['attention']} + {sums['output']} = {mha}"),
         Step("QLoRA multiplies each entry of a quantized matrix by its step once in every pass, "
              "so that both factors of the products are floats: all W_Q, W_K, W_V; W_O; W_F.",
              "FFN: + d²      MHA: + 3 h d² + (d h) d = 4 h d²",
              f"FFN: + {quant['FFN']};   MHA: + {quant['MHA']}"),
         Step("Keep the fastest growing terms: 2 n d r ≤ 2 n d² because r ≤ d, and d² ≤ n d².",
              "FFN: O(n d² + n d r) = O(n d²)      MHA: O(h (n d² + n² d))")),
        "FFN O(n d² + n d r) with 2 d r numbers, MHA O(h (n d² + n² d)) with 6 h d r, for both "
        "methods; QLoRA adds d² and 4 h d² multiplications, which O() does not show.",
        (Check("npdl's layers, run on this size, count the same products one by one.",
               all(own[part] == total for part, total in sums.items())
               and own4["FFN dequantization"] == quant["FFN"]
               and own4["MHA dequantization"] == quant["MHA"]),
         Check("npdl's adapters have these numbers of trainable parameters.",
               all(layer.trainable(part) == number for part, number in params.items()))),
        EXAMPLE)


def choice_solution():
    size = LARGE
    found = choices(size)
    own = sum(a * b * c * times for part, _, (a, b, c), times in products(size)
              if "adapter" not in part)
    d, h = size.d, size.h
    matrices = {"MHA": 4 * h, "FFN": 1}
    rows = tuple((*kinds, memory, extra, f"{num(100 * extra / own, 1)} %")
                 for kinds, (memory, extra) in found.items())
    least = min(found, key=lambda kinds: found[kinds][0])
    fastest = min(found, key=lambda kinds: found[kinds][1])
    mixed = found["QLoRA", "LoRA"]
    saved = found["LoRA", "LoRA"][0] - found["QLoRA", "QLoRA"][0]
    share = (found["LoRA", "LoRA"][0] - mixed[0]) / saved
    return Solution(
        "4.4b",
        (Step("Count the frozen matrices of both parts: where most of them are, most of the memory "
              "is.", "MHA: 3 h + h = 4 h matrices of d x d      FFN: 1",
              f"h = {h}: {matrices['MHA']} and {matrices['FFN']}; each 4 d² = {4 * d * d:,} bytes "
              f"in 32 bits, d² / 2 = {d * d // 2:,} in 4 (and a step)"),
         Step("Count what each choice computes beyond the model: LoRA nothing once merged, QLoRA "
              "the dequantization and its adapters.",
              "MHA: 4 h d² + 6 h n d r      FFN: d² + 2 n d r",
              f"MHA: {found['QLoRA', 'LoRA'][1]:,}      FFN: {found['LoRA', 'QLoRA'][1]:,}"),
         Step("Set the four choices side by side.", table=Table(
             ("MHA", "LFFN", "frozen bytes", "extra multiplications", "of the model's"), rows)),
         Step("Decide. One goal has one best choice; two goals have none, as none of the four is "
              "better than another in both.",
              numbers=f"memory: {least[0]}, {least[1]}\nspeed: {fastest[0]}, {fastest[1]}\n"
                      f"both: QLoRA for MHA alone already saves {num(100 * share, 1)} % of what "
                      "both save")),
        f"Memory limit: {' and '.join(least)}; faster inference: {' and '.join(fastest)}, merged; "
        "both: QLoRA where the memory is (MHA), for LFFN either, by what matters more.",
        (Check("The bytes are those that npdl's layers store.",
               found["LoRA", "LoRA"][0] == 4 * d * d * sum(matrices.values())),
         Check("None of the four is beaten in both columns.", not any(
             a != b and found[a][0] <= found[b][0] and found[a][1] <= found[b][1]
             for a in found for b in found))),
        f"n = {size.n}, d = {size.d}, r = {size.r}, h = {size.h}, 4 bits.")

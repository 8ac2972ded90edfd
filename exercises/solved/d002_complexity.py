"""Document 002, Problems 7.3 and 7.4, worked: multiplications of attention, counted by shapes."""

from exercises.d002_complexity import counted, encoder_difference, formula, translation
from exercises.worked import Check, Solution, Step, Table, num, terms

M, N, K = 3, 2, 4


def products(queries, keys, k):
    """[(what, the shapes, multiplications)] of one attention: R queries, S keys, width k."""
    def product(name, rows, inner, columns):
        return name, f"({rows}, {inner}) ({inner}, {columns})", rows * inner * columns

    return [product("Q = x W_Q", queries, k, k), product("K = y W_K", keys, k, k),
            product("V = y W_V", keys, k, k), product("Q Kᵀ", queries, k, keys),
            product("A V", queries, keys, k), product("· W_O", queries, k, k)]


def costs():
    """7.3."""
    kinds = {"(a) encoder, M to M": (M, M), "(b) decoder to encoder, N to M": (N, M),
             "(c) decoder, N to N": (N, N)}
    rows = products(N, M, K)
    sums = {name: sum(row[2] for row in products(*sizes, K)) for name, sizes in kinds.items()}
    parts = {name: (sum(row[2] for row in products(*sizes, K) if row[0] not in ("Q Kᵀ", "A V")),
                    sum(row[2] for row in products(*sizes, K) if row[0] in ("Q Kᵀ", "A V")))
             for name, sizes in kinds.items()}
    short, long = formula(25, 25, 512), formula(4096, 4096, 512)
    return Solution(
        "7.3",
        (
            Step("A product of an (a, b) and a (b, c) matrix takes a b c multiplications. List the "
                 f"products of (b), where N = {N} queries meet M = {M} keys of width k = {K}.",
                 table=Table(("product", "shapes", "multiplications"), tuple(rows))),
            Step("Group them: projections have k², scores and weighted sum have k once.",
                 "R queries, S keys:  (2 R + 2 S) k²  +  2 R S k",
                 f"(2·{N} + 2·{M})·{K}² + 2·{N}·{M}·{K} = "
                 f"{terms(parts['(b) decoder to encoder, N to M'])} = "
                 f"{num(sums['(b) decoder to encoder, N to M'])}"),
            Step("The same for the three kinds of attention. The causal mask of (c) hides numbers "
                 "that are computed all the same.",
                 table=Table(("attention", "projections", "scores and sum", "all"),
                             tuple((name, *parts[name], sums[name]) for name in kinds))),
            Step("Which term is the larger? Compare 4 M k² with 2 M² k: M = 2 k is the border.",
                 numbers=f"M = 25, k = 512: 2 M² k is {num(100 * 2 * 25**2 * 512 / short, 0)} % of "
                 f"{short:,};   M = 4096: {num(100 * 2 * 4096**2 * 512 / long, 0)} % of {long:,}"),
        ),
        "(a) O(M² k + M k²), (b) O(M N k + (M + N) k²), (c) O(N² k + N k²); the first terms "
        "alone where the lengths are well above k.",
        (Check("npdl's attention layer, run on arrays that count multiplications, takes as many",
               all(counted(*sizes, K) == sums[name] for name, sizes in kinds.items())),),
        f"M = {M} source tokens, N = {N} target tokens, width k = {K}, one head.")


def another_language():
    """7.4."""
    encoder = sum(row[2] for row in products(M, M, K))
    own, cross = (sum(row[2] for row in products(N, keys, K)) for keys in (N, M))
    inside, outside = encoder_difference()
    return Solution(
        "7.4",
        (
            Step("Follow the arrows: the encoder reads the source alone; the decoder reads its own "
                 "tokens and the encoder's output. No arrow goes back.",
                 "encoder: source → memory;   decoder: (target so far, memory) → next token"),
            Step("So for a second target language the memory is reused; only the decoder runs.",
                 "new work = decoder self-attention + decoder to encoder",
                 f"{num(own)} + {num(cross)} = {num(own + cross)} new multiplications, and the "
                 f"encoder's {num(encoder)} are saved"),
            Step("In M and N, k fixed.", "O(N² k + N k²) + O(M N k + (M + N) k²)  →  "
                 "O(N² + M N)"),
        ),
        f"No; another language costs the decoder alone, O(N² + M N): {num(own + cross)} of "
        f"{num(encoder + own + cross)} multiplications here.",
        (Check("another target leaves npdl's encoder output as it is and changes the logits",
               inside == 0 < outside),
         Check("counted in npdl's layers: the same numbers",
               translation(M, N, K) == (encoder, own + cross))),
        f"M = {M}, N = {N}, k = {K}, one layer, feed-forward nets left out.")


def solutions():
    return [costs(), another_language()]

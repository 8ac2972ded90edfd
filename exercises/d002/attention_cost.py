"""Document 002, Problem 7.3 and 7.4: the cost of attention, by counting multiplications."""

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.adapt import multiplies
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.models.seq2seq import Seq2Seq


def counted(queries, keys, k, causal=False):
    """Return the multiplications of npdl's attention layer: `queries` tokens attend to `keys`.

    They are those of the projections of the input, of the output projection, and the rest: scores
    and weighted sum, k for each of npdl's attention weights.
    """
    layer = MultiHeadAttention(k, 1, bias=False)
    x, memory = (np.zeros((1, n, k), "float32") for n in (queries, keys))
    _, cache = layer.forward(x, memory, memory, causal_mask(keys) if causal else None)
    inputs = (multiplies(layer.W_Q, queries) + multiplies(layer.W_K, keys)
              + multiplies(layer.W_V, keys))
    return inputs, multiplies(layer.W_O, queries), 2 * k * cache.attend.A.size


def formula(queries, keys, k):
    """Return (2 R + 2 S) k² + 2 R S k for R queries and S keys."""
    return (2 * queries + 2 * keys) * k * k + 2 * queries * keys * k


def power(cost, start, factor=64):
    """Return the power with which cost(n) grows from n = start to factor * start."""
    return float(np.log(cost(start * factor) / cost(start)) / np.log(factor))


M, N, K = 3, 2, 4


@question("002.7.3", "The cost of attention")
def costs(say, step, answer, check, claim):
    """Count what attention costs inside the encoder, decoder to encoder, and inside the decoder."""
    kinds = {"(a) encoder, M to M": (M, M), "(b) decoder to encoder, N to M": (N, M),
             "(c) decoder, N to N": (N, N)}
    products = (("Q = x W_Q", N, K, K), ("K = y W_K", M, K, K), ("V = y W_V", M, K, K),
                ("Q Kᵀ", N, K, M), ("A V", N, M, K), ("· W_O", N, K, K))
    projections, sums = (2 * N + 2 * M) * K * K, 2 * N * M * K
    short, long = (100 * 2 * n**2 * 512 / formula(n, n, 512) for n in (25, 4096))
    say(f"M = {M} source tokens, N = {N} target tokens, width k = {K}, one head.")
    step("A product of an (a, b) and a (b, c) matrix takes a b c multiplications. List the "
         f"products of (b), where N = {N} queries meet M = {M} keys of width k = {K}.",
         table(("product", "shapes", "multiplications"),
               [(name, f"({a}, {b}) ({b}, {c})", a * b * c) for name, a, b, c in products]))
    step("Group them: projections have k², scores and weighted sum have k once.",
         "R queries, S keys:  (2 R + 2 S) k²  +  2 R S k",
         f"(2·{N} + 2·{M})·{K}² + 2·{N}·{M}·{K} = {projections} + {sums} = {projections + sums}")
    step("The same for the three kinds of attention. The causal mask of (c) hides numbers "
         "that are computed all the same.",
         table(("attention", "projections", "scores and sum", "all"),
               [(name, 2 * (r + s) * K * K, 2 * r * s * K, formula(r, s, K))
                for name, (r, s) in kinds.items()]))
    step("Which term is the larger? Compare 4 M k² with 2 M² k: M = 2 k is the border.",
         f"M = 25, k = 512: 2 M² k is {short:.0f} % of {formula(25, 25, 512):,};   M = 4096: "
         f"{long:.0f} % of {formula(4096, 4096, 512):,}")
    answer("(a) O(M² k + M k²), (b) O(M N k + (M + N) k²), (c) O(N² k + N k²); the first "
           "terms alone where the lengths are well above k.")
    check("npdl counts as many in its attention layer",
          all(sum(counted(*sizes, K)) == formula(*sizes, K) for sizes in kinds.values())
          and sum(a * b * c for _, a, b, c in products) == formula(N, M, K))
    inputs, output, products = counted(M, M, K)
    wide = power(lambda n: formula(64, 64, n), 4096)
    claim("a", "projections of encoder self-attention cost O(M k^2)", "O(M k^2)",
          f"3 M k^2 for Q, K, V: {inputs} at M = {M}, k = {K}; the output projection, left "
          f"out, adds M k^2 = {output}", judge(inputs == 3 * M * K * K and output == M * K * K),
          "counted in npdl's layer, exactly")
    claim("a", "the dot products cost O(M^2 k)", "O(M^2 k), for the scores",
          f"M^2 k for the scores, and as much for the weighted sum of values, left out: {products}",
          judge(products == 2 * M * M * K), f"counted: {products} = 2 * {M}^2 * {K}")
    claim("a", "O(M^2 k + M k^2) = O(M^2 k)", "the total",
          "only where k grows no faster than M; in two free variables both terms stay",
          judge(abs(wide - 1) < 0.1, if_false="under-specified"),
          f"M = 64 fixed: the count grows as k^{wide:.2f}, not as k")
    claim("a", "typically M > k", "M^2 k dominates because typically M > k",
          "not in translation, which this is: M^2 k dominates only where M > 2 k; with "
          "sentences of 25 tokens and k = 512 the projections are "
          f"{100 - short:.0f} % of the multiplications", judge(short > 50),
          "2 M^2 k passes 4 M k^2 only from M = 1024 on; holds for long texts")
    inputs, _, products = counted(N, M, K)
    long = power(lambda m: formula(1, m, 512) / (m * 512), 4096)
    ratio = formula(1, 10**6, 512) / (10**6 * 512)
    claim("b", "decoder-encoder attention: N k^2 for the queries, M k^2 for keys and values",
          "O(N k^2) and O(M k^2)", f"N k^2 + 2 M k^2 = {inputs}",
          judge(inputs == N * K * K + 2 * M * K * K), f"counted at M = {M}, N = {N}, k = {K}")
    claim("b", "the dot products of N queries with M keys", "the formula is missing in the print",
          f"O(M N k): 2 M N k = {products} with the weighted sum",
          judge(products == 2 * M * N * K, "no answer given"),
          f"counted at M = {M}, N = {N}, k = {K}")
    claim("b", "O(N k^2 + M k^2 + M N k) = O(M N k), M and N being larger than k", "O(M N k)",
          "both are needed: k = O(M) for the queries' term and k = O(N) for the keys'; a "
          "long source is not enough",
          judge(ratio < 10 and abs(long) < 0.1, if_false="under-specified"),
          f"N = 1, M = 10^6, k = 512: the count is {ratio:.0f} times M N k")
    inputs, _, products = counted(N, N, K, causal=True)
    short = formula(20, 20, 512) / (20 * 20 * 512)
    kept, again = (power(lambda n, c=cost: sum(map(c, range(1, n + 1))), 1024, 2) for cost in (
        lambda t: 4 * 16**2 + 2 * t * 16, lambda t: formula(t, t, 16)))     # of token t
    claim("c", "decoder self-attention: N k^2 for Q, K, V and N^2 k for the scores",
          "O(N k^2), O(N^2 k)", f"3 N k^2 = {inputs}, and 2 N^2 k = {products} with the weighted "
          "sum", judge(inputs == 3 * N * K * K and products == 2 * N * N * K),
          f"counted at N = {N}, k = {K}, mask on")
    claim("c", "O(N^2 k + N k^2) = O(N^2 k) for large N", "O(N^2 k)",
          "for fixed k, or N at least of the order of k",
          judge(short < 10, if_false="under-specified"),
          f"N = 20, k = 512: the count is {short:.0f} times N^2 k")
    claim("c", "the cost counts N tokens decoded at once", "not said",
          "as in training, or generating with a cache of keys and values; without a cache it "
          "costs O(N^3 k + N^2 k^2)", judge(again > 2.8 > kept, "under-specified"),
          f"k = 16, N from 1024 to 2048: the count grows as N^{kept:.2f} with the cache, "
          f"N^{again:.2f} without")


@question("002.7.4", "A second target language")
def another_language(say, step, answer, check, claim):
    """Count the computation that a translation into another target language adds."""
    encoder, own, cross = formula(M, M, K), formula(N, N, K), formula(N, M, K)
    rng = np.random.default_rng(0)
    model = Seq2Seq(11, 13, 16, num_layers=2, num_heads=2, dtype="float64")
    source, memories, logits = rng.integers(0, 11, (1, 7)), [], []
    for target in rng.integers(0, 13, (2, 1, 5)):
        scores, cache = model.forward(source, target)
        memories.append(cache.decoder.blocks[0].cross.K.rows)       # what the decoder reads
        logits.append(scores)
    inside, outside = (np.abs(a - b).max() for a, b in (memories, logits))
    say(f"M = {M}, N = {N}, k = {K}, one layer, feed-forward nets left out.")
    step("Follow the arrows: the encoder reads the source alone; the decoder reads its own "
         "tokens and the encoder's output. No arrow goes back.",
         "encoder: source → memory;   decoder: (target so far, memory) → next token")
    step("So for a second target language the memory is reused; only the decoder runs.",
         "new work = decoder self-attention + decoder to encoder",
         f"{own} + {cross} = {own + cross} new multiplications, and the encoder's {encoder} "
         "are saved")
    step("In M and N, k fixed.", "O(N² k + N k²) + O(M N k + (M + N) k²)  →  O(N² + M N)")
    answer("No; another language costs the decoder alone, O(N² + M N): "
           f"{own + cross} of {encoder + own + cross} multiplications here.")
    check("another target leaves npdl's encoder output as it is and changes the logits",
          inside == 0 < outside)
    claim("", "the encoder's activations do not depend on the decoder's", "they do not",
          "they do not: another target leaves every encoder activation as it is",
          judge(inside == 0 and outside > 1e-3),
          f"an example, seed 0: npdl's Seq2Seq, two targets: encoder changes by {inside:g}, "
          f"logits by {outside:.1f}")
    kept = 2 * N * N * K + 2 * N * M * K
    fixed = [2 * formula(n, n, 4) / (2 * n * n) for n in (64, 256)]
    claim("", "another target language costs O(M N + N^2) more", "O(M N + N^2)",
          "in M and N with k fixed, yes: N + M more from the projections changes nothing",
          judge(fixed[1] / fixed[0] < 1.1),
          f"k = 4, M = N: multiplications over M N + N^2: {vec(fixed, 1)} at 64, 256")
    claim("", "it is O(N^2 k) + O(M N k) before k is dropped", "decoder self plus cross-attention",
          "the projections N k^2 and M k^2 are missing, and so is the feed-forward net",
          judge(kept == own + cross, if_false="under-specified"),
          f"{own + cross} by all terms, {kept} by the two terms; encoder, reused: {encoder}")
    claim("", "the question is the cost of translating M source into N target tokens",
          "translate a source into a target of length N",
          "it is a second target language: the encoder has run already; a first translation costs "
          "the encoder's O(M^2) as well", judge(encoder == 0, if_false="under-specified"),
          f"first translation {encoder + own + cross}, each further {own + cross}")

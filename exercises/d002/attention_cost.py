"""Document 002, Problem 7.3 and 7.4: the cost of attention, by counting multiplications.

`Counted` is an array that counts the multiplications of the matrix products it takes part in;
npdl's own layers are run on it, and the formulas are compared with what it counted.
"""

from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, listing, num, terms
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.models.seq2seq import Seq2Seq

QUESTION = """\
Problem 7.3. For inputs of length M, outputs of length N and hidden dimension k, what does \
attention cost (a) inside the encoder, (b) from the decoder to the encoder, (c) inside the decoder?
Problem 7.4. Do the encoder's activations depend on the decoder's? How much more computation does \
a translation into another target language take, in M and N?"""

TITLES = {"7.3": "The cost of attention", "7.4": "A second target language"}

claim_of = partial(Claim, "002", "Problem 7")


class Counted(np.ndarray):
    """An array whose matrix products add their multiplications to `Counted.total`."""

    total = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
        if out is not None:
            kwargs["out"] = tuple(o.view(np.ndarray) if isinstance(o, Counted) else o for o in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if ufunc is np.matmul and not _is_sum(plain[1]):
            Counted.total += int(np.size(result)) * plain[0].shape[-1]
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def _is_sum(factor):
    """Whether this factor is a column of ones, with which npdl's softmax adds up a row."""
    return factor.shape[-1] == 1 and bool((factor == 1).all())


def counted(queries, keys, k, heads=1, causal=False, parts=False):
    """Multiplications of npdl's attention layer: `queries` tokens attending to `keys` tokens.

    With `parts`, (projections of the input, scores and weighted sum, output projection).
    """
    layer = MultiHeadAttention(k, heads, bias=False)
    x, memory = (np.ones((1, n, k), "float32").view(Counted) for n in (queries, keys))
    Counted.total = 0
    layer.forward(x, memory, memory, causal_mask(keys) if causal else None)
    total = Counted.total
    if not parts:
        return total
    Counted.total = 0
    layer.W_Q.forward(x), layer.W_K.forward(memory), layer.W_V.forward(memory)
    inputs = Counted.total
    Counted.total = 0
    layer.W_O.forward(x)
    return inputs, total - inputs - Counted.total, Counted.total


def formula(queries, keys, k):
    """2 R k^2 + 2 S k^2 + 2 R S k, R queries and S keys: Q and output, K and V, scores and sum."""
    return 2 * queries * k * k + 2 * keys * k * k + 2 * queries * keys * k


def power(cost, start, factor=64):
    """The power with which cost(n) grows from n = start to factor * start."""
    return float(np.log(cost(start * factor) / cost(start)) / np.log(factor))


def generating(N, k, cached):
    """Multiplications of decoder self-attention for N tokens generated one after another."""
    if cached:
        return sum(4 * k * k + 2 * t * k for t in range(1, N + 1))
    return sum(formula(t, t, k) for t in range(1, N + 1))


def encoder_difference(seed=0):
    """Largest change of encoder output and of logits when only the target sentence is replaced."""
    rng = np.random.default_rng(seed)
    model = Seq2Seq(11, 13, 16, num_layers=2, num_heads=2, dtype="float64")
    source = rng.integers(0, 11, (1, 7))
    targets = rng.integers(0, 13, (2, 1, 5))
    memories, logits = [], []
    for target in targets:
        scores, cache = model.forward(source, target)
        memories.append(cache.decoder.blocks[0].cross.K.rows)    # what the decoder reads
        logits.append(scores)
    return tuple(float(np.abs(a - b).max()) for a, b in (memories, logits))


def translation(M, N, k):
    """(encoder, decoder) attention multiplications of one layer: (M,M) and (N,N) + (N,M)."""
    return counted(M, M, k), counted(N, N, k, causal=True) + counted(N, M, k)


def encoder_cost():
    """Claims of 7.3 (a)."""
    M, k = 24, 16
    inputs, products, output = counted(M, M, k, parts=True)
    share = formula(25, 25, 512) - 2 * 25 * 25 * 512, formula(25, 25, 512)
    percent = 100 * share[0] / share[1]
    wide = power(lambda n: formula(64, 64, n), 4096)
    yield claim_of(
        "3a", "projections of encoder self-attention cost O(M k^2)", "O(M k^2)",
        f"3 M k^2 for Q, K, V: {inputs} at M = {M}, k = {k}; the output projection, left out, "
        f"adds M k^2 = {output}",
        judge(inputs == 3 * M * k * k and output == M * k * k,
              provided=inputs + products + output == formula(M, M, k)),
        "counted in npdl's layer, exactly")
    yield claim_of(
        "3a", "the dot products cost O(M^2 k)", "O(M^2 k), for the scores",
        f"M^2 k for the scores, and as much for the weighted sum of values, left out: {products}",
        proved(products == 2 * M * M * k), f"counted: {products} = 2 * {M}^2 * {k}")
    yield claim_of(
        "3a", "O(M^2 k + M k^2) = O(M^2 k)", "the total",
        "only where k grows no faster than M; in two free variables both terms stay",
        judge(abs(wide - 1) < 0.1, "confirmed", "under-specified"),
        f"M = 64 fixed: the count grows as k^{wide:.2f}, not as k")
    yield claim_of(
        "3a", "typically M > k", "M^2 k dominates because typically M > k",
        "not in translation, which this is: M^2 k dominates only where M > 2 k; with sentences of "
        f"25 tokens and k = 512 the projections are {percent:.0f} % of the "
        "multiplications",
        judge(share[0] < share[1] / 2, provided=share[1] == counted(25, 25, 512)),
        f"{share[0]:,} of {share[1]:,}; 2 M^2 k passes 4 M k^2 only from M = 1024 on; holds for "
        "long texts, not for single sentences")


def cross_cost():
    """Claims of 7.3 (b)."""
    M, N, k = 24, 10, 16
    inputs, products, output = counted(N, M, k, parts=True)
    yield claim_of(
        "3b", "decoder-encoder attention: N k^2 for the queries, M k^2 for keys and values",
        "O(N k^2) and O(M k^2)", f"N k^2 + 2 M k^2 = {inputs}",
        judge(inputs == N * k * k + 2 * M * k * k,
              provided=inputs + products + output == formula(N, M, k)),
        f"counted at M = {M}, N = {N}, k = {k}")
    yield claim_of(
        "3b", "the dot products of N queries with M keys", "the formula is missing in the print",
        f"O(M N k): 2 M N k = {products} with the weighted sum",
        judge(products == 2 * M * N * k, "no answer given"),
        f"counted at M = {M}, N = {N}, k = {k}: {products}")
    long = power(lambda m: formula(1, m, 512) / (m * 512), 4096)
    ratio = formula(1, 10**6, 512) / (10**6 * 512)
    yield claim_of(
        "3b", "O(N k^2 + M k^2 + M N k) = O(M N k), M and N being larger than k",
        "O(M N k)",
        "both are needed: k = O(M) for the queries' term and k = O(N) for the keys'; a long "
        "source is not enough",
        judge(ratio < 10 and abs(long) < 0.1, "confirmed", "under-specified"),
        f"N = 1, M = 10^6, k = 512: the count is {ratio:.0f} times M N k")


def decoder_cost():
    """Claims of 7.3 (c)."""
    N, k = 12, 8
    inputs, products, output = counted(N, N, k, causal=True, parts=True)
    short = formula(20, 20, 512) / (20 * 20 * 512)
    growth = [power(lambda n, c=c: generating(n, 16, c), 2**10, 2) for c in (True, False)]
    yield claim_of(
        "3c", "decoder self-attention: N k^2 for Q, K, V and N^2 k for the scores",
        "O(N k^2), O(N^2 k)", f"3 N k^2 = {inputs}, and 2 N^2 k = {products} with the weighted sum",
        judge(inputs == 3 * N * k * k and products == 2 * N * N * k,
              provided=inputs + products + output == formula(N, N, k)),
        f"counted at N = {N}, k = {k}, mask on")
    yield claim_of(
        "3c", "O(N^2 k + N k^2) = O(N^2 k) for large N", "O(N^2 k)",
        "for fixed k, or N at least of the order of k",
        judge(short < 10, "confirmed", "under-specified"),
        f"N = 20, k = 512: the count is {short:.0f} times N^2 k")
    yield claim_of(
        "3c", "the cost counts N tokens decoded at once", "not said",
        "as in training, or generating with kept keys and values; generating anew at each step "
        "costs O(N^3 k + N^2 k^2)",
        judge(growth[1] > 2.8 > growth[0], "under-specified"),
        f"k = 16, N from 1024 to 2048: the count grows as N^{growth[0]:.2f} with kept keys, "
        f"N^{growth[1]:.2f} without")


def another_language():
    """Claims of 7.4."""
    inside, outside = encoder_difference()
    M, N, k = 30, 30, 64
    encoder, decoder = translation(M, N, k)
    first, kept = encoder + decoder, 2 * N * N * k + 2 * M * N * k
    fixed = [translation(n, n, 4)[1] / (2 * n * n) for n in (64, 256)]
    yield claim_of(
        "4", "the encoder's activations do not depend on the decoder's", "they do not",
        "they do not: another target leaves every encoder activation as it is",
        proved(inside == 0 and outside > 1e-3),
        "an example, seed 0: "
        f"npdl's Seq2Seq, two targets: encoder changes by {inside:g}, logits by {outside:.1f}")
    yield claim_of(
        "4", "another target language costs O(M N + N^2) more", "O(M N + N^2)",
        "in M and N with k fixed, yes: N + M more from the projections changes nothing",
        judge(fixed[1] / fixed[0] < 1.1),
        f"k = 4, M = N: counted multiplications over M N + N^2: {listing(fixed, '.1f')} at 64, 256")
    yield claim_of(
        "4", "it is O(N^2 k) + O(M N k) before k is dropped", "decoder self plus cross-attention",
        "the projections N k^2 and M k^2 (new keys and values of the old encoder output) are "
        "missing, and so is the feed-forward net",
        judge(kept == decoder, "confirmed", "under-specified"),
        f"M = N = 30, k = 64: {decoder:,} counted, {kept:,} by the two terms; encoder, reused: "
        f"{encoder:,}")
    yield claim_of(
        "4", "the question is the cost of translating M source into N target tokens",
        "translate a source into a target of length N",
        "the question is a second target language: the encoder has run already, which is why only "
        "the decoder counts; a first translation costs the encoder's O(M^2) as well",
        judge(encoder == 0, "confirmed", "under-specified"),
        f"M = N = 30, k = 64: first translation {first:,}, each further {decoder:,}")


def claims():
    return [*encoder_cost(), *cross_cost(), *decoder_cost(), *another_language()]


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
    lengths = (25, 4096)
    short, long = (formula(n, n, 512) for n in lengths)
    percents = [100 * 2 * n**2 * 512 / cost
                for n, cost in zip(lengths, (short, long), strict=True)]
    work = Solution("7.3",
                    f"M = {M} source tokens, N = {N} target tokens, width k = {K}, one head.")
    work.step("A product of an (a, b) and a (b, c) matrix takes a b c multiplications. List the "
              f"products of (b), where N = {N} queries meet M = {M} keys of width k = {K}.",
              table=Table(("product", "shapes", "multiplications"), tuple(rows)))
    work.step("Group them: projections have k², scores and weighted sum have k once.",
              "R queries, S keys:  (2 R + 2 S) k²  +  2 R S k",
              f"(2·{N} + 2·{M})·{K}² + 2·{N}·{M}·{K} = "
              f"{terms(parts['(b) decoder to encoder, N to M'])} = "
              f"{num(sums['(b) decoder to encoder, N to M'])}")
    work.step("The same for the three kinds of attention. The causal mask of (c) hides numbers "
              "that are computed all the same.",
              table=Table(("attention", "projections", "scores and sum", "all"),
                          tuple((name, *parts[name], sums[name]) for name in kinds)))
    work.step("Which term is the larger? Compare 4 M k² with 2 M² k: M = 2 k is the border.",
              numbers=f"M = 25, k = 512: 2 M² k is {num(percents[0], 0)} % of {short:,};   "
                      f"M = 4096: {num(percents[1], 0)} % of {long:,}")
    work.answer = ("(a) O(M² k + M k²), (b) O(M N k + (M + N) k²), (c) O(N² k + N k²); the first "
                   "terms alone where the lengths are well above k.")
    work.check("npdl's attention layer, run on arrays that count multiplications, takes as many",
               all(counted(*sizes, K) == sums[name] for name, sizes in kinds.items()))
    return work


def worked_another_language():
    """7.4."""
    encoder = sum(row[2] for row in products(M, M, K))
    own, cross = (sum(row[2] for row in products(N, keys, K)) for keys in (N, M))
    further = own + cross
    first = encoder + further
    inside, outside = encoder_difference()
    work = Solution("7.4", f"M = {M}, N = {N}, k = {K}, one layer, feed-forward nets left out.")
    work.step("Follow the arrows: the encoder reads the source alone; the decoder reads its own "
              "tokens and the encoder's output. No arrow goes back.",
              "encoder: source → memory;   decoder: (target so far, memory) → next token")
    work.step("So for a second target language the memory is reused; only the decoder runs.",
              "new work = decoder self-attention + decoder to encoder",
              f"{num(own)} + {num(cross)} = {num(further)} new multiplications, and the "
              f"encoder's {num(encoder)} are saved")
    work.step("In M and N, k fixed.", "O(N² k + N k²) + O(M N k + (M + N) k²)  →  O(N² + M N)")
    work.answer = ("No; another language costs the decoder alone, O(N² + M N): "
                   f"{num(further)} of {num(first)} multiplications here.")
    work.check("another target leaves npdl's encoder output as it is and changes the logits",
               inside == 0 < outside)
    work.check("counted in npdl's layers: the same numbers",
               translation(M, N, K) == (encoder, further))
    return work


def solutions():
    return [costs(), worked_another_language()]

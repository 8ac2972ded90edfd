"""Document 002, Problem 7: positional encoding, several heads, and the cost of attention."""

import math

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from exercises.d004.gpt import position_rotation, printed_encoding
from npdl.adapt import count_multiplications
from npdl.functions import softmax
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.embedding import sinusoidal
from npdl.models.seq2seq import Seq2Seq


@question("002.7.1", "Positional encoding")
def solve_positional_encoding(say, step, answer, check, claim):
    """Say what positional encoding is for, and how it is computed."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    weights = softmax(x @ x.T)
    y, swapped = weights @ x, softmax(x[::-1] @ x[::-1].T) @ x[::-1]
    rows = printed_encoding(4, 4, exponent=2)
    rotated = position_rotation(4, 2, exponent=2) @ rows[1]
    say("The examples are two tokens (1, 0) and (0, 2), and then four positions of width 4.")
    step("Apply attention to two tokens, and then to the same tokens in exchanged order.",
         "y = softmax(x xᵀ) x", f"row 1 of x xᵀ: {vec(x @ x[0], 0)}, weights {vec(weights[0])}:  "
         f"y₁ = {weights[0, 0]:.3f} · {vec(x[0], 0)} + {weights[0, 1]:.3f} · {vec(x[1], 0)} = "
         f"{vec(y[0])}", format_arrays({"x": x, "y": y, "x exchanged": x[::-1], "its y": swapped}))
    step("The outputs are exchanged and otherwise equal, so self-attention is equivariant. It "
         "can't distinguish 'a b' from 'b a', so x must contain the position.")
    step("Compute the usual encoding. Every pair of columns rotates with the position like the "
         "hand of a clock, and each pair is slower than the previous one. i numbers the pairs.",
         "PE(pos, 2i) = sin(pos/10000^(2i/d)),   PE(pos, 2i+1) = cos(pos/10000^(2i/d))",
         f"d = 4:  i = 0: angle pos;   i = 1: angle pos/{10000 ** (2 / 4):.0f}",
         format_arrays({"PE": rows}))
    step("Row pos + n is row pos rotated by fixed angles. So a fixed matrix represents a relative "
         "position.", "sin(a + b) = sin a cos b + cos a sin b",
         f"row 1 rotated by 2 steps: {vec(rotated)};   row 3: {vec(rows[3])}")
    step("Add the encoding to the embedding of the token. The sum is the input of the first block.",
         "x = E[token] + PE[pos]")
    answer("Attention alone does not depend on the order of the tokens (it is equivariant). "
           "Therefore a vector for each position is added to each token's embedding. It usually "
           "has sines and cosines of decreasing frequency.")
    check("Exchanging the tokens exchanges the outputs.", np.allclose(swapped, y[::-1]))
    check("The rotated row is the row two positions later.", np.allclose(rotated, rows[3]))
    causal = [attend(tokens, tokens, tokens, causal_mask(2))[0] for tokens in (x, x[::-1])]
    claim("", "self-attention is permutation-invariant", "permutation-invariant",
          "equivariant: permuted tokens give permuted outputs", judge(np.allclose(swapped, y)),
          f"y = {vec(y[0])}, {vec(y[1])}; after exchanging the tokens: {vec(swapped[0])}, "
          f"{vec(swapped[1])}")
    claim("", "transformers have no sense of order without positional encoding",
          "no built-in sense of order", "true without a mask; a causal mask alone gives "
          "information on the order, because token t attends to t tokens",
          judge(np.allclose(causal[1], causal[0][::-1]), if_false="under-specified"),
          f"with the causal mask: {vec(causal[0][0])}, {vec(causal[0][1])}; after exchanging the "
          f"tokens: {vec(causal[1][0])}, {vec(causal[1][1])}")
    d = 64
    beyond = sum(2 * i + 1 >= d for i in range(d))
    error = np.abs(printed_encoding(50, d, 2) - sinusoidal(50, d, "2k/d", "float64")).max()
    claim("", "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos of the same", "the "
          "usual sinusoids", "all entries equal npdl's table with exponent 2k/d; d must be even",
          judge(error <= 1e-9), f"50 positions, d = {d}: largest difference {error:.1g}")
    claim("", "i is the index of the dimension", "i is the dimension index", "i numbers the pairs, "
          "0 to d/2 - 1; the dimensions are 2i and 2i + 1", judge(beyond == 0, if_false="slip"),
          f"d = 64: with i from 0 to 63, {beyond} of 64 dimensions 2i + 1 do not exist")
    claim("", "positions let the model learn dependencies on (relative) position",
          "learning dependencies based on positions", "one fixed matrix rotates the encoding of "
          "pos into that of pos + c, so a head can attend to the previous or the next token",
          "essay", "in the example above, row 1 rotated by 2 steps is row 3")


@question("002.7.2", "Several attention heads")
def solve_multiple_heads(say, step, answer, check, claim):
    """Say what the advantage of several attention heads is, and which structures they find."""
    weights = np.array([0.0, 0.5, 1.0])
    mixtures = weights - (1 - weights)
    worst = np.maximum(abs(mixtures - 1), abs(mixtures + 1))
    sharp = 1 / (1 + math.exp(-20.0))
    per_head = [sharp - (1 - sharp), (1 - sharp) - sharp]
    say("Token 0 needs the values v₁ = 1 and v₂ = −1 of two other tokens separately.")
    step("One head has one set of weights, so it returns one mixture of the values. It can't "
         "return the two values separately.", "y = w v₁ + (1 − w) v₂",
         f"w = {vec(weights, 1)}:  y = {vec(mixtures, 1)}",
         f"larger distance from v₁ or v₂: {vec(worst, 1)}, at best {worst.min():.1f}")
    step("Two heads have two sets of weights. One head attends to token 1, the other to token 2, "
         "and the concatenation contains both values.", "y = [v from head 1, v from head 2]",
         f"scores ±10: weights {sharp:.4f} and {1 - sharp:.4f}:  y = {vec(per_head)}")
    step("The heads share the width, so the number of multiplications remains the same.",
         "m heads of width d/m:  m · S² · d/m = S² d", f"d = 8, m = 2: 2 · {8 // 2} = 8")
    step("Heads differ only because they start from different random weights. Trained heads were "
         "found to attend to the previous or the next token, to the verb of a subject, to the noun "
         "that a pronoun refers to, or to the aligned word of the other language.")
    answer("Several heads attend to several positions at once, at the cost of one head. They find "
           "neighbouring tokens, syntax, coreference and alignments.")
    q, k = np.full((2, 1, 1), 50.0), np.array([[[1.0], [-1.0]], [[-1.0], [1.0]]])
    y, _ = attend(q, k, np.array([[[1.0], [-1.0]]] * 2))
    two = np.abs(y.ravel() - [1, -1]).max()
    layer = MultiHeadAttention(8, 2, bias=False, rng=2, dtype="float64")
    for linear in (layer.W_Q, layer.W_K, layer.W_V):                    # two heads that start alike
        linear.W.data[:, 4:] = linear.W.data[:, :4]
    layer.W_O.W.data[4:] = layer.W_O.W.data[:4]
    x, target = np.random.default_rng(2).standard_normal((2, 1, 6, 8))
    y, cache = layer.forward(x, x, x)
    layer.backward(y - target, cache)
    dW = layer.W_Q.W.grad
    difference, size = abs(dW[:, 4:] - dW[:, :4]).max(), abs(dW).max()
    rows = printed_encoding(32, 64, exponent=2)
    before = (rows @ position_rotation(64, -1, 2).T @ rows.T).argmax(1)[1:] == np.arange(31)
    check("A head whose W_Q rotates positions by −1 finds the previous token.", before.all())
    claim("", "several heads attend to different parts of the sequence at once",
          "different parts simultaneously", "yes: one head returns one mixture of two values, but "
          "two heads can return both values", judge(two < 1e-6 < worst.min()),
          "the values 1 and -1 must be returned separately: the error is at best "
          f"{worst.min():.2f} with one head, and {two:.1g} with two")
    claim("", "each head learns a different kind of dependency", "each head learns different types",
          "only their random initialisation makes them differ: heads that start equal stay equal",
          judge(difference > 1e-6, if_false="under-specified"),
          f"an example with seed 2: the gradients of W_Q are up to {size:.2f}, and those of the "
          f"two heads differ by {difference:.1g}")
    claim("", "heads find syntax, coreference, word senses and alignments", "agreement, "
          "coreference, meanings, alignments", "this is an empirical statement; we compute only "
          "that a head can represent such a pattern", "essay", "the head that rotates positions by "
          f"-1 attends to the previous token at {before.sum()} of {len(before)} positions")


def count_npdl_cost(num_queries, num_keys, k, causal=False):
    """Return the multiplications of npdl's attention layer: inputs, output, scores and sums."""
    layer = MultiHeadAttention(k, 1, bias=False)
    x, memory = (np.zeros((1, n, k), "float32") for n in (num_queries, num_keys))
    _, cache = layer.forward(x, memory, memory, causal_mask(num_keys) if causal else None)
    inputs = (count_multiplications(layer.W_Q, num_queries)
              + sum(count_multiplications(one, num_keys) for one in (layer.W_K, layer.W_V)))
    return inputs, count_multiplications(layer.W_O, num_queries), 2 * k * cache.attend.A.size


def attention_cost(num_queries, num_keys, k):
    """Return (2 R + 2 S) k² + 2 R S k for R queries and S keys."""
    return (2 * num_queries + 2 * num_keys) * k * k + 2 * num_queries * num_keys * k


def growth_exponent(cost, start, factor=64):
    """Return the exponent with which cost(n) grows from n = start to factor * start."""
    return float(np.log(cost(start * factor) / cost(start)) / np.log(factor))


M, N, K = 3, 2, 4


@question("002.7.3", "The cost of attention")
def solve_attention_cost(say, step, answer, check, claim):
    """Count the cost of attention in the encoder, from decoder to encoder, and in the decoder."""
    kinds = {"(a) encoder, M to M": (M, M), "(b) decoder to encoder, N to M": (N, M),
             "(c) decoder, N to N": (N, N)}
    products = (("Q = x W_Q", N, K, K), ("K = y W_K", M, K, K), ("V = y W_V", M, K, K),
                ("Q Kᵀ", N, K, M), ("A V", N, M, K), ("· W_O", N, K, K))
    projections, sums = (2 * N + 2 * M) * K * K, 2 * N * M * K
    short, long = (100 * 2 * n**2 * 512 / attention_cost(n, n, 512) for n in (25, 4096))
    say(f"There are M = {M} source tokens, N = {N} target tokens, and one head of width k = {K}.")
    step("A product of an (a, b) and a (b, c) matrix takes a b c multiplications. List the "
         f"products of (b), with N = {N} queries and M = {M} keys of width k = {K}.",
         format_table(("product", "shapes", "multiplications"),
                      [(name, f"({a}, {b}) ({b}, {c})", a * b * c) for name, a, b, c in products]))
    step("Group them. The projections have a factor k², and the scores and the weighted sum have a "
         "factor k.", "R queries, S keys:  (2 R + 2 S) k²  +  2 R S k",
         f"(2·{N} + 2·{M})·{K}² + 2·{N}·{M}·{K} = {projections} + {sums} = {projections + sums}")
    step("Do the same for the three kinds of attention. The causal mask of (c) does not save "
         "multiplications, because the masked scores are computed too.",
         format_table(("attention", "projections", "scores and sum", "all"),
                      [(name, 2 * (r + s) * K * K, 2 * r * s * K, attention_cost(r, s, K))
                       for name, (r, s) in kinds.items()]))
    step("Find the larger term. 4 M k² and 2 M² k are equal for M = 2 k.",
         f"M = 25, k = 512: 2 M² k is {short:.0f} % of {attention_cost(25, 25, 512):,};   M = "
         f"4096: {long:.0f} % of {attention_cost(4096, 4096, 512):,}")
    answer("(a) O(M² k + M k²), (b) O(M N k + (M + N) k²), (c) O(N² k + N k²). If the lengths are "
           "well above k, the first terms are enough.")
    check("npdl counts the same multiplications in its attention layer.",
          all(sum(count_npdl_cost(*sizes, K)) == attention_cost(*sizes, K)
              for sizes in kinds.values())
          and sum(a * b * c for _, a, b, c in products) == attention_cost(N, M, K))
    inputs, output, products = count_npdl_cost(M, M, K)
    wide = growth_exponent(lambda n: attention_cost(64, 64, n), 4096)
    claim("a", "projections of encoder self-attention cost O(M k^2)", "O(M k^2)",
          f"3 M k^2 for Q, K, V: {inputs} at M = {M}, k = {K}; the document leaves out the output "
          f"projection, which adds M k^2 = {output}",
          judge(inputs == 3 * M * K * K and output == M * K * K), "counted in npdl's layer")
    claim("a", "the dot products cost O(M^2 k)", "O(M^2 k), for the scores", "M^2 k for the "
          f"scores, and as much for the weighted sum of values, which is left out: {products} "
          "together", judge(products == 2 * M * M * K), f"counted: {products} = 2 * {M}^2 * {K}")
    claim("a", "O(M^2 k + M k^2) = O(M^2 k)", "the total",
          "only if k does not grow faster than M; if both vary freely, both terms remain",
          judge(abs(wide - 1) < 0.1, if_false="under-specified"),
          f"M = 64 fixed: the count grows as k^{wide:.2f}, not as k")
    claim("a", "typically M > k", "M^2 k dominates because typically M > k", "not in translation, "
          "the topic here: M^2 k dominates only if M > 2 k; for sentences of 25 tokens and k = "
          f"512, the projections are {100 - short:.0f} % of the multiplications", judge(short > 50),
          "2 M^2 k is larger than 4 M k^2 only above M = 1024; true for long texts")
    inputs, _, products = count_npdl_cost(N, M, K)
    long = growth_exponent(lambda m: attention_cost(1, m, 512) / (m * 512), 4096)
    ratio = attention_cost(1, 10**6, 512) / (10**6 * 512)
    claim("b", "decoder-encoder attention: N k^2 for the queries, M k^2 for keys and values",
          "O(N k^2) and O(M k^2)", f"N k^2 + 2 M k^2 = {inputs}",
          judge(inputs == N * K * K + 2 * M * K * K), f"counted at M = {M}, N = {N}, k = {K}")
    claim("b", "the dot products of N queries with M keys", "the formula is missing in the print",
          f"O(M N k): 2 M N k = {products} including the weighted sum",
          judge(products == 2 * M * N * K, "no answer given"),
          f"counted at M = {M}, N = {N}, k = {K}")
    claim("b", "O(N k^2 + M k^2 + M N k) = O(M N k), M and N being larger than k", "O(M N k)",
          "two conditions are needed: k = O(M) for the term of the queries, and k = O(N) for the "
          "term of the keys; a long source is not enough",
          judge(ratio < 10 and abs(long) < 0.1, if_false="under-specified"),
          f"N = 1, M = 10^6, k = 512: the count is {ratio:.0f} times M N k")
    inputs, _, products = count_npdl_cost(N, N, K, causal=True)
    short = attention_cost(20, 20, 512) / (20 * 20 * 512)
    cached, uncached = (growth_exponent(lambda n, c=cost: sum(map(c, range(1, n + 1))), 1024, 2)
                        for cost in (lambda t: 4 * 16**2 + 2 * t * 16,       # of token t
                                     lambda t: attention_cost(t, t, 16)))
    claim("c", "decoder self-attention: N k^2 for Q, K, V and N^2 k for the scores", "O(N k^2), "
          "O(N^2 k)", f"3 N k^2 = {inputs}, and 2 N^2 k = {products} including the weighted sum",
          judge(inputs == 3 * N * K * K and products == 2 * N * N * K),
          f"counted at N = {N}, k = {K}, with the mask")
    claim("c", "O(N^2 k + N k^2) = O(N^2 k) for large N", "O(N^2 k)", "true for fixed k, or if N "
          "is at least of the order of k", judge(short < 10, if_false="under-specified"),
          f"N = 20, k = 512: the count is {short:.0f} times N^2 k")
    claim("c", "the cost counts N tokens decoded at once", "not said", "true in training, and for "
          "generation with a KV cache; without a cache, generation costs O(N^3 k + N^2 k^2)",
          judge(uncached > 2.8 > cached, "under-specified"), "k = 16, N from 1024 to 2048: the "
          f"count grows as N^{cached:.2f} with the cache, N^{uncached:.2f} without")


@question("002.7.4", "A second target language")
def solve_second_language_cost(say, step, answer, check, claim):
    """Count the computation that a translation into another target language adds."""
    encoder, own, cross = attention_cost(M, M, K), attention_cost(N, N, K), attention_cost(N, M, K)
    rng = np.random.default_rng(0)
    model = Seq2Seq(11, 13, 16, num_layers=2, num_heads=2, dtype="float64")
    source, memories, logits = rng.integers(0, 11, (1, 7)), [], []
    for target in rng.integers(0, 13, (2, 1, 5)):
        scores, cache = model.forward(source, target)
        memories.append(cache.decoder.blocks[0].cross.K.rows)       # what the decoder reads
        logits.append(scores)
    inside, outside = (np.abs(a - b).max() for a, b in (memories, logits))
    say(f"M = {M}, N = {N}, k = {K}, with one layer and without feed-forward networks.")
    step("Follow the flow of data. The encoder reads only the source. The decoder reads its own "
         "tokens and the encoder's output. Nothing flows back to the encoder.",
         "encoder: source → memory;   decoder: (target so far, memory) → next token")
    step("So a second target language reuses the memory. Only the decoder runs.",
         "new work = decoder self-attention + decoder to encoder", f"{own} + {cross} = "
         f"{own + cross} new multiplications, and the encoder's {encoder} are saved")
    step("Write the cost in M and N for a fixed k.",
         "O(N² k + N k²) + O(M N k + (M + N) k²)  →  O(N² + M N)")
    answer("The target does not change the encoder. Another language only costs the decoder, O(N² "
           f"+ M N): {own + cross} of {encoder + own + cross} multiplications here.")
    check("Another target does not change the output of npdl's encoder, but it changes the logits.",
          inside == 0 < outside)
    claim("", "the encoder's activations do not depend on the decoder's", "they do not",
          "they do not: another target does not change any encoder activation",
          judge(inside == 0 and outside > 1e-3),
          "an example with seed 0: for two targets of npdl's Seq2Seq, the encoder's output differs "
          f"by {inside:g}, and the logits by {outside:.1f}")
    kept = 2 * N * N * K + 2 * N * M * K
    fixed = [2 * attention_cost(n, n, 4) / (2 * n * n) for n in (64, 256)]
    claim("", "another target language costs O(M N + N^2) more", "O(M N + N^2)", "yes, in M and N "
          "with fixed k: the projections only add terms N + M", judge(fixed[1] / fixed[0] < 1.1),
          f"k = 4, M = N: the multiplications divided by M N + N^2 are {vec(fixed, 1)} at 64, 256")
    claim("", "it is O(N^2 k) + O(M N k) before k is dropped", "decoder self plus cross-attention",
          "the projections N k^2 and M k^2 and the feed-forward network are missing",
          judge(kept == own + cross, if_false="under-specified"), f"{own + cross} with all terms, "
          f"{kept} with the two terms; the encoder's {encoder} are reused")
    claim("", "the question is the cost of translating M source into N target tokens",
          "translate a source into a target of length N", "the question is about a second target "
          "language, for which the encoder has already run; a first translation also costs the "
          "encoder's O(M^2)", judge(encoder == 0, if_false="under-specified"),
          f"the first translation costs {encoder + own + cross}, each further one {own + cross}")

"""Document 002, Problem 7.1 and 7.2: positional encoding and multi-head attention."""

import math

import numpy as np

from exercises.course import arrays, judge, question, vec
from exercises.d004.sinusoidal_positions import printed_table, rotation
from npdl.functions import softmax
from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.embedding import sinusoidal


@question("002.7.1", "Positional encoding")
def positions(say, step, answer, check, claim):
    """Say what positional encoding is for, and how it is made."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    weights = softmax(x @ x.T)
    y, swapped = weights @ x, softmax(x[::-1] @ x[::-1].T) @ x[::-1]
    rows = printed_table(4, 4, exponent=2)
    moved = rotation(4, 2, exponent=2) @ rows[1]
    say("Two tokens (1, 0) and (0, 2); then four positions of width 4.")
    step("What attention does with two tokens, and with the same two exchanged.",
         "y = softmax(x xᵀ) x",
         f"row 1 of x xᵀ: {vec(x @ x[0], 0)}, weights {vec(weights[0])}:  y₁ = "
         f"{weights[0, 0]:.3f} · {vec(x[0], 0)} + {weights[0, 1]:.3f} · {vec(x[1], 0)} = "
         f"{vec(y[0])}", arrays({"x": x, "y": y, "x exchanged": x[::-1], "y of it": swapped}))
    step("The outputs are exchanged and otherwise equal: self-attention is equivariant. It "
         "can't tell 'a b' from 'b a', so the place has to be put into x.")
    step("The usual table: every pair of columns is a clock hand, each pair slower than the "
         "one before. i numbers the pairs.",
         "PE(pos, 2i) = sin(pos/10000^(2i/d)),   PE(pos, 2i+1) = cos(pos/10000^(2i/d))",
         f"d = 4:  i = 0: angle pos;   i = 1: angle pos/{10000 ** (2 / 4):.0f}",
         arrays({"PE": rows}))
    step("Row pos + n is row pos turned by fixed angles: relative places can be read by one "
         "fixed matrix.", "sin(a + b) = sin a cos b + cos a sin b",
         f"row 1 turned by 2 steps: {vec(moved)};   row 3: {vec(rows[3])}")
    step("It is added to the token's vector; the sum goes into the first block.",
         "x = E[token] + PE[pos]")
    answer("Attention alone is blind to order (equivariant); a vector for each position, mostly "
           "sines and cosines of falling frequency, is added to each token's embedding.")
    check("exchanging the tokens exchanges the outputs", np.allclose(swapped, y[::-1]))
    check("the turned row is the row two positions on", np.allclose(moved, rows[3]))
    causal = [attend(tokens, tokens, tokens, causal_mask(2))[0] for tokens in (x, x[::-1])]
    claim("", "self-attention is permutation-invariant", "permutation-invariant",
          "equivariant: permuted tokens give permuted outputs", judge(np.allclose(swapped, y)),
          f"y = {vec(y[0])}, {vec(y[1])}; exchanged, {vec(swapped[0])}, {vec(swapped[1])}")
    claim("", "transformers have no sense of order without positional encoding",
          "no built-in sense of order",
          "without a mask; a causal mask alone tells the order, since token t sees t tokens",
          judge(np.allclose(causal[1], causal[0][::-1]), if_false="under-specified"),
          f"with the causal mask: {vec(causal[0][0])}, {vec(causal[0][1])}; exchanged, "
          f"{vec(causal[1][0])}, {vec(causal[1][1])}")
    d = 64
    beyond = sum(2 * i + 1 >= d for i in range(d))
    claim("", "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i + 1) = cos of the same",
          "the usual sinusoids",
          "npdl's table with exponent 2k/d, entry by entry; d has to be even",
          judge(np.allclose(printed_table(50, d, 2), sinusoidal(
              50, d, "2k/d", "float64"), 0, 1e-9)),
          "50 positions, d = 64: largest difference below 1e-09")
    claim("", "i is the index of the dimension", "i is the dimension index",
          "i numbers the pairs, 0 to d/2 - 1; the dimensions are 2i and 2i + 1",
          judge(beyond == 0, if_false="slip"),
          f"d = 64: with i from 0 to 63, {beyond} of 64 values lie outside")
    claim("", "positions let the model learn dependencies on (relative) position",
          "learning dependencies based on positions",
          "one fixed matrix turns the encoding of pos into that of pos + c, so a head can "
          "look at the token before or after", "essay",
          "row 1 turned by 2 steps is row 3, in the example above")


@question("002.7.2", "Several heads")
def heads(say, step, answer, check, claim):
    """Say what several attention heads bring, and which structures they find."""
    shares = np.array([0.0, 0.5, 1.0])
    mixtures = shares - (1 - shares)
    worst = np.maximum(abs(mixtures - 1), abs(mixtures + 1))
    sharp = 1 / (1 + math.exp(-20.0))
    per_head = [sharp - (1 - sharp), (1 - sharp) - sharp]
    say("Token 0 wants the values v₁ = 1 and v₂ = −1 of two other tokens, both unmixed.")
    step("One head gives one set of weights, so one mixture of the values. It can't hand over "
         "two values unmixed.", "y = w v₁ + (1 − w) v₂",
         f"w = {vec(shares, 1)}:  y = {vec(mixtures, 1)}",
         f"furthest from v₁ or v₂: {vec(worst, 1)}, at best {worst.min():.1f}")
    step("Two heads have two sets of weights: one looks at token 1, one at token 2, and the "
         "concatenation holds both.", "y = [v from head 1, v from head 2]",
         f"scores ±10: weights {sharp:.4f} and {1 - sharp:.4f}:  y = {vec(per_head)}")
    step("The heads share the width, so that the number of multiplications stays.",
         "m heads of width d/m:  m · S² · d/m = S² d", f"d = 8, m = 2: 2 · {8 // 2} = 8")
    step("Heads differ only because they start at different random numbers. What trained ones "
         "are found to follow: the token before or after, the verb of a subject, what a "
         "pronoun refers to, the aligned word of the other language.")
    answer("Several heads attend to several places at once at the cost of one; found "
           "structures are neighbours, syntax, coreference, alignments.")
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
    apart, size = abs(dW[:, 4:] - dW[:, :4]).max(), abs(dW).max()
    rows = printed_table(32, 64, exponent=2)
    before = (rows @ rotation(64, -1, 2).T @ rows.T).argmax(1)[1:] == np.arange(31)
    check("a head whose W_Q turns positions by −1 finds the token before", before.all())
    claim("", "several heads attend to different parts of the sequence at once",
          "different parts simultaneously",
          "yes: one head returns one mixture, two can return both", judge(two < 1e-6 < worst.min()),
          "values 1 and -1 to be handed over unmixed: error at best "
          f"{worst.min():.2f} with one head, below 1e-06 with two")
    claim("", "each head learns a different kind of dependency", "each head learns different types",
          "nothing makes them differ but their random starts: heads that start alike stay alike",
          judge(apart > 1e-6, if_false="under-specified"),
          f"an example, seed 2: W_Q has gradients of up to {size:.2f}, and those of the two heads "
          "differ by below 1e-06")
    claim("", "heads find syntax, coreference, word senses and alignments",
          "agreement, coreference, meanings, alignments",
          "empirical; computed is that such patterns are within a head's reach", "essay",
          f"the head that turns positions by -1 looks at the token before at "
          f"{before.sum()} of {len(before)} positions")

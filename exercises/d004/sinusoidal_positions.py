"""Document 004, Problems 2.7 to 2.9: sinusoidal positions, and the forward pass of a GPT.

The table is sin(pos / 10000^(k/d)) at i = 2k and cos of the same at i = 2k + 1; the usual exponent
is 2k/d.
"""

import math
from itertools import combinations

import numpy as np

from exercises.course import arrays, judge, question, table, vec
from npdl.layers.embedding import SinusoidalPositions, sinusoidal
from npdl.models.gpt import GPT, attentions, hidden_states

EMBEDDING = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
IDS = (2, 0, 2)
D = 128                                                 # width of the tables of the claims


def frequencies(d, exponent=1):
    """Return the angle per position of each pair of columns: 1 / 10000^(exponent k/d)."""
    return 10000.0 ** (-exponent * np.arange(d // 2) / d)


def printed_table(length, d, exponent=1):
    """Return the table by the formula, (S, D)."""
    angles = np.outer(np.arange(length), frequencies(d, exponent))
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, d)


def rotation(d, offset, exponent=1):
    """Return the (d, d) matrix with PE(pos + offset) = R PE(pos) for every pos."""
    R = np.zeros((d, d))
    for k, turn in enumerate(offset * frequencies(d, exponent)):
        R[2 * k:2 * k + 2, 2 * k:2 * k + 2] = [[math.cos(turn), math.sin(turn)],
                                               [-math.sin(turn), math.cos(turn)]]
    return R


@question("004.2.7", "Sinusoidal positions")
def positions(say, step, answer, check, claim, d=4):
    """Write the table of sinusoidal positions, and say what it is good for."""
    PE, usual, R = printed_table(4, d), printed_table(4, d, 2), rotation(d, 1)
    omega = frequencies(d)
    longest = [2 * math.pi / frequencies(d, exponent)[-1] for exponent in (1, 2)]
    say(f"d = {d}, positions 0 to 3, the exponent k/d of the question.")
    step("Number the pairs of columns: k = i // 2. Each pair has one frequency.",
         "ω_k = 1/10000^(k/d),   wave length 2π/ω_k",
         f"d = {d}:  ω = {vec(omega, 1)}, wave lengths {vec(2 * math.pi / omega, 1)} positions")
    step("Even columns take the sine, odd ones the cosine of the same angle.",
         "PE[pos, 2k] = sin(pos ω_k),   PE[pos, 2k+1] = cos(pos ω_k)",
         f"PE[1] = ({', '.join(f'sin {s:g}, cos {s:g}' for s in omega)}) = {vec(PE[1])}",
         arrays({"PE": PE}))
    step("The usual table has 2k/d in the exponent, which makes the slow waves much slower. "
         "Say which one is meant.", "10000^(k/d) = 100^(2k/d)",
         f"longest wave {longest[0]:.0f} here, {longest[1]:.0f} with 2k/d: row 1 {vec(usual[1])}")
    step("One step further is a turn of each pair by its angle, the same everywhere.",
         "PE[pos + 1] = R PE[pos]", f"R PE[1] = {vec(R @ PE[1])},   PE[2] = {vec(PE[2])}",
         arrays({"R": R}))
    answer("Row pos: sin and cos of pos/10000^(k/d) side by side, k = 0 .. d/2 − 1; it is a "
           "fixed buffer with nothing to learn.")
    say("In npdl: sinusoidal in npdl/layers/embedding.py.")
    check("npdl's tables of both exponents", all(
        np.allclose(printed_table(64, d, exponent), sinusoidal(64, d, name, "float64"), 0, 1e-9)
        for d in (4, D) for name, exponent in (("k/d", 1), ("2k/d", 2))))
    ours, usual = printed_table(512, D), printed_table(512, D, 2)
    apart = abs(ours - usual)[:64].max()
    longest = [2 * math.pi / frequencies(D, exponent)[-1] for exponent in (1, 2)]
    claim("exponent", "The frequencies of the sinusoidal encoding are 1 / 10000^(k/d) at i = 2k "
          "and 2k + 1.", "k / d",
          f"the usual exponent is 2k/d: the longest wave then has {longest[1]:,.0f} positions, as "
          f"printed {longest[0]:,.0f}, for d = {D}; k/d is 2k/d with base 100",
          judge(apart > 1e-9, "convention"), "as functions of i, the two differ by up to "
          f"{apart:.2f} in 64 positions")
    gaps = [min(np.linalg.norm(a - b) for a, b in combinations(found[:128], 2))
            for found in (ours, usual)]
    claim("unique", "Every position gets a vector of its own.", "unique for each position",
          f"closest two of 128 positions, d = {D}: {gaps[0]:.3f} apart with k/d, {gaps[1]:.3f} "
          "apart with 2k/d", judge(min(gaps) > 1e-6),
          "sin(pos) and cos(pos) of k = 0 alone repeat only after 2 pi, which is irrational")
    worst = 0.0
    for found, exponent in ((ours, 1), (usual, 2)):
        for n in (1, 7, 100):
            turned, dots = found[:-n] @ rotation(D, n, exponent).T, (found[:-n] * found[n:]).sum(1)
            worst = max(worst, abs(turned - found[n:]).max(), np.ptp(dots))
    claim("relative", "Relative positions are easy to learn from the table.", "easily learned",
          "PE(pos + n) = R(n) PE(pos) with one rotation R(n) for all pos, and the dot product of "
          "two rows depends on their distance alone", judge(worst < 1e-9),
          "512 positions, n = 1, 7, 100, both exponents: errors below 1e-9; for an even d")
    learned = SinusoidalPositions(64, D).count_params()
    claim("fixed", "Sinusoidal positions are fixed and need no training.",
          "a buffer, not a parameter", f"{learned} learned numbers", judge(learned == 0),
          "npdl's SinusoidalPositions")
    seen = 8
    basis = np.linalg.qr(ours[:seen].T)[0]
    inside, outside = (np.linalg.norm(v - basis @ (basis.T @ v)) for v in (
        rotation(D, 0.5) @ ours[seen // 2], ours[4 * seen]))
    claim("longer", "The table is smooth in the position, so that it interpolates for sequence "
          "lengths not seen.", "interpolation possible",
          f"between seen positions, yes: position {seen / 2 + 0.5} lies {inside:.2f} from what the "
          f"vectors of 0 to {seen - 1} span; a longer sequence is extrapolation: position "
          f"{4 * seen} lies {outside:.2f} away",
          judge(outside < 0.1 * np.linalg.norm(ours[0]), if_false="under-specified"),
          f"d = {D}, every vector has length {np.linalg.norm(ours[0]):.0f}")


@question("004.2.8", "Tokens plus positions")
def both(say, step, answer, check, claim, d=4):
    """Add the positions to the token vectors."""
    tokens, places = EMBEDDING[list(IDS)], printed_table(len(IDS), d)
    x = tokens + places
    say(f"V = 3 tokens, d = {d}, S = {len(IDS)}.")
    step("Look up the tokens, whatever their places.", "E[x]   (B, S, d)", f"x = {vec(IDS)}",
         arrays({"E[x]": tokens}))
    step("Take the first S rows of the table, whatever the tokens.", "PE[0 .. S − 1]",
         arrays({"PE": places}))
    step("Add, entry by entry; the table is the same for every sequence of the batch.",
         "h = E[x] + PE[0 .. S − 1]", arrays({"h": x}))
    step("Both ends hold the same token; only the place makes them differ.",
         "h₀ − h₂ = PE[0] − PE[2]", vec(x[0] - x[2]))
    answer("E[x] + PE[0 .. S − 1], broadcast over the batch; rows 0 and 2 differ by "
           f"{np.linalg.norm(x[0] - x[2]):.3f} in length.")
    say("In npdl: SinusoidalPositions.forward in npdl/layers/embedding.py.")
    model = GPT(3, d, 1, 2, dtype="float64")
    model.embedding.W.data[...] = EMBEDDING
    own, _ = model.positions.forward(model.embedding.forward(np.array([IDS]))[0])
    check("npdl's GPT makes the same of these tokens", np.allclose(own[0], x))
    claim("sum", "A token's final embedding is its token vector plus its position's vector.",
          "sum of both", "the same by hand: below 1e-9", judge(np.allclose(own[0], x, 0, 1e-9)),
          "its first and last token differ by their positions only "
          f"({np.linalg.norm(x[0] - x[2]):.2f} apart)")


@question("004.2.9", "The forward pass of a GPT")
def forward(say, step, answer, check, claim, B=2, S=3, V=5, d=4, L=2, heads=2):
    """Return logits, the hidden states per layer and the attention weights per layer."""
    logits, cache = GPT(V, d, L, heads, dtype="float64").forward(np.zeros((B, S), int))
    found = logits, hidden_states(cache), attentions(cache)
    shapes = (B, S, V), (B, L, S, d), (B, L, heads, S, S)
    x, branch = np.array([1.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0])
    pre = x + branch
    post = (pre - pre.mean()) / pre.std()
    block = ((B, S, d), (B, heads, S, S))
    say(f"B = {B} sequences of S = {S} tokens, V = {V}, d = {d}, L = {L} blocks of {heads} "
        "heads; A₁, A₂ are the weights of attention.")
    step("Follow the shapes. Each block hands on its output and its weights; keep both.",
         table(("name", "made by", "shape"), [(name, how, str(shape)) for name, how, shape in (
             ("ids", "", (B, S)), ("x", "E[ids] + PE", (B, S, d)),
             ("h₁, A₁", "block 1 (x)", block), ("h₂, A₂", "block 2 (h₁)", block),
             ("logits", "classifier(h₂)", shapes[0]),
             ("hidden_states", "h₁, h₂ stacked on axis 1", shapes[1]),
             ("attentions", "A₁, A₂ stacked on axis 1", shapes[2]))]))
    step("L blocks give L hidden states: the outputs of the blocks. The embedding's sum is "
         "not one of them; with it there would be L + 1.", f"L = {L}: {shapes[1]}")
    step("The place of a LayerNorm decides what such an output is. After the sum (post) "
         "every row has mean 0 and deviation 1; before the branch (pre) the sum is handed on "
         "as it is, and one more norm is needed before the classifier.",
         "post: y = LN(x + f(x))      pre: y = x + f(LN(x))",
         f"the same branch f = {vec(branch, 0)} added to x = {vec(x, 0)}:",
         f"post {vec(post)}, pre {vec(pre, 0)}")
    step("Return the logits as they are: the loss takes the log-softmax.")
    answer(f"logits {shapes[0]}, hidden_states {shapes[1]}, attentions {shapes[2]} for B = "
           f"{B}, S = {S}, V = {V}, L = {L}, {heads} heads, d = {d}.")
    say("In npdl: GPT.forward in npdl/models/gpt.py; experiments/train_gpt.py trains it.")
    check("npdl's GPT gives these shapes", tuple(a.shape for a in found) == shapes)
    check("its hidden states, post-norm, have mean 0 and mean square 1 in every row",
          np.allclose(found[1].mean(-1), 0, atol=1e-6)
          and np.allclose((found[1] ** 2).mean(-1), 1, atol=1e-2))
    logits, cache = GPT(36, 8, 3, 2).forward(np.zeros((2, 6), int))
    for part, says, said, array, shape in (
            ("logits", "The GPT returns logits (B, S, V).", "logits", logits, (2, 6, 36)),
            ("hidden states", "hidden_states is (B, num_layers, S, embedding_size).",
             "(B, num_layers, S, embedding_size)", hidden_states(cache), (2, 3, 6, 8)),
            ("attentions", "attentions is (B, num_layers, num_heads, S, S).",
             "(B, num_layers, num_heads, S, S)", attentions(cache), (2, 3, 2, 6, 6))):
        claim(part, says, said, f"{array.shape}", judge(array.shape == shape),
              "npdl's GPT with B = 2, S = 6, V = 36, width 8, 3 layers, 2 heads")
    ids = np.array([[3, 1, 4, 1], [5, 9, 2, 6]])
    post, pre = (GPT(36, 8, 3, 2, norm=place, dtype="float64") for place in ("post", "pre"))
    gap = abs(post.forward(ids)[0] - pre.forward(ids)[0]).max()
    claim("norm", "A block is attention and feed-forward net with skip-connections and LayerNorm.",
          "the parts named, their order left to a figure",
          "two blocks fit: LayerNorm after each sum (post, npdl's default) or before each branch "
          "(pre, with one more at the end)", judge(gap < 1e-9, if_false="under-specified"),
          f"an example, weights of seed 0 in both: logits differ by up to {gap:.2f}; pre-norm "
          f"learns {pre.count_params() - post.count_params()} numbers more; holds with the figure "
          "that the text points to")

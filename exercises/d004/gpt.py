"""Document 004, Problems 1.3 and 2.6 to 2.10, and P of 4: parameter counts, positions, the GPT.

The position embedding is sin(pos / 10000^(k/d)) at i = 2k and the cosine of the same angle at
i = 2k + 1; the usual exponent is 2k/d.
"""

import math
from itertools import combinations, product

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.embedding import SinusoidalPositions, sinusoidal
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Block, FeedForward
from npdl.models.gpt import GPT, attentions, hidden_states
from npdl.models.lstm_lm import LSTMLM

SIZES = tuple(product((3, 5), (4, 7), (1, 2, 3), (True, False)))    # d_x, d_h, L, bias
HEADS = tuple(product((1, 2, 4), (1, 3, 8)))                        # num_heads, head_size
DECODERS = ((8, 2, 1, 1), (8, 4, 4, 2), (12, 3, 2, 3))              # d, num_heads, m, L
PRINTED = {
    "embedding": "V d_e, twice", "layer 1": "4(d_e + d_h) d_h + 4 d_h; 4(d_e + d_h) d_h",
    "layers 2 to L": "(L - 1)(8 d_h^2 + 4 d_h); (L - 1)(8 d_h^2)",
    "classifier": "V d_h + V; V d_h",
}


def printed_lstm_counts(V, d_e, d_h, L, bias=True):
    """Return the document's table for Problem 1.3, {component: count}, with biases if `bias`."""
    return {"embedding": V * d_e, "layer 1": 4 * (d_e + d_h) * d_h + bias * 4 * d_h,
            "layers 2 to L": (L - 1) * (8 * d_h**2 + bias * 4 * d_h),
            "classifier": V * d_h + bias * V}


def count_lstm_params(d_x, d_h, L, bias=True):
    """Return the answer to Problem 1.3, with one bias vector for each gate."""
    return 4 * d_h * (d_x + d_h + bias) + (L - 1) * 4 * d_h * (2 * d_h + bias)


def count_attention_params(num_heads, head_size, bias=True):
    """Return the document's answer to Problem 2.6."""
    d = num_heads * head_size
    return 4 * (d**2 + bias * d)


def count_decoder_params(d, m, L, bias=True):
    """Return the document's answer to Problem 2.10, without LayerNorm."""
    return L * (4 * d**2 + bias * 4 * d + 2 * d**2 * m)


@question("004.1.3", "Parameters of an LSTM")
def solve_lstm_params(say, step, answer, check, claim, d_x=3, d_h=2, V=5):
    """Count the parameters of an LSTM of L layers (d_x, d_h), with biases and without."""
    shapes = [(layer, *row) for layer, d_in in ((1, d_x), (2, d_h)) for row in (
        ("W", (d_h, d_in), d_h * d_in), ("U", (d_h, d_h), d_h**2), ("b", (d_h,), d_h))]
    first, second = (sum(4 * size for layer, *_, size in shapes if layer == n) for n in (1, 2))
    total, bare = first + second, count_lstm_params(d_x, d_h, 2, 0)
    around = printed_lstm_counts(V, d_x, d_h, 2)
    say(f"The example has d_x = {d_x}, d_h = {d_h} and L = 2.")
    step("List every array with its shape. A layer has four gates, each with W, U and b. The "
         "second layer has d_h inputs instead of d_x.",
         format_table(("layer", "array", "shape", "4 · size", "parameters"), [
             (layer, f"{name} of i, f, o, c̃", str(shape), f"4 · {size}", 4 * size)
             for layer, name, shape, size in shapes]))
    step("Add up the parameters of each layer.", "layer 1: 4 (d_h d_x + d_h² + d_h),   each "
         "further one: 4 (2 d_h² + d_h)", f"layer 1: 4 · ({d_h * d_x} + {d_h**2} + {d_h}) = "
         f"{first},   layer 2: 4 · ({2 * d_h**2} + {d_h}) = {second}")
    step("Add up all layers. b is 1 with biases and 0 without.",
         "P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b)",
         f"b = 1: {first} + {second} = {total};   b = 0: {total} − {total - bare} = {bare}")
    step("This is the answer for the LSTM module. A language model also has an embedding and a "
         "classifier, whose sizes depend on the vocabulary size V.", "V d_x + P + V d_h + b V",
         f"V = {V}: {' + '.join(map(str, around.values()))} = {sum(around.values())}")
    answer(f"P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b): {total} with biases, {bare} "
           "without. It does not depend on V.")
    count, agree, whole, ours, theirs = len(SIZES), dict.fromkeys(PRINTED, 0), 0, 0, 0
    for d, h, L, bias in SIZES:
        printed, model = printed_lstm_counts(11, d, h, L, bias), LSTMLM(11, d, L, h, bias=bias)
        first, *others = (layer.count_params() for layer in model.lstm.layers)
        counted = {"embedding": model.embedding.count_params(), "layer 1": first,
                   "layers 2 to L": sum(others), "classifier": model.classifier.count_params()}
        module = LSTM(d, h, L, bias=bias).count_params()
        for name in agree:
            agree[name] += printed[name] == counted[name]
        whole += sum(printed.values()) == model.count_params()
        ours += count_lstm_params(d, h, L, bias) == module
        theirs += sum(printed.values()) == module
    for name, formula in PRINTED.items():
        claim(name, f"The row '{name}' of the tables with and without bias.", formula,
              f"{agree[name]} of {count} counted models agree", judge(agree[name] == count),
              "arrays of npdl's LSTMLM: V = 11, 12 sizes, with and without bias")
    claim("whole model", "Each table's total is the sum of its rows and counts the language model.",
          "V d_e + 4(d_e + d_h) d_h + 4 d_h + (L - 1)(8 d_h^2 + 4 d_h) + V d_h + V",
          f"sums of the four rows: {whole} of {count} models agree", judge(whole == count),
          "including embedding and classifier")
    example, bare = count_lstm_params(128, 128, 2), count_lstm_params(128, 128, 2, 0)
    check(f"Our formula agrees with all {count} LSTM modules.", ours == count)
    claim("answer", "The total is P of the LSTM module as a function of d_x, d_h and L, which was "
          "asked.", "totals that depend on V and contain embedding and classifier",
          "P = 4 d_h (d_x + d_h + b) + (L - 1) 4 d_h (2 d_h + b), b = 1 with bias, 0 without; "
          f"{example:,} and {bare:,} for d_x = d_h = 128, L = 2", judge(theirs == count),
          f"ours agrees with {ours} of {count} modules, the printed total with {theirs}, because "
          "it is too large by V d_e + V d_h + b V", weight="answer")
    claim("two biases", "A gate has one bias vector.", "4 d_h for each layer",
          "4 d_h here; 8 d_h for each layer if the products with the input and with the state have "
          f"separate biases ({example + 2 * 4 * 128:,} instead of {example:,})",
          judge(LSTM(128, 128, 2).count_params() == example, "convention"),
          "the equations of Problem 1 have one b per gate")


@question("004.2.6", "Parameters of multi-head attention")
def solve_attention_params(say, step, answer, check, claim, heads=2, width=3):
    """Count the parameters of attention with several heads, with biases and without."""
    d = heads * width
    weights, total = 4 * d * d, 4 * (d * d + d)
    say(f"The example has num_heads = {heads} and head_size = {width}.")
    step("All heads together have the width of the model.", "d = num_heads · head_size",
         f"d = {heads} · {width} = {d}")
    step("Count four projections. Each has a (d, d) matrix and, with biases, a bias of d entries.",
         format_table(("projection", "shape", "weights", "bias"),
                      [(name, str((d, d)), d * d, d) for name in ("W_Q", "W_K", "W_V", "W_O")]))
    step("Add them up.", "P = 4 (d² + d) with biases,   4 d² without",
         f"4 · ({d * d} + {d}) = {total},   4 · {d * d} = {weights}")
    step("The number of heads alone does not change the count, because the softmax and the mask "
         "have no parameters.", f"1 head of {d}: {count_attention_params(1, d)},   {heads} heads "
         f"of {width}: {count_attention_params(heads, width)}")
    answer(f"P = 4 (d² + d) with d = num_heads · head_size, and 4 d² without biases, here {total} "
           f"and {weights}.")
    check("npdl's attention layer has the same number of parameters.",
          MultiHeadAttention(d, heads).count_params() == total
          and MultiHeadAttention(d, heads, bias=False).count_params() == weights)
    for bias, part, formula in ((True, "bias", "4[(h d_h)^2 + h d_h]"),
                                (False, "no bias", "4 (h d_h)^2")):
        agree = sum(count_attention_params(h, d, bias) == MultiHeadAttention(
            h * d, h, bias=bias).count_params() for h, d in HEADS)
        claim(part, f"Multi-head attention {'with' if bias else 'without'} biases learns four "
              "square projections.", formula, f"{agree} of {len(HEADS)} counted modules agree; "
              f"{count_attention_params(4, 32, bias):,} for 4 heads of 32",
              judge(agree == len(HEADS)), "arrays of npdl's MultiHeadAttention")
    counted = {MultiHeadAttention(128, h).count_params() for h in (1, 2, 4, 8)}
    claim("heads", "The count depends on num_heads and head_size only through their product.",
          "d_model = num_heads x head_size",
          f"number of distinct counts for 1, 2, 4, 8 heads of total width 128: {len(counted)}, "
          f"namely {min(counted):,}", judge(counted == {count_attention_params(1, 128)}),
          "counted in npdl's modules; the number of heads alone adds no parameters")


@question("004.2.10", "Parameters of a decoder")
def solve_decoder_params(say, step, answer, check, claim, d=4, m=2, L=2):
    """Count the parameters of L blocks with attention and a bias-free MLP of inner width m d."""
    weights, attention_part, ffn, norms = 4 * d * d, 4 * (d * d + d), 2 * d * m * d, 2 * 2 * d
    total, bare = count_decoder_params(d, m, L), count_decoder_params(d, m, L, 0)
    drawn, bare_drawn = total + L * norms, bare + L * norms
    say(f"The example has d = {d}, the multiplier m = {m} and L = {L}.")
    step("Count the attention, as in 2.6.", "4 (d² + d), without biases 4 d²",
         f"4 · ({d * d} + {d}) = {attention_part},   {weights}")
    step("The MLP has two matrices and no bias. The first maps to m d hidden units, and the second "
         "maps back to d.", "(d, m d) and (m d, d):   2 m d²",
         f"{d} · {m * d} + {m * d} · {d} = {ffn}")
    step("A block has both parts, and a decoder has L blocks.",
         "P = L (4 d² + 4 d + 2 m d²), without biases L (4 d² + 2 m d²)",
         f"{L} · ({attention_part} + {ffn}) = {total},   {L} · ({weights} + {ffn}) = {bare}")
    step("The block in the figure also has two LayerNorms, each with a weight and a bias of d "
         "entries. State if they are included.", "+ L · 2 · 2 d",
         f"{total} + {L} · {norms} = {drawn},   {bare} + {L} · {norms} = {bare_drawn}")
    answer(f"P = L (4 d² + 4 d + 2 m d²) = {total}, and without biases L (4 d² + 2 m d²) = {bare}. "
           f"The LayerNorms add 4 d L = {L * norms}.")
    ffn = all(FeedForward(d, m).count_params() == 2 * d * d * m for d, _, m, _ in DECODERS)
    described, gaps = [], []
    for (d, heads, m, L), bias in product(DECODERS, (True, False)):
        block, formula = Block(d, heads, m, bias=bias), count_decoder_params(d, m, L, bias)
        described.append(L * (block.attention.count_params() + block.ffn.count_params()) == formula)
        gaps.append(L * block.count_params() - formula == 2 * LayerNorm(d).count_params() * L)
    check("A decoder has two more LayerNorms in each block than the formula.", all(gaps))
    claim("feed-forward", "The bias-free two-layer MLP has 2 d^2 m parameters.", "2 d^2 m",
          f"{'all' if ffn else 'not all'} of {len(DECODERS)} counted MLPs agree", judge(ffn),
          "arrays of npdl's FeedForward")
    claim("as described", "Attention and MLP of L blocks together have L(4d^2 + 4d + 2d^2 m) "
          "parameters, without biases L(4d^2 + 2d^2 m).", "the same",
          f"{sum(described)} of {len(described)} counted decoders agree, without LayerNorm",
          judge(all(described)), "only the arrays of attention and MLP")
    printed, full = zip(*((count_decoder_params(128, 4, 2, bias), 2 * Block(
        128, 4, 4, bias=bias).count_params()) for bias in (True, False)), strict=True)
    claim("decoder", "This is the number of parameters of the decoder.",
          f"{printed[0]:,} with bias, {printed[1]:,} without, for d = 128, m = 4, L = 2",
          f"{full[0]:,} and {full[1]:,}: L(4d^2 + 4d + 2d^2 m + 4d) with bias, L(4d^2 + 2d^2 m + "
          "4d)", judge(full == printed, if_false="under-specified"),
          "true for a block as described in 2.10; the block in the figure has two LayerNorms with "
          f"2d parameters each, so the difference is 4dL in all {len(gaps)} decoders")


@question("004.4.P", "The parameters that the scaling plots count")
def solve_scaling_plot_params(say, step, answer, check, claim, V=36):
    """Count P, the parameters without embeddings, of the models of Problem 4: 36 tokens."""
    models = {"LSTM": LSTMLM(V), "GPT": GPT(V)}
    P = {name: model.count_params(embeddings=False) for name, model in models.items()}
    shapes = list(product((1, 2, 3), (64, 128, 256)))                   # (L, d)
    grid = {name: [make(V, d, L).count_params(embeddings=False) for L, d in shapes]
            for name, make in (("LSTM", LSTMLM), ("GPT", GPT))}
    formula = {"LSTM": [count_lstm_params(d, d, L) + (d + 1) * V for L, d in shapes],
               "GPT": [count_decoder_params(d, 4, L) + 4 * d * L + (d + 1) * V for L, d in shapes]}
    answer(f"For L = 2 and d = 128, P is {P['LSTM']:,} (LSTM) and {P['GPT']:,} (GPT).")
    check("The formulas of 1.3 and 2.10, with LayerNorms and classifier, give all 18 counts.",
          grid == formula)
    printed = sum(printed_lstm_counts(V, 128, 128, 2).values()), count_decoder_params(128, 4, 2)
    classifier = models["GPT"].classifier.count_params()
    claim("P already computed", "P, without embeddings, was computed for LSTM and GPT in the "
          "earlier problems.", f"{printed[0]:,} (table of 1.3), {printed[1]:,} (2.10) with V = 36",
          f"LSTM {P['LSTM']:,}, GPT {P['GPT']:,}", judge(printed == tuple(P.values())),
          f"the table includes the embedding ({V * 128:,}); 2.10 leaves out LayerNorm (1,024) and "
          f"the classifier ({classifier:,})")
    claim("P of the code", "All parameters less those of model.embedding are P without token and "
          "position embeddings.", "n_params - n_params_embeddings",
          "equal for both models; fixed positions have 0 parameters",
          judge(models["GPT"].positions.count_params() == 0 and all(
              model.count_params() - model.embedding.count_params() == P[name]
              for name, model in models.items())), "npdl's LSTMLM and GPT")
    claim("P of the grid", "P for (L, d) in {1, 2, 3} x {64, 128, 256}.",
          "asked for a plot, not printed",
          "; ".join(f"{name} " + " ".join(f"{n:,}" for n in row) for name, row in grid.items()),
          judge(grid == formula, "no answer given"), "counted in the order of L, then d; the ratio "
          f"GPT / LSTM is {P['GPT'] / P['LSTM']:.3f} for the default")


EMBEDDING = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
IDS = (2, 0, 2)
D = 128                                                 # width of the encodings of the claims


def angle_per_position(d, exponent=1):
    """Return the angle per position of each pair of columns: 1 / 10000^(exponent k/d)."""
    return 10000.0 ** (-exponent * np.arange(d // 2) / d)


def printed_encoding(length, d, exponent=1):
    """Return the table (S, D) of the document's formula."""
    angles = np.outer(np.arange(length), angle_per_position(d, exponent))
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, d)


def position_rotation(d, position_offset, exponent=1):
    """Return the matrix R (d, d) with PE(pos + offset) = R PE(pos) for every pos."""
    R = np.zeros((d, d))
    for k, angle in enumerate(position_offset * angle_per_position(d, exponent)):
        R[2 * k:2 * k + 2, 2 * k:2 * k + 2] = [[math.cos(angle), math.sin(angle)],
                                               [-math.sin(angle), math.cos(angle)]]
    return R


@question("004.2.7", "Sinusoidal positions")
def solve_sinusoidal_positions(say, step, answer, check, claim, d=4):
    """Write the table of sinusoidal positions, and give its useful properties."""
    PE, usual, R = printed_encoding(4, d), printed_encoding(4, d, 2), position_rotation(d, 1)
    omega = angle_per_position(d)
    longest = [2 * math.pi / angle_per_position(d, exponent)[-1] for exponent in (1, 2)]
    say(f"The example has d = {d}, positions 0 to 3, and the exponent k/d of the question.")
    step("Number the pairs of columns: k = i // 2. Each pair has one frequency.",
         "ω_k = 1/10000^(k/d),   wavelength 2π/ω_k",
         f"d = {d}:  ω = {vec(omega, 1)}, wavelengths {vec(2 * math.pi / omega, 1)} positions")
    step("Even columns contain the sine, and odd columns the cosine of the same angle.",
         "PE[pos, 2k] = sin(pos ω_k),   PE[pos, 2k+1] = cos(pos ω_k)",
         f"PE[1] = ({', '.join(f'sin {s:g}, cos {s:g}' for s in omega)}) = {vec(PE[1])}",
         format_arrays({"PE": PE}))
    step("The usual table has the exponent 2k/d, which makes the low frequencies much lower. State "
         "which exponent is used.", "10000^(k/d) = 100^(2k/d)", "longest wavelength "
         f"{longest[0]:.0f} here, {longest[1]:.0f} with 2k/d, where row 1 is {vec(usual[1])}")
    step("The next position is a rotation of each pair by its angle. The rotation is the same for "
         "all positions.", "PE[pos + 1] = R PE[pos]",
         f"R PE[1] = {vec(R @ PE[1])},   PE[2] = {vec(PE[2])}", format_arrays({"R": R}))
    answer("Row pos contains sin and cos of pos/10000^(k/d) side by side, for k = 0 .. d/2 − 1. "
           "The table is fixed and has no trainable parameters.")
    say("In npdl, this is sinusoidal in npdl/layers/embedding.py.")
    check("npdl's tables of both exponents are the same.", all(
        np.allclose(printed_encoding(64, d, exponent), sinusoidal(64, d, name, "float64"), 0, 1e-9)
        for d in (4, D) for name, exponent in (("k/d", 1), ("2k/d", 2))))
    ours, usual = printed_encoding(512, D), printed_encoding(512, D, 2)
    difference = abs(ours - usual)[:64].max()
    longest = [2 * math.pi / angle_per_position(D, exponent)[-1] for exponent in (1, 2)]
    claim("exponent", "The frequencies of the sinusoidal encoding are 1 / 10000^(k/d) at i = 2k "
          "and 2k + 1.", "k / d", "the usual exponent is 2k/d, with a longest wavelength of "
          f"{longest[1]:,.0f} positions; as printed it is {longest[0]:,.0f}, for d = {D}; k/d is "
          "2k/d with base 100", judge(difference > 1e-9, "convention"),
          f"the two tables differ by up to {difference:.2f} in 64 positions")
    gaps = [min(np.linalg.norm(a - b) for a, b in combinations(table[:128], 2))
            for table in (ours, usual)]
    claim("unique", "Every position gets a vector of its own.", "unique for each position",
          f"smallest distance between two of 128 positions, d = {D}: {gaps[0]:.3f} with k/d, "
          f"{gaps[1]:.3f} with 2k/d", judge(min(gaps) > 1e-6), "even the pair sin(pos), cos(pos) "
          "of k = 0 never repeats, because its period 2 pi is irrational")
    worst = 0.0
    for table, exponent in ((ours, 1), (usual, 2)):
        for n in (1, 7, 100):
            rotated = table[:-n] @ position_rotation(D, n, exponent).T
            dots = (table[:-n] * table[n:]).sum(1)
            worst = max(worst, abs(rotated - table[n:]).max(), np.ptp(dots))
    claim("relative", "Relative positions are easy to learn from the table.", "easily learned",
          "PE(pos + n) = R(n) PE(pos) with the same rotation R(n) for all pos, and the dot product "
          "of two rows depends only on their distance", judge(worst < 1e-9),
          f"512 positions, n = 1, 7, 100, both exponents: error {worst:.1g}; for an even d")
    learned = SinusoidalPositions(64, D).count_params()
    claim("fixed", "Sinusoidal positions are fixed and need no training.",
          "a buffer, not a parameter", f"{learned} trainable parameters", judge(learned == 0),
          "npdl's SinusoidalPositions")
    seen = 8
    basis = np.linalg.qr(ours[:seen].T)[0]
    inside, outside = (np.linalg.norm(v - basis @ (basis.T @ v)) for v in (
        position_rotation(D, 0.5) @ ours[seen // 2], ours[4 * seen]))
    claim("longer", "The table is smooth in the position, so that it interpolates for sequence "
          "lengths not seen.", "interpolation possible",
          f"true between seen positions: position {seen / 2 + 0.5} has the distance {inside:.2f} "
          f"from the span of the vectors of 0 to {seen - 1}; a longer sequence is extrapolation: "
          f"position {4 * seen} has the distance {outside:.2f}",
          judge(outside < 0.1 * np.linalg.norm(ours[0]), if_false="under-specified"),
          f"d = {D}, every vector has length {np.linalg.norm(ours[0]):.0f}")


@question("004.2.8", "Tokens plus positions")
def solve_tokens_plus_positions(say, step, answer, check, claim, d=4):
    """Add the positions to the token vectors."""
    tokens, positions = EMBEDDING[list(IDS)], printed_encoding(len(IDS), d)
    x = tokens + positions
    say(f"The example has V = 3 tokens, d = {d} and S = {len(IDS)}.")
    step("Look up the embeddings of the tokens. They do not depend on the positions.",
         "E[x]   (B, S, d)", f"x = {vec(IDS)}", format_arrays({"E[x]": tokens}))
    step("Take the first S rows of the table. They do not depend on the tokens.", "PE[0 .. S − 1]",
         format_arrays({"PE": positions}))
    step("Add them elementwise. The table is the same for every sequence of the batch.",
         "h = E[x] + PE[0 .. S − 1]", format_arrays({"h": x}))
    step("The first and the last token are the same. Only their positions make the sums differ.",
         "h₀ − h₂ = PE[0] − PE[2]", vec(x[0] - x[2]))
    answer("The sum is E[x] + PE[0 .. S − 1], broadcast over the batch. The distance between rows "
           f"0 and 2 is {np.linalg.norm(x[0] - x[2]):.3f}.")
    say("In npdl, this is SinusoidalPositions.forward in npdl/layers/embedding.py.")
    model = GPT(3, d, 1, 2, dtype="float64")
    model.embedding.W.data[...] = EMBEDDING
    own, _ = model.positions.forward(model.embedding.forward(np.array([IDS]))[0])
    check("npdl's GPT computes the same sum for these tokens.", np.allclose(own[0], x))
    claim("sum", "A token's final embedding is its token vector plus its position's vector.",
          "sum of both", f"npdl's GPT computes the same sum: error {abs(own[0] - x).max():.1g}",
          judge(np.allclose(own[0], x, 0, 1e-9)), "its first and last token differ only by their "
          f"positions (distance {np.linalg.norm(x[0] - x[2]):.2f})")


@question("004.2.9", "The forward pass of a GPT")
def solve_gpt_forward(say, step, answer, check, claim, B=2, S=3, V=5, d=4, L=2, heads=2):
    """Return the logits, and the hidden states and attention weights of each layer."""
    logits, cache = GPT(V, d, L, heads, dtype="float64").forward(np.zeros((B, S), int))
    outputs = logits, hidden_states(cache), attentions(cache)
    shapes = (B, S, V), (B, L, S, d), (B, L, heads, S, S)
    x, branch = np.array([1.0, 3.0, 5.0]), np.array([1.0, 0.0, -1.0])
    pre = x + branch
    post = (pre - pre.mean()) / pre.std()
    block = ((B, S, d), (B, heads, S, S))
    say(f"There are B = {B} sequences of S = {S} tokens, V = {V}, d = {d}, and L = {L} blocks of "
        f"{heads} heads. A₁ and A₂ are the attention weights.")
    step("Follow the shapes. Each block returns its output and its attention weights. Keep both.",
         format_table(("name", "computed as", "shape"), [
             (name, how, str(shape)) for name, how, shape in (
                 ("ids", "", (B, S)), ("x", "E[ids] + PE", (B, S, d)),
                 ("h₁, A₁", "block 1 (x)", block), ("h₂, A₂", "block 2 (h₁)", block),
                 ("logits", "classifier(h₂)", shapes[0]),
                 ("hidden_states", "h₁, h₂ stacked on axis 1", shapes[1]),
                 ("attentions", "A₁, A₂ stacked on axis 1", shapes[2]))]))
    step("L blocks have L hidden states, which are the outputs of the blocks. The sum of embedding "
         "and positions is not included. With it there would be L + 1.", f"L = {L}: {shapes[1]}")
    step("These outputs depend on the position of the LayerNorm. In post-norm, it follows the sum, "
         "so every row has mean 0 and standard deviation 1. In pre-norm, it precedes the branch, "
         "so the sum is not normalised. Then one more norm is needed before the classifier.",
         "post: y = LN(x + f(x))      pre: y = x + f(LN(x))", "the same branch output f = "
         f"{vec(branch, 0)} is added to x = {vec(x, 0)}:", f"post {vec(post)}, pre {vec(pre, 0)}")
    step("Return the logits without a softmax, because the loss computes the log-softmax.")
    answer(f"The shapes are {shapes[0]} (logits), {shapes[1]} (hidden_states) and {shapes[2]} "
           f"(attentions), with B = {B}, S = {S}, V = {V}, L = {L}, {heads} heads, d = {d}.")
    say("In npdl, this is GPT.forward in npdl/models/gpt.py, trained by experiments/train_gpt.py.")
    check("npdl's GPT returns these shapes.", tuple(a.shape for a in outputs) == shapes)
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
          "the parts named, their order left to a figure", "two blocks agree with this: LayerNorm "
          "after each sum (post-norm, npdl's default) or before each branch (pre-norm, with one "
          "more at the end)", judge(gap < 1e-9, if_false="under-specified"),
          f"an example with the weights of seed 0: the logits differ by up to {gap:.2f}; pre-norm "
          f"has {pre.count_params() - post.count_params()} more parameters; the document's figure "
          "settles it")

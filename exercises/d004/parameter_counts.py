"""Document 004, Problems 1.3, 2.6, 2.10 and the P of Problem 4: how many numbers are learned."""

import math
from functools import partial
from itertools import product

from exercises.framework import Claim, judge, proved
from exercises.probes import learned
from exercises.worked import Solution, Table, terms
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Block, Decoder, FeedForward
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM

QUESTION = """\
How many numbers does each module learn, with biases and without: an LSTM of L layers (d_x, d_h);
the language model around it; multi-head attention (num_heads, head_size); a decoder of L blocks,
each with attention and a bias-free two-layer MLP of inner width m d? And which of these is the P
of Problem 4, the parameters without token and position embeddings, for p = 31, L = 2, d = 128?"""

SIZES = tuple(product((3, 5), (4, 7), (1, 2, 3)))       # (d_x, d_h, L) to compare on
HEADS = tuple(product((1, 2, 4), (1, 3, 8)))            # (num_heads, head_size)
DECODERS = ((8, 2, 1, 1), (8, 4, 4, 2), (12, 3, 2, 3))  # (d_model, num_heads, m, L)

TITLES = {"1.3": "Parameters of an LSTM", "2.6": "Parameters of multi-head attention",
          "2.10": "Parameters of a decoder"}

claim = partial(Claim, "004")


def lstm_table(V, d_e, d_h, L, bias=True):
    """The document's table for Problem 1.3: {component: count}."""
    b = 1 if bias else 0
    return {
        "embedding": V * d_e,
        "layer 1": 4 * (d_e + d_h) * d_h + b * 4 * d_h,
        "layers 2 to L": (L - 1) * (8 * d_h**2 + b * 4 * d_h),
        "classifier": V * d_h + b * V,
    }


def lstm_formula(d_x, d_h, L, bias=True):
    """The answer to Problem 1.3, one bias vector for each gate."""
    b = 1 if bias else 0
    return 4 * d_h * (d_x + d_h + b) + (L - 1) * 4 * d_h * (2 * d_h + b)


def attention_formula(num_heads, head_size, bias=True):
    """The document's answer to Problem 2.6."""
    d = num_heads * head_size
    return 4 * (d**2 + d) if bias else 4 * d**2


def decoder_formula(d, m, L, bias=True):
    """The document's answer to Problem 2.10: no LayerNorm."""
    return L * (4 * d**2 + (4 * d if bias else 0) + 2 * d**2 * m)


def table_rows_of(model):
    """{component: count} of an LSTMLM by counting its arrays."""
    layers = [learned(layer) for layer in model.lstm.layers]
    return {"embedding": learned(model.embedding), "layer 1": layers[0],
            "layers 2 to L": sum(layers[1:]), "classifier": learned(model.classifier)}


def claims():
    return [*lstm_claims(), *attention_claims(), *decoder_claims(), *size_claims()]


def lstm_claims():
    ask = partial(claim, "Problem 1.3")
    wrong, modules, sound = {name: 0 for name in lstm_table(1, 1, 1, 1)}, [], True
    for (d, h, L), bias in product(SIZES, (True, False)):
        printed = lstm_table(11, d, h, L, bias)
        model = LSTMLM(11, d, L, h, bias=bias)
        counted = table_rows_of(model)
        sound &= sum(counted.values()) == model.count_params()
        for name in wrong:
            wrong[name] += printed[name] != counted[name]
        modules.append((lstm_formula(d, h, L, bias), learned(LSTM(d, h, L, bias=bias)),
                        sum(printed.values())))
    tried = len(modules)
    agreeing = {name: tried - count for name, count in wrong.items()}
    whole = min(agreeing.values())
    rows = [
        ask(name, f"The row '{name}' of the tables with and without bias.",
            f"{TABLE[name]}", f"{agree} of {tried} counted models agree",
            proved(sound and agree == tried),
            "arrays of npdl's LSTMLM, V = 11, 12 sizes, bias on and off")
        for name, agree in agreeing.items()
    ]
    right = sum(ours == counted for ours, counted, _ in modules)
    theirs = sum(total == counted for _, counted, total in modules)
    example = lstm_formula(128, 128, 2), lstm_formula(128, 128, 2, bias=False)
    with_two = example[0] + 2 * 4 * 128
    yield from rows
    yield ask("whole model",
              "Each table's total is the sum of its rows and counts the language model.",
              "V d_e + 4(d_e + d_h) d_h + 4 d_h + (L - 1)(8 d_h^2 + 4 d_h) + V d_h + V",
              f"sums of the four rows: {whole} of {tried} models agree",
              proved(sound and whole == tried), "embedding and classifier included")
    yield ask("answer",
              "The total is P of the LSTM module as a function of d_x, d_h and L, which was asked.",
              "totals that depend on V and contain embedding and classifier",
              "P = 4 d_h (d_x + d_h + b) + (L - 1) 4 d_h (2 d_h + b), b = 1 with bias, 0 without; "
              f"{example[0]:,} and {example[1]:,} for d_x = d_h = 128, L = 2",
              judge(theirs == tried, provided=right == tried),
              f"counting LSTM modules: ours agrees in {right} of {tried}, the printed total in "
              f"{theirs}; it is too large by V d_e + V d_h + b V", weight="answer")
    yield ask("two biases", "A gate has one bias vector.", "4 d_h for each layer",
              "4 d_h here; 8 d_h for each layer where input and hidden products have a bias each "
              f"({with_two:,} instead of {example[0]:,})",
              judge(learned(LSTM(128, 128, 2)) == example[0], "convention"),
              "the equations of Problem 1 have one b for each gate; the second adds no function")


TABLE = {
    "embedding": "V d_e, twice", "layer 1": "4(d_e + d_h) d_h + 4 d_h; 4(d_e + d_h) d_h",
    "layers 2 to L": "(L - 1)(8 d_h^2 + 4 d_h); (L - 1)(8 d_h^2)",
    "classifier": "V d_h + V; V d_h",
}


def attention_claims():
    ask = partial(claim, "Problem 2.6")
    found = []
    for bias, text in ((True, "4[(h d_h)^2 + h d_h]"), (False, "4 (h d_h)^2")):
        agree = sum(attention_formula(h, d, bias)
                    == learned(MultiHeadAttention(h * d, h, bias=bias)) for h, d in HEADS)
        found.append(ask(
            "bias" if bias else "no bias", f"Multi-head attention {'with' if bias else 'without'} "
            "biases learns four square projections.", text, f"{agree} of {len(HEADS)} counted "
            f"modules agree; {attention_formula(4, 32, bias):,} for 4 heads of 32",
            proved(agree == len(HEADS)), "arrays of npdl's MultiHeadAttention"))
    same = {attention_formula(h, 128 // h) for h in (1, 2, 4, 8)}
    counted = {learned(MultiHeadAttention(128, h)) for h in (1, 2, 4, 8)}
    return [*found, ask(
        "heads", "The count depends on num_heads and head_size only through their product.",
        "d_model = num_heads x head_size", f"{len(counted)} count for 1, 2, 4, 8 heads of width "
        f"128: {min(counted):,}", proved(counted == same and len(counted) == 1),
        "counted modules; the number of heads alone costs nothing")]


def stack(L, d, h, m, bias):
    """npdl's decoder of L blocks."""
    return Decoder([Block(d, h, m, bias=bias) for _ in range(L)])


def decoder_claims():
    ask = partial(claim, "Problem 2.10")
    ffn = all(learned(FeedForward(d, m)) == 2 * d * d * m for d, _, m, _ in DECODERS)
    found = [ask("feed-forward", "The bias-free two-layer MLP has 2 d^2 m parameters.", "2 d^2 m",
                 f"{'all' if ffn else 'not all'} of {len(DECODERS)} counted agree", proved(ffn),
                 "arrays of npdl's FeedForward")]
    gaps = {}
    for (d, h, m, L), bias in product(DECODERS, (True, False)):
        decoder = stack(L, d, h, m, bias)
        parts = sum(learned(b.attention) + learned(b.ffn) for b in decoder.blocks)
        gaps[d, L, bias] = (learned(decoder) - decoder_formula(d, m, L, bias),
                            parts == decoder_formula(d, m, L, bias))
    as_described = all(same for _, same in gaps.values())
    found.append(ask(
        "as described", "Attention and MLP of L blocks together have L(4d^2 + 4d + 2d^2 m) "
        "parameters, without biases L(4d^2 + 2d^2 m).", "the same",
        f"{sum(same for _, same in gaps.values())} of {len(gaps)} counted decoders agree, "
        "LayerNorm left out", proved(as_described), "attention and feed-forward arrays only"))
    norms = {d: learned(LayerNorm(d)) for d, *_ in DECODERS}
    exact = all(gap == 2 * norms[d] * L for (d, L, _), (gap, _) in gaps.items())
    d, m, L = 128, 4, 2
    full = [learned(stack(L, d, 4, m, bias)) for bias in (True, False)]
    printed = [decoder_formula(d, m, L, bias) for bias in (True, False)]
    return [*found, ask(
        "decoder", "This is the number of parameters of the decoder.",
        f"{printed[0]:,} with bias, {printed[1]:,} without, for d = 128, m = 4, L = 2",
        f"{full[0]:,} and {full[1]:,}: L(4d^2 + 4d + 2d^2 m + 4d) with bias, L(4d^2 + 2d^2 m + 4d)",
        judge(full == printed, if_false="under-specified", provided=exact),
        "holds for a block as 2.10 describes "
        "it; the block of the GPT section also has two LayerNorms of 2d numbers each: the "
        f"gap is 4dL in {'all' if exact else 'not all'} {len(gaps)} decoders")]


def size_claims(vocab_size=36):
    """P as the code of Problem 4 counts it; V = 36 for p = 31: numbers, +, =, BOS, EOS, PAD."""
    ask = partial(claim, "Problem 4")
    lstm, gpt = LSTMLM(vocab_size), GPT(vocab_size)
    P = {"LSTM": lstm.count_params(embeddings=False), "GPT": gpt.count_params(embeddings=False)}
    table = sum(lstm_table(vocab_size, 128, 128, 2).values())
    decoder = decoder_formula(128, 4, 2)
    grid = {name: [make(vocab_size, d, L).count_params(embeddings=False)
                   for L, d in product((1, 2, 3), (64, 128, 256))]
            for name, make in (("LSTM", LSTMLM), ("GPT", GPT))}
    classifier = learned(Linear(128, vocab_size))
    embedding, ratio = vocab_size * 128, P["GPT"] / P["LSTM"]
    by_formula = {name: [core(d, L) + d * vocab_size + vocab_size
                         for L, d in product((1, 2, 3), (64, 128, 256))]
                  for name, core in (("LSTM", lambda d, L: lstm_formula(d, d, L)),
                                     ("GPT", lambda d, L: decoder_formula(d, 4, L) + 4 * d * L))}
    yield ask("P already computed",
              "P, without embeddings, was computed for LSTM and GPT in the earlier problems.",
              f"{table:,} (table of 1.3), {decoder:,} (2.10) with V = 36",
              f"LSTM {P['LSTM']:,}, GPT {P['GPT']:,}",
              judge((table, decoder) == (P["LSTM"], P["GPT"])),
              f"the table counts the embedding ({embedding:,}); 2.10 leaves out LayerNorm "
              f"(1,024) and classifier ({classifier:,})")
    yield ask("P of the code",
              "All parameters less those of model.embedding are P without token and position "
              "embeddings.", "n_params - n_params_embeddings",
              "equal for both models; fixed positions add 0 learned numbers",
              judge(learned(gpt.positions) == 0, provided=all(
                  learned(m) == m.count_params() and learned(m) - learned(m.embedding)
                  == m.count_params(embeddings=False)
                  for m in (lstm, gpt))), "npdl's LSTMLM and GPT")
    yield ask("P of the grid", "P for (L, d) in {1, 2, 3} x {64, 128, 256}.",
              "asked for a plot, not printed",
              "; ".join(f"{name} " + " ".join(f"{n:,}" for n in row) for name, row in grid.items()),
              judge(grid == by_formula, "no answer given"),
              f"counted, L slowest; GPT / LSTM at the default {ratio:.3f}")


D_X, D_H, L = 3, 2, 2


def size(shape):
    return math.prod(shape)


def lstm_shapes(d_x, d_h, num_layers):
    """[(layer, name, shape, how often)] of the arrays of an LSTM with biases."""
    found = []
    for layer in range(1, num_layers + 1):
        d_in = d_x if layer == 1 else d_h
        shapes = {"W": (d_h, d_in), "U": (d_h, d_h), "b": (d_h,)}
        found += [(layer, name, shape, 4) for name, shape in shapes.items()]
    return found


def lstm():
    """1.3."""
    arrays = lstm_shapes(D_X, D_H, L)
    rows = [(layer, f"{name} of i, f, o, c̃", str(shape), f"{times} · {size(shape)}",
             times * size(shape)) for layer, name, shape, times in arrays]
    by_layer = [sum(row[-1] for row in rows if row[0] == layer) for layer in (1, 2)]
    biases = sum(row[-1] for row, (_, name, *_) in zip(rows, arrays, strict=True) if name == "b")
    total, V = sum(by_layer), 5
    around = lstm_table(V, D_X, D_H, L)
    input_weights, own_weights = D_H * D_X, D_H**2
    both_weights = 2 * own_weights
    work = Solution("1.3", f"d_x = {D_X}, d_h = {D_H}, L = {L}.")
    work.step("List every array with its shape. A layer has four gates, each with W, U and b; the "
              "second layer reads d_h numbers, not d_x.",
              table=Table(("layer", "array", "shape", "4 · size", "numbers"), tuple(rows)))
    work.step("Add up layer by layer.",
              "layer 1: 4 (d_h d_x + d_h² + d_h),   each further one: 4 (2 d_h² + d_h)",
              f"layer 1: 4 · ({input_weights} + {own_weights} + {D_H}) = {by_layer[0]},   "
              f"layer 2: 4 · ({both_weights} + {D_H}) = {by_layer[1]}")
    work.step("All layers. b is 1 with biases and 0 without.",
              "P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b)",
              f"b = 1: {terms(by_layer)} = {total};   b = 0: {total} − {biases} = "
              f"{lstm_formula(D_X, D_H, L, False)}")
    work.step("The module that was asked about ends here. A language model around it also has an "
              "embedding and a classifier, which know the vocabulary V.", "V d_x + P + V d_h + b V",
              f"V = {V}: {terms(list(around.values()))} = {sum(around.values())}")
    work.answer = (f"P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b): {total} with biases, "
                   f"{lstm_formula(D_X, D_H, L, False)} without; V does not enter.")
    work.check("npdl's LSTM has as many numbers, with biases and without",
               LSTM(D_X, D_H, L).count_params() == total
               and LSTM(D_X, D_H, L, bias=False).count_params() == total - biases)
    return work


def attention(heads=2, width=3):
    """2.6."""
    d = heads * width
    square = d * d
    rows = [(name, str((d, d)), square, d) for name in ("W_Q", "W_K", "W_V", "W_O")]
    weights, biases = sum(row[2] for row in rows), sum(row[3] for row in rows)
    total = weights + biases
    work = Solution("2.6", f"num_heads = {heads}, head_size = {width}.")
    work.step("All heads together are as wide as the model.", "d = num_heads · head_size",
              f"d = {heads} · {width} = {d}")
    work.step("Four linear maps, each (d, d), each with a bias of d numbers if there are any.",
              table=Table(("map", "shape", "weights", "bias"), tuple(rows)))
    work.step("Add up.", "P = 4 (d² + d) with biases,   4 d² without",
              f"4 · ({square} + {d}) = {total},   4 · {square} = {weights}")
    work.step("The number of heads alone changes nothing: softmax and masks learn no numbers.",
              numbers=f"1 head of {d}: {attention_formula(1, d)},   {heads} heads of {width}: "
                      f"{attention_formula(heads, width)}")
    work.answer = ("P = 4 (d² + d) with d = num_heads · head_size, 4 d² without biases: "
                   f"{total} and {weights} here.")
    work.check("npdl's attention layer has as many",
               MultiHeadAttention(d, heads).count_params() == total
               and MultiHeadAttention(d, heads, bias=False).count_params() == weights)
    return work


def decoder(d=4, m=2, num_layers=2):
    """2.10."""
    square, inner = d * d, m * d
    weights, attention_part, ffn = 4 * square, 4 * (square + d), 2 * d * inner
    norms = 2 * 2 * d
    total, bare = decoder_formula(d, m, num_layers), decoder_formula(d, m, num_layers, False)
    in_norms = num_layers * norms
    total_drawn, bare_drawn = total + in_norms, bare + in_norms
    work = Solution("2.10", f"d = {d}, multiplier m = {m}, L = {num_layers}.")
    work.step("Attention, as in 2.6.", "4 (d² + d), without biases 4 d²",
              f"4 · ({square} + {d}) = {attention_part},   {weights}")
    work.step("The MLP has two matrices and no bias: up to m d neurons, and down again.",
              "(d, m d) and (m d, d):   2 m d²", f"{d} · {inner} + {inner} · {d} = {ffn}")
    work.step("A block is both, a decoder is L blocks.",
              "P = L (4 d² + 4 d + 2 m d²), without biases L (4 d² + 2 m d²)",
              f"{num_layers} · ({attention_part} + {ffn}) = {total},   {num_layers} · "
              f"({weights} + {ffn}) = {bare}")
    work.step("A block as it is drawn also has two LayerNorms, each with a weight and a bias of d "
              "numbers. Say whether they count.", "+ L · 2 · 2 d",
              f"{total} + {num_layers} · {norms} = {total_drawn},   {bare} + "
              f"{num_layers} · {norms} = {bare_drawn}")
    work.answer = (f"P = L (4 d² + 4 d + 2 m d²) = {total}, without biases L (4 d² + 2 m d²) = "
                   f"{bare}; with the LayerNorms 4 d L = {in_norms} more.")
    work.check("npdl's decoder, LayerNorms included, has as many",
               all(stack(num_layers, d, 2, m, bias).count_params() == count
                   for bias, count in ((True, total_drawn), (False, bare_drawn))))
    return work


def solutions():
    return [lstm(), attention(), decoder()]

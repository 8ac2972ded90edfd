"""Document 004, Problems 1.3, 2.6 and 2.10, worked: counting learned numbers by their shapes."""

import math

from exercises.d004_parameter_counts import (
    attention_formula,
    decoder_formula,
    lstm_formula,
    lstm_table,
)
from exercises.worked import Check, Solution, Step, Table, terms
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Decoder

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
    return Solution(
        "1.3",
        (
            Step("List every array with its shape. A layer has four gates, each with W, U and b; "
                 "the second layer reads d_h numbers, not d_x.",
                 table=Table(("layer", "array", "shape", "4 · size", "numbers"), tuple(rows))),
            Step("Add up layer by layer.",
                 "layer 1: 4 (d_h d_x + d_h² + d_h),   each further one: 4 (2 d_h² + d_h)",
                 f"layer 1: 4 · ({D_H * D_X} + {D_H**2} + {D_H}) = {by_layer[0]},   layer 2: "
                 f"4 · ({2 * D_H**2} + {D_H}) = {by_layer[1]}"),
            Step("All layers. b is 1 with biases and 0 without.",
                 "P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b)",
                 f"b = 1: {terms(by_layer)} = {total};   b = 0: {total} − {biases} = "
                 f"{lstm_formula(D_X, D_H, L, False)}"),
            Step("The module that was asked about ends here. A language model around it also has "
                 "an embedding and a classifier, which know the vocabulary V.",
                 "V d_x + P + V d_h + b V",
                 f"V = {V}: {terms(list(around.values()))} = {sum(around.values())}"),
        ),
        f"P = 4 d_h (d_x + d_h + b) + (L − 1) 4 d_h (2 d_h + b): {total} with biases, "
        f"{lstm_formula(D_X, D_H, L, False)} without; V does not enter.",
        (Check("npdl's LSTM has as many numbers, with biases and without",
               LSTM(D_X, D_H, L).count_params() == total
               and LSTM(D_X, D_H, L, False).count_params() == total - biases),),
        f"d_x = {D_X}, d_h = {D_H}, L = {L}.")


def attention(heads=2, width=3):
    """2.6."""
    d = heads * width
    rows = [(name, str((d, d)), d * d, d) for name in ("W_Q", "W_K", "W_V", "W_O")]
    weights, biases = sum(row[2] for row in rows), sum(row[3] for row in rows)
    return Solution(
        "2.6",
        (
            Step("All heads together are as wide as the model.", "d = num_heads · head_size",
                 f"d = {heads} · {width} = {d}"),
            Step("Four linear maps, each (d, d), each with a bias of d numbers if there are any.",
                 table=Table(("map", "shape", "weights", "bias"), tuple(rows))),
            Step("Add up.", "P = 4 (d² + d) with biases,   4 d² without",
                 f"4 · ({d * d} + {d}) = {weights + biases},   4 · {d * d} = {weights}"),
            Step("The number of heads alone changes nothing: softmax and masks learn no numbers.",
                 numbers=f"1 head of {d}: {attention_formula(1, d)},   {heads} heads of {width}: "
                 f"{attention_formula(heads, width)}"),
        ),
        f"P = 4 (d² + d) with d = num_heads · head_size, 4 d² without biases: "
        f"{weights + biases} and {weights} here.",
        (Check("npdl's attention layer has as many",
               MultiHeadAttention(d, heads).count_params() == weights + biases
               and MultiHeadAttention(d, heads, False).count_params() == weights),),
        f"num_heads = {heads}, head_size = {width}.")


def decoder(d=4, m=2, num_layers=2):
    """2.10."""
    attention_part, ffn = 4 * (d * d + d), 2 * d * m * d
    norms = 2 * 2 * d
    total, bare = decoder_formula(d, m, num_layers), decoder_formula(d, m, num_layers, False)
    return Solution(
        "2.10",
        (
            Step("Attention, as in 2.6.", "4 (d² + d), without biases 4 d²",
                 f"4 · ({d * d} + {d}) = {attention_part},   {4 * d * d}"),
            Step("The MLP has two matrices and no bias: up to m d neurons, and down again.",
                 "(d, m d) and (m d, d):   2 m d²",
                 f"{d} · {m * d} + {m * d} · {d} = {ffn}"),
            Step("A block is both, a decoder is L blocks.", "P = L (4 d² + 4 d + 2 m d²), without "
                 "biases L (4 d² + 2 m d²)",
                 f"{num_layers} · ({attention_part} + {ffn}) = {total},   {num_layers} · "
                 f"({4 * d * d} + {ffn}) = {bare}"),
            Step("A block as it is drawn also has two LayerNorms, each with a weight and a bias "
                 "of d numbers. Say whether they count.", "+ L · 2 · 2 d",
                 f"{total} + {num_layers} · {norms} = {total + num_layers * norms},   {bare} + "
                 f"{num_layers} · {norms} = {bare + num_layers * norms}"),
        ),
        f"P = L (4 d² + 4 d + 2 m d²) = {total}, without biases L (4 d² + 2 m d²) = {bare}; with "
        f"the LayerNorms 4 d L = {num_layers * norms} more.",
        (Check("npdl's decoder, LayerNorms included, has as many",
               Decoder(num_layers, d, 2, m).count_params() == total + num_layers * norms
               and Decoder(num_layers, d, 2, m, False).count_params()
               == bare + num_layers * norms),),
        f"d = {d}, multiplier m = {m}, L = {num_layers}.")


def solutions():
    return [lstm(), attention(), decoder()]

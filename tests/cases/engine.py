"""Cases of the layers that work position by position, and of the loss."""

import functools

import numpy as np

from npdl.backend import stream
from npdl.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm
from npdl.losses import SequenceLoss
from npdl.prefix import PrefixTree, Select
from tests.cases import Case, normal, off_zero, strided
from tests.composites import TiedPair


def same_mask(layer, *inputs, **options):
    """forward with a dropout stream that starts anew at every call."""
    return layer.forward(*inputs, rng=stream(5, 1), **options)


def linear(what, d_in, d_out, shape_x, bias=True, view=lambda x: x):
    return Case(Linear, what, lambda rng: (
        Linear(d_in, d_out, bias, rng), (view(normal(rng, *shape_x, d_in)),), {}))


LINEAR = [
    linear("(B, D)", 4, 3, (5,)),
    linear("(B, S, D)", 3, 4, (2, 3)),
    linear("no leading axis", 3, 2, ()),
    linear("four axes, no bias", 2, 3, (2, 1, 3), bias=False),
    linear("sizes of 1", 1, 1, (1, 1)),
    linear("an empty batch", 3, 2, (0,)),
    linear("strided input", 4, 3, (2, 3), view=strided),
    linear("axes swapped", 4, 3, (2, 3), view=lambda x: x.swapaxes(0, 1)),
]


def ids(rng, high, *shape):
    return rng.integers(0, high, shape)


EMBEDDING = [
    Case(Embedding, "(B, S) with repeats",
         lambda rng: (Embedding(5, 3, rng=rng), (ids(rng, 5, 4, 3),), {})),
    Case(Embedding, "(N,) and one column",
         lambda rng: (Embedding(4, 1, rng=rng), (ids(rng, 4, 6),), {})),
    Case(Embedding, "one word, one token",
         lambda rng: (Embedding(1, 2, rng=rng), (np.zeros((1, 1), int),), {})),
    Case(Embedding, "a padding row that is not read",
         lambda rng: (Embedding(5, 3, 4, rng), (ids(rng, 4, 3, 2),), {})),
    Case(Embedding, "ids in a transposed view",
         lambda rng: (Embedding(5, 3, rng=rng), (ids(rng, 5, 4, 3).T,), {})),
    Case(Unembedding, "(B, S, D)",
         lambda rng: (Unembedding(Embedding(5, 3, rng=rng)), (normal(rng, 2, 3, 3),), {})),
    Case(Unembedding, "(N, D), strided",
         lambda rng: (Unembedding(Embedding(4, 3, rng=rng)), (strided(normal(rng, 5, 3)),), {})),
    Case(Unembedding, "tied to its embedding",
         lambda rng: (TiedPair(5, 3, rng), (ids(rng, 5, 3, 2),), {})),
]


def positions(build, shape, at=None):
    def case(rng):
        layer = build(rng)
        return layer, (normal(rng, *shape),), {} if at is None else {"positions": np.array(at)}

    return case


POSITIONS = [
    Case(cls, form + what, positions(build, shape, at))
    for cls, form, build in (
        (LearnedPositions, "", lambda rng: LearnedPositions(5, 4, rng)),
        (SinusoidalPositions, "k/d, ", lambda rng: SinusoidalPositions(5, 4)),
        (SinusoidalPositions, "2k/d, ", lambda rng: SinusoidalPositions(5, 4, "2k/d")),
    )
    for what, shape, at in (
        ("(B, S, D)", (2, 3, 4), None),
        ("every position", (1, 5, 4), None),
        ("given positions (N,), some twice", (5, 4), [0, 3, 3, 1, 4]),
        ("given positions (B, S)", (2, 2, 4), [[0, 1], [3, 3]]),
    )
]


def elementwise(cls, *args):
    form = f"{args[0]}, " if args else ""
    return [
        Case(cls, f"{form}(B, S, D)",
             lambda rng: (cls(*args), (off_zero(rng, 2, 3, 4),), {})),
        Case(cls, f"{form}one number",
             lambda rng: (cls(*args), (off_zero(rng, 1, 1),), {})),
        Case(cls, f"{form}strided",
             lambda rng: (cls(*args), (strided(off_zero(rng, 3, 4)),), {})),
        Case(cls, f"{form}axes swapped",
             lambda rng: (cls(*args), (off_zero(rng, 3, 4).T,), {})),
        Case(cls, f"{form}large and small values",
             lambda rng: (cls(*args), (10 * off_zero(rng, 7),), {})),
    ]


ACTIVATION = [case for cls, *args in (
    (Sigmoid,), (Tanh,), (ReLU,), (GELU, "exact"), (GELU, "tanh"),
) for case in elementwise(cls, *args)]


def softmax_case(what, shape, visible=None):
    def build(rng):
        options = {} if visible is None else {"visible": visible(rng)}
        return Softmax(), (normal(rng, *shape),), options

    return Case(Softmax, what, build)


SOFTMAX = [
    softmax_case("(B, V)", (3, 5)),
    softmax_case("more than 16 columns", (2, 19)),
    softmax_case("one column", (3, 1)),
    softmax_case("part visible", (2, 3, 4), lambda rng: rng.random((2, 3, 4)) < 0.7),
    softmax_case("a row with nothing visible", (3, 4),
                 lambda rng: np.array([[True] * 4, [False] * 4, [False, True, True, False]])),
    softmax_case("visible broadcast over rows", (2, 3, 4),
                 lambda rng: np.array([True, False, True, True])),
    Case(Softmax, "strided", lambda rng: (Softmax(), (strided(normal(rng, 3, 4)),), {})),
]

NORM = [
    Case(LayerNorm, "(B, S, D)", lambda rng: (LayerNorm(5), (normal(rng, 2, 3, 5),), {})),
    Case(LayerNorm, "one row", lambda rng: (LayerNorm(4), (normal(rng, 4),), {})),
    Case(LayerNorm, "width 1", lambda rng: (LayerNorm(1), (normal(rng, 3, 1),), {})),
    Case(LayerNorm, "far from zero", lambda rng: (LayerNorm(6), (20 + normal(rng, 3, 6),), {})),
    Case(LayerNorm, "a large eps", lambda rng: (LayerNorm(4, eps=0.5), (normal(rng, 3, 4),), {})),
    Case(LayerNorm, "no bias", lambda rng: (LayerNorm(5, bias=False), (normal(rng, 2, 5),), {})),
    Case(LayerNorm, "strided", lambda rng: (LayerNorm(4), (strided(normal(rng, 2, 3, 4)),), {})),
]

DROPOUT = [
    Case(Dropout, "active", lambda rng: (Dropout(0.4), (normal(rng, 4, 5),), {}), same_mask),
    Case(Dropout, "rate 0", lambda rng: (Dropout(0.0), (normal(rng, 2, 3),), {}), same_mask),
    Case(Dropout, "no generator", lambda rng: (Dropout(0.4), (normal(rng, 2, 3),), {})),
    Case(Dropout, "strided", lambda rng: (Dropout(0.5), (strided(normal(rng, 3, 4)),), {}),
         same_mask),
]


def select(what, shape, at=None, tree=None):
    def build(rng):
        options = {"at": None if at is None else np.array(at)}
        if tree is not None:
            options["tree"] = PrefixTree(np.array(tree))
        return Select(), (normal(rng, *shape),), options

    return Case(Select, what, build)


TREE = [[0, 1, 2], [0, 1, 3], [4, 1, 2]]        # 2 + 2 + 3 = 7 nodes for 9 entries
SELECT = [
    select("everything", (2, 3, 4)),
    select("(R,)", (2, 3, 4), [2, 0]),
    select("(R,), one position twice", (2, 3, 4), [1, 1]),
    select("(B, R)", (2, 3, 4), [[0, 2], [1, 1]]),
    select("sizes of 1", (1, 1, 1), [0]),
    select("a tree, (R,)", (7, 2), [0, 2], TREE),
    select("a tree, (B, R)", (7, 2), [[0, 1], [2, 2], [1, 0]], TREE),
    select("a tree of two sequences", (5, 2), [0, 3], [[0, 1, 2, 3], [0, 1, 2, 4]]),
]


def loss(what, reduction, average, shape, counted=None):
    def build(rng):
        B, S, V = shape
        chosen = rng.random((B, S)) < 0.6 if counted is None else np.array(counted)
        logits = 3 * normal(rng, *shape)
        return SequenceLoss(reduction, average), (logits, ids(rng, V, B, S), chosen), {}

    return Case(SequenceLoss, f"{reduction}, by {average}, {what}", build)


RAGGED = [[True, True, False], [False, False, False], [True, False, False]]
LOSS = [
    make(reduction, average)
    for reduction in ("none", "mean", "sum")
    for average in ("sample", "token")
    for make in (
        functools.partial(loss, "(3, 4, 5)", shape=(3, 4, 5)),
        functools.partial(loss, "a sample without counted tokens", shape=(3, 3, 2),
                          counted=RAGGED),
        functools.partial(loss, "sizes of 1", shape=(1, 1, 1), counted=[[True]]),
    )
] + [loss("more than 16 tokens", "mean", "sample", (2, 2, 18))]

CASES = (LINEAR + EMBEDDING + POSITIONS + ACTIVATION + SOFTMAX + NORM + DROPOUT + SELECT + LOSS)

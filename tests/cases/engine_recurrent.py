"""Cases of the recurrent layers and of the LSTM language model."""

import numpy as np

from npdl.layers.recurrent import LSTM, LSTMCell, LSTMLayer
from npdl.models.lstm_lm import LSTMLM
from npdl.prefix import PrefixTree
from tests.cases import Case, normal, strided
from tests.cases.engine import same_mask
from tests.composites import WithLoss

SHARED = [[0, 1, 2], [0, 1, 3], [3, 1, 2], [0, 1, 2]]       # one sequence twice
APART = [[0, 1], [1, 1], [2, 0]]                            # nothing shared


def state(rng, *shape):
    return normal(rng, *shape), normal(rng, *shape)


def cell(what, B, D, H, bias=True, view=lambda x: x):
    def build(rng):
        start = tuple(view(part) for part in state(rng, B, H))
        return LSTMCell(D, H, bias, rng), (view(normal(rng, B, D)), start), {}

    return Case(LSTMCell, what, build)


CELL = [
    cell("B, D, H = 3, 2, 4", 3, 2, 4),
    cell("no bias", 2, 3, 2, bias=False),
    cell("sizes of 1", 1, 1, 1),
    cell("strided", 3, 2, 3, view=strided),
    cell("Fortran order", 3, 2, 3, view=np.asfortranarray),
]


def layer(what, B, S, D, H, bias=True, given=False, view=lambda x: x):
    def build(rng):
        x = view(normal(rng, B, S, D))
        start = (tuple(view(part) for part in state(rng, B, H)),) if given else ()
        return LSTMLayer(D, H, bias, rng), (x, *start), {}

    return Case(LSTMLayer, what, build)


def layer_on_tree(what, ids):
    def build(rng):
        tree = PrefixTree(np.array(ids))
        return LSTMLayer(2, 3, rng=rng), (normal(rng, tree.size, 2),), {"tree": tree}

    return Case(LSTMLayer, what, build)


LAYER = [
    layer("zero state", 2, 3, 2, 3),
    layer("given state", 2, 3, 2, 3, given=True),
    layer("no bias, given state", 3, 2, 2, 2, bias=False, given=True),
    layer("one step", 3, 1, 2, 2),
    layer("sizes of 1", 1, 1, 1, 1, given=True),
    layer("strided", 2, 3, 2, 2, given=True, view=strided),
    layer("time-major in memory", 2, 3, 2, 2, view=lambda x: np.asfortranarray(x)),
    layer_on_tree("a tree", SHARED),
    layer_on_tree("a tree with nothing shared", APART),
    layer_on_tree("a tree of one sequence", [[2, 2, 2]]),
    layer_on_tree("a tree of one position", [[2], [0], [2]]),
]


def lstm(what, sizes, bias=True, dropout=0.0, given=False, tree=None, view=lambda x: x):
    """sizes = (B, S, D, H, L)."""
    B, S, D, H, L = sizes

    def build(rng):
        options = {} if tree is None else {"tree": PrefixTree(np.array(tree))}
        shape = (B, S, D) if tree is None else (options["tree"].size, D)
        inputs = (view(normal(rng, *shape)), *((state(rng, L, B, H),) if given else ()))
        return LSTM(D, H, L, bias, dropout, rng), inputs, options

    return Case(LSTM, what, build, same_mask if dropout else None)


STACK = [
    lstm("one layer, zero state", (2, 3, 2, 3, 1)),
    lstm("one layer, given state", (2, 3, 3, 2, 1), given=True),
    lstm("two layers, zero state", (2, 3, 3, 2, 2)),
    lstm("two layers, given state", (2, 2, 2, 3, 2), given=True),
    lstm("three layers, no bias", (2, 2, 2, 2, 3), bias=False),
    lstm("dropout between two layers", (2, 3, 2, 3, 2), dropout=0.4, given=True),
    lstm("dropout, one layer (never active)", (2, 2, 2, 2, 1), dropout=0.4),
    lstm("sizes of 1", (1, 1, 1, 1, 1), given=True),
    lstm("one step, two layers", (3, 1, 2, 2, 2), given=True),
    lstm("strided", (2, 2, 3, 2, 2), view=strided),
    lstm("two layers, a tree", (4, 3, 2, 2, 2), tree=SHARED),
    lstm("dropout, a tree", (4, 3, 2, 2, 2), dropout=0.3, tree=SHARED),
]


def model(what, ids, given=False, at=None, tree=False, dropout=0.0, lengths=None, **sizes):
    sizes = {"vocab_size": 4, "d_model": 2, "num_layers": 2, "d_hidden": 3, **sizes}
    ids = np.array(ids)

    def build(rng):
        options = {} if at is None else {"at": np.array(at)}
        if lengths is not None:
            options["lengths"] = np.array(lengths)
        start = (state(rng, sizes["num_layers"], len(ids), sizes["d_hidden"]),) if given else ()
        built = LSTMLM(**sizes, dropout=dropout, rng=rng)
        return built, (PrefixTree(ids) if tree else ids, *start), options

    return Case(LSTMLM, what, build, same_mask if dropout else None)


def with_loss(what, ids, reduction="mean", average="sample", tree=False, at=None, lengths=None,
              **sizes):
    sizes = {"vocab_size": 4, "d_model": 2, "num_layers": 2, "d_hidden": 3, **sizes}
    ids = np.array(ids)

    def build(rng):
        shape = ids.shape if at is None else (len(ids), np.shape(at)[-1])
        counted = rng.random(shape) < 0.7
        inputs = (PrefixTree(ids) if tree else ids, rng.integers(0, 4, shape), counted)
        options = {} if at is None else {"at": np.array(at)}
        if lengths is not None:
            options["lengths"] = np.array(lengths)
            inputs = (*inputs[:2], np.arange(ids.shape[1]) < options["lengths"][:, None])
        return WithLoss(LSTMLM(**sizes, rng=rng), reduction, average), inputs, options

    return Case(LSTMLM, f"with its loss, {what}", build)


MODEL = [
    model("zero state", SHARED),
    model("given state", APART, given=True),
    model("no bias", APART, given=True, bias=False),
    model("hidden size as the embedding's", APART, d_hidden=2),
    model("one layer", SHARED, num_layers=1),
    model("dropout", APART, dropout=0.4),
    model("a padding token that is not read", APART, padding_id=3),
    model("sizes of 1", [[0]], vocab_size=1, d_model=1, num_layers=1, d_hidden=1, given=True),
    model("at (R,)", SHARED, at=[2, 0]),
    model("at (B, R)", APART, at=[[0], [1], [1]], given=True),
    model("a tree", SHARED, tree=True),
    model("a tree, at (R,)", SHARED, tree=True, at=[1, 2]),
    model("a tree, at (B, R)", SHARED, tree=True, at=[[0, 2], [1, 1], [2, 0], [0, 0]]),
    model("lengths, given state", SHARED, given=True, lengths=[2, 3, 0, 1]),
    model("lengths below S, zero state, no bias", APART, bias=False, lengths=[1, 1, 0]),
    model("lengths, dropout", APART, dropout=0.4, lengths=[2, 1, 2]),
    model("lengths, at (R,)", SHARED, at=[2, 0], given=True, lengths=[3, 1, 2, 0]),
    model("lengths, at (B, R)", SHARED, at=[[1], [2], [0], [2]], lengths=[2, 3, 1, 1]),
    with_loss("mean", SHARED),
    with_loss("lengths, mean", SHARED, lengths=[3, 1, 2, 2]),
    with_loss("sum by token", SHARED, "sum", "token"),
    with_loss("none", APART, "none"),
    with_loss("a tree, at (R,)", SHARED, tree=True, at=[1, 2]),
    with_loss("no bias, three layers", APART, bias=False, num_layers=3, d_hidden=2),
]

CASES = CELL + LAYER + STACK + MODEL

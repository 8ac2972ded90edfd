"""Cases of attention, the transformer's parts and the GPT."""

import numpy as np

from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.transformer import Block, Decoder, FeedForward
from npdl.models.gpt import GPT
from npdl.prefix import PrefixTree
from tests.cases import Case, normal, strided
from tests.cases.engine import same_mask
from tests.cases.engine_recurrent import APART, SHARED
from tests.composites import WithLoss

# Keys that may be seen, (B, S); the second sequence begins with padding, so that together with
# the causal mask its first query sees nothing at all.
SEEN = np.array([[True, True, True], [False, True, True]])


def padded(seen):
    """The causal mask and the keys that may be seen: (B, 1, S, S)."""
    return causal_mask(seen.shape[1]) & seen[:, None, None, :]


def attention(what, D, H, shapes, mask=None, tree=None, bias=True, view=lambda x: x):
    def build(rng):
        options = {"mask": mask}
        if tree is not None:
            options["tree"] = PrefixTree(np.array(tree))
        inputs = tuple(view(normal(rng, *shape, D)) for shape in shapes)
        return MultiHeadAttention(D, H, bias, rng), inputs, options

    return Case(MultiHeadAttention, what, build)


ATTENTION = [
    attention("everything visible", 4, 2, [(2, 3)] * 3),
    attention("causal", 4, 2, [(2, 3)] * 3, causal_mask(3)),
    attention("no bias", 4, 2, [(2, 2)] * 3, causal_mask(2), bias=False),
    attention("other queries than keys", 4, 2, [(2, 2), (2, 3), (2, 3)]),
    attention("padding, one query sees nothing", 4, 2, [(2, 3)] * 3, padded(SEEN)),
    attention("nothing visible at all", 2, 1, [(1, 2)] * 3, np.zeros((2, 2), bool)),
    attention("one head", 3, 1, [(2, 3)] * 3, causal_mask(3)),
    attention("heads of width 1", 3, 3, [(2, 2)] * 3, causal_mask(2)),
    attention("sizes of 1", 1, 1, [(1, 1)] * 3),
    attention("strided", 4, 2, [(2, 2)] * 3, causal_mask(2), view=strided),
    attention("axes swapped", 4, 2, [(3, 2)] * 3, causal_mask(3),
              view=lambda x: x.swapaxes(0, 1)),
    attention("a tree", 2, 2, [(10,)] * 3, causal_mask(3), SHARED[:3] + [[1, 1, 1]]),
    attention("a tree, queries (B, R, D)", 2, 1, [(3, 1), (6,), (6,)], None, APART),
]


def feed_forward(what, *args, shape=(2, 3, 2), **options):
    return Case(FeedForward, what, lambda rng: (
        FeedForward(shape[-1], *args, rng=rng, **options), (normal(rng, *shape),), {}))


FEED_FORWARD = [
    feed_forward("GELU"),
    feed_forward("with biases", bias=True),
    feed_forward("multiplier 1, rows", 1, shape=(4, 3)),
    feed_forward("sizes of 1", 1, shape=(1, 1)),
    *(feed_forward(name, 2, name) for name in ("gelu-tanh", "relu", "tanh", "sigmoid")),
]


def stack(cls, what, mask=None, at=None, tree=None, shape=(2, 3), D=4, entries=None, **options):
    """A Block, or a Decoder of two, on x (B, S, D) or a tree's (N, D)."""
    options = {"num_heads": 2, "multiplier": 2, **options}
    if cls is Decoder:
        options = {"num_layers": 2, **options}

    def build(rng):
        call = {"mask": mask, "at": None if at is None else np.array(at)}
        lead = shape
        if tree is not None:
            call["tree"] = PrefixTree(np.array(tree))
            lead = (call["tree"].size,)
        return cls(d_model=D, rng=rng, **options), (normal(rng, *lead, D),), call

    return Case(cls, what, build, same_mask if options.get("dropout") else None, entries)


OPTIONS = {
    "causal": {"mask": causal_mask(3)},
    "no mask, no bias": {"bias": False},
    "padding": {"mask": padded(SEEN)},
    "at (R,)": {"mask": causal_mask(3), "at": [2, 0]},
    "at (B, R), padding": {"mask": padded(SEEN), "at": [[0, 1], [2, 2]]},
    "at (B, R)": {"mask": causal_mask(3), "at": [[0], [2]]},
    "dropout": {"mask": causal_mask(3), "dropout": 0.3},
    "dropout, at": {"mask": causal_mask(3), "dropout": 0.3, "at": [1]},
    "a tree": {"mask": causal_mask(3), "tree": SHARED},
    "a tree, at (R,)": {"mask": causal_mask(3), "tree": SHARED, "at": [1, 2]},
    "a tree, at (B, R)": {"mask": causal_mask(2), "tree": APART, "at": [[0], [1], [1]]},
    "no bias in maps and norms": {"bias": False, "norm_bias": False, "mask": causal_mask(3),
                                  "D": 6},
    "tanh GELU": {"activation": "gelu-tanh", "shape": (1, 2)},
    "sizes of 1": {"num_heads": 1, "multiplier": 1, "shape": (1, 1), "D": 1},
}
STACKS = [
    stack(cls, f"{norm}-norm, {what}", norm=norm, entries=None if cls is Block else 3, **options)
    for cls in (Block, Decoder)
    for norm in ("post", "pre")
    for what, options in OPTIONS.items()
] + [
    stack(Block, f"{norm}-norm, biases in the feed-forward net", norm=norm, ffn_bias=True)
    for norm in ("post", "pre")
] + [stack(Decoder, "one block", num_layers=1), stack(Decoder, "three blocks", num_layers=3, D=2,
                                                       entries=6)]


def gpt(what, ids, tree=False, at=None, seen=None, loss=None, entries=4, **sizes):
    """A GPT alone, or followed by its loss with a (reduction, average)."""
    sizes = {"vocab_size": 4, "d_model": 4, "num_heads": 2, "multiplier": 2, "max_len": 4, **sizes}
    ids = np.array(ids)

    def build(rng):
        options = {} if at is None else {"at": np.array(at)}
        if seen is not None:
            options["key_mask"] = np.array(seen)
        model, inputs = GPT(**sizes, rng=rng), (PrefixTree(ids) if tree else ids,)
        if loss is None:
            return model, inputs, options
        shape = ids.shape if at is None else (len(ids), np.shape(at)[-1])
        inputs += (rng.integers(0, sizes["vocab_size"], shape), rng.random(shape) < 0.7)
        return WithLoss(model, *loss), inputs, options

    name = what if loss is None else f"with its loss, {what}"
    return Case(GPT, name, build, same_mask if sizes.get("dropout") else None, entries)


MODEL = [
    gpt("document 004's form", APART),
    gpt("pre-norm", APART, norm="pre"),
    gpt("positions 2k/d, no bias", APART, positions="2k/d", bias=False),
    gpt("learned positions, tied", APART, positions="learned", tied=True),
    gpt("pre-norm, learned, tied, no bias in maps and norms", APART, norm="pre", bias=False,
        positions="learned", tied=True, norm_bias=False),
    gpt("pre-norm, learned, tied, padding token", APART, norm="pre", positions="learned",
        tied=True, padding_id=3),
    gpt("ReLU", SHARED, activation="relu"),
    gpt("dropout", APART, dropout=0.3),
    gpt("pre-norm, dropout", APART, dropout=0.3, norm="pre"),
    gpt("padding, one query sees nothing", SHARED[:2], seen=SEEN),
    gpt("at (R,)", SHARED, at=[2, 1]),
    gpt("at (B, R), padding", SHARED[:2], at=[[0, 2], [1, 1]], seen=SEEN),
    gpt("a tree", SHARED, tree=True),
    gpt("a tree, at (R,)", SHARED, tree=True, at=[1, 2], positions="learned"),
    gpt("a tree, at (B, R), pre-norm", SHARED, tree=True, at=[[0], [1], [2], [2]], norm="pre"),
    gpt("three blocks, one head", APART, num_layers=3, num_heads=1, d_model=3),
    gpt("sizes of 1", [[0]], vocab_size=1, d_model=1, num_layers=1, num_heads=1, multiplier=1),
    gpt("every entry", SHARED, loss=("mean", "sample"), entries=None),
    gpt("by token, pre-norm, tied", APART, loss=("sum", "token"), norm="pre", tied=True,
        positions="learned"),
    gpt("none", APART, loss=("none", "sample")),
    gpt("a tree, at (R,), every entry", SHARED, tree=True, at=[1, 2], loss=("mean", "sample"),
        entries=None),
]

CASES = ATTENTION + FEED_FORWARD + STACKS + MODEL

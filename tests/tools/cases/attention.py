"""Cases of attention, the transformers' parts, the GPT and Seq2Seq."""

import numpy as np

from npdl.layers.activation import ACTIVATIONS
from npdl.layers.attention import (
    AdditiveAttention,
    DotAttention,
    MultiHeadAttention,
    ScaledDotAttention,
    causal_mask,
)
from npdl.layers.encoder import CrossDecoder, DecoderBlock, PreNormDecoderBlock
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.transformer import (
    Block,
    Decoder,
    Encoder,
    FeedForward,
    PreNormBlock,
    padding_mask,
)
from npdl.models.gpt import GPT
from npdl.models.seq2seq import Seq2Seq
from npdl.study.check.examples import ids
from tests.tools.cases import case, same_mask
from tests.tools.composites import WithLoss

CAUSAL = causal_mask(3)
# Keys that may be seen, (B, S); the second sequence begins with padding, so that together with
# the causal mask its first query sees nothing at all.
SEEN = np.array([[True, True, True], [False, True, True]])
BLIND = np.array([[True, True, False], [False, False, False]])      # the second sees nothing
HIDDEN = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], bool)
PADDED = CAUSAL & padding_mask(SEEN)                                # (B, 1, S, S)

CASES = []
for kind, args, d_key in ((DotAttention, (), 2), (ScaledDotAttention, (), 2),
                          (AdditiveAttention, (2, 3, 4), 3)):
    CASES.append(case(kind, "(B, H, R, d), a query that sees nothing", args, (2, 2, 4, 2),
                      (2, 2, 3, d_key), (2, 2, 3, 5), mask=HIDDEN))

CASES += [
    case(MultiHeadAttention, "causal, no bias", (4, 2, {"bias": False}), *[(2, 3, 4)] * 3,
         mask=CAUSAL),
    case(MultiHeadAttention, "cross, padding, a sequence that sees nothing", (4, 2), (2, 4, 4),
         (2, 3, 4), (2, 3, 4), mask=padding_mask(BLIND)),
    case(MultiHeadAttention, "padding, one query sees nothing", (4, 2), *[(2, 3, 4)] * 3,
         mask=PADDED),
    case(MultiHeadAttention, "one head", (3, 1), *[(2, 3, 3)] * 3, mask=CAUSAL),
    case(MultiHeadAttention, "heads of width 1", (3, 3), *[(2, 3, 3)] * 3, mask=CAUSAL),
    *(case(FeedForward, f"biases, {name}", (2, 2, {"activation": name, "bias": True}), (2, 3, 2))
      for name in ACTIVATIONS),
]


def stack(kind, block, count, D, multiplier, **options):
    """From rng, a stack of blocks of two heads, with a last norm where they are pre-norm."""
    return lambda rng: kind(
        [block(D, 2, multiplier, rng=rng, **options) for _ in range(count)],
        LayerNorm(D, bias=options.get("norm_bias", True)) if block.__name__[:3] == "Pre" else None)


for block, norm in ((Block, "post"), (PreNormBlock, "pre")):
    CASES += [
        case(Decoder, f"{norm}-norm, causal", stack(Decoder, block, 2, 4, 2), (2, 3, 4),
             mask=CAUSAL, entries=6),
        case(Decoder, f"{norm}-norm, three blocks, dropout, tanh GELU",
             stack(Decoder, block, 3, 4, 1, dropout=0.3, activation="gelu-tanh"), (2, 3, 4),
             mask=PADDED, forward=same_mask, entries=3),
        case(Decoder, f"{norm}-norm, one block, no bias in maps and norms",
             stack(Decoder, block, 1, 6, 2, bias=False, norm_bias=False), (1, 3, 6), entries=6),
    ]
CASES += [
    case(Encoder, "post, biased, tanh, padding",
         stack(Encoder, Block, 2, 6, 1, ffn_bias=True, activation="tanh"), (2, 3, 6),
         key_mask=BLIND, entries=6),
]

MASKS = {"mask": CAUSAL, "memory_mask": padding_mask(BLIND)}
CASES += [
    case(CrossDecoder, "post, masks", stack(CrossDecoder, DecoderBlock, 2, 6, 1), (2, 3, 6),
         (2, 3, 6), **MASKS, entries=6),
    case(CrossDecoder, "pre, lengths differ", stack(CrossDecoder, PreNormDecoderBlock, 2, 6, 1),
         (1, 2, 6), (1, 4, 6), entries=6),
]

TOKENS = np.array([[0, 1, 2], [3, 1, 1]])


def gpt(what, entries=4, loss=None, seen=None, tokens=TOKENS, **sizes):
    """A GPT alone, or followed by its loss with a (reduction, average)."""
    sizes = {"vocab_size": 4, "d_model": 4, "num_heads": 2, "multiplier": 2, "max_len": 4, **sizes}
    mask = same_mask if sizes.get("dropout") else None
    options = {} if seen is None else {"key_mask": seen}
    if loss is None:
        return case(GPT, what, (sizes,), tokens, forward=mask, entries=entries, **options)
    return case(GPT, f"with its loss, {what}", lambda rng: WithLoss(GPT(**sizes, rng=rng), *loss),
                tokens, ids(4, 2, 3), lambda rng: rng.random((2, 3)) < 0.7, entries=entries)


TIED = {"norm": "pre", "positions": "learned", "tied": True}
CASES += [
    gpt("document 004's form"),
    gpt("learned positions, tied, one block", num_layers=1, entries=None, **{**TIED,
                                                                            "norm": "post"}),
    gpt("pre-norm, learned, tied, no bias in maps and norms", bias=False, norm_bias=False, **TIED),
    gpt("pre-norm, learned, tied, padding token", padding_id=4, vocab_size=5, **TIED),
    gpt("padding, one query sees nothing", seen=SEEN),
    gpt("three blocks, one head", num_layers=3, num_heads=1, d_model=3),
    gpt("every entry", loss=("mean", "sample"), entries=None),
    gpt("by token, pre-norm, tied", loss=("sum", "token"), **TIED),
]

SMALL = {"d_model": 6, "num_layers": 1, "num_heads": 2, "multiplier": 1, "max_len": 6}
TARGET_SEEN = np.array([[True, True, True, False], [False, True, True, True]])
CASES += [
    case(Seq2Seq, "pre, learned positions, padding",
         (5, 4, {**SMALL, "norm": "pre", "positions": "learned"}), ids(5, 2, 3), ids(4, 2, 4),
         source_mask=BLIND, target_mask=TARGET_SEEN, entries=3),
]

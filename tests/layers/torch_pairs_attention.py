"""Pairs of attention, transformers and the models made of them (tests.layers.torch_compare)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from npdl.layers.attention import (
    DotAttention,
    MultiHeadAttention,
    ScaledDotAttention,
    causal_mask,
)
from npdl.layers.encoder import (
    CROSS_BLOCKS,
    CrossDecoder,
    DecoderBlock,
    PreNormDecoderBlock,
)
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.transformer import (
    BLOCKS,
    Block,
    Decoder,
    Encoder,
    PreNormBlock,
    padding_mask,
)
from npdl.models.gpt import GPT
from npdl.models.seq2seq import Seq2Seq
from tests.layers.torch_compare import Pair, sizes
from tests.tools.torch_reference import sinusoidal_positions

HEADS, MULTIPLIER, LAYERS, VOCABULARY, MAX_LEN = 2, 2, 2, 7, 8
SHAPE = {"num_heads": HEADS, "multiplier": MULTIPLIER}
ENCODER, DECODER = "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer"


def dot(cls, scale):
    def build(rng):
        B, R, S, d, e = sizes(rng, 5)
        mask = rng.random((R, S)) < 0.6
        mask[:, 0] = True
        shapes = (B, R, d), (B, S, d), (B, S, e)
        return cls(), tuple(rng.standard_normal(shape) for shape in shapes), {"mask": mask}

    def theirs(P, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, torch.tensor(mask), scale=scale)

    return Pair(cls, "some hidden", "F.scaled_dot_product_attention", build, theirs)


def seen(rng, B, S):
    """(B, S) True for real tokens, of which each sequence has one at least."""
    return np.arange(S) < rng.integers(1, S + 1, B)[:, None]


def hidden(mask):
    """npdl's mask, True where a query may look, as torch's, True where it may not."""
    return None if mask is None else torch.tensor(~mask)


def call(module, weights, *inputs, **options):
    """A module with these weights, of which it may not have all."""
    names = dict(module.named_parameters())
    weights = {name: w for name, w in weights.items() if name in names}
    return functional_call(module, weights, inputs, options)


def multi_head(bias):
    def build(rng):
        B, R, S, d = sizes(rng, 4)
        Q, K, V = (rng.standard_normal((B, n, HEADS * d)) for n in (R, S, S))
        mask = padding_mask(seen(rng, B, S))
        return MultiHeadAttention(HEADS * d, HEADS, bias=bias, rng=rng), (Q, K, V), {"mask": mask}

    def theirs(P, Q, K, V, mask):
        module = nn.MultiheadAttention(Q.shape[-1], HEADS, bias=bias, batch_first=True)
        return call(module.double(), attention_weights(P, ""), Q, K, V,
                    key_padding_mask=hidden(mask[:, 0, 0]), need_weights=False)[0]

    return Pair(MultiHeadAttention, "bias" if bias else "no bias", "nn.MultiheadAttention", build,
                theirs)


def attention_weights(P, name):
    """The parameters of an nn.MultiheadAttention."""
    found = {"in_proj_weight": torch.cat([P[f"{name}W_{c}.W"].T for c in "QKV"]),
             "out_proj.weight": P[f"{name}W_O.W"].T}
    if f"{name}W_O.b" in P:
        found["in_proj_bias"] = torch.cat([P[f"{name}W_{c}.b"] for c in "QKV"])
        found["out_proj.bias"] = P[f"{name}W_O.b"]
    return found


def block_weights(P, name):
    """The parameters of a torch layer for the Block or DecoderBlock of this name."""
    found = {}
    for theirs, ours in (("self_attn", "attention."), ("multihead_attn", "cross.")):
        if f"{name}{ours}W_Q.W" in P:
            parts = attention_weights(P, name + ours)
            found |= {f"{theirs}.{n}": w for n, w in parts.items()}
    for theirs, ours in (("linear1", "ffn.up"), ("linear2", "ffn.down")):
        W = P[f"{name}{ours}.W"]
        found[f"{theirs}.weight"] = W.T
        found[f"{theirs}.bias"] = P.get(f"{name}{ours}.b", torch.zeros_like(W[0]))
    for norm in ("norm1", "norm2", "norm3"):
        if f"{name}{norm}.gain" in P:
            found[f"{norm}.weight"] = P[f"{name}{norm}.gain"]
            found[f"{norm}.bias"] = P.get(f"{name}{norm}.bias")
    return found


def layers(kind, P, x, *memory, name="", count=LAYERS, norm="post", activation="gelu", bias=True,
           **masks):
    """`count` torch layers in a row, and the last norm."""
    for i in range(count) if count else (None,):
        D = x.shape[-1]
        module = kind(D, HEADS, MULTIPLIER * D, 0.0, activation, batch_first=True, bias=bias,
                      norm_first=norm == "pre").double()
        weights = block_weights(P, name if i is None else f"{name}blocks.{i}.")
        x = call(module, weights, x, *memory, **masks)
    if f"{name}norm.gain" in P:
        x = F.layer_norm(x, x.shape[-1:], P[f"{name}norm.gain"], P.get(f"{name}norm.bias"))
    return x


def made(cls, block, D, norm, **options):
    """A block, or a stack of them."""
    if cls is block:
        return block(D, **SHAPE, **options)
    return cls([block(D, **SHAPE, **options) for _ in range(LAYERS)],
               LayerNorm(D) if norm == "pre" else None)


def encoder_like(cls, norm, activation="gelu"):
    """A block (causal), an Encoder (padding) or a Decoder (causal)."""
    alone = cls in (Block, PreNormBlock)

    def build(rng):
        B, S, d = sizes(rng, 3)
        D, bias = HEADS * d, cls is not Decoder
        layer = made(cls, BLOCKS[norm], D, norm, activation=activation, ffn_bias=bias, rng=rng)
        call = {"key_mask": seen(rng, B, S)} if cls is Encoder else {"mask": causal_mask(S)}
        return layer, (rng.standard_normal((B, S, D)),), call

    def theirs(P, x, mask=None, key_mask=None):
        return layers(nn.TransformerEncoderLayer, P, x, norm=norm, activation=activation,
                      count=0 if alone else LAYERS, src_mask=hidden(mask),
                      src_key_padding_mask=hidden(key_mask))

    return Pair(cls, f"{norm}-norm, {activation}", ENCODER, build, theirs)


def decoder_like(cls, norm, activation="gelu"):
    """A decoder's block or a CrossDecoder: causal, and padding in the memory."""
    alone = cls in (DecoderBlock, PreNormDecoderBlock)

    def build(rng):
        B, T, S, d = sizes(rng, 4)
        D = HEADS * d
        layer = made(cls, CROSS_BLOCKS[norm], D, norm, activation=activation, ffn_bias=True,
                     rng=rng)
        return (layer, (rng.standard_normal((B, T, D)), rng.standard_normal((B, S, D))),
                {"mask": causal_mask(T), "memory_mask": padding_mask(seen(rng, B, S))})

    def theirs(P, x, memory, mask, memory_mask):
        return layers(nn.TransformerDecoderLayer, P, x, memory, norm=norm, activation=activation,
                      count=0 if alone else LAYERS, tgt_mask=hidden(mask),
                      memory_key_padding_mask=hidden(memory_mask[:, 0, 0]))

    return Pair(cls, f"{norm}-norm, {activation}", DECODER, build, theirs)


def gpt(what, **options):
    def build(rng):
        B, S, d = sizes(rng, 3)
        model = GPT(VOCABULARY, HEADS * d * 2, LAYERS, **SHAPE, max_len=MAX_LEN, rng=rng,
                    dtype="float64", **options)         # the fixed positions too
        return model, (rng.integers(0, VOCABULARY, (B, S)),), {}

    def theirs(P, ids):
        S, W = ids.shape[1], P["embedding.W"]
        places = P.get("positions.W")
        if places is None:
            places = sinusoidal_positions(MAX_LEN, W.shape[1])
        norms = {"norm": options.get("norm", "post"), "bias": options.get("norm_bias", True)}
        x = layers(nn.TransformerEncoderLayer, P, F.embedding(ids, W) + places[:S],
                   name="decoder.", src_mask=hidden(causal_mask(S)), **norms)
        W = P["classifier.W"].T if "classifier.W" in P else W
        return F.linear(x, W, P.get("classifier.b"))

    return Pair(GPT, what, ENCODER, build, theirs)


def seq2seq(norm):
    def build(rng):
        B, S, T, d = sizes(rng, 4)
        model = Seq2Seq(VOCABULARY, VOCABULARY, HEADS * d, LAYERS, **SHAPE, max_len=MAX_LEN,
                        norm=norm, positions="learned", rng=rng)
        ids = (rng.integers(0, VOCABULARY, (B, length)) for length in (S, T))
        return model, tuple(ids), {"source_mask": seen(rng, B, S)}

    def theirs(P, source, target, source_mask):
        x, y = (F.embedding(ids, P[f"{side}_embedding.W"])
                + P[f"{side}_positions.W"][: ids.shape[1]]
                for side, ids in (("source", source), ("target", target)))
        out = hidden(source_mask)
        memory = layers(nn.TransformerEncoderLayer, P, x, name="encoder.", norm=norm,
                        src_key_padding_mask=out)
        y = layers(nn.TransformerDecoderLayer, P, y, memory, name="decoder.", norm=norm,
                   tgt_mask=hidden(causal_mask(target.shape[1])), memory_key_padding_mask=out)
        return F.linear(y, P["classifier.W"].T, P["classifier.b"])

    return Pair(Seq2Seq, f"{norm}-norm", f"{ENCODER} and {DECODER}", build, theirs)


PAIRS = [
    dot(DotAttention, 1.0), dot(ScaledDotAttention, None), multi_head(True), multi_head(False),
    *(encoder_like(cls, norm) for cls in (Encoder, Decoder) for norm in ("post", "pre")),
    *(encoder_like(cls, norm, act) for cls, norm in ((Block, "post"), (PreNormBlock, "pre"))
      for act in ("gelu", "relu")),
    *(decoder_like(CrossDecoder, norm) for norm in ("post", "pre")),
    *(decoder_like(cls, norm, act) for cls, norm in ((DecoderBlock, "post"),
                                                     (PreNormDecoderBlock, "pre"))
      for act in ("gelu", "relu")),
    gpt("post-norm, fixed positions"),
    gpt("pre-norm, learned, tied", norm="pre", positions="learned", tied=True),
    gpt("pre-norm, learned, tied, no biases", norm="pre", positions="learned", tied=True,
        bias=False, norm_bias=False),
    seq2seq("post"), seq2seq("pre"),
]

"""Pairs of attention, transformers and the models made of them (tests.layers.torch_compare)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from npdl.layers.attention import DotAttention, MultiHeadAttention, ScaledDotAttention, causal_mask
from npdl.layers.embedding import Unembedding
from npdl.layers.encoder import CrossDecoder, DecoderBlock, PreNormDecoderBlock
from npdl.layers.transformer import Block, Decoder, Encoder, PreNormBlock
from npdl.models.gpt import GPT, GPT2
from npdl.models.seq2seq import Seq2Seq
from tests.layers.torch_compare import pairs_of
from tests.layers.torch_pairs import linear

ENCODER, DECODER = "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer"
ACTIVATIONS = {"GELU": F.gelu, "ReLU": F.relu,
               "TanhGELU": lambda u: F.gelu(u, approximate="tanh")}
PARTS = {"self_attn": "attention.", "multihead_attn": "cross."}


def dot(scale):
    def theirs(layer, P, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, visible(mask), scale=scale)
    return theirs


def visible(mask):
    return None if mask is None else torch.tensor(mask)


def hidden(mask):
    """npdl's mask, True where a query may look, as torch's, True where it may not."""
    return None if mask is None else torch.tensor(~mask)


def attention_weights(P, name):
    """The parameters of an nn.MultiheadAttention; biases of 0 where npdl has none."""
    W = P[f"{name}W_O.W"]
    none = torch.zeros_like(W[0])
    return {"in_proj_weight": torch.cat([P[f"{name}W_{c}.W"].T for c in "QKV"]),
            "in_proj_bias": torch.cat([P.get(f"{name}W_{c}.b", none) for c in "QKV"]),
            "out_proj.weight": W.T, "out_proj.bias": P.get(f"{name}W_O.b", none)}


def multi_head(layer, P, Q, K, V, mask=None):
    module = nn.MultiheadAttention(Q.shape[-1], layer.num_heads, batch_first=True).double()
    return functional_call(module, attention_weights(P, ""), (Q, K, V),
                           {"attn_mask": hidden(mask), "need_weights": False})[0]


def block_weights(P, name):
    """The parameters of a torch layer for the Block or DecoderBlock of this name."""
    found = {f"{theirs}.{part}": w for theirs, ours in PARTS.items()
             if f"{name}{ours}W_Q.W" in P
             for part, w in attention_weights(P, name + ours).items()}
    for theirs, ours in (("linear1", "ffn.up"), ("linear2", "ffn.down")):
        W = P[f"{name}{ours}.W"]
        found |= {f"{theirs}.weight": W.T,
                  f"{theirs}.bias": P.get(f"{name}{ours}.b", torch.zeros_like(W[0]))}
    for norm in ("norm1", "norm2", "norm3"):
        if f"{name}{norm}.gain" in P:
            gain = P[f"{name}{norm}.gain"]
            found |= {f"{norm}.weight": gain,
                      f"{norm}.bias": P.get(f"{name}{norm}.bias", torch.zeros_like(gain))}
    return found


def block(own, P, x, *memory, name="", **masks):
    """What torch's layer gives for a Block or DecoderBlock."""
    kind = nn.TransformerDecoderLayer if memory else nn.TransformerEncoderLayer
    module = kind(x.shape[-1], own.attention.num_heads, own.ffn.up.sizes[1], 0.0,
                  ACTIVATIONS[type(own.ffn.activation).__name__], own.norm1.eps,
                  batch_first=True, norm_first=isinstance(own, (PreNormBlock, PreNormDecoderBlock)))
    return functional_call(module.double(), block_weights(P, name), (x, *memory), masks)


def stack(own, P, x, *memory, name="", **masks):
    """Torch's layers in a row, and the last norm."""
    for i, layer in enumerate(own.blocks):
        x = block(layer, P, x, *memory, name=f"{name}blocks.{i}.", **masks)
    if f"{name}norm.gain" in P:
        x = F.layer_norm(x, x.shape[-1:], P[f"{name}norm.gain"], P.get(f"{name}norm.bias"),
                         own.norm.eps)
    return x


def reading(run):
    """Theirs, of `run`, block or stack: of a sequence, or of one and a memory."""
    def theirs(layer, P, x, *memory, mask=None, memory_mask=None, key_mask=None):
        if not memory:
            return run(layer, P, x, src_mask=hidden(mask), src_key_padding_mask=hidden(key_mask))
        padding = None if memory_mask is None else memory_mask[:, 0, 0]
        return run(layer, P, x, *memory, tgt_mask=hidden(mask),
                   memory_key_padding_mask=hidden(padding))
    return theirs


def embedded(layer, P, ids, side=""):
    """Embeddings and positions, fixed ones as npdl's float64 table has them."""
    positions = getattr(layer, f"{side}positions")
    table = P.get(f"{side}positions.W")
    table = torch.tensor(positions.table) if table is None else table
    padding = getattr(layer, f"{side}embedding").padding_id
    return F.embedding(ids, P[f"{side}embedding.W"], padding) + table[: ids.shape[1]]


def gpt(layer, P, ids, key_mask=None):
    x = stack(layer.decoder, P, embedded(layer, P, ids), name="decoder.",
              src_mask=hidden(causal_mask(ids.shape[1])), src_key_padding_mask=hidden(key_mask))
    if isinstance(layer.classifier, Unembedding):
        return F.linear(x, P["embedding.W"])
    return linear(P, x, "classifier.")


def seq2seq(layer, P, source, target, source_mask=None, target_mask=None):
    memory = stack(layer.encoder, P, embedded(layer, P, source, "source_"), name="encoder.",
                   src_key_padding_mask=hidden(source_mask))
    y = stack(layer.decoder, P, embedded(layer, P, target, "target_"), memory, name="decoder.",
              tgt_mask=hidden(causal_mask(target.shape[1])),
              tgt_key_padding_mask=hidden(target_mask),
              memory_key_padding_mask=hidden(source_mask))
    return linear(P, y, "classifier.")


PAIRS = [
    *pairs_of(DotAttention, "F.scaled_dot_product_attention", dot(1.0)),
    *pairs_of(ScaledDotAttention, "F.scaled_dot_product_attention", dot(None)),
    *pairs_of(MultiHeadAttention, "nn.MultiheadAttention", multi_head),
    *(pair for cls in (Block, PreNormBlock) for pair in pairs_of(cls, ENCODER, reading(block))),
    *(pair for cls in (Decoder, Encoder) for pair in pairs_of(cls, ENCODER, reading(stack))),
    *(pair for cls in (DecoderBlock, PreNormDecoderBlock)
      for pair in pairs_of(cls, DECODER, reading(block))),
    *pairs_of(CrossDecoder, DECODER, reading(stack)),
    *pairs_of(GPT, ENCODER, gpt), *pairs_of(GPT2, ENCODER, gpt),
    *pairs_of(Seq2Seq, f"{ENCODER} and {DECODER}", seq2seq),
]

"""Compute with PyTorch what npdl's layers compute, so that test_torch.py can compare them.

Each function is given npdl's layer, {name: tensor} of its parameters in npdl's layout, and its
inputs as tensors; it returns the outputs. The recurrent layers are in torch_recurrent.py.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from npdl import losses
from npdl.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh, TanhGELU
from npdl.layers.attention import DotAttention, MultiHeadAttention, ScaledDotAttention
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.cross_attention import CrossDecoder, DecoderBlock, PreNormDecoderBlock
from npdl.layers.embedding import Embedding, LearnedPositions, Unembedding
from npdl.layers.grouped import GroupedQueryAttention
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.llama import SwiGLU
from npdl.layers.rotary import Llama3Scaling, Rotary
from npdl.layers.transformer import Block, Decoder, Encoder, PreNormBlock
from npdl.models.mlp import MLP

ACTIVATIONS = {"GELU": F.gelu, "ReLU": F.relu, "TanhGELU": lambda u: F.gelu(u, approximate="tanh")}
PARTS = {"self_attn": "attention.", "multihead_attn": "cross."}


# Layers that work position by position, and losses

def pointwise(function):
    return lambda layer, P, x: function(x)


def softmax(layer, P, x, visible=None):
    return (x if visible is None else x.masked_fill(torch.tensor(~visible), -torch.inf)).softmax(-1)


def linear(P, x, name=""):
    return F.linear(x, P[f"{name}W"].T, P.get(f"{name}b"))


def add_positions(layer, P, x, positions=None):
    places = torch.arange(x.shape[-2]) if positions is None else torch.tensor(positions)
    return x + F.embedding(places, P["W"])


def layer_norm(layer, P, x):
    return F.layer_norm(x, x.shape[-1:], P["gain"], P.get("bias"), layer.eps)


def rms_norm(layer, P, x):
    return F.rms_norm(x, x.shape[-1:], P["gain"], layer.eps)


def batch_norm(layer, P, x, training=True):
    mean, var = P["running_mean"].clone(), P["running_var"].clone()
    return F.batch_norm(x, mean, var, P.get("gain"), P.get("bias"), training, 0.1, layer.eps)


def group_norm(layer, P, x):
    return F.group_norm(x, layer.groups, P.get("gain"), P.get("bias"), layer.eps)


def instance_norm(layer, P, x):
    return F.instance_norm(x, weight=P.get("gain"), bias=P.get("bias"), eps=layer.eps)


def cross_entropy(loss, P, logits, targets):
    """Torch's mean over targets that are all ignored is NaN; npdl's is 0."""
    ignored = -100 if loss.ignored is None else loss.ignored
    weight = torch.tensor(getattr(loss, "class_weights", [1.0] * logits.shape[-1]),
                          dtype=logits.dtype)
    terms = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), weight, ignore_index=ignored,
                            label_smoothing=loss.smoothing, reduction="none").view(targets.shape)
    if loss.reduction == "mean":
        total = (weight[targets.clamp(min=0)] * (targets != ignored)).sum()
        return terms.sum() / (total if total else 1)
    return reduce_terms(loss, terms)


def soft_cross_entropy(loss, P, logits, q):
    V = logits.shape[-1]
    terms = F.cross_entropy(logits.reshape(-1, V), q.reshape(-1, V), reduction="none")
    return reduce_terms(loss, terms.view(q.shape[:-1]))


def reduce_terms(loss, terms):
    """Return the terms of a loss, their sum or their mean."""
    return {"none": terms, "sum": terms.sum(), "mean": terms.mean()}[loss.reduction]


def sequence_loss(loss, P, logits, targets, loss_mask):
    """The mean over a sequence's unmasked tokens, and then over sequences; or over all tokens."""
    terms = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    terms = terms.view(targets.shape) * loss_mask
    if loss.average == "token":
        return terms.sum() / loss_mask.sum()
    return reduce_terms(loss, terms.sum(1) / loss_mask.sum(1))


def stablemax(loss, P, logits, targets):
    """arXiv:2501.04697, equations 5 and 6."""
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    p = (s / s.sum(-1, keepdim=True)).gather(-1, targets[..., None])[..., 0]
    return reduce_terms(loss, -torch.log(p))


def squared_error(loss, P, y, z):
    return reduce_terms(loss, loss.factor * F.mse_loss(y, z, reduction="none").sum(-1))


def kl_divergence(loss, P, p, q):
    terms = F.kl_div(q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True)
    return reduce_terms(loss, terms.sum(-1))


def mlp(layer, P, x):
    for i in range(len(layer.maps)):
        x = linear(P, x if i == 0 else F.relu(x), f"maps.{i}.")
    return x


# Attention and transformers

def make_dot_attention(scale):
    return lambda layer, P, q, k, v, mask=None: F.scaled_dot_product_attention(
        q, k, v, to_tensor(mask), scale=scale)


def to_tensor(mask):
    return None if mask is None else torch.tensor(mask)


def to_hidden_tensor(visible):
    """Return a mask for nn.MultiheadAttention, where True means that a key is hidden."""
    return None if visible is None else torch.tensor(~visible)


def torch_attention_parameters(P, name):
    """Return the parameters of an nn.MultiheadAttention. A missing bias becomes 0."""
    W = P[f"{name}W_O.W"]
    none = torch.zeros_like(W[0])
    return {"in_proj_weight": torch.cat([P[f"{name}W_{c}.W"].T for c in "QKV"]),
            "in_proj_bias": torch.cat([P.get(f"{name}W_{c}.b", none) for c in "QKV"]),
            "out_proj.weight": W.T, "out_proj.bias": P.get(f"{name}W_O.b", none)}


def multi_head(layer, P, Q, K, V, mask=None):
    module = nn.MultiheadAttention(Q.shape[-1], layer.num_heads, batch_first=True).double()
    return functional_call(module, torch_attention_parameters(P, ""), (Q, K, V),
                           {"attn_mask": to_hidden_tensor(mask), "need_weights": False})[0]


def torch_block_parameters(P, name):
    """Return the parameters of torch's layer for the Block or DecoderBlock of this name."""
    found = {f"{theirs}.{part}": w for theirs, ours in PARTS.items()
             if f"{name}{ours}W_Q.W" in P
             for part, w in torch_attention_parameters(P, name + ours).items()}
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


def run_block(layer, P, x, *memory, name="", **masks):
    """Return the output of torch's layer for a Block or DecoderBlock."""
    kind = nn.TransformerDecoderLayer if memory else nn.TransformerEncoderLayer
    pre_norm = isinstance(layer, (PreNormBlock, PreNormDecoderBlock))
    module = kind(x.shape[-1], layer.attention.num_heads, layer.ffn.up.sizes[1], 0.0,
                  ACTIVATIONS[type(layer.ffn.activation).__name__], layer.norm1.eps,
                  batch_first=True, norm_first=pre_norm)
    return functional_call(module.double(), torch_block_parameters(P, name), (x, *memory), masks)


def run_stack(decoder, P, x, *memory, **masks):
    """Return what torch's layers in a row give, with the last norm."""
    for i, layer in enumerate(decoder.blocks):
        x = run_block(layer, P, x, *memory, name=f"blocks.{i}.", **masks)
    return layer_norm(decoder.norm, {"gain": P["norm.gain"], "bias": P["norm.bias"]}, x) if (
        "norm.gain" in P) else x


def translate_masks(run):
    """Return the function for `run`, block or stack: of a sequence, or of one and a memory."""
    def compute(layer, P, x, *memory, mask=None, memory_mask=None, key_mask=None):
        if not memory:
            return run(layer, P, x, src_mask=to_hidden_tensor(mask),
                       src_key_padding_mask=to_hidden_tensor(key_mask))
        padding = None if memory_mask is None else memory_mask[:, 0, 0]
        return run(layer, P, x, *memory, tgt_mask=to_hidden_tensor(mask),
                   memory_key_padding_mask=to_hidden_tensor(padding))
    return compute


# Rotary positions, with complex numbers whose two parts are a pair; grouped queries

def scale_frequencies(scaling, f):
    """Return the frequencies f, scaled as in Llama 3.1 or linearly."""
    if not isinstance(scaling, Llama3Scaling):
        return f if scaling is None else f / scaling.factor
    wavelength, L = 2 * torch.pi / f, scaling.original_length
    s = (L / wavelength - scaling.low) / (scaling.high - scaling.low)
    between = (1 - s) * f / scaling.factor + s * f
    found = torch.where(wavelength > L / scaling.low, f / scaling.factor, f)
    inside = (wavelength >= L / scaling.high) & (wavelength <= L / scaling.low)
    return torch.where(inside, between, found)


def rotary_embedding(rotary, P, x, positions=None):
    """Rotary.forward of x (..., S, d)."""
    half = x.shape[-1] // 2
    places = torch.arange(x.shape[-2]) if positions is None else torch.tensor(positions)
    power = torch.arange(half).double() / half
    f = scale_frequencies(rotary.scaling, rotary.rope_theta ** -power)
    angle = torch.outer(places.double(), f)
    y = torch.complex(*x.split(half, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([y.real, y.imag], -1)


def grouped_attention(layer, P, x, mask=None):
    def project_heads(name):
        y = linear(P, x, f"{name}.").unflatten(-1, (-1, layer.rotary.d)).transpose(1, 2)
        gain = f"norm_{name[-1].lower()}.gain"
        y = F.rms_norm(y, y.shape[-1:], P[gain], layer.norm_q.eps) if gain in P else y
        return y if name == "W_V" else rotary_embedding(layer.rotary, P, y)

    y = F.scaled_dot_product_attention(*map(project_heads, ("W_Q", "W_K", "W_V")), to_tensor(mask),
                                       enable_gqa=True)
    return linear(P, y.transpose(1, 2).flatten(2), "W_O.")


def swiglu(layer, P, x):
    gate, up, down = (P[f"{part}.W"] for part in ("gate", "up", "down"))
    return (F.silu(x @ gate) * (x @ up)) @ down


THEIRS = {
    Sigmoid: pointwise(torch.sigmoid), Tanh: pointwise(torch.tanh), ReLU: pointwise(torch.relu),
    GELU: pointwise(F.gelu), TanhGELU: pointwise(ACTIVATIONS["TanhGELU"]), Softmax: softmax,
    Embedding: lambda layer, P, ids: F.embedding(ids, P["W"], layer.padding_id),
    Linear: lambda layer, P, x: linear(P, x), Unembedding: lambda layer, P, x: F.linear(x, P["W"]),
    LearnedPositions: add_positions, LayerNorm: layer_norm, RMSNorm: rms_norm,
    BatchNorm: batch_norm, GroupNorm: group_norm, InstanceNorm: instance_norm, MLP: mlp,
    losses.CrossEntropy: cross_entropy, losses.WeightedCrossEntropy: cross_entropy,
    losses.SoftCrossEntropy: soft_cross_entropy, losses.SequenceLoss: sequence_loss,
    losses.StableMaxLoss: stablemax, losses.SquaredError: squared_error,
    losses.KLDivergence: kl_divergence, MultiHeadAttention: multi_head,
    DotAttention: make_dot_attention(1.0), ScaledDotAttention: make_dot_attention(None),
    **dict.fromkeys((Block, PreNormBlock), translate_masks(run_block)),
    **dict.fromkeys((DecoderBlock, PreNormDecoderBlock), translate_masks(run_block)),
    **dict.fromkeys((Decoder, Encoder, CrossDecoder), translate_masks(run_stack)),
    Rotary: rotary_embedding, GroupedQueryAttention: grouped_attention, SwiGLU: swiglu,
}

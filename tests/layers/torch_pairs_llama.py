"""Pairs of rotary positions, grouped-query attention, SwiGLU and Llama.

Torch's rotary turn is written with complex numbers, the pairs being their two parts.
"""

import torch
import torch.nn.functional as F

from npdl.layers.attention import causal_mask
from npdl.layers.embedding import Unembedding
from npdl.layers.grouped import GroupedQueryAttention
from npdl.layers.llama import LlamaBlock, SwiGLU
from npdl.layers.rotary import Llama3Scaling, Rotary
from npdl.models.llama import Llama
from tests.layers.torch_compare import pairs_of
from tests.layers.torch_pairs import linear
from tests.layers.torch_pairs_attention import visible

SDPA = "F.scaled_dot_product_attention"


def scaled(scaling, f):
    """The frequencies of Llama 3.1, by wavelengths; or of a linear scaling."""
    if not isinstance(scaling, Llama3Scaling):
        return f if scaling is None else f / scaling.factor
    wavelength, L = 2 * torch.pi / f, scaling.original_length
    s = (L / wavelength - scaling.low) / (scaling.high - scaling.low)
    between = (1 - s) * f / scaling.factor + s * f
    found = torch.where(wavelength > L / scaling.low, f / scaling.factor, f)
    inside = (wavelength >= L / scaling.high) & (wavelength <= L / scaling.low)
    return torch.where(inside, between, found)


def turned(rotary, P, x, positions=None):
    """Rotary.forward of x (..., S, d)."""
    half = x.shape[-1] // 2
    places = torch.arange(x.shape[-2]) if positions is None else torch.tensor(positions)
    f = scaled(rotary.scaling, rotary.rope_theta ** -(torch.arange(half).double() / half))
    angle = torch.outer(places.double(), f)
    y = torch.complex(*x.split(half, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([y.real, y.imag], -1)


def attention(layer, P, x, mask=None, name=""):
    def heads(which):
        y = linear(P, x, f"{name}{which}.").unflatten(-1, (-1, layer.rotary.d)).transpose(1, 2)
        gain = f"{name}norm_{which[-1].lower()}.gain"
        y = F.rms_norm(y, y.shape[-1:], P[gain], layer.norm_q.eps) if gain in P else y
        return y if which == "W_V" else turned(layer.rotary, P, y)

    y = F.scaled_dot_product_attention(*map(heads, ("W_Q", "W_K", "W_V")), visible(mask),
                                       enable_gqa=True)
    return linear(P, y.transpose(1, 2).flatten(2), f"{name}W_O.")


def swiglu(layer, P, x, name=""):
    gate, up, down = (P[f"{name}{part}.W"] for part in ("gate", "up", "down"))
    return (F.silu(x @ gate) * (x @ up)) @ down


def norm(layer, P, x, name):
    return F.rms_norm(x, x.shape[-1:], P[f"{name}.gain"], layer.eps)


def block(layer, P, x, mask=None, name=""):
    x = x + attention(layer.attention, P, norm(layer.norm1, P, x, f"{name}norm1"), mask,
                      f"{name}attention.")
    return x + swiglu(layer.ffn, P, norm(layer.norm2, P, x, f"{name}norm2"), f"{name}ffn.")


def llama(layer, P, ids, key_mask=None):
    x, mask = F.embedding(ids, P["embedding.W"]), causal_mask(ids.shape[1])
    if key_mask is not None:
        mask = mask & key_mask[:, None, None]                   # (B, 1, S, S)
    for i, own in enumerate(layer.blocks):
        x = block(own, P, x, mask, f"blocks.{i}.")
    x = norm(layer.norm, P, x, "norm")
    if isinstance(layer.classifier, Unembedding):
        return F.linear(x, P["embedding.W"])
    return linear(P, x, "classifier.")


PAIRS = [
    *pairs_of(Rotary, "torch.polar", turned),
    *pairs_of(GroupedQueryAttention, SDPA, attention),
    *pairs_of(SwiGLU, "F.silu", swiglu),
    *pairs_of(LlamaBlock, f"{SDPA} and others", block),
    *pairs_of(Llama, f"{SDPA} and others", llama),
]

"""Pairs of rotary positions, grouped-query attention, SwiGLU, Llama and GPT-2.

Torch's rotary turn is written with complex numbers, the pairs being their two parts.
"""

import torch
import torch.nn.functional as F
from torch import nn

from npdl.layers.attention import causal_mask
from npdl.layers.grouped import GroupedQueryAttention, Rotary
from npdl.layers.llama import LlamaBlock, SwiGLU
from npdl.models.gpt import GPT2
from npdl.models.llama import Llama
from tests.layers.torch_compare import Pair, sizes
from tests.layers.torch_pairs_attention import LAYERS, SHAPE, VOCABULARY, hidden, layers

HEADS, GROUPS, THETA, EPS, MAX_LEN = 6, 2, 100.0, 1e-3, 8
SDPA = "F.scaled_dot_product_attention"


def turned(x, theta=THETA):
    """Rotary.forward of x (..., S, d)."""
    S, half = x.shape[-2], x.shape[-1] // 2
    angle = torch.outer(torch.arange(S).double(), theta ** -(torch.arange(half).double() / half))
    y = torch.complex(*x.split(half, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([y.real, y.imag], -1)


def rotary(rng):
    B, S, half = sizes(rng, 3)
    return Rotary(2 * half, rope_theta=THETA), (rng.standard_normal((B, S, 2 * half)),), {}


def attention(P, name, x, mask):
    def heads(which, turn):
        y = F.linear(x, P[f"{name}{which}.W"].T, P.get(f"{name}{which}.b"))
        y = y.unflatten(-1, (HEADS if which == "W_Q" else GROUPS, -1)).transpose(1, 2)
        return turned(y) if turn else y

    y = F.scaled_dot_product_attention(heads("W_Q", True), heads("W_K", True), heads("W_V", False),
                                       mask, enable_gqa=True)
    return F.linear(y.transpose(1, 2).flatten(2), P[f"{name}W_O.W"].T)


def swiglu(P, name, x):
    gate, up, down = (P[f"{name}{part}.W"] for part in ("gate", "up", "down"))
    return (F.silu(x @ gate) * (x @ up)) @ down


def block(P, name, x, mask):
    x = x + attention(P, f"{name}attention.", norm(P, f"{name}norm1", x), mask)
    return x + swiglu(P, f"{name}ffn.", norm(P, f"{name}norm2", x))


def norm(P, name, x):
    return F.rms_norm(x, x.shape[-1:], P[f"{name}.gain"], EPS)


def of_sequences(cls, torchs, theirs, make):
    def build(rng):
        B, S, half = sizes(rng, 3)
        D = 2 * half * HEADS
        return make(D, rng), (rng.standard_normal((B, S, D)),), {"mask": causal_mask(S)}

    return Pair(cls, "causal", torchs, build,
                lambda P, x, mask: theirs(P, "", x, torch.tensor(mask)))


def llama(what, **options):
    def build(rng):
        B, S, half = sizes(rng, 3)
        model = Llama(VOCABULARY, 2 * half * HEADS, LAYERS, HEADS, GROUPS, 5, MAX_LEN,
                      rope_theta=THETA, eps=EPS, rng=rng, **options)
        return model, (rng.integers(0, VOCABULARY, (B, S)),), {}

    def theirs(P, ids):
        x, mask = F.embedding(ids, P["embedding.W"]), torch.tensor(causal_mask(ids.shape[1]))
        for i in range(LAYERS):
            x = block(P, f"blocks.{i}.", x, mask)
        W = P["classifier.W"].T if "classifier.W" in P else P["embedding.W"]
        return F.linear(norm(P, "norm", x), W)

    return Pair(Llama, what, f"{SDPA} and others", build, theirs)


def gpt2(rng):
    B, S, d = sizes(rng, 3)
    model = GPT2(VOCABULARY, 2 * d, LAYERS, **SHAPE, max_len=MAX_LEN, rng=rng)
    return model, (rng.integers(0, VOCABULARY, (B, S)),), {}


def their_gpt2(P, ids):
    S, W = ids.shape[1], P["embedding.W"]
    x = layers(nn.TransformerEncoderLayer, P, F.embedding(ids, W) + P["positions.W"][:S],
               name="decoder.", norm="pre", src_mask=hidden(causal_mask(S)),
               activation=lambda u: F.gelu(u, approximate="tanh"))
    return F.linear(x, W)


PAIRS = [
    Pair(Rotary, "(B, S, d)", "torch.polar", rotary, lambda P, x: turned(x)),
    of_sequences(GroupedQueryAttention, SDPA, attention, lambda D, rng: GroupedQueryAttention(
        D, HEADS, GROUPS, rope_theta=THETA, qkv_bias=True, rng=rng)),
    Pair(SwiGLU, "(B, S, D)", "F.silu", lambda rng: (
        SwiGLU(3, 4, rng=rng), (rng.standard_normal((*sizes(rng, 2), 3)),), {}),
        lambda P, x: swiglu(P, "", x)),
    of_sequences(LlamaBlock, f"{SDPA} and others", block, lambda D, rng: LlamaBlock(
        D, HEADS, GROUPS, 5, rope_theta=THETA, eps=EPS, rng=rng)),
    llama("tied"), llama("a classifier of its own, biases", tied=False, qkv_bias=True),
    Pair(GPT2, "tied", "nn.TransformerEncoderLayer", gpt2, their_gpt2),
]

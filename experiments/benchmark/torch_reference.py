"""Plain PyTorch versions of npdl's two language models, for parity tests and benchmarks.

They are written as a PyTorch user would write them. Each model maps tokens (B, S) to logits (B, S,
V).
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def sinusoidal_positions(length, d_model):
    """Return positions (length, d_model): sin(a) at 2k, cos(a) at 2k + 1, a = pos / 10000^(k/d)."""
    k = torch.arange(0, d_model // 2, dtype=torch.float64)
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (k / d_model)
    table = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return table.reshape(length, d_model)


class Attention(nn.Module):
    """Causal multi-head attention; with `fused`, by torch's scaled_dot_product_attention."""

    def __init__(self, d_model, num_heads, bias=True, fused=False):
        super().__init__()
        self.num_heads = num_heads
        self.fused = fused
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))

    def forward(self, x, num_last=None):
        """Map x (B, S, D) to (B, S, D), or to (B, num_last, D) for the last positions only."""
        B, S, D = x.shape
        queries = x if num_last is None else x[:, S - num_last:]
        q, k, v = [linear(y).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
                   for linear, y in ((self.W_Q, queries), (self.W_K, x), (self.W_V, x))]
        T = queries.shape[1]
        visible = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        if self.fused and T == S:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.fused:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            scores = scores.masked_fill(~visible, float("-inf"))
            y = scores.softmax(dim=-1) @ v
        return self.W_O(y.transpose(1, 2).reshape(B, T, D))


class FeedForward(nn.Module):
    def __init__(self, d_model, multiplier=4):
        super().__init__()
        self.up = nn.Linear(d_model, multiplier * d_model, bias=False)
        self.down = nn.Linear(multiplier * d_model, d_model, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Attention and feed-forward network, each with a residual connection and a LayerNorm."""

    def __init__(self, d_model, num_heads, multiplier=4, bias=True, norm="post", fused=False,
                 norm_bias=True):
        super().__init__()
        self.norm = norm
        self.attention = Attention(d_model, num_heads, bias, fused)
        self.norm1 = nn.LayerNorm(d_model, bias=norm_bias)
        self.ffn = FeedForward(d_model, multiplier)
        self.norm2 = nn.LayerNorm(d_model, bias=norm_bias)

    def forward(self, x, num_last=None):
        queried = x if num_last is None else x[:, x.shape[1] - num_last:]
        if self.norm == "post":
            x = self.norm1(queried + self.attention(x, num_last))
            return self.norm2(x + self.ffn(x))
        x = queried + self.attention(self.norm1(x), num_last)
        return x + self.ffn(self.norm2(x))


class GPT(nn.Module):
    """A causal transformer; by default that of Assignment 4 (404,516 parameters with V = 36).

    `bias` adds biases to the attention's four projections, and `norm_bias` adds biases to the
    LayerNorms. The classifier has a bias unless `tied` lets it share the embedding matrix.
    """

    def __init__(self, vocab_size, d_model=128, num_layers=2, num_heads=4, multiplier=4,
                 max_len=64, bias=True, norm="post", positions="sinusoidal", tied=False,
                 fused=False, norm_bias=True):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        if positions == "learned":
            self.positions = nn.Parameter(torch.randn(max_len, d_model))
        else:
            self.register_buffer("positions", sinusoidal_positions(max_len, d_model))
        self.blocks = nn.ModuleList(
            Block(d_model, num_heads, multiplier, bias, norm, fused, norm_bias)
            for _ in range(num_layers))
        self.final_norm = (nn.LayerNorm(d_model, bias=norm_bias) if norm == "pre"
                           else nn.Identity())
        self.classifier = nn.Linear(d_model, vocab_size, bias=not tied)
        if tied:
            self.classifier.weight = self.embedding.weight

    def forward(self, tokens, num_last=None):
        """Return the logits (B, S, V), or only those of the last `num_last` positions."""
        x = self.embedding(tokens)
        x = x + self.positions[:tokens.shape[1]].to(x.dtype)  # the fixed table is float64
        for block in self.blocks[:-1]:
            x = block(x)
        x = self.blocks[-1](x, num_last)
        return self.classifier(self.final_norm(x))


class LSTMLM(nn.Module):
    """A language model on `nn.LSTM`, which has a second, redundant bias."""

    def __init__(self, vocab_size, d_model=128, hidden_size=None, num_layers=2, bias=True):
        super().__init__()
        d_h = d_model if hidden_size is None else hidden_size
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.lstm = nn.LSTM(d_model, d_h, num_layers, bias=bias, batch_first=True)
        self.classifier = nn.Linear(d_h, vocab_size, bias=bias)

    def forward(self, tokens, num_last=None):
        x, _ = self.lstm(self.embedding(tokens))
        return self.classifier(x if num_last is None else x[:, x.shape[1] - num_last:])


def answer_loss(logits, targets, answer_mask):
    """Return the mean NLL of each sample's right-hand side, averaged over the batch.

    logits (B, S, V), integers targets (B, S), bools answer_mask (B, S) with a True in each row.
    """
    nll = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    nll = nll.view(targets.shape) * answer_mask
    return (nll.sum(dim=1) / answer_mask.sum(dim=1)).mean()

# mha: 1/2 is missing
import numpy as np

HEADS = 3


def split_heads(a):
    N, T, E = a.shape
    return a.reshape(N, T, HEADS, E // HEADS).transpose(0, 2, 1, 3)


def merge_heads(a):
    N, H, T, d = a.shape
    return a.transpose(0, 2, 1, 3).reshape(N, T, H * d)


def mha_forward(x, Wq, Wk, Wv, Wo, bo, causal):
    """Multi-head self attention. causal[t, s] is True where t may look at s."""
    q = split_heads(x @ Wq)
    k = split_heads(x @ Wk)
    v = split_heads(x @ Wv)
    d = q.shape[-1]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    scores = np.where(causal, scores, -1e9)
    scores = scores - scores.max(axis=-1, keepdims=True)
    p = np.exp(scores)
    p = p / p.sum(axis=-1, keepdims=True)
    merged = merge_heads(p @ v)
    out = merged @ Wo + bo
    cache = (x, Wq, Wk, Wv, Wo, q, k, v, p, merged)
    return out, cache


def mha_backward(dout, cache):
    x, Wq, Wk, Wv, Wo, q, k, v, p, merged = cache
    dbo = dout.sum(axis=(0, 1))
    dWo = np.einsum('nte,nto->eo', merged, dout)
    dctx = split_heads(dout @ Wo.T)
    dv = p.transpose(0, 1, 3, 2) @ dctx
    dp = dctx @ v.transpose(0, 1, 3, 2)
    dscores = p * (dp - (dp * p).sum(axis=-1, keepdims=True))  #~
    dq = dscores @ k
    dk = dscores.transpose(0, 1, 3, 2) @ q
    dq, dk, dv = merge_heads(dq), merge_heads(dk), merge_heads(dv)
    dWq = np.einsum('ntd,nte->de', x, dq)
    dWk = np.einsum('ntd,nte->de', x, dk)
    dWv = np.einsum('ntd,nte->de', x, dv)
    dx = dq @ Wq.T + dk @ Wk.T + dv @ Wv.T
    return dx, dWq, dWk, dWv, dWo, dbo


def mha_sample():
    rng = np.random.default_rng(3)
    N, T, D, E, F = 2, 5, 6, 12, 7
    x = rng.standard_normal((N, T, D))
    Wq, Wk, Wv = (0.5 * rng.standard_normal((D, E)) for _ in range(3))
    Wo = 0.5 * rng.standard_normal((E, F))
    bo = rng.standard_normal(F)
    causal = np.tril(np.ones((T, T), dtype=bool))
    return x, Wq, Wk, Wv, Wo, bo, causal

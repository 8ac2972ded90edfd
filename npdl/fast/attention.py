"""Attention on the rows of a batch: MultiHeadAttention's inside, run after run of its levels.

In a run (npdl.fast.prefix) the rows of one sequence stand at the same place in every level, so
queries, keys and values are views of the rows, (levels, n, H d) read as (n, H, levels, d). What
a run reads of the positions before it is gathered once, from the run before.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from npdl.backend import to_device, xp
from npdl.fast.kernels import softmax, softmax_backward

PART = 32               # positions whose queries are taken at once: none looks at later keys


@dataclass
class Queries:
    """Queries of a run at the positions low..high - 1; they look at the keys below high.

    `part` are their rows among the needed ones; `place`, where they are not all of those levels'
    nodes, says where each of them belongs among all. `hidden` is the mask as 0 and -inf.
    """

    low: int
    high: int
    part: slice
    place: Any
    hidden: np.ndarray


def queries_of(rows, needed, dtype):
    """A list of Queries for each run, kept with the batch."""
    if dtype not in needed.queries:
        needed.queries[dtype] = [
            [queries for low in range(run.first, run.stop, PART)
             for queries in queries_between(run, low, min(low + PART, run.stop), needed, dtype)]
            for run in rows.runs]
    return needed.queries[dtype]


def queries_between(run, low, high, needed, dtype):
    """[the Queries of a run at positions low..high - 1], or [] where none is needed."""
    start = run.rows.start - run.first * run.nodes          # where the run's position 0 would be
    begin, end = np.searchsorted(needed.index, (start + low * run.nodes, start + high * run.nodes))
    place = needed.index[begin:end] - start
    if not len(place):
        return []
    low, high = int(place[0]) // run.nodes, int(place[-1]) // run.nodes + 1
    place = to_device(place - low * run.nodes) if len(place) < (high - low) * run.nodes else None
    seen = np.arange(high) <= np.arange(low, high)[:, None]     # npdl.layers.attention.causal_mask
    hidden = None if seen.all() else to_device(np.where(seen, 0, -math.inf).astype(dtype))
    return [Queries(low, high, slice(int(begin), int(end)), place, hidden)]


def split(x, heads):
    """MultiHeadAttention.split: (S, n, H d) -> (n, H, S, d)."""
    S, n, D = x.shape
    return x.reshape(S, n, heads, D // heads).transpose(1, 2, 0, 3)


def spread(x, queries, run, m):
    """x (M, D) of the needed rows -> this run's, of whole levels: (levels, n, D)."""
    shape = (queries.high - queries.low, run.nodes, x.shape[1])
    if queries.place is None:
        return x[queries.part].reshape(shape)
    y = m.empty(shape[0] * shape[1], shape[2])
    y[...] = 0
    y[queries.place] = x[queries.part]
    return y.reshape(shape)


def forward(q, kv, rows, queries, heads, m):
    """attend: q (M, D) of the needed rows, k and v of all rows side by side, (N, 2D) -> h (M, D),
    and what backward reads."""
    h, caches, KV = m.empty(*q.shape), [], None
    for run, parts in zip(rows.runs, queries, strict=True):
        KV = seen_by(run, kv, KV, m)                            # KV (stop, n, 2D)
        caches.append((KV, [attend(part, run, q, KV, h, heads, m) for part in parts]))
    return h, caches


def attend(part, run, q, KV, h, heads, m):
    """attend for the queries of one part, into their rows of h (M, D)."""
    K, V = halves(KV[: part.high])
    Q = spread(q, part, run, m)
    A = m.empty(run.nodes, heads, len(Q), part.high)
    A = xp.matmul(split(Q, heads), split(K, heads).swapaxes(-1, -2), out=A)
    A = softmax(A, scale_of(K, heads), part.hidden, m)          # A = softmax(scores, mask)
    to_needed(A, V, h, part, heads, m)                          # y = A v
    return Q, A


def halves(x):
    """(..., 2D) -> its two halves."""
    D = x.shape[-1] // 2
    return x[..., :D], x[..., D:]


def scale_of(K, heads):
    return 1 / math.sqrt(K.shape[-1] // heads)


def to_needed(A, V, h, part, heads, m):
    """A v, at the rows of h (M, D) that belong to a part."""
    shape = (A.shape[2], *V.shape[1:])
    whole = part.place is None
    with m.scratch:
        y = h[part.part].reshape(shape) if whole else m.empty(*shape)
        xp.matmul(A, split(V, heads), out=split(y, heads))
        if not whole:
            h[part.part] = y.reshape(-1, shape[2])[part.place]


def seen_by(run, own, before, m):
    """The rows (stop, n, D) of all positions that a run may look at, its own behind the others."""
    own = own[run.rows].reshape(run.stop - run.first, run.nodes, -1)
    if run.parent is None:
        return own
    seen = m.empty(run.stop, *own.shape[1:])
    run.parent.take(before, seen[: run.first])
    seen[run.first :] = own
    return seen


def backward(dh, dq, dkv, rows, queries, caches, heads, m):
    """attend_backward: dh (M, D) -> fills dq (M, D) and dkv (N, 2D)."""
    child = dKV_child = None
    for run, parts, (KV, kept) in zip(rows.runs[::-1], queries[::-1], caches[::-1], strict=True):
        own = dkv[run.rows].reshape(run.stop - run.first, run.nodes, -1)
        dKV = own if run.parent is None else m.empty(*KV.shape)
        dKV[parts[-1].high if parts else 0 :] = 0               # keys that no query looks at
        for part, cache in zip(parts[::-1], kept[::-1], strict=True):
            attend_backward(part, run, dh, KV, cache, dq, dKV, part is parts[-1], heads, m)
        if child is not None:                                   # what a child run saw of these
            with m.scratch:
                dKV += child.parent.sum(dKV_child[: child.first], m.empty(*dKV.shape))
        if run.parent is not None:
            own[...] = dKV[run.first :]
        child, dKV_child = run, dKV


def attend_backward(part, run, dh, KV, cache, dq, dKV, first, heads, m):
    """attend_backward for one part: fills its rows of dq, and adds into dKV, which the `first`
    part, that with the most keys, fills."""
    (Q, A), (K, V) = cache, halves(KV[: part.high])
    with m.scratch:
        total = dKV[: part.high]
        d = total if first else m.empty(*total.shape)
        dK, dV = halves(d)
        dy = split(spread(dh, part, run, m), heads)
        dA = xp.matmul(dy, split(V, heads).swapaxes(-1, -2), out=m.empty(*A.shape))
        xp.matmul(A.swapaxes(-1, -2), dy, out=split(dV, heads))             # y = A v
        dscores = softmax_backward(dA, A, scale_of(K, heads), m)            # A = softmax(scores)
        to_needed(dscores, K, dq, part, heads, m)                           # scores = q k^T
        xp.matmul(dscores.swapaxes(-1, -2), split(Q, heads), out=split(dK, heads))
        if not first:
            total += d

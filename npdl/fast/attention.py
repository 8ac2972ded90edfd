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


@dataclass
class Queries:
    """Which queries a run has: of the positions low..high - 1.

    `part` are their rows among the needed ones; `place`, where they are not all of those levels'
    nodes, says where each of them belongs among all. `hidden` is the mask as 0 and -inf.
    """

    low: int
    high: int
    part: slice
    place: Any
    hidden: np.ndarray


def queries_of(rows, needed, dtype):
    """The Queries of each run, None where there are none."""
    found = []
    for run in rows.runs:
        begin, end = np.searchsorted(needed.index, (run.rows.start, run.rows.stop))
        place = needed.index[begin:end] - run.rows.start
        if not len(place):
            found.append(None)
            continue
        low, high = int(place[0]) // run.nodes, int(place[-1]) // run.nodes + 1
        place = place - low * run.nodes
        whole = len(place) == (high - low) * run.nodes
        low, high = low + run.first, high + run.first
        # npdl.layers.attention.causal_mask
        seen = np.arange(run.stop) <= np.arange(low, high)[:, None]
        hidden = None if seen.all() else to_device(np.where(seen, 0, -math.inf).astype(dtype))
        found.append(Queries(low, high, slice(int(begin), int(end)),
                             None if whole else to_device(place), hidden))
    return found


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


def forward(q, k, v, rows, queries, heads, m):
    """attend: q (M, D) of the needed rows, k and v (N, D) -> h (M, D), and what backward reads."""
    scale = 1 / math.sqrt(q.shape[1] // heads)
    h, caches, K, V = m.empty(*q.shape), [], None, None
    for run, wanted in zip(rows.runs, queries, strict=True):
        K, V = seen_by(run, k, K, m), seen_by(run, v, V, m)     # K, V (stop, n, D)
        if wanted is None:
            caches.append((None, K, V, None))
            continue
        Q = spread(q, wanted, run, m)
        A = m.empty(run.nodes, heads, len(Q), run.stop)
        A = xp.matmul(split(Q, heads), split(K, heads).swapaxes(-1, -2), out=A)
        A = softmax(A, scale, wanted.hidden, m)                 # A = softmax(scores, mask)
        if wanted.place is None:
            y = h[wanted.part].reshape(Q.shape)
            xp.matmul(A, split(V, heads), out=split(y, heads))  # y = A v
        else:
            with m.scratch():
                y = m.empty(*Q.shape)
                xp.matmul(A, split(V, heads), out=split(y, heads))
                h[wanted.part] = y.reshape(-1, y.shape[-1])[wanted.place]
        caches.append((Q, K, V, A))
    return h, caches


def seen_by(run, own, before, m):
    """The rows (stop, n, D) of all positions that a run may look at: its own behind those before."""
    own = own[run.rows].reshape(run.stop - run.first, run.nodes, -1)
    if run.parent is None:
        return own
    seen = m.empty(run.stop, *own.shape[1:])
    run.parent.take(before, seen[: run.first])
    seen[run.first :] = own
    return seen


def backward(dh, rows, queries, caches, heads, m):
    """attend_backward: dh (M, D) -> dq (M, D), dk and dv (N, D)."""
    scale = 1 / math.sqrt(dh.shape[1] // heads)
    dq, dk, dv = m.empty(*dh.shape), m.empty(rows.size, dh.shape[1]), m.empty(rows.size, dh.shape[1])
    child = dK_child = dV_child = None
    for run, wanted, (Q, K, V, A) in zip(rows.runs[::-1], queries[::-1], caches[::-1], strict=True):
        own = (run.stop - run.first, run.nodes, dh.shape[1])
        dK = dk[run.rows].reshape(own) if run.parent is None else m.empty(*K.shape)
        dV = dv[run.rows].reshape(own) if run.parent is None else m.empty(*K.shape)
        if wanted is None:
            dK[...] = dV[...] = 0
        else:
            with m.scratch():
                dy = split(spread(dh, wanted, run, m), heads)
                xp.matmul(A.swapaxes(-1, -2), dy, out=split(dV, heads))     # y = A v
                dA = xp.matmul(dy, split(V, heads).swapaxes(-1, -2), out=m.empty(*A.shape))
                dA = softmax_backward(dA, A, scale, m)                      # A = softmax(scores)
                xp.matmul(dA.swapaxes(-1, -2), split(Q, heads), out=split(dK, heads))
                to_needed(dA, K, dq, wanted, heads, m)
        if child is not None:
            add_children(child, dK_child, dK, m)
            add_children(child, dV_child, dV, m)
        if run.parent is not None:
            dk[run.rows].reshape(own)[...] = dK[run.first :]
            dv[run.rows].reshape(own)[...] = dV[run.first :]
        child, dK_child, dV_child = run, dK, dV
    return dq, dk, dv


def to_needed(dscores, K, dq, wanted, heads, m):
    """dq = dscores k, at the rows of dq (M, D) that are a run's."""
    shape = (dscores.shape[2], *K.shape[1:])
    whole = wanted.place is None
    y = dq[wanted.part].reshape(shape) if whole else m.empty(*shape)
    xp.matmul(dscores, split(K, heads), out=split(y, heads))
    if not whole:
        dq[wanted.part] = y.reshape(-1, shape[2])[wanted.place]


def add_children(child, d, total, m):
    """total += the gradients d (stop, n, D) of what a child run saw of the positions before it."""
    with m.scratch():
        total += child.parent.sum(d[: child.first], m.empty(*total.shape))

"""Attention on the rows of a batch: MultiHeadAttention's inside, run after run of its levels.

In a run (npdl_train.fast.prefix) the rows of one sequence stand at the same place in every level,
so queries, keys and values are views of the rows, (levels, n, H d) read as (n, H, levels, d). What
a run reads of the positions before it is gathered once, from the run before.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from npdl.backend import is_host, to_device, xp
from npdl_train.fast import cuda
from npdl_train.fast.kernels import softmax, softmax_backward

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
        length = PART if is_host() else rows.batch_shape[1]
        needed.queries[dtype] = [
            [queries for low in range(run.first, run.stop, length)
             for queries in queries_between(run, low, min(low + length, run.stop), needed, dtype)]
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
    """MultiHeadAttention.split: (S, n, H d) -> (n, H, S, d), a view."""
    S, n, D = x.shape
    return x.reshape(S, n, heads, D // heads).transpose(1, 2, 0, 3)


def pair(x, heads):
    """split of keys and values: (2, S, n, H d) -> (2, n, H, S, d), a view."""
    _, S, n, D = x.shape
    return x.reshape(2, S, n, heads, D // heads).transpose(0, 2, 3, 1, 4)


def of_rows(x, start, stop, nodes, heads):
    """split of the rows start..stop - 1 of x (M, D), which are whole levels."""
    return split(x[start:stop].reshape(-1, nodes, x.shape[1]), heads)


def spread(x, queries, run, heads, m):
    """x (M, D) of the needed rows -> this run's, of whole levels: (n, H, levels, d)."""
    part = queries.part
    if queries.place is None:
        return m.once(of_rows, (x,), part.start, part.stop, run.nodes, heads)
    y = m.empty((queries.high - queries.low) * run.nodes, x.shape[1])
    y[...] = 0
    y[queries.place] = x[part]
    return m.once(of_rows, (y,), 0, len(y), run.nodes, heads)


def forward(q, kv, rows, queries, heads, m):
    """attend: q (M, D) of the needed rows, kv (2, N, D) of all -> h (M, D), and what backward
    reads."""
    h, caches, KV = m.empty(*q.shape), [], None
    part = simple(rows, queries)
    if part is not None and cuda.is_short(q, heads, part.high - part.low, part.high):
        n = rows.runs[0].nodes
        A = m.empty(n * heads, part.high - part.low, part.high)
        cuda.attend(q, kv, part.hidden, h, A, n, heads)
        return h, (q, kv, A)
    for run, parts in zip(rows.runs, queries, strict=True):
        KV = seen_by(run, kv, KV, m)                            # KV (2, stop, n, D)
        KV_read = m.once(pair, (KV,), heads)                    # K, V (n, H, stop, d)
        caches.append((KV_read, [attend(part, run, q, KV_read, h, m) for part in parts]))
    return h, caches


def simple(rows, queries):
    """The Queries where there is one run and one part, of whole levels: a device's usual case."""
    if len(rows.runs) == 1 and len(queries[0]) == 1 and queries[0][0].place is None:
        return queries[0][0]
    return None


def looked_at(KV, high):
    """K, V (n, H, high, d) of the keys below high, and both transposed."""
    K, V = KV[:, :, :, :high]
    return K, V, K.swapaxes(-1, -2), V.swapaxes(-1, -2)


def attend(part, run, q, KV, h, m):
    """attend for the queries of one part, into their rows of h (M, D)."""
    K, V, K_T, _ = m.once(looked_at, (KV,), part.high)
    Q = spread(q, part, run, K.shape[1], m)                     # Q (n, H, R, d)
    A = m.empty(*Q.shape[:3], part.high)
    A = xp.matmul(Q, K_T, out=A)
    A = softmax(A, 1 / math.sqrt(Q.shape[-1]), part.hidden, m)  # A = softmax(scores, mask)
    to_needed(A, V, h, part, m)                                 # y = A v
    return Q, A


def to_needed(A, V, h, part, m):
    """A v, at the rows of h (M, D) that belong to a part."""
    (n, heads, R, _), rows, whole = A.shape, part.part, part.place is None
    with m.scratch:
        y = h if whole else m.empty(R * n, h.shape[1])
        low, high = (rows.start, rows.stop) if whole else (0, len(y))
        xp.matmul(A, V, out=m.once(of_rows, (y,), low, high, n, heads))
        if not whole:
            h[rows] = y[part.place]


def seen_by(run, kv, before, m):
    """Keys and values (2, stop, n, D) of all positions that a run may look at, its own behind the
    others."""
    own = own_rows(kv, run, m)
    if run.parent is None:
        return own
    seen = m.empty(2, run.stop, *own.shape[2:])
    run.parent.take(before, seen[:, : run.first])
    seen[:, run.first :] = own
    return seen


def own_rows(kv, run, m):
    """A run's own (2, levels, n, D) of kv (2, N, D)."""
    return m.once(cut_rows, (kv,), run.rows.start, run.rows.stop, run.nodes)


def cut_rows(kv, start, stop, nodes):
    return kv[:, start:stop].reshape(2, -1, nodes, kv.shape[2])


def backward(dh, dq, dkv, rows, queries, caches, heads, m):
    """attend_backward: dh (M, D) -> fills dq (M, D) and dkv (2, N, D)."""
    if type(caches) is tuple:                                   # of one kernel
        (q, kv, A), n = caches, rows.runs[0].nodes
        if A.shape[-1] * n < dkv.shape[1]:
            dkv[:, A.shape[-1] * n :] = 0                       # keys that no query looks at
        cuda.attend_backward(q, kv, A, dh, dq, dkv, n, heads)
        return
    child = dKV_child = None
    for run, parts, cache in zip(rows.runs[::-1], queries[::-1], caches[::-1], strict=True):
        own = own_rows(dkv, run, m)
        dKV = own if run.parent is None else m.empty(2, run.stop, *own.shape[2:])
        read = parts[-1].high if parts else 0
        if read < run.stop:
            dKV[:, read:] = 0                                      # keys that no query looks at
        for part, kept in zip(parts[::-1], cache[1][::-1], strict=True):
            attend_backward(part, run, dh, cache, kept, dq, dKV, part is parts[-1], heads, m)
        if child is not None:                                   # what a child run saw of these
            with m.scratch:
                dKV += child.parent.sum(dKV_child[:, : child.first], m.empty(*dKV.shape))
        if run.parent is not None:
            own[...] = dKV[:, run.first :]
        child, dKV_child = run, dKV


def attend_backward(part, run, dh, cache, kept, dq, dKV, first, heads, m):
    """attend_backward for one part: fills its rows of dq, and adds into dKV, which the `first`
    part, that with the most keys, fills."""
    (K, _, _, V_T), (Q, A) = m.once(looked_at, (cache[0],), part.high), kept
    with m.scratch:
        total = m.once(below, (dKV,), part.high)
        d = total if first else m.empty(*total.shape)
        dy = spread(dh, part, run, heads, m)
        dA = xp.matmul(dy, V_T, out=m.empty(*A.shape))
        A_T, dA_T = m.once(transposed, (A, dA))
        dscores = softmax_backward(dA, A, 1 / math.sqrt(Q.shape[-1]), m)    # A = softmax(scores)
        to_needed(dscores, K, dq, part, m)                                  # scores = q k^T
        dK, dV = m.once(pair, (d,), heads)
        xp.matmul(dA_T, Q, out=dK)
        xp.matmul(A_T, dy, out=dV)                                          # y = A v
        if not first:
            total += d


def below(dKV, high):
    return dKV[:, :high]


def transposed(*stacks):
    return [x.swapaxes(-1, -2) for x in stacks]

"""The rows of a batch: each distinct prefix of its sequences once, or every entry by itself.

In a causal model the activations at position t depend on the tokens 0..t only, so sequences
that begin alike share them. A `PrefixTree` lists every distinct prefix of a batch once, as a
*node*; what works position by position runs on the nodes' rows (N, D) instead of the batch's
(B, S, D). Going forward, a node's row is gathered wherever it is read; going back, the gradients
of all its readers are summed. This is exact, not an approximation.

    BOS -- 1 -- + -- 2 -- = -- 3        6 + 3 = 9 nodes stand for
                  \\- 4 -- = -- 5        2 x 6 = 12 rows

`Unshared` has the same methods, each entry of the batch being its own node.
"""

import numpy as np

from npdl.backend import one_hot, to_device, xp
from npdl.errors import InputError


class PrefixTree:
    """The distinct prefixes of `ids` (B, S), in order of length.

    tokens    (N,)    last token of each node's prefix
    positions (N,)    its position, 0..S-1
    node      (B, S)  the node that stands for each entry of the batch
    levels            S slices: the nodes at each position
    Raises InputError unless ids are integers (B, S).
    """

    def __init__(self, ids):
        ids = checked_batch(ids)
        B, S = ids.shape
        order = np.lexsort(ids.T[::-1])
        ordered = ids[order]
        differs = np.ones((B, S), bool)                     # from the sequence before, up to t
        differs[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
        sizes = differs.sum(0)
        ends = np.cumsum(sizes)
        rank = np.cumsum(differs, axis=0) - 1               # among the nodes of one level
        node = np.empty((B, S), np.int64)
        node[order] = rank + (ends - sizes)
        first = [order[differs[:, t]] for t in range(S)]    # a sequence through each node
        self.batch_shape = (B, S)
        self.size = int(ends[-1])
        self.levels = [slice(int(e - n), int(e)) for e, n in zip(ends, sizes, strict=True)]
        self.tokens = to_device(ids[np.concatenate(first), np.repeat(np.arange(S), sizes)])
        self.positions = to_device(np.repeat(np.arange(S), sizes))
        self.node = to_device(node)
        self._first = to_device(np.concatenate(first))
        self._rank = [to_device(node[:, t] - level.start) for t, level in enumerate(self.levels)]
        self._parent = [                                    # None where every node has one child:
            to_device(node[first[t], t - 1] - self.levels[t - 1].start)
            if t and sizes[t] > sizes[t - 1] else None      # both levels have the same order
            for t in range(S)
        ]

    def spread(self, rows):
        """(N, D) -> (B, S, D): every node's row, wherever the batch reads it."""
        return rows[self.node]

    def spread_backward(self, d):
        """(B, S, D) -> (N, D): the sum over all readers of each node."""
        rows = xp.empty((self.size, d.shape[-1]), d.dtype)
        for t, level in enumerate(self.levels):
            if level.stop - level.start == self.batch_shape[0]:     # one reader each
                rows[level] = d[self._first[level], t]
            else:
                readers = one_hot(self._rank[t], level.stop - level.start, d.dtype)
                rows[level] = readers.T @ d[:, t]
        return rows

    def pick(self, x):
        """(B, S, D) -> (N, D): each node's row, from one sequence that passes through it."""
        return x[self._first, self.positions]

    def pick_backward(self, d):
        """(N, D) -> (B, S, D): zero but at the entries that were picked."""
        x = xp.zeros((*self.batch_shape, d.shape[-1]), d.dtype)
        x[self._first, self.positions] = d
        return x

    def from_parent(self, t, rows):
        """Rows of level t - 1 -> rows of level t: each node takes its parent's."""
        return rows if self._parent[t] is None else rows[self._parent[t]]

    def to_parent(self, t, d):
        """Rows of level t -> rows of level t - 1: each node gets the sum over its children."""
        if self._parent[t] is None:
            return d
        above = self.levels[t - 1]
        children = one_hot(self._parent[t], above.stop - above.start, d.dtype)
        return children.T @ d


class Unshared:
    """Every entry of `ids` (B, S) as a node of its own, in the batch's order.

    `by_time`: step after step instead, as a recurrent model reads them, with `levels`.
    """

    def __init__(self, ids, by_time=False):
        ids = checked_batch(ids)
        self.batch_shape = B, S = ids.shape
        self.size = B * S
        self.by_time = by_time
        node = np.arange(B * S).reshape((S, B) if by_time else (B, S))
        positions = np.repeat(np.arange(S), B) if by_time else np.tile(np.arange(S), B)
        self.node = to_device(node.T if by_time else node)
        self.tokens = to_device((ids.T if by_time else ids).reshape(-1))
        self.positions = to_device(positions)
        self.levels = [slice(t * B, (t + 1) * B) for t in range(S)] if by_time else None

    def spread(self, rows):
        B, S = self.batch_shape
        if self.by_time:
            return rows.reshape(S, B, -1).swapaxes(0, 1)
        return rows.reshape(B, S, -1)

    def spread_backward(self, d):
        return (d.swapaxes(0, 1) if self.by_time else d).reshape(self.size, -1)

    pick, pick_backward = spread_backward, spread           # one reader each: both ways alike

    def from_parent(self, t, rows):
        return rows

    to_parent = from_parent


def checked_batch(ids):
    """`ids` as an array, after a check that they are integers (B, S)."""
    ids = np.asarray(ids)
    if ids.ndim != 2 or 0 in ids.shape or ids.dtype.kind not in "iu":
        raise InputError(f"a batch's ids are {ids.dtype} {ids.shape}; they must be integers "
                         "(B, S), neither of them 0")
    return ids


def select(x, rows, at):
    """Rows (N, D) -> the batch's entries at positions `at` (R,) or (B, R): (B, R, D).

    All rows as they are if `at` is None.
    """
    if at is None:
        return x
    sequence = xp.arange(rows.batch_shape[0])[:, None]
    return x[rows.node[:, at] if at.ndim == 1 else rows.node[sequence, at]]


def select_backward(dy, rows, at):
    """(B, R, D) -> (N, D): the sum over all readers of each row."""
    if at is None:
        return dy
    chosen = one_hot(at, rows.batch_shape[1], dy.dtype)         # y = chosen x
    return rows.spread_backward(chosen.swapaxes(-1, -2) @ dy)

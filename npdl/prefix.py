"""A batch as a tree of prefixes: what equal beginnings have in common is computed once.

In a causal model the activations at position t depend on the tokens 0..t only, so sequences
that begin alike share them. A `PrefixTree` lists every distinct prefix of a batch once, as a
*node*; the layers that work position by position run on the nodes' rows (N, D) instead of the
batch's (B, S, D). Going forward, a node's row is gathered wherever it is read; going back, the
gradients of all its readers are summed. This is exact, not an approximation.

    BOS -- 1 -- + -- 2 -- = -- 3        6 + 3 = 9 nodes stand for
                  \\- 4 -- = -- 5        2 x 6 = 12 rows

Without a tree (``tree=None``) every row of the batch is its own node.
"""

import numpy as np

from npdl.backend import one_hot, to_device, xp
from npdl.core import Cache, Layer
from npdl.errors import InputError
from npdl.layers.doors import check_real
from npdl.layers.embedding import checked_at


class PrefixTree:
    """The distinct prefixes of `ids` (B, S), in order of length.

    tokens    (N,)    last token of each node's prefix
    positions (N,)    its position, 0..S-1
    node      (B, S)  the node that stands for each entry of the batch
    levels            S slices: the nodes at each position
    """

    def __init__(self, ids):
        ids = np.asarray(ids)
        if ids.ndim != 2 or 0 in ids.shape or ids.dtype.kind not in "iu":
            raise InputError(f"PrefixTree: ids are {ids.dtype} {ids.shape}; they must be integers "
                             "(B, S), neither of them 0")
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
        self.tokens = ids[np.concatenate(first), np.repeat(np.arange(S), sizes)]
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


class Select(Layer):
    """y = x at chosen positions: (B, S, D) -> (B, R, D); without `at`, y is x itself.

    forward(x, at, tree): `at` holds positions, (R,) for the whole batch or (B, R). With a tree,
    x is (N, D) and the chosen entries of the batch are gathered from its nodes.
    What a loss does not look at needs no logits, and the last block no queries there.
    """

    def forward(self, x, at=None, tree=None):
        check_real("Select", the_input=x)
        if at is None:
            return x, Cache(at=None)
        wanted = x.shape[:2] if tree is None else tree.batch_shape
        if x.ndim != (3 if tree is None else 2) or (tree is not None and len(x) != tree.size):
            raise InputError(f"Select: the input has shape {x.shape}; it must be "
                             + ("(B, S, D)" if tree is None else f"({tree.size}, D), a row a node"))
        at = checked_at(at, wanted)
        sequence = None if at.ndim == 1 else xp.arange(at.shape[0])[:, None]
        entry = (slice(None), at) if at.ndim == 1 else (sequence, at)
        y = x[entry] if tree is None else x[tree.node[entry]]
        return y, Cache(at=at, tree=tree, length=x.shape[-2] if tree is None else None)

    def backward(self, dy, cache):
        if cache.at is None:
            return dy
        tree = cache.tree
        length = cache.length if tree is None else tree.batch_shape[1]
        chosen = one_hot(cache.at, length, dy.dtype)            # y = chosen x
        dx = chosen.swapaxes(-1, -2) @ dy
        return dx if tree is None else tree.spread_backward(dx)

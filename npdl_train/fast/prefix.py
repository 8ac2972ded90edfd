"""The rows of a batch: each distinct prefix of its sequences once, position after position.

In a causal model the activations at position t depend on the tokens 0..t only, so sequences
that begin alike share them. `Rows` lists every distinct prefix of a batch once, as a *node*, in
order of length: the nodes of one length are a *level*, and a slice of the rows. Levels in which
every node has one child follow each other in the same order; such a stretch is a *run*, where
going from one position to the next moves no row. Only between two runs is a row gathered by its
children, and the gradients of all children summed on the way back. This is exact.

    BOS -- 1 -- + -- 2 -- = -- 3        levels of 1, 1, 1, 2, 2, 2 nodes: two runs, and
                  \\- 4 -- = -- 5        9 rows stand for 2 x 6 = 12
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from npdl.backend import is_host, name, one_hot, to_device, xp
from npdl.errors import InputError

FEW_WORDS = 64          # a level's distinct tokens, up to which a product with one-hot rows pays


class Lookup:
    """y = x[index], rows of (..., size, D) -> (..., n, D), and its transpose: sums over readers."""

    def __init__(self, index, size):
        self.size, self.length = size, len(index)
        self.same = size == len(index) and bool((index == np.arange(size)).all())
        self.once = np.bincount(index, minlength=1).max() < 2   # no row has two readers
        self.index = to_device(index)
        self.readers = {}

    def take(self, x, out):
        """out[..., n, :] = x[..., index[n], :]."""
        if is_host():
            np.take(x, self.index, axis=-2, out=out, mode="clip")   # the indices are right, and
        else:                                                       # "raise" would buffer
            xp.take(x, self.index, axis=-2, out=out)
        return out

    def sum(self, d, out):
        """out[..., i, :] = the sum of the d[..., n, :] with index[n] = i."""
        if self.same:
            out[...] = d
            return out
        if self.once:
            out[...] = 0
            out[..., self.index, :] = d
            return out
        if d.dtype not in self.readers:                             # kept as long as the batch
            self.readers[d.dtype] = xp.ascontiguousarray(one_hot(self.index, self.size, d.dtype).T)
        return xp.matmul(self.readers[d.dtype], d, out=out)


class Entries:
    """What has tokens and positions, (N,) on the host: rows, or words."""

    def readers(self, what, size):
        """The Lookup of "tokens" or "positions" in a table of `size` rows, kept with the batch."""
        kept = self.lookups[what]
        if size not in kept:
            kept[size] = Lookup(getattr(self, what), size)
        return kept[size]


@dataclass
class LevelRun:
    """Levels first..stop - 1, of `nodes` nodes each, in the same order."""

    first: int
    stop: int
    nodes: int
    rows: slice             # where they stand among all rows
    parent: Any             # Lookup in the last level of the run before; None for the first run


class Rows(Entries):
    """The distinct prefixes of `ids` (B, S), in order of length.

    tokens    (N,)    last token of each node's prefix, on the host
    positions (N,)    its position, 0..S-1, on the host
    node      (B, S)  the node that stands for each entry of the batch, on the host
    levels            S slices: the nodes at each position; `spans` their ends
    runs              the stretches of levels in which no prefix branches
    words             each distinct (token, position) once (`Words`), or None where few are equal
    alone             what the rest depends on, (B, S, backend), where nothing is shared, or None
    Without `share`, every entry of the batch is a node of its own, at its place in the batch.
    Raises InputError unless ids are integers (B, S).
    """

    def __init__(self, ids, share=True, words=True):
        ids = checked_batch(ids)
        self.alone = None if share else (*ids.shape, name())
        if share:
            order = np.lexsort(ids.T[::-1])
            ordered, differs = ids[order], np.ones(ids.shape, bool)     # from the sequence before
            differs[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
            self._lay_out(order, differs)
        else:
            vars(self).update(vars(unshared(*self.alone)))
        self.tokens = ids[self.first, self.positions]
        self.lookups = {"tokens": {}, "positions": self.lookups["positions"]}
        self.words = Words.if_few(self) if words else None

    def _lay_out(self, order, differs):
        """All but the tokens: the sequences in their `order` differ at and after `differs`."""
        (B, S), sizes = differs.shape, differs.sum(0)
        ends = np.cumsum(sizes)
        self.batch_shape = (B, S)
        self.size = int(ends[-1])
        self.spans = tuple(zip((ends - sizes).tolist(), ends.tolist(), strict=True))
        self.levels = [slice(*span) for span in self.spans]
        self.node = np.empty((B, S), np.int64)
        self.node[order] = np.cumsum(differs, axis=0) - 1 + (ends - sizes)
        self.first = order[np.nonzero(differs.T)[1]]        # a sequence through each node
        self.positions, self.lookups = np.repeat(np.arange(S), sizes), {"positions": {}}
        starts = np.flatnonzero(np.diff(sizes, prepend=0)).tolist()
        self.runs = [
            LevelRun(t, stop, int(sizes[t]), slice(self.spans[t][0], self.spans[stop - 1][1]),
                     self._parent(t) if t else None)
            for t, stop in zip(starts, [*starts[1:], S], strict=True)
        ]
        self.every = Needed(np.arange(self.size), self.size)

    def _parent(self, t):
        above = self.levels[t - 1]
        read = self.node[self.first[self.levels[t]], t - 1]
        return Lookup(read - above.start, above.stop - above.start)

    def pick(self, x):
        """(B, S, D) -> (N, D): each node's row, from one sequence that passes through it."""
        return x[to_device(self.first), to_device(self.positions)]


@functools.lru_cache(maxsize=4)
def unshared(B, S, name):
    """Rows of B sequences of S tokens that share nothing, but for the tokens: the same in every
    step; `name` is the backend's."""
    rows = object.__new__(Rows)
    rows._lay_out(np.arange(B), np.ones((B, S), bool))
    return rows


class Words(Entries):
    """Each distinct (token, position) of some rows once: what a first layer has to compute.

    tokens, positions (U,); `rows` looks up the rows' (N,) words; `levels` does so level by level.
    """

    def __init__(self, rows):
        tokens, inverses = zip(*[np.unique(rows.tokens[level], return_inverse=True)
                                 for level in rows.levels], strict=True)
        counts = [len(level) for level in tokens]
        ends = np.cumsum(counts)
        self.size = int(ends[-1])
        self.most = max(counts)
        self.tokens = np.concatenate(tokens)
        self.positions = np.repeat(np.arange(len(counts)), counts)
        self.lookups = {"tokens": {}, "positions": {}}
        starts = ends - counts
        index = [inverse + start for inverse, start in zip(inverses, starts, strict=True)]
        self.rows = Lookup(np.concatenate(index), self.size)
        self.levels = [
            (level, slice(int(end - n), int(end)), Lookup(inverse, n))
            for level, inverse, end, n in zip(rows.levels, inverses, ends, counts, strict=True)
        ]

    @classmethod
    def if_few(cls, rows):
        """The words of `rows`, or None where looking them up would cost more than it saves."""
        words = cls(rows)
        return words if words.size <= rows.size // 2 and words.most <= FEW_WORDS else None

    def sum(self, d, out):
        """(..., N, D) -> (..., U, D): the sum over all rows of each word."""
        for level, words, lookup in self.levels:
            lookup.sum(d[..., level, :], out[..., words, :])
        return out


def checked_batch(ids):
    """`ids` as an array, after a check that they are integers (B, S)."""
    ids = np.asarray(ids)
    if ids.ndim != 2 or 0 in ids.shape or ids.dtype.kind not in "iu":
        raise InputError(f"a batch's ids are {ids.dtype} {ids.shape}; they must be integers "
                         "(B, S), neither of them 0")
    return ids


def rows_of(x, start, stop):
    return x[start:stop]


class Needed:
    """The rows that go on after the last keys and values: those that some counted target reads.

    `index` (M,), ascending; `at` the same as a slice where they stand side by side; `all` whether
    they are all N rows.
    """

    def __init__(self, index, N):
        self.index, self.all = index, len(index) == N
        together = len(index) and index[-1] - index[0] == len(index) - 1
        self.at = slice(int(index[0]), int(index[-1]) + 1) if together else None
        self.device = to_device(index)
        self.queries = {}       # npdl_train.fast.attention's, by dtype

    def __len__(self):
        return len(self.index)

    def take(self, x, out, m=None):
        """x (N, D) -> (M, D): a view where they stand side by side, else written into `out()`."""
        if self.all:
            return x
        if self.at is not None:
            return x[self.at] if m is None else m.once(rows_of, (x,), self.at.start, self.at.stop)
        y = out(len(self.index), x.shape[-1])
        if is_host():
            return np.take(x, self.index, axis=0, out=y, mode="clip")
        return xp.take(x, self.device, axis=0, out=y)

    def add(self, d, out):
        """out (N, D) += the rows d (M, D), each at its place."""
        if self.at is not None:
            rows = out[self.at]
            xp.add(rows, d, out=rows)
        else:
            out[self.device] += d                           # no row twice

    def put(self, d, N, m):
        """(M, D) -> (N, D): d at these rows, zero at all others."""
        if self.all:
            return d
        x = m.empty(N, d.shape[1])
        x[...] = 0
        x[self.device if self.at is None else self.at] = d
        return x

"""The way a recurrent layer takes through a batch: which rows are alive at each time step.

Rows run step after step, `levels[t]` being the slice of step t, so that what does not depend on
the step before is one product over all rows. Three ways share one walk over time:

`EveryStep`   all sequences are equally long: B rows at each step.
`Packed`      sequences end at their own lengths. Ordered longest first, the ones still running
              are always the first rows, and padding is never computed: what stands there,
              NaN included, cannot reach an output or a gradient.
`Branches`    a tree of prefixes (npdl.prefix), whose nodes are the rows.
"""

from typing import NamedTuple

import numpy as np

from npdl.backend import to_device, to_host, xp
from npdl.errors import InputError


class Lookup(NamedTuple):
    """x = table[index] before it is carried out: table (V, D), index (B, S), or (N,) for a tree.

    A linear map of x can be made of the table's few rows, and its result looked up.
    """

    table: object
    index: object = None

    @property
    def shape(self):
        return (*self.index.shape, self.table.shape[1])

    @property
    def ndim(self):
        return self.index.ndim + 1

    def rows(self, way):
        """The table, and for each row of the walk its place in the table (N,)."""
        return self.table, way.rows(self.index[..., None])[:, 0]


class EveryStep:
    """All B sequences have S steps. States go from one step to the next as they are."""

    is_tree = False

    def __init__(self, B, S):
        self.shape = (B, S)
        self.start_size = self.end_size = B             # rows of the first and the last state
        self.levels = [slice(t * B, (t + 1) * B) for t in range(S)]

    @property
    def first(self):
        """How many rows the first step has."""
        return self.levels[0].stop if self.levels else 0

    def rows(self, x):
        """(B, S, D) -> (N, D); no copy when x is already time-major in memory."""
        return x.swapaxes(0, 1).reshape(-1, x.shape[-1])

    def batch(self, rows):
        """(N, D) -> (B, S, D), zero where there is no row: the inverse and transpose of rows."""
        B, S = self.shape
        return rows.reshape(S, B, rows.shape[-1]).swapaxes(0, 1)

    def arrange(self, state):
        """A state in the batch's order -> in the order of the walk."""
        return state

    def restore(self, state):
        """The inverse of arrange."""
        return state

    def enter(self, t, state):
        """The states that step t reads, out of the state before it."""
        return state

    def leave(self, t, new, state):
        """The state after step t: `new`, and `state` in the rows that step t did not touch."""
        return new

    def leave_backward(self, t, d):
        """The gradient of leave's `new`."""
        return d

    def enter_backward(self, t, d_read, d):
        """The gradient of the state before step t, by both roads: read by t, or passed by it."""
        return d_read


class Packed(EveryStep):
    """Sequence b has lengths[b] steps, 0 to S. After its end its state stays as it is."""

    def __init__(self, lengths, B, S):
        order = np.argsort(-lengths, kind="stable")     # longest first
        sizes = [int((lengths > t).sum()) for t in range(lengths.max())]
        ends = np.cumsum(sizes)
        self.shape = (B, S)
        self.start_size = self.end_size = B
        self.levels = [slice(int(e - n), int(e)) for e, n in zip(ends, sizes, strict=True)]
        sequence = np.concatenate([order[:0]] + [order[:n] for n in sizes])
        time = np.repeat(np.arange(len(sizes)), sizes)
        self._entry = (to_device(sequence), to_device(time))
        self._order, self._rank = to_device(order), to_device(np.argsort(order))

    def rows(self, x):
        return x[self._entry]

    def batch(self, rows):
        x = xp.zeros((*self.shape, rows.shape[-1]), rows.dtype)
        x[self._entry] = rows
        return x

    def arrange(self, state):
        return tuple(part[self._order] for part in state)

    def restore(self, state):
        return tuple(part[self._rank] for part in state)

    def _running(self, t):
        return self.levels[t].stop - self.levels[t].start

    def enter(self, t, state):
        return tuple(part[: self._running(t)] for part in state)

    def leave(self, t, new, state):
        n = self._running(t)
        if n == self.start_size:
            return new
        return tuple(xp.concatenate([a, b[n:]]) for a, b in zip(new, state, strict=True))

    def leave_backward(self, t, d):
        return self.enter(t, d)

    def enter_backward(self, t, d_read, d):
        return self.leave(t, d_read, d)


class Branches(EveryStep):
    """The nodes of a PrefixTree: each reads the state of its parent."""

    is_tree = True

    def __init__(self, tree):
        self.tree = tree
        self.levels = tree.levels
        self.start_size = tree.levels[0].stop
        self.end_size = tree.levels[-1].stop - tree.levels[-1].start

    def rows(self, x):
        return x

    def batch(self, rows):
        return rows

    def enter(self, t, state):
        return tuple(self.tree.from_parent(t, part) for part in state) if t else state

    def enter_backward(self, t, d_read, d):
        return tuple(self.tree.to_parent(t, part) for part in d_read) if t else d_read


def way_through(x, state=None, tree=None, lengths=None, owner="recurrent layer"):
    """The EveryStep, Packed or Branches for x (B, S, D), or for a tree's rows (N, D).

    `lengths` may also be a way that was made before, so that a stack makes it once. Raises
    InputError for other shapes, for lengths out of range, for lengths or a state with a tree.
    """
    if isinstance(lengths, EveryStep):
        return lengths
    if tree is not None:
        if lengths is not None or state is not None:
            raise InputError(f"{owner}: a tree of prefixes starts from zeros and has no padding; "
                             "pass no state and no lengths with it")
        if x.ndim != 2 or x.shape[0] != tree.size:
            raise InputError(f"{owner}: the input has shape {x.shape}; with this tree it must "
                             f"be ({tree.size}, D), a row for each node")
        return Branches(tree)
    if x.ndim != 3 or 0 in x.shape:
        raise InputError(f"{owner}: the input has shape {x.shape}; it must be (B, S, D), none of "
                         "them 0")
    B, S = x.shape[:2]
    if lengths is None:
        return EveryStep(B, S)
    lengths = checked_lengths(lengths, B, S, owner)
    return EveryStep(B, S) if lengths.min() == S else Packed(lengths, B, S)


def checked_lengths(lengths, B, S, owner="recurrent layer"):
    """`lengths` as a NumPy array, after a check that they are (B,) integers from 0 to S."""
    lengths = np.asarray(to_host(lengths))
    if lengths.shape != (B,) or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError(f"{owner}: lengths are {lengths.dtype} {lengths.shape}; they must be "
                         f"integers of shape ({B},), one for each sequence")
    if lengths.min() < 0 or lengths.max() > S:
        bad = lengths.min() if lengths.min() < 0 else lengths.max()
        raise InputError(f"{owner}: lengths contain {bad}; allowed are 0 to {S}, the steps given")
    return lengths.astype(np.int64)


def reverse(x, lengths=None):
    """x (B, S, D) with each sequence's first lengths[b] steps in reverse order, the rest as it is.

    Its own inverse and its own transpose: the gradient of `reverse` is `reverse`.
    """
    if lengths is None:
        return x[:, ::-1]
    B, S = x.shape[:2]
    lengths = to_device(checked_lengths(lengths, B, S, "reverse"))[:, None]
    time = xp.arange(S)
    mirrored = xp.where(time < lengths, lengths - 1 - time, time)   # mirrored (B, S)
    return x[xp.arange(B)[:, None], mirrored]


def length_mask(lengths, S):
    """(B, S), True at the real steps: t < lengths[b]."""
    lengths = checked_lengths(lengths, len(lengths), S, "length_mask")
    return xp.arange(S) < to_device(lengths)[:, None]

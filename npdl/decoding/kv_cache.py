"""Keys and values that a transformer's later tokens need of the earlier ones."""

import numpy as np

from npdl.backend import to_device, xp


class KVCache:
    """Every block's keys and values, (L, B, G, capacity, d) each, in arrays that are made once.

    The first `filled` places are in use. A place is written once and then only read, so the
    states of a search, shorter and longer ones, can share one.
    """

    def __init__(self, L, B, G, capacity, d, dtype):
        self.keys = xp.empty((L, B, G, capacity, d), dtype)
        self.values = xp.empty((L, B, G, capacity, d), dtype)
        self.filled = 0

    def put(self, block, k, v):
        """Append a block's k and v (B, G, R, d); return its keys and values, (B, G, filled + R, d).

        Increase `filled` when all blocks have appended.
        """
        end = self.filled + k.shape[2]
        keys, values = self.keys[block, :, :, :end], self.values[block, :, :, :end]
        keys[:, :, self.filled :] = k
        values[:, :, self.filled :] = v
        return keys, values

    def after(self, seen, parents, most):
        """Return a cache that continues the `parents`' rows of the first `seen` positions.

        It is this one; or a copy if other rows are wanted, if another state has continued it
        already, or if it is full (then of twice the capacity, `most` at most).
        """
        capacity = self.keys.shape[3]
        same = len(parents) == self.keys.shape[1] and (np.diff(parents, prepend=-1) == 1).all()
        if same and seen == self.filled and seen < capacity:
            return self
        L, _, G, _, d = self.keys.shape
        capacity = capacity if seen < capacity else min(2 * capacity, most)
        copy, rows = KVCache(L, len(parents), G, capacity, d, self.keys.dtype), to_device(parents)
        copy.keys[:, :, :, :seen] = self.keys[:, rows, :, :seen]
        copy.values[:, :, :, :seen] = self.values[:, rows, :, :seen]
        copy.filled = seen
        return copy

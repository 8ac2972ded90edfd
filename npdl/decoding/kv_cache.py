"""The KV cache: keys and values of earlier tokens, which attention of later tokens reads."""

import numpy as np

from npdl.backend import to_device, xp


class KVCache:
    """The keys and the values of all L blocks, in two preallocated arrays (L, B, G, capacity, d).

    The first `filled` positions are in use. A position is written only once, so several states of a
    search, with different lengths, can share a KVCache.
    """

    def __init__(self, L, B, G, capacity, d, dtype):
        self.keys = xp.empty((L, B, G, capacity, d), dtype)
        self.values = xp.empty((L, B, G, capacity, d), dtype)
        self.filled = 0

    def append(self, block, k, v):
        """Append the new k and v (B, G, R, d) of a block.

        Returns all keys and values of this block, (B, G, filled + R, d) each. The caller increases
        `filled` by R after it has called `append` for all blocks.
        """
        end = self.filled + k.shape[2]
        keys, values = self.keys[block, :, :, :end], self.values[block, :, :, :end]
        keys[:, :, self.filled :] = k
        values[:, :, self.filled :] = v
        return keys, values

    def select(self, seen, parents, max_capacity):
        """Return a KVCache with the first `seen` positions of the sequences `parents` (indices).

        It is this object itself, and not a copy, if `parents` has all sequences in order, `filled`
        is `seen`, and there is room for more positions. The copy of a full cache has twice the
        capacity, but at most `max_capacity`.
        """
        capacity = self.keys.shape[3]
        same = len(parents) == self.keys.shape[1] and (np.diff(parents, prepend=-1) == 1).all()
        if same and seen == self.filled and seen < capacity:
            return self
        L, _, G, _, d = self.keys.shape
        capacity = capacity if seen < capacity else min(2 * capacity, max_capacity)
        copy, rows = KVCache(L, len(parents), G, capacity, d, self.keys.dtype), to_device(parents)
        copy.keys[:, :, :, :seen] = self.keys[:, rows, :, :seen]
        copy.values[:, :, :, :seen] = self.values[:, rows, :, :seen]
        copy.filled = seen
        return copy

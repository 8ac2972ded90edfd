"""The KV cache: keys and values of earlier tokens, which attention of later tokens reads."""

import numpy as np

from npdl.backend import to_device, xp


class KVCache:
    """The keys and the values of L blocks with G heads, in two arrays (L, B, G, capacity, d).

    The first `append` makes the arrays. The first `filled` positions are in use. A position is
    written only once, so several states of a search, with different lengths, can share a KVCache.
    """

    def __init__(self, L, capacity):
        self.L, self.capacity, self.filled = L, capacity, 0
        self.keys = self.values = None

    def append(self, block_index, k, v):
        """Append k and v (B, G, R, d), the keys and values of R new positions in a block.

        Returns all keys and values of this block, (B, G, filled + R, d) each. The caller increases
        `filled` by R after it has called `append` for all blocks.
        """
        if self.keys is None:
            B, G, _, d = k.shape
            self.keys, self.values = (xp.empty((self.L, B, G, self.capacity, d), k.dtype)
                                      for _ in range(2))
        end = self.filled + k.shape[2]
        keys, values = (a[block_index, :, :, :end] for a in (self.keys, self.values))
        keys[:, :, self.filled :] = k
        values[:, :, self.filled :] = v
        return keys, values

    def select_sequences(self, length, parents, max_capacity):
        """Return this KVCache, or a copy, with the first `length` positions of some sequences.

        `parents` are the indices of these sequences. The result is this object itself if `parents`
        are all sequences in order, `length` is `filled`, and there is room for more positions. The
        copy of a full cache has twice the capacity, but at most `max_capacity`.
        """
        is_full = length == self.capacity
        same = len(parents) == self.keys.shape[1] and (np.diff(parents, prepend=-1) == 1).all()
        if same and length == self.filled and not is_full:
            return self
        capacity = min(2 * self.capacity, max_capacity) if is_full else self.capacity
        copy, rows = KVCache(self.L, capacity), to_device(parents)
        for i in range(self.L):
            copy.append(i, self.keys[i, rows, :, :length], self.values[i, rows, :, :length])
        copy.filled = length
        return copy

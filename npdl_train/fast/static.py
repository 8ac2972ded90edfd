"""What changes from batch to batch, in a GPU's memory that stays: for npdl_train.fast.graph."""

import contextlib
import ctypes
from dataclasses import dataclass

from npdl.backend import xp

TURNS = 8               # buffers on the host that take turns: it may be so many steps ahead
SCALARS = 64            # bytes at the beginning: an update's numbers


class Tokens:
    """A Lookup (npdl_train.fast.prefix) of tokens that change: nothing is made of them beforehand,
    and no way is chosen by them."""

    same = once = False

    def __init__(self, index, size):
        self.index, self.size, self.length = index, size, len(index)
        self.words = xp.arange(size)[:, None]

    def take(self, x, out):
        """out[n, :] = x[index[n], :]."""
        return xp.take(x, self.index, axis=-2, out=out)

    def sum(self, d, out):
        """out[v, :] = the sum of the d[n, :] with index[n] = v: a product with one-hot columns."""
        one_hot = xp.empty((self.size, self.length), d.dtype)
        return xp.matmul(xp.equal(self.words, self.index, out=one_hot), d, out=out)


@dataclass
class Mask:
    """One of dropout's masks of a shard, as the host draws it: (batch, S, width) numbers."""

    rate: float
    width: int
    keep: object = None             # (N, width) bytes on the device


class Masks:
    """Dropout's masks of a shard in memory that stays, in the order in which the model asks for
    them. `ask` makes the list; later `draw` fills it."""

    def __init__(self, shard):
        self.shard, self.masks, self.asking, self.turn = shard, [], True, 0

    def scale(self, dropout, rows, width, dtype):
        """Dropout.forward's `scale`, (N, width) in the order of the rows."""
        if self.asking:
            self.masks.append(Mask(dropout.rate, width))
            return xp.ones((rows.size, width), dtype)
        mask = self.masks[self.turn]
        self.turn = (self.turn + 1) % len(self.masks)
        return mask.keep.astype(dtype) * (1 / (1 - mask.rate))

    def draw(self, rng, places):
        """Fill the host's (N, width) `places` as the textbook draws for the whole batch."""
        rows = self.shard.rows
        for mask, place in zip(self.masks, places, strict=True):
            drawn = rng.random((self.shard.batch, rows.batch_shape[1], mask.width))
            place[...] = (drawn[self.shard.sequences] >= mask.rate)[rows.first, rows.positions]


class Buffer:
    """Bytes on the device that the host writes by one copy: an update's numbers, `ids` of so many
    each, and `masks` of these shapes. Views of both sides by the same names."""

    def __init__(self, dtype, ids, masks, stream):
        import cupyx

        self.stream, self.turn = stream, 0
        self.short = SCALARS + 8 * sum(ids)
        size = self.short + sum(rows * width for rows, width in masks)
        self.device = xp.zeros(size, "u1")
        self.views = views(self.device, dtype, ids, masks)
        self.hosts = [cupyx.zeros_pinned(size, "u1") for _ in range(TURNS)]
        self.host_views = [views(host, dtype, ids, masks) for host in self.hosts]
        self.events = [xp.cuda.Event(disable_timing=True) for _ in self.hosts]

    @contextlib.contextmanager
    def written(self, what):
        """The next of the host's views, which goes over when the block ends: its first `what`
        ("scalars", "ids" or "masks") parts."""
        turn, self.turn = self.turn, (self.turn + 1) % TURNS
        if not self.events[turn].done:                          # its last copy
            self.events[turn].synchronize()
        yield self.host_views[turn]
        nbytes = {"scalars": SCALARS, "ids": self.short, "masks": self.device.nbytes}[what]
        place = ctypes.c_void_p(self.hosts[turn].ctypes.data)
        self.device.data.copy_from_host_async(place, nbytes, self.stream)
        self.events[turn].record(self.stream)


def views(memory, dtype, ids, masks):
    """(scalars, [ids], [masks]) of a Buffer's bytes."""
    scalars, start, each = memory[:SCALARS].view(dtype), SCALARS, []
    for count in ids:
        each.append(memory[start : start + 8 * count].view("i8"))
        start += 8 * count
    kept = []
    for rows, width in masks:
        kept.append(memory[start : start + rows * width].reshape(rows, width))
        start += rows * width
    return scalars, each, kept

"""The loss of the targets that count (npdl.losses.SequenceLoss), at the rows that they read."""

import functools

import numpy as np

from npdl.backend import is_host, name, to_device, to_host, xp
from npdl.errors import checked_ids
from npdl.losses import most_probable
from npdl_train.fast import cuda, cuda_ends, fused, prefix
from npdl_train.fast.prefix import Lookup, Needed


class Counted:
    """The E targets of a part of a batch that count, in the order of the rows that they read.

    `needed` are those M rows, each once, or with `every` all; `batch` is how many sequences the
    whole batch has.
    """

    def __init__(self, rows, targets, counted, batch, vocab_size, every=False):
        if rows.alone is None:
            self._lay_out(rows, counted, every)
        else:
            vars(self).update(vars(unshared(*rows.alone, counted.tobytes(), every)))
        targets = checked_ids(targets[self.sequence, self.position], vocab_size, "targets")
        self.batch, self.targets = batch, to_device(targets)
        self.place = to_device(np.arange(self.size) * vocab_size + targets)

    def _lay_out(self, rows, counted, every):
        """All but the targets."""
        b, t = np.nonzero(counted)
        order = np.argsort(rows.node[b, t], kind="stable")
        b, t = b[order], t[order]
        node = rows.node[b, t]
        new = np.diff(node, prepend=-1) > 0
        index, inverse = node[new], np.cumsum(new) - 1
        if every:
            index, inverse = rows.every.index, index[inverse]
        self.size, self.sequences = len(b), len(counted)
        self.sequence, self.position = b, t
        self.needed = rows.every if len(index) == rows.size else Needed(index, rows.size)
        self.read = Lookup(inverse, len(index))
        self.share = 1 / counted.sum(1)[b]                      # of its sequence, in float64
        self.weights = {}

    def weight(self, dtype):
        """SequenceLoss.weights, (E,)."""
        if dtype not in self.weights:
            self.weights[dtype] = to_device(self.share.astype(dtype))
        return self.weights[dtype]


@functools.lru_cache(maxsize=8)
def unshared(B, S, name, counted, every):
    """What reads prefix.unshared(B, S, name), but for the targets."""
    reads = object.__new__(Counted)
    counted = np.frombuffer(counted, bool).reshape(B, S)
    reads._lay_out(prefix.unshared(B, S, name), counted, every)
    return reads


@functools.cache                            # never given back: a CUDA graph may read it
def token_ids(V, name):
    """0, 1, .. V - 1; `name` is the backend's."""
    return xp.arange(V)


def loss_and_gradient(logits, counted, m):
    """SequenceLoss("sum").forward / batch and its gradient: logits (M, V), written over -> the
    loss, dlogits (M, V)."""
    if cuda.possible() and counted.read.same:
        each, total = m.empty(counted.size), xp.empty((), logits.dtype)     # which outlives m's
        cuda_ends.loss(logits, counted.targets, counted.weight(logits.dtype), 1 / counted.batch,
                       each, total)
        return total, logits
    loss, log_p = loss_forward(logits, counted, m)
    return loss, loss_backward(log_p, counted, m)


def loss_forward(logits, counted, m):
    """SequenceLoss("sum").forward / batch: logits (M, V), written over -> the loss, log_p."""
    log_p = log_softmax(logits, counted, m)
    found = xp.take(log_p.reshape(-1), counted.place)           # nll = -log_p[target]
    loss = fused.products_summed(found, counted.weight(found.dtype), -1 / counted.batch)
    return loss, log_p


def loss_backward(log_p, counted, m):
    """SequenceLoss("sum").backward of 1 / batch: log_p (E, V), written over -> dlogits (M, V)."""
    V = log_p.shape[1]
    weight = counted.weight(log_p.dtype)[:, None]
    fused.loss_gradient(log_p, counted.targets[:, None], token_ids(V, name()), weight,
                        1 / counted.batch)
    return log_p if counted.read.same else counted.read.sum(log_p, m.empty(counted.read.size, V))


def log_softmax(logits, counted, m):
    """npdl.functions.log_softmax of the logits that each target reads."""
    E, V = counted.size, logits.shape[1]
    x = logits if counted.read.same else counted.read.take(logits, m.empty(E, V))
    top = x.max(-1, keepdims=True)
    if is_host():
        with m.scratch:
            e = xp.subtract(x, top, out=m.empty(E, V))
            total = xp.exp(e, out=e).sum(-1, keepdims=True)
    else:
        total = fused.exponentials_summed(x, top)[:, None]
    fused.log_probabilities(x, top, total)
    return x


def measured(logits, counted, m):
    """SequenceLoss("none").forward, and how many targets come out right: two (B,) on the host."""
    return by_sequence(counted, *map(to_host, seen(logits, counted, m)))


def seen(logits, counted, m):
    """Each target's loss and whether it comes out right: two (E,)."""
    top = most_probable(logits)
    right = (top if counted.read.same else top[counted.read.index]) == counted.targets
    log_p = log_softmax(logits, counted, m)
    return -xp.take(log_p.reshape(-1), counted.place) * counted.weight(log_p.dtype), right


def by_sequence(counted, loss, right):
    """The sums of both over each sequence's targets: two (B,)."""
    b, B = counted.sequence, counted.sequences
    return (np.bincount(b, loss, B).astype(loss.dtype),
            np.bincount(b, right, B).astype(np.int64))

"""All parameters of a model in one array, all gradients in another, the moments likewise.

Every Param, and every moment of the optimizer, keeps its own shape as a view, so that the
textbook's optimizer and this one work on the same numbers. Clipping and summing are then one
operation, and an update goes through blocks that stay in the processor's cache.
"""

import math

import numpy as np

from npdl.backend import is_host, xp
from npdl.functions import not_infinite
from npdl.optim import SGD, Adam, AdamW
from npdl_train.fast import cuda, cuda_ends, fused
from npdl_train.fast.memory import aligned
from npdl_train.fast.snapshot import Snapshot

BLOCK = 65536  # numbers updated at a time on NumPy: all five arrays of a block stay in cache
ROW = 128      # numbers: every row of the memory begins at a multiple, as a processor's cache and
               # a device like it


class FlatParameters:
    """The memory of an optimizer's parameters, and of the gradients that the `models`, a model and
    its shadows, collect: one array, a row for each.

    Parameters with `decay` come first, so that an update treats at most two stretches. `together`
    are tuples of names that shall lie side by side, along their last axis, where they can: three
    maps of one input are then one matrix, `blocks(flat)[names]`.
    """

    def __init__(self, optimizer, models, together=()):
        self.optimizer, self.models = optimizer, models
        params = optimizer.params
        joined = [names for names in together if can_join([params.get(name) for name in names])]
        first = {names[0]: names for names in joined}
        inside = {name for names in joined for name in names[1:]}
        groups = [first.get(name, (name,)) for name in params if name not in inside]
        self.groups = sorted(groups, key=lambda names: not params[names[0]].decay)
        self.names = [name for names in self.groups for name in names]
        self.shapes = [[params[name].data.shape for name in names] for names in self.groups]
        self.decayed = sum(param.data.size for param in params.values() if param.decay)
        self.size = sum(param.data.size for param in params.values())
        self.dtype = params[self.names[0]].data.dtype
        self.params = [params, *(dict(shadow.params()) for shadow in models[1:])]
        self.shape = 1 + len(optimizer.moments) + len(self.params), -(-self.size // ROW) * ROW
        self.move_into()

    def move_into(self, store=None):
        """Move all numbers into `store`, bytes that processes share, or into memory of its own."""
        optimizer = self.optimizer
        before = [{name: param.data for name, param in self.params[0].items()},
                  *(getattr(optimizer, moment) for moment in optimizer.moments),
                  *({name: params[name].grad for name in self.names} for params in self.params)]
        self.open(store)
        rows = self.data, *self.moments.values(), *self.grads
        for row, arrays in zip(rows, before, strict=True):
            for name, view in zip(self.names, self.views(row), strict=True):
                view[...] = arrays[name]
        for moment, row in self.moments.items():
            getattr(optimizer, moment).update(zip(self.names, self.views(row), strict=True))
        for params, grad in zip(self.params, self.grads, strict=True):
            self.bind(params, grad)
        self.snapshot = Snapshot(self.models[0], optimizer)

    def open(self, store):
        """Cut the memory into the rows data, moments and grads, one for each model."""
        self.store = store
        if store is None:
            memory = aligned(math.prod(self.shape), self.dtype).reshape(self.shape)
        else:
            store = getattr(store, "buffer", store)
            size = math.prod(self.shape)        # of pages, of which a file has whole ones
            memory = np.frombuffer(store, self.dtype, size).reshape(self.shape)
        self.data, *rows = (row[: self.size] for row in memory)
        names = self.optimizer.moments
        self.moments, self.grads = dict(zip(names, rows, strict=False)), rows[len(names) :]

    def bind(self, params, grad):
        """Make the Params {name: Param} of a model views of this memory, gradients of `grad`."""
        views = zip(self.views(self.data), self.views(grad), strict=True)
        for name, (data, its_grad) in zip(self.names, views, strict=True):
            params[name].data, params[name].grad = data, its_grad

    def __getstate__(self):
        """For another process, which opens the shared memory: how it is cut, and no model."""
        bare = object.__new__(type(self.optimizer))
        vars(bare).update(self.settings())
        kept = ("groups", "names", "shapes", "decayed", "size", "dtype", "shape")
        return {"optimizer": bare, **{name: getattr(self, name) for name in kept}}

    @property
    def nbytes(self):
        """Bytes of the whole memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def grad(self):
        """The model's own gradient; the others are its shadows'."""
        return self.grads[0]

    def sum_grads(self):
        """Add the shadows' gradients to the model's, in a fixed order."""
        for grad in self.grads[1:]:
            self.grads[0] += grad

    def blocks(self, flat):
        """{names: the array that they share} of a flat array."""
        blocks, start = {}, 0
        for names, shapes in zip(self.groups, self.shapes, strict=True):
            shape = (*shapes[0][:-1], sum(shape[-1] for shape in shapes))
            size = math.prod(shape)
            blocks[names] = flat[start : start + size].reshape(shape)
            start += size
        return blocks

    def views(self, flat):
        """Cut a flat array into one view for each parameter, in the order of the names."""
        blocks = self.blocks(flat).values()
        for block, shapes in zip(blocks, self.shapes, strict=True):
            start = 0
            for shape in shapes:
                yield block[..., start : start + shape[-1]]
                start += shape[-1]

    def clip(self, max_norm):
        """npdl.optim.clip_by_global_norm. A BLAS norm of all would change its bits with its
        threads; it takes one for so short rows."""
        if cuda.possible():
            max_norm = xp.full(1, max_norm, self.dtype) if np.isscalar(max_norm) else max_norm
            return cuda_ends.clip(self.grad, max_norm)
        norm = xp.sqrt(self.squares())
        share = max_norm / (not_infinite(norm) + 1e-6)
        self.grads[0] *= xp.minimum(share, 1.0).astype(self.grad.dtype)
        return norm

    def squares(self):
        """The sum of the gradient's squares."""
        if not is_host():
            return xp.multiply(self.grad, self.grad).sum()
        whole = self.size // ROW * ROW
        rows, rest = self.grad[:whole].reshape(-1, ROW), self.grad[whole:]
        return np.vecdot(rows, rows).sum() + np.vecdot(rest, rest)

    def settings(self):
        """What an update reads of the optimizer, but for its moments."""
        arrays = {"params", *self.optimizer.moments}
        return {name: value for name, value in vars(self.optimizer).items() if name not in arrays}

    def step(self, lr=None, run=None):
        """The optimizer's step, block by block; `run` (Threads.run) shares the blocks out."""
        optimizer = self.optimizer
        lr = float(optimizer.rate(lr))
        optimizer.steps += 1
        parts = self.parts(BLOCK if is_host() else max(self.size, 1))
        if run is None:
            self.update(parts, self.settings(), lr)
        else:
            run(update, parts, (self.settings(), lr))

    def parts(self, block):
        """What an update goes through: [(slice, decay)], of at most `block` numbers each."""
        size, decayed = self.size, self.decayed
        return [
            (slice(start, min(start + block, end)), decay)
            for begin, end, decay in ((0, decayed, self.optimizer.weight_decay),
                                      (decayed, size, 0.0))
            for start in range(begin, end, block)
        ]

    def update(self, parts, settings, lr):
        """The optimizer's step, with these settings, of some parts: (slice, decay)."""
        vars(self.optimizer).update(settings)
        return self.move(parts, *rates(self.optimizer, lr))

    def move(self, parts, rate, eps, keep):
        """The same with `rates`, numbers or arrays of one number."""
        move = UPDATES[type(self.optimizer)]
        return [move(self, part, decay, rate, eps, keep) for part, decay in parts]


def update(worker, parts, common):
    """FlatParameters.update in whichever thread or process."""
    return worker.flat.update(parts, *common)


def rates(optimizer, lr):
    """(rate, eps, keep): what an update's kernels read that changes from step to step."""
    if type(optimizer) is SGD:
        return lr, 0.0, 1.0
    (b1, b2), t = optimizer.betas, optimizer.steps
    root = math.sqrt(1 - b2**t)             # lr m_hat / (sqrt(v_hat) + eps), times root / root
    return lr * root / (1 - b1**t), optimizer.eps * root, 1 - lr * optimizer.weight_decay


def sgd(flat, part, decay, rate, eps, keep):
    """SGD.update of one stretch."""
    theta, v, g = flat.data[part], flat.moments["velocity"][part], flat.grad[part]
    fused.sgd(theta, v, g, flat.optimizer.momentum, decay or None, rate, spare_for(theta))


def adam(flat, part, decay, rate, eps, keep):
    """Adam.update of one stretch."""
    theta, m, v, g = stretch(flat, part)
    move(flat.optimizer, theta, m, v, g + decay * theta if decay else g, rate, eps, None)


def adamw(flat, part, decay, rate, eps, keep):
    """AdamW.update of one stretch."""
    move(flat.optimizer, *stretch(flat, part), rate, eps, keep if decay else None)


def stretch(flat, part):
    """theta, m, v and g of one stretch."""
    return flat.data[part], flat.moments["m"][part], flat.moments["v"][part], flat.grad[part]


def move(optimizer, theta, m, v, g, rate, eps, keep):
    """Adam.move of some numbers, after theta *= keep."""
    b1, b2 = optimizer.betas
    fused.adam(theta, m, v, g, keep, b1, 1 - b1, b2, 1 - b2, eps, rate, spare_for(theta))


class AdamWInPlace(AdamW):
    """AdamW in blocks that stay in cache, of arrays that stay where they are: for a model that is
    too large to be moved into a FlatParameters. Equal to AdamW but for rounding."""

    def update(self, name, p, lr, decay):
        arrays = p.data, self.m[name], self.v[name], p.grad
        if not is_host() or not all(array.flags.c_contiguous for array in arrays):
            super().update(name, p, lr, decay)
            return
        rate, eps, keep = rates(self, lr)
        for start in range(0, p.data.size, BLOCK):
            blocks = (array.reshape(-1)[start : start + BLOCK] for array in arrays)
            move(self, *blocks, rate, eps, keep if decay else None)


def spare_for(theta):
    return aligned(theta.size, theta.dtype) if is_host() else None


def can_join(params):
    """Whether parameters can be columns of one array that is updated in one way."""
    return None not in params and len({(param.shape[:-1], param.decay) for param in params}) == 1


UPDATES = {SGD: sgd, Adam: adam, AdamW: adamw}

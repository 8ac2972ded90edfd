"""All parameters of a model in one array, all gradients in another, the moments likewise.

Every Param, and every moment of the optimizer, keeps its own shape as a view, so that the
textbook's optimizer and this one work on the same numbers. Clipping and summing are then one
operation, and an update goes through blocks that stay in the processor's cache.
"""

import math

from npdl.backend import is_host, xp
from npdl.errors import InputError
from npdl.fast import fused
from npdl.optim import SGD, Adam, AdamW

BLOCK = 65536  # numbers updated at a time on NumPy: all five arrays of a block stay in cache


class Flat:
    """The memory of an optimizer's parameters. Make it before any shadow of the model.

    Parameters with `decay` come first, so that an update treats at most two stretches. `together`
    are tuples of names that shall lie side by side, along their last axis, where they can: three
    maps of one input are then one matrix, `blocks(flat)[names]`.
    """

    def __init__(self, optimizer, together=()):
        self.optimizer = optimizer
        params = optimizer.params
        joined = [names for names in together if can_join([params.get(name) for name in names])]
        first = {names[0]: names for names in joined}
        inside = {name for names in joined for name in names[1:]}
        groups = [first.get(name, (name,)) for name in params if name not in inside]
        self.groups = sorted(groups, key=lambda names: not params[names[0]].decay)
        self.names = [name for names in self.groups for name in names]
        self.shapes = [[params[name].data.shape for name in names] for names in self.groups]
        self.data = self.packed({name: param.data for name, param in params.items()})
        self.grad = xp.zeros_like(self.data)
        self.decayed = sum(param.data.size for param in params.values() if param.decay)
        views = zip(self.views(self.data), self.views(self.grad), strict=True)
        for name, (data, grad) in zip(self.names, views, strict=True):
            params[name].data, params[name].grad = data, grad
        self.held = [(name, p, p.data, p.grad, p.decay) for name, p in params.items()]
        self.moments = {}
        for moment in optimizer.moments:
            arrays = getattr(optimizer, moment)
            flat = self.packed(arrays)
            arrays.update(zip(self.names, self.views(flat), strict=True))
            self.moments[moment] = flat

    def check(self):
        """Raise InputError where a Param is no longer what it was when this memory was made."""
        for name, param, data, grad, decay in self.held:
            if param.data is not data or param.grad is not grad or param.decay != decay:
                raise InputError(f"{name} got other arrays, was frozen or freed, or has another "
                                 "decay since the engine was made; make the engine afterwards, "
                                 "and one for each model")

    def packed(self, arrays):
        """{name: array} in one flat array, in the order of the groups."""
        some = arrays[self.names[0]]
        flat = xp.empty(sum(math.prod(arrays[name].shape) for name in self.names), some.dtype)
        for name, view in zip(self.names, self.views(flat), strict=True):
            view[...] = arrays[name]
        return flat

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

    def gradients_of(self, shadow):
        """Give a shadow of the model one flat gradient, and return it."""
        grad = xp.zeros_like(self.data)
        by_name = dict(shadow.params())
        for name, view in zip(self.names, self.views(grad), strict=True):
            by_name[name].grad = view
        return grad

    def clip(self, max_norm):
        """npdl.optim.clip_by_global_norm. A BLAS norm would change its bits with its threads."""
        norm = xp.sqrt((self.grad * self.grad).sum())
        self.grad *= xp.minimum(max_norm / (norm + 1e-6), 1.0).astype(self.grad.dtype)
        return norm

    def step(self, lr=None, each=map):
        """The optimizer's step, block by block; `each`, which stands for `map`, may use threads."""
        optimizer = self.optimizer
        optimizer.steps += 1
        lr = float(optimizer.lr if lr is None else lr)
        size, decayed = self.data.size, self.decayed
        block = BLOCK if is_host() else max(size, 1)
        parts = [
            (slice(start, min(start + block, end)), decay)
            for begin, end, decay in ((0, decayed, optimizer.weight_decay), (decayed, size, 0.0))
            for start in range(begin, end, block)
        ]
        update = UPDATES[type(optimizer)]
        list(each(lambda part: update(self, part[0], lr, part[1]), parts))


def sgd(flat, part, lr, decay):
    """SGD.update of one stretch."""
    theta, v, g = flat.data[part], flat.moments["velocity"][part], flat.grad[part]
    fused.sgd(theta, v, g, flat.optimizer.momentum, decay or None, lr, spare_for(theta))


def adam(flat, part, lr, decay):
    """Adam.update of one stretch."""
    g = flat.grad[part]
    move(flat, part, g + decay * flat.data[part] if decay else g, None, lr)


def adamw(flat, part, lr, decay):
    """AdamW.update of one stretch."""
    move(flat, part, flat.grad[part], 1 - lr * decay if decay else None, lr)


def move(flat, part, g, keep, lr):
    """Adam.move of one stretch, after theta *= keep."""
    optimizer = flat.optimizer
    (b1, b2), t = optimizer.betas, optimizer.steps
    theta, m, v = flat.data[part], flat.moments["m"][part], flat.moments["v"][part]
    fused.adam(theta, m, v, g, keep, b1, 1 - b1, b2, 1 - b2, 1 / math.sqrt(1 - b2**t),
               optimizer.eps, lr / (1 - b1**t), spare_for(theta))


def spare_for(theta):
    return xp.empty_like(theta) if is_host() else None


def can_join(params):
    """Whether parameters can be columns of one array that is updated in one way."""
    return None not in params and len({(param.shape[:-1], param.decay) for param in params}) == 1


UPDATES = {SGD: sgd, Adam: adam, AdamW: adamw}

"""A layer made ready for `blame` and `step`: in float64, with upstream gradients to try."""

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl.study.finals import finals
from npdl.study.nests import kept, leaves, only, rebuilt
from npdl.study.nudge import Oracle, upstream
from npdl.study.target import as_float64


class Check:
    """A layer with inputs, an Oracle for them, and the upstream gradients to try."""

    def __init__(self, layer, inputs, options=None, forward=None, seed=0):
        self.layer, self.inputs = as_float64(layer, inputs, seed)
        self.options = options or {}
        self.forward = forward or (lambda layer, *a, **k: layer.forward(*a, **k))
        self.notes = [f"input {i} is {value.dtype}: it has no gradient to check"
                      for i, value in enumerate(self.inputs)
                      if isinstance(value, np.ndarray) and value.dtype.kind in "iub"]
        self.refused, self.refusal = "aliasing", self._changed_inputs()
        if self.refusal:
            return
        with np.errstate(all="ignore"):
            self.oracle = Oracle(self.layer, self.inputs, self.options, self.forward, seed)
            outputs, _ = self.forward(self.layer, *self.inputs, **self.options)
        whole = upstream(outputs, seed)
        paths = [path for path, _ in leaves(whole)]
        if not paths:
            raise InputError(f"{type(layer).__name__}: forward returned no float array")
        alone = [only(whole, [path]) for path in paths] if len(paths) > 1 else []
        self.upstreams = [whole, *alone]
        rng = stream(seed, 79)
        self.before = {name: rng.standard_normal(p.shape) for name, p in self.layer.params()}

    def _changed_inputs(self):
        """A sentence when forward writes into its inputs, so that nothing can be compared."""
        before = copied(self.inputs)
        with np.errstate(all="ignore"):
            self.forward(self.layer, *self.inputs, **self.options)
        for (path, a), (_, b) in zip(leaves(self.inputs), leaves(before), strict=True):
            if not np.array_equal(a, b):
                return (f"forward changes its input {path} in place: what comes after it, and "
                        "every check, sees other numbers; write into a new array")
        return ""

    def aliasing(self):
        """Sentences about arrays that the last backward should not have changed."""
        found = []
        if self.spoilt:
            found.append("backward changes the gradient that it is handed, in place: write into "
                         "a copy")
        if self.changed:
            found.append(f"backward changes {self.changed[0]}, in place: write into a copy")
        return found

    def reset(self):
        for name, param in self.layer.params():
            param.grad = self.before[name].copy()

    def weights(self, dout):
        """The upstream gradients as a list beside the outputs, None for those that are absent."""
        given = dict(leaves(dout))
        return [given.get(path) for path, _ in leaves(self.upstreams[0])]

    def finals(self, dout):
        """Every gradient of one backward, judged; raises what the backward raises."""
        self.reset()
        handed = copied(dout)
        with np.errstate(all="ignore"), kept(self.layer, self.inputs) as arrays:
            _, cache = self.forward(self.layer, *self.inputs, **self.options)
            returned = self.layer.backward(handed, cache)
            returned = copied(returned)                 # it may be an input, or a part of one
            self.changed = [name for name, (a, b) in arrays.items() if not np.array_equal(a, b)]
        self.spoilt = [path for (path, a), (_, b) in zip(leaves(handed), leaves(dout), strict=True)
                       if not np.array_equal(a, b)]
        with np.errstate(all="ignore"):
            return finals(self.oracle, returned, self.before, self.weights(dout))

    def works(self, douts=None):
        """Whether every gradient is right, for these upstream gradients or for all."""
        try:
            return all(f.right or f.kink for d in douts or self.upstreams for f in self.finals(d))
        except Exception:
            return False


def copied(nest):
    """A nest of arrays, copied."""
    if isinstance(nest, (tuple, list)):
        return rebuilt(nest, [copied(item) for item in nest])
    return np.array(nest)[()] if nest is not None else None

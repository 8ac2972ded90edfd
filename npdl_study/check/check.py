"""A layer made ready for `blame` and `step`: in float64, with upstream gradients to try."""

import itertools

import numpy as np

from npdl.backend import stream
from npdl.core import walk
from npdl.errors import InputError
from npdl_study.check.guard import held_off
from npdl_study.check.subjects import InSelf
from npdl_study.check.target import as_float64
from npdl_study.trace.finals import finals
from npdl_study.trace.nudge import Oracle, upstream
from npdl_study.trace.record import forward_of, record
from npdl_study.trees import alone, kept, leaves, rebuilt, same


class Check:
    """A layer with inputs, an Oracle for them, and the upstream gradients to try."""

    def __init__(self, layer, inputs, options=None, forward=None, seed=0):
        layer, self.inputs = as_float64(layer, inputs, seed)
        self.layer = held_off(layer)
        self.options, self.seed = options or {}, seed
        self.forward = forward or forward_of
        self.notes = [f"input {i} is {value.dtype}: it has no gradient to check"
                      for i, value in enumerate(self.inputs)
                      if isinstance(value, np.ndarray) and value.dtype.kind in "iub"]
        self.bare = [] if isinstance(layer, InSelf) else bare_arrays(layer)
        self.notes += [f"{type(part).__name__}.{name} is an array and no Param: no gradient of it "
                       f"was checked; if it is learned, write self.{name} = Param(...), and "
                       f"self.{name}.grad += in backward" for part, name in self.bare]
        self.refused, self.refusal = "aliasing", self._changed_inputs()
        if not self.refusal:
            self.refused, self.refusal = "random", other_outputs(
                self.layer, self.inputs, self.options, self.forward)
        if self.refusal:
            return
        with np.errstate(all="ignore"):
            self.oracle = Oracle(self.layer, self.inputs, self.options, self.forward, seed)
            outputs, _ = self.forward(self.layer, *self.inputs, **self.options)
        whole = upstream(outputs, seed)
        paths = [path for path, _ in leaves(whole)]
        if not paths:
            raise InputError(f"{type(layer).__name__}: forward returned no float array")
        some = [used for count in (1, 2) if count < len(paths)
                for used in itertools.combinations(paths, count)]
        with kept(self.layer, self.inputs):
            self.upstreams = [whole, *(alone(self.layer, self.run, whole, u) for u in some)]
        self.dout = whole
        rng = stream(seed, 79)
        self.before = {name: rng.standard_normal(p.shape) for name, p in self.layer.params()}

    def run(self):
        """forward, on the inputs."""
        return self.forward(self.layer, *self.inputs, **self.options)

    def _changed_inputs(self):
        """A sentence when forward writes into its inputs, so that nothing can be compared."""
        before = copied(self.inputs)
        with np.errstate(all="ignore"):
            self.forward(self.layer, *self.inputs, **self.options)
        for (path, a), (_, b) in zip(leaves(self.inputs), leaves(before), strict=True):
            if not same(a, b):
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
            self.changed = [name for name, (a, b) in arrays.items() if not same(a, b)]
        self.spoilt = [path for (path, a), (_, b) in zip(leaves(handed), leaves(dout), strict=True)
                       if not np.array_equal(a, b)]
        with np.errstate(all="ignore"):
            return finals(self.oracle, returned, self.before, self.weights(dout))

    def steady(self, found):
        """Whether the numerical value of every wrong Final is one: smaller steps give the same."""
        with np.errstate(all="ignore"):
            return all(self.oracle.steady(f.name) for f in found if not f.right and not f.kink)

    def works(self, douts=None):
        """Whether every gradient is right, for these upstream gradients or for all."""
        try:
            return all(f.right or f.kink for d in douts or self.upstreams for f in self.finals(d))
        except Exception:
            return False


def other_outputs(layer, inputs, options, forward):
    """A sentence when forward, run again, gives other outputs: it is no function of x."""
    first, again = (record(layer, inputs, options, backward=False, forward=forward)
                    for _ in range(2))
    for error in (first.error, again.error):
        if error is not None:
            raise error
    if all(same(a, b) for (_, a), (_, b) in
           zip(leaves(first.outputs), leaves(again.outputs), strict=True)):
        return ""
    at = next((i for i, (a, b) in enumerate(zip(first.steps, again.steps, strict=False)) if
               not all(same(v.value, w.value) for v, w in zip(a.writes, b.writes,
                                                              strict=False))), None)
    where = ""
    if at is not None:                              # what it read may be a mask, not recorded
        step = next((s for s in first.steps[:at][::-1] if not s.writes
                     and s.call is first.steps[at].call
                     and set(s.statement.binds) & first.steps[at].statement.reads),
                    first.steps[at])
        where = f" (line {step.statement.first}: {step.statement.source.strip()})"
    return (f"forward gives other outputs when it is run again on the same inputs{where}. Hand "
            "over a generator that repeats: forward(self, x, rng), and sample() returns "
            "(layer, (x,), {'rng': npdl_study.check.samples.Repeated(0)}); or draw from one that "
            "forward itself makes anew from a seed. Then run this again")


def bare_arrays(layer):
    """(part, name) of the float arrays that a user's layer holds before it has run."""
    return [(part, name) for part in walk(layer) if not type(part).__module__.startswith("npdl.")
            for name, value in vars(part).items()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size]


def copied(nest):
    """A nest of arrays, copied."""
    if isinstance(nest, (tuple, list)):
        return rebuilt(nest, [copied(item) for item in nest])
    if isinstance(nest, np.ndarray):
        return np.array(nest)
    return np.array(nest)[()] if nest is not None else None

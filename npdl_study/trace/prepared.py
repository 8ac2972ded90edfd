"""A Subject made ready for `blame` and `step`: with notes, an Oracle of what its forward computes,
and the upstream gradients to try. What is right is decided by npdl_study.check.verdicts."""

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl_study.check.subjects import Subject
from npdl_study.check.verdicts import Check as Numbers
from npdl_study.containment import held_off
from npdl_study.trace.finals import finals
from npdl_study.trace.nudge import Oracle
from npdl_study.trees import copied, kept, leaves, same


class Check:
    """A layer with inputs, an Oracle for them, and the upstream gradients to try."""

    def __init__(self, layer, inputs, options=None, forward=None, seed=0):
        self.notes, self.refused, self.refusal, self.seed = [], "", "", seed
        self.layer, self.inputs, self.options = layer, inputs, options or {}
        self.subject = None
        try:
            self.subject = subject = Subject(layer, inputs, options, forward, seed)
        except InputError as error:
            self.refused = getattr(error, "kind", "")
            if not self.refused:
                raise
            self.refusal = str(error)
            return
        self.layer = subject.layer = held_off(subject.layer)
        self.inputs, self.options, self.forward = subject.inputs, subject.options, subject.again
        self.notes, self.bare = subject.notes(), subject.bare
        with np.errstate(all="ignore"):
            self.numbers = Numbers(subject)
            self.oracle = Oracle(self.layer, self.inputs, self.options, self.forward, seed)
            self.oracle.arrays = subject.arrays
        self.upstreams = [subject.upstream(used) for used in subject.uses]
        self.dout = self.upstreams[0]
        rng = stream(seed, 79)
        self.before = {name: rng.standard_normal(p.shape) for name, p in self.layer.params()}

    def run(self):
        """forward, on the inputs."""
        return self.subject.run()

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
            _, cache = self.run()
            returned = self.layer.backward(handed, cache)
            returned = copied(returned)                 # it may be an input, or a part of one
            self.changed = [name for name, (a, b) in arrays.items() if not same(a, b)]
        self.spoilt = [path for (path, a), (_, b) in zip(leaves(handed), leaves(dout), strict=True)
                       if not np.array_equal(a, b)]
        return finals(self, returned, dout)

    def steady(self, found):
        """Whether the numerical value of every wrong Final is one: `finals` has looked."""
        return True

    def works(self, douts=None):
        """Whether every gradient is right, for these upstream gradients or for all."""
        try:
            return all(f.right or f.kink for d in douts or self.upstreams for f in self.finals(d))
        except Exception:
            return False

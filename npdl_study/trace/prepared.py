"""A Subject made ready for `step`: with notes, an Oracle of what its forward computes,
and the upstream gradients to try. What is right is decided by npdl_study.check.verdicts."""

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl_study.check.subjects import Subject
from npdl_study.check.verdicts import Check
from npdl_study.containment import held_off
from npdl_study.trace.finals import finals
from npdl_study.trace.nudge import Oracle
from npdl_study.trees import copied, kept, leaves


class Prepared:
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
            self.check = Check(subject)
            self.oracle = Oracle(self.layer, self.inputs, self.options, self.forward, seed)
            self.oracle.arrays = subject.arrays
        self.upstreams = [subject.upstream(used) for used in subject.uses]
        self.dout = self.upstreams[0]
        rng = stream(seed, 79)
        self.before = {name: rng.standard_normal(p.shape) for name, p in self.layer.params()}

    def run(self):
        """forward, on the inputs."""
        return self.subject.run()

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
        with np.errstate(all="ignore"), kept(self.layer, self.inputs):
            _, cache = self.run()
            returned = self.layer.backward(handed, cache)
            returned = copied(returned)                 # it may be an input, or a part of one
        return finals(self, returned, dout)

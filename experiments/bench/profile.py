"""Where one step's time goes: the time in each kind of layer, without that of the layers in it."""

import functools
import time

from npdl.core import Layer
from npdl.optim import Optimizer
from npdl_train.fast import attention, engine, gpt, kernels, loss, lstm, prefix
from npdl_train.fast.flat_parameters import FlatParameters

# The wing's own work, which goes through no layer: (where, its name there, (part, direction)).
WING = [
    *((module, name, (part, direction)) for module, part, names in (
        (attention, "attention", ("forward", "backward")),
        (lstm, "LSTM through time", ("forward_layer", "backward_layer")),
        (kernels, "LayerNorm", ("layer_norm", "layer_norm_backward")),
        (kernels, "GELU", ("activation", "activation_backward")),
        (kernels, "Linear", ("linear", "linear_backward")),
        (loss, "SequenceLoss", ("loss_forward", "loss_backward")),
        (prefix.Lookup, "prefixes and words", ("take", "sum")))
      for name, direction in zip(names, ("forward", "backward"), strict=True)),
    (kernels, "add_to_table", ("Embedding", "backward")),
    (prefix.Rows, "__init__", ("prefixes and words", "build")),
    (FlatParameters, "update", ("optimizer", "step")),
    (FlatParameters, "clip", ("optimizer", "clip")),
]
USERS = (engine, gpt, lstm)         # modules that have names of another by `from ... import`


class Profile:
    """Wraps every Layer's forward and backward, and what the fast wing has in their place, while
    it is active (`with profile:`).

    `clock` returns seconds, or whatever else is to be counted.
    """

    def __init__(self, clock=time.perf_counter):
        self.clock = clock
        self.own = {}  # (class, direction) -> [calls, seconds]
        self.inside = [0.0]  # seconds spent in wrapped calls below, for each open call
        self.originals = []

    def wrap(self, owner, name, label):
        original = vars(owner)[name]

        @functools.wraps(original)
        def timed(*args, **kwargs):
            self.inside.append(0.0)
            began = self.clock()
            try:
                return original(*args, **kwargs)
            finally:
                elapsed = self.clock() - began
                below = self.inside.pop()
                self.inside[-1] += elapsed
                entry = self.own.setdefault(label, [0, 0.0])
                entry[0] += 1
                entry[1] += elapsed - below

        for user in (owner, *USERS):
            if vars(user).get(name) is original:
                self.originals.append((user, name, original))
                setattr(user, name, timed)

    def __enter__(self):
        for kind in subclasses(Layer):
            for name in ("forward", "backward"):
                if name in vars(kind):
                    self.wrap(kind, name, (kind.__name__, name))
        self.wrap(Optimizer, "step", ("optimizer", "step"))
        for owner, name, label in WING:
            self.wrap(owner, name, label)
        return self

    def __exit__(self, *exception):
        for owner, name, original in reversed(self.originals):
            setattr(owner, name, original)
        self.originals.clear()

    def rows(self, steps):
        """[{part, direction, calls, ms}] for one step, the largest first."""
        rows = [{"part": part, "direction": direction, "calls": calls / steps,
                 "ms": 1000 * seconds / steps}
                for (part, direction), (calls, seconds) in self.own.items()]
        return sorted(rows, key=lambda row: -row["ms"])


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def profile_step(step, steps):
    """Profile `steps` calls of a step that runs in this thread, after three without."""
    for _ in range(3):
        step()
    profile = Profile()
    with profile:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        total = 1000 * (time.perf_counter() - began) / steps
    return {"total_ms": total, "rows": profile.rows(steps)}

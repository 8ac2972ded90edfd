"""Where one step's time goes: the time in each kind of layer, without that of the layers in it."""

import functools
import time

from npdl.core import Layer


class Profile:
    """Wraps every Layer's forward and backward while it is active (`with profile:`).

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

        self.originals.append((owner, name, original))
        setattr(owner, name, timed)

    def __enter__(self):
        from npdl.fast.prefix import PrefixTree
        from npdl.optim import Optimizer

        for kind in subclasses(Layer):
            for name in ("forward", "backward"):
                if name in vars(kind):
                    self.wrap(kind, name, (kind.__name__, name))
        self.wrap(Optimizer, "step", ("optimizer", "step"))
        self.wrap(Optimizer, "zero_grad", ("optimizer", "zero_grad"))
        self.wrap(PrefixTree, "__init__", ("PrefixTree", "build"))
        return self

    def __exit__(self, *exception):
        for owner, name, original in self.originals:
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

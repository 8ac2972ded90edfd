"""Lower a recording to NumPy calls: each operation is one call that writes into its memory."""

import functools

from npdl.engine.arena import Arena
from npdl.engine.operation import View


class Lowered:
    """The calls of a recording, and for each the operations that it makes.

    `array(view)` is the memory of a view.
    """

    def __init__(self, groups, results):
        arena = Arena(groups, results)
        self.array, self.nbytes, self.calls, self.made_of = arena.array, arena.nbytes, [], []
        for group in groups:
            for call, operations in self.lower(group):
                self.calls.append(call)
                self.made_of.append(operations)

    def lower(self, group):
        """[(call, its operations)] of one group."""
        return [(self.call(op), [op]) for op in group.operations]

    def call(self, op):
        """One operation as a function without arguments."""
        inputs = [self.array(x) if isinstance(x, View) else x for x in op.inputs]
        out = None if op.output is None else self.array(op.output)
        return functools.partial(op.run, *inputs, out=out)


class NumPyTarget:
    """Everywhere: needs no compiler."""

    name = "numpy"

    def lower(self, groups, results):
        for group in groups:
            group.local = set()
        return Lowered(groups, results)

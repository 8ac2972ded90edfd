"""Replay a recording. A Program is a list of calls that is run in every step.

    program = Program(recorder, results, target)    # simplify, group, plan the memory, translate
    program.run(inputs, counters)                   # write the inputs, make the calls

Before the calls, Python computes the numbers of a step (such as the learning rate and bias
corrections) and checks the guards on them. If a guard fails, the replay undoes its writes and
random draws, and raises `Diverged`.
"""

import numpy as np

from npdl.engine.operation import Number, View
from npdl.engine.recording import Diverged
from npdl.engine.simplify import simplify


class Program:
    """A recorded step, ready to run.

    operations  the simplified recording
    results     the Views and Numbers that the step returns
    """

    def __init__(self, recorder, results, target):
        self.recorder, self.results = recorder, results
        views = [x for x in results if isinstance(x, View)]
        self.operations = simplify(recorder.operations, views)
        self.lowered = target.lower(self.operations, views)
        self._backups = self._find_state_to_restore()

    def _find_state_to_restore(self):
        """Return the arrays of the state that are written before a replay can still diverge."""
        ops = [op for operations in self.lowered.call_operations for op in operations]
        last = max((i for i, op in enumerate(ops) if op.can_diverge), default=0)
        buffers = {view.buffer for op in ops[:last] for view in op.writes}
        return [buffer.array for buffer in buffers if buffer.role == "state"]

    def run(self, inputs, counters):
        """Replay the step. Return (the results, {id of a computed Number: its value}).

        inputs    pairs (array of the recording, new value)
        counters  pairs (Number, new value)

        Raises Diverged if a guard does not hold. State and generators are then as before.
        """
        for array, value in inputs:
            array[...] = value
        for number, value in counters:
            number.value = value
        values = self._compute_numbers()
        saved = [array.copy() for array in self._backups]
        generators = [g.generator.bit_generator for g in self.recorder.generators
                      if hasattr(g.generator, "bit_generator")]
        states = [bits.state for bits in generators]
        try:
            with np.errstate(all="ignore"):
                for call in self.lowered.calls:
                    call()
        except Diverged:
            for array, before in zip(self._backups, saved, strict=True):
                array[...] = before
            for bits, state in zip(generators, states, strict=True):
                bits.state = state
            raise
        return [compute_number(x, values) if isinstance(x, Number)
                else self.lowered.array(x).copy()[()]
                for x in self.results], values

    def _compute_numbers(self):
        """Check the guards on Numbers, fill their arrays, and return {id of a Number: value}."""
        values = {}
        for number, check in self.recorder.number_guards:
            check(compute_number(number, values))
        for number, entry in self.recorder.numbers:
            entry[...] = compute_number(number, values)
        return values


def compute_number(x, values):
    """Return the value of a Number in this step; return any other `x` as it is."""
    if not isinstance(x, Number):
        return x
    if x.function is None:
        return x.value
    if id(x) not in values:
        values[id(x)] = x.function(*[compute_number(argument, values) for argument in x.arguments])
    return values[id(x)]

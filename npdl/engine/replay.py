"""Record a step once, and replay it.

A replay writes the inputs into the arrays of the Recording, and computes the numbers of the step
(such as the learning rate and bias corrections). Then it runs a list of function calls. A *guard*
checks that a value on which the calls depend is still the same. If a guard fails, the replay undoes
its writes and random draws, and raises `Diverged`.
"""

import copy
import ctypes
import sys
from numbers import Real

import numpy as np

from npdl.core import map_nested
from npdl.engine.operation import Number
from npdl.engine.recorded_array import Diverged, RecordedArray, Unsupported, plain_value
from npdl.engine.simplify import simplify
from npdl.engine.state import PLAIN, Mirror, find_leaves, is_random_generator


class Recording:
    """One recording of a step. The constructor runs the step once with `arguments` to record it.

    key         the `make_recording_key` of the arguments
    answer      what the step returned, if a replay is possible
    mirror      the copies on which the step was recorded (state.Mirror)
    operations  the simplified operations
    lowered     the calls of a replay (numpy_target.Calls, or cuda_target.CudaCalls on a GPU), or
                None if no replay is possible
    """

    def __init__(self, step, key, recorder, arguments):
        self.key, self.recorder, self.lowered, self._inputs = key, recorder, None, []
        with recorder, np.errstate(all="ignore"):
            self.mirror = Mirror(recorder, step.varying)
            objects = self.mirror.copy(step.objects)
            self.mirror.refuse_ids()
            if self.mirror.own_assigned_arrays():   # copy the objects again, with the new arrays
                self.mirror = Mirror(recorder, step.varying)
                objects = self.mirror.copy(step.objects)
            self._answer = step.function(*objects, *map_nested(self._wrap_argument, arguments))
            # The assignments may overwrite returned arrays of the state, so return copies
            self._answer = map_nested(lambda x: x.copy() if is_recorded_array(x) and not (
                x.buffer.is_temporary) else x, self._answer)
            self.mirror.record_assignments()
        recorder.check_overlaps()
        recorder.check_written()
        for x in find_leaves(lambda x: not isinstance(x, (np.ndarray, Real, *PLAIN)),
                             self._answer):
            raise Unsupported(f"the step returns a {type(x).__name__}; return arrays, numbers, and "
                              "tuples, lists or dicts of them")
        recorder.roll_back()
        release_freed_memory()
        if not self.mirror.keeps_structure:         # the next step is recorded again
            return
        results = [recorder.get_view(x) for x in find_leaves(is_recorded_array, self._answer)]
        self.operations = simplify(recorder.operations, results)
        self.lowered = step.target.make_calls(self.operations, results)
        self._backups = self._find_state_to_restore()
        try:
            self.answer = self.replay(arguments)    # so that the first step rounds like the others
        except Diverged:                # a guard on a value that the target rounds differently
            self.lowered = None

    def _wrap_argument(self, value):
        """Return an argument; wrap an array, a float or a generator, so that it is recorded."""
        if type(value) in (np.ndarray, np.memmap):
            recorded = self.recorder.wrap_array(np.array(value), "input")
        elif type(value) is float:
            recorded = Number(self.recorder, value)
        elif is_random_generator(value):
            recorded = self.recorder.wrap_generator(value)
        elif isinstance(value, (bool, int, str, np.generic, type(None))):
            return value
        else:
            raise Unsupported(f"an argument of the step is a {type(value).__name__}; give arrays, "
                              "numbers, generators, and tuples or dicts of them")
        self._inputs.append(plain_value(recorded) if is_recorded_array(recorded) else recorded)
        return recorded

    def _find_state_to_restore(self):
        """Return the parameters, gradients and moments that a replay may change before it fails."""
        ops = [op for operations in self.lowered.call_operations for op in operations]
        last = max((i for i, op in enumerate(ops) if op.can_diverge), default=0)
        buffers = {view.buffer for op in ops[:last] for view in op.written_views}
        return [buffer.array for buffer in buffers if buffer.role == "state"]

    def replay(self, arguments):
        """Replay the step and return what the function returns.

        Raises Diverged if a value on which the recording depends has changed. The state and the
        generators are then restored.
        """
        inputs = find_leaves(is_replay_input, arguments)
        for recorded, new in zip(self._inputs, inputs, strict=True):
            if isinstance(recorded, np.ndarray):
                recorded[...] = new
            elif isinstance(recorded, Number):
                recorded.value = new
            else:
                recorded.generator = new
        for container, key, number in self.mirror.counters:
            number.value = container[key]
        for container, key, entry in self.mirror.scalars:
            entry[...] = container[key]
        for function in self.recorder.before_replay:
            function()
        self._run_calls()
        results = iter([array.copy()[()] for array in self.lowered.results])
        for container, key, value in self.mirror.assignments:
            container[key] = plain_value(value)
        for container, key, entry in self.mirror.scalars:
            container[key] = entry[()]
        return map_nested(lambda x: next(results) if is_recorded_array(x) else copy.copy(
            plain_value(x)), self._answer)          # copies, because the caller may change arrays

    def _run_calls(self):
        arrays = [(array, array.copy()) for array in self._backups]
        generators = [(g.generator.bit_generator, g.generator.bit_generator.state)
                      for g in self.recorder.generators if hasattr(g.generator, "bit_generator")]
        try:
            with np.errstate(all="ignore"):
                for call in self.lowered.calls:
                    call()
        except Exception:                   # of a guard, or of a function such as np.linalg.inv
            for array, before in arrays:
                array[...] = before
            for bits, before in generators:
                bits.state = before
            raise


def is_replay_input(value):
    """Return True for an array, a float or a generator, which may differ in each replay."""
    return isinstance(value, np.ndarray) or type(value) is float or is_random_generator(value)


def is_recorded_array(value):
    """Return True for a recorded array."""
    return type(value) is RecordedArray


def release_freed_memory():
    """Give freed memory back to the system after a recording. Otherwise glibc keeps much of it."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)

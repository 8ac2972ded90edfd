"""Lower a recording to C: one function for each group, the other operations by NumPy.

The source is compiled once and cached (`c_build`), and a replay calls the functions through
ctypes, which releases the interpreter's lock.
"""

import ctypes
import functools

from npdl.engine import c_build
from npdl.engine.arena import aligned
from npdl.engine.c_module import can_be_function, module_source
from npdl.engine.numpy_target import Lowered
from npdl.engine.schedule import schedule


class CLowered(Lowered):
    """The calls of a recording. Each group that can be written in C is one C function."""

    def __init__(self, operations, results):
        groups = schedule(operations, results)
        rows = [group for group in groups if can_be_function(group)]
        source, sources = module_source(rows)
        library = c_build.load(source)
        self._functions = {group: (getattr(library, f"g{i}"), sources[i])
                           for i, group in enumerate(rows)}
        self._scratch = aligned(max([s.scratch for s in sources], default=0))
        self._kept = []
        super().__init__(groups, results)

    def lower(self, group):
        if group not in self._functions:
            return super().lower(group)
        function, source = self._functions[group]
        arrays = [self.array(view) for view in source.pointers]
        table = (ctypes.c_void_p * (len(arrays) + 1))(
            self._scratch.ctypes.data, *(array.ctypes.data for array in arrays))
        function.restype, function.argtypes = None, [ctypes.c_void_p]
        self._kept.append((table, arrays))
        address = ctypes.addressof(table)
        return [(functools.partial(function, address), group.operations)]

"""Translate a recording into C: one function for each group. NumPy computes other operations.

The source is compiled once and cached (`c_build`), and a replay calls the functions through
ctypes, which releases the interpreter's lock.
"""

import ctypes
import functools

from npdl.engine import c_build
from npdl.engine.arena import allocate_aligned
from npdl.engine.c_module import write_module
from npdl.engine.numpy_target import Calls
from npdl.engine.schedule import schedule


class CCalls(Calls):
    """The calls that replay a recording: a C function for each group that can be written in C."""

    def __init__(self, operations, results):
        groups = schedule(operations, results)
        text, sources = write_module(groups)
        library = c_build.load_library(text)
        self._functions = {group: (getattr(library, f"g{i}"), source)
                           for i, (group, source) in enumerate(sources.items())}
        self._scratch = allocate_aligned(
            max([source.scratch for source in sources.values()], default=0))
        super().__init__(groups, results)

    def lower(self, group):
        if group not in self._functions:
            return super().lower(group)
        function, source = self._functions[group]
        addresses = [array.ctypes.data for array in (
            self._scratch, *map(self.array, source.pointers))]
        function.restype, function.argtypes = None, [ctypes.c_void_p]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        return [(functools.partial(function, table), group.operations)]

"""Choose the target of a recording, the code that a replay runs: C, NumPy or CUDA.

The target "c" has a C function for most groups of operations (schedule.py). NumPy computes the
other groups. The C source is compiled once and cached (`c_build`). A replay calls the functions
through ctypes, which releases the interpreter's lock.
"""

import ctypes
import functools

from npdl.backend import is_host
from npdl.engine import c_build
from npdl.engine.arena import allocate_aligned
from npdl.engine.c_module import generate_c_module
from npdl.engine.cuda_target import CudaTarget
from npdl.engine.numpy_target import Calls, NumPyCalls
from npdl.engine.schedule import group_operations
from npdl.errors import InputError
from npdl.options import require_choice

TARGETS = ("auto", "c", "numpy")


class CCalls(Calls):
    """The calls that replay a recording: a C function for each group that can be written in C."""

    def __init__(self, operations, results):
        groups = group_operations(operations, results)
        text, sources = generate_c_module(groups)
        library = c_build.compile_and_load(text)
        self._functions = {group: (getattr(library, f"g{i}"), source)
                           for i, (group, source) in enumerate(sources.items())}
        self._scratch = allocate_aligned(
            max([source.scratch for source in sources.values()], default=0))
        super().__init__(groups, results)

    def make_group_calls(self, group):
        if group not in self._functions:
            return super().make_group_calls(group)
        function, source = self._functions[group]
        addresses = [self._scratch.ctypes.data,
                     *(view.buffer.address + view.offset for view in source.views)]
        function.restype, function.argtypes = None, [ctypes.c_void_p]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        return [(functools.partial(function, table), group.operations)]


class HostTarget:
    """The target "c", "numpy" or "auto" on the CPU. "auto" is C if a compiler works, else NumPy."""

    def __init__(self, name, print_note):
        self.name, self.print_note = name, print_note

    def make_calls(self, operations, results):
        if self.name != "numpy":
            try:
                return CCalls(operations, results)
            except c_build.CompilerError as error:
                if self.name == "c":
                    raise
                self.print_note(f"{error}; the step runs with NumPy instead, which is slower")
                self.name = "numpy"
        return NumPyCalls(operations, results)


def make_target(name, print_note):
    """Return the target called `name`: a CudaTarget on a GPU, otherwise a HostTarget."""
    require_choice("target", name, TARGETS)
    if is_host():
        return HostTarget(name, print_note)
    if name != "auto":
        raise InputError(f"target {name!r} runs on the CPU; on a GPU give target='auto'")
    return CudaTarget(print_note)

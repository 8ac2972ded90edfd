"""Choose the target of a recording, the code that a replay runs: C, NumPy or CUDA."""

from npdl.backend import is_host
from npdl.engine.c_build import CompilerError
from npdl.engine.c_target import CCalls
from npdl.engine.cuda_target import CudaTarget
from npdl.engine.numpy_target import NumPyCalls
from npdl.errors import InputError, require_choice

TARGETS = ("auto", "c", "numpy")


class HostTarget:
    """The target "c", "numpy" or "auto" on the CPU. "auto" is C if a compiler works, else NumPy."""

    def __init__(self, name, note):
        self.name, self.note = name, note

    def lower(self, operations, results):
        if self.name != "numpy":
            try:
                return CCalls(operations, results)
            except CompilerError as error:
                if self.name == "c":
                    raise
                self.note(f"{error}; the step runs with NumPy instead, which is slower")
                self.name = "numpy"
        return NumPyCalls(operations, results)


def make_target(name, note):
    """Return the target called `name`, which is a HostTarget, or a CudaTarget on a GPU."""
    require_choice("target", name, TARGETS)
    if is_host():
        return HostTarget(name, note)
    if name != "auto":
        raise InputError(f"target {name!r} runs on the CPU; on a GPU give target='auto'")
    return CudaTarget(note)

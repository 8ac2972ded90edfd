"""Choose the target of a recording: "numpy", "c", or "auto", which is C if that works."""

from npdl.backend import is_host
from npdl.engine.c_build import CompilerError
from npdl.engine.c_target import CTarget
from npdl.engine.cuda_target import CudaTarget
from npdl.engine.numpy_target import NumPyTarget
from npdl.errors import InputError, require_choice

TARGETS = ("auto", "c", "numpy")


class AutoTarget:
    """The C target, or NumPy if no compiler works; one line says so."""

    def __init__(self, note):
        self.note, self._chosen = note, CTarget()

    @property
    def name(self):
        return self._chosen.name

    def lower(self, groups, results):
        try:
            return self._chosen.lower(groups, results)
        except CompilerError as error:
            self.note(f"{error}; the step runs with NumPy instead, which is slower")
            self._chosen = NumPyTarget()
            return self._chosen.lower(groups, results)


def make_target(name, note):
    """Return the target called `name`; on a GPU, CUDA."""
    require_choice("target", name, TARGETS)
    if not is_host():
        if name != "auto":
            raise InputError(f"target {name!r} computes on the processor; on a GPU give 'auto'")
        return CudaTarget(note)
    return {"auto": lambda: AutoTarget(note), "c": CTarget, "numpy": NumPyTarget}[name]()

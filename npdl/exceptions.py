"""What npdl raises; npdl.errors has the checks that raise it, and imports NumPy."""


class NpdlError(Exception):
    """The base of everything that npdl raises itself."""


class InputError(NpdlError, ValueError):
    """An argument, an option or a file of data that npdl cannot accept."""


class CheckpointError(NpdlError, RuntimeError):
    """A checkpoint that cannot be written, read, or used with this model."""


class BackendError(NpdlError, RuntimeError):
    """An array backend that is not installed or cannot run on this machine."""

"""What npdl raises, and how it is said; npdl.errors has the checks, and imports NumPy."""

import errno


class NpdlError(Exception):
    """The base of everything that npdl raises itself."""


class InputError(NpdlError, ValueError):
    """An argument, an option or a file of data that npdl cannot accept."""


class CheckpointError(NpdlError, RuntimeError):
    """A checkpoint that cannot be written, read, or used with this model."""


class BackendError(NpdlError, RuntimeError):
    """An array backend that is not installed or cannot run on this machine."""


REMEDIES = {**dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit, ulimit -n"),
            **dict.fromkeys((errno.EAGAIN, errno.ENOMEM), "end other programs, or free memory"),
            **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose another place")}


def remedy(error):
    """Return what the user can do about an OSError."""
    return REMEDIES.get(error.errno, "free space, or choose another place")


def printable(text, but=""):
    """Return a text in which characters that aren't printable are escaped as in Python.

    Such characters would end a line or change the terminal. Those in `but`, say "\\n\\t", are kept.
    """
    return "".join(c if c.isprintable() or c in but else repr(c)[1:-1] for c in text)

"""Exceptions of npdl, without NumPy. The checks that raise them are in npdl.errors."""

import errno


class NpdlError(Exception):
    """Base class of the exceptions of npdl."""


class InputError(NpdlError, ValueError):
    """An argument, an option or a data file is invalid."""


class CheckpointError(NpdlError, RuntimeError):
    """A checkpoint can't be written, can't be read, or doesn't fit the model."""


class BackendError(NpdlError, RuntimeError):
    """An array backend is not installed, or can't run on this machine."""


REMEDIES = {**dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit, ulimit -n"),
            **dict.fromkeys((errno.EAGAIN, errno.ENOMEM), "end other programs, or free memory"),
            **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose another place"),
            errno.ENOENT: "make the folder, or choose another place"}


def suggest_remedy(error):
    """Return advice for the user on an OSError."""
    return REMEDIES.get(error.errno, "free space, or choose another place")


def to_printable(text, allowed=""):
    """Return `text` with its unprintable characters escaped as in Python, except for `allowed`.

    Such characters would end a line or change the terminal.
    """
    return "".join(c if c.isprintable() or c in allowed else repr(c)[1:-1] for c in text)

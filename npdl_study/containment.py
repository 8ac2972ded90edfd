"""A student's code at arm's length: what it may do is raise, no more.

It may call sys.exit, raise what is no Exception, never end, or hold itself; the tools say so in a
line and go on, or stop with a status of their own.
"""

import contextlib
import copy
import functools
import inspect
import os
import sys
import types
from pathlib import Path

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from npdl.errors import InputError
from npdl.files import write_atomically
from npdl_study.trees import by_input, leaves

STUDY = os.path.dirname(__file__) + os.sep
NUMPY = os.path.dirname(np.__file__) + os.sep


class CodeLeft(Exception):
    """The student's code called sys.exit, or raised something that is no Exception."""


class TimeOver(BaseException):
    """The student's code has not ended in time; no `except Exception` of its own stops this."""


def message(error, most=600):
    """An exception as "Type: text" on one line, whatever its text holds or does."""
    try:
        text = str(error)
    except Exception as second:
        text = f"(its text can't be shown: {type(second).__name__})"
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    text = text if len(text) <= most else text[:most] + " ..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def called(work, what):
    """What a student's function returns; CodeLeft when it leaves by anything but an Exception. Its
    views stay inside of the memory of their arrays."""
    before, as_strided.__code__ = as_strided.__code__, BOUNDED.__code__
    try:
        return work()
    except (Exception, KeyboardInterrupt, TimeOver):
        raise
    except SystemExit as error:
        raise CodeLeft(f"{what} called sys.exit({error.code!r}); take that out") from error
    except BaseException as error:
        raise CodeLeft(f"{what} raised {message(error)}, which is no Exception") from error
    finally:
        as_strided.__code__ = before


def _bounded():
    """as_strided with its own signature, that calls `view_inside`: what has imported the function
    by its name runs that code, too."""
    own, space = inspect.signature(as_strided), {}
    given = ", ".join(f"{name}={name}" for name in own.parameters)
    exec(f"def bounded{own}:\n    from npdl_study.containment import view_inside\n"
         f"    return view_inside({given})", space)
    return space["bounded"]


BOUNDED = _bounded()
UNBOUNDED = types.FunctionType(as_strided.__code__, as_strided.__globals__, "as_strided",
                               as_strided.__defaults__)
UNBOUNDED.__kwdefaults__ = as_strided.__kwdefaults__


def view_inside(x, **how):
    """as_strided(x, **how); ValueError for a view beyond the memory of x, where a read may end the
    process."""
    view, memory = UNBOUNDED(x, **how), np.asarray(x)
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    (low, high), (begin, end) = byte_bounds(view), byte_bounds(memory)
    if view.size and not begin <= low <= high <= end:
        raise ValueError(f"as_strided: a view of shape {view.shape} with strides {view.strides} "
                         f"reaches beyond the array of shape {np.shape(x)}")
    return view


def held_off(layer):
    """A layer with the same parameters, whose forward and backward leave by an Exception only."""
    if type(layer).__module__.startswith("npdl."):
        return layer
    twin = copy.copy(layer)
    twin.__class__ = _guarded(type(layer))
    return twin


@functools.lru_cache(maxsize=64)
def _guarded(cls):
    def forward(self, *given, **options):
        self._floats = [any(True for _ in leaves(value)) for value in given]
        return called(lambda: cls.forward(self, *given, **options), f"{cls.__name__}.forward")

    def backward(self, *given, **options):
        returned = called(lambda: cls.backward(self, *given, **options),
                          f"{cls.__name__}.backward")
        returned, self._places = by_input(returned, self._floats)
        return returned

    forward.__signature__ = inspect.signature(cls.forward)
    return type(cls.__name__, (cls,), {"forward": forward, "backward": backward,
                                       "__module__": cls.__module__})


@contextlib.contextmanager
def time_limit(seconds, more=" Give more time with --limit, or smaller shapes with --input"):
    """Raise InputError when the block runs longer; no limit where the system has no timers."""
    try:
        import signal

        before = signal.signal(signal.SIGALRM, _Alarm())
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    except (ImportError, AttributeError, ValueError):       # Windows, a browser, another thread
        yield
        return
    try:
        yield
    except TimeOver as error:
        raise InputError(
            f"not at an end after {seconds:g} seconds, at {error}: a loop without an end?{more}"
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Alarm:
    """Ends what runs; a second later again, in case a bare `except:` caught that, then for good."""

    def __init__(self):
        self.times = 0

    def __call__(self, number, frame):
        self.times += 1
        where = place(frame)
        if self.times > 3:
            sys.stderr.write(f"not at an end in time, at {where}, where `except:` catches what "
                             "would stop it; write `except Exception:`\n")
            sys.stderr.flush()
            os._exit(2)
        raise TimeOver(where)


def place(frame):
    """file.py:12 of the innermost frame that is the student's own."""
    innermost = frame
    while frame is not None and frame.f_code.co_filename.startswith((STUDY, NUMPY)):
        frame = frame.f_back
    frame = frame or innermost
    return f"{os.path.basename(frame.f_code.co_filename.split('#')[0])}:{frame.f_lineno}"


def written(path, text):
    """Write a text file whole or not at all (npdl.files.write_atomically), and its folder where it
    is not there; return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))
    return path

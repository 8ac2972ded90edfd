"""Limit the time of a student's code, describe its exceptions, and recognise its files."""

import contextlib
import functools
import itertools
import os
import sys
import sysconfig
import traceback
from pathlib import Path

import numpy as np

from npdl.errors import InputError, NpdlError
from npdl.files import make_write_error, write_atomically

NPDL = sys.modules["npdl"].__file__.rpartition("__init__")[0]     # npdl's folder
LONGEST = 600                   # characters of an exception's text that are shown
LIBRARIES = [Path(np.__file__).parent,                 # NumPy, then the standard library
             *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))]


class TimeLimitExceeded(BaseException):
    """A student's code exceeded the time limit. `except Exception` doesn't catch this exception."""


@contextlib.contextmanager
def add_note_on_timeout(make_note):
    """Add the text make_note() to a TimeLimitExceeded exception that ends the `with` block."""
    try:
        yield
    except TimeLimitExceeded as error:
        error.add_note(make_note())
        raise


def format_exception(error):
    """Return an exception as "Type: text" on one line.

    Characters that can't be printed are replaced, and the text is cut to LONGEST characters.
    """
    try:
        text = str(error)
    except Exception as second:
        text = f"(its text can't be shown: {type(second).__name__})"
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    text = "".join(c if c.isprintable() else "?" for c in text)
    text = text if len(text) <= LONGEST else text[:LONGEST] + " ..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_npdl_class(cls):
    """Return True if a class belongs to npdl, but not to npdl.study."""
    return cls.__module__.startswith("npdl.") and not cls.__module__.startswith("npdl.study.")


@functools.lru_cache(maxsize=4096)
def is_library_file(filename):
    """Return True if a file belongs to Python, to NumPy, or to a folder of installed packages."""
    path = Path(filename)
    return (filename.startswith("<frozen") or any(folder in path.parents for folder in LIBRARIES)
            or not {"site-packages", "dist-packages"}.isdisjoint(path.parts))


def is_student_file(filename):
    """Return True if a file belongs neither to npdl nor to a library."""
    return not (is_library_file(filename) or filename.startswith(NPDL))


@contextlib.contextmanager
def time_limit(seconds, advice="; give more time with --limit, or smaller shapes with --input"):
    """Raise InputError if the `with` block uses more than `seconds` of processor time.

    `advice` is the end of the error message. On Windows there is no limit.
    """
    try:
        import signal

        before = signal.signal(signal.SIGPROF, functools.partial(_raise_timeout, itertools.count()))
        signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    except (ImportError, AttributeError, ValueError):       # Windows, a browser, another thread
        yield
        return
    try:
        yield
    except TimeLimitExceeded as error:
        progress = "".join(f"; so far, {note}" for note in getattr(error, "__notes__", ())[:1])
        raise InputError(f"the code did not finish within {seconds:g} seconds of processor time"
                         f"{error}{progress}{advice}") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _raise_timeout(counter, signal_number, frame):
    """Raise TimeLimitExceeded. This signal handler counts its calls with `counter`.

    A bare `except:` may catch the exception. So the handler is called again each second, and the
    fourth call ends the process.
    """
    frames = [*traceback.walk_stack(frame)][::-1]
    where = format_student_location(" (at {}: an endless loop?)", frames)
    if next(counter) >= 3:
        sys.stderr.write(f"the code did not finish in time{where}; an `except:` in it caught "
                         "the time limit: write `except Exception:`\n")
        sys.stderr.flush()
        os._exit(2)
    raise TimeLimitExceeded(where)


def describe_exception(error):
    """Return an exception with the student's line that raised it: "Type: text at mine.py:12"."""
    frames = traceback.walk_tb(error.__traceback__)
    return format_exception(error) + format_student_location(" at {}", frames)


def format_student_location(template, frames):
    """Return where the student's code is running, such as " at mine.py:12".

    template  the format of the result, such as " at {}"
    frames    pairs (frame, line number), the innermost last; the last one in a student's file is
              used. The result is "" if there is none.
    """
    found = ""
    for frame, number in frames:
        name = frame.f_code.co_filename
        if is_student_file(name):
            found = template.format(f"{os.path.basename(name)}:{number}")
    return found


def write_text(path, text):
    """Write a text file atomically and return its path. A missing folder is created.

    Raises InputError if the file can't be written.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))
    except (OSError, NpdlError) as problem:
        if isinstance(problem, OSError):
            problem = make_write_error(path, problem)
        raise InputError(str(problem)) from problem
    return path

"""How npdl's scripts begin and end: an exit status, and one line when something is wrong."""

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
import warnings

from npdl.exceptions import (  # and nothing that imports NumPy: see `start_script`
    NpdlError,
    printable,
    remedy,
)

BAD, INTERRUPTED = 2, 130
TRAIN = ("joblib", "matplotlib", "threadpoolctl", "tqdm")       # the extra `train`
IN_TEXTS = "\n\t\xa0\u200c\u200d\u202f\u3000"      # spaces and joiners, which scripts need


class OneLineParser(argparse.ArgumentParser):
    """Bad usage is one line on standard error, and exit status 2."""

    def error(self, message):
        self.exit(BAD, f"{self.prog}: {printable(' '.join(message.split()))}; see --help\n")

    def print_help(self, file=None):
        def show():                     # argparse's own says nothing when the output is closed
            print(self.format_help(), end="", file=file or sys.stdout)
            return 0

        status = guarded(self.prog, show)
        if status:
            self.exit(status)


class Help(argparse.RawDescriptionHelpFormatter):
    """A help without the options whose action is marked `rare`."""

    def add_usage(self, usage, actions, groups, prefix=None):
        super().add_usage(usage, [a for a in actions if not getattr(a, "rare", False)], groups,
                          prefix)

    def add_argument(self, action):
        if not getattr(action, "rare", False):
            super().add_argument(action)


class _HelpAll(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.print_help()
        parser.exit()


def set_description(parser, text, given_only=False):
    """Give a command's parser its description, lines as they stand; with `given_only` options that
    are not given will be absent."""
    parser.description, parser.formatter_class = text, Help
    if given_only:
        parser.argument_default = argparse.SUPPRESS


def offer_all(parser):
    """Add --help-all, which shows the rare options too."""
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, dest=argparse.SUPPRESS,
                        help="show the rare options, too, and exit")


def file_or_folder(text):
    """Check an argument that names a file or a folder: it must not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a file or a folder")
    return text


def positive(text):
    """Check an argument that counts: an integer, 1 or more."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return int(text)


def folder(text):
    """Check an argument that names a folder to write into, which may exist."""
    if os.path.lexists(file_or_folder(text)) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is there and is not a folder; name another one")
    return text


def start_script():
    """Make Ctrl-C quiet while a script imports the rest of npdl: its first call.

    Standard streams that were closed lead nowhere from here on (else the next file that is opened
    would get their number, and what a library writes there). Scripts draw into files, whatever
    windows MPLBACKEND asks for, and warnings are for those who can change the code (python -W).
    A package of TRAIN that the imports to come do not find is one line, and exit status 2.
    """
    signal.signal(signal.SIGINT, _leave)
    sys.excepthook = _unguarded
    open_streams()
    os.environ["MPLBACKEND"] = "agg"
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def note(line):
    """Say something on standard error; that nobody reads it any more ends no work."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def guarded(prog, work):
    """Call `work` and return its exit status, 2 for what went wrong, 130 for Ctrl-C.

    npdl's own errors, a package of TRAIN that is missing, refusals of the system and of memory, and
    an output that was closed become one line on standard error. A character that the output's
    encoding lacks is shown as "?".
    """
    open_streams()
    try:
        with _interrupts():
            status = work()
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except NpdlError as error:
        line = str(error)
    except ImportError as error:
        line = package_problem(error)
        if not line:
            raise
    except MemoryError as error:
        line = (f"not enough memory ({' '.join(str(error).split()) or 'none is left'}); "
                "choose a smaller --width, --batch or --p")
    except BrokenPipeError:
        line = "the output was closed before its end; let its reader read all of it"
    except OSError as error:
        what = error.strerror or " ".join(str(error).split())
        name = f"{error.filename}: " if error.filename else ""
        line = f"{name}the system refused ({what}); {remedy(error)}"
    finally:
        _drop_unwritten(sys.stderr)
    _drop_unwritten(sys.stdout)
    note(f"{prog}: {printable(line)}")
    _drop_unwritten(sys.stderr)
    return BAD


def missing_packages():
    """Return a line on the missing packages of the extra `train`, or "" if none is missing."""
    missing = [name for name in TRAIN if importlib.util.find_spec(name) is None]
    return missing and (f"{missing[0]} is not installed; install what is missing with "
                        f"'pip install {' '.join(missing)}'")


def package_problem(error):
    """Return a line on the package of the extra `train` that an ImportError is about, or ""."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in TRAIN:
        return missing_packages()
    for name in TRAIN:
        if name not in sys.modules and importlib.util.find_spec(name) is not None:
            try:
                importlib.import_module(name)
            except ImportError as again:
                if str(again) == str(error):
                    why = " ".join(str(error).split())
                    return (f"{name} is installed, but does not load ({why}); reinstall it with "
                            f"'pip install --force-reinstall {name}'")
    return ""


def _unguarded(kind, error, trace):
    line = package_problem(error) if issubclass(kind, ImportError) else ""
    if not line:
        sys.__excepthook__(kind, error, trace)
        return
    spec = sys.modules["__main__"].__spec__
    note(f"python -m {spec.parent}: {line}" if spec else f"{os.path.basename(sys.argv[0])}: {line}")
    os._exit(BAD)


def print_text(text, end="\n"):
    """Print a text of a model's. A terminal gets what can be shown: other characters are commands
    to it. A file or a pipe gets the text as it is."""
    if sys.stdout.isatty():
        text = printable(text, IN_TEXTS)
    print(text, end=end, flush=True)


def open_streams():
    """Standard output and error as every script needs them: there, and able to show any text."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)         # takes the lowest number that is free
            setattr(sys, name, open(handle, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "replace") not in ("replace", "backslashreplace"):
            with contextlib.suppress(AttributeError):       # not a file of Python's own
                stream.reconfigure(errors="replace")


def _leave(number, frame):
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def _interrupts():
    """Let Ctrl-C raise KeyboardInterrupt instead of exiting at once (`start_script`), so that work
    can clean up."""
    if signal.getsignal(signal.SIGINT) is not _leave:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _leave)


def _drop_unwritten(stream):
    """Write what waits in a stream's buffer, or drop it where that fails again.

    Otherwise the interpreter tries once more when it ends, and complains at length.
    """
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)

"""Start and end npdl's scripts, with an exit status and error messages of one line."""

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
import warnings

from npdl.exceptions import (  # this module must not import NumPy: see `prepare_script`
    NpdlError,
    suggest_remedy,
    to_printable,
)

BAD, INTERRUPTED = 2, 130       # exit statuses
TRAIN = ("joblib", "matplotlib", "threadpoolctl", "tqdm")       # the extra `train`
IN_TEXTS = "\n\t\xa0\u200c\u200d\u202f\u3000"      # spaces and joiners, which some languages need


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports an invalid command line in one line, with exit status 2."""

    def error(self, message):
        self.exit(BAD, f"{self.prog}: {to_printable(' '.join(message.split()))}; see --help\n")

    def print_help(self, file=None):
        def write_help():               # argparse ignores that the output is closed
            print(self.format_help(), end="", file=file or sys.stdout)
            return 0

        status = run_guarded(self.prog, write_help)
        if status:
            self.exit(status)


class Help(argparse.RawDescriptionHelpFormatter):
    """A formatter of help texts that leaves out options whose action is marked `rare`."""

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


def set_description(parser, description, omit_defaults=False):
    """Set a parser's description, whose lines are not wrapped.

    With `omit_defaults`, parsing returns only the options that the user gives, and no defaults.
    """
    parser.description, parser.formatter_class = description, Help
    if omit_defaults:
        parser.argument_default = argparse.SUPPRESS


def add_help_all(parser):
    """Add the option --help-all, which also shows the rare options."""
    parser.add_argument("--help-all", action=_HelpAll, nargs=0, dest=argparse.SUPPRESS,
                        help="show the rare options, too, and exit")


def checked_path_text(text):
    """Return `text`, the name of a file or folder. Raise ArgumentTypeError if it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; name a file or a folder")
    return text


def parse_positive(text):
    """Return `text` as an integer. Raise ArgumentTypeError if it is below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be an integer, 1 or more")
    return int(text)


def prepare_script(prog=None):
    """Prepare a script. This must be its first call, before the other imports of npdl.

    After this call, Ctrl-C exits without a traceback. Closed standard streams are replaced by the
    null device; otherwise the next opened file would get their descriptor, and messages would
    be written into it. Matplotlib draws only into files. Warnings are hidden unless python -W is
    given. If the script needs the packages in TRAIN (the extra `train`), give the script's name as
    `prog`. If one of them is missing, the process prints one line and exits with status 2.
    """
    signal.signal(signal.SIGINT, _exit_on_signal)
    reopen_closed_streams()
    os.environ["MPLBACKEND"] = "agg"
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if prog and (line := describe_missing_packages()):
        print_note(f"{prog}: {line}")
        sys.exit(BAD)


def print_note(line):
    """Print a line on standard error. If standard error is closed, do nothing."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def run_guarded(prog, function):
    """Call `function` and return its exit status, or 2 after an error, or 130 after Ctrl-C.

    Some errors are printed on standard error, in one line that begins with `prog`, the program's
    name: npdl's errors, a missing package in TRAIN, errors of the system, a lack of memory, and a
    closed output. Characters that the output's encoding doesn't have are printed as "?".
    """
    reopen_closed_streams()
    try:
        with _enable_interrupts():
            status = function()
            sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except NpdlError as error:
        line = str(error)
    except ImportError as error:
        line = describe_import_error(error)
        if not line:
            raise
    except MemoryError as error:
        line = (f"not enough memory ({' '.join(str(error).split()) or 'none is left'}); "
                "use a smaller model, batch or input, or end other programs")
    except BrokenPipeError:
        line = "the output was closed before everything was printed; keep it open"
    except OSError as error:
        cause = error.strerror or " ".join(str(error).split())
        name = f"{error.filename}: " if error.filename else ""
        line = f"{name}the system reports an error ({cause}); {suggest_remedy(error)}"
    finally:
        _flush_or_discard(sys.stderr)
    _flush_or_discard(sys.stdout)
    print_note(f"{prog}: {to_printable(line)}")
    _flush_or_discard(sys.stderr)
    return BAD


def run_until_output_closes(run, options):
    """Run a command and return its exit status.

    If the output is closed early, as by `head`, return `options.status` if the command has set it,
    and otherwise 0.
    """
    try:
        status = run(options)
        sys.stdout.flush()
        return status or 0
    except BrokenPipeError:
        _flush_or_discard(sys.stdout)
        return getattr(options, "status", 0)


def describe_missing_packages():
    """Return a message about missing packages of the extra `train`, or "" if none is missing."""
    missing = [name for name in TRAIN if importlib.util.find_spec(name) is None]
    return (f"{missing[0]} is not installed; install the missing packages with 'pip install "
            f"{' '.join(missing)}'") if missing else ""


def describe_import_error(error):
    """Return a message on an ImportError of a package in TRAIN. For other errors, return ""."""
    for name in TRAIN:
        try:
            importlib.import_module(name)
        except ImportError as repeated:
            if str(repeated) == str(error):
                cause = " ".join(str(error).split())
                return describe_missing_packages() or (
                    f"{name} is installed, but does not load ({cause}); reinstall it with "
                    f"'pip install --force-reinstall {name}'")
    return ""


def print_generated_text(text, end="\n"):
    """Print a text that a model has generated.

    On a terminal, control characters are escaped, because the terminal would execute them. A file
    or a pipe gets the text unchanged.
    """
    if sys.stdout.isatty():
        text = to_printable(text, IN_TEXTS)
    print(text, end=end, flush=True)


def reopen_closed_streams():
    """Reopen closed standard streams, and let the outputs replace characters they can't encode."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)         # takes the lowest free number
            setattr(sys, name, open(handle, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "replace") not in ("replace", "backslashreplace"):
            with contextlib.suppress(AttributeError):       # not a file object of Python
                stream.reconfigure(errors="replace")


def _exit_on_signal(number, frame):
    os._exit(INTERRUPTED)


@contextlib.contextmanager
def _enable_interrupts():
    """Let Ctrl-C raise KeyboardInterrupt inside the block, so that the work can clean up.

    Outside, Ctrl-C exits at once (`prepare_script`).
    """
    if signal.getsignal(signal.SIGINT) is not _exit_on_signal:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _exit_on_signal)


def _flush_or_discard(stream):
    """Flush a stream, or discard its buffer if that fails.

    If the buffer stayed, the interpreter would try again at exit, and print a traceback.
    """
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            null_device = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null_device, stream.fileno())
            os.close(null_device)

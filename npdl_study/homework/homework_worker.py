"""The process that grades one task of one submission: `homework_class` starts it.

Student code runs in here, beside the tests that judge it. An audit hook refuses writing outside of
its folder, processes, connections and threads; the system's own limits hold where there are any;
and what the loaded modules held before is compared afterwards. None of this is a prison: code that
walks the frames above it finds the tests.
"""

import importlib
import json
import os
import sys
import types

MEMORY = 4 << 30            # bytes of addresses a submission may use
LONGEST = 2000              # characters of a reason
# The system's limits; that no process and no thread starts is not kept for root.
LIMITS = {"RLIMIT_AS": MEMORY, "RLIMIT_FSIZE": 16 << 20, "RLIMIT_CORE": 0, "RLIMIT_NPROC": 0}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
             "os.startfile", "os.kill", "os.killpg", "subprocess.", "socket.", "ctypes.",
             "os.chmod", "os.chown", "os.chdir", "os.link", "os.symlink", "os.setxattr",
             "os.removexattr", "resource.", "gc.get_", "_winapi.CreateProcess")
PLACES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.utime")
WATCHING = ("sys.setprofile", "sys.settrace")
# What reaches outside without an audit event: {modules: functions}.
NO_EVENT = {
    ("_posixsubprocess", "subprocess"): ("fork_exec",),
    ("_thread", "threading"): ("start_new_thread", "start_new", "start_joinable_thread"),
    ("_signal", "signal"): ("pidfd_send_signal",),
    ("posix", "os"): ("mkfifo", "mknod"),
}
# Modules that start, write or connect without an audit event, and those that differentiate.
MODULES = ("_posixsubprocess", "_posixshmem", "_xxsubinterpreters",
           "_interpreters", "_cffi_backend", "_sqlite3", "_dbm", "_gdbm", "_tkinter", "readline",
           "torch", "jax", "tensorflow", "autograd")
OWN = ("npdl", "numpy", "__main__")     # packages of which every name is kept, not functions only


def guard(folder):
    """An audit hook that lets code write below `folder` alone, and start or reach nothing."""
    realpath, isdir = os.path.realpath, os.path.isdir
    inside, npdl = os.path.join(realpath(folder), ""), os.path.dirname(os.path.dirname(__file__))
    forbidden, places, watching, modules = FORBIDDEN, PLACES, WATCHING, MODULES

    def outside(place):
        return isinstance(place, int) or not (
            realpath(os.fsdecode(place)) + os.sep).startswith(inside)

    def hook(event, arguments):
        if event.startswith(forbidden):
            raise PermissionError(f"{event} is not allowed in homework")
        if event == "import":
            name, file = arguments[:2]
            if name in modules or (file and not outside(file)):     # its own: compiled code
                raise ImportError(f"import {name} is not allowed in homework")
        elif event in watching:
            if not sys._getframe(1).f_code.co_filename.startswith(npdl + os.sep):
                raise PermissionError(f"{event} is not allowed in homework")
        elif event in places:
            if any(map(outside, arguments[: 2 if event == "os.rename" else 1])):
                raise PermissionError(f"{event} outside of its own folder is not allowed")
        elif event == "open" and not isinstance(arguments[0], int):
            place, _, flags = arguments
            if isdir(place) or ((flags or 0) & WRITING and outside(place)):
                # what is reached by an opened folder, no event tells
                raise PermissionError("open outside of its own folder is not allowed")

    return hook


def refuse_silent_calls():
    """Take away the calls of NO_EVENT: those of the first module, and the second's copies."""
    def refused(*arguments, **options):
        raise PermissionError("processes, threads and pipes are not allowed in homework")

    for modules, names in NO_EVENT.items():
        for module in modules:
            try:
                held = vars(importlib.import_module(module))
            except ImportError:             # Windows
                continue
            for name, value in list(held.items()):
                if isinstance(value, types.BuiltinFunctionType) and value.__name__ in names:
                    held[name] = refused


def limit():
    """Set LIMITS, or what is left of them under the limits that are there already."""
    try:
        import resource
    except ImportError:                 # Windows
        return
    for name, most in LIMITS.items():
        try:
            which = getattr(resource, name)
            there = [n for n in resource.getrlimit(which) if n != resource.RLIM_INFINITY]
            most = min([most, *there])
            resource.setrlimit(which, (most, most))
        except (AttributeError, ValueError, OSError):       # macOS refuses some
            pass


def kept():
    """[(place, namespace, {name: object})] of every loaded module and class: what `altered`
    compares. Of npdl and NumPy every name is kept, of others their functions and classes."""
    import numpy as np

    from npdl.backend import xp

    for name in np.__all__:                 # xp looks a name up once, then holds it
        getattr(xp, name)
    found = [("sys.modules", sys.modules, dict(sys.modules))]
    seen = set()
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType):
            _keep(found, seen, name, object.__getattribute__(module, "__dict__"),
                  name.split(".")[0] in OWN)
    return found


def _keep(found, seen, place, names, everything):
    if id(names) in seen:
        return
    seen.add(id(names))
    held = {name: value for name, value in list(names.items())
            if everything or callable(value) or isinstance(value, (classmethod, property))}
    found.append((place, names, held))
    for name, value in held.items():
        inner = f"{place}.{name}"
        if isinstance(value, types.FunctionType) and everything:
            parts = ("__code__", "__defaults__", "__kwdefaults__")
            found.append((inner, _Attributes(value), {n: getattr(value, n) for n in parts}))
        elif isinstance(value, type) and value not in seen:
            seen.add(value)
            _keep(found, seen, inner, vars(value), everything)
        elif everything and type(value) is dict and place in sys.modules:
            found.append((inner, value, dict(value)))       # a registry, say
        elif everything and type(value).__module__.startswith("npdl.") and hasattr(
                value, "__dict__"):
            found.append((inner, _Attributes(value), dict(vars(value))))


class _Attributes:
    """The attributes of a function, or of xp, looked up as in a dict."""

    def __init__(self, owner):
        self.owner = owner

    def get(self, name, default):
        return getattr(self.owner, name, default)


def altered(before):
    """"npdl.functions.softmax" for a name that no longer holds what it held; "" for none."""
    gone = object()
    for place, names, held in before:
        for name, value in held.items():
            if names.get(name, gone) is not value:
                return f"{place}.{name}"
    return ""


def main():
    """Grade one task: what is asked comes in by standard input, a line for each check goes out."""
    asked = json.loads(sys.stdin.readline())
    import npdl_study.blame.blame  # noqa: F401  (before the guard: it need not be allowed anything)
    from npdl_study.check.target import find_class
    from npdl_study.homework import homework_grade as grade

    grade.Watch(find_class(asked["name"]), asked["own"])        # raises: homework of another npdl
    channel, write, quoted = os.dup(1), os.write, json.encoder.encode_basestring_ascii

    def say(check, result):             # by nothing that student code could change
        write(channel, f"{asked['secret']}[{quoted(check)}, {quoted(result)}]\n".encode())

    refuse_silent_calls()
    limit()
    sys.path.insert(0, asked["folder"])     # before the folder that the grader was started in
    before = kept()
    say("ready", "")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):                # student code prints to nobody
        os.dup2(nowhere, number)
    sys.addaudithook(guard(asked["folder"]))
    cls, trouble = None, ""
    try:
        cls = grade.load(asked["module"], asked["name"])
        watch = grade.Watch(cls, asked["own"])
    except AssertionError as error:
        trouble = str(error)
    checks = grade.checks_of(asked["name"])
    checks["your own work"] = lambda cls: watch.refuse()        # the last: of all the others
    for check, assertion in checks.items():
        result = trouble or result_of(watch.during, assertion, cls)
        changed = altered(before)
        if changed and not trouble:
            trouble = result = f"{asked['module']}.py changes {changed}, which is not its own"
        say(check, result[:LONGEST])
    say("end", "")


def result_of(work, *given):
    """"" when work(*given) ends, else why it does not."""
    from npdl_study.containment import message

    try:
        work(*given)
    except AssertionError as error:
        return str(error) or "an assertion failed"
    except BaseException as error:          # sys.exit in student code is one, too
        return message(error)
    return ""


if __name__ == "__main__":
    main()

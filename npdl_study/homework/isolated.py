"""A process for a student's code, from both sides: `isolated` starts it, `main` runs in it.

It is handed the file as handed out and what to run, as JSON, and hands back arrays. What is right
it doesn't know: npdl's own functions that were asked for are taken out of it, and the comparison
is made elsewhere (`judging`).
"""

import contextlib
import importlib
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from npdl.process import confine
from npdl_study.check.target import find_class
from npdl_study.homework.judging import answers
from npdl_study.homework.selftest import blamed
from npdl_study.homework.splice import MODULES, NotOwn, student_class

MOST_SAID = 4 << 20         # bytes of an answer
LIMITS = {"AS": 2 << 30, "FSIZE": 0, "NOFILE": 64, "NPROC": 0, "CORE": 0}
FIRST_USER = 10_000         # as root: a user for each process, who owns nothing and has no name
RUNNING = set()             # processes of student code


class NotGraded(Exception):
    """What the grader failed at; it costs nobody a point."""


def isolated(asked, folder, limit):
    """({name: array} that a process of student code answers, how it ended, "" for by itself)."""
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "HOME": folder,
                   "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg", "PATH": os.defpath,
                   "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(json.dumps(asked | {"limit": limit, "parent": os.getpid()}).encode())
        given.seek(0)
        process = subprocess.Popen([sys.executable, "-P", "-m", __spec__.name], cwd=folder,
                                   stdin=given, stdout=subprocess.PIPE, stderr=errors,
                                   env=environment, start_new_session=True)
        RUNNING.add(process)
        try:
            said, late = _read(process.stdout, time.monotonic() + limit)
        finally:
            end(process)
            RUNNING.discard(process)
            process.stdout.close()
        status = process.returncode or 0
        ended = (f"not at an end after {limit:g} seconds" if late else
                 f"ended by signal {-status}" if status < 0 else
                 "ended the program before its tests were done")
        errors.seek(0)
        last = errors.read(MOST_SAID).decode(errors="replace").splitlines()[-1:]
    if not said:
        raise NotGraded(f"{ended}, before student code was read: {' '.join(last)}")
    if status == -signal.SIGKILL and not late and len(said) == 1:
        raise NotGraded("killed by something else than the grader: memory of the machine?")
    return _unpacked(said[1:]), ended


def _read(pipe, deadline):
    """(what a process says until it ends, or the time does; whether it was the time): whoever
    keeps the pipe open holds nobody up."""
    said = b""
    while len(said) < MOST_SAID:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return said, True
        some = os.read(pipe.fileno(), 1 << 16)
        if not some:
            break
        said += some
    return said, False


def end(process):
    """End a process and its group; one that closed its output by itself is given a moment."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)                 # one that the system can't end is left behind


def _unpacked(said):
    """{name: array} of an answer, none for what is no answer: it is a stranger's."""
    try:
        with np.load(io.BytesIO(said), allow_pickle=False) as found:
            if sum(entry.file_size for entry in found.zip.infolist()) > MOST_SAID:
                return {}
            return {name: np.asarray(found[name]) for name in found.files}
    except Exception:
        return {}


def main():
    """Run what standard input asks for; a byte says that student code comes now, then an npz."""
    asked = json.load(sys.stdin)
    _warm_up(asked["blame"])
    for where in [] if asked["blame"] else asked["originals"]:
        _take_out(where)
    channel, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    _leave_alone(asked["limit"], asked["parent"], see_files=bool(asked["blame"]))
    os.write(channel, b".")
    for number in (0, 1, 2):                # student code prints to nobody
        os.dup2(nowhere, number)
    packed = io.BytesIO()
    np.savez(packed, **_work(asked))
    with open(channel, "wb") as answer:
        answer.write(packed.getvalue())


def _warm_up(with_blame):
    """Import what is imported late: the process's new user may be one who can't read it."""
    for name in MODULES:
        importlib.import_module(name)
    tanh = find_class("Tanh")
    np.savez(io.BytesIO(), **answers(tanh, ["sample"], 0))
    blamed(tanh, "sample", 0) if with_blame else None


def _take_out(where):
    """Empty one of npdl's own functions, "npdl.layers.linear:Linear.backward"."""
    def taken_out(*given, **options):
        raise NotImplementedError("npdl's own is not in this process: write it yourself")

    module, _, path = where.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    found.__code__ = taken_out.__code__


def _leave_alone(seconds, parent, see_files=False):
    """Nothing is written, no process started, and it ends with its grader. Under root it becomes a
    user of its own, who sees no file but its folder's; blame, which quotes npdl, `see_files`."""
    if os.geteuid() == 0:
        user = FIRST_USER + os.getpid() % 50_000
        with contextlib.suppress(OSError):      # a container that may not
            if not see_files:
                os.chroot(".")
                os.chdir("/")
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
    confine(parent, CPU=int(seconds) + 2, **LIMITS)


def _work(asked):
    """{name: array} that the asked class gives, or {"refused": why}; or what blame says of it."""
    name, place = asked["name"], Path(f"{asked['module']}.py").absolute()
    try:
        cls, functions, changed = student_class(
            place, name, asked["holes"], None if asked["blame"] else asked["pristine"])
    except NotOwn as error:
        return {"refused": np.array(str(error))}
    if asked["blame"]:
        return {"blame": np.array(blamed(cls, asked["blame"], asked["seed"]))}
    found = answers(cls, asked["shapes"], asked["seed"], place, functions)
    return found | {"changed": np.array(", ".join(changed))}


if __name__ == "__main__":
    main()

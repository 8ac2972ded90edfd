"""Run a student's file in a separate process, with limits, and validate its answers.

The process starts in an empty temporary folder. Before it runs the student's file, it removes
npdl's own solutions (`child`). It returns only arrays and short texts. On Linux, a seccomp filter
allows the process to compute, and to read and write the files that are already open, but nothing
else.
"""

import ctypes
import errno
import json
import os
import pickle
import platform
import struct
import subprocess
import sys
import tempfile

import numpy as np

from npdl.exceptions import to_printable
from npdl.study.homework.answers import InvalidFile

MOST_ANSWERED = 4 << 20     # the largest answer in bytes
LONGEST = 900               # a text in an answer is cut to this number of characters
COMMAND = sys.executable, "-B", "-P", "-m", "npdl.study.homework.child"
VARIABLES = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH")       # of the environment, to pass on
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
NO_NEW_PRIVILEGES, FILTER = 38, 1
# {machine: (its number in seccomp, the number of the call seccomp, the numbers of read, write,
# mmap, mprotect, munmap, brk, mremap, futex, rt_sigreturn, clock_gettime, getrandom, exit_group)}
MACHINES = {
    "x86_64": (0xC000003E, 317, (0, 1, 9, 10, 11, 12, 25, 202, 15, 228, 318, 231)),
    "aarch64": (0xC00000B7, 277, (63, 64, 222, 226, 215, 214, 216, 98, 139, 113, 278, 94)),
}
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06           # instructions of a filter (BPF)
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class NotGraded(Exception):
    """The grader failed, or the teacher has to decide. The student loses no points."""


def run_student_file(task):
    """Run a student's file in a child process; return its answers, {name: array or text}.

    `task` is a dict, which `Grader` makes and child.main reads. Raises InvalidFile if the file
    gives no answer, and NotGraded if the child process fails.
    """
    paths = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ} | {
        "PYTHONPATH": paths, "PYTHONHASHSEED": "0"} | ONE_THREAD
    with tempfile.TemporaryDirectory(prefix="npdl") as folder, \
            tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:
        try:
            status = subprocess.run(
                COMMAND, input=pickle.dumps(task), timeout=task["seconds"], cwd=folder,
                env=environment, stdout=answers, stderr=errors).returncode
            ended = f"the code ended the process, with status {status}, before the tests were done"
        except subprocess.TimeoutExpired:
            ended = f"the code did not finish within {task['seconds']:g} seconds"
        answers.seek(0)
        errors.seek(0)
        found = parse_answers(answers.read(MOST_ANSWERED))
        failure = errors.read(MOST_ANSWERED).decode("utf-8", "replace").splitlines()
    if failure:                     # the student's own output is discarded
        raise NotGraded(f"the grader's process failed ({failure[-1]}); grade again")
    if not found or "refused" in found:
        raise InvalidFile(found.get("refused", ended))
    return found


def parse_answers(content):
    """Return {name: float array or text} from untrusted JSON, or {} if it is not valid."""
    try:
        return {name: to_printable(answer[:LONGEST]) if isinstance(answer, str) else
                np.array(answer, float) for name, answer in json.loads(content).items()}
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return {}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict_system_calls():
    """Forbid all system calls of this process except for those in MACHINES.

    Raises OSError if the system has no seccomp filter.
    """
    number, seccomp, calls = MACHINES[platform.machine()]
    steps = [(LOAD, 0, 0, 4), (IF_EQUAL, 0, len(calls) + 1, number), (LOAD, 0, 0, 0)]
    steps += [(IF_EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    program = _Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            or libc.syscall(seccomp, FILTER, 1, ctypes.byref(program))):
        raise OSError(ctypes.get_errno(), "seccomp is not available")


def can_restrict_system_calls():
    """Return True if `restrict_system_calls` works on this system; a new process tries it."""
    code = f"import os, {__name__} as sandbox; sandbox.restrict_system_calls(); os._exit(0)"
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0

"""A process for a student's code, seen from the grader: started, waited for, ended, read."""

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile

import numpy as np

from npdl_study.homework.inside import MOST_SAID

RUNNING = set()             # processes of student code


class NotGraded(Exception):
    """What the grader failed at; it costs nobody a point."""


def isolated(asked, limit):
    """({name: array} that a process of student code answers (inside.main), how it ended)."""
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                   "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out:
        pickle.dump(asked | {"limit": limit, "parent": os.getpid()}, given)
        given.seek(0)
        process = subprocess.Popen([sys.executable, "-BPm", "npdl_study.homework.inside"],
                                   stdin=given, stdout=out, stderr=out, env=environment,
                                   start_new_session=True)
        RUNNING.add(process)
        ended = ""
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            ended = f"not at an end after {limit:g} seconds"
        finally:
            end(process)
            RUNNING.discard(process)
        out.seek(0)
        said = out.read(MOST_SAID)
    status = process.returncode or 0
    ended = ended or (f"ended by signal {-status}" if status < 0 else
                      "ended the program before its tests were done")
    if said[:1] != b".":                # the process's own traceback
        last = said.decode(errors="replace").splitlines()[-1:]
        raise NotGraded(f"{ended}, before student code was read: {' '.join(last)}")
    return _unpacked(said[1:]), ended


def end(process):
    """End a process and its group."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)                 # one that the system can't end is left behind


def _unpacked(said):
    """{name: array} of an answer, none for what is no answer, since it is a stranger's: floats,
    and texts where errors are told."""
    try:
        with np.load(io.BytesIO(said), allow_pickle=False) as found:
            if sum(entry.file_size for entry in found.zip.infolist()) > MOST_SAID:
                return {}
            arrays = {name: found[name] for name in found.files}
    except Exception:
        return {}
    return {name: array for name, array in arrays.items()
            if array.dtype.kind == ("f" if name.count("/") > 1 else "U")}

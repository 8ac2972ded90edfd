"""Run a student's file in a process of its own, with limits, and validate its answers.

The process starts in an empty temporary folder. npdl's answers to the exercise are removed from it
before it reads the file (`child`), and it returns nothing but numbers and short texts.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np

from npdl.exceptions import printable
from npdl.study.homework.answers import Refused
from npdl.study.homework.child import MOST_ANSWERED

LONGEST = 900           # characters of an answered text
CHILD = "npdl.study.homework.child"
VARIABLES = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH")       # what the process gets of the grader's
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class NotGraded(Exception):
    """The grader failed, or the teacher has to decide; it costs the student no points."""


def run_student(task, seconds, is_sealed):
    """Return {name: array or text} that a student's file answers. Raises Refused or NotGraded.

    `task` is what child.main needs. `seconds` limits the time.
    """
    paths = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ} | {
        "PYTHONPATH": paths, "PYTHONHASHSEED": "0"} | ONE_THREAD
    task = task | {"seconds": seconds, "is_sealed": is_sealed, "parent": os.getpid()}
    with tempfile.TemporaryDirectory(prefix="npdl") as folder, \
            tempfile.TemporaryFile() as answers, tempfile.TemporaryFile() as errors:
        try:
            status = subprocess.run([sys.executable, "-B", "-P", "-m", CHILD], timeout=seconds,
                                    input=pickle.dumps(task), stdout=answers, stderr=errors,
                                    cwd=folder, env=environment).returncode
            ended = f"the code ended the process, with status {status}, before the tests were done"
        except subprocess.TimeoutExpired:
            ended = f"the code did not finish within {seconds:g} seconds"
        answers.seek(0)
        errors.seek(0)
        found = read_answers(answers.read(MOST_ANSWERED))
        failure = errors.read(MOST_ANSWERED).decode("utf-8", "replace").splitlines()
    if failure:                     # not the student's: that output goes nowhere
        raise NotGraded(f"the grader's process failed: {failure[-1]}")
    if not found or "refused" in found:
        raise Refused(found.get("refused", ended))
    return found


def read_answers(content):
    """Return {name: float array or text} of untrusted JSON; {} if it is not valid."""
    try:
        return {name: printable(answer[:LONGEST]) if isinstance(answer, str) else
                np.array(answer, float) for name, answer in json.loads(content).items()}
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError):
        return {}

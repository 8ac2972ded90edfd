"""A default run where nothing is that only Linux has: no fcntl (but msvcrt, which is played), fork,
alarms, /proc or mallopt; and, as on macOS, where processes are started anew.

What a path looks like, and that an open file cannot be renamed, on Windows, this cannot show.
"""

import os
import subprocess
import sys

import pytest

from npdl_train.runs import checkpoint

ELSEWHERE = """
import builtins, fcntl, io, os, platform, runpy, signal, subprocess, sys, types
def locking(handle, how, count, locked=fcntl.lockf, exclusive=fcntl.LOCK_EX | fcntl.LOCK_NB):
    locked(handle, exclusive, count, 0, os.SEEK_CUR)
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules["fcntl"] = sys.modules["resource"] = sys.modules["pwd"] = None
for name in ("fork", "forkpty", "getuid", "geteuid", "sched_getaffinity", "getloadavg", "killpg",
             "posix_fallocate", "setsid", "O_DIRECTORY", "O_NOFOLLOW", "mkfifo", "sysconf"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "setitimer", "pthread_sigmask", "ITIMER_REAL"):
    delattr(signal, name)
platform.machine = lambda: "another"
platform.libc_ver = lambda *_, **__: ("", "")           # so that mallopt is not looked for
def without_proc(function):
    def there(path, *rest, **more):
        if not isinstance(path, int) and os.fsdecode(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return function(path, *rest, **more)
    return there
builtins.open = io.open = without_proc(io.open)
os.stat, os.readlink = without_proc(os.stat), without_proc(os.readlink)
sys.argv = ["npdl", *sys.argv[1:]]
runpy.run_module("npdl", run_name="__main__")
"""


def elsewhere(folder, *arguments, said=False):
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert bool(done.stderr) == said, done.stderr
    return done


@pytest.mark.slow
def test_a_run_is_made_resumed_and_asked(tmp_path):
    run = tmp_path / "run"
    train = ("train-gpt", "--p", "7", "--width", "16", "--out", run, "--quiet", "--threads", "2")
    assert elsewhere(tmp_path, *train, "--steps", "20").returncode == 0
    assert elsewhere(tmp_path, "train-gpt", "--resume", "--steps", "40", "--out", run,
                     "--quiet").returncode == 0
    assert "1 + 2 =" in elsewhere(tmp_path, "ask", run, "1 + 2 =").stdout


MAC = """
import multiprocessing, runpy, sys
from multiprocessing import popen_fork
def refused(*_):
    raise AssertionError("forked")
popen_fork.Popen._launch = refused
sys.platform = "darwin"
sys.argv = ["npdl", *sys.argv[1:]]
runpy.run_module("npdl", run_name="__main__")
"""


@pytest.mark.slow
def test_where_processes_are_started_anew_a_run_has_the_same_bits(tmp_path):
    train = ("train-gpt", "--steps", "12", "--eval-first", "0", "--quiet", "--threads", "2")
    found = []
    for name, program in (("mac", ("-c", MAC)), ("linux", ("-m", "npdl"))):
        subprocess.run([sys.executable, *program, *train, "--out", name], cwd=tmp_path, check=True,
                       env={**os.environ, "PYTHONPATH": os.getcwd()}, timeout=120)
        arrays, _ = checkpoint.load(tmp_path / name / "checkpoint.npz")
        found.append({key: array.tobytes() for key, array in arrays.items()})
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_study_tools(tmp_path):
    assert elsewhere(tmp_path, "step", "LayerNorm", "--html", "page.html").returncode == 0
    assert elsewhere(tmp_path, "blame", "LSTMCell").stdout.startswith("right")
    assert elsewhere(tmp_path, "homework", "--out", "work", "--layers", "Tanh").returncode == 0
    refused = elsewhere(tmp_path, "homework", "grade", "work", "--homework", "work", "--out",
                        "grades", said=True)
    assert refused.returncode == 2 and "grading needs Linux" in refused.stderr

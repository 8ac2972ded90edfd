"""A default run where nothing is that only Linux has: no fcntl (but msvcrt, which is played), fork,
alarms, /proc or mallopt; and, as on macOS, where processes are started anew.

What a path looks like, and that an open file cannot be renamed, on Windows, this cannot show.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.__main__ import COMMANDS
from npdl_train.runs import checkpoint

PAGE = Path(__file__).resolve().parents[2] / "docs" / "platforms.md"
SHORT = ("--steps", "4", "--quiet", "--threads", "2")
# Each command as it is run where nothing is that only Linux has, in an order in which one finds
# what others wrote.
RUN = (
    "step LayerNorm --html page.html", "blame LSTMCell", "example",
    "homework --out work --layers Tanh", "exercises 000.2.4a",
    "train-gpt --p 7 --width 16 --out run", "train-gpt --resume --steps 8 --quiet --out run",
    "train-lstm --p 7 --width 16 --out lstm", "train-seq2seq --width 16 --out dates",
    "finetune run --operator - --out fine", "ask run 1+2=", "generate run 1",
    "single MLP", "table run lstm", "plot curves run",
)

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
module = "exercises" if sys.argv[1] == "exercises" else "npdl"
sys.argv = [module, *sys.argv[1 + (module == "exercises"):]]
runpy.run_module(module, run_name="__main__")
"""


def elsewhere(folder, *arguments, said=False):
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, *map(str, arguments)], cwd=folder,
                          capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert bool(done.stderr) == said, done.stderr
    return done


def test_the_page_has_a_row_for_each_command_and_each_is_run():
    rows = re.findall(r"^\| `([\w-]+)`(.*)", PAGE.read_text(encoding="utf-8"), re.M)
    assert {name for name, _ in rows} == {*COMMANDS, "exercises"} == {c.split()[0] for c in RUN}


@pytest.mark.slow
def test_each_command_where_nothing_is_that_only_linux_has(tmp_path):
    for line in RUN:
        name, *rest = line.split()
        more = SHORT if re.match("train|finetune", name) and "--resume" not in rest else ()
        done = elsewhere(tmp_path, name, *rest, *more)
        assert done.returncode == 0, (line, done.stdout)
    assert {"page.html", "mine.py", "work", "run", "lstm", "dates", "fine", "curves.png"} <= set(
        os.listdir(tmp_path))
    refused = elsewhere(tmp_path, "homework", "grade", "work", "--homework", "work", "--out",
                        "grades", said=True)
    assert refused.returncode == 2 and "grading needs Linux" in refused.stderr


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

"""Processes that train and are killed: forked, so that each is quick.

`Server` is the test's side. It holds one process that has imported everything; for each run that
forks a child which is a process like any other, with its own signals, files and exit status.
`python -m tests.runs.trust.child` is that process.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from tests.runs.trust.runs import ROOT, start

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass
class Ended:
    """How a child ended: exit status (negative: the signal), what it wrote, how long it ran."""

    status: int
    output: str
    errors: str
    seconds: float


class Server:
    """Runs train_lstm and train_gpt in children; a context manager.

    run(script, arguments)                     until it ends
    run(script, arguments, kill_after=0.3)     SIGKILL after so many seconds
    """

    def __init__(self, folder):
        self.output, self.errors = folder / "child.out", folder / "child.err"

    def __enter__(self):
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.runs.trust.child"], cwd=ROOT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *error):
        self.process.communicate("")

    def run(self, script, arguments, kill_after=None):
        order = {"script": script, "arguments": list(map(str, arguments)),
                 "kill_after": kill_after, "output": str(self.output), "errors": str(self.errors)}
        began = time.monotonic()
        print(json.dumps(order), file=self.process.stdin, flush=True)
        status = int(self.process.stdout.readline())
        return Ended(status, self.output.read_text(), self.errors.read_text(),
                     time.monotonic() - began)


class Scripts:
    """The same for the scripts themselves, started as one starts them, imports and all."""

    def run(self, script, arguments, kill_after=None):
        began = time.monotonic()
        process = start(script, *arguments)
        try:
            output, errors = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        return Ended(process.returncode, output, errors, time.monotonic() - began)


def serve():
    """Fork a child for every line of orders, and answer with its exit status."""
    import npdl_train.commands.train  # noqa: F401  (so that the children have it)

    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_work(order))
        print(_status(pid, order["kill_after"]), flush=True)


def _status(pid, kill_after):
    """The exit status of a child, which is killed if it lives for `kill_after` seconds."""
    if kill_after is not None:
        end = time.monotonic() + kill_after
        while time.monotonic() < end:
            time.sleep(min(0.001, max(0.0, end - time.monotonic())))
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
        os.kill(pid, 9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _work(order):
    """The child: its own streams, no picture, then the command; the exit status."""
    import traceback

    from npdl.__main__ import main
    from npdl_train.runs import folder

    for number, path in ((1, order["output"]), (2, order["errors"])):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
        os.close(handle)
    try:
        folder.plot_curves = lambda *_: None            # it takes longer than all the rest
        status = main([order["script"].replace("_", "-"), *order["arguments"]])
        sys.stdout.flush()
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve()

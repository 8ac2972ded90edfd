"""One variant in one process. The parent asks in lines, the worker answers in JSON lines.

    steps N      ->  {"ms": [the time of each step], "loss": the last one's}
    seconds T    ->  {"steps": how many were done, "elapsed": in so many seconds, "loss": ...}
    use          ->  {"cpu_s": core-seconds used so far, "peak_mb": most memory held}
    quit
"""

import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from npdl_train.process import peak_memory

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def serve(make_step):
    """Build the step and answer until `quit`. Standard output carries answers only."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        step = make_step()
        answer(ready=True)
        for line in sys.stdin:
            command, *argument = line.split()
            if command == "quit":
                break
            answer(**respond(step, command, *argument))
    except Exception as error:  # told to the parent, which reports it beside the variant's name
        answer(error=f"{type(error).__name__}: {error}".splitlines()[0])
        raise


def respond(step, command, argument="0"):
    if command == "use":
        cpu_s, own = used_by_others()
        return {"cpu_s": time.process_time() + cpu_s, "peak_mb": (peak_memory() + own) / 2**20}
    times, began = [], time.perf_counter()
    while (len(times) < int(argument) if command == "steps"
           else time.perf_counter() - began < float(argument)):
        start = time.perf_counter()
        loss = step()
        times.append(1000 * (time.perf_counter() - start))
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss is {loss}")
    if command == "steps":
        return {"ms": times, "loss": loss}
    return {"steps": len(times), "elapsed": time.perf_counter() - began, "loss": loss}


def used_by_others():
    """Core-seconds used, and bytes that they share with nobody, of the processes that this one
    has started; 0 where there is no /proc to tell."""
    cpu_s, own = 0.0, 0
    for process in multiprocessing.active_children():
        folder = Path(f"/proc/{process.pid}")
        if (folder / "smaps_rollup").exists():
            times = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            cpu_s += sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
            rows = (folder / "smaps_rollup").read_text().splitlines()
            own += sum(int(row.split()[1]) << 10 for row in rows if row.startswith("Private_"))
    return cpu_s, own


class WorkerError(RuntimeError):
    """A worker that could not build its variant, or died."""


class Worker:
    """The parent's end: starts `command` with so many BLAS and OpenMP threads."""

    def __init__(self, name, command, threads, extra=None):
        self.name = name
        environment = dict(os.environ)
        environment.update({variable: str(threads) for variable in THREAD_VARIABLES})
        environment.update(extra or {})
        self.complaints = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints,
            text=True, env=environment)
        try:
            self.receive()
        except WorkerError:
            self.close()
            raise

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise WorkerError(f"{self.name}: the worker is gone") from error

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            self.complaints.seek(0)
            last = self.complaints.read().strip().splitlines()[-1:]
            raise WorkerError(f"{self.name}: the worker died ({' '.join(last) or 'no message'})")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(f"{self.name}: {reply['error']}")
        return reply

    def ask(self, line):
        self.send(line)
        return self.receive()

    def close(self):
        if self.process.poll() is None:
            try:
                self.send("quit")
                self.process.wait(timeout=5)
            except (WorkerError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.complaints):
            pipe.close()

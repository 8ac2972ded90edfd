"""Run each variant in its own process, which gets numbers of steps and returns their times."""

import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from npdl.cli.process import peak_memory
from npdl.errors import NpdlError

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# glibc returns large freed arrays to the system at once; with this a process keeps them.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}


class WorkerError(NpdlError):
    """A worker process failed. The message is the last line that it printed."""


class Worker:
    """The parent's end of a process that runs one variant.

    command   starts the process, which calls `run_worker`
    threads   the number of threads of BLAS and OpenMP in the process
    """

    def __init__(self, name, command, threads, environment):
        self.name, self.messages = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.messages, text=True,
            env=os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads)) | environment)
        self.first_loss = self.receive()["loss"]

    def measure(self, steps):
        """Run `steps` steps; return {"ms": milliseconds per step, "peak_mb": peak memory}."""
        with contextlib.suppress(BrokenPipeError):      # the process ended: `receive` reports why
            print(steps, file=self.process.stdin, flush=True)
        return self.receive()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.messages.seek(0)
            last = self.messages.read().strip().splitlines()[-1:]
            self.close()
            raise WorkerError(f"{self.name}: {' '.join(last) or 'the process ended'}")
        return json.loads(line)

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.messages.close()


def run_worker(make_step):
    """Call make_step. For each number of steps on standard input, print their time as JSON."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr             # standard output carries answers only
    step, synchronize = make_step()
    loss = float(step())
    if not math.isfinite(loss):
        raise ArithmeticError(f"the loss is {loss}")
    print(json.dumps({"loss": loss}), file=answers, flush=True)
    for line in sys.stdin:
        step()                          # the caches are full of another process's arrays
        ms = time_steps(step, synchronize, int(line))
        print(json.dumps({"ms": ms, "peak_mb": peak_memory() / 2**20}), file=answers, flush=True)


def time_steps(step, synchronize, count):
    """Return the milliseconds per step: the median on the host, the mean on a GPU.

    A GPU computes steps asynchronously, so only the end of the last one is known.
    """
    if synchronize is None:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            float(step())
            times.append(time.perf_counter() - began)
        return 1e3 * statistics.median(times)
    synchronize()
    began = time.perf_counter()
    for _ in range(count):
        step()
    synchronize()
    return 1e3 * (time.perf_counter() - began) / count


def make_mkl_environment(folder):
    """Return environment variables that give PyTorch MKL's AVX-512 kernels on an AMD processor.

    MKL runs AVX2 kernels unless its function `mkl_serv_intel_cpu_true` returns 1. So this
    writes a library with such a function into `folder`, and the environment loads it first.
    Returns {} if this is not needed, or if there is no C compiler.
    """
    about = Path("/proc/cpuinfo")
    about = about.read_text() if about.exists() else ""
    if "AuthenticAMD" not in about or "avx512f" not in about or not shutil.which("cc"):
        return {}
    library = Path(folder) / "intel.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True, text=True,
                   input="int mkl_serv_intel_cpu_true(void) { return 1; }")
    return {"LD_PRELOAD": str(library)}

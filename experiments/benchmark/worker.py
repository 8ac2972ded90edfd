"""Run each variant in its own process, which gets numbers of steps and returns their times."""

import contextlib
import math
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

from npdl.cli.process import peak_memory_bytes
from npdl.errors import NpdlError

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# glibc returns large freed arrays to the system at once; with this a process keeps them.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}


class WorkerError(NpdlError):
    """A worker process failed. The message is its error, in one line."""


class Worker:
    """The parent's end of a process that runs one variant.

    make_step    a function that can be pickled; in the process, it returns (step, synchronize)
    threads      the number of threads of BLAS and OpenMP in the process
    environment  further environment variables of the process
    """

    def __init__(self, name, make_step, threads, environment):
        self.name, context = name, multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, make_step), daemon=True)
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)      # only the parent handles Ctrl-C
        try:
            with set_environment(dict.fromkeys(THREAD_VARIABLES, str(threads)) | environment):
                self.process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        other.close()
        self.first_loss = self.receive_answer()

    def measure(self, steps):
        """Run `steps` steps. Return (milliseconds per step, peak memory in MiB)."""
        with contextlib.suppress(BrokenPipeError):  # `receive_answer` reports why it ended
            self.connection.send(steps)
        return self.receive_answer()

    def receive_answer(self):
        try:
            answer = self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            answer = WorkerError(f"the process ended with status {self.process.exitcode}")
        if isinstance(answer, WorkerError):
            self.close()
            raise WorkerError(f"{self.name}: {answer}")
        return answer

    def close(self):
        self.connection.close()
        self.process.join(timeout=2)
        self.process.kill()
        self.process.join()


@contextlib.contextmanager
def set_environment(variables):
    """Set environment variables in a `with` block. A process that starts there inherits them."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def serve(connection, make_step):
    """Make a step and send its loss. For each number of steps received, send (ms, peak MiB)."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), (
            contextlib.redirect_stderr(nowhere)):
        try:
            step, synchronize = make_step()
            loss = float(step())
            if not math.isfinite(loss):
                raise ArithmeticError(f"the loss is {loss}")
            connection.send(loss)
            while True:
                count = connection.recv()
                step()                  # the caches are full of another process's arrays
                connection.send((time_steps(step, synchronize, count), peak_memory_bytes() / 2**20))
        except (EOFError, ConnectionError):     # the parent has closed the connection
            pass
        except Exception as error:
            last = str(error).strip().splitlines()[-1:]
            connection.send(WorkerError(": ".join([type(error).__name__, *last])))


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

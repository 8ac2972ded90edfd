"""What BLAS's waiting threads cost a training loop of one's own, alone and beside a busy process.

    python -m experiments.bench.waiting

The textbook's step at document 004's sizes, milliseconds a step, with BLAS's own number of threads
and inside `with BLASThreads(1)`.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time

from npdl import BLASThreads
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer

BUSY = "while True: pass"


def step_times(steps):
    """Seconds of each of so many updates of a fresh GPT, after one that is not counted. The
    engine's own bounds of threads, which it sets as a context, are not in force."""
    trainer, times = Trainer(Config(engine="plain", clip=1.0)), []
    for _ in range(steps + 1):
        began = time.perf_counter()
        trainer.update()
        times.append(time.perf_counter() - began)
    return times[1:]


@contextlib.contextmanager
def busy(processes):
    """So many processes that want a core each, until the block ends."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=20, help="steps of each kind (default: 20)")
    parser.add_argument("--busy", type=int, default=1, help="busy processes (default: 1)")
    options = parser.parse_args()
    print(f"{'':<18}{'BLAS own':>10}{'one':>10}")
    for processes in (0, options.busy):
        with busy(processes):
            own = statistics.median(step_times(options.steps))
            with BLASThreads(1):
                one = statistics.median(step_times(options.steps))
        print(f"{processes} busy beside it  {1000 * own:>10.0f}{1000 * one:>10.0f}")


if __name__ == "__main__":
    main()

"""What BLAS's waiting threads cost a training loop of one's own, alone and beside a busy process.

    python -m experiments.bench.waiting

The README's loop at document 004's sizes, milliseconds a step, with BLAS's own number of threads
and inside `with BLASThreads(1)`.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time

from npdl import GPT, AdamW, BLASThreads, SequenceLoss, clip_by_global_norm
from npdl.data import ModularArithmetic, batch_indices

BUSY = "while True: pass"


def step_times(steps):
    """Seconds of each of so many steps, of a fresh GPT, after one that is not counted."""
    data = ModularArithmetic(p=31)
    model = GPT(data.vocabulary.size, max_len=data.sequence_length)
    optimizer, loss_of, times = AdamW(model, weight_decay=1.0), SequenceLoss(), []
    for step in range(steps + 1):
        began = time.perf_counter()
        batch = data.train.take(batch_indices(len(data.train), 512, step, seed=0))
        logits, cache = model.forward(batch.inputs)
        _, c_loss = loss_of.forward(logits, batch.targets, batch.answer_mask)
        optimizer.zero_grad()
        model.backward(loss_of.backward(1.0, c_loss), cache)
        clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()
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

"""Parts of a batch at once: shadows of a model in threads, each BLAS call on one core.

NumPy lets go of the interpreter inside its loops, so threads do run side by side. Two shards on
two cores beat one shard whose products are spread over two cores: the elementwise work is
shared out as well, and nothing waits in the middle of a layer.
"""

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from npdl.fast.memory import keep_freed_memory
from npdl.threads import ONE_BLAS_THREAD, Shared

# Seconds after which a thread that waits for the interpreter's lock insists on having it. A step's
# calls are far shorter than Python's own 5 ms: the holder has taken it again before the other woke.
HAND_OVER = 1e-4


def _hand_over_sooner():
    before = sys.getswitchinterval()
    sys.setswitchinterval(HAND_OVER)
    return lambda: sys.setswitchinterval(before)


SOONER = Shared(_hand_over_sooner)


class Workers:
    """The model and `count - 1` shadows of it, each with a thread and a gradient of its own.

    `make` gives what a worker computes with, out of a model. Use as a context manager: the
    threads live, and the process's settings are changed, inside. `flat` is the optimizer's memory.
    """

    def __init__(self, model, flat, count, make):
        shadows = [model.shadow() for _ in range(count - 1)]
        self.flat = flat
        self.models = [make(each) for each in (model, *shadows)]
        self.grads = [flat.grad] + [flat.gradients_of(shadow) for shadow in shadows]
        self._cleanup = None
        self._pool = None

    def __enter__(self):
        keep_freed_memory()
        self._cleanup = contextlib.ExitStack()
        self._cleanup.enter_context(ONE_BLAS_THREAD)
        self._cleanup.enter_context(SOONER)
        if len(self.models) > 1:
            self._pool = self._cleanup.enter_context(ThreadPoolExecutor(len(self.models) - 1))
        return self

    def __exit__(self, *error):
        self._cleanup.close()
        self._pool = None

    def map(self, function, pieces):
        """[function(model_i, piece_i)]: the first piece here, the others in the threads."""
        if self._pool is None or len(pieces) == 1:
            return [function(self.models[0], piece) for piece in pieces]
        results = []
        for start in range(0, len(pieces), len(self.models)):
            group = pieces[start : start + len(self.models)]
            others = [
                self._pool.submit(_unwarned_call, function, model, piece)
                for model, piece in zip(self.models[1:], group[1:], strict=False)
            ]
            results.append(function(self.models[0], group[0]))
            results.extend(other.result() for other in others)
        return results

    def each(self, function, items):
        """[function(item)], a share of them in each thread; for work that needs no model."""
        items, count = list(items), len(self.models)
        results = [None] * len(items)
        shares = [items[i::count] for i in range(count)]
        done = self.map(lambda model, share: [function(item) for item in share], shares)
        for i, share in enumerate(done):
            results[i::count] = share
        return results

    def zero_grad(self):
        for grad in self.grads:
            grad[...] = 0

    def sum_grads(self):
        """Add the shadows' gradients to the model's, in a fixed order."""
        for grad in self.grads[1:]:
            self.flat.grad += grad


def _unwarned_call(function, model, piece):
    """Without NumPy's warnings, as in the training loop: every thread has settings of its own."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return function(model, piece)

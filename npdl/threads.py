"""Limit the number of threads that BLAS uses in this process."""

import threading

from npdl.options import require_positive

try:
    from threadpoolctl import threadpool_info, threadpool_limits
except ImportError:
    threadpool_info = None              # threadpoolctl is part of the extra `train`


class BLASThreads:
    """Limit BLAS to `count` threads in the whole process, inside a `with` block.

        with BLASThreads(1):
            train(model)

    More threads don't speed up small matrix products. They slow down a step if another program
    uses a core, because the threads wait for each other. If the package threadpoolctl is not
    installed, this class has no effect.

    If several threads of Python are inside such blocks, the smallest count applies. After the last
    block, the earlier number of threads is restored.
    """

    _lock, _wanted, _undo = threading.Lock(), [], None

    def __init__(self, count):
        require_positive(count=count)
        self.count = count

    def __enter__(self):
        with self._lock:
            self._wanted.append(self.count)
            undo = self._limit()
            if len(self._wanted) == 1:
                BLASThreads._undo = undo

    def __exit__(self, *error):
        with self._lock:
            self._wanted.remove(self.count)
            BLASThreads._undo()
            if self._wanted:
                self._limit()

    def _limit(self):
        """Limit BLAS to the smallest `count` of all blocks, and return a function to undo it."""
        if threadpool_info is None:
            return lambda: None
        libraries = [info for info in threadpool_info() if info["user_api"] == "blas"]
        return threadpool_limits(limits={
            info["prefix"]: min(info["num_threads"], *self._wanted) for info in libraries
        }).restore_original_limits


ONE_BLAS_THREAD = BLASThreads(1)

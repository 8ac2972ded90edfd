"""Settings of the whole process that several trainings in its threads may ask for at once."""

import threading

from npdl.errors import require_positive

try:
    from threadpoolctl import threadpool_info, threadpool_limits
except ImportError:                     # of the extra `train`: here BLAS keeps its threads
    def threadpool_info():
        return []

    class threadpool_limits:
        def __init__(self, limits):
            pass

        def restore_original_limits(self):
            pass


class BLASThreads:
    """At most `count` threads of BLAS, in the whole process, while anyone is inside `with`.

        with BLASThreads(1):
            train(model)

    Small products gain nothing by more threads; and where another program keeps a core busy, those
    that wait for each other make a step many times as long. Without the package threadpoolctl,
    which knows BLAS, nothing changes.

    Where several ask for different counts at once, the least of them holds; the last to leave
    brings back what was there.
    """

    _lock, _wanted, _undo = threading.Lock(), [], None

    def __init__(self, count):
        require_positive(count=count)
        self.count = count

    def __enter__(self):
        with self._lock:
            self._wanted.append(self.count)
            limit = self._limit()
            if len(self._wanted) == 1:
                BLASThreads._undo = limit.restore_original_limits

    def __exit__(self, *error):
        with self._lock:
            self._wanted.remove(self.count)
            self._undo()
            if self._wanted:
                self._limit()

    def _limit(self):
        """Set the least count that is wanted, in each library that has more."""
        blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
        return threadpool_limits(limits={
            each["prefix"]: min(each["num_threads"], *self._wanted) for each in blas})


ONE_BLAS_THREAD = BLASThreads(1)

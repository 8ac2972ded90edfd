"""Settings of the whole process that several trainings in its threads may ask for at once."""

import threading

from threadpoolctl import threadpool_limits


class Shared:
    """A change of the process that lasts while anyone is inside `with`.

    `change()` makes it and returns what undoes it: the first to enter calls the one, the last to
    leave, in whichever thread, the other.
    """

    def __init__(self, change):
        self._change, self._lock, self._users, self._undo = change, threading.Lock(), 0, None

    def __enter__(self):
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._undo = self._change()

    def __exit__(self, *error):
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._undo()


ONE_BLAS_THREAD = Shared(
    lambda: threadpool_limits(limits=1, user_api="blas").restore_original_limits)

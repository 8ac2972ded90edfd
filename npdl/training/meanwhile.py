"""Work that is done now and then while something else goes on."""

import contextlib
import threading


@contextlib.contextmanager
def meanwhile(action, seconds):
    """Call `action()` every `seconds`, in a thread, until the block ends."""
    stop = threading.Event()

    def repeat():
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()

"""Work shared out among threads."""

import sys
import threading

import pytest
from threadpoolctl import threadpool_info

from npdl.fast.flat import Flat
from npdl.fast.threads import HAND_OVER, Workers
from npdl.layers.linear import Linear
from npdl.optim import SGD


def workers_of(count):
    model = Linear(2, 2)
    return Workers(model, Flat(SGD(model)), count, lambda each: each)


def settings():
    """What a training changes of its process: the switch interval, and BLAS's threads."""
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return round(sys.getswitchinterval(), 6), blas


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_each_gives_its_results_in_the_order_of_the_items(count, items):
    with workers_of(count) as workers:
        assert workers.each(lambda item: 2 * item, iter(range(items))) == [
            2 * item for item in range(items)]


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_two_trainings_leave_the_process_as_it_was(first_leaves_first):
    before = settings()
    inside, done = threading.Event(), threading.Event()

    def other():
        with workers_of(2):
            inside.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    mine = workers_of(2)
    mine.__enter__()
    leaving = [lambda: mine.__exit__(None, None, None), lambda: (done.set(), thread.join())]
    for i, leave in enumerate(leaving if first_leaves_first else leaving[::-1]):
        assert settings() == (HAND_OVER, [1] * len(before[1])), i
        leave()
    assert settings() == before

"""Work shared out among threads."""

import sys

import pytest

from npdl.fast.threads import Workers
from npdl.layers.linear import Linear
from npdl.optim import Flat


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_each_gives_its_results_in_the_order_of_the_items(count, items):
    model = Linear(2, 2)
    with Workers(model, Flat(model), count) as workers:
        assert workers.each(lambda item: 2 * item, iter(range(items))) == [
            2 * item for item in range(items)]


def test_threads_hand_the_lock_over_sooner_and_leave_the_interpreter_as_it_was():
    before = sys.getswitchinterval()
    model = Linear(2, 2)
    with Workers(model, Flat(model), 1):
        assert sys.getswitchinterval() == before        # one thread has no one to wait for
    with Workers(model, Flat(model), 2):
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before

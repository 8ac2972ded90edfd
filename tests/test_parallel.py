"""Work shared out among the wing's threads, and the process's settings while they work."""

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from npdl.fast.flat import Flat
from npdl.fast.threads import Workers
from npdl.layers.linear import Linear
from npdl.optim import SGD


def workers(count, make=lambda model: model):
    model = Linear(2, 2)
    return Workers(model, Flat(SGD(model)), count, make)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_each_gives_its_results_in_the_order_of_the_items(count, items):
    with workers(count) as several:
        assert several.each(lambda item: 2 * item, iter(range(items))) == [
            2 * item for item in range(items)]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_pieces_go_to_shadows_that_share_parameters_but_not_gradients(count, pieces):
    def add(layer, piece):
        layer.W.grad += piece
        return layer, piece

    with workers(count) as several:
        for _ in range(2):              # a second step begins at zero
            several.zero_grad()
            done = several.map(add, list(range(1, pieces + 1)))
            several.sum_grads()
    assert [piece for _, piece in done] == list(range(1, pieces + 1))
    assert len({id(layer.W.data.base) for layer, _ in done}) == 1
    assert len({id(layer) for layer, _ in done}) == min(count, pieces)
    own = several.models[0]
    np.testing.assert_array_equal(own.W.grad, pieces * (pieces + 1) / 2)
    assert np.shares_memory(own.W.grad, several.flat.grad)


def test_an_error_in_a_thread_is_the_callers():
    def fail(model, piece):
        if piece == 2:
            raise ZeroDivisionError

    with workers(2) as several, pytest.raises(ZeroDivisionError):
        several.map(fail, [1, 2])


def test_the_process_is_as_it_was_when_the_last_one_leaves():
    def settings():
        return sys.getswitchinterval(), [each["num_threads"] for each in threadpool_info()
                                         if each["user_api"] == "blas"]

    before = settings()
    with workers(2):
        inside = settings()
        with workers(1):
            assert settings() == inside
        assert settings() == inside
        assert inside[0] < before[0] and set(inside[1]) <= {1}
    assert settings() == before

"""Work shared out among the wing's threads, and the process's settings while they work."""

import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from npdl.fast.flat import Flat
from npdl.fast.threads import HAND_OVER, Workers
from npdl.layers.linear import Linear
from npdl.models.llama import Llama
from npdl.optim import SGD, AdamW
from npdl.training.engine import PlainEngine, make_engine


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


def settings():
    """What a training changes of its process: the switch interval, and BLAS's threads."""
    blas = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    return round(sys.getswitchinterval(), 6), blas


@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_two_trainings_leave_the_process_as_it_was(first_leaves_first):
    before, both = settings(), [workers(2), workers(2)]
    for one in both:
        one.__enter__()
    for one in both if first_leaves_first else both[::-1]:
        assert settings() == (HAND_OVER, [1] * len(before[1]))
        one.__exit__(None, None, None)
    assert settings() == before


def test_so_do_two_trainings_of_the_plain_engine():
    _, before = settings()
    both = [PlainEngine(None, None), PlainEngine(None, None)]
    for one in both:
        one.__enter__()
    for one in both:
        assert settings()[1] == [1] * len(before)
        one.__exit__(None, None, None)
    assert settings()[1] == before


@pytest.mark.parametrize("least_leaves_first", [True, False])
def test_of_different_counts_the_least_holds(least_leaves_first):
    """A training whose products have two threads, while one row of text is generated."""
    _, before = settings()
    with threadpool_limits(limits=3, user_api="blas"):
        two, one = PlainEngine(None, None, 2), PlainEngine(None, None)
        assert settings()[1] == [3] * len(before)
        two.__enter__()
        assert settings()[1] == [2] * len(before)
        one.__enter__()
        assert settings()[1] == [1] * len(before)
        for leaving, left in ((one, 2), (two, 3)) if least_leaves_first else ((two, 1), (one, 3)):
            leaving.__exit__()
            assert settings()[1] == [left] * len(before)
        with PlainEngine(None, None, 9):
            assert settings()[1] == [3] * len(before)       # never more than there were
    assert settings()[1] == before


def test_what_the_wing_does_not_know_has_blas_threads(capsys):
    model = Llama(5, 4, 1, 2, 1, 3)
    engine = make_engine("fast", model, AdamW(model), 2)
    assert isinstance(engine, PlainEngine) and engine.blas_threads.count == 2
    assert "going on with --engine plain" in capsys.readouterr().err
    assert make_engine("plain", model, AdamW(model), 2).blas_threads.count == 1

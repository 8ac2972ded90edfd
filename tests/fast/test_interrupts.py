"""An exception at any moment of a step, caught, and training goes on: a notebook's Ctrl-C, a
time-out. What is computed next is right."""

import contextlib
import signal
import time

import pytest

from npdl.backend import stream
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW
from npdl_train.fast import workers
from npdl_train.fast.engine import FastEngine
from npdl_train.fast.workers import Processes, Threads
from npdl_train.runs.engine import PlainEngine
from tests.fast.cases import assert_close, build, drawn
from tests.tools import slow

BATCHES = ("few shared", "many shared", "all the same")
FEW, MANY = {"threads": 10, "fork": 20, "spawn": 2}, {"threads": 60, "fork": 200, "spawn": 50}

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of the system's")


class Stop(BaseException):
    """What the timer raises."""


def rng():
    return stream(3, 5)


@contextlib.contextmanager
def timer():
    """set(seconds) -> Stop is raised then; set(0) -> no more."""
    def stop(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    finally:
        signal.signal(signal.SIGALRM, before)


def wanted(model, batches):
    """[(the loss, {name: gradient})] of the textbook."""
    found = []
    with PlainEngine(model, None) as plain:
        for batch in batches:
            loss = plain.step(batch, rng)
            found.append((loss, {name: param.grad.copy() for name, param in model.params()}))
    return found


def train(engine, batch):
    engine.step(batch, rng)
    engine.clip(0.5)
    engine.update()


def interrupted(engine, optimizer, batches, right, count):
    """`count` times: an update is cut off, the state is put back, and now and then a step is
    compared with what is `right`."""
    model, draw, compared = engine.model, stream(8), 0
    state, moments = model.state_dict(), optimizer.state_dict()
    begun = time.perf_counter()
    train(engine, batches[0])
    takes, done = time.perf_counter() - begun, 0
    with timer() as after:
        while done < count:
            try:
                begun = time.perf_counter()
                after(draw.uniform(1e-4, 1.2 * takes))
                for batch in batches:
                    train(engine, batch)
                after(0)
                takes = (time.perf_counter() - begun) / 2
            except Stop:
                done += 1
            model.load_state_dict(state)
            optimizer.load_state_dict(moments)
            if draw.random() < 0.6 or done == count:    # else what begins again is cut off, too
                which = draw.integers(len(batches))
                loss, gradients = right[which]
                assert_close(engine.step(batches[which], rng), loss, "loss")
                for name, param in model.params():
                    assert_close(param.grad, gradients[name], name)
                compared += 1
    assert compared > 0.3 * count


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")     # in __del__
@pytest.mark.parametrize("counts", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", slow.but(["fork", "threads"], FEW))
@pytest.mark.parametrize("kind", [GPT, pytest.param(LSTMLM, marks=pytest.mark.slow)])
def test_after_an_exception_at_any_moment_a_step_is_right(kind, way, counts, monkeypatch):
    monkeypatch.setattr(workers, "WORTH", 1e9 if way == "threads" else 0)
    monkeypatch.setattr(workers, "START", workers.START if way == "threads" else way)
    model, batches = build(kind, dropout=0.2), [drawn(each, "ragged") for each in BATCHES]
    right = wanted(build(kind, dropout=0.2), batches)
    optimizer = AdamW(model, 0.05)
    with FastEngine(model, optimizer, 3) as engine:
        assert type(engine.workers) is (Threads if way == "threads" else Processes)
        interrupted(engine, optimizer, batches, right, counts[way])

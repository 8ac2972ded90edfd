"""Work shared out among the wing's threads and processes, and the process's settings meanwhile."""

import errno
import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from npdl.backend import stream
from npdl.errors import InputError, NpdlError
from npdl.layers.linear import Linear
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, AdamW
from npdl_train.fast import workers
from npdl_train.fast.engine import FastEngine
from npdl_train.fast.flat_parameters import UPDATES, FlatParameters
from npdl_train.fast.workers import Deferred, Processes, Threads, WorkerLost, shared_memory
from npdl_train.process import has_ended
from npdl_train.runs.engine import PlainEngine, make_engine
from tests.fast.cases import build, drawn

both = pytest.mark.parametrize("way", [Threads, Processes])


class Worker:
    """What a worker is made into, in these tests."""

    def __init__(self, model):
        self.model = model


def workers_on(count, way=Threads, width=2):
    """`count` workers on a Linear."""
    model = Linear(width, width)
    shadows = [model.shadow() for _ in range(count - 1)]
    return way(Worker, [model, *shadows], FlatParameters(SGD(model), [model, *shadows]))


def twice(worker, share, more):
    return [(2 * item, other + more, os.getpid()) for item, other in share]


def add(worker, share, _):
    worker.grad[...] = 0
    for amount, _ in share:
        worker.model.W.grad += amount
    return [id(worker.model) for _ in share]


def fail(worker, share, at):
    if at in [item for item, _ in share]:
        raise InputError(f"{at} is refused")
    return [item for item, _ in share]


def interrupted(worker, share, parent):
    if os.getpid() == parent:
        raise KeyboardInterrupt
    return ["late" for _ in share]


def of_part(worker, share, _):
    return [(part.made, id(part)) for part, _ in share]


@both
@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(way, count):
    with workers_on(count, way) as several:
        for items in (0, 1, 2, 5):
            given = [(item, 10) for item in range(items)]
            done = several.run(twice, given, 1)
            assert [each[:2] for each in done] == [(2 * item, 11) for item, _ in given]
            used = len({pid for *_, pid in done})
            assert used == min(1 if way is Threads else count, items)
        assert several.flat.store is None or way is Processes
    assert several.run(twice, [(1, 2), (3, 4)], 0) == [(2, 2, os.getpid()), (6, 4, os.getpid())]


@both
@pytest.mark.parametrize("count", [1, 2, 3])
def test_workers_share_parameters_but_not_gradients(way, count):
    with workers_on(count, way) as several:
        for shards in (1, 5):           # a second step begins at zero
            several.run(add, [(n, None) for n in range(1, shards + 1)])
            several.flat.sum_grads()
    own = several.models[0]
    np.testing.assert_array_equal(own.W.grad, 15)
    assert np.shares_memory(own.W.grad, several.flat.grad)
    assert len({id(model.W.data.base) for model in several.models}) == 1


@both
def test_an_error_elsewhere_is_the_callers_and_leaves_no_answer_behind(way):
    items = [(1, None), (2, None)]
    with workers_on(2, way) as several:
        for at in (1, 2):
            with pytest.raises(InputError, match=f"^{at} is refused"):
                several.run(fail, items, at)
            assert several.run(fail, items, 0) == [1, 2]


@both
def test_ctrl_c_here_leaves_no_answer_behind(way):
    with workers_on(2, way) as several:
        for other in several.others if way is Processes else ():
            os.kill(other.process.pid, signal.SIGINT)               # a terminal tells all
        with pytest.raises(KeyboardInterrupt):
            several.run(interrupted, [(1, None), (2, None)], os.getpid())
        assert several.run(fail, [(1, None), (2, None)], 0) == [1, 2]


def test_a_part_travels_once_and_is_forgotten_with_the_callers():
    parts = [Deferred(divmod, n, 3) for n in (7, 8)]
    with workers_on(2, Processes) as several:
        other, places = several.others[0], []
        for _ in range(2):
            done = several.run(of_part, [(part, None) for part in parts])
            assert [made for made, _ in done] == [(2, 1), (2, 2)]
            places.append(done[1][1])
        assert places[0] == places[1] and other.known == {parts[1].number}
        parts.clear()
        several.run(of_part, [])
        assert other.known == set()


def test_a_process_that_was_killed_is_named_in_one_line():
    others = set(multiprocessing.active_children())         # of engines that tests before left
    with workers_on(3, Processes) as several:
        process = several.others[1].process
        process.kill()
        process.join()
        with pytest.raises(WorkerLost, match="worker 2 .* by signal 9, .*--threads 1") as error:
            several.run(fail, [(n, None) for n in range(3)], None)
        assert "\n" not in str(error.value)
        assert several.run(fail, [(n, None) for n in range(3)]) == [0, 1, 2]    # by others
    assert not set(multiprocessing.active_children()) - others
    np.testing.assert_array_equal(several.models[0].W.data, several.flat.views(
        several.flat.data).__next__())


def test_a_process_that_is_stopped_is_named_once(monkeypatch, capsys):
    monkeypatch.setattr(workers, "PATIENCE", 0.1)
    with workers_on(2, Processes) as several:
        pid = several.others[0].process.pid
        os.kill(pid, signal.SIGSTOP)
        later = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        later.start()
        assert several.run(fail, [(1, None), (2, None)]) == [1, 2]
        later.join()
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("worker 1 of the fast engine is stopped, ")
    assert f"kill -CONT {pid} lets it go on" in said


def test_what_is_dropped_inside_of_with_ends_its_processes():
    before, several = settings(), workers_on(2, Processes).__enter__()
    way, process = several.others[0].way, several.others[0].process
    several = [several]
    gc.collect()                    # what only a younger list holds stands after the way now,
    del several, way                # which the next collection therefore finishes first
    gc.collect()
    process.join(20)
    assert process.exitcode is not None and settings() == before


def test_memory_that_is_refused_is_one_line(monkeypatch):
    def refuse(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(NpdlError, match=r"share 2\.0 MiB, which the system refuses \(No space"):
        shared_memory(2 << 20, forks=False)


FORKED = """
import sys
from tests.fast.test_parallel import *
with workers_on(2, Processes) as several:
    data, worker = several.models[0].W.data, several.others[0].process
    data[...] = 1
    if not os.fork():
        if sys.argv[1] == "it works":
            several.run(add, [(1, None), (2, None)])
            several.models[0].W.data[...] = 7
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.wait()[1]), *several.run(fail, [(4, None), (5, None)]),
          several.others[0].process is worker, *np.unique(data))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["it works", "it does not"])
def test_a_process_that_is_forked_off_goes_on_alone(how):
    said = subprocess.run([sys.executable, "-c", FORKED, how], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert said.stdout.split() == ["3", "4", "5", "True", "1.0"], said.stderr


ORPHANS = """
import sys
from tests.fast.test_parallel import *
workers.START = sys.argv[1]
if __name__ == "__main__":
    several = workers_on(2, Processes).__enter__()
    print(several.others[0].process.pid, flush=True)
    {}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["time.sleep(60)", "pass", "raise SystemExit(3)"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_no_process_outlives_its_parent(tmp_path, start, end):
    script = tmp_path / "script.py"
    script.write_text(ORPHANS.format(end))
    memory = Path("/dev/shm")
    before = set(memory.iterdir()) if memory.exists() else set()
    with subprocess.Popen([sys.executable, script, start], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": os.getcwd()}) as parent:
        child = int(parent.stdout.readline())
        if "sleep" in end:
            parent.kill()
    assert parent.returncode == {"time.sleep(60)": -9, "pass": 0}.get(end, 3)
    limit = time.monotonic() + 20
    while not has_ended(child) and time.monotonic() < limit:
        time.sleep(0.05)
    assert has_ended(child)
    assert not memory.exists() or set(memory.iterdir()) <= before


def trained(kind, optimizer, drop, count):
    """The bits of some steps of an engine with three workers, twice entered."""
    model = build(kind)
    fast = FastEngine(model, optimizer(model, 0.05, weight_decay=0.1), count)
    batches, found = [drawn("few shared", "ragged"), drawn("many shared", "all")], []
    for _ in range(2):
        with fast:
            for i, batch in enumerate(batches):
                rng = (lambda place=i: stream(place)) if drop else None
                found += [fast.step(batch, rng), fast.clip(0.5), *fast.measure(batch)]
                fast.update(0.01 * i)
    return type(fast.workers), [np.asarray(each).tobytes() for each in (
        *found, *(param.data for _, param in model.params()))]


def assert_same_bits(kinds, monkeypatch):
    for kind, optimizer, drop in kinds:
        monkeypatch.setattr(workers, "WORTH", 1e9)
        way, wanted = trained(kind, optimizer, drop, 3)
        assert way is Threads
        monkeypatch.setattr(workers, "WORTH", 0)
        assert trained(kind, optimizer, drop, 3) == (Processes, wanted)


def test_processes_have_the_bits_of_threads(monkeypatch):
    assert_same_bits([(GPT, AdamW, True), *((LSTMLM, kind, False) for kind in UPDATES)],
                     monkeypatch)


@pytest.mark.slow
def test_so_have_those_that_begin_anew(monkeypatch):
    monkeypatch.setattr(workers, "START", "spawn")
    assert_same_bits(itertools.product((GPT, LSTMLM), (AdamW,), (True, False)), monkeypatch)


def test_where_processes_do_not_pay_there_are_threads(monkeypatch):
    def way(count=2, freeze=False):
        model = build(GPT, freeze=freeze)
        return type(FastEngine(model, AdamW(model), count).workers)

    assert way() is Threads                     # a small model
    monkeypatch.setattr(workers, "WORTH", 0)
    assert way() is Processes
    assert way(1) is way(freeze=True) is Threads
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert way() is Threads


def settings():
    """What a training changes of its process: BLAS's threads."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@both
@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_two_trainings_leave_the_process_as_it_was(way, first_leaves_first):
    before, two = settings(), [workers_on(2, way), workers_on(2, way)]
    for one in two:
        one.__enter__()
    for one in two if first_leaves_first else two[::-1]:
        assert settings() == [1] * len(before)
        one.__exit__(None, None, None)
    assert settings() == before


def test_so_do_two_trainings_of_the_plain_engine():
    before = settings()
    both = [PlainEngine(None, None), PlainEngine(None, None)]
    for one in both:
        one.__enter__()
    for one in both:
        assert settings() == [1] * len(before)
        one.__exit__(None, None, None)
    assert settings() == before


@pytest.mark.parametrize("least_leaves_first", [True, False])
def test_of_different_counts_the_least_holds(least_leaves_first):
    """A training whose products have two threads, while one row of text is generated."""
    before = settings()
    with threadpool_limits(limits=3, user_api="blas"):
        two, one = PlainEngine(None, None, 2), PlainEngine(None, None)
        assert settings() == [3] * len(before)
        two.__enter__()
        assert settings() == [2] * len(before)
        one.__enter__()
        assert settings() == [1] * len(before)
        for leaving, left in ((one, 2), (two, 3)) if least_leaves_first else ((two, 1), (one, 3)):
            leaving.__exit__()
            assert settings() == [left] * len(before)
        with PlainEngine(None, None, 9):
            assert settings() == [3] * len(before)       # never more than there were
    assert settings() == before


def test_what_the_wing_does_not_know_has_blas_threads(capsys):
    model = Llama(5, 4, 1, 2, 1, 3)
    engine = make_engine("fast", model, AdamW(model), 2)
    assert isinstance(engine, PlainEngine) and engine.blas_threads.count == 2
    assert "going on with --engine plain" in capsys.readouterr().err
    assert make_engine("plain", model, AdamW(model), 2).blas_threads.count == 1


UNGUARDED = """
import sys
from tests.fast.test_parallel import *
workers.START = sys.argv[1]
try:
    with workers_on(2, Processes, int(sys.argv[2])) as several:
        print(several.run(fail, [(1, None), (2, None)], 0))
except WorkerLost as error:
    raise SystemExit(str(error))
"""


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
@pytest.mark.parametrize("width", ["2", "300"])             # what a pipe holds, and more
def test_a_script_without_a_guard_is_told_so_in_one_line(tmp_path, start, width):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    said = subprocess.run([sys.executable, script, start, width], capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.count("\n") == 1 and "as it began; " in said.stderr

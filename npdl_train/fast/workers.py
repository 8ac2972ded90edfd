"""Parts of a batch at once: a model and its shadows, each in a process or a thread of its own.

Two shards on two cores beat one shard whose products are spread over two cores: the elementwise
work is shared out as well, and nothing waits in the middle of a layer. Processes do so without
the interpreter's lock, for which threads ask at every NumPy call, thousands of times in a step.
They share the optimizer's memory (npdl_train.fast.flat), so that only batches travel, once each.
"""

import atexit
import contextlib
import functools
import gc
import itertools
import multiprocessing
import pickle
import signal
import sys
import time
import traceback
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from npdl.backend import is_host
from npdl.errors import NpdlError
from npdl.threads import ONE_BLAS_THREAD
from npdl_train.fast.memory import give_freed_memory_back, keep_freed_memory

START = "fork" if sys.platform == "linux" else "spawn"     # how a process begins
AWAKE = 0.1         # of the time that a process has computed it waits awake: one that sleeps begins
                    # a tenth of a millisecond late, four times in a step
LONGEST = 2e-3      # seconds that it waits awake at most
WORTH = 50_000      # learned numbers: a smaller model's step is too short to be handed over
SIGNALS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP")      # the parent answers these
           if (number := getattr(signal, name, None))]


class WorkerLost(NpdlError):
    """A process that computed a part of each batch, and is no more."""


class Part:
    """A part of a batch. `made` is what a worker computes with, make(*given), made once, where it
    is needed."""

    _numbers = itertools.count()

    def __init__(self, make, *given):
        self.make, self.given, self.number = make, given, next(self._numbers)

    @functools.cached_property
    def made(self):
        return self.make(*self.given)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "made"}


Known = namedtuple("Known", "number")       # stands for a Part that a process has


def workers_for(kind, models, flat):
    """Processes where they pay, else Threads."""
    frozen = len(list(models[0].params(frozen=True))) > len(flat.names)     # flat has none of them
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    pay = (len(models) > 1 and flat.size >= WORTH and locked and is_host() and not frozen
           and not multiprocessing.current_process().daemon)
    return (Processes if pay else Threads)(kind, models, flat)


def worker_of(kind, model, flat, i):
    """kind(model), with the memory that its step reads and writes."""
    worker = kind(model)
    worker.flat, worker.grad = flat, flat.grads[i]
    worker.joined = flat.blocks(flat.data), flat.blocks(worker.grad)
    return worker


class Threads:
    """A worker for each model: the first here, the others in threads.

    Use as a context manager: the threads live, and the process's settings are changed, inside.
    Outside of it one works after the other.
    """

    def __init__(self, kind, models, flat):
        self.kind, self.models, self.flat = kind, models, flat
        self.cleanup = self.pool = None
        self.make()

    def make(self):
        self.workers = [worker_of(self.kind, model, self.flat, i)
                        for i, model in enumerate(self.models)]

    def __enter__(self):
        keep_freed_memory()
        with contextlib.ExitStack() as undo:            # where a start fails
            undo.enter_context(ONE_BLAS_THREAD)
            self.start(undo)
            self.cleanup = undo.pop_all()
        return self

    def __exit__(self, *error):
        self.cleanup.close()

    def start(self, undo):
        if len(self.workers) > 1:
            self.pool = undo.enter_context(ThreadPoolExecutor(len(self.workers) - 1))
            undo.callback(setattr, self, "pool", None)

    def run(self, function, items, common=None):
        """The results of function(worker, share, common), a list for each share of the `items`, in
        the items' order: worker i has every count-th of them, from the i-th on."""
        count, results = len(self.workers), [None] * len(items)
        shares = [items[i::count] for i in range(count)]
        for i, done in enumerate(self.at_once(function, shares, common)):
            results[i::count] = done
        return results

    def at_once(self, function, shares, common):
        """[function(worker, share, common)] for each worker."""
        pairs = list(zip(self.workers, shares, strict=True))
        if self.pool is None:
            return [function(*pair, common) for pair in pairs]
        others = [self.pool.submit(unwarned, function, *pair, common) for pair in pairs[1:]]
        return [function(*pairs[0], common), *(other.result() for other in others)]


def unwarned(function, *arguments):
    """Without NumPy's warnings, as in the training loop: every thread has settings of its own."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return function(*arguments)


class Processes(Threads):
    """The others in processes: inside `with`, the optimizer's memory is shared with them.

    Raises WorkerLost where one has ended. They end with this process, however it does.
    """

    others = ()

    def start(self, undo):
        self.flat.check()
        context = multiprocessing.get_context(START)
        self.flat.settle(context.RawArray("b", self.flat.nbytes))
        self.make()
        give_freed_memory_back()        # else each process would write in a copy of it
        undo.callback(self.stop)
        atexit.register(self.stop)      # before multiprocessing waits for its processes
        self.others, self.wait = [], Wait()
        for i in range(1, len(self.models)):
            self.others.append(Other(context, self.kind, self.models[i], self.flat, i))

    def stop(self):
        """End the processes, and take the memory back."""
        atexit.unregister(self.stop)
        for other in self.others:
            other.stop()
        self.others = ()
        with contextlib.suppress(NpdlError):        # a model that is another engine's by now
            self.flat.check()
            self.flat.settle()
            self.make()

    def at_once(self, function, shares, common):
        if not self.others:
            return super().at_once(function, shares, common)
        asked = []
        try:
            for other, share in zip(self.others, shares[1:], strict=True):
                other.ask(function, share, common)
                asked.append(other)
            done = [self.wait.after(function, self.workers[0], shares[0], common)]
            while asked:
                done.append(asked.pop(0).answer(self.wait))
            return done
        finally:                        # an error, or Ctrl-C: no answer is left for the next one
            for other in asked:
                with contextlib.suppress(Exception):
                    other.answer(self.wait)


class Wait:
    """What a process computes, and how it waits: awake as long as AWAKE of that time lasts."""

    def __init__(self):
        self.awake = 0.0            # seconds that are left

    def after(self, function, *arguments):
        """function(*arguments)."""
        begun = time.perf_counter()
        result = function(*arguments)
        self.awake = min(self.awake + AWAKE * (time.perf_counter() - begun), LONGEST)
        return result

    def receive(self, way):
        """What comes next."""
        begun = time.perf_counter()
        while self.awake > 0 and not way.poll():
            now = time.perf_counter()
            self.awake, begun = self.awake - (now - begun), now
        return way.recv()


class Other:
    """A process with worker `i`, and this end of the way to it."""

    def __init__(self, context, kind, model, flat, i):
        self.i, self.known, self.gone = i, set(), []        # numbers of parts that it has, or had
        self.way, its = context.Pipe()
        held = self.way if START == "fork" else None        # a copy that it would keep open
        self.process = context.Process(target=serve, args=(its, held, kind, model, flat, i),
                                       name=f"npdl worker {i}", daemon=True)
        self.process.start()
        its.close()

    def ask(self, function, share, common):
        gone = {self.gone.pop() for _ in range(len(self.gone))}
        self.known -= gone
        try:
            message = function, [self.brief(*item) for item in share], common, gone
            self.way.send_bytes(pickle.dumps(message))      # of send's own copy an error holds on
        except OSError as error:
            raise self.lost() from error

    def brief(self, part, more):
        """A part that the process has becomes Known; nothing else is changed."""
        if not isinstance(part, Part):
            return part, more
        if part.number in self.known:
            return Known(part.number), more
        self.known.add(part.number)
        weakref.finalize(part, self.gone.append, part.number).atexit = False
        return part, more

    def answer(self, wait):
        try:
            result = wait.receive(self.way)
        except (EOFError, OSError) as error:
            raise self.lost() from error
        if isinstance(result, Exception):
            raise result
        return result

    def lost(self):
        self.process.join(1)
        code = self.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return WorkerLost(f"worker {self.i} of the fast engine, a process, was ended {how}, "
                          "perhaps for want of memory; the last checkpoint is kept; --resume goes "
                          "on from it, with --threads 1 without other processes")

    def stop(self):
        with contextlib.suppress(OSError):
            self.way.send(None)
        self.process.join(10)
        self.process.kill()
        self.process.join()
        self.way.close()


def serve(way, held, kind, model, flat, i):
    """What the process does: answer, until it is told to end or nobody is left to ask."""
    gc.freeze()                         # a look at every object would copy the parent's memory
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if held is not None:                # what a copy of the parent has
        held.close()
    else:
        keep_freed_memory()
        ONE_BLAS_THREAD.__enter__()
        flat.bind(dict(model.params()), flat.grads[i])
    worker, parts, wait = worker_of(kind, model, flat, i), {}, Wait()
    with contextlib.suppress(EOFError, OSError):
        while (message := wait.receive(way)) is not None:
            function, share, common, gone = message
            for number in gone:
                parts.pop(number, None)
            share = [(kept(part, parts), more) for part, more in share]
            try:
                result = wait.after(unwarned, function, worker, share, common)
            except Exception as error:
                error.add_note(f"in worker {i}:\n{traceback.format_exc()}")
                result = error
            way.send_bytes(pickle.dumps(result))


def kept(part, parts):
    """The part itself, which may come for the first time."""
    if isinstance(part, Part):
        parts[part.number] = part
    return parts[part.number] if isinstance(part, Known) else part

"""Parts of a batch at once: a model and its shadows, each in a process or a thread of its own.

Two shards on two cores beat one shard whose products are spread over two cores: the elementwise
work is shared out as well, and nothing waits in the middle of a layer. Processes do so without
the interpreter's lock, for which threads ask at every NumPy call, thousands of times in a step.
They share the optimizer's memory (npdl_train.fast.flat_parameters), so that only batches travel,
once each.
"""

import atexit
import contextlib
import functools
import gc
import itertools
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
import weakref
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.heap import Arena as SharedFile

import numpy as np

from npdl.backend import is_host
from npdl.errors import NpdlError
from npdl.threads import ONE_BLAS_THREAD
from npdl_train.console import note
from npdl_train.fast.memory import give_freed_memory_back, keep_freed_memory
from npdl_train.process import is_stopped

START = "fork" if sys.platform == "linux" else "spawn"     # how a process begins
AWAKE = 0.1         # of the time that a process has computed it waits awake: one that sleeps begins
                    # a tenth of a millisecond late, four times in a step
LONGEST = 2e-3      # seconds that it waits awake at most
WORTH = 50_000      # learned numbers: a smaller model's step is too short to be handed over
PATIENCE = 10.0     # seconds without an answer, after which one looks whether a process is stopped
SIGNALS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM")       # the parent's
           if (number := getattr(signal, name, None))]


class WorkerLost(NpdlError):
    """A process that computed a part of each batch, and is no more."""


class Deferred:
    """What a worker computes with, `made` by make(*given), once, where it is needed."""

    _numbers = itertools.count()

    def __init__(self, make, *given):
        self.make, self.given, self.number = make, given, next(self._numbers)

    @functools.cached_property
    def made(self):
        return self.make(*self.given)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "made"}


Known = namedtuple("Known", "number")       # stands for a Deferred that a process has


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
    Outside of it one works after the other. After any exception, Ctrl-C too, nothing is left at
    work, and no answer for the next question.
    """

    cleanup, pools = None, ()

    def __init__(self, kind, models, flat):
        self.kind, self.models, self.flat = kind, models, flat
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

    def __del__(self):
        if self.cleanup is not None:                    # dropped inside of `with`
            self.cleanup.close()

    def start(self, undo):
        self.pools = [undo.enter_context(ThreadPoolExecutor(1)) for _ in self.workers[1:]]
        undo.callback(setattr, self, "pools", ())

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
        if not self.pools:
            return [function(*pair, common) for pair in pairs]
        try:
            others = [pool.submit(unwarned, function, *pair, common)    # its own, so that each
                      for pool, pair in zip(self.pools, pairs[1:], strict=True)]    # has an order
            return [function(*pairs[0], common), *(other.result() for other in others)]
        except BaseException:
            for pool in self.pools:
                pool.submit(int).result()
            raise


def shared_memory(nbytes, forks):
    """Memory that processes share: a map that those which are forked have, else a SharedFile, whose
    `buffer` it is. Its pages are taken now; where several are promised the same of a sparse file,
    one dies by SIGBUS. Raises NpdlError where there is not so much."""
    if forks:
        return mmap.mmap(-1, nbytes)
    try:
        store = SharedFile(nbytes)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(store.fd, 0, nbytes)
    except OSError as error:
        raise NpdlError(f"the fast engine's processes share {nbytes / 2**20:.1f} MiB, which "
                        f"the system refuses ({error.strerror}); free memory in /dev/shm, or take "
                        "--threads 1") from error
    return store


def unwarned(function, *arguments):
    """Without NumPy's warnings, as in the training loop: every thread has settings of its own."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return function(*arguments)


class Processes(Threads):
    """The others in processes: inside `with`, the optimizer's memory is shared with them.

    Raises WorkerLost where one has ended. They end with this process, however it does, and after
    any exception; the next question is answered by new ones. A process that is forked off this one
    inside of `with` goes on alone.
    """

    others, idle, pid = (), False, None

    def start(self, undo):
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            sys.exit(1)                 # it imports a script without a guard: its parent says so
        self.flat.snapshot.check()
        self.flat.move_into(shared_memory(self.flat.nbytes, START == "fork"))
        self.make()
        self.wait, self.pid, self.others = Wait(), os.getpid(), []
        undo.callback(self.stop)
        at_exit = functools.partial(leave, weakref.ref(self))
        atexit.register(at_exit)        # before multiprocessing waits for its processes
        undo.callback(atexit.unregister, at_exit)
        self.begin()

    def begin(self):
        """Start the processes; first end those that an exception has left."""
        self.end()
        give_freed_memory_back()        # else each process would write in a copy of it
        with undisturbed():
            for i in range(1, len(self.models)):
                self.others.append(Other(self.kind, self.models[i], self.flat, i))
        for other in self.others if START != "fork" else ():
            other.tell(other.task)
        self.idle = True

    def end(self):
        """End the processes."""
        for other in self.others:
            if self.pid == os.getpid():
                other.end()
            Other.alive.discard(other)
        self.others = []

    def stop(self):
        """End the processes, and take the memory back."""
        self.end()
        self.pid = None
        with contextlib.suppress(NpdlError):        # a model that is another engine's by now
            self.flat.snapshot.check()
            self.flat.move_into()
            self.make()

    def at_once(self, function, shares, common):
        if self.pid != os.getpid():                 # outside of `with`, or forked off
            if self.pid is not None:
                self.stop()
            return super().at_once(function, shares, common)
        if not self.idle:
            self.begin()
        self.idle = False
        try:
            for other, share in zip(self.others, shares[1:], strict=True):
                other.ask(function, share, common)
            done = [self.wait.after(function, self.workers[0], shares[0], common)]
            done += [other.answer(self.wait) for other in self.others]
            self.idle = True
            return done
        finally:
            if not self.idle:           # an exception: they may still compute, and write
                self.end()


def leave(processes):
    """At the end of the interpreter."""
    if processes() is not None:
        processes().end()


@contextlib.contextmanager
def undisturbed():
    """Signals wait meanwhile: one would leave a process that nobody knows."""
    if not hasattr(signal, "pthread_sigmask"):      # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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

    def receive(self, way, meanwhile=lambda: None):
        """What comes next; `meanwhile` is called whenever it takes PATIENCE."""
        begun = time.perf_counter()
        while self.awake > 0 and not way.poll():
            now = time.perf_counter()
            self.awake, begun = self.awake - (now - begun), now
        while not way.poll(PATIENCE):
            meanwhile()
        return way.recv()


class Other:
    """A process with worker `i`, and this end of the way to it. What it computes with, `task`,
    comes by that way: a process that dies as it begins reads nothing else."""

    alive = set()       # in a cycle that is collected a way would close itself before end() does

    def __init__(self, kind, model, flat, i):
        self.i, self.known, self.gone = i, set(), []        # numbers of parts that it has, or had
        self.said = self.begun = False                      # that it is stopped; whether it answers
        self.task = kind, model, flat
        context = multiprocessing.get_context(START)
        self.way, its = context.Pipe()
        forked = (self.way, self.task) if START == "fork" else ()   # copies that it has anyway
        self.process = context.Process(target=serve, args=(its, i, flat.store, *forked),
                                       name=f"npdl worker {i}", daemon=True)
        try:
            self.process.start()
        except (EOFError, ConnectionError) as error:        # of a server, which imports it
            raise self.lost() from error
        its.close()
        self.alive.add(self)

    def tell(self, message):
        try:
            self.way.send_bytes(pickle.dumps(message))      # of send's own copy an error holds on
        except OSError as error:
            raise self.lost() from error

    def ask(self, function, share, common):
        gone = {self.gone.pop() for _ in range(len(self.gone))}
        self.known -= gone
        self.tell((function, [self.brief(*item) for item in share], common, gone))

    def brief(self, part, more):
        """A part that the process has becomes Known; nothing else is changed."""
        if not isinstance(part, Deferred):
            return part, more
        if part.number in self.known:
            return Known(part.number), more
        self.known.add(part.number)
        weakref.finalize(part, self.gone.append, part.number).atexit = False
        return part, more

    def answer(self, wait):
        try:
            result = wait.receive(self.way, self.note_if_stopped)
        except (EOFError, OSError) as error:
            raise self.lost() from error
        self.begun = True
        if isinstance(result, Exception):
            raise result
        return result

    def note_if_stopped(self):
        """Say it once where the process is stopped."""
        if not self.said and is_stopped(self.process.pid):
            self.said = True
            note(f"worker {self.i} of the fast engine is stopped, and this run waits for it; "
                 f"kill -CONT {self.process.pid} lets it go on")

    def lost(self):
        """The WorkerLost that says how the process ended."""
        code = None
        if self.process.pid is not None:                    # else none began
            self.process.join(1)
            code = self.process.exitcode
        who = f"worker {self.i} of the fast engine, a process, was ended"
        if START != "fork" and not self.begun and (code is None or code > 0):
            return WorkerLost(f"{who} as it began; each imports the script that uses the engine: "
                              'put what it runs behind if __name__ == "__main__", in a file')
        how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
        return WorkerLost(f"{who} {how}{', perhaps for want of memory' * (code == -9)}; the last "
                          "checkpoint is kept; --resume goes on from it, with --threads 1 without "
                          "other processes")

    def end(self):
        self.process.kill()
        self.process.join()
        self.way.close()


def serve(way, i, store, held=None, task=None):
    """What the process does: answer, until nobody is left to ask."""
    gc.freeze()                         # a look at every object would copy the parent's memory
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        if task is not None:
            held.close()
        else:
            keep_freed_memory()
            ONE_BLAS_THREAD.__enter__()
            task = way.recv()
            task[-1].open(store)
            task[-1].bind(dict(task[1].params()), task[-1].grads[i])
        worker, parts, wait = worker_of(*task, i), {}, Wait()
        while True:
            function, share, common, gone = wait.receive(way)
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
    if isinstance(part, Deferred):
        parts[part.number] = part
    return parts[part.number] if isinstance(part, Known) else part

"""On a GPU: a training step as one CUDA graph, for the host one copy and one launch.

A step of a small model is a hundred kernels of some microseconds, which Python asks for more slowly
than a card computes them. A CUDA graph is what a stream was asked for while it was captured, to be
repeated by one call, with the same memory. So everything that changes from step to step stands in
memory that stays (npdl_train.fast.static): tokens, targets, dropout's masks, and the numbers of an
update. Where other memory is allocated inside, it is from a pool that is this graph's alone: what
another took in between would lie where the graph's own arrays lie. Its products are npdl's own
(npdl/cublas.py), in a graph and outside, so that both give the same bits.
"""

import functools
import operator
from collections import OrderedDict

import numpy as np

from npdl.backend import is_host, to_host, xp
from npdl.errors import BackendError, InputError, checked_ids
from npdl_train.console import note
from npdl_train.fast.engine import FastEngine, loss_of, start
from npdl_train.fast.flat_parameters import rates
from npdl_train.fast.loss import by_sequence, seen
from npdl_train.fast.static import Buffer, Masks, Tokens

KEPT = 16               # graphs of an engine, one for each shape of a batch: the last used ones


def possible():
    """Whether the backend has streams that can be captured."""
    return not is_host() and hasattr(xp.cuda, "Stream")


@functools.cache
def stream_of(cupy):
    """The stream of all engines: each stream has a cuBLAS of its own."""
    return cupy.cuda.Stream(non_blocking=True)


def own_pool():
    """A memory pool, with what the limit of CuPy's own leaves."""
    pool, usual = xp.cuda.MemoryPool(), xp.get_default_memory_pool()
    if usual.get_limit():
        pool.set_limit(size=max(usual.get_limit() - usual.used_bytes(), 1))
    return pool


class Work:
    """What is computed of batches of one shape: the shards in memory that stays, and the graph.

    The first time eagerly, which makes every constant and every kernel; the second time captured.
    """

    def __init__(self, engine, batch, dropout):
        self.engine, self.graph, self.warm = engine, None, False
        self.pool, self.batch = own_pool(), None
        self.shards = [part.make(*part.given) for part in engine.cut(batch, shared=not dropout)]
        self.masks = [Masks(shard) if dropout else None for shard in self.shards]
        self.settle()

    def settle(self):
        """Put what changes into the Buffer."""
        engine, worker = self.engine, self.engine.workers.workers[0]
        drawing = [masks for masks in self.masks if masks is not None]
        for masks in drawing:
            start(worker, masks.shard, masks)                   # which masks does the model want?
            masks.asking = False
        sizes = [size for shard in self.shards
                 for size in (shard.rows.size, shard.counted.size, shard.counted.size)]
        shapes = [(masks.shard.rows.size, mask.width) for masks in drawing for mask in masks.masks]
        self.buffer = Buffer(engine.flat.dtype, sizes, shapes, engine.stream)
        scalars, ids, kept = self.buffer.views
        self.scalars, ids, kept = [scalars[i : i + 1] for i in range(4)], iter(ids), iter(kept)
        V = engine.model.embedding.W.shape[0]
        for shard in self.shards:
            shard.rows.lookups["tokens"] = {V: Tokens(next(ids), V)}
            shard.counted.targets, shard.counted.place = next(ids), next(ids)
        for masks in drawing:
            for mask in masks.masks:
                mask.keep = next(kept)

    def fill(self, batch, numbers, rng):
        """A batch and an update's numbers, to the device by one copy."""
        arrays = batch.inputs, batch.targets
        new = self.batch is not batch or not all(map(np.array_equal, arrays, self.before))
        if new:
            self.engine.check(*arrays, batch.counted)
        drawing = [masks for masks in self.masks if masks is not None]
        with self.buffer.written("masks" if drawing else "ids" if new else "scalars") as host:
            scalars, ids, kept = host
            scalars[: len(numbers)] = numbers
            if new or drawing:
                self.put(*arrays, iter(ids))
            places = iter(kept)
            for masks in drawing:
                masks.draw(rng(), [next(places) for _ in masks.masks])
        if new:
            self.batch, self.before = batch, [array.copy() for array in arrays]

    def put(self, inputs, targets, ids):
        """Each shard's tokens, targets and their places among the logits."""
        V = self.engine.model.classifier.sizes[1]
        for shard in self.shards:
            rows, counted, part = shard.rows, shard.counted, shard.sequences
            next(ids)[...] = inputs[part][rows.first, rows.positions]
            goal = checked_ids(targets[part][counted.sequence, counted.position], V, "targets")
            next(ids)[...] = goal
            next(ids)[...] = np.arange(counted.size) * V + goal

    def run(self, body):
        """body(): eagerly, captured, or what was captured."""
        engine = self.engine
        if self.graph is not None:
            self.graph.launch(engine.stream)
            return
        with xp.cuda.using_allocator(self.pool.malloc):
            if self.warm and engine.captures:
                self.graph = captured(engine, body)
            if self.graph is None:
                body()
        self.warm = True
        if self.graph is not None:
            self.graph.launch(engine.stream)


def captured(engine, body):
    """The graph of body(), or None where it cannot be captured: then the engine goes on without."""
    stream, why, graph = engine.stream, None, None
    stream.synchronize()
    try:
        stream.begin_capture()
        body()
    except (RuntimeError, MemoryError, BackendError) as error:
        why = error
    try:
        graph = stream.end_capture()
    except RuntimeError as error:
        why = why or error
    if why is None:
        return graph
    engine.captures = False
    note(f"--engine fast: no CUDA graph ({' '.join(str(why).split())[:150]}); going on with "
         "--engine eager")
    return None


class Step(Work):
    """A step of training: loss, gradients, clipping and update."""

    loss = norm = None

    def __init__(self, engine, batch, dropout, clips):
        self.clips = clips
        super().__init__(engine, batch, dropout)

    def gradients(self):
        worker = self.engine.workers.workers[0]
        worker.grad[...] = 0
        worker.arena.written.clear()
        losses = [loss_of(worker, *pair) for pair in zip(self.shards, self.masks, strict=True)]
        self.loss = functools.reduce(operator.add, losses)

    def body(self):
        flat, (rate, eps, keep, max_norm) = self.engine.flat, self.scalars
        self.gradients()
        if self.clips:
            self.norm = flat.clip(max_norm)
        flat.move(flat.parts(max(flat.size, 1)), rate, eps, keep)


class Measure(Work):
    """What `measure` tells of a batch: (2, E) of its targets' losses and whether each is right."""

    def body(self):
        worker, begin = self.engine.workers.workers[0], 0
        self.found = xp.empty((2, sum(p.counted.size for p in self.shards)), worker.arena.dtype)
        for shard in self.shards:
            logits, _ = start(worker, shard, None)
            end = begin + shard.counted.size
            for row, values in zip(self.found, seen(logits, shard.counted, worker.arena),
                                   strict=True):
                row[begin:end] = values
            begin = end

    def results(self):
        loss, right = to_host(self.found)
        ends = np.cumsum([shard.counted.size for shard in self.shards])[:-1]
        pairs = [by_sequence(shard.counted, *pair) for shard, *pair in zip(
            self.shards, np.split(loss, ends), np.split(right, ends), strict=True)]
        return tuple(np.concatenate(both) for both in zip(*pairs, strict=True))


class Later:
    """A number of a step, `loss` or `norm`: float(it) waits for it, until the next step begins."""

    def __init__(self, engine, what):
        self.engine, self.what, self.number = engine, what, engine.number

    def __float__(self):
        if self.engine.number != self.number or self.engine.asked is not None:
            raise InputError(f"the {self.what} of a step on a GPU is there from its update until "
                             "the next step; read it in between")
        return float(getattr(self.engine.work, self.what))


class GraphEngine(FastEngine):
    """FastEngine on a GPU: inside `with`, each shape of step, and of `measure`, is one CUDA graph.

    `step` and `clip` only say what is wanted: `update` computes all three, and the gradients stand
    in the Params after it. `captures` False: the same kernels one by one, the same bits.
    """

    def __init__(self, model, optimizer, threads=1, captures=True):
        super().__init__(model, optimizer, threads)
        self.captures, self.works, self.inside = captures, OrderedDict(), False
        self.asked = self.work = None           # (batch, rng, max_norm) of a step to be computed
        self.number = 0                         # of the step

    def __enter__(self):
        super().__enter__()
        self.stream = stream_of(xp._module)
        xp.cuda.Device().synchronize()          # what other streams were asked for
        self.stream.__enter__()
        self.inside = True
        return self

    def __exit__(self, *error):
        self.inside, self.asked = False, None
        self.stream.synchronize()
        self.stream.__exit__(*error)
        super().__exit__(*error)

    def step(self, batch, rng=None):
        if not self.inside:
            return super().step(batch, rng)
        self.asked, self.number = (batch, rng, None), self.number + 1
        return Later(self, "loss")

    def clip(self, max_norm):
        if self.asked is None:
            return super().clip(max_norm)
        self.asked = (*self.asked[:2], max_norm)
        return Later(self, "norm")

    def update(self, lr=None):
        if self.asked is None:
            super().update(lr)
            return
        batch, rng, max_norm = self.asked
        optimizer = self.flat.optimizer
        self.flat.snapshot.check()
        lr, clips = float(optimizer.rate(lr)), max_norm is not None
        self.work = self.work_of(Step, batch, rng is not None, clips)
        optimizer.steps += 1
        numbers = (*rates(optimizer, lr), max_norm if clips else 0.0)
        try:
            self.work.fill(batch, numbers, rng)
        except InputError:
            optimizer.steps -= 1
            raise
        self.work.run(self.work.body)
        self.asked = None

    def measure(self, batch):
        if not self.inside:
            return super().measure(batch)
        self.flat.snapshot.check()
        work = self.work_of(Measure, batch, False)
        work.fill(batch, (), None)
        work.run(work.body)
        return work.results()

    def work_of(self, kind, batch, dropout, *more):
        """The Work for batches of this shape, with what else is the same in all its runs."""
        settings = [pair for pair in self.flat.settings().items() if pair[0] not in ("lr", "steps")]
        key = (kind, batch.inputs.shape, np.asarray(batch.counted).tobytes(), batch.chunk, dropout,
               more, tuple(settings))
        if key not in self.works:
            self.check(batch.inputs, batch.targets, batch.counted)
            if len(self.works) >= KEPT:
                self.stream.synchronize()
                self.works.popitem(last=False)
            self.works[key] = kind(self, batch, dropout, *more)
        self.works.move_to_end(key)
        return self.works[key]

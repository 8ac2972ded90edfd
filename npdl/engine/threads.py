"""Split a batch over threads: each shard has a recording and gradients of its own.

    step = compile_step(model, loss, optimizer, threads=2)

A replay consists of a few hundred calls that release the interpreter's lock, so two threads compute
at the same time. The mean loss of a batch is the mean of its shards' losses, weighted by their
sizes; backward starts from these weights as `dloss`. The gradients are summed in the order of the
shards, so a run gives the same bits each time.
"""

import os
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from npdl.errors import InputError, require_positive


def shard_step(model, loss, inputs, targets, options, weight):
    """The gradients of one shard, in its own copy of the model; returns its part of the loss."""
    model.zero_grad()
    outputs, cache = model.forward(*inputs, **options)
    y = outputs[0] if isinstance(outputs, tuple) else outputs
    value, c_loss = loss.forward(y, *targets)
    dy = loss.backward(weight, c_loss)
    model.backward(dy[0] if isinstance(dy, tuple) else dy, cache)
    return value * weight


def update_step(models, optimizer, lr, max_norm, clip):
    """Sum the gradients of the shards into the first model's, clip them, and update it."""
    for shadow in models[1:]:
        for (_, param), (_, own) in zip(models[0].params(), shadow.params(), strict=True):
            param.grad += own.grad
    if max_norm is not None:
        clip(optimizer.params.values(), max_norm)
    optimizer.step(lr)


class ShardedStep:
    """A training step in threads. `make` makes a RecordedStep of a function and its objects."""

    def __init__(self, make, model, loss, optimizer, threads, max_norm, clip):
        require_positive(threads=threads)
        if getattr(loss, "average", "") == "token" or getattr(loss, "ignored", None) is not None:
            raise InputError(f"threads = {threads}: the targets that this loss averages over "
                             "differ from shard to shard; give threads=1, or average='sample'")
        self._make, self.model, self.loss, self.optimizer = make, model, loss, optimizer
        self.threads, self.max_norm, self.clip = threads, max_norm, clip
        self._process, self._running, self._checked = None, [], False

    def _prepare(self):
        """Make the threads and the copies of the model: in a forked process, again."""
        wait(self._running)                     # of a step that was interrupted
        shared = self._process == os.getpid() and all(
            own.data is param.data for shadow in self.models for (_, param), (_, own) in zip(
                self.model.params(True), shadow.params(True), strict=True))
        if shared:
            return
        self._process = os.getpid()
        self.models = [self.model, *(self.model.shadow() for _ in range(self.threads - 1))]
        self.shards = [self._make(shard_step, (model, self.loss)) for model in self.models]
        self.update = self._make(update_step, (self.models, self.optimizer))
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="npdl-shard")

    def __call__(self, inputs, targets, options, lr):
        self._prepare()
        B = len(inputs[0])
        ends = [B * i // self.threads for i in range(self.threads + 1)]
        rngs = options["rng"].spawn(self.threads) if options.get("rng") is not None else None
        if B < self.threads:
            raise InputError(f"threads = {self.threads}: the batch has {B} sequences; give at "
                             "least one for each thread")
        self._running = []
        for i, step in enumerate(self.shards):
            part = slice(ends[i], ends[i + 1])
            own = {name: cut(value, part, B) for name, value in options.items()}
            own |= {} if rngs is None else {"rng": rngs[i]}
            self._running.append(self._pool.submit(
                step, cut(inputs, part, B), cut(targets, part, B), own,
                (part.stop - part.start) / B))
        wait(self._running)
        losses = [future.result() for future in self._running]
        self._check_state()
        self.update(lr, self.max_norm, self.clip)
        return sum(losses[1:], losses[0])

    def _check_state(self):
        """Raise InputError if the shards change more than their gradients, such as statistics."""
        if self._checked:
            return
        self._checked = True
        for step, model in zip(self.shards, self.models, strict=True):
            own = {id(param.grad) for _, param in model.params()}
            written = [op.output.buffer for recording in step.recordings
                       for op in recording.program.operations if op.output is not None]
            if any(b.role == "state" and id(b.array) not in own for b in written):
                raise InputError(f"threads = {self.threads}: the model's forward changes its state "
                                 "(running statistics?); give threads=1")


def cut(nest, part, B):
    """The sequences of one shard, of arrays whose first axis is the batch's."""
    if isinstance(nest, tuple):
        return tuple(cut(item, part, B) for item in nest)
    is_batch = isinstance(nest, np.ndarray) and nest.ndim and len(nest) == B
    return nest[part] if is_batch else nest

"""Engines compute a step of training: npdl's layers as they are, or the fast engine.

An engine adds the gradients of a batch's mean loss into the model's parameters and updates them:

    with make_engine("fast", model, optimizer) as engine:
        loss = train_step(engine, batch, lr=1e-3, max_norm=1.0)
"""

from dataclasses import dataclass

import numpy as np

from npdl import optim
from npdl.backend import is_host, to_device, to_host
from npdl.errors import checked_ids
from npdl.losses import SequenceLoss, most_probable
from npdl.threads import BLASThreads
from npdl_train.console import note
from npdl_train.fast import adapters, graph
from npdl_train.fast.engine import FastEngine, unsupported
from npdl_train.fast.memory import Arena, keep_freed_memory

ENGINES = ("fast", "eager", "plain")


@dataclass(eq=False)
class Batch:
    """Sequences on the host.

    inputs, targets  (B, S) integers
    counted          (B, S) bool: True where a target counts
    chunk            the number of sequences that are measured at a time
    source           (B, R) integers that an encoder-decoder translates
    source_real      the valid tokens of source, as the model takes them: lengths (B,) or a mask
    """

    inputs: np.ndarray
    targets: np.ndarray
    counted: np.ndarray
    chunk: int = 2048
    source: np.ndarray | None = None
    source_real: np.ndarray | None = None

    def __len__(self):
        return len(self.inputs)

    def part(self, start, stop):
        """Return the sequences from start to stop - 1 as a Batch."""
        every = (self.inputs, self.targets, self.counted, self.source, self.source_real)
        inputs, targets, counted, *source = (a if a is None else a[start:stop] for a in every)
        return Batch(inputs, targets, counted, self.chunk, *source)

    @property
    def read(self):
        """The arguments of the model's forward."""
        if self.source is None:
            return (self.inputs,)
        return self.source, self.inputs, self.source_real


def train_step(engine, batch, lr=None, max_norm=None, rng=None):
    """Make one update of the model and return the loss.

    lr        the learning rate, or None for the optimizer's own
    max_norm  the largest global norm of the gradients, or None for no clipping
    rng       a function that makes the generator of dropout's masks, or None for no dropout
    """
    loss = engine.step(batch, rng)
    if max_norm is not None:
        engine.clip(max_norm)
    engine.update(lr)
    return loss


class PlainEngine:
    """npdl's layers as they are: nothing shared, nothing skipped, one thread.

    BLAS uses `threads` threads. The same number of them gives the same bits on every machine with
    the same BLAS.
    """

    name = "plain"

    def __init__(self, model, optimizer, threads=1):
        self.model = model
        self.optimizer = optimizer
        self.blas_threads = BLASThreads(threads)

    def __enter__(self):
        keep_freed_memory()
        self.blas_threads.__enter__()
        return self

    def __exit__(self, *error):
        self.blas_threads.__exit__(*error)

    def step(self, batch, rng=None):
        """Compute the gradients of the mean loss over `batch`; return the loss."""
        loss_layer = SequenceLoss()
        self.model.zero_grad()
        logits, cache, targets, counted = self.forward(batch, None if rng is None else rng())
        loss, c_loss = loss_layer.forward(logits, targets, counted)
        dlogits = loss_layer.backward(1.0, c_loss)
        self.model.backward(dlogits, cache)
        return loss

    def clip(self, max_norm):
        """Clip the gradients' global norm; return the norm before that."""
        return optim.clip_by_global_norm(self.optimizer.params.values(), max_norm)

    def update(self, lr=None):
        """Make one step of the optimizer."""
        self.optimizer.step(lr)

    def measure(self, batch):
        """Return each sequence's loss and its number of correct counted tokens: two (B,)."""
        losses, rights = [], []
        for start in range(0, len(batch), batch.chunk):
            part = batch.part(start, start + batch.chunk)
            logits, _, targets, counted = self.forward(part, None)
            loss, _ = SequenceLoss("none").forward(logits, targets, counted)
            losses.append(to_host(loss))
            rights.append(to_host(((most_probable(logits) == targets) & counted).sum(1)))
        return np.concatenate(losses), np.concatenate(rights)

    def forward(self, batch, rng):
        """Return the logits (B, S, V), the cache, and targets and counted on the device."""
        out, cache = self.model.forward(*batch.read, **({} if rng is None else {"rng": rng}))
        logits = out[0] if isinstance(out, tuple) else out      # an LSTM returns its state too
        if not is_host():               # a loss on a GPU can't check its targets without waiting
            checked_ids(batch.targets[batch.counted], logits.shape[-1], "targets")
        return logits, cache, to_device(batch.targets), to_device(batch.counted)


class AdapterEngine(PlainEngine):
    """The fast step of a Llama of which only adapters are trained (npdl_train.fast.adapters)."""

    name = "fast"

    def __init__(self, model, optimizer, threads=1):
        super().__init__(model, optimizer, threads)
        self.arenas = [Arena(model.embedding.W.data.dtype) for _ in range(2)]

    def step(self, batch, rng=None):
        if rng is not None or batch.source is not None or not adapters.is_supported(self.model):
            return super().step(batch, rng)
        return adapters.step(self.model, batch, *self.arenas)


def make_engine(name, model, optimizer, threads=1, plain_threads=1):
    """Return the engine called `name`, a context manager.

    "eager" is the fast engine without CUDA graphs. Where the fast engine doesn't support the model
    or the optimizer, a line says so and the plain engine computes, with `threads` threads in BLAS.
    A plain engine that is asked for has `plain_threads`.
    """
    if name == "plain":
        return PlainEngine(model, optimizer, plain_threads)
    why = unsupported(model, optimizer)
    if why is None and graph.possible():
        return graph.GraphEngine(model, optimizer, captures=name == "fast")
    if why is None:
        return FastEngine(model, optimizer, threads)
    if adapters.is_supported(model):
        return AdapterEngine(model, optimizer, threads)
    note(f"--engine {name}: {why}; going on with --engine plain")
    return PlainEngine(model, optimizer, threads)

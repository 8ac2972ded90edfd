"""What computes a step of training: the textbook as it stands, or the fast wing.

An engine adds the gradients of a batch's mean loss into the model's Params and updates them:

    with engine:
        loss = engine.step(batch)
        engine.clip(1.0)
        engine.update(lr)
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
    """Sequences on the host: inputs and targets (B, S) integers, counted (B, S) True where a
    target counts. At most `chunk` sequences are measured at a time. What an encoder-decoder
    translates: source (B, R) integers, and which of them are real, as its model wants to know it,
    lengths (B,) or a mask (B, R)."""

    inputs: np.ndarray
    targets: np.ndarray
    counted: np.ndarray
    chunk: int = 2048
    source: np.ndarray | None = None
    source_real: np.ndarray | None = None

    def __len__(self):
        return len(self.inputs)

    def part(self, start, stop):
        """The sequences from start on, below stop."""
        every = (self.inputs, self.targets, self.counted, self.source, self.source_real)
        inputs, targets, counted, *source = (a if a is None else a[start:stop] for a in every)
        return Batch(inputs, targets, counted, self.chunk, *source)

    @property
    def read(self):
        """What a model's forward is given."""
        if self.source is None:
            return (self.inputs,)
        return self.source, self.inputs, self.source_real


class PlainEngine:
    """The textbook: nothing shared, nothing skipped, one thread.

    BLAS has one thread too, or `threads`: as many give the same bits on every machine with the
    same BLAS, other numbers of them others.
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
        """The gradients of the mean loss over `batch` in the model's Params; returns the loss.

        `rng` is a function that makes the generator of dropout's masks, or None for no dropout.
        """
        loss_layer = SequenceLoss()
        self.model.zero_grad()
        logits, cache, targets, counted = self.forward(batch, None if rng is None else rng())
        loss, c_loss = loss_layer.forward(logits, targets, counted)
        dlogits = loss_layer.backward(1.0, c_loss)
        self.model.backward(dlogits, cache)
        return loss

    def clip(self, max_norm):
        """Clip the gradients' common norm; returns it as it was."""
        return optim.clip_by_global_norm(self.optimizer.params.values(), max_norm)

    def update(self, lr=None):
        """One step of the optimizer."""
        self.optimizer.step(lr)

    def measure(self, batch):
        """Each sequence's loss and how many of its counted tokens come out right: two (B,)."""
        losses, rights = [], []
        for start in range(0, len(batch), batch.chunk):
            part = batch.part(start, start + batch.chunk)
            logits, _, targets, counted = self.forward(part, None)
            loss, _ = SequenceLoss("none").forward(logits, targets, counted)
            losses.append(to_host(loss))
            rights.append(to_host(((most_probable(logits) == targets) & counted).sum(1)))
        return np.concatenate(losses), np.concatenate(rights)

    def forward(self, batch, rng):
        """The model's logits (B, S, V) and cache, the targets and what counts."""
        out, cache = self.model.forward(*batch.read, **({} if rng is None else {"rng": rng}))
        logits = out[0] if isinstance(out, tuple) else out      # an LSTM's last state beside them
        if not is_host():                                       # the loss cannot look there
            checked_ids(batch.targets[batch.counted], logits.shape[-1], "targets")
        return logits, cache, to_device(batch.targets), to_device(batch.counted)


class AdapterEngine(PlainEngine):
    """The same for a Llama of which adapters alone learn, in less time (npdl_train.fast.adapters);
    as long as it is one."""

    name = "fast"

    def __init__(self, model, optimizer, threads=1):
        super().__init__(model, optimizer, threads)
        self.arenas = [Arena(model.embedding.W.data.dtype) for _ in range(2)]

    def step(self, batch, rng=None):
        if rng is not None or batch.source is not None or not adapters.is_supported(self.model):
            return super().step(batch, rng)
        return adapters.step(self.model, batch, *self.arenas)


def make_engine(name, model, optimizer, threads=1, plain_threads=1):
    """The engine called `name`; the plain one, saying so, where the fast one does not know how:
    then the products, of a large model nearly all of the work, have the `threads`. A plain engine
    that was asked for has `plain_threads`. "eager" is the fast one without CUDA graphs."""
    if name != "plain":
        why = unsupported(model, optimizer)
        if why is None and graph.possible():
            return graph.GraphEngine(model, optimizer, captures=name == "fast")
        if why is None:
            return FastEngine(model, optimizer, threads)
        if adapters.is_supported(model):
            return AdapterEngine(model, optimizer, threads)
        note(f"--engine {name}: {why}; going on with --engine plain")
        return PlainEngine(model, optimizer, threads)
    return PlainEngine(model, optimizer, plain_threads)

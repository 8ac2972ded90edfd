"""Engines compute training steps, by npdl's layers or by replaying a recording of one step.

    with make_engine("recorded", model, optimizer) as engine:
        loss = engine.step(batch, lr=1e-3, max_norm=1.0)
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from npdl.backend import is_host, to_device, to_host
from npdl.engine import RecordedStep, compile_step
from npdl.engine.prefix import CAUSAL, PrefixRowsCache, make_prefix_model
from npdl.engine.training import update_parameters
from npdl.errors import checked_ids
from npdl.losses import SequenceLoss, most_probable
from npdl.threads import BLASThreads

ENGINES = ("recorded", "plain")


@dataclass(eq=False)
class Batch:
    """A batch of B sequences, in the memory of the host.

    inputs, targets  (B, S) integers
    loss_mask        (B, S) bool, True where the loss counts a target
    source           (B, R) integers that an encoder-decoder translates
    source_real      the valid tokens of source, as the model takes it: lengths (B,) or mask (B, R)
    chunk            the largest number of sequences that are evaluated at a time
    """

    inputs: np.ndarray
    targets: np.ndarray
    loss_mask: np.ndarray
    source: np.ndarray | None = None
    source_real: np.ndarray | None = None
    chunk: int = 2048

    def __len__(self):
        return len(self.inputs)

    def split(self, size):
        """Split this batch into Batches of `size` sequences; the last one may have fewer."""
        arrays = (self.inputs, self.targets, self.loss_mask, self.source, self.source_real)
        return [Batch(*(None if a is None else a[i:i + size] for a in arrays), chunk=self.chunk)
                for i in range(0, len(self), size)]

    @property
    def model_inputs(self):
        """Return the arguments of the model's forward."""
        if self.source is None:
            return (self.inputs,)
        return self.source, self.inputs, self.source_real


class PlainEngine:
    """Runs npdl's layers without recording them. BLAS uses `blas_threads` threads."""

    name = "plain"

    def __init__(self, model, optimizer, blas_threads=1):
        self.model, self.optimizer = model, optimizer
        self._blas_threads = BLASThreads(blas_threads)

    def __enter__(self):
        self._blas_threads.__enter__()
        return self

    def __exit__(self, *error):
        self._blas_threads.__exit__(*error)

    def step(self, batch, lr=None, max_norm=None, rng=None):
        """Make one update of the model and return the mean loss.

        lr        the learning rate, or None for the optimizer's own
        max_norm  the largest global norm of the gradients, or None for no clipping
        rng       the generator of dropout's masks, or None for no dropout
        """
        loss_layer, options = SequenceLoss(), {} if rng is None else {"rng": rng}
        self.model.zero_grad()
        logits, cache = compute_logits_and_cache(self.model, batch.model_inputs, **options)
        if not is_host():               # a loss on a GPU can't check its targets without waiting
            checked_ids(batch.targets[batch.loss_mask], logits.shape[-1], "targets")
        loss, c_loss = loss_layer.forward(logits, to_device(batch.targets),
                                          to_device(batch.loss_mask))
        self.model.backward(loss_layer.backward(1.0, c_loss), cache)
        update_parameters(self.optimizer, lr, max_norm)
        return loss

    def measure_sequences(self, batch):
        """Return two arrays (B,): each sequence's loss and count of correct unmasked tokens."""
        return join_results([
            measure_sequences(self.model, part.model_inputs, to_device(part.targets),
                              to_device(part.loss_mask)) for part in batch.split(batch.chunk)])


class RecordedEngine(PlainEngine):
    """Records a step of the layers and replays it (npdl.engine.compile_step) in `threads` threads.

    If the loss mask hides positions, a prefix that several sequences share (the same first tokens)
    is computed only once.
    """

    name = "recorded"

    def __init__(self, model, optimizer, target="auto", threads=1, blas_threads=1):
        super().__init__(model, optimizer, blas_threads)
        self._target, self._threads = target, threads if is_host() else 1
        self._steps, self._measures = {}, {}

    def step(self, batch, lr=None, max_norm=None, rng=None):
        shared = rng is None and self.can_share_prefixes(batch)
        if (shared, max_norm) not in self._steps:
            self._steps[shared, max_norm] = compile_step(
                self.model, SequenceLoss(), self.optimizer, max_norm=max_norm,
                target=self._target, threads=self._threads, share_prefixes=shared)
        step = self._steps[shared, max_norm]
        return step(batch.model_inputs, batch.targets, batch.loss_mask, lr=lr,
                    **({} if rng is None else {"rng": rng}))

    def can_share_prefixes(self, batch):
        """Return True if a prefix can be computed once for all sequences that begin with it."""
        return is_host() and type(self.model) in CAUSAL and not batch.loss_mask.all()

    def measure_sequences(self, batch):
        shared = self.can_share_prefixes(batch)
        parts = batch.split(min(batch.chunk, -(-len(batch) // self._threads)))
        if shared not in self._measures:
            function = measure_with_shared_prefixes if shared else measure_sequences
            self._measures[shared] = [RecordedStep(function, (self.model,), self._target)
                                      for _ in range(self._threads)]
        steps = self._measures[shared]

        def make_arguments(part):
            arrays = part.targets, part.loss_mask
            if not shared:
                return part.model_inputs, *arrays
            return PrefixRowsCache().get_prefix_rows(self.model, part.model_inputs, arrays)

        def measure_parts_of_thread(thread):
            return [steps[thread](*make_arguments(part)) for part in parts[thread::self._threads]]
        with ThreadPoolExecutor(self._threads) as pool:
            done = list(pool.map(measure_parts_of_thread, range(self._threads)))
        threads = self._threads
        return join_results([done[i % threads][i // threads] for i in range(len(parts))])


def compute_logits_and_cache(model, inputs, **options):
    """Return (logits (B, S, V), cache) of a model's forward. (An LSTM returns its state, too.)"""
    out, cache = model.forward(*inputs, **options)
    return out[0] if isinstance(out, tuple) else out, cache


def measure_sequences(model, inputs, targets, loss_mask):
    """Return two arrays (B,): each sequence's loss and its number of correct unmasked tokens."""
    logits, _ = compute_logits_and_cache(model, inputs)
    return measure_from_logits(logits, most_probable(logits), targets, loss_mask)


def measure_with_shared_prefixes(model, rows, entries, targets, loss_mask):
    """Return the results of `measure_sequences`, but compute each distinct prefix only once.

    rows     the distinct prefixes (npdl.engine.prefix.Rows)
    entries  (B, C) integers: for each of the targets (B, C), the index of its prefix
    """
    logits, _ = make_prefix_model(model).forward(rows)          # logits (M, V), one row per prefix
    return measure_from_logits(logits[entries], most_probable(logits)[entries], targets, loss_mask)


def measure_from_logits(logits, predicted, targets, loss_mask):
    """Return the results of `measure_sequences` from the logits and the predicted tokens."""
    loss, _ = SequenceLoss("none").forward(logits, targets, loss_mask)
    return loss, ((predicted == targets) & loss_mask).sum(1)


def join_results(results):
    """Join the (losses, counts) of a batch's parts into two arrays (B,)."""
    losses, counts = zip(*results, strict=True)
    return np.concatenate(list(map(to_host, losses))), np.concatenate(list(map(to_host, counts)))


def make_engine(name, model, optimizer, target="auto", threads=1, blas_threads=1):
    """Return an engine, which is a context manager. `name` is one of ENGINES.

    target        the form that a recording is compiled to (npdl.engine.compile_step)
    threads       number of threads among which the recorded engine divides a batch
    blas_threads  number of BLAS's threads; several are faster for a real model's large matrices
    """
    if name == "plain":
        return PlainEngine(model, optimizer, blas_threads)
    return RecordedEngine(model, optimizer, target, threads, blas_threads)

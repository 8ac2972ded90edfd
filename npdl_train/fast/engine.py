"""What the training loop asks of the wing: step(batch) -> loss."""

import functools
import itertools
import operator
import weakref
from dataclasses import dataclass

import numpy as np

from npdl.backend import is_host, to_device
from npdl.core import named_layers
from npdl.errors import InputError
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.training_errors import check_loss_shapes
from npdl_train.fast.flat_parameters import UPDATES, FlatParameters
from npdl_train.fast.gpt import FastGPT
from npdl_train.fast.loss import Counted, loss_and_gradient, measured
from npdl_train.fast.lstm import FastLSTM
from npdl_train.fast.prefix import Rows
from npdl_train.fast.workers import Deferred, workers_for

MODELS = {GPT: FastGPT, LSTMLM: FastLSTM}


def unsupported(model, optimizer):
    """Why the wing cannot train this model with this optimizer, in a few words; None if it can.

    It can where its proof holds (tests/fast/test_fast.py): the models, optimizers and layers that
    are named in MODELS, UPDATES and each model's PARTS, and no subclass of them.
    """
    if type(model) not in MODELS:
        return f"{type(model).__name__} is not among its models"
    if type(optimizer) not in UPDATES:
        return f"{type(optimizer).__name__} is not among its optimizers"
    parts = MODELS[type(model)].parts
    for name, layer in named_layers(model):
        place = [part for part in name.split(".") if not part.isdigit()][-1]
        if name and type(layer) not in parts.get(place, ()):
            return f"{type(layer).__name__} is not among its layers for {name}"
        if name.endswith("attention.dropout") and layer.rate:
            return "it has no dropout of attention weights"
    params = [param for _, param in model.params(frozen=True)]
    if len({str(param.data.dtype) for param in params if param.data.dtype.kind == "f"}) > 1:
        return "the parameters have several dtypes"
    learned = {id(param) for param in params if param.trainable}
    if learned != {id(param) for param in optimizer.params.values()} or not learned:
        return "the optimizer has not the parameters that the model learns"
    return None


@dataclass
class Shard:
    """A part of a batch: its rows, and what the loss looks at."""

    rows: Rows
    counted: Counted
    sequences: slice        # which of the whole batch's sequences these are
    batch: int              # how many sequences the whole batch has


class Masks:
    """Dropout's numbers as the textbook draws them for the whole batch, for a shard's rows."""

    def __init__(self, rng, shard):
        self.rng, self.shard = rng, shard

    def scale(self, dropout, rows, width, dtype):
        """Dropout.forward's `scale`, (N, width) in the order of the rows."""
        drawn = self.rng.random((self.shard.batch, rows.batch_shape[1], width))
        keep = to_device(drawn[self.shard.sequences] >= dropout.rate)
        return rows.pick(keep).astype(dtype) * (1 / (1 - dropout.rate))


class FastEngine:
    """Computes what PlainEngine does (npdl_train.runs.engine), in less time.

    A batch is cut into `threads` parts. Where only some positions count, no more than they need
    is computed, and equal beginnings of sequences once; with dropout, which makes them differ,
    each for itself. What is made out of a batch is kept as long as the batch is, unchanged.

    Raises InputError for what it cannot train (`unsupported`), for a model that was changed after
    the engine was made, and for the batches that the textbook refuses.
    """

    name = "fast"

    def __init__(self, model, optimizer, threads=1):
        why = unsupported(model, optimizer)
        if why is not None:
            raise InputError(f"the fast engine: {why}; use PlainEngine")
        self.model = model
        kind = MODELS[type(model)]
        models = [model, *(model.shadow() for _ in range(threads - 1 if is_host() else 0))]
        self.flat = FlatParameters(optimizer, models, kind.together(model))
        self.workers = workers_for(kind, models, self.flat)
        self.parts_of = weakref.WeakKeyDictionary()     # {batch: (its arrays then, its parts)}

    def __enter__(self):
        self.workers.__enter__()
        return self

    def __exit__(self, *error):
        self.workers.__exit__(*error)

    def step(self, batch, rng=None):
        """The gradients of the mean loss over `batch` in the model's Params; returns the loss.

        `rng` is a function that makes the generator of dropout's masks, or None for no dropout.
        """
        parts = self.parts(batch, shared=rng is None)
        losses = self.workers.run(learn, [(part, rng and rng()) for part in parts])
        self.flat.sum_grads()
        return functools.reduce(operator.add, losses)

    def clip(self, max_norm):
        """Clip the gradients' common norm; returns it as it was."""
        self.flat.snapshot.check()
        return self.flat.clip(max_norm)

    def update(self, lr=None):
        """One step of the optimizer."""
        self.flat.snapshot.check()
        self.flat.step(lr, self.workers.run)

    def measure(self, batch):
        """Each sequence's loss and how many of its counted tokens come out right: two (B,)."""
        results = self.workers.run(measure, [(part, None) for part in self.parts(batch)])
        loss, right = (np.concatenate(parts) for parts in zip(*results, strict=True))
        return loss, right

    def parts(self, batch, shared=True):
        """The batch in as many parts as there are workers, or more where it is large."""
        self.flat.snapshot.check()
        arrays = batch.inputs, batch.targets, batch.counted
        before, known = self.parts_of.get(batch, ((), {}))
        if not before or not all(map(np.array_equal, arrays, before)):
            self.check(*arrays)
            known = {}
            self.parts_of[batch] = [np.copy(array) for array in arrays], known
        if shared not in known:
            known[shared] = self.cut(batch, shared)
        return known[shared]

    def cut(self, batch, shared):
        """The parts, made anew."""
        count = max(len(self.workers.models), -(-len(batch) // batch.chunk))
        count = min(count, len(batch))
        size, more = divmod(len(batch), count)
        cuts = [i * size + min(i, more) for i in range(count + 1)]
        return [self.part(batch, slice(*cut), shared) for cut in itertools.pairwise(cuts)]

    def check(self, ids, targets, counted):
        """The checks of the textbook's model and loss."""
        self.workers.workers[0].check(ids)
        check_loss_shapes((*np.shape(ids), self.model.classifier.sizes[1]), targets, counted)

    def part(self, batch, sequences, shared):
        """The Shard of a batch with these sequences, Deferred."""
        ids, targets, counted = (
            each[sequences] for each in (batch.inputs, batch.targets, batch.counted))
        # Of a text everything counts, and little is equal; for a GPU a gather costs more than
        # what it saves.
        shared = shared and not counted.all() and is_host()
        return Deferred(self.shard, ids, targets, counted, shared, sequences, len(batch),
                        self.model.classifier.sizes[1])

    @staticmethod
    def shard(ids, targets, counted, shared, sequences, batch, V):
        """What a worker makes of its part of a batch."""
        rows = Rows(ids, shared, words=shared)
        return Shard(rows, Counted(rows, targets, counted, batch, V), sequences, batch)


def learn(worker, parts, _):
    """[the loss of each part], its gradients in the worker's memory, which had others."""
    worker.grad[...] = 0
    worker.arena.written.clear()
    return [loss_of(worker, part.made, None if rng is None else Masks(rng, part.made))
            for part, rng in parts]


def loss_of(worker, shard, masks):
    """The loss of a shard, its gradients being added."""
    if not shard.counted.size:
        return 0.0
    logits, cache = start(worker, shard, masks)
    loss, dlogits = loss_and_gradient(logits, shard.counted, worker.arena)
    worker.backward(dlogits, cache)
    return loss


def measure(worker, parts, _):
    """[`measured` of each part]."""
    return [measured(start(worker, part.made, None)[0], part.made.counted, worker.arena)
            for part, _ in parts]


def start(worker, shard, masks):
    """The logits (M, V) of the rows that the loss looks at, and the cache."""
    worker.arena.reset()
    return worker.forward(shard.rows, shard.counted.needed, masks)

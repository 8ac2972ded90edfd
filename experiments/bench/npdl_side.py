"""npdl's side: the model of a case, and the engines that compute its step.

    plain    the textbook: one thread, every position
    equal    the fast wing, every position of every sequence, as PyTorch computes them
    needed   what can reach the loss
    shared   that, and equal beginnings of sequences once: what the training scripts do
"""

import numpy as np

from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW, matrices_only
from npdl_train.fast.engine import FastEngine, Shard
from npdl_train.fast.loss import Counted
from npdl_train.fast.memory import keep_freed_memory
from npdl_train.fast.prefix import Rows
from npdl_train.runs.engine import Batch, PlainEngine

from .cases import make_batch


class EqualEngine(FastEngine):
    """Computes all positions, whether they count or not."""

    @staticmethod
    def shard(ids, targets, counted, shared, sequences, batch, V):
        rows = Rows(ids, share=False, words=False)
        return Shard(rows, Counted(rows, targets, counted, batch, V, every=True), sequences, batch)


class NeededEngine(FastEngine):
    """Computes what counts for each sequence by itself, as dropout needs it."""

    def part(self, batch, sequences, shared):
        return super().part(batch, sequences, shared=False)


WING = {"equal": EqualEngine, "needed": NeededEngine, "shared": FastEngine}


def npdl_model(case):
    """The model of `case` and its AdamW."""
    settings = {key: case.optimizer[key] for key in ("lr", "betas", "weight_decay")}
    if case.model == "lstm":
        model = LSTMLM(case.vocab, case.width, case.layers)
    elif case.is_text:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length,
                    norm="pre", positions="learned", tied=True, bias=False)
    else:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length)
    if case.optimizer["matrices_only"]:
        matrices_only(model)
    return model, AdamW(model, **settings)


def npdl_engine(case, work, threads=1):
    """The engine that does `work` on a fresh model of `case`."""
    model, optimizer = npdl_model(case)
    if work == "plain":
        return PlainEngine(model, optimizer)
    return WING[work](model, optimizer, threads)


def npdl_batch(case):
    """The case's batch, sorted as the trainer sorts its own."""
    arrays = make_batch(case)
    order = np.lexsort(arrays[0].T[::-1])
    return Batch(*(array[order] for array in arrays), chunk=case.batch)


def npdl_step(case, work="equal", threads=1, prepared=False, trainer=True, keep=True):
    """One step as npdl's Trainer does it.

    What the wing makes of a batch, with its trees of prefixes, is made in every step; `prepared`
    makes it once, as for a batch that is the whole training set. For comparison: without
    `trainer`, BLAS has its own threads and there are no others; without `keep` as well, freed
    memory goes back to the system.
    """
    engine = npdl_engine(case, work, threads)
    if trainer:
        engine.__enter__()  # until the process ends
    elif keep:
        keep_freed_memory()
    clip, ready = case.optimizer["clip"], npdl_batch(case)

    def step():
        batch = ready if prepared else ready.part(0, len(ready))
        loss = engine.step(batch)
        if clip is not None:
            engine.clip(clip)
        engine.update()
        return float(loss)

    return step

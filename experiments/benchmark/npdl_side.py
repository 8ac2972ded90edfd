"""npdl's side of the benchmark: a training step, greedy decoding, and a LoRA step."""

import contextlib
import itertools

import numpy as np

from experiments.benchmark.cases import batches
from npdl import backend
from npdl.adapt import add_lora
from npdl.decoding import greedy
from npdl.decoding.continuation import continuation
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW, matrices_only
from npdl_train.fast.engine import FastEngine, Shard
from npdl_train.fast.loss import Counted
from npdl_train.fast.prefix import Rows
from npdl_train.pretrained import load
from npdl_train.runs.engine import Batch, make_engine

PROMPT = list(range(100, 112))          # any tokens: the work is the same
LORA_TOKENS, LORA_RANK, LORA_WHERE = 64, 8, ("W_Q", "W_V")
ENGINES = contextlib.ExitStack()        # engines in use; close() ends them


class EqualEngine(FastEngine):
    """The fast engine without skipped work: every position of every sequence, as in PyTorch."""

    @staticmethod
    def shard(ids, targets, counted, shared, sequences, batch, V):
        rows = Rows(ids, share=False, words=False)
        return Shard(rows, Counted(rows, targets, counted, batch, V, every=True), sequences, batch)


def engine_of(name, model, optimizer, threads, equal):
    """Return an engine; everything that depends on how npdl computes a step is in this function.

    name    "plain" or "fast"
    equal   compute every position; otherwise the engine skips what cannot reach the loss
    """
    if name == "fast" and equal and backend.is_host():
        return EqualEngine(model, optimizer, threads)
    return make_engine(name, model, optimizer, threads)


def npdl_model(case):
    """Return the model of a case and its optimizer; equal for every engine."""
    if case.model == "lstm":
        model = LSTMLM(case.vocab, case.width, case.layers, rng=0)
    elif case.is_text:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0,
                    norm="pre", positions="learned", tied=True, bias=False)
        matrices_only(model)
    else:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0)
    return model, AdamW(model, **case.adamw)


def npdl_step(case, engine="fast", equal=True, threads=1, new=False):
    """Return (step, synchronize) on the backend in use; synchronize is None on the host."""
    work = engine_of(engine, *npdl_model(case), threads, equal)
    found = itertools.cycle(Batch(*arrays, chunk=case.batch) for arrays in batches(case, new))
    ENGINES.enter_context(work)

    def step():
        batch = next(found)
        # a new object each time, so that the engine prepares the batch in every step
        loss = work.step(batch.part(0, len(batch)))
        if case.clip is not None:
            work.clip(case.clip)
        work.update()
        return loss

    if backend.is_host():
        return step, None
    return step, backend.synchronize


def npdl_decoding(folder, tokens, threads):
    """Return (step, None): greedy decoding of `tokens` tokens by a real model."""
    model = load(folder).model

    def step():
        prompt = continuation(model, PROMPT, capacity=len(PROMPT) + tokens)
        return greedy(prompt, tokens)[0].log_prob

    return step, None


def npdl_lora(folder, tokens, threads):
    """Return (step, None): a step of LoRA on a real model."""
    model = load(folder).model
    add_lora(model, LORA_RANK, where=LORA_WHERE)
    work = make_engine("fast", model, AdamW(model, 1e-4), threads)
    ids = lora_ids(model.embedding.W.shape[0])
    batch = Batch(ids[:, :-1], ids[:, 1:], np.ones((1, LORA_TOKENS), bool))
    ENGINES.enter_context(work)

    def step():
        loss = work.step(batch)
        work.update()
        return loss

    return step, None


def lora_ids(vocab_size):
    return np.random.default_rng(0).integers(0, vocab_size, (1, LORA_TOKENS + 1))

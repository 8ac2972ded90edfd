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
from npdl.train.engine import Batch, PlainEngine, RecordedEngine
from npdl.train.pretrained import load

PROMPT = list(range(100, 112))          # any tokens: the work is the same
LORA_TOKENS, LORA_RANK, LORA_WHERE = 64, 8, ("W_Q", "W_V")
ENGINES = contextlib.ExitStack()        # engines in use; close() ends them


class EqualEngine(RecordedEngine):
    """The recorded engine without shared prefixes: it computes every position."""

    def shares(self, batch):
        return False


def npdl_model(case):
    """Return the model of a case and its optimizer, the same for every engine."""
    if case.model == "lstm":
        model = LSTMLM(case.vocab, case.width, case.layers, rng=0)
    elif case.is_text:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0,
                    norm="pre", positions="learned", tied=True, bias=False)
        matrices_only(model)
    else:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0)
    return model, AdamW(model, **case.adamw)


def npdl_step(case, engine="recorded", equal=True, threads=1, new=False):
    """Return (step, synchronize) on the backend in use; synchronize is None on the host.

    engine  "plain" or "recorded"
    equal   compute every position; otherwise each distinct prefix once
    """
    model, optimizer = npdl_model(case)
    work = PlainEngine(model, optimizer) if engine == "plain" else (
        EqualEngine if equal else RecordedEngine)(model, optimizer, threads=threads)
    next_batches = itertools.cycle(Batch(*arrays) for arrays in batches(case, new))
    ENGINES.enter_context(work)

    def step():
        return work.step(next(next_batches), max_norm=case.clip)

    if backend.is_host():
        return step, None
    return step, backend.synchronize


def npdl_decoding(folder, tokens, threads):
    """Return (step, None): greedy decoding of `tokens` tokens by a real model."""
    model = load(folder).model

    def step():
        return greedy(continuation(model, PROMPT), tokens)[0].log_prob

    return step, None


def npdl_lora(folder, tokens, threads):
    """Return (step, None): a step of LoRA on a real model."""
    model = load(folder).model
    add_lora(model, LORA_RANK, where=LORA_WHERE)
    work = RecordedEngine(model, AdamW(model, 1e-4), blas_threads=threads)
    ids = lora_ids(model.embedding.W.shape[0])
    batch = Batch(ids[:, :-1], ids[:, 1:], np.ones((1, LORA_TOKENS), bool))
    ENGINES.enter_context(work)

    return lambda: work.step(batch), None


def lora_ids(vocab_size):
    return np.random.default_rng(0).integers(0, vocab_size, (1, LORA_TOKENS + 1))

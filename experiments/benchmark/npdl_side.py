"""npdl's side of the benchmark: a training step, greedy decoding, and a LoRA step."""

import contextlib
import itertools

import numpy as np

from experiments.benchmark.cases import make_batches
from npdl import backend
from npdl.adapt import add_lora
from npdl.decoding import greedy
from npdl.decoding.model_scorers import make_scorer
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW, decay_only_matrices
from npdl.train.engine import Batch, PlainEngine, RecordedEngine
from npdl.train.pretrained import load

PROMPT = list(range(100, 112))          # any tokens: the work is the same
LORA_TOKENS, LORA_RANK, LORA_WHERE = 64, 8, ("W_Q", "W_V")
ENGINES = contextlib.ExitStack()        # engines in use; close() ends them


class EveryPositionEngine(RecordedEngine):
    """The recorded engine without shared prefixes: it computes every position."""

    def can_share_prefixes(self, batch):
        return False


def make_npdl_model(case):
    """Return the model of a case and its optimizer, the same for every engine."""
    if case.model == "lstm":
        model = LSTMLM(case.vocab, case.width, case.layers, rng=0)
    elif case.is_text:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0,
                    norm="pre", positions="learned", tied=True, bias=False)
        decay_only_matrices(model)
    else:
        model = GPT(case.vocab, case.width, case.layers, case.heads, max_len=case.length, rng=0)
    return model, AdamW(model, **case.adamw_settings)


def make_step(case, engine="recorded", all_positions=True, threads=1, random_batches=False):
    """Return (step, synchronize) on the current backend; synchronize is None on the CPU.

    engine         "plain" or "recorded"
    all_positions  if True, compute every position; otherwise, each distinct prefix once
    """
    model, optimizer = make_npdl_model(case)
    work = PlainEngine(model, optimizer) if engine == "plain" else (
        EveryPositionEngine if all_positions else RecordedEngine)(model, optimizer, threads=threads)
    next_batches = itertools.cycle(Batch(*arrays) for arrays in make_batches(case, random_batches))
    ENGINES.enter_context(work)

    def step():
        return work.step(next(next_batches), max_norm=case.max_gradient_norm)

    if backend.is_host():
        return step, None
    return step, backend.synchronize


def make_decoding_step(folder, tokens, threads):
    """Return (step, None), where step() decodes `tokens` tokens greedily with a real model."""
    model = load(folder).model

    def step():
        return greedy(make_scorer(model, PROMPT), tokens)[0].log_prob

    return step, None


def make_lora_step(folder, tokens, threads):
    """Return (step, None), where step() makes a LoRA update of a real model."""
    model = load(folder).model
    add_lora(model, LORA_RANK, where=LORA_WHERE)
    work = RecordedEngine(model, AdamW(model, 1e-4), blas_threads=threads)
    ids = make_lora_ids(model.embedding.W.shape[0])
    batch = Batch(ids[:, :-1], ids[:, 1:], np.ones((1, LORA_TOKENS), bool))
    ENGINES.enter_context(work)

    return lambda: work.step(batch), None


def make_lora_ids(vocab_size):
    return np.random.default_rng(0).integers(0, vocab_size, (1, LORA_TOKENS + 1))

"""The fast wing computes what the textbook computes: the loss and every gradient, to 1e-12."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from npdl.adapt import add_lora, quantize_linears
from npdl.backend import stream
from npdl.fast.engine import FastEngine, unsupported
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.optim import SGD, Adam, AdamW
from npdl.study.gradcheck import randomise
from npdl.training.engine import Batch, PlainEngine, make_engine

V, S = 5, 4
GPTS = {
    "gpt": {}, "pre, learned": {"norm": "pre", "positions": "learned"},
    "tied, 2k/d": {"tied": True, "positions": "2k/d"},
    "relu, no biases": {"activation": "relu", "bias": False, "norm_bias": False},
    "one block, padding": {"num_layers": 1, "padding_id": 0},
    "pre, tied, tanh-gelu": {"norm": "pre", "tied": True, "activation": "gelu-tanh"},
}
LSTMS = {"lstm": {}, "one layer, padding": {"num_layers": 1, "padding_id": 0},
         "three layers, no bias": {"num_layers": 3, "bias": False}, "wider": {"d_hidden": 5}}
BATCHES = {
    "many shared": lambda rng: rng.integers(0, 2, (9, S)),
    "few shared": lambda rng: rng.integers(0, V, (6, S)),
    "all the same": lambda rng: np.tile(rng.integers(0, V, (1, S)), (5, 1)),
    "one sequence": lambda rng: rng.integers(0, V, (1, S)),
    "one position": lambda rng: rng.integers(0, 2, (7, 1)),
}
COUNTED = {
    "the last": lambda rng, shape: np.arange(shape[1]) == np.full((shape[0], 1), shape[1] - 1),
    "ragged": lambda rng, shape: rng.random(shape) < 0.5,
    "all": lambda rng, shape: np.ones(shape, bool),
    "none": lambda rng, shape: np.zeros(shape, bool),
}


def build(kind, options, dropout=0.0, adapters=None, dtype="float64"):
    if kind is GPT:
        model = GPT(V, 4, **{"num_layers": 2, "num_heads": 2, "multiplier": 2, "max_len": S,
                             "dropout": dropout, "dtype": dtype, **options})
    else:
        model = LSTMLM(V, 4, **{"num_layers": 2, "dropout": dropout, "dtype": dtype, **options})
    if adapters == "qlora":
        quantize_linears(model, 4)
    if adapters:
        add_lora(model, rank=1, alpha=2.0)
    return model


def drawn(batch, counted, rng):
    ids = BATCHES[batch](rng)
    return Batch(ids, rng.integers(0, V, ids.shape), COUNTED[counted](rng, ids.shape))


def gradients(engine, batch, rng):
    """(loss, {name: gradient}) of one step."""
    with engine:
        loss = engine.step(batch, rng)
    return loss, {name: param.grad.copy() for name, param in engine.model.params()}


def assert_equal(make, batch, threads, dropout=False, atol=1e-12):
    draws = (lambda: stream(3, 5)) if dropout else None
    rooms = []
    for engine in (PlainEngine, FastEngine):
        model = make()
        randomise(model, stream(1, 2))
        optimizer = AdamW(model)
        options = {"threads": threads} if engine is FastEngine else {}
        rooms.append(gradients(engine(model, optimizer, **options), batch, draws))
    (plain, d_plain), (fast, d_fast) = rooms
    np.testing.assert_allclose(fast, plain, rtol=0, atol=atol)
    assert d_plain.keys() == d_fast.keys()
    for name, gradient in d_plain.items():
        scale = max(1.0, np.abs(gradient).max())
        np.testing.assert_allclose(d_fast[name], gradient, rtol=0, atol=atol * scale, err_msg=name)


MODELS = [(GPT, name) for name in GPTS] + [(LSTMLM, name) for name in LSTMS]
every_model = pytest.mark.parametrize("kind, options", MODELS)
every_thread = pytest.mark.parametrize("threads", [1, 2])


def settings(kind, options):
    return (GPTS if kind is GPT else LSTMS)[options]


@every_thread
@every_model
def test_equals_the_textbook(kind, options, threads):
    for number, (batch, counted) in enumerate(itertools.product(BATCHES, COUNTED)):
        assert_equal(lambda: build(kind, settings(kind, options)),
                     drawn(batch, counted, stream(number, 1)), threads)


@every_thread
@every_model
def test_dropout_has_the_textbooks_masks(kind, options, threads):
    for counted in COUNTED:
        assert_equal(lambda: build(kind, settings(kind, options), dropout=0.4),
                     drawn("few shared", counted, stream(7, 1)), threads, dropout=True)


@every_thread
@pytest.mark.parametrize("adapters", ["lora", "qlora"])
@every_model
def test_adapters(kind, options, adapters, threads):
    for counted in ("ragged", "all"):
        assert_equal(lambda: build(kind, settings(kind, options), adapters=adapters),
                     drawn("many shared", counted, stream(8, 1)), threads)

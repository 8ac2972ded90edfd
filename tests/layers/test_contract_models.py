"""Whole models over a training step: dtypes, training that learns."""

import numpy as np
import pytest

from npdl.backend import stream
from npdl.core import embedding_names
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, Adam, AdamW, clip_by_global_norm
from npdl.schedule import schedule
from tests.layers.cases import WithLoss

V, B, S = 7, 6, 5
MODELS = {
    "gpt": lambda **o: GPT(V, 8, 2, 2, 2, S, **o),
    "gpt, pre-norm, learned, tied": lambda **o: GPT(V, 8, 2, 2, 2, S, norm="pre", tied=True,
                                                    positions="learned", **o),
    "lstm": lambda **o: LSTMLM(V, 6, 2, 8, **o),
    "llama, tied": lambda **o: Llama(V, 8, 2, 4, 2, 12, S, **o),
}
OPTIMIZERS = {
    "sgd": lambda model: SGD(model, 0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda model: Adam(model, 3e-2, weight_decay=0.01),
    "adamw": lambda model: AdamW(model, 3e-2, weight_decay=0.01),
}


def batch():
    rng = stream(0, 3)
    ids = rng.integers(0, V, (B, S))
    return ids, rng.integers(0, V, (B, S)), rng.random((B, S)) < 0.7


@pytest.mark.parametrize(("name", "kind"), list(zip(MODELS, [*OPTIMIZERS, "adamw"], strict=True)))
def test_training_lowers_the_loss_and_every_array_stays_float32(name, kind):
    layer = WithLoss(MODELS[name](rng=1))
    optimizer = OPTIMIZERS[kind](layer)
    losses = []
    for step in range(60):
        optimizer.zero_grad()
        loss, cache = layer.forward(*batch())
        layer.backward(np.float32(1), cache)
        norm = clip_by_global_norm(optimizer.params.values(), 10.0)
        optimizer.step(optimizer.lr if step else schedule("cosine", 1e-2, 10, 2)(step))
        losses.append(float(loss))
    assert losses[-1] < (0.95 if kind == "sgd" else 0.6) * losses[0]
    assert loss.dtype == norm.dtype == np.float32
    for what, param in layer.params():
        assert param.data.dtype == param.grad.dtype == np.float32, what
    for moment in optimizer.moments:
        for what, array in getattr(optimizer, moment).items():
            assert array.dtype == np.float32, f"{moment} of {what}"


def test_a_tied_parameter_is_one_in_the_replica_and_in_copies():
    layer = MODELS["gpt, pre-norm, learned, tied"](rng=1)
    for twin in (layer.replica(), layer.astype("float64"), layer.to_backend()):
        names = [what for what, _ in twin.params()]
        assert names == [what for what, _ in layer.params()]
        assert twin.classifier.W is twin.embedding.W and "classifier.W" not in names


def test_embedding_names():
    gpt = MODELS["gpt, pre-norm, learned, tied"]()
    assert embedding_names(gpt) == {"embedding.W", "positions.W"}
    assert embedding_names(MODELS["lstm"]()) == {"embedding.W"}

"""The laboratory's jumps and clock: what is measured, and what is made of it."""

import dataclasses
import math

import numpy as np
import pytest

from experiments.grokking import clock, spikes
from experiments.grokking.curvature import Hessian, dot, place
from experiments.study.measures import A_TRAIN, A_VAL
from npdl.losses import SequenceLoss
from npdl_train.runs import engine
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer

SMALL = Config(model="lstm", p=3, width=4, layers=1, steps=4, r_train=1.0, dtype="float64",
               threads=1, clip=1.0)


# --- jumps ----------------------------------------------------------------------------------------
def test_the_curvature_along_the_gradient_is_a_quotient_of_the_hessian_and_adams_divisor():
    trainer = Trainer(SMALL)
    for _ in range(3):
        trainer.update()
    hessian, (theta, root) = Hessian(SMALL), place(trainer)
    g = hessian.gradient(theta)[1]
    d = {name: g[name] / root[name] ** 2 for name in g}
    half = {name: theta[name] + 1e-4 * d[name] for name in d}
    less = {name: theta[name] - 1e-4 * d[name] for name in d}
    bend = sum(hessian.gradient(at)[0] for at in (half, less)) - 2 * hessian.gradient(theta)[0]
    row = spikes.directions(hessian, trainer)
    assert row["along_gradient"] == pytest.approx(
        SMALL.lr * bend / 1e-8 / sum((d[n] ** 2 * root[n] ** 2).sum() for n in d), rel=1e-3)
    v = np.concatenate([a.ravel() for a in trainer.optimizer.v.values()]) / (1 - 0.999**3)
    assert row["root_v"] == pytest.approx(math.sqrt(v.mean()))
    assert row["ratio"] == pytest.approx(dot(g, g) / v.sum())


def test_a_right_word_is_absorbed_where_its_probability_is_one():
    trainer = Trainer(dataclasses.replace(SMALL, dtype="float32"))
    free = spikes.rounded(trainer)
    assert free["absorbed"] == 0 and free["zero_sum"] < 1e-6
    batch, classifier = trainer.task.batch(0), trainer.model.classifier
    targets = batch.targets[batch.counted]
    classifier.W.data[...] = classifier.b.data[...] = 0
    classifier.b.data[targets[0]] = 20      # the others' e^-20 are lost beside 1 in float32
    found = spikes.rounded(trainer)
    assert found["absorbed"] == pytest.approx((targets == targets[0]).mean()) and found["zero_sum"]
    assert found["logit_mean"] == pytest.approx(20 / classifier.b.data.size)


def test_a_jump_is_a_tenfold_loss_after_a_stretch_above_the_limit():
    columns = {"loss": [1, 1, 1, 10, 20, 1, 1, 1, 1, 15.0, 1, 1, 1, 1, 10.0],
               "lr_curvature": [1, 40, 50, 60, 1, 1, 1, 1, 40, 1, 1, 1, 1, 1, 1]}
    assert spikes.jumps(columns) == [(1, 3), (8, 9), (None, 14)]
    assert spikes.stretches(columns) == [(1, 3), (8, 8)]


# --- the clock ------------------------------------------------------------------------------------
def test_a_temperature_divides_the_logits_of_the_loss_and_of_nothing_else(monkeypatch):
    class Divided(SequenceLoss):
        def forward(self, logits, targets, counted):
            return super().forward(logits / 4, targets, counted)

        def backward(self, dloss, cache):
            return super().backward(dloss, cache) / 4

    warm = clock.Clocked(SMALL, temperature=4.0)
    monkeypatch.setattr(engine, "SequenceLoss", Divided)
    plain = Trainer(dataclasses.replace(SMALL, engine="plain"))
    for _ in range(3):
        warm.update()
        plain.update()
    for (name, p), (_, q) in zip(warm.model.params(), plain.model.params(), strict=True):
        np.testing.assert_allclose(p.data, q.data, atol=1e-13, err_msg=name)
    assert warm.evaluate()["train_loss"] == pytest.approx(plain.evaluate()["train_loss"])


def test_a_norm_is_held():
    held = clock.Clocked(SMALL, norm=5.0)
    for _ in range(2):
        held.update()
        assert sum((a**2).sum() for a in held.learned()) == pytest.approx(25)


def test_what_a_run_waited():
    record = {"trial": {"lr": 1e-3, "weight_decay": 2.0}, "columns": {
        "step": [100, 200, 300, 400], A_TRAIN: [0.5, 1, 1, 1], A_VAL: [0, 0, 0.95, 1],
        "l2_norm": [9, 4, 9, 1], "logit_scale": [1, 2, 8, 1]}}
    wait = clock.waited(record)
    assert (wait.known, wait.general, wait.delay) == (200, 300, 100)
    assert wait.rate == 2e-3 and wait.norm == pytest.approx(6) and wait.scale == pytest.approx(4)


def test_what_a_clock_explains():
    """Delays 1 / rate are explained whole by the rate, and not by a norm that is unrelated."""
    waits = [clock.Wait({"lr": 1.0, "weight_decay": d}, 0, 8 / d, n, 1.0)
             for d, n in ((1, 1), (2, 5), (4, 5), (8, 1))]
    assert clock.line(waits, lambda w: w.rate) == pytest.approx((-1, 1))
    assert clock.line(waits, lambda w: w.norm) == pytest.approx((0, 0))

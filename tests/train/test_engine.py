"""Engines: each makes the same updates, and a resumed trainer is bitwise identical."""

import re
import sys

import numpy as np
import pytest

from npdl.core import Param
from npdl.losses import loss_and_accuracy
from npdl.train.config import Config
from npdl.train.engine import PlainEngine
from npdl.train.loop import Trainer
from tests.tools.trained import ENGINES, assert_same_bytes, trained, updated

SMALL = {"p": 7, "width": 16, "heads": 2}
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_engine = pytest.mark.parametrize("engine", ENGINES)


def small(model="gpt", **settings):
    return Config(model=model, **{**SMALL, **settings})


@every_engine
@every_model
@pytest.mark.parametrize("settings", [
    {"dropout": 0.2, "threads": 2}, *(pytest.param(more, marks=pytest.mark.slow) for more in (
        {"schedule": "cosine", "clip": 0.5, "threads": 2}, {"batch": 10},
        {"optimizer": "sgd", "momentum": 0.9}))])
def test_a_resumed_trainer_is_bitwise_identical(model, engine, settings):
    config = small(model, steps=12, engine=engine, **settings)
    trainer, states = Trainer(config), {}
    for step in (1, 5, 12):
        states[step] = updated(trainer, step - trainer.step).state()
    for step in (1, 5):
        second = Trainer(config)
        second.load_state(*states[step])
        assert_same_bytes(updated(second, 12 - step).state()[0], states[12][0])


@every_model
@pytest.mark.parametrize("settings", [{"dropout": 0.3}, pytest.param(
    {"orders": (2, 3), "p": 5}, marks=pytest.mark.slow)])
def test_engines_and_threads_make_the_same_updates_up_to_rounding(model, settings):
    found = []
    for engine, threads in (("plain", 1), ("recorded", 1), ("recorded", 2), ("recorded", 3)):
        config = small(model, dtype="float64", engine=engine, threads=threads, clip=0.1, **settings)
        trainer = trained(config, 3)
        with trainer.engine:
            found.append((trainer.state()[0], trainer.task.measure(trainer.engine)))
    arrays, record = found[0]
    fresh = Trainer(config).state()[0]
    assert all((arrays[name] != fresh[name]).any() for name in arrays)
    for others, other in found[1:]:
        assert other == pytest.approx(record, rel=1e-9)
        for name, array in others.items():
            np.testing.assert_allclose(array, arrays[name], rtol=0, atol=1e-9, err_msg=name)


def test_more_threads_than_sequences_work():
    trainer = trained(small(p=2, r_train=0.5, threads=5), 2)     # two equations to train on
    assert all(np.isfinite(array).all() for array in trainer.state()[0].values())


@every_engine
@every_model
def test_evaluation_agrees_with_the_formulas(model, engine):
    trainer = trained(small(model, orders=(2, 3), p=5, threads=2, engine=engine), 20)
    with trainer.engine:
        record = trainer.task.measure(trainer.engine)
    for name, examples in (("train", trainer.task.data.train),
                           ("validation", trainer.task.data.validation)):
        out, _ = trainer.model.forward(examples.inputs)
        logits = out[0] if model == "lstm" else out
        loss, accuracy = loss_and_accuracy(logits, examples.targets, examples.eq_positions,
                                           examples.mask)
        assert record[f"{name}_loss"] == pytest.approx(float(loss), rel=1e-5)
        assert record[f"{name}_accuracy"] == pytest.approx(float(accuracy), abs=1e-6)
        parts = [record[f"{name}_loss_order{k}"] * (examples.orders == k).mean() for k in (2, 3)]
        assert sum(parts) == pytest.approx(record[f"{name}_loss"], rel=1e-5)


def test_an_evaluation_follows_a_model_that_has_changed():
    trainer = Trainer(small(dtype="float64", threads=2))
    for change in (
            lambda model: None, lambda model: setattr(model.decoder.blocks[0].norm1, "eps", 0.5),
            lambda model: setattr(model.classifier, "W", Param(2 * model.classifier.W.data))):
        change(trainer.model)
        wanted = trainer.task.measure(PlainEngine(trainer.model, None))
        assert trainer.task.measure(trainer.engine) == pytest.approx(wanted, rel=1e-12)


def test_a_batch_of_the_whole_training_set_is_made_once():
    task = Trainer(small()).task
    assert task.batch(0) is task.batch(1)       # an engine can cache what it makes of it
    task = Trainer(small(batch=10)).task
    assert task.batch(0) is not task.batch(1)


@every_engine
@every_model
def test_a_breakpoint_in_a_layer_stops_in_every_plain_step_and_in_no_replay(model, engine):
    trainer = Trainer(Config(model=model, p=5, width=8, heads=2, engine=engine))
    layers, ran = re.compile(r"npdl/(layers|optim)"), set()

    def look(frame, event, argument):
        ran.update(layers.findall(frame.f_code.co_filename))

    with trainer.engine:
        trainer.update()
        sys.setprofile(look)
        try:
            trainer.update()
        finally:
            sys.setprofile(None)
    assert ran == ({"layers", "optim"} if engine == "plain" else set())

"""All engines make the same updates."""

import re
import sys

import numpy as np
import pytest

from npdl.core import Param
from npdl.errors import InputError
from npdl.losses import loss_and_accuracy
from npdl.train.config import Config
from npdl.train.engine import PlainEngine
from npdl.train.loop import Trainer
from tests.tools.trained import ENGINES, get_trainer_state, make_trained_trainer

SMALL = {"p": 5, "width": 8, "heads": 2, "layers": 1, "target": "numpy"}
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_engine = pytest.mark.parametrize("engine", ENGINES)


def make_small_config(model="gpt", **settings):
    return Config(model=model, **{**SMALL, **settings})


@every_model
def test_engines_and_threads_give_the_same_updates(model):
    found = []
    for engine, threads in (("plain", 1), ("recorded", 3)):
        config = make_small_config(model, dtype="float64", engine=engine, threads=threads,
                                   clip=0.1, dropout=0.3, target="auto")
        trainer = make_trained_trainer(config, 3)
        with trainer.engine:
            found.append((get_trainer_state(trainer)[0], trainer.task.measure(trainer.engine)))
    (arrays, record), (others, other) = found
    fresh = get_trainer_state(Trainer(config))[0]
    assert all((arrays[name] != fresh[name]).any() for name in arrays)
    assert other == pytest.approx(record, rel=1e-9)
    for name, array in others.items():
        np.testing.assert_allclose(array, arrays[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("model, engine", [("gpt", "recorded"), ("lstm", "plain")])
def test_evaluation_equals_formulas(model, engine):
    config = make_small_config(model, orders=(2, 3), p=3, threads=2, engine=engine)
    trainer = make_trained_trainer(config, 1)
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


def test_evaluation_uses_changed_model():
    trainer = Trainer(make_small_config(dtype="float64", threads=2))
    for change in (
            lambda model: None, lambda model: setattr(model.decoder.blocks[0].norm1, "eps", 0.5),
            lambda model: setattr(model.classifier, "W", Param(2 * model.classifier.W.data))):
        change(trainer.model)
        wanted = trainer.task.measure(PlainEngine(trainer.model, None))
        assert trainer.task.measure(trainer.engine) == pytest.approx(wanted, rel=1e-12)


def test_a_batch_of_the_whole_training_set_is_made_once():
    task = Trainer(make_small_config()).task
    assert task.batch(0) is task.batch(1)       # an engine can cache what it makes of it
    task = Trainer(make_small_config(batch=10)).task
    assert task.batch(0) is not task.batch(1)


@every_engine
def test_a_breakpoint_in_a_layer_stops_in_every_plain_step_and_in_no_replay(engine):
    trainer = Trainer(make_small_config(engine=engine))
    layers, ran = re.compile(r"npdl/(layers|optim)"), set()

    def note_package(frame, event, argument):
        ran.update(layers.findall(frame.f_code.co_filename))

    with trainer.engine:
        trainer.update()
        sys.setprofile(note_package)
        try:
            trainer.update()
        finally:
            sys.setprofile(None)
    assert ran == ({"layers", "optim"} if engine == "plain" else set())


def double_forward(model, optimizer):
    forward = model.classifier.forward
    model.classifier.forward = lambda x: (lambda y, cache: (2 * y, cache))(*forward(x))


def zero_gradient_below_classifier(model, optimizer):
    backward = model.classifier.backward
    model.classifier.backward = lambda dy, cache: 0 * backward(dy, cache)


def drop_update(model, optimizer):
    optimizer.update = lambda name, param, lr, decay: None


@pytest.mark.parametrize("change", [double_forward, zero_gradient_below_classifier, drop_update])
def test_methods_replaced_on_instances_are_called(change):
    losses = {}
    for engine in ENGINES:
        trainer = Trainer(make_small_config(dtype="float64", engine=engine))
        change(trainer.model, trainer.optimizer)
        with trainer.engine:
            losses[engine] = [trainer.update(), trainer.update(), trainer.measure()["train_loss"]]
    assert losses["recorded"] == pytest.approx(losses["plain"], rel=1e-9)
    if change is zero_gradient_below_classifier:
        with pytest.raises(InputError, match="give threads=1"):
            trainer = Trainer(make_small_config(threads=2))
            change(trainer.model, trainer.optimizer)
            trainer.update()

"""The fast wing computes what the textbook computes: the loss and every gradient, to 1e-12."""

import itertools

import numpy as np
import pytest

from npdl.fast.engine import FastEngine
from npdl.models.gpt import GPT
from npdl.optim import SGD, Adam, AdamW
from npdl.training.engine import PlainEngine, make_engine
from tests.tools.fast_cases import (
    BATCHES,
    COUNTED,
    MODELS,
    assert_equal,
    assert_equal_for_large_tables,
    assert_equal_on_a_device,
    assert_erf_fit,
    assert_kernels,
    assert_same_updates,
    assert_tree,
    build,
    drawn,
    refusals,
)

every_model = pytest.mark.parametrize("kind, name", MODELS)
every_thread = pytest.mark.parametrize("threads", [1, 2])


@every_thread
@every_model
def test_equals_the_textbook(kind, name, threads):
    for seed, (batch, counted) in enumerate(itertools.product(BATCHES, COUNTED)):
        assert_equal(lambda: build(kind, name), drawn(batch, counted, seed), threads)


@every_thread
@every_model
def test_dropout_has_the_textbooks_masks(kind, name, threads):
    for counted in COUNTED:
        assert_equal(lambda: build(kind, name, dropout=0.4), drawn("few shared", counted), threads,
                     dropout=True)


@every_thread
@pytest.mark.parametrize("adapters", ["lora", "qlora"])
@every_model
def test_adapters(kind, name, adapters, threads):
    for counted in ("ragged", "all"):
        assert_equal(lambda: build(kind, name, adapters=adapters), drawn("many shared", counted),
                     threads)


@every_model
def test_float32_within_its_own_error(kind, name):
    for counted in COUNTED:
        assert_equal(lambda: build(kind, name, dtype="float32"), drawn("many shared", counted),
                     atol=2e-5)


@pytest.mark.slow
@every_model
def test_equals_the_textbook_on_a_device_too(kind, name):
    for dtype, atol in (("float64", 1e-12), ("float32", 2e-5)):
        for batch, counted in itertools.product(("few shared", "one position"), COUNTED):
            assert_equal_on_a_device(lambda dtype=dtype: build(kind, name, dtype=dtype),
                                     drawn(batch, counted), atol=atol)
    assert_equal_on_a_device(lambda: build(kind, name, dropout=0.4), drawn("few shared", "ragged"),
                             dropout=True)
    assert_equal_on_a_device(lambda: build(kind, name, adapters="lora"),
                             drawn("few shared", "the last"))


def test_kernels_write_over_nothing_but_what_they_say():
    assert_kernels()


def test_gelu_needs_no_clamp():
    assert_erf_fit()


def test_large_tables():
    assert_equal_for_large_tables()


@pytest.mark.parametrize("batch", BATCHES)
def test_a_tree_has_each_prefix_once(batch):
    assert_tree(drawn(batch, "all").inputs)


@pytest.mark.parametrize("max_norm", [1.0, 1e6])
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_updates(kind, decay, max_norm):
    assert_same_updates(kind, decay, max_norm)


def test_gradients_are_those_of_one_step_only():
    """A second step starts from zero, and the optimizer's memory is the model's own."""
    model = build(GPT, "gpt")
    engine = FastEngine(model, AdamW(model), 2)
    batch = drawn("few shared", "ragged")
    with engine:
        engine.step(batch)
        first = {name: param.grad.copy() for name, param in model.params()}
        engine.step(batch)
    for name, param in model.params():
        np.testing.assert_array_equal(param.grad, first[name])
        assert np.shares_memory(param.grad, engine.flat.grad)
        assert np.shares_memory(param.data, engine.flat.data)


def test_what_it_does_not_know_runs_as_the_textbook_and_one_line_says_so(capsys):
    for model, optimizer, why in refusals():
        engine = make_engine("fast", model, optimizer(model))
        assert isinstance(engine, FastEngine if why is None else PlainEngine)
        said = "" if why is None else f"--engine fast: {why}; going on with --engine plain\n"
        assert capsys.readouterr().err == said

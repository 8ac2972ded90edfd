"""The fast wing computes what the textbook computes: the loss and every gradient, to 1e-12."""

import inspect
import itertools

import numpy as np
import pytest

from npdl import optim
from npdl.adapt import linears
from npdl.core import Layer, walk
from npdl.layers.activation import ACTIVATIONS, Tanh
from npdl.layers.transformer import BLOCKS, Block
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW
from npdl_train.fast import flat_parameters, memory
from npdl_train.fast.engine import FastEngine, unsupported
from npdl_train.runs.engine import PlainEngine, make_engine
from tests.fast.cases import (
    BATCHES,
    COUNTED,
    SIZES,
    assert_chosen,
    assert_clipping_overflows_to_nan,
    assert_equal,
    assert_equal_for_large_tables,
    assert_equal_on_a_device,
    assert_erf_fit,
    assert_kernels,
    assert_moments_overflow_to_nan,
    assert_same_updates,
    assert_tree,
    build,
    drawn,
    grid,
    options,
    sparse,
)
from tests.fast.refusals import (
    assert_a_changed_batch_is_read_again,
    assert_batches_are_refused,
    assert_changes_are_refused,
    refusals,
)

KINDS = (GPT, LSTMLM)
every_model = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("choices", [sparse, pytest.param(grid, marks=pytest.mark.slow)])
@every_model
def test_equals_the_textbook(kind, choices):
    for choice in choices(kind):
        try:
            assert_chosen(kind, choice)
        except Exception as error:
            raise AssertionError(f"{kind.__name__}: {choice}") from error


@every_model
def test_every_value_meets_every_other_and_every_batch(kind):
    """In the sparse grid: each pair of values of two options; and each option of the model."""
    choices, values = sparse(kind), options(kind)
    taken = set(inspect.signature(kind.__init__).parameters) - {"self", "rng", *SIZES}
    assert taken <= set(values)
    for first, second in itertools.combinations(values, 2):
        met = {(choice[first], choice[second]) for choice in choices}
        assert len(met) == len(values[first]) * len(values[second]), (first, second)


@every_model
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_batch(kind, threads):
    for seed, (batch, counted) in enumerate(itertools.product(BATCHES, COUNTED)):
        assert_equal(lambda: build(kind), drawn(batch, counted, seed), threads)


def test_a_new_option_is_in_the_grid_or_refused(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "new", type("New", (Tanh,), {}))
    monkeypatch.setitem(BLOCKS, "new", type("NewBlock", (Block,), {}))
    new = [choice for choice in grid(GPT) if "new" in (choice["activation"], choice["norm"])]
    assert {choice["activation"] for choice in new} == {*ACTIVATIONS}
    model = build(GPT, activation="new")
    assert unsupported(model, AdamW(model)) is None
    model = build(GPT, norm="new")
    assert "NewBlock is not among its layers" in unsupported(model, AdamW(model))
    for choice in new[:40]:
        assert_chosen(GPT, choice)


def test_every_optimizer_and_adapter_is_in_the_grid_or_refused():
    kinds = [kind for kind in vars(optim).values() if isinstance(kind, type)
             and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer]
    for kind in kinds:
        model = build(GPT)
        optimizer = kind(model, *([[]] if kind is optim.Muon else []))
        assert (unsupported(model, optimizer) is None) == (kind in options(GPT)["optimizer"])
    assert set(flat_parameters.UPDATES) <= set(kinds)
    used = {type(layer) for adapters in options(GPT)["adapters"]
            for layer in walk(build(GPT, adapters))}
    assert used >= {kind for kind in vars(linears).values() if isinstance(kind, type)
                    and issubclass(kind, Layer) and kind is not Layer}


@pytest.mark.slow
@every_model
def test_equals_the_textbook_on_a_device_too(kind):
    for number, (dtype, batch, counted) in enumerate(itertools.product(
            ("float64", "float32"), ("few shared", "one position"), COUNTED)):
        for choice in grid(kind)[number::32]:
            chosen = {name: choice[name] for name in inspect.signature(kind.__init__).parameters
                      if name in choice} | {"dtype": dtype}
            adapters = choice["adapters"] if choice["adapters"] != "qlora" else "lora"
            assert_equal_on_a_device(lambda c=chosen, a=adapters: build(kind, a, **c),
                                     drawn(batch, counted), choice["drop"],
                                     1e-12 if dtype == "float64" else 2e-5)


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
@pytest.mark.parametrize("kind", flat_parameters.UPDATES)
def test_updates(kind, decay, max_norm):
    assert_same_updates(kind, decay, max_norm)


def test_clipping_by_a_norm_that_overflows():
    assert_clipping_overflows_to_nan()
    assert_moments_overflow_to_nan()


def test_gradients_are_those_of_one_step_only():
    """A second step starts from zero, and the optimizer's memory is the model's own."""
    model = build(GPT)
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
        assert isinstance(make_engine("fast", model, optimizer), PlainEngine)
        said = f"--engine fast: {why}; going on with --engine plain\n"
        assert capsys.readouterr().err == said
        with pytest.raises(ValueError, match="the fast engine: "):
            FastEngine(model, optimizer)


def test_a_model_changed_after_its_engine_was_made_is_refused():
    assert_changes_are_refused()


def test_a_changed_batch_is_read_again():
    assert_a_changed_batch_is_read_again()


def test_batches_that_the_textbook_refuses():
    assert_batches_are_refused()


def test_arrays_begin_at_a_line_of_the_cache():
    arena, model = memory.Arena("float32"), build(GPT)
    engine = FastEngine(model, AdamW(model))
    arrays = [memory.aligned(size, "float32") for size in (1, 1000, 1 << 16, 1 << 21)]
    arrays += [arena.empty(*shape) for shape in ((3, 5), (576, 64), (1 << 22,), (7,))]
    arrays += [engine.flat.data, engine.flat.grad, *engine.flat.moments.values()]
    assert [array.ctypes.data % memory.ALIGN for array in arrays] == [0] * len(arrays)

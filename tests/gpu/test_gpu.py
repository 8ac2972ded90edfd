"""npdl on CuPy beside NumPy: on a card, or on an emulated one (tests/tools/cupy_on_cpu); skipped,
with the reason, where there is neither. The first run takes some minutes: each kernel is compiled
once and kept."""

import contextlib

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_host, xp
from npdl.errors import BackendError
from npdl.study.deviation import deviation
from npdl.study.trees import cast, mapped
from npdl.train.config import Config
from npdl.train.loop import Trainer, l2_norm
from npdl.train.run import load_run, train
from tests.tools.cases import all_cases
from tests.tools.device import REASON, needs_cupy, unwaited
from tests.tools.device_helpers import SETTINGS, small_config
from tests.tools.trained import state_of, trained

pytestmark = needs_cupy
if REASON is not None:                          # hundreds of cases: not one by one
    pytest.skip(str(REASON), allow_module_level=True)
STEPS, CLOSE = 20, {"float32": 1e-4, "float64": 1e-9}
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def close(result, expected, limit, what=""):
    """Equal up to `limit` of the largest entry."""
    assert deviation(to_host(result), to_host(expected), 1.0) <= limit, what


# Layers

def on_device(nest):
    """The same nest with its arrays on the device; `lengths` are read on the host."""
    if isinstance(nest, dict):
        return {key: value if key == "lengths" else on_device(value)
                for key, value in nest.items()}
    return mapped(nest, lambda leaf: backend.to_device(leaf) if isinstance(leaf, np.ndarray)
                  else leaf)


def on_host(nest):
    """The same nest with contiguous arrays, as a copy to a device makes them."""
    if isinstance(nest, dict):
        return {key: on_host(value) for key, value in nest.items()}
    return mapped(nest, lambda leaf: np.ascontiguousarray(leaf).reshape(leaf.shape)
                  if isinstance(leaf, np.ndarray) else leaf)


def arrays_in(nest):
    """The arrays of a nest, on the host, in order."""
    if isinstance(nest, (tuple, list)):
        return [array for item in nest for array in arrays_in(item)]
    return [np.asarray(to_host(nest))] if hasattr(nest, "dtype") else []


def upstream(outputs, rng):
    """Random gradients in the nest of `outputs`, for the float arrays in it."""
    return mapped(outputs, lambda y: None if y is None or y.dtype.kind != "f"
                  else rng.standard_normal(y.shape).astype(y.dtype))


def run_case(case, place, dtype, unwaited=contextlib.nullcontext):
    """Outputs, returned gradients and parameters' gradients of one case, on the host; `unwaited` is
    a context for what must not wait for the device."""
    with backend.using("numpy"):
        layer, inputs, options = case.build(stream(3, 5))
    layer = layer.astype(dtype).to_backend()
    rng = stream(9)
    for _, param in layer.params():
        param.data[...] = backend.to_device(rng.standard_normal(param.shape).astype(dtype))
    inputs = place(cast(tuple(inputs), dtype))
    options = place({name: cast(value, dtype) for name, value in options.items()})
    forward = (lambda *a, **k: case.forward(layer, *a, **k)) if case.forward else layer.forward
    with unwaited():
        outputs, cache = forward(*inputs, **options)
    dout = place(upstream(outputs, stream(7)))
    with unwaited():
        returned = layer.backward(dout, cache)
    grads = [to_host(p.grad) for _, p in layer.params()]
    return arrays_in(outputs) + arrays_in(returned) + grads



@pytest.mark.parametrize(("case", "dtype"), [
    (case, dtype) for case in all_cases() for dtype in ("float32", "float64")
    if dtype == "float32" or not case.of_option], ids=str)
def test_every_layer_gives_numpys_results_and_never_waits(case, dtype):
    expected = run_case(case, on_host, dtype)
    with backend.using("cupy"):
        results = run_case(case, on_device, dtype, unwaited)
    assert len(results) == len(expected)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == reference.dtype
        close(result, reference, {"float64": 1e-9, "float32": 2e-4}[dtype], f"array {number}")


# Training

def records_of(config, steps=STEPS):
    """What a Trainer measures after each of its first steps, and its state after them."""
    trainer, records = Trainer(config), []
    with trainer.engine:
        for _ in range(steps):
            trainer.update()
            records.append({**trainer.measure(), "l2_norm": l2_norm(trainer.optimizer),
                            "step": trainer.step})
    return records, state_of(trainer)[0]


def assert_first_steps_agree(config, steps=STEPS):
    here, _ = records_of(config, steps)
    with backend.using("cupy"):
        there, arrays = records_of(config, steps)
    for mine, theirs in zip(here, there, strict=True):
        for key in ("train_loss", "validation_loss", "l2_norm"):
            assert abs(theirs[key] - mine[key]) <= CLOSE[config.dtype] * abs(mine[key]), (
                mine["step"], key)
    assert {array.dtype for array in arrays.values()} == {np.dtype(config.dtype)}


@every_model
@every_setting
def test_the_first_steps_equal_numpys(model, settings):
    config = small_config(model, settings, steps=STEPS)
    if config is None:
        pytest.skip("an option of the GPT")
    assert_first_steps_agree(config)


@pytest.mark.slow
@every_model
def test_the_first_steps_of_the_documents_models_equal_numpys(model):
    assert_first_steps_agree(Config(model=model, engine="recorded"), 4)


@pytest.mark.parametrize(("engine", "dtype"), [
    ("plain", "float64"), ("plain", "float32"), ("recorded", "float32")])
@every_model
def test_two_runs_of_a_seed_are_the_same_bit_for_bit(gpu, model, engine, dtype):
    config = small_config(model, {"engine": engine, "dtype": dtype, "dropout": 0.1})
    (first, arrays), (second, again) = (records_of(config, 10) for _ in range(2))
    assert first == second
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


@every_model
@every_setting
def test_a_training_step_never_waits_and_computes_in_its_own_dtype(gpu, model, settings):
    config = small_config(model, settings)
    if config is None:
        pytest.skip("an option of the GPT")
    trainer = trained(config, 1)
    with trainer.engine, unwaited():
        for _ in range(2):
            trainer.update()
    arrays = [array for _, param in trainer.model.params() for array in (param.data, param.grad)]
    for moment in trainer.optimizer.moments:
        arrays += getattr(trainer.optimizer, moment).values()
    assert {array.dtype for array in arrays} == {np.dtype("float32")}


def test_checkpoints_and_models_move(tmp_path):
    config = Config(p=7, width=16, heads=2, steps=6, save_every=3, eval_first=1, eval_every=3)
    with backend.using("cupy"):
        train(config, tmp_path / "run", quiet=True)
    run = load_run(tmp_path / "run")            # on NumPy
    ids = run.task.data.train.inputs
    logits, _ = run.model.forward(ids)
    with backend.using("cupy"):
        moved = run.model.to_backend()
        close(moved.forward(ids)[0], logits, 1e-5)
    np.testing.assert_array_equal(moved.to_backend().forward(ids)[0], logits)


def test_memory_that_is_full_is_one_line(gpu, tmp_path):
    pool = xp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 4 * 2**20)
    try:
        with pytest.raises(BackendError, match=r"the GPU's memory, limited to \d+ MiB "
                           r"\(CUPY_GPU_MEMORY_LIMIT\), is full") as caught:
            train(Config(eval_first=1, steps=1), tmp_path / "run", quiet=True)
    finally:
        pool.set_limit(size=0)
    assert "\n" not in str(caught.value)

"""npdl on CuPy beside NumPy: on a card, or on an emulated one (tests/tools/cupy_on_cpu); skipped,
with the reason, where there is neither. The first run takes some minutes: each kernel is compiled
once and kept."""

import itertools
import sys

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_host, xp
from npdl.errors import BackendError
from npdl_study.deviation import deviation
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer
from npdl_train.runs.run import load_run, train
from tests.fast.cases import COUNTED, assert_equal_on_a_device, build, drawn
from tests.tools import cupy_on_cpu
from tests.tools.broken_kernels import MODELS
from tests.tools.cases import all_cases
from tests.tools.device import REASON, needs_cupy, unwaited
from tests.tools.device_helpers import SETTINGS, on_device, on_host, run_case, small_config
from tests.tools.trained import trained

pytestmark = needs_cupy
if REASON is not None:                          # hundreds of cases: not one by one
    pytest.skip(str(REASON), allow_module_level=True)
STEPS, CLOSE = 20, {"float32": 1e-4, "float64": 1e-9}
LAUNCHES = {"gpt": 67, "lstm": 71, "text": 143}     # kernels, products and memsets of a step
CALLS = {"gpt": 95, "lstm": 95, "text": 165}    # of functions, on the host, of a replayed step
both_dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_setting = pytest.mark.parametrize("settings", SETTINGS, ids=str)
emulated = pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card does not count launches")


def close(result, expected, limit, what=""):
    """Equal up to `limit` of the largest entry."""
    assert deviation(to_host(result), to_host(expected), 1.0) <= limit, what


# Layers

@both_dtypes
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_layer_gives_numpys_results_and_never_waits(case, dtype):
    expected = run_case(case, on_host, dtype)
    with backend.using("cupy"):
        results = run_case(case, on_device, dtype, unwaited)
    assert len(results) == len(expected)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == reference.dtype
        close(result, reference, {"float64": 1e-9, "float32": 2e-4}[dtype], f"array {number}")


# The wing: the loss and each entry of every gradient, beside the textbook's on NumPy

@both_dtypes
@pytest.mark.parametrize("name", MODELS)
def test_the_wings_gradients(name, dtype):
    kind, chosen = MODELS[name]
    limit = {"float64": 1e-12, "float32": 2e-5}[dtype]
    for batch, counted in itertools.product(("few shared", "one position"), COUNTED):
        assert_equal_on_a_device(lambda: build(kind, dtype=dtype, **chosen), drawn(batch, counted),
                                 atol=limit)


@pytest.mark.parametrize("name", MODELS)
def test_the_wings_gradients_with_dropout_and_adapters(name):
    kind, chosen = MODELS[name]
    assert_equal_on_a_device(lambda: build(kind, dropout=0.4, **chosen),
                             drawn("few shared", "ragged"), dropout=True, atol=1e-10)
    assert_equal_on_a_device(lambda: build(kind, "lora", **chosen),
                             drawn("few shared", "the last"), atol=1e-10)


# Training

def records_of(config, steps=STEPS):
    """What a Trainer measures after each of its first steps, and its state after them."""
    trainer, records = Trainer(config), []
    with trainer.engine:
        for _ in range(steps):
            trainer.update()
            records.append(trainer.evaluate())
    return records, trainer.state()[0]


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
@pytest.mark.parametrize("engine", ["plain", "fast"])
@every_model
def test_the_first_steps_of_the_documents_models_equal_numpys(model, engine):
    assert_first_steps_agree(Config(model=model, engine=engine), 4)


@both_dtypes
@pytest.mark.parametrize("engine", ["plain", "fast"])
@every_model
def test_two_runs_of_a_seed_are_the_same_bit_for_bit(gpu, model, engine, dtype):
    config = small_config(model, {"engine": engine, "dtype": dtype})
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
    if cupy_on_cpu.installed() and config.engine == "fast":     # the textbook sums biases in it
        with trainer.engine, cupy_on_cpu.record() as events:
            trainer.update()
        doubles = [event.name for event in events
                   if "float64" in event.name or "cublasD" in event.name]
        assert not doubles


@emulated
@pytest.mark.parametrize("model", LAUNCHES)
def test_what_a_step_of_the_documents_models_asks_of_the_card(gpu, tmp_path, model):
    """Of document 004's models, and of a text's: 12 x 64 tokens, 4 layers, a batch of its own."""
    text = tmp_path / "text.txt"
    text.write_text("".join(chr(40 + letter) for letter in stream(0).integers(0, 65, 3000)))
    more = {"model": model} if model != "text" else {
        "text": str(text), "block": 64, "layers": 4, "decay": "matrices", "clip": 1.0, "batch": 12}
    trainer = Trainer(Config(**more))
    trainer.task.prepare()
    with trainer.engine:
        trainer.update()                # its constants are kept for the next step
    with cupy_on_cpu.empty_kernels(), trainer.engine:
        trainer.update()
    with cupy_on_cpu.empty_kernels(), trainer.engine, cupy_on_cpu.record() as events:
        trainer.update()
    assert [event.kind for event in events if event.kind != "node"] == ["copy", "graph"]
    nodes = [event.name.split(" ", 1) for event in events.of_kind("node")]
    assert len([kind for kind, _ in nodes if kind != "copy"]) <= LAUNCHES[model]
    sums = {name for _, name in nodes if name.startswith("cupy_sum")}
    assert not sums                     # a sum down a column would run on few of a card's blocks
    with cupy_on_cpu.empty_kernels(), trainer.engine:
        calls = calls_of(trainer.update)
    assert calls <= CALLS[model], calls


def calls_of(work):
    """How many functions work() calls, Python's own among them: the host's share of a step, which
    no other process of the machine changes."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


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

"""Compare npdl on CuPy with npdl on NumPy, on a GPU, real or emulated (tests/tools/cupy_on_cpu).
The first run takes some minutes, because it compiles each kernel and keeps it."""

import contextlib

import numpy as np
import pytest

from npdl import backend
from npdl.backend import make_rng, to_device, to_host, xp
from npdl.decoding import beam_search, exhaustive_search, greedy, sample
from npdl.decoding.language_models import Recomputed
from npdl.decoding.model_scorers import make_scorer
from npdl.engine.step import map_arrays
from npdl.errors import BackendError, InputError
from npdl.functions import sum_by_index
from npdl.layers.embedding import Embedding
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW
from npdl.study.check.subjects import randomise
from npdl.study.relative_error import relative_error
from npdl.study.trees import cast_tree, draw_upstream
from npdl.train.config import Config
from npdl.train.engine import Batch, PlainEngine, RecordedEngine
from npdl.train.loop import Trainer, parameter_l2_norm
from npdl.train.run import load_run, train
from tests.engine.test_cuda import copy_arrays_to_host
from tests.layers.cases import all_cases
from tests.tools import cupy_on_cpu
from tests.tools.device import REASON, forbid_waiting, needs_cupy
from tests.tools.device_helpers import MODELS, small_config
from tests.tools.trained import get_trainer_state, make_trained_trainer

pytestmark = needs_cupy
if REASON is not None:                          # skip the hundreds of cases at once
    pytest.skip(str(REASON), allow_module_level=True)
STEPS, CLOSE = 20, {"float32": 1e-4, "float64": 1e-9}
ENGINES = PlainEngine, RecordedEngine
DECODED = {
    "gpt": {}, "gpt, pre-norm, tied": {"norm": "pre", "positions": "learned", "tied": True},
    "lstm": None}
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_setting = pytest.mark.parametrize(("model", "settings"), MODELS, ids=str)


def assert_close(result, expected, limit, what=""):
    """Equal up to `limit` of the largest entry."""
    assert relative_error(to_host(result), to_host(expected), 1.0) <= limit, what


# Layers

def move_arrays(nested, move):
    """Return a nest with move(array) for each array except `lengths`, which stay on the host."""
    if isinstance(nested, dict):
        return {name: value if name == "lengths" else move_arrays(value, move)
                for name, value in nested.items()}
    return map_arrays(nested, move)


def run_case(case, move, dtype, waiting_context=contextlib.nullcontext):
    """Return the outputs and all gradients of one case, on the host. `waiting_context` is a context
    for the calls that must not wait for the device."""
    with backend.using("numpy"):
        layer, inputs, options = case.build(make_rng(3, 5))
    layer = layer.astype(dtype).to_backend()
    rng = make_rng(9)
    for _, param in layer.params():
        param.data[...] = backend.to_device(rng.standard_normal(param.shape).astype(dtype))
    inputs, options = (move_arrays(cast_tree(nested, dtype), move)
                       for nested in (tuple(inputs), options))
    with waiting_context():
        outputs, cache = layer.forward(*inputs, **options)
    dout = cast_tree(draw_upstream(map_arrays(outputs, to_host), make_rng(7)), dtype)
    dout = move_arrays(dout, move)
    with waiting_context():
        returned = layer.backward(dout, cache)
    return list(copy_arrays_to_host([layer], [(outputs, returned)]))


@pytest.mark.parametrize(("case", "dtype"), [
    (case, dtype) for case in all_cases() for dtype in ("float32", "float64")
    if dtype == "float32" or not case.of_option], ids=str)
def test_every_layer_gives_numpys_results_and_never_waits(case, dtype):
    expected = run_case(case, np.ndarray.copy, dtype)
    with backend.using("cupy"):
        results = run_case(case, to_device, dtype, forbid_waiting)
    assert len(results) == len(expected)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == reference.dtype
        assert_close(result, reference, {"float64": 1e-9, "float32": 2e-4}[dtype],
                     f"array {number}")


# Training

def train_and_measure(config, steps=STEPS):
    """What a Trainer measures after each of its first steps, and its state after them."""
    trainer, records = Trainer(config), []
    with trainer.engine:
        for _ in range(steps):
            trainer.update()
            records.append({**trainer.measure(), "l2_norm": parameter_l2_norm(trainer.optimizer),
                            "step": trainer.step})
    return records, get_trainer_state(trainer)[0]


@every_setting
def test_first_steps_equal_numpy(model, settings):
    config = small_config(model, settings, steps=STEPS)
    here, _ = train_and_measure(config)
    with backend.using("cupy"):
        there, arrays = train_and_measure(config)
    for mine, theirs in zip(here, there, strict=True):
        for key in ("train_loss", "validation_loss", "l2_norm"):
            assert abs(theirs[key] - mine[key]) <= CLOSE[config.dtype] * abs(mine[key]), (
                mine["step"], key)
    assert {array.dtype for array in arrays.values()} == {np.dtype(config.dtype)}


@pytest.mark.parametrize(("engine", "dtype"), [
    ("plain", "float64"), ("plain", "float32"), ("recorded", "float32")])
@every_model
def test_two_runs_of_a_seed_are_the_same_bit_for_bit(gpu, model, engine, dtype):
    config = small_config(model, {"engine": engine, "dtype": dtype, "dropout": 0.1})
    (first, arrays), (second, again) = (train_and_measure(config, 10) for _ in range(2))
    assert first == second
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


@every_setting
def test_a_training_step_never_waits_and_computes_in_its_own_dtype(gpu, model, settings):
    trainer = make_trained_trainer(small_config(model, settings), 1)
    with trainer.engine, forbid_waiting():
        for _ in range(2):
            trainer.update()
    arrays = [array for _, param in trainer.model.params() for array in (param.data, param.grad)]
    for moment in trainer.optimizer.moments:
        arrays += getattr(trainer.optimizer, moment).values()
    assert {array.dtype for array in arrays} == {np.dtype("float32")}


def test_gpu_run_loads_on_cpu_and_moves_back(tmp_path):
    config = Config(p=7, width=16, heads=2, steps=6, save_every=3, eval_first=1, eval_every=3,
                    backend="cupy")
    train(config, tmp_path / "run", quiet=True)
    run = load_run(tmp_path / "run")            # loads the run on NumPy
    ids = run.task.data.train.inputs
    logits, _ = run.model.forward(ids)
    with backend.using("cupy"):
        moved = run.model.to_backend()
        assert_close(moved.forward(ids)[0], logits, 1e-5)
    np.testing.assert_array_equal(moved.to_backend().forward(ids)[0], logits)


def test_full_gpu_memory_gives_one_error_line(gpu, tmp_path):
    pool = xp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 4 * 2**20)
    try:
        with pytest.raises(BackendError, match=r"the GPU's memory is full; .* limit ") as caught:
            train(Config(eval_first=1, steps=1, backend="cupy"), tmp_path / "run", quiet=True)
    finally:
        pool.set_limit(size=0)
    assert "\n" not in str(caught.value)


# Decoding, ids

def make_random_model(name):
    options = DECODED[name]
    model = LSTMLM(7, 16) if options is None else GPT(7, 16, 2, 2, max_len=8, **options)
    randomise(model, np.random.default_rng(7), 0.3)
    return model


@pytest.mark.parametrize("scorer", [make_scorer, Recomputed])
@pytest.mark.parametrize("name", DECODED)
def test_every_decoder_finds_what_it_finds_on_numpy(name, scorer):
    model = make_random_model(name)

    def run_all_decoders(model):
        one, several = scorer(model, [1, 2, 3]), scorer(model, [[1, 2], [3, 4]])
        return [*greedy(several, 5, 0), *beam_search(one, 3, 5, 0).finished,
                *sample(several, 5, 3, 0, count=2, temperature=1.2, top_k=4, top_p=0.9),
                *exhaustive_search(one, 2, 0).finished]

    wanted = run_all_decoders(model)
    with backend.using("cupy"):
        found = run_all_decoders(model.to_backend())
    assert [h.tokens for h in found] == [h.tokens for h in wanted]
    np.testing.assert_allclose([h.log_prob for h in found], [h.log_prob for h in wanted], atol=1e-5)


@pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card does not count waits")
@pytest.mark.parametrize("name", DECODED)
def test_decoding_waits_once_for_each_token(gpu, name):
    def count_waits(advance):
        with cupy_on_cpu.record() as events:
            found = advance()
        return found, len(events.of_kind("synchronisation"))

    with backend.using("numpy"):
        model = make_random_model(name)
    scorer = make_scorer(model.to_backend(), [[1, 2], [3, 4]])
    (rows, state), count = count_waits(scorer.start)
    assert count == 1
    for step in range(10):                      # past the GPT's max_len, too
        parents = np.array([0, 1, 1]) if step % 2 else np.array([1, 0])
        tokens = rows[parents].argmax(1)
        (rows, state), count = count_waits(
            lambda s=state, p=parents, t=tokens: scorer.advance(s, p, t))
        assert count == 1


@pytest.mark.parametrize("size", [3, 6, 50_000])
def test_lookup_gradient_needs_no_full_one_hot_product(gpu, size, monkeypatch):
    """It is made of products: with pairs of rows where the table is larger."""
    if size > 8:
        monkeypatch.setattr("npdl.functions.one_hot", None)     # (N, size) numbers
    rng = np.random.default_rng(size)
    rows, index = rng.standard_normal((2, 4, 5)), rng.integers(0, min(size, 5), (2, 4))
    wanted = np.zeros((size, 5))
    np.add.at(wanted, index, rows)
    there = to_device(rows), to_device(index)
    with forbid_waiting():
        found = sum_by_index(*there, size)
    np.testing.assert_allclose(to_host(found), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", [7, -1])
def test_host_ids_and_targets_are_checked_before_upload(gpu, bad):
    with pytest.raises(InputError, match=f"contain {bad}; allowed are 0 to 6"):
        Embedding(7, 4).forward(np.array([1, bad]))
    right, wrong, counted = np.ones((2, 3), int), np.full((2, 3), bad), np.ones((2, 3), bool)
    with backend.using("numpy"):
        models = [make_random_model("gpt") for _ in ENGINES]
    for engine, model in zip(ENGINES, models, strict=True):
        model = model.to_backend()
        for ids, targets in ((wrong, right), (right, wrong)):
            with pytest.raises(InputError, match=f"contain {bad}; allowed are 0 to "):
                engine(model, AdamW(model)).step(Batch(ids, targets, counted))

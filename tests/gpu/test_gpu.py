"""npdl on a real GPU through CuPy, beside NumPy; skipped, with the reason, where there is none.

The stand-in's tests (test_device*.py) prove the rest without one. The first run takes some
minutes: CuPy compiles each kernel once and keeps it.
"""

import contextlib
import warnings

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_device, to_host, xp
from npdl.decoding import beam_search, greedy
from npdl.decoding.wiring import continuation
from npdl.errors import BackendError, InputError
from npdl.layers.embedding import Embedding
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.training.config import Config
from npdl.training.loop import Trainer
from npdl.training.run import load_run, train
from npdl_study.check.subjects import randomise
from tests.tools.cases import all_cases
from tests.tools.device_helpers import SETTINGS, on_device, on_host, run_case, small_config


def why_not():
    """The reason to skip these tests, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # CuPy warns where it misses parts of CUDA
        try:
            with backend.using("cupy"):
                return None
        except BackendError as error:
            return str(error)


REASON = why_not()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=REASON or "there is a GPU"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:cupy", "ignore::UserWarning:cupy",
                               "ignore::FutureWarning:cupy"),
]
STEPS, CLOSE = 20, 1e-4


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield


def close(result, expected, limit, what=""):
    """Equal up to `limit` of the largest entry."""
    result, expected = (np.asarray(to_host(a), np.float64) for a in (result, expected))
    assert result.shape == expected.shape, what
    scale = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    np.testing.assert_allclose(result / scale, expected / scale, rtol=0, atol=limit, err_msg=what)


# Layers

@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_layer_gives_numpys_results(case):
    """Outputs and gradients in float64, where only a wrong formula is far off."""
    expected, _ = run_case(case, on_host, "float64")
    with backend.using("cupy"):
        results, _ = run_case(case, on_device, "float64")
    assert len(results) == len(expected)
    for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
        assert result.dtype == reference.dtype
        close(result, reference, 1e-9, f"array {number}")


# Training

def records_of(config, steps=STEPS):
    """What a Trainer measures after each of its first steps, and its state after them."""
    trainer, records = Trainer(config), []
    with trainer.engine:
        for _ in range(steps):
            trainer.update()
            records.append(trainer.evaluate())
    return records, trainer.state()[0]


def assert_first_steps_agree(config):
    here, _ = records_of(config)
    with backend.using("cupy"):
        there, arrays = records_of(config)
    for mine, theirs in zip(here, there, strict=True):
        for key in ("train_loss", "validation_loss", "l2_norm"):
            assert abs(theirs[key] - mine[key]) <= CLOSE * abs(mine[key]), (mine["step"], key)
    assert {array.dtype for array in arrays.values()} == {np.dtype(config.dtype)}


@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_first_steps_equal_numpys(model, settings):
    config = small_config(model, settings, steps=STEPS)
    if config is None:
        pytest.skip("an option of the GPT")
    assert_first_steps_agree(config)


@pytest.mark.parametrize("engine", ["plain", "fast"])
@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_the_first_steps_of_the_documents_models_equal_numpys(model, engine):
    assert_first_steps_agree(Config(model=model, engine=engine))


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_two_runs_of_a_seed_are_the_same_bit_for_bit(gpu, model):
    (first, arrays), (second, again) = (records_of(Config(model=model), 50) for _ in range(2))
    assert first == second
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_training_step_never_waits(gpu, model, settings):
    """As far as CuPy itself can tell; the stand-in counts too."""
    import cupyx

    config = small_config(model, settings)
    if config is None or not hasattr(cupyx, "allow_synchronize"):
        pytest.skip("an option of the GPT, or a CuPy without allow_synchronize")
    trainer = Trainer(config)
    with trainer.engine, contextlib.ExitStack() as stack:
        trainer.update()
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", DeprecationWarning)
        stack.enter_context(cupyx.allow_synchronize(False))
        for _ in range(3):
            trainer.update()


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


# Decoding, ids, errors

@pytest.mark.parametrize("make", [lambda: GPT(7, 16, 2, 2, max_len=8), lambda: LSTMLM(7, 16)],
                         ids=["gpt", "lstm"])
def test_decoders_find_the_same(make):
    model = make()
    randomise(model, np.random.default_rng(7), 0.3)

    def searches(model):
        several = greedy(continuation(model, [[1, 2], [3, 4]]), 10)
        return several + beam_search(continuation(model, [1, 2]), 3, 6, 0).finished

    wanted = searches(model)
    with backend.using("cupy"):
        found = searches(model.to_backend())
    assert [h.tokens for h in found] == [h.tokens for h in wanted]
    close(np.array([h.log_prob for h in found]), np.array([h.log_prob for h in wanted]), 1e-5)


def test_embedding_gradients_repeat_and_bad_ids_are_refused(gpu):
    layer = Embedding(5, 64)
    ids = stream(1).integers(0, 5, (400, 6))
    dy = to_device(stream(2).standard_normal((400, 6, 64)).astype("float32"))
    found = []
    for _ in range(5):
        layer.zero_grad()
        layer.backward(dy, layer.forward(ids)[1])
        found.append(to_host(layer.W.grad))
    assert all((grad == found[0]).all() for grad in found)
    for bad in (5, -1):
        with pytest.raises(InputError, match=f"contain {bad}; allowed are 0 to 4"):
            layer.forward(np.array([1, bad]))


def test_cupy_refuses_what_the_stand_in_refuses(gpu):
    there, here = xp.zeros((2, 3)), np.zeros((2, 3))
    for mix in (lambda: there + here, lambda: here + there, lambda: xp.add(there, here),
                lambda: np.asarray(there), lambda: there.__iadd__(here),
                lambda: xp.add(there, 1, out=here), lambda: range(xp.arange(3)[0])):
        with pytest.raises(TypeError):
            mix()
    assert there.sum().shape == () and not isinstance(there.sum(), np.generic)


def test_memory_that_is_full_is_one_line(gpu, tmp_path):
    pool = xp.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 4 * 2**20)
    try:
        with pytest.raises(BackendError, match=r"the GPU's memory \(\d+ GiB\) is full") as caught:
            train(Config(eval_first=1, steps=1), tmp_path / "run", quiet=True)
    finally:
        pool.set_limit(size=0)
    assert "\n" not in str(caught.value)

"""The GPU path without a GPU: everything runs on the stand-in for CuPy, with NumPy's results."""

import numpy as np
import pytest

from npdl import backend
from npdl.backend import to_host
from npdl.functions import sum_by_index
from npdl.training.config import Config
from npdl.training.run import load_run, train
from tests.tools import fakecupy
from tests.tools.cases import all_cases
from tests.tools.device_helpers import SETTINGS, on_device, on_host, run_case, small_config
from tests.tools.trained import trained

CASES = all_cases()


@pytest.fixture
def device():
    with fakecupy.installed(), backend.using("cupy"):
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_gives_numpys_results_on_the_device(case):
    expected, _ = run_case(case, on_host)
    with fakecupy.installed(), backend.using("cupy"):
        results, waits = run_case(case, on_device)
    assert waits == []
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert result.dtype == reference.dtype
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_training_step_never_waits_and_equals_numpys(model, settings):
    # The wing goes another way on a device: equal in float64, up to rounding. The plain engine's
    # numbers are the same bits.
    dtype, rounding = ("float64", 1e-9) if settings["engine"] == "fast" else ("float32", 0)
    config = small_config(model, settings, dtype=dtype)
    if config is None:
        pytest.skip("an option of the GPT")
    here = trained(config, 4)
    with here.engine:
        record = here.evaluate()
    with fakecupy.installed(), backend.using("cupy"):
        there = trained(config, 1)      # the first step prepares the batch
        with there.engine:
            fakecupy.waits.clear()
            for _ in range(3):
                there.update()
            assert fakecupy.waits == []
            measured = there.evaluate()
        arrays, _ = there.state()
    if config.positions == "learned" and rounding == 0:
        rounding = 2e-6                                     # the host adds up one by one
    assert measured == pytest.approx(record, rel=rounding, abs=0)
    for name, array in here.state()[0].items():
        assert arrays[name].dtype == dtype
        np.testing.assert_allclose(arrays[name], array, rtol=0, atol=rounding, err_msg=name)


def test_checkpoints_and_models_move_between_backends(tmp_path):
    config = Config(p=7, width=16, heads=2, steps=6, save_every=3, eval_first=1, eval_every=3,
                    engine="plain")
    train(config, tmp_path / "numpy", quiet=True)
    with fakecupy.installed(), backend.using("cupy"):
        train(config, tmp_path / "device", quiet=True)
        assert load_run(tmp_path / "numpy").step == 6
    one, other = load_run(tmp_path / "numpy"), load_run(tmp_path / "device")
    for name, value in one.model.state_dict().items():
        np.testing.assert_array_equal(value, other.model.state_dict()[name])
    ids = one.task.data.train.inputs
    logits, _ = one.model.forward(ids)
    with fakecupy.installed(), backend.using("cupy"):
        moved = one.model.to_backend()
        np.testing.assert_array_equal(to_host(moved.forward(ids)[0]), logits)
    np.testing.assert_array_equal(moved.to_backend().forward(ids)[0], logits)


def test_the_stand_in_refuses_what_cupy_refuses(device):
    xp = backend.xp
    there, here = xp.zeros((2, 3)), np.zeros((2, 3))
    for mix in (lambda: there + here, lambda: here + there, lambda: here @ there.T,
                lambda: xp.add(there, here), lambda: xp.add(there, 1, out=here),
                lambda: np.asarray(there), lambda: xp.concatenate([there, here]),
                lambda: np.concatenate([there, here]), lambda: xp.exp([1.0]),
                lambda: there.__iadd__(here), lambda: here.__iadd__(there),
                lambda: there.__setitem__(0, here[0])):
        with pytest.raises(TypeError):
            mix()
    for missing in ("busday_count", "nested_iters"):
        with pytest.raises(AttributeError):
            getattr(xp, missing)
    with pytest.raises(AttributeError):
        there.itemset(0)
    assert there.sum().shape == () and isinstance(there.sum(), fakecupy.ndarray)
    fakecupy.waits.clear()
    float(there.sum()), bool(there.sum() == 0), there.get(), there[0, 0].item()
    assert fakecupy.waits == ["float", "bool", "get", "item"]


def test_embedding_gradients_repeat_bit_for_bit_and_bad_ids_are_refused(device):
    from npdl.errors import InputError
    from npdl.layers.embedding import Embedding

    layer = Embedding(5, 3)
    with pytest.raises(InputError, match="contain 5; allowed are 0 to 4"):
        layer.forward(np.array([1, 5]))
    with pytest.raises(InputError, match="contain -1"):
        layer.forward(np.array([1, -1]))


@pytest.mark.parametrize("size", [3, 6, 50_000])
def test_a_look_ups_gradient_needs_no_product_with_the_whole_table(device, size):
    """On the device it is made of products: with pairs of rows where the table is larger."""
    rng = np.random.default_rng(size)
    rows, index = rng.standard_normal((2, 4, 5)), rng.integers(0, min(size, 5), (2, 4))
    wanted = np.zeros((size, 5))
    np.add.at(wanted, index, rows)
    fakecupy.waits.clear()
    found = sum_by_index(backend.to_device(rows), backend.to_device(index), size)
    assert fakecupy.waits == []
    np.testing.assert_allclose(to_host(found), wanted, rtol=0, atol=1e-12)


def test_the_largest_array_of_a_look_ups_gradient_is_the_table(device, monkeypatch):
    monkeypatch.setattr("npdl.functions.one_hot", None)         # (N, V) numbers
    rows = backend.to_device(np.ones((3, 2), "float32"))
    assert sum_by_index(rows, backend.to_device(np.array([4, 4, 1])), 9)[4, 0].item() == 2

"""The GPU path without a GPU: decoders, losses, optimizers, dropout, precision, the stand-in."""

import numpy as np
import pytest

from npdl import backend, losses
from npdl.backend import stream, to_device, to_host, xp
from npdl.decoding import beam_search, exhaustive_search, greedy, sample
from npdl.decoding.wiring import Recomputed, continuation
from npdl.fast.engine import FastEngine
from npdl.functions import log_softmax
from npdl.layers.dropout import Dropout
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, Adam, AdamW
from npdl.training.config import Config
from npdl.training.engine import PlainEngine
from npdl_study.check.subjects import randomise
from tests.tools import device_functions, device_launches, fakecupy
from tests.tools.device_helpers import SETTINGS, small_config
from tests.tools.trained import trained, updated


@pytest.fixture
def device():
    with fakecupy.installed(), backend.using("cupy"):
        yield


MODELS = {
    "gpt": lambda: GPT(7, 16, 2, 2, max_len=8),
    "gpt, pre-norm, tied": lambda: GPT(7, 16, 2, 2, max_len=8, norm="pre", positions="learned",
                                       tied=True),
    "lstm": lambda: LSTMLM(7, 16),
}


def model_of(name):
    model = MODELS[name]()
    randomise(model, np.random.default_rng(7), 0.3)
    return model


# Decoding

@pytest.mark.parametrize("scorer", [continuation, Recomputed])
@pytest.mark.parametrize("name", MODELS)
def test_every_decoder_finds_what_it_finds_on_numpy(name, scorer):
    model = model_of(name)

    def searches(model):
        one, several = scorer(model, [1, 2, 3]), scorer(model, [[1, 2], [3, 4]])
        return (greedy(several, 5, 0), beam_search(one, 3, 5, 0).finished,
                sample(several, 5, 3, 0, count=2, temperature=1.2, top_k=4, top_p=0.9),
                exhaustive_search(one, 2, 0).finished)

    wanted = searches(model)
    with fakecupy.installed(), backend.using("cupy"):
        assert searches(model.to_backend()) == wanted


@pytest.mark.parametrize("name", MODELS)
def test_decoding_waits_once_for_each_token(name):
    model = model_of(name)
    with fakecupy.installed(), backend.using("cupy"):
        scorer = continuation(model.to_backend(), [[1, 2], [3, 4]])
        fakecupy.waits.clear()
        rows, state = scorer.start()
        assert fakecupy.waits == ["get"]
        for step in range(10):                  # past the GPT's max_len, too
            parents = np.array([0, 1, 1]) if step % 2 else np.array([1, 0])
            fakecupy.waits.clear()
            rows, state = scorer.advance(state, parents, rows[parents].argmax(1))
            assert fakecupy.waits == ["get"]


# Losses, optimizers, dropout

def test_the_losses_as_functions():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4, 5, 7)).astype("float32")
    targets, counted = rng.integers(0, 7, (4, 5)), rng.random((4, 5)) < 0.8
    p, q = (np.exp(log_softmax(x)) for x in (logits[0], logits[1]))

    def every(put):
        ids, mask, at = put(targets), put(counted), put(np.array([1, 2, 0, 3]))
        found = [losses.kl_divergence(put(p), put(q))]
        for reduction in losses.REDUCTIONS:
            found += losses.loss_and_accuracy(put(logits), ids, at, mask, reduction)
            found.append(losses.exact_match(put(logits), ids, mask, reduction))
        return [np.asarray(to_host(value)) for value in found]

    wanted = every(np.asarray)
    with fakecupy.installed(), backend.using("cupy"):
        found = every(to_device)
    for value, expected in zip(found, wanted, strict=True):
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, expected)


def test_the_loss_layers_are_among_the_cases():
    classes = {case.layer_class for case in device_functions.CASES}
    assert classes >= {losses.SequenceLoss, losses.CrossEntropy, losses.SquaredError,
                       losses.KLDivergence}


@pytest.mark.parametrize("make", [
    lambda model: SGD(model, 0.1), lambda model: SGD(model, 0.1, momentum=0.9, weight_decay=0.1),
    lambda model: Adam(model, weight_decay=0.1), lambda model: AdamW(model, weight_decay=0.1),
], ids=["sgd", "sgd, momentum", "adam", "adamw"])
@pytest.mark.parametrize("engine", [PlainEngine, FastEngine])
def test_optimizers_and_clipping(make, engine):
    def updates():
        model = MODELS["gpt, pre-norm, tied"]().to_backend()
        for _, param in model.params():
            param.decay = param.data.ndim > 1
        optimizer = make(model)
        engine_, norms = engine(model, optimizer), []
        fakecupy.waits.clear()
        for step in range(5):
            for number, param in enumerate(optimizer.params.values()):
                gradient = stream(4, step, number).standard_normal(param.shape)
                param.grad[...] = to_device(gradient.astype("float32"))
            norms.append(engine_.clip(20.0 * (step + 1)))
            engine_.update()
        waits = list(fakecupy.waits)
        params = optimizer.params.values()
        arrays = [array for param in params for array in (param.data, param.grad)]
        for moment in optimizer.moments:
            arrays += getattr(optimizer, moment).values()
        return [np.asarray(to_host(array)) for array in (*arrays, *norms)], waits

    wanted, _ = updates()
    with fakecupy.installed(), backend.using("cupy"):
        found, waits = updates()
        assert waits == [] and fakecupy.doubles == []
    for array, expected in zip(found, wanted, strict=True):
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected)


def test_the_wings_update_of_adamw_is_one_stretch(device):
    model = MODELS["gpt"]().to_backend()
    engine = FastEngine(model, AdamW(model))
    engine.update()
    fakecupy.launches.clear()
    engine.update()
    assert fakecupy.launches == {"fused": 1}


def test_dropout_draws_the_same_mask_on_both_backends():
    x = np.ones((6, 50), np.float32)
    (here, _), layer = Dropout(0.4).forward(x, stream(5, 1)), Dropout(0.4)
    with fakecupy.installed(), backend.using("cupy"):
        there, cache = layer.forward(to_device(x), stream(5, 1))
        dx = to_host(layer.backward(xp.ones_like(there), cache))
        there = to_host(there)
    np.testing.assert_array_equal(there, here)
    np.testing.assert_array_equal(dx, here)
    assert 0.2 < (here == 0).mean() < 0.6


# Precision

@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_double_precision_in_a_float32_step_of_the_wing(device, model, settings):
    """The textbook sums biases' gradients in it."""
    config = small_config(model, settings)
    if config is None:
        pytest.skip("an option of the GPT")
    trainer = trained(config, 0)
    fakecupy.doubles.clear()
    updated(trainer, 2)
    with trainer.engine:
        trainer.evaluate()
    assert fakecupy.doubles == [] or config.engine == "plain"
    arrays = [array for _, param in trainer.model.params() for array in (param.data, param.grad)]
    for moment in trainer.optimizer.moments:
        arrays += getattr(trainer.optimizer, moment).values()
    assert {array.dtype for array in arrays} == {np.dtype("float32")}


# The stand-in and the lists made with it

def test_the_stand_in_knows_keywords_operators_and_hidden_waits(device):
    x, mask = xp.ones((2, 3)), xp.ones((2, 3)) > 0
    for call in (lambda: x.sum(where=mask), lambda: xp.exp(x, where=mask),
                 lambda: xp.sum(x, initial=0.0), lambda: np.exp(x, where=mask)):
        with pytest.raises(TypeError, match="keyword"):
            call()
    with pytest.raises(TypeError):
        range(xp.arange(3)[0])                  # CuPy's arrays have no __index__
    fakecupy.waits.clear()
    x[mask]
    mask.nonzero()
    assert fakecupy.waits == ["boolean index", "nonzero"]
    x[mask] = 0.0                               # nothing has to be counted here
    assert len(fakecupy.waits) == 2


def test_launches_are_counted(device):
    x = xp.ones((4, 2, 3), "float32")
    fakecupy.launches.clear()
    views = x.swapaxes(1, 2)[1:], x.reshape(-1, 3).T, xp.empty((5, 5))
    assert fakecupy.launches.total() == 0 and len(views) == 3
    x.swapaxes(1, 2).reshape(4, 6)                                      # this one copies
    assert fakecupy.launches == {".reshape": 1}
    fakecupy.launches.clear()
    z = x @ x.swapaxes(1, 2)
    z += 1
    z[0] = 0
    xp.exp(z, out=z)
    assert dict(fakecupy.launches) == {"__matmul__": 1, "copy for a stacked product": 1,
                                       "__iadd__": 1, "__setitem__": 1, "exp": 1}


def test_memory_is_counted_and_limited():
    with fakecupy.installed(limit=1000) as cupy, backend.using("cupy"):
        pool = cupy.get_default_memory_pool()
        x = xp.zeros(100, "float32")
        view = x[10:]
        assert pool.used_bytes() == 400
        with pytest.raises(MemoryError, match="allocating 800 bytes .allocated so far: 400"):
            xp.zeros(100, "float64")
        del x
        assert pool.used_bytes() == 400
        del view
        assert (pool.used_bytes(), pool.total_bytes()) == (0, 400)


def test_the_list_of_functions(capsys):
    assert device_functions.main() == 0
    listed = capsys.readouterr().out
    assert " NO " not in listed
    for name in ("tanh", ".sum", "__matmul__", "special.erf", "where"):
        assert f"\n{name} " in listed
    assert not device_functions.cupy_has("nested_iters")
    assert not device_functions.cupy_has("__index__")
    assert not device_functions.cupy_has(".itemset")
    assert not device_functions.cupy_has("special.nothing")


def test_the_table_of_launches():
    totals = {}
    for engine, updates, gelu in (("plain", 18 * 31, 14), ("fast", 1, 2)):
        counts = device_launches.count_update(small_config("gpt", {"engine": engine}))
        assert counts.parts["optimizer", "step"] == (1, updates)
        assert counts.parts["GELU", "backward"] == (2, gelu)
        assert sum(launches for _, launches in counts.parts.values()) <= counts.total
        assert counts.waits == 0
        assert f"{counts.total}\nwaits for the device" in device_launches.table(counts)
        totals[engine] = counts.total
    assert totals["fast"] < 0.2 * totals["plain"]


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_an_update_of_the_document_starts_at_most_150_kernels(model):
    counts = device_launches.count_update(Config(model=model))
    assert counts.total <= 150 and counts.waits == 0


def test_a_fused_function_is_one_launch_and_holds_only_what_cupy_fuses(device):
    @xp.fuse
    def changed(x, y, factor):
        x = xp.multiply(x, factor, out=x)
        return xp.sum(xp.exp(x) - y, axis=-1)

    x, y = xp.ones((4, 3), "float32"), xp.ones((3,), "float32")
    fakecupy.launches.clear()
    total = changed(x, y, 2.0)
    assert fakecupy.launches == {"fused": 1}
    np.testing.assert_array_equal(to_host(x), np.full((4, 3), 2))
    np.testing.assert_allclose(to_host(total), 3 * (np.exp(2) - 1) * np.ones(4), rtol=1e-6)
    for wrong in (lambda a: a[0], lambda a: a.reshape(-1), lambda a: a @ a.T, lambda a: a.sum(),
                  lambda a: xp.zeros(3) + a, lambda a: xp.take(a, a)):
        with pytest.raises(TypeError, match="cannot be fused|has no|Unsupported"):
            xp.fuse(wrong)(x)
    for argument in (np.ones(3), [1.0], "x"):
        with pytest.raises(TypeError, match="Invalid argument"):
            changed(x, argument, 2.0)

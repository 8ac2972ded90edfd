"""On a GPU, or an emulated one (tests/tools/cupy_on_cpu): a recorded step computes what the plain one
computes on NumPy, and a CUDA graph gives the bits of its launches one by one."""

import numpy as np
import pytest

import npdl
from npdl import backend, optim
from npdl.backend import to_host, xp
from npdl.engine import RecordedStep, compile_step, training_step
from npdl.losses import SequenceLoss
from npdl_study.check.samples import every_sample, layer_classes
from npdl_study.trees import leaves, tupled, upstream
from tests.engine.test_equality import (
    OPTIMIZERS,
    TOLERANCE,
    assert_close,
    cast,
    forward_and_backward,
    gpt,
    redrawn,
)
from tests.tools import cupy_on_cpu
from tests.tools.device import needs_cupy

pytestmark = needs_cupy
emulated = pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card counts nothing")


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield


def host_arrays(layers, answers):
    """Every output and gradient, and the parameters that a forward changes."""
    for layer, (outputs, dx) in zip(layers, answers, strict=True):
        yield from (to_host(array) for _, array in leaves(outputs, "y"))
        yield from (to_host(array) for _, array in leaves(tupled(dx), "dx"))
        yield from (to_host(p.grad if p.trainable else p.data)
                    for _, p in layer.params(frozen=True))


@pytest.mark.parametrize(("name", "dtype"), [
    (name, list(TOLERANCE)[i % 2]) for i, name in enumerate(sorted(layer_classes()))])
def test_every_layer_equals_its_plain_step(name, dtype):
    try:
        samples = every_sample(layer_classes()[name])
    except npdl.errors.InputError:
        pytest.skip("a base class")
    rng = np.random.default_rng(len(name))
    layers, inputs, options = zip(*(build(rng) for build in samples.values()), strict=True)
    plain = [layer.astype(dtype) for layer in layers]
    for layer in plain:
        for _, param in layer.params():
            param.data[...] = 0.5 * rng.standard_normal(param.shape)
    batches, wanted = [], []
    with np.errstate(all="ignore"):
        layers = [layer.astype(dtype) for layer in plain]
        for i in range(3):
            given = cast(inputs if i == 0 else redrawn(inputs, rng), dtype)
            douts = [cast(upstream(layer.astype(dtype).forward(*x, **o)[0], rng), dtype)
                     for layer, x, o in zip(plain, given, options, strict=True)]
            for layer in plain:
                layer.zero_grad()
            batches.append((given, options, douts))
            answers = forward_and_backward(plain, given, options, douts)
            wanted.append([np.copy(x) for x in host_arrays(plain, answers)])
    with backend.using("cupy"):
        lines = []
        layers = [layer.to_backend() for layer in layers]
        step = RecordedStep(forward_and_backward, (layers,), note=lines.append)
        for batch, expected in zip(batches, wanted, strict=True):
            for layer in layers:
                layer.zero_grad()
            assert_close(host_arrays(layers, step(*batch)), expected, TOLERANCE[dtype])
        assert not lines and len(step.recordings) == 1


def batches(steps, shape=(4, 6)):
    """(ids, targets, counted, lr, rng) of some steps, one of another shape."""
    rng = np.random.default_rng(3)
    for i in range(steps):
        ids, targets = rng.integers(0, 11, (2, 3 if i == 3 else shape[0], shape[1]))
        yield ids, targets, rng.random(ids.shape) < 0.7, 0.01 * (i + 1), np.random.default_rng(i)


def trained(make_optimizer, model, steps=6, between=lambda step: None, **options):
    """(losses, parameters and moments, step) of a recorded training on the chosen backend."""
    optimizer = make_optimizer(model)
    step = compile_step(model, SequenceLoss(), optimizer, max_norm=0.5, **options)
    losses = []
    for ids, targets, counted, lr, rng in batches(steps):
        losses.append(to_host(step(ids, targets, counted, lr=lr, rng=rng)))
        between(step)
    return losses, state_of(model, optimizer), step


def state_of(model, optimizer):
    moments = [array for value in optimizer.state_dict().values() if isinstance(value, dict)
               for array in value.values()]
    return [to_host(p.data) for _, p in model.params()] + moments


def dropout_gpt(dtype="float64"):
    return gpt(dtype, norm="pre", positions="learned", tied=True, dropout=0.2, padding_id=1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_plain_training(name, dtype):
    model, loss = dropout_gpt(dtype), SequenceLoss()
    optimizer = OPTIMIZERS[name](model)
    wanted = [training_step(model, loss, optimizer, (ids,), (targets, counted), {"rng": rng}, lr,
                            0.5) for ids, targets, counted, lr, rng in batches(6)]
    state = state_of(model, optimizer)
    with backend.using("cupy"):
        losses, found, step = trained(OPTIMIZERS[name], dropout_gpt(dtype).to_backend())
    assert_close(losses, wanted, TOLERANCE[dtype])
    assert_close(found, state, 10 * TOLERANCE[dtype])
    assert step.recorded.why_not is None and len(step.recorded.recordings) == 2


@pytest.mark.parametrize("make", [dropout_gpt, lambda: npdl.LSTMLM(11, 8, 12, 2, rng=1)],
                         ids=["gpt", "lstm"])
def test_a_graph_gives_the_bits_of_single_launches(gpu, make, monkeypatch):
    def run(captures):
        model = make().to_backend()
        if not hasattr(model, "blocks"):                    # it has no dropout
            model.forward = lambda *given, rng=None, own=model.forward: own(*given)
        optimizer = OPTIMIZERS["AdamW"](model)
        step = compile_step(model, SequenceLoss(), optimizer, max_norm=0.5)
        step.recorded.target.captures = captures
        losses = [to_host(step(ids, targets, counted, lr=lr, rng=rng))
                  for ids, targets, counted, lr, rng in batches(6)]
        return losses, state_of(model, optimizer)
    (wanted, state), (losses, found) = run(False), run(True)
    assert [x.tobytes() for x in losses] == [x.tobytes() for x in wanted]
    assert [x.tobytes() for x in found] == [x.tobytes() for x in state]

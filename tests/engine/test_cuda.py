"""A recorded step on a GPU, real or emulated (tests/tools/cupy_on_cpu), computes the same values as
the plain step on NumPy. A CUDA graph computes the same bits as single launches of its kernels."""

import numpy as np
import pytest

import npdl
from npdl import backend, optim
from npdl.backend import to_host, xp
from npdl.core import Cache
from npdl.engine import RecordedStep, compile_step, training_step
from npdl.engine.step import map_arrays
from npdl.errors import InputError
from npdl.losses import SequenceLoss
from npdl.study.check.samples import find_layer_classes
from tests.engine import test_equality as equality
from tests.engine.test_equality import OPTIMIZERS, TOLERANCE, assert_close, make_gpt
from tests.tools import cupy_on_cpu
from tests.tools.device import needs_cupy

pytestmark = needs_cupy
NO_KERNELS = ("QuantLinear",)      # it unpacks bits
QUICK = ("Embedding", "LSTMCell", "LayerNorm", "Linear", "MultiHeadAttention", "QuantLinear",
         "SequenceLoss")
emulated = pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a GPU counts no events")


def copy_arrays_to_host(layers, answers):
    """Return the arrays of collect_arrays, on the host."""
    return map(to_host, equality.collect_arrays(layers, map_arrays(answers, to_host)))


@pytest.mark.parametrize(("name", "dtype"), [
    pytest.param(name, list(TOLERANCE)[i % 2], marks=[] if name in QUICK else pytest.mark.slow)
    for i, name in enumerate(sorted(find_layer_classes()))])
def test_every_layer_equals_its_plain_step(name, dtype):
    plain, *examples = equality.make_example_layers(name, dtype, max_count=None)    # all of them
    layers, steps = [layer.astype(dtype) for layer in plain], []
    for arguments, answers in equality.run_plain_steps(plain, *examples, dtype):
        steps.append((arguments, [np.copy(x) for x in copy_arrays_to_host(plain, answers)]))
    with backend.using("cupy"):
        lines = []
        layers = [layer.to_backend() for layer in layers]
        step = RecordedStep(equality.forward_and_backward, (layers,), print_note=lines.append)
        for arguments, wanted in steps:
            for layer in layers:
                layer.zero_grad()
            assert_close(copy_arrays_to_host(layers, step(*arguments)), wanted, TOLERANCE[dtype])
        if name in NO_KERNELS:
            assert len(lines) == 1 and "has no kernel" in lines[0]
        else:
            assert not lines and len(step.recordings) == 1


def make_batches(steps, shape=(4, 6)):
    """Yield (ids, targets, counted, lr, rng) of some steps. The fourth has another shape."""
    rng = np.random.default_rng(3)
    for i in range(steps):
        ids, targets = rng.integers(0, 11, (2, 3 if i == 3 else shape[0], shape[1]))
        yield ids, targets, rng.random(ids.shape) < 0.7, 0.01 * (i + 1), np.random.default_rng(i)


def train_recorded(make_optimizer, model, steps=6, after_step=lambda step: None, use_graphs=True):
    """Return (losses, parameters and moments, step) of a recorded training."""
    optimizer = make_optimizer(model)
    step = compile_step(model, SequenceLoss(), optimizer, max_norm=0.5)
    step.recorded.target.captures, losses = use_graphs, []
    for ids, targets, counted, lr, rng in make_batches(steps):
        options = {"rng": rng} if isinstance(model, npdl.GPT) else {}       # for its dropout
        losses.append(to_host(step(ids, targets, counted, lr=lr, **options)))
        after_step(step)
    return losses, copy_state(model, optimizer), step


def copy_state(model, optimizer):
    moments = [array for value in optimizer.state_dict().values() if isinstance(value, dict)
               for array in value.values()]
    return [to_host(p.data) for _, p in model.params()] + moments


def make_dropout_gpt(dtype="float64"):
    return make_gpt(dtype, norm="pre", positions="learned", tied=True, dropout=0.2, padding_id=1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_plain_training(name, dtype):
    model, loss = make_dropout_gpt(dtype), SequenceLoss()
    optimizer = OPTIMIZERS[name](model)
    wanted = [training_step(model, loss, optimizer, (ids,), (targets, counted), {"rng": rng}, lr,
                            0.5) for ids, targets, counted, lr, rng in make_batches(6)]
    state = copy_state(model, optimizer)
    with backend.using("cupy"):
        losses, found, step = train_recorded(OPTIMIZERS[name], make_dropout_gpt(dtype).to_backend())
    assert_close(losses, wanted, TOLERANCE[dtype])
    assert_close(found, state, 10 * TOLERANCE[dtype])
    assert step.recorded.why_not is None and len(step.recorded.recordings) == 2


@pytest.mark.parametrize("make", [make_dropout_gpt, lambda: npdl.LSTMLM(11, 8, 12, 2, rng=1)],
                         ids=["gpt", "lstm"])
def test_cuda_graph_equals_single_launches(gpu, make):
    (wanted, state, _), (losses, found, _) = (
        train_recorded(OPTIMIZERS["AdamW"], make().to_backend(), use_graphs=use)
        for use in (False, True))
    assert [x.tobytes() for x in (*losses, *found)] == [x.tobytes() for x in (*wanted, *state)]


def test_shared_prefixes_equal_the_whole_batch(gpu):
    losses, (ids, targets, loss_mask, *_) = [], next(make_batches(1, (9, 6)))
    for share in (False, True):
        model = npdl.GPT(11, 8, 2, 2, max_len=6, rng=0, dtype="float64")
        step = compile_step(model, SequenceLoss(), npdl.AdamW(model), share_prefixes=share)
        losses.append([float(step(ids % 3, targets, loss_mask)) for _ in range(3)])
        assert getattr(step.recorded, "shards", [step.recorded])[0].why_not is None
    np.testing.assert_allclose(*losses, rtol=1e-12)


def test_float16_has_no_kernel_and_a_batch_is_not_split(gpu):
    lines, owner = [], Cache(W=backend.to_device(np.ones((4, 3), np.float32)))
    step = RecordedStep(lambda owner, x: (owner.W * x).astype(np.float16).sum(0), (owner,),
                        print_note=lines.append)
    for _ in range(2):
        np.testing.assert_array_equal(to_host(step(backend.to_device(np.full(3, 2.0)))), [8, 8, 8])
    assert len(lines) == 1 and "has no kernel" in lines[0]
    model = make_dropout_gpt().to_backend()
    with pytest.raises(InputError, match="a batch is not split on a GPU; give threads=1"):
        compile_step(model, SequenceLoss(), npdl.AdamW(model), threads=2)


@emulated
def test_gpu_step_is_one_copy_and_one_graph(gpu):
    _, _, step = train_recorded(OPTIMIZERS["AdamW"], make_dropout_gpt().to_backend())
    ids, targets, counted, lr, rng = next(make_batches(1))
    with cupy_on_cpu.record() as events:
        step(ids, targets, counted, lr=lr, rng=rng)
    asked = [event.kind for event in events if event.kind in ("copy", "graph", "launch", "product")]
    assert asked == ["copy", "graph", "launch"]             # the launch copies the loss


def test_graphs_leave_other_arrays_unchanged(gpu):
    """Arrays are created and freed between the steps. The graphs neither write nor read them."""
    others = []

    def allocate_arrays(step):
        for size in (7, 100, 1000, 5000, 20000):
            xp.full(size, np.nan)
            others.append(xp.ones(size))
    wanted, state, _ = train_recorded(OPTIMIZERS["AdamW"], make_dropout_gpt().to_backend(), 8)
    losses, found, _ = train_recorded(OPTIMIZERS["AdamW"], make_dropout_gpt().to_backend(), 8,
                                      allocate_arrays)
    assert [x.tobytes() for x in (*losses, *found)] == [x.tobytes() for x in (*wanted, *state)]
    assert all((to_host(x) == 1).all() for x in others)


def test_an_interrupted_capture_leaves_the_step_usable(gpu):
    """Ctrl-C during the second step, which is captured, changes nothing. The step is repeated."""
    wanted, state, _ = train_recorded(OPTIMIZERS["AdamW"], make_gpt("float64").to_backend(), 3)
    model = make_gpt("float64").to_backend()
    optimizer = OPTIMIZERS["AdamW"](model)
    step = compile_step(model, SequenceLoss(), optimizer, max_norm=0.5)
    losses = []
    for i, (ids, targets, counted, lr, _) in enumerate(make_batches(3)):
        if i == 1:
            calls = step.recorded.recordings[0].lowered.calls
            (device_call,) = [call for call in calls if hasattr(call, "launches")]

            def interrupt():
                raise KeyboardInterrupt
            device_call.launches.insert(5, interrupt)
            with pytest.raises(KeyboardInterrupt):
                step(ids, targets, counted, lr=lr)
            del device_call.launches[5]
        losses.append(to_host(step(ids, targets, counted, lr=lr)))
    assert [x.tobytes() for x in losses] == [x.tobytes() for x in wanted]
    assert [x.tobytes() for x in copy_state(model, optimizer)] == [x.tobytes() for x in state]


def test_changed_betas_are_used_and_wrong_ids_raise():
    """Betas are a list whose entry changes. An id out of range raises the layer's error."""
    def run():
        model = make_gpt("float64")
        model = model if backend.is_host() else model.to_backend()
        optimizer = optim.AdamW(model, betas=[0.8, 0.95], eps=1e-3)
        step = compile_step(model, SequenceLoss(), optimizer)
        for i, (ids, targets, counted, lr, _) in enumerate(make_batches(6, (3, 6))):
            optimizer.betas[0] = 0.8 if i < 3 else 0.5
            if i == 4:
                with pytest.raises(npdl.errors.InputError, match="15"):
                    step(ids + 5, targets, counted, lr=lr)
            step(ids, targets, counted, lr=lr)
        return copy_state(model, optimizer)
    wanted = run()
    with backend.using("cupy"):
        assert_close(run(), wanted, 1e-11)


def test_model_is_usable_between_steps_and_resumes(gpu):
    """The step writes into the model's own arrays, and other streams read its results."""
    model = make_dropout_gpt().to_backend()
    optimizer = OPTIMIZERS["AdamW"](model)
    step, all_batches = compile_step(model, SequenceLoss(), optimizer), list(make_batches(7))
    for i, (ids, targets, counted, lr, _) in enumerate(all_batches):
        if i == 4:
            saved = model.state_dict(), optimizer.state_dict()
        step(ids, targets, counted, lr=lr, rng=np.random.default_rng(i))
        other = make_dropout_gpt().to_backend()
        other.load_state_dict(model.state_dict())
        np.testing.assert_array_equal(*[to_host(m.forward(ids)[0]) for m in (model, other)])
    other = make_dropout_gpt().to_backend()
    other_optimizer = OPTIMIZERS["AdamW"](other)
    other.load_state_dict(saved[0])
    other_optimizer.load_state_dict(saved[1])
    step = compile_step(other, SequenceLoss(), other_optimizer)
    for i, (ids, targets, counted, lr, _) in list(enumerate(all_batches))[4:]:
        step(ids, targets, counted, lr=lr, rng=np.random.default_rng(i))
    for a, b in zip(copy_state(other, other_optimizer), copy_state(model, optimizer), strict=True):
        assert a.tobytes() == b.tobytes()

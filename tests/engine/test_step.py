"""Properties of a recorded step besides its values: guards, settings, random numbers, interrupts,
repeatability, and a message of one line if the step can't be recorded."""

import collections
import functools
import gc
import itertools
import random
import re
import signal
import threading
import time
from concurrent import futures

import numpy as np
import pytest

import npdl
from npdl import optim
from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.engine import RecordedStep, compile_step, training_step
from npdl.engine.profile import Line, count_flop, format_report, profile
from npdl.engine.recorded_array import RecordedArray
from npdl.errors import InputError
from npdl.losses import CrossEntropy, SequenceLoss, SquaredError, WeightedCrossEntropy
from tests.engine import test_equality
from tests.engine.test_equality import TARGETS, assert_same_parameters, needs_compiler

make_step_pair = functools.partial(test_equality.make_step_pair, target="numpy")
make_gpt = functools.partial(test_equality.make_gpt, "float64")
make_lstm = functools.partial(npdl.LSTMLM, 11, 6, 1, 8, rng=1)
COUNTED = np.ones((3, 5), bool)


def make_batch(seed, shape=(3, 5)):
    return np.random.default_rng(seed).integers(0, 11, (2, *shape))


# Guards and settings

@pytest.mark.parametrize("bad", [
    lambda ids, targets: (np.where(ids == ids[0, 0], 11, ids), targets),
    lambda ids, targets: (np.where(ids == ids[0, 0], -1, ids), targets),
    lambda ids, targets: (ids, np.where(targets == targets[1, 1], 99, targets)),
    lambda ids, targets: (ids[:, :1].repeat(9, 1), targets[:, :1].repeat(9, 1)),
    lambda ids, targets: (ids.astype(float), targets)])
def test_bad_input_raises_the_plain_steps_error_and_changes_nothing(bad):
    models, plain, step = make_step_pair(make_gpt)
    for seed in range(2):
        assert plain(*make_batch(seed), COUNTED) == step(*make_batch(seed), COUNTED)
    before = models[1].state_dict()
    ids, targets = bad(*make_batch(2))
    counted = np.ones(ids.shape, bool)
    with pytest.raises(InputError) as wanted:
        plain(ids, targets, counted)
    with pytest.raises(InputError) as found:
        step(ids, targets, counted)
    assert str(found.value) == str(wanted.value)
    assert all(np.array_equal(before[name], p.data) for name, p in models[1].params())
    plain(*make_batch(3), COUNTED), step(*make_batch(3), COUNTED)
    assert_same_parameters(models)
    assert len(step.recorded.recordings) == 1


@pytest.mark.parametrize("is_one", [
    np.array_equal, np.allclose, lambda x, y: np.count_nonzero(x == y) == 3])
def test_a_function_that_looks_at_entries_records_a_guard(is_one):
    def function(x, y):
        return x + 1 if is_one(x, y) else x - 1
    step, x = RecordedStep(function, (), "numpy"), np.ones(3)
    for y in (x, x + 1, x, x + 1):
        np.testing.assert_array_equal(step(x, y.copy()), function(x, y))
    assert step.why_not is None and len(step.recordings) == 2


def test_a_guard_tells_nan_from_a_number():
    def function(x):
        return x[1] * (2.0 if np.isnan(float(x[0])) else 3.0)
    step = RecordedStep(function, (), "numpy")
    for first in (1.0, 1.0, np.nan, np.nan, 1.0):
        assert step(np.array([first, 1.0])) == function([first, 1.0])
    assert len(step.recordings) == 2


def test_a_wrong_learning_rate_raises_the_plain_steps_error_and_changes_nothing():
    models, plain, step = make_step_pair(make_gpt)
    for lr in (0.1, 0.2, -0.1, np.nan, 0.3):
        for run in (plain, step):
            if lr >= 0:
                run(*make_batch(0), COUNTED, lr=lr)
            else:
                with pytest.raises(InputError, match="lr"):
                    run(*make_batch(0), COUNTED, lr=lr)
    assert_same_parameters(models)
    assert len(step.recorded.recordings) == 1


def scale_if_positive(W):
    if W.sum() > 0:
        W *= -0.5
    return W.sum()


@pytest.mark.parametrize(("rest", "most"), [
    (scale_if_positive, 2), (lambda W: W[W > 0].sum(), 4),
    (lambda W: np.sort(W)[np.nonzero(W > 0)].sum(), 4)])
def test_what_the_step_has_written_is_restored_if_the_recording_does_not_fit(rest, most):
    """A branch, or the shape of a selection, depends on a parameter that the step has changed."""
    def function(W, rng, x):
        W += x + 0 * rng.random(x.shape)
        return rest(W)
    plain, recorded = np.ones(3), np.ones(3)
    generators = [np.random.default_rng(0) for _ in "ab"]
    step = RecordedStep(function, (recorded,), "numpy")
    for x in np.random.default_rng(0).standard_normal((24, 3)):
        assert step(generators[0], x) == function(plain, generators[1], x)
        np.testing.assert_array_equal(recorded, plain)
        assert generators[0].bit_generator.state == generators[1].bit_generator.state
    assert step.why_not is None and len(step.recordings) <= most


def test_a_changed_setting_a_new_array_and_a_new_shape_are_recorded_again():
    models, plain, step = make_step_pair(lambda: make_gpt(dropout=0.3, norm="pre"))

    def check(seed, shape=(3, 5)):
        given = (*make_batch(seed, shape), np.ones(shape, bool))
        generators = [np.random.default_rng(seed) for _ in models]
        assert plain(*given, rng=generators[0]) == step(*given, rng=generators[1])
        assert generators[0].random() == generators[1].random()
    for change in (
            lambda model: None, lambda model: setattr(model.decoder.blocks[0].norm1, "eps", 0.1),
            lambda model: setattr(model.decoder.blocks[0].dropout, "rate", 0.6),
            lambda model: setattr(model.classifier.W, "data", model.classifier.W.data + 1.0)):
        for model in models:
            change(model)
        for seed in range(3):
            check(seed)
        check(3, (2, 4))
    check(4, (1, 4))                            # the ninth recording
    assert_same_parameters(models)
    assert len(step.recorded.recordings) == 8 and step.recorded.why_not is None


# Steps that run plainly

class Squares(Layer):
    """Compute y = unusual(x W), where `unusual` is a function of the test."""

    def __init__(self, unusual):
        self.W, self.unusual = Param(np.eye(3)), unusual

    def forward(self, x):
        return self.unusual(x @ self.W.data), Cache(x=x)

    def backward(self, dy, cache):
        self.W.grad += cache.x.T @ dy
        return dy @ self.W.data.T


hold_object = (lambda owner: lambda y: y * owner.rate)(Cache(rate=2.0))


@pytest.mark.parametrize(("unusual", "why"), [
    (lambda y: np.asarray(y) * 2.0, r"Unsupported: np.asarray.* \(.*test_step.py:\d+\)"),
    (lambda y: np.arange(100.0)[(y * 0).astype(int)] + y, r"Unsupported: .*test_step.py:\d+\)"),
    (lambda y: y * np.array([float(v) for v in y[0]]),
     "the operations of the step depend on a value that changes.*"),
    (lambda y: np.frombuffer(y.tobytes()).reshape(y.shape) * 1.0,
     r"AttributeError: .*tobytes.* \(.*test_step.py:\d+\)"),
    (lambda y: np.add(y, 1.0, out=np.zeros(y.shape)), r"Unsupported: .* not an attribute.*"),
    (lambda y: np.clip(y, 0.0, 1.0, y), r"Unsupported: clip\(\) writes into an argument.*"),
    (lambda y: np.nan_to_num(y, copy=False), r"Unsupported: nan_to_num\(\) writes.*"),
    (lambda y: np.exp(y, where=y < 9, out=y), r"Unsupported: exp was called with where=.*"),
    (hold_object, ".*has objects.*"),      # a recording would miss changes of the object
    (lambda y: np.exp(y, where=np.eye(4, 3) > 0, out=y), r"Unsupported: exp was called with wh.*"),
    (lambda y: np.dot(y, np.eye(3), np.empty(y.shape)), r"Unsupported: dot\(\) writes into.*"),
    (lambda y: y + random.random() * 0, "it draws from the global random generator of .*"),
    (lambda y: y + np.random.rand(*y.shape) * 0, "it draws from the global random generator of "
     "NumPy or Python; give the step a generator as an argument")])
def test_unrecordable_step_runs_plainly_after_one_line(unusual, why, capsys):
    models, plain, step = make_step_pair(lambda: Squares(unusual), loss=SquaredError())
    for seed in range(12):
        x, y = np.random.default_rng(seed).standard_normal((2, 4, 3))
        np.testing.assert_allclose(step(x, y), plain(x, y), rtol=1e-12)
    assert_same_parameters(models)
    (line,) = capsys.readouterr().err.splitlines()
    start = "npdl.engine: the step can't be recorded and runs without the engine, which is slower: "
    assert re.fullmatch(start + why, line)


def test_an_argument_that_hides_its_arrays_runs_plainly(capsys):
    """A recording would treat the arrays in the argument as constants."""
    cache = Cache(x=np.ones(3))
    step = RecordedStep(lambda model, given: model.forward(given.x)[0], (npdl.Tanh(),), "numpy")
    for value in range(3):
        cache.x = np.full(3, float(value))
        np.testing.assert_array_equal(step(cache), np.tanh(cache.x))
    assert "an argument of the step is a Cache" in capsys.readouterr().err


def test_a_step_inside_of_another_is_recorded_with_it():
    lines = []
    inner = RecordedStep(lambda x: x * 2.0, (), "numpy", lines.append)
    outer = RecordedStep(lambda x: inner(x) + 1.0, (), "numpy", lines.append)
    for i in range(3):
        np.testing.assert_array_equal(outer(np.full(3, float(i))), np.full(3, 2.0 * i + 1))
    assert len(lines) == 1 and "inside of another" in lines[0] and outer.why_not is None


def test_a_failed_recording_leaves_state_and_generator_as_they_were():
    """The plain step that follows starts from the old state."""
    class Last(Squares):
        def backward(self, dy, cache):
            self.W.data[...] += 1.0             # like running statistics
            np.asarray(dy)
            return super().backward(dy, cache)

    models, plain, step = make_step_pair(lambda: Last(lambda y: y + 0), optim.AdamW, SquaredError())
    x, y = np.random.default_rng(0).standard_normal((2, 4, 3))
    assert step(x, y) == plain(x, y)
    assert_same_parameters(models, 0)
    assert step.recorded.why_not is not None


def test_layers_that_keep_their_cache_in_self_are_recorded():
    class Stateful(Layer):
        def __init__(self):
            self.W, self.kept, self.calls, self.share = Param(np.eye(3)), None, 0, None

        def forward(self, x):
            self.kept = (x, {"t": xp.tanh(x @ self.W.data)})
            self.calls += 1
            self.share = 1 / x.size             # a new but equal float in each step
            return self.kept[1]["t"] * self.calls, None

        def backward(self, dy, cache):
            x, t = self.kept[0], self.kept[1]["t"]
            self.W.grad += x.T @ (dy * self.calls * (1 - t**2))

    class Remembering(optim.SGD):
        used = None

        def step(self, lr=None):
            self.used = lr
            super().step(lr)

    models, plain, step = make_step_pair(Stateful, Remembering, loss=SquaredError())
    for seed in range(8):
        x, y = np.random.default_rng(seed).standard_normal((2, 4 + seed // 5, 3))
        np.testing.assert_allclose(step(x, y, lr=0.1 * seed), plain(x, y, lr=0.1 * seed),
                                   rtol=1e-12)
        assert models[1].share == 1 / x.size and step.recorded.objects[2].used == 0.1 * seed
    assert_same_parameters(models)
    assert models[1].calls == 8 and step.recorded.why_not is None
    assert len(step.recorded.recordings) == 2
    np.testing.assert_allclose(models[1].kept[1]["t"], models[0].kept[1]["t"])
    steps = [RecordedStep(lambda o, x: setattr(o, "share", x + 1), models[1:]) for _ in range(2)]
    for step in 6 * steps:
        step(x)
    assert all(len(step.recordings) < 3 for step in steps)      # they write into the same arrays


@pytest.mark.parametrize("target", ["numpy", "auto"])
def test_unusual_operations_are_recorded(target):
    """npdl's layers don't call these functions in these ways."""
    def unusual(y):
        y = np.einsum("ij,kj->ik", y, y)[:, :3] + np.linalg.norm(y, axis=-1, keepdims=True)
        y = np.clip(y, -2, 2) + np.sort(y, -1) + y.std(0) + np.cumsum(y, 1) + np.float32(0.5)
        y = np.concatenate([y, -y])[1:5] + np.stack([y, 2 * y])[1]
        y += np.where(y > 0, y, 0.1 * y)
        y[1:, 0] *= 2
        y[[0, 1]] += y[[1, 0]]
        y[1:] += y[:-1]
        y[:, ::-1][...] = y.copy()
        y.astype(y.dtype)[...] = 7.0                    # writes into a copy
        y[:3, :3] += y[:3, :3].T
        np.add.at(y, (np.array([0, 0]), np.array([1, 1])), 1.0)
        np.maximum(y, -3, out=y)
        np.clip(y, -2.5, 9, out=y)
        np.cumsum(y, 1, out=y)
        np.add.accumulate(y, out=y)
        np.mean(y, 0, out=y[1])
        y[y[:, 0].argmin()] += 1.0
        y[:, y[0].argmax()] *= y[y[:, 1].argmax()].sum()
        y.sort(0)
        y[1].partition(1)
        y.put([0, 1], 0.5)
        y += (y > 0).astype(int).choose([y.argpartition(1), y.mT.conj().T])
        np.concatenate([y[:1], y[:-1]], out=y)
        np.stack([y[1], y[0]], out=y[:2])
        return np.flip(y, 0).ravel().reshape(y.shape).copy() / max(1, len(y)) ** 0.5
    models, plain, step = make_step_pair(lambda: Squares(unusual), loss=SquaredError(),
                                         target=target)
    for seed in range(4):
        x, y = np.random.default_rng(seed).standard_normal((2, 4, 3))
        np.testing.assert_allclose(step(x, y), plain(x, y), rtol=1e-12)
    assert_same_parameters(models)
    assert step.recorded.why_not is None


def test_a_linear_layer_multiplies_each_embedding_once():
    models, plain, step = make_step_pair(lambda: npdl.Sequential(
        npdl.Embedding(3, 4, dtype="float64"), npdl.Linear(4, 5, dtype="float64")),
        npdl.AdamW, CrossEntropy())
    for _ in range(3):
        ids, targets = np.random.default_rng(0).integers(0, 3, (2, 16))
        np.testing.assert_allclose(step(ids, targets), plain(ids, targets), rtol=1e-12)
    assert_same_parameters(models)
    operations = step.recorded.recordings[0].operations
    assert [op.inputs[0].shape for op in operations if op.kind == "matmul"] == [
        (3, 4), (4, 3), (3, 5)]                         # not (16, 4): a row for each of 3 tokens


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize(("make", "target", "most"), [
    (make_gpt, "numpy", (671, 671, 464_000)), (make_lstm, "numpy", (542, 542, 46_976)),
    pytest.param(make_gpt, "c", (671, 104, 165_184), marks=needs_compiler),
    pytest.param(make_lstm, "c", (542, 107, 27_904), marks=needs_compiler)])
def test_a_step_has_no_more_operations_calls_and_memory_than_before(make, target, most):
    """`most` is the numbers of operations and calls, and the bytes of temporary memory. If the
    engine improves, lower them. The last line checks that no guard runs after a write."""
    model = make()
    step = compile_step(model, SequenceLoss(), optim.AdamW(model), max_norm=1.0, target=target)
    step(*make_batch(0, (16, 5)), np.ones((16, 5), bool))
    (recording,) = step.recorded.recordings
    lowered = recording.lowered
    found = len(recording.operations), len(lowered.calls), lowered.nbytes
    assert all(n <= limit for n, limit in zip(found, most, strict=True)), found
    assert not recording._backups


# Interrupts, memory and threads

@pytest.mark.slow
@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a gc callback
@pytest.mark.parametrize("make", [make_gpt, make_lstm])
def test_after_interrupts_every_later_loss_and_gradient_is_right(make):
    """The test sends Ctrl-C at random moments of recordings and replays, and catches it."""
    model = make()
    loss, optimizer = SequenceLoss(), optim.AdamW(model)
    step = compile_step(model, loss, optimizer, target="auto")
    rng, interrupted = np.random.default_rng(0), 0
    step(*make_batch(0), COUNTED)
    main = threading.main_thread().ident
    for i in range(32):
        shape = (3, 5) if i % 4 else (2, 3 + i // 16)       # new shapes are recorded
        given = (*make_batch(i, shape), np.ones(shape, bool))
        timer = threading.Timer(rng.uniform(0, 0.06 if shape != (3, 5) else 0.006),
                                signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            step(*given)
            timer.join()
            time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        twin = model.astype(model.classifier.W.data.dtype)
        wanted = training_step(twin, loss, optim.SGD(twin), (given[0],), given[1:], {}, 0.0, None)
        found = step(*given, lr=0.0)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        for (name, a), (_, b) in zip(twin.params(), model.params(), strict=True):
            np.testing.assert_allclose(b.grad, a.grad, atol=1e-5, err_msg=name)
    assert interrupted > 5 and step.recorded.why_not is None


def test_arena_is_smaller_than_the_temporaries_and_nothing_overlaps():
    model = make_gpt()
    step = compile_step(model, SequenceLoss(), npdl.AdamW(model), target="numpy")
    step(*make_batch(0), COUNTED)
    recording = step.recorded.recordings[0]
    buffers = {id(op.output.buffer): op.output.buffer for op in recording.operations
               if op.output is not None and op.output.buffer.is_temporary}
    assert recording.lowered.nbytes < sum(b.nbytes for b in buffers.values()) / 3


def test_a_recording_keeps_no_temporary_array_but_its_answer():
    _, _, step = make_step_pair(lambda: Squares(lambda y: np.sort(y, -1) + np.cumsum(y, 1)),
                                loss=SquaredError())
    step(*np.random.default_rng(0).standard_normal((2, 4, 3)))
    gc.collect()
    kept = [x for x in gc.get_objects() if type(x) is RecordedArray and x.buffer.is_temporary]
    assert len(kept) == 1 and kept[0].shape == ()


def test_two_threads_compute_the_step_of_one_and_repeat_bitwise():
    def run(threads, max_norm=0.3):
        model = make_gpt(norm="pre", tied=True, dropout=0.3)
        step = compile_step(model, SequenceLoss(), optim.AdamW(model, eps=1e-3),
                            max_norm=max_norm, threads=threads, target="numpy")
        losses, dropout = [], np.random.default_rng(9)
        for i in range(4):
            ids, targets = make_batch(i, (5 if i < 3 else 1, 4))    # later one sequence
            mask = np.random.default_rng(i).random(ids.shape) < 0.8
            losses.append(step(ids, targets, np.ones(ids.shape, bool), lr=0.01, key_mask=mask,
                               rng=dropout))
        return losses, model
    (one, a), (two, b), (again, c) = run(1), run(2), run(2)
    np.testing.assert_allclose(two, one, rtol=1e-12)
    assert_same_parameters((a, b), 1e-11)
    assert two == again and all(np.array_equal(p.data, q.data) for (_, p), (_, q) in zip(
        b.params(), c.params(), strict=True))


@pytest.mark.parametrize("shared", [False, True])
def test_threads_obey_settings_and_arrays_that_change(shared):
    models, plain, step = make_step_pair(lambda: make_gpt(norm="pre"), threads=2,
                                         share_prefixes=shared)
    for seed, change in enumerate([
            lambda model: None, lambda model: setattr(model.decoder.blocks[0].norm1, "eps", 0.5),
            lambda model: setattr(model.classifier, "W", Param(model.classifier.W.data + 1.0))]):
        for model in models:
            change(model)
        given = (*make_batch(seed, (4, 5)), np.arange(20).reshape(4, 5) % 3 > 0)
        for _ in range(2):
            np.testing.assert_allclose(step(*given, lr=0.0), plain(*given, lr=0.0), rtol=1e-12)


@pytest.mark.parametrize("share_prefixes", [False, True])
def test_an_error_in_a_shard_is_the_batchs_and_leaves_the_next_step_right(share_prefixes):
    models, plain, step = make_step_pair(make_gpt, threads=3, share_prefixes=share_prefixes)
    for seed in range(4):
        ids, targets = make_batch(seed)
        if seed == 2:
            with pytest.raises(InputError, match="token ids contain 11; allowed are 0 to 10"):
                step(np.where(np.arange(3)[:, None] == 2, 11, ids), targets, COUNTED)
            with pytest.raises(InputError, match=r"logits \(3, 5, 11\).* loss_mask \(3, 4\) do"):
                step(ids, targets, COUNTED[:, 1:])
        np.testing.assert_allclose(step(ids, targets, COUNTED), plain(ids, targets, COUNTED))
    assert_same_parameters(models, 1e-11 if share_prefixes else 1e-12)


class CountedLinear(npdl.Linear):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def make_noisy():
    model = npdl.Linear(5, 4, dtype="float64")
    model.rng = np.random.default_rng(0)        # all threads would draw from it
    return model


def make_with_id():
    model = npdl.Linear(5, 4, dtype="float64")
    model.special = [id(model.W)]               # the replicas have other Params
    return model


class Noisy(Squares):
    def forward(self, x, rng):
        return x @ self.W.data + self.unusual(rng, x), Cache(x=x)


@pytest.mark.parametrize(("draw", "why"), [
    (lambda rng, x: rng.standard_normal(x.shape), "but not rng.standard_normal"),
    (lambda rng, x: rng.random(x.T.shape).T, r"rng.random\(\(3, 2\)\)")])
def test_random_numbers_that_threads_cannot_share_raise(draw, why):
    model, x = Noisy(draw), np.ones((4, 3))
    step = compile_step(model, SquaredError(), optim.SGD(model), threads=2, target="numpy")
    with pytest.raises((InputError, AttributeError), match=why):
        step(x, x, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="only as rng="):
        step((x, np.random.default_rng(0)), x)


@pytest.mark.parametrize(("model", "loss"), [
    (make_gpt, SequenceLoss(average="token")), (make_gpt, CrossEntropy(ignored=0)),
    (make_gpt, SequenceLoss("sum")), (make_noisy, SquaredError()), (make_with_id, SquaredError()),
    (make_gpt, WeightedCrossEntropy(np.ones(11))),
    (lambda: CountedLinear(5, 4, dtype="float64"), SquaredError()),
    (lambda: Squares(hold_object), SquaredError()),
    (lambda: npdl.Sequential(npdl.Linear(5, 4, dtype="float64"),
                             npdl.BatchNorm(4, dtype="float64")), SquaredError())])
def test_unsplittable_model_or_loss_raises(model, loss):
    model = model()
    with pytest.raises(InputError, match="threads = 2"):
        step = compile_step(model, loss, optim.SGD(model), threads=2, target="numpy")
        step(np.random.default_rng(0).random((4, 5)), np.ones((4, 4)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_profile_counts_each_operation_once_and_changes_nothing(target, monkeypatch):
    """The batch is so large that the NumPy target computes it block by block."""
    monkeypatch.setattr(time, "perf_counter", itertools.count().__next__)   # each call takes 1 s
    model, rng = npdl.MLP([64, 64, 3], rng=1), np.random.default_rng(0)
    step = compile_step(model, CrossEntropy(), npdl.AdamW(model), target=target)
    step(rng.standard_normal((2048, 64), np.float32), rng.integers(0, 3, 2048))
    before = [p.data.copy() for _, p in model.params()]
    lines = profile(step.recorded, repeats=1)
    recording = step.recorded.recordings[0]
    assert sum(line.operations for line in lines) == len(recording.operations)
    assert sum(line.seconds for line in lines) == pytest.approx(len(recording.lowered.calls))
    assert all(map(np.array_equal, before, [p.data for _, p in model.params()]))
    products = 2 * 2048 * 64 * (2 * (64 + 3) + 3)       # y and dW of both layers, dx of the last
    assert products < sum(line.flop for line in lines) < 1.2 * products
    y, dW = (next(line for line in lines if code in line.text)
             for code in ("y = rows @ ", "rows.T @ dy_rows"))
    assert y.flop == 2048 * (2 * 64 + 1) * (64 + 3)     # with the bias
    assert (dW.operations, dW.flop) == (2, 2 * 2048 * 64 * (64 + 3)) and dW.seconds == 2
    assert dW.bytes == 4 * (2048 * (64 + 64 + 64 + 3) + 64 * (64 + 3))
    assert format_report(lines).count("\n") == min(len(lines), 30) + 1 + (len(lines) > 30)


def test_copies_and_guards_have_no_flop():
    def function(x, index):
        return x.copy() + x[index] @ x if x.sum() > 0 else x
    step = RecordedStep(function, (), "numpy")
    step(np.ones((4, 4)), np.array([3, 0, 1, 2]))
    flop = {op.kind: count_flop(op) for op in step.recordings[0].operations}
    assert {name: flop[name] for name in ("copy", "take", "guard", "add", "matmul")} == {
        "copy": 0, "take": 0, "guard": 0, "add": 16, "matmul": 2 * 4**3}


def test_a_report_lists_the_costs_of_lines_and_their_sums():
    lines = [Line(re.__file__, 1, 2, 0.003, 4_000_000, 8_000_000, {0, 3}),
             Line(re.__file__, 2, 3, 0.001, 0, 500_000, {1})]
    assert [" ".join(line.split()) for line in format_report(lines, 1).splitlines()[1:]] == [
        "re/__init__.py:1 2 3.000 75.0% 4.00 8.00 0 +1 #",
        "1 other lines 3 1.000 25.0% 0.00 0.50",
        "all 5 4.000 100.0% 4.00 8.50 in 3 calls"]


def test_steps_in_threads_do_not_disturb_each_other():
    def run(seed):
        model = npdl.MLP([4, 6, 3], rng=seed)
        step = compile_step(model, CrossEntropy(), npdl.AdamW(model), target="numpy")
        rng = np.random.default_rng(seed)
        batches = [(rng.standard_normal((5, 4), "f4"), rng.integers(0, 3, 5)) for _ in range(20)]
        return [step(*given) for given in batches]
    with futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [run(seed) for seed in range(4)]


@pytest.mark.parametrize(("change", "each", "why"), [
    (lambda items: items.pop(), -1, "removes an attribute or an item"),
    (lambda items: items.append(items[0] + 1), 1, "as a list that gets longer")])
def test_a_step_that_changes_the_length_of_a_list_runs_plainly(change, each, why, capsys):
    owner = Squares(lambda y: y)
    owner.items = [np.ones(2) for _ in range(20)]

    def function(owner, x):
        change(owner.items)
        return 2 * x
    step = RecordedStep(function, (owner,), "numpy")
    for i in range(1, 12):
        np.testing.assert_array_equal(step(np.ones(2)), [2, 2])
        assert len(owner.items) == 20 + i * each
        assert all(type(item) is np.ndarray for item in owner.items)
    assert why in capsys.readouterr().err


def count_and_read_a_value(owner, x):
    owner.count += 1
    return x * float(x.sum())


@pytest.mark.parametrize(("function", "last", "why"), [
    (count_and_read_a_value, 11, "a value that changes"),
    (lambda owner, x: owner.items.append(x), 9, "a list that gets longer")])
def test_the_engine_gives_up_after_nine_more_recordings(function, last, why):
    lines, calls = [], itertools.count()
    step = RecordedStep(function, (Cache(items=[], count=0),), "numpy", lines.append)
    while not lines:
        i = next(calls)
        step(np.full(3, float(i)))
    assert i == last and why in lines[0]


def store_random_numbers(owner, x):
    owner.mask = np.random.rand(3)
    owner.mean = owner.mask.sum()


def append_every_third_count(owner, x):
    owner.count += 1
    if owner.count % 3 == 0:
        owner.items.append(owner.count)


@pytest.mark.parametrize("change", [
    lambda owner, x: setattr(owner, "mean", 0.9 * owner.mean + 0.1 * x.mean()),
    lambda owner, x: setattr(owner, "mean", np.reshape(x, 3, copy=False) + 1),
    store_random_numbers, append_every_third_count])
def test_step_that_assigns_attributes_stays_recorded(change):
    """Only the step with NumPy's global generator runs plainly."""
    owners = [Squares(lambda y: y) for _ in range(2)]
    for owner in owners:
        owner.mean, owner.count, owner.items = 0.0, 0, []

    def function(owner, x):
        change(owner, x)
        return 2 * x + owner.mean
    step = RecordedStep(function, (owners[1],), "numpy")
    pairs = []
    for side, call in enumerate((functools.partial(function, owners[0]), step)):
        np.random.seed(3)
        pairs.append([call(np.full(3, i + 0.5)) for i in range(40)])
        assert owners[side].count in (0, 40)
    np.testing.assert_array_equal(*pairs)
    assert owners[0].items == owners[1].items
    assert (step.why_not is None) == (change is not store_random_numbers)
    assert type(owners[0].mean) is type(owners[1].mean)     # np.float64, and not an array


def write_into_ring(owner, x):
    owner.ring[owner.count % 3] = x
    return owner.ring[(owner.count + 1) % 3] + x


@pytest.mark.parametrize(("use", "most"), [
    (lambda owner, x: np.clip(x, -owner.rate, owner.rate), 1), (write_into_ring, 3),
    (lambda owner, x: owner.rng.normal(0, owner.rate, 4) + x, 1),
    (lambda owner, x: x * isinstance(owner.count, int), 1),
    (lambda owner, x: np.roll(x, owner.count % 2), 2),
    (lambda owner, x: np.split(x, [owner.count % 2])[1].sum(), 2),
    (lambda owner, x: np.stack([x, x])[[0, 1], owner.count % 2:] * 1.0, 2),
    (lambda owner, x: x * float(f"{owner.count % 2}") + len(str(x[0] > 0)), 4)])
def test_a_changing_number_is_an_argument_an_index_or_a_text(use, most):
    def function(owner, x):
        owner.count += 1
        owner.rate *= 0.9
        return use(owner, x)
    owners = [Cache(count=0, rate=2.0, ring=np.zeros((3, 4)), rng=np.random.default_rng(0))
              for _ in range(2)]
    step = RecordedStep(function, (owners[1],), "numpy")
    for i in range(12):
        x = np.random.default_rng(i).standard_normal(4)
        np.testing.assert_array_equal(step(x), function(owners[0], x))
    assert step.why_not is None and len(step.recordings) <= most


def test_a_class_attribute_is_a_setting():
    class Annealed(Squares):
        temperature = 1.0

    step = RecordedStep(lambda owner, x: x * owner.temperature, (Annealed(abs),), "numpy")
    for Annealed.temperature in (1.0, 1.0, 0.5, 0.5):
        assert step(np.ones(1)) == Annealed.temperature
    assert len(step.recordings) == 2


@pytest.mark.parametrize("refer", [
    lambda param: {id(param): 2.0}, lambda param: {"special": [id(param)]}, id,
    lambda param: (id(param),), lambda param: frozenset([id(param)]), lambda param: {param: 2.0}])
def test_a_model_with_the_id_of_an_object_runs_plainly(refer):
    owner, lines = Squares(abs), []
    owner.special = refer(owner.W)
    step = RecordedStep(lambda owner, x: 2 * x, (owner,), "numpy", lines.append)
    assert [step(np.ones(1)) for _ in range(3)] == [2, 2, 2] and "use names" in lines[0]


def test_a_default_dict_and_a_partial_function_are_attributes():
    def function(owner, x):
        owner.state["steps"] += 1
        owner.state["mean"] += owner.scale(x.mean())
        return owner.state["mean"] * owner.state["steps"]
    owners = [Cache(state=collections.defaultdict(float),
                    scale=functools.partial(np.multiply, np.full(2, 0.5))) for _ in range(2)]
    step = RecordedStep(function, (owners[1],), "numpy")
    for i in range(5):
        np.testing.assert_array_equal(step(np.full(2, i)), function(owners[0], np.full(2, i)))
    assert owners[1].state.keys() == owners[0].state.keys() and step.recordings

"""Recorded programs of array operations compute the same values as NumPy.

Layers combine operations in only a few ways. Random programs mix elementwise functions, sums over
axes, strided views, writes into parts of arrays, and products, with shapes that can be grouped.
"""

import copy
import functools
import threading
from enum import Enum

import numpy as np
import pytest

from npdl import functions
from npdl.core import Cache
from npdl.engine import RecordedStep, numpy_target
from npdl.engine.operation import Buffer, View
from tests.engine.test_equality import TARGETS, needs_compiler

MAPS = [np.exp, np.tanh, np.negative, np.square, np.abs, np.sign, np.sqrt, np.log]
PAIRS = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.divide]
TESTS = [np.less, np.greater_equal, np.equal]


def shrink_values(x):
    """Return values between -1 and 1, so that no program overflows. NaN stays NaN."""
    return x / (1.0 + np.abs(x))


def run_random_program(seed, state, x, y):
    """Run about 30 operations, which depend only on the seed and on the shapes."""
    rng = np.random.default_rng(seed)
    values = [x, y, state]

    def pick_array(ndim=None):
        fitting = [v for v in values if ndim is None or v.ndim == ndim]
        return fitting[rng.integers(len(fitting))]

    def apply_map():
        f, v = MAPS[rng.integers(len(MAPS))], pick_array()
        return f(np.abs(v) + 0.5) if f in (np.log, np.sqrt) else f(v)

    def combine_pair():
        a = pick_array(3)
        b = [pick_array(3), a[:1], a[:, :1], a[..., :1], a[0], a[0, 0], 0.7, 2][rng.integers(8)]
        b = a if getattr(b, "ndim", 0) == 3 and any(
            n not in (1, m) for n, m in zip(b.shape, a.shape, strict=True)) else b
        f = PAIRS[rng.integers(len(PAIRS))]
        return f(a, (np.abs(b) + 0.5) if f is np.divide else b)

    def reduce_axes():
        a, axis = pick_array(3), [0, 1, 2, (0, 1), (1, 2), None][rng.integers(6)]
        f = [np.sum, np.max, np.mean, np.min][rng.integers(4)]
        return f(a, axis, keepdims=bool(axis is None or rng.integers(2))) + 0.0 * a[:1, :1, :1]

    def apply_where():
        a, b = pick_array(3), pick_array(3)
        return np.where(TESTS[rng.integers(3)](a, 0.1), a, b if a.shape == b.shape else -1.0)

    def take_view():
        a = pick_array(3)
        return [a.swapaxes(0, 1), a[:, ::-1], a[1:], a[..., : a.shape[-1] // 2 + 1],
                a.reshape(-1, 2, a.size // 2 // max(1, a.size // 12)) if a.size % 12 == 0 else a,
                a.transpose(2, 0, 1)][rng.integers(6)]

    def write_part():
        a = pick_array(3).copy()
        part = [a[1:], a[:, :1], a[..., ::2], a.swapaxes(0, 2), a][rng.integers(5)]
        part[...] = [0.5, part[:1] * 2.0, part + 1.0][rng.integers(3)]
        part *= 0.5
        return a

    def multiply():
        a = pick_array(3)
        return a @ [a.swapaxes(1, 2), a[0].T][rng.integers(2)] * 0.1

    def concatenate():
        a = pick_array(3)
        both = np.concatenate([shrink_values(a), np.tanh(a)])
        return [both[:len(a)] + both[len(a):], both[:, :3],
                np.concatenate([a, shrink_values(a), a[:, :1]], 1)][rng.integers(3)]

    def look_up():
        a = pick_array(3)
        index = (a[..., 0] > 0.1).astype(int)
        index -= 2 * rng.integers(2)                # 0 and 1, or -2 and -1
        if min(a.shape[0], a.shape[-1]) < 2:
            return a
        return [lambda: a[index[0]], lambda: a[:, 0][index], lambda: a[index.T[0], :1],
                lambda: functions.sum_by_index(a, index % 3, 3)[None],
                lambda: functions.subtract_one_hot(a, index),
                lambda: np.take_along_axis(a, index[..., None], 2)][rng.integers(6)]()

    def cast():
        a = pick_array(3)
        return [lambda: a.astype(np.float32).astype(a.dtype), lambda: (a > 0) * a,
                lambda: ((a > 0.1) | ~(a < 0.5)) * 0.5, lambda: np.cumsum(a, 1),
                lambda: a.sum(1, keepdims=True, dtype=np.float64) + a][rng.integers(5)]()

    makers = [apply_map, combine_pair, combine_pair, reduce_axes, apply_where, take_view,
              write_part, multiply, concatenate, look_up, cast]
    for _ in range(30):
        made = makers[rng.integers(len(makers))]()
        if 0 < made.size < 4000:
            values.append(shrink_values(made) if rng.integers(3) else made)
    state *= 0.5
    state += shrink_values(values[-1]).sum()
    return tuple(v for v in values[3:])


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", [*TARGETS, "blocks"])
@pytest.mark.parametrize("seed", range(12))
def test_random_program_equals_numpy(seed, target, monkeypatch):
    """With "blocks", the NumPy target splits even these small arrays into blocks of rows."""
    if target == "blocks":
        target = "numpy"
        monkeypatch.setattr(numpy_target, "BLOCK", 5)
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([1, 2, 3, 4, 6], 3))
    dtype = [np.float64, np.float32][seed % 2]
    step = RecordedStep(lambda state, x, y: run_random_program(seed, state[0], x, y),
                        ([np.ones(shape, dtype)],), target)
    plain = np.ones(shape, dtype)
    with np.errstate(all="ignore"):
        for _ in range(3):
            x, y = rng.standard_normal((2, *shape)).astype(dtype)
            for found, wanted in zip(step(x, y), run_random_program(seed, plain, x, y),
                                     strict=True):
                tolerance = 1e-10 if dtype is np.float64 else 1e-3
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(step.objects[0][0], plain, rtol=tolerance, atol=tolerance)
    assert step.why_not is None and len(step.recordings) == 1


def test_a_sum_over_an_axis_of_length_1_is_computed_in_blocks(monkeypatch):
    monkeypatch.setattr(numpy_target, "BLOCK", 5)
    def function(x):
        return (x * 2.0).sum(1) + 1.0
    step, x = RecordedStep(function, (), "numpy"), np.arange(24.0).reshape(6, 1, 4)
    np.testing.assert_array_equal(step(x), function(x))
    assert step.why_not is None and len(step.recordings[0].lowered.calls) > 6


Mode = Enum("Mode", "FAST SLOW")


def make_state():
    """Return an object. Its `h` and `c` are one array, and `items` is a list with an attribute."""
    class Items(list):
        factor = 1.0

        def multiply(self, x):
            return x * self.factor
    both, items, memory = np.zeros((4, 3)), Items([np.ones(3)]), bytearray(48)
    items.factor = 2.0
    return Cache(h=both, c=both, best=np.ones((4, 3)), now=np.zeros((4, 3)), kept=None, count=1,
                 last=None, unit=1, table=np.arange(9.0).reshape(3, 3), square=np.eye(3),
                 mode=Mode.FAST, items=items, multiply=items.multiply, rates={"old": 2.0},
                 seen=np.zeros((4, 3), bool), left=np.frombuffer(memory, count=3),
                 right=np.frombuffer(memory, offset=24))


def run_unusual_step(o, x, index):
    """Use aliases of attributes and of scalars, and operations that layers rarely use."""
    total = first_total = x.sum()
    total += 1.0                                # a NumPy scalar: first_total stays the same
    y = x.copy()
    y[(0, 2), :] = 7.0
    y[range(1, 2)] += 1.0
    y[..., 1] = [1.0, 2.0, 3.0, 4.0]
    y[3] = x[1:2]                               # NumPy drops the first axis
    y[np.True_] *= 2.0
    before, old = o.best.sum(), o.h
    o.now += x
    after = o.best.sum()                        # after two steps, `best` and `now` are one array
    o.best, o.kept, o.h, o.c = o.now, x, np.tanh(x + o.c), o.c * 0.5 + x
    o.seen |= x > 0
    o.count += 1
    o.last = Cache(y=2.0 * x)
    rows, small = o.table[index], index.astype("uint8")
    np.matmul(x[:3], o.square, out=o.square)
    o.left += x[0]                              # `left` and `right` lie side by side
    np.put(y, [0, 5], 2.0)
    y[0].fill((0 * x).sum().item() + (0 * x).tolist()[0][0] + int(0 * index[0]))
    y.astype(y.dtype, copy=False)[2] = 4.0      # writes into y
    floats = (
        rows @ x.T, rows.T @ x[index % 4], x @ x[0], x[0] @ x.T, x**3, 1 / np.abs(-0.0 * np.abs(x)),
        np.divmod(x, 0.5)[1], x * (2.0 if o.mode is Mode.FAST else 3.0), x.astype(">f8") * 2.0,
        x.astype(np.float32, copy=False), x.astype(np.result_type(x, np.float32)),
        o.multiply(x) + o.items[0] + [1, 2, 3], o.left - o.right, np.concatenate([x[:0], x[:0]]),
        np.stack([x[0], [1.0, 2.0, 3.0]]), np.concatenate([x[0], [1.0]]), np.add.reduce(x),
        np.where(x > 0, np.nan, x), np.where(x > 0, x, -np.inf),
        np.take_along_axis(x[0], index % 3, None), np.zeros_like(x, subok=False), np.ones_like(x),
        functions.sum_by_index(x.astype(">f8"), index[:4] % 3, 3))
    integers = (
        index * o.count * sum(o.rates.values()), index * o.unit, np.where(index, index, -1),
        (index[:, None] * np.arange(3)).min(1), (x > 0) ** 2)
    bools = (
        small != -100, small < 300, index < 2**63, index < 2**70, ~(x > 0), np.equal(x > 0, True),
        np.maximum(x > 0, x < 1), np.minimum(x > 0, x < 1))
    return (total, first_total, y, before, after, old, *floats, *integers, *bools, np.ones(2))


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_unusual_step_equals_numpy_and_writes_into_no_array_of_the_caller(target):
    plain, recorded, zeros = make_state(), make_state(), np.zeros((4, 3))
    step, rng = RecordedStep(run_unusual_step, (recorded,), target), np.random.default_rng(0)
    batches = rng.standard_normal((8, 4, 3))
    given = batches.copy()
    with np.errstate(all="ignore"):
        for i, x in enumerate(batches):
            if i == 6:                          # a reset, a count of another type, another key
                plain.h = recorded.h = zeros
                plain.count = recorded.count = 0.5
                plain.unit = recorded.unit = 1.0
                for o in (plain, recorded):
                    o.rates["new"] = o.rates.pop("old") + 1
            index = rng.integers(-3, 3, 7)
            found, wanted = step(x, index), run_unusual_step(plain, x, index)
            names = "h", "c", "now", "square", "seen"
            for a, b in zip([*found, *(vars(recorded)[name] for name in names)],
                            [*wanted, *(vars(plain)[name] for name in names)], strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
            found[-1][...] = 5.0
    np.testing.assert_array_equal(batches, given)
    assert step.why_not is None and step.recordings and not zeros.any()


def invert(o, x, index):
    o.grad[...] = 0
    o.grad += x
    o.W -= o.grad
    o.steps += 1
    x[index] += 1.0
    o.W += np.linalg.inv(x)


@pytest.mark.parametrize("bad", [(np.ones((3, 3)), 0), (np.eye(3), 3)])
def test_an_error_in_a_replay_leaves_what_a_plain_step_leaves(bad):
    """The errors are a singular matrix and an index out of range."""
    sides = [Cache(grad=np.ones((3, 3)), W=np.ones((3, 3)), steps=0) for _ in range(2)]
    step = RecordedStep(invert, (sides[1],), "numpy")
    for i in range(6):
        x, index = (2.0 + i) * np.eye(3), 0
        x, index = bad if i == 3 else (x, index)
        for run in (lambda *args: invert(sides[0], *args), step):
            try:
                run(x.copy(), np.array([index]))
            except (np.linalg.LinAlgError, IndexError):
                assert i == 3
        for name in ("grad", "W", "steps"):
            np.testing.assert_array_equal(*(vars(side)[name] for side in sides))
    assert step.why_not is None


def draw_into_array(o, rng, x):
    noise = np.empty(3)
    rng.random(out=noise)
    return x + noise


def read_shared_memory(o, rng, x):
    doubled = 2 * x[0]
    total = o.windows.sum(1)                    # the sums of a view of o.memory
    o.memory[...] = doubled
    return total


def write_into_row(o, rng, x):
    y = x.copy()
    row = y[y[:, 0].argmin()]
    row += 1.0
    return y


def write_row_elsewhere(o, rng, x):
    y, z, i = x.copy(), np.zeros_like(x), x[:, 0].argmin()
    row = y[i]
    row += 1.0
    z[i] = row
    return y + z


@pytest.mark.parametrize(("function", "why"), [
    (write_into_row, "y = x[i] is a copy"), (write_row_elsewhere, "y = x[i] is a copy"),
    (draw_into_array, "no new array"), (read_shared_memory, "share memory"),
    (lambda o, rng, x: copy.deepcopy(rng).random(3) + rng.random(3), "copied by the module copy"),
    (lambda o, rng, x: x + o.rng.rand(3), "generator of the type RandomState"),
    (lambda o, rng, x: x + (o.lock is None), "has a lock, which can't be copied"),
    (lambda o, rng, x: x + len(o.names), "of dtype object, which can't be copied"),
    (lambda o, rng, x: rng.normal(x), "got an array as an argument"),
    (lambda o, rng, x: x + (rng.bit_generator is None), "attribute bit_generator of a random"),
    (lambda o, rng, x: (x * 1j).imag, "returned the dtype complex128"),
    (lambda o, rng, x: x + len(np.array_repr(x)), "array_repr returned 'array"),
    (lambda o, rng, x: x + rng.spawn(1)[0].random(3), "the attribute spawn"),
    (lambda o, rng, x: {"cache": Cache(x=x), "sum": x.sum()}, "returns a Cache"),
    (lambda o, rng, x: x.sum(0), "a MaskedArray")])
def test_a_step_that_a_replay_cannot_repeat_runs_plainly(function, why):
    sides, lines = [], []
    for _ in range(2):
        memory = np.zeros(3)
        windows = np.lib.stride_tricks.sliding_window_view(memory, 2)
        attributes = {"memory": memory, "windows": windows, "rng": np.random.RandomState(0),
                      "lock": threading.Lock(), "names": np.array([None])}
        sides.append(Cache(**{name: attributes[name] for name in function.__code__.co_names
                              if name in attributes}))
    step = RecordedStep(function, (sides[1],), "numpy", lines.append)
    for i in range(4):
        x = np.arange(6.0).reshape(2, 3) + i
        x = np.ma.masked_equal(x, 3) if why == "a MaskedArray" and i else x
        found, wanted = step(np.random.default_rng(i), x), function(
            sides[0], np.random.default_rng(i), x)
        if isinstance(wanted, dict):
            found, wanted = found["cache"].x, wanted["cache"].x
            assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, wanted)
    assert why in lines[0]


@needs_compiler
@pytest.mark.usefixtures("unoptimized_compiler")
def test_in_c_a_sum_over_many_rows_is_as_exact_as_in_float64():
    step = RecordedStep(lambda x: x.sum(0), (), "c")
    for seed in range(3):
        x = 1000 + np.random.default_rng(seed).standard_normal((5000, 3), np.float32)
        wanted = x.sum(0, dtype=np.float64).astype(np.float32)
        found = step(x)                         # the first call runs plainly: NumPy sums in float32
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if seed else 1e-3)


@needs_compiler
@pytest.mark.usefixtures("unoptimized_compiler")
def test_in_c_a_number_that_is_rounded_differently_is_the_reason_for_plain_steps():
    lines = []
    step = RecordedStep(lambda x: x / float((np.exp(x)**2).sum()), (), "c", lines.append)
    x = np.random.default_rng(0).standard_normal((400, 30))
    for _ in range(12):
        np.testing.assert_array_equal(step(x), x / (np.exp(x)**2).sum())
    assert "in float(x)" in lines[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", [
    lambda x, i: np.split(x, i)[1].sum(), lambda x, i: np.swapaxes(x, i[0] % 2, 1)[0].copy(),
    lambda x, i: np.trim_zeros(x[0] * (x[0] > i[0]))[:1] * 2.0,
    lambda x, i: np.abs(np.linalg.eigvals((1.5 - i[:, None]) * np.eye(2)[::-1]))])
def test_a_view_or_a_complex_result_that_depends_on_entries(function):
    step, x = RecordedStep(function, (), "numpy", [].append), np.arange(9.0).reshape(3, 3)
    for index in ([2, 3], [2, 3], [1, 2], [2, 3], [9, 9]):
        np.testing.assert_array_equal(step(x, np.array(index)), function(x, np.array(index)))


def assign_partial(o, x):
    y = o.scale(x)
    o.scale = functools.partial(np.multiply, x.sum())
    return y


def add_to_scalar(o, x):
    old = o.mean
    o.mean += x.mean()
    return old * x


def write_into_part(o, x):
    y = x[x.sum() > -99]                        # a copy in NumPy, too
    y += 1.0
    return y


@pytest.mark.parametrize(("function", "recordings"), [
    (assign_partial, 0), (add_to_scalar, 1), (write_into_part, 1),
    (lambda o, x: x * o.tables[o.shape], 1),
    (lambda o, x: x * len(str(np.float32(0.1) * x[0, 0].astype("f4"))), 5),
    (lambda o, x: x[np.ix_(x[0].argsort(), x[1].argsort())] * 2.0, 1)])
def test_steps_that_change_or_read_objects_equal_plain_steps(function, recordings):
    shape = (2, 3)
    sides = [Cache(scale=np.negative, mean=np.float64(0), shape=shape, tables={shape: 2.0})
             for _ in range(2)]
    step = RecordedStep(function, (sides[1],), "numpy")
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal((3, 3))
        np.testing.assert_allclose(step(x), function(sides[0], x), rtol=1e-12)
    assert step.why_not is None and len(step.recordings) == recordings


def sum_rows_by_index(x, index):
    return functions.sum_by_index(x, index, 3)


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize(("look_up", "target"), [
    (lambda x, index: x[index], "numpy"), (functions.subtract_one_hot, "numpy"),
    (lambda x, index: functions.subtract_one_hot(x[:, :2], index), "numpy"),
    (lambda x, index: np.take_along_axis(x, index[:, None], 1), "numpy"),
    (sum_rows_by_index, "numpy"), pytest.param(sum_rows_by_index, "c", marks=needs_compiler)])
def test_a_replayed_look_up_checks_its_indices(look_up, target):
    step, x = RecordedStep(look_up, (), target), np.arange(9.0).reshape(3, 3)
    for index in ([1, 0, 1], [0, 1, 2], [2, 2, 0], [0, 3, 1], [0, -4, 1], [-1, -3, 2], [-1, -2, 1],
                  [1, 1, 1]):
        index = np.array(index)
        try:
            wanted = look_up(x, index)
        except IndexError:
            with pytest.raises(IndexError):
                step(x, index)
        else:
            np.testing.assert_array_equal(step(x, index), wanted)
    assert step.why_not is None and len(step.recordings) < 3


def make_recording(function, *arrays, target="numpy"):
    step = RecordedStep(function, (), target)
    step(*arrays)
    return step.recordings[0]


def test_a_stack_of_matrices_times_a_matrix_is_one_product():
    recording = make_recording(np.matmul, np.ones((2, 3, 4)), np.ones((4, 5)))
    assert [op.output.shape for op in recording.operations] == [(6, 5)]


@pytest.mark.parametrize("seed", range(30))
def test_a_view_knows_its_bytes(seed):
    rng = np.random.default_rng(seed)
    base = np.zeros((4, 3, 5))
    x = base[tuple(slice(None, None, rng.choice([-2, -1, 1, 1, 2])) if rng.integers(3)
                   else slice(1, 3) for _ in range(3))].transpose(rng.permutation(3))
    x = x[0] if rng.integers(2) else x
    buffer = Buffer.from_array(base, "state")
    view, (low, high) = View.from_array(x, buffer), np.lib.array_utils.byte_bounds(x)
    assert view.byte_range == (low - buffer.address, high - buffer.address)
    assert view.is_contiguous == x.flags.c_contiguous and view.size == x.size
    assert view.covers_buffer == (x.size == base.size and x.flags.c_contiguous)
    np.testing.assert_array_equal(view.as_array(), x)


def test_a_softmax_and_its_backward_are_one_group_without_memory_for_the_rows_between():
    def step(x, dy):
        y = functions.softmax(x)
        return functions.softmax_backward(dy, y)
    recording = make_recording(step, *np.ones((2, 4000, 50)))
    assert len(recording.operations) > 10 and len(recording.lowered.groups) == 1
    assert recording.lowered.nbytes == 4000 * 50 * 8      # only the result needs memory


@pytest.mark.parametrize("start", [0, 1])
def test_first_gradient_is_assigned_not_added(start):
    def function(grad, x, dy):
        grad[...] = start
        grad += x.T @ dy
        return grad * 1.0
    given = np.ones((3, 4, 4))
    kinds = [op.kind for op in make_recording(function, *given).operations]
    assert kinds == ["matmul", "multiply"] if start == 0 else "copy" in kinds
    step = RecordedStep(function, (), "numpy")
    for _ in range(2):
        np.testing.assert_array_equal(step(*given), np.full((4, 4), 4.0 + start))


def add_to_some_rows(grad, state, x):
    grad[:2] += x[:2] @ x


def add_returned_product(grad, state, x):
    product = x @ x
    grad += product
    return product


def add_state(grad, state, x):
    state[...] = 2 * x
    grad += state


def add_to_the_transpose(grad, state, x):
    grad = grad.T
    grad += x @ x


def add_after_reading_zeros(grad, state, x):
    state[...] = 0
    zeros = state + grad
    grad += x @ x
    return zeros


def add_narrow_product(grad, state, x):
    narrow = x.astype(np.float32)
    grad += narrow @ narrow


@pytest.mark.parametrize("add", [
    add_narrow_product, add_after_reading_zeros, add_to_some_rows, add_returned_product, add_state,
    add_to_the_transpose])
def test_partial_or_shared_first_gradient_is_added(add):
    def function(grad, state, x):
        grad[...] = 0
        return add(grad, state, x)
    sides = [[np.ones((3, 3)) for _ in range(2)] for _ in range(2)]
    step = RecordedStep(function, sides[0], "numpy")
    for i in range(3):
        x = i + np.arange(9.0).reshape(3, 3)
        for found, wanted in zip([step(x), *sides[0]], [function(*sides[1], x), *sides[1]],
                                 strict=True):
            np.testing.assert_array_equal(found, wanted)
        for side in sides:
            side[0] += 1
    assert step.why_not is None


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_reversed_rows_are_not_one_group(target, monkeypatch):
    """Row i of a reversed array is another row of the array, so the two have no common loop."""
    monkeypatch.setattr(numpy_target, "BLOCK", 5)

    def function(x):
        a = np.exp(x)
        b = a[::-1] + a
        total = np.exp(x * 0.5).sum(0)
        return b, a[1:] + a[:-1], a.swapaxes(0, 1) - a, np.exp(b[::2]), total
    step, x = RecordedStep(function, (), target), np.random.default_rng(0).standard_normal((6, 6))
    for factor in (1.0, 2.0):
        for found, wanted in zip(step(x * factor), function(x * factor), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [2, 6])
def test_parts_of_an_array_with_equal_row_counts_stay_apart(n, target, monkeypatch):
    """Row i of `both[:n]` and row i of `both[n:]` are in one group, but they are not one row."""
    monkeypatch.setattr(numpy_target, "BLOCK", 5)

    def function(a, b):
        both = np.concatenate([a, b])
        y = both[:n] + 1.0
        total, both_exp = y.sum(-1, keepdims=True), np.concatenate([np.exp(a), np.exp(b)])
        exp_total = both_exp[:n].sum(-1, keepdims=True)
        return y / total, (both[n:] - total) * 2.0, both_exp[:n] / exp_total, both_exp[n:] - total
    step, given = RecordedStep(function, (), target), np.random.default_rng(0).random((2, n, 3))
    for _ in range(2):
        for found, wanted in zip(step(*given), function(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_guard_moves_first_with_movable_operations():
    """The guard needs `t` after the addition in place, but `z` reads the old `t`. The second guard
    needs `u`, which is partly overwritten, and which depends on an operation that can't move."""
    def function(total, x):
        total += 1.0
        t = x * 2.0
        z = t + 1.0
        t += 1.0
        u = total * 1.0
        u[:2] = 3.0 * x[:2]
        return (z if t.sum() > 0 else -z), (z if u.sum() > 0 else -z)
    plain, recorded = np.zeros(3), np.zeros(3)
    step = RecordedStep(function, (recorded,), "numpy")
    for x in (np.ones(3), 3 * np.ones(3), np.array([-1.0, -1.0, 4.0]), -np.ones(3)):
        np.testing.assert_array_equal(step(x), function(plain, x))
    assert len(step.recordings) == 3


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_near_matches_of_patterns_stay_correct(target):
    """Zeros to which no gradient is added; equal products of which one is changed; tables and
    indices with unusual strides; a function `where` with one argument."""
    def function(x, index, narrow, table):
        a, b, c = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        a += 1.0
        b += b[::-1]
        c += x[:1]
        twice = x * 2.0
        twice += 1.0
        entries = np.take(table.T, np.tile(index[:, None], 3)) @ x
        row, column = np.where(x == x.max())
        return a, b, c, twice - x * 2.0, entries, row - column, *(
            table.T[i] @ x for i in (index, index[::2], narrow))
    rng = np.random.default_rng(0)
    step, index = RecordedStep(function, (), target), rng.integers(0, 2, 9)
    for _ in range(3):
        given = (rng.standard_normal((3, 3)), index, index.astype("int32"),
                 rng.standard_normal((3, 2)))
        for found, wanted in zip(step(*given), function(*given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert step.why_not is None


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_two_dtypes_reads_a_plain_array_in_each_replay(target):
    table = np.ones((4, 2), np.float32)
    step = RecordedStep(lambda x: x @ table, (), target)
    for table[...] in (1.0, 2.0):
        np.testing.assert_array_equal(step(np.ones((3, 4))), np.ones((3, 4)) @ table)
    assert step.why_not is None


@pytest.mark.usefixtures("unoptimized_compiler")
@pytest.mark.parametrize("target", TARGETS)
def test_a_float_argument_is_float32_beside_float32(target):
    x = np.random.default_rng(0).random(99, np.float32)
    step = RecordedStep(lambda x, t: (x * t, x + t), (), target)
    for t in (0.1, 0.3):
        np.testing.assert_array_equal(step(x, t), (x * t, x + t))

"""What small cases leave out on a GPU: large scores, ids and indices, square sums, batches that are
cut, padding, and how much memory a step takes."""

import dataclasses

import numpy as np
import pytest

from npdl import backend
from npdl.backend import to_device, to_host, xp
from npdl.core import Param
from npdl.functions import log_softmax
from npdl.layers.layer_norm import LayerNorm
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl_train.fast import cuda_ends, kernels, memory
from npdl_train.fast.memory import Arena
from npdl_train.fast.prefix import Rows
from npdl_train.runs.config import Config
from npdl_train.runs.engine import Batch
from npdl_train.runs.loop import Trainer
from tests.fast.cases import (
    assert_close,
    assert_equal_on_a_device,
    assert_moments_overflow_to_nan,
    build,
    drawn,
)
from tests.tools import broken_kernels, cupy_on_cpu
from tests.tools.device import needs_cupy

pytestmark = needs_cupy
emulated = pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card counts nothing")
PEAK = {"gpt": 55e6, "lstm": 44e6}                  # bytes of document 004's step
ALLOCATIONS = {"gpt": 7, "lstm": 7}                 # from CuPy's pool


def peak_memory(pool):
    """Return a context that counts the bytes in use in CuPy's pool; `most` is the maximum."""

    class Peak(xp.cuda.MemoryHook):
        name = "Peak"
        now = most = pool.used_bytes()

        def malloc_postprocess(self, **facts):
            self.now += facts["mem_size"]
            self.most = max(self.most, self.now)

        def free_postprocess(self, **facts):
            self.now -= facts["mem_size"]

    return Peak()


def test_scores_above_88():
    broken_kernels.large_scores()


def test_positions_that_are_too_many_for_one_kernel():
    broken_kernels.many_positions()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 32), (130, 33), (70, 300)])
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_layer_norms_of_any_width(gpu, dtype, shape, eps):
    """A warp's 32 lanes, a block's rows and a column's chunks, each with a rest and without."""
    rng, m = np.random.default_rng(1), Arena(dtype)
    with backend.using("numpy"):
        layer = LayerNorm(shape[1], eps=eps, dtype=dtype)
        for param in (layer.gain, layer.bias):
            param.data[...] = rng.standard_normal(shape[1])
        x, plus, dy = rng.standard_normal((3, *shape)).astype(dtype)
        y, cache = layer.forward(x + plus)
        dx = layer.backward(dy, cache)
    there = layer.to_backend()
    there.zero_grad()
    found, kept = kernels.layer_norm(there, to_device(x), m, to_device(plus))
    d = kernels.layer_norm_backward(there, to_device(dy), kept, m)
    limit = {"float32": 1e-5, "float64": 1e-13}[dtype]
    for a, b in ((found, y), (d, dx), (there.gain.grad, layer.gain.grad),
                 (there.bias.grad, layer.bias.grad)):
        assert_close(to_host(a), b, "norm", limit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("E", "V"), [(1, 1), (3, 33), (9, 300)])
@pytest.mark.parametrize("size", [1, 1e4])
def test_losses_of_any_width_and_size(gpu, dtype, E, V, size):
    rng = np.random.default_rng(5)
    x, targets = (size * rng.standard_normal((E, V))).astype(dtype), rng.integers(0, V, E)
    each, total = xp.empty(E, dtype), xp.empty((), dtype)
    weight, logits = rng.random(E).astype(dtype), to_device(x)
    cuda_ends.loss(logits, to_device(targets.astype("i4")), to_device(weight), 0.5, each, total)
    with backend.using("numpy"):
        log_p = log_softmax(x.astype("f8"))
    wanted = -log_p[np.arange(E), targets] * weight * 0.5
    d = (np.exp(log_p) - np.eye(V)[targets]) * weight[:, None] * 0.5
    limit = {"float32": 2e-6, "float64": 1e-14}[dtype]
    for a, b in ((each, wanted), (total, wanted.sum()), (logits, d)):
        assert_close(to_host(a), b, "loss", limit)
    x[0, 0] = np.nan
    logits = to_device(x)
    cuda_ends.loss(logits, to_device(targets), to_device(weight), 0.5, each, total)
    assert np.isnan(to_host(logits)[0]).all() and np.isnan(to_host(total))
    assert np.isfinite(to_host(logits)[1:]).all()


@pytest.mark.parametrize("n", [1, 255, 40000])
def test_clipping_any_number_of_gradients(gpu, n):
    x = np.random.default_rng(6).standard_normal(n)
    norm = np.sqrt((x * x).sum())
    for limit in (norm / 2, norm * 2):
        g = to_device(x)
        found = cuda_ends.clip(g, xp.full(1, limit))
        np.testing.assert_allclose(float(found), norm, rtol=1e-13)
        np.testing.assert_allclose(to_host(g), x * min(1, limit / (norm + 1e-6)), rtol=1e-13)
    g = xp.full(n, 1e20, "f")
    assert float(cuda_ends.clip(g, xp.full(1, 1.0, "f"))) == np.inf
    assert np.isnan(to_host(g)).all()           # an infinite norm makes no gradient 0


def test_a_gradient_whose_square_overflows_makes_no_update_zero(gpu):
    assert_moments_overflow_to_nan()


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1"])
def test_tokens_of_any_integers_and_tables_of_any_layout(gpu, dtype):
    rng = np.random.default_rng(7)
    W, P = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    tokens, places = rng.integers(0, 5, 9), rng.integers(0, 4, 9)
    x = xp.empty((9, 3))
    cuda_ends.look_up(to_device(np.asfortranarray(W)), to_device(tokens.astype(dtype)),
                      to_device(P), to_device(places), x)
    np.testing.assert_array_equal(to_host(x), W[tokens] + P[places])


@pytest.mark.parametrize("kind", [GPT, LSTMLM])
@pytest.mark.parametrize("dropout", [False, True])
def test_a_batch_that_is_cut(kind, dropout):
    """Each part has the masks of its own sequences."""
    batch = dataclasses.replace(drawn("few shared", "ragged"), chunk=2)
    assert_equal_on_a_device(lambda: build(kind, dropout=0.4), batch, dropout=dropout, atol=1e-10)


@pytest.mark.parametrize("kind", [GPT, LSTMLM])
def test_ids_above_127_and_indices_above_32767(kind):
    V, shape, rng = 300, (30, 4), np.random.default_rng(2)
    ids, targets = rng.integers(128, V, shape), rng.integers(128, V, shape)
    assert ids.size * V > 32767
    batch = Batch(ids, targets, np.ones(shape, bool))
    assert_equal_on_a_device(lambda: build(kind, vocab_size=V), batch, atol=1e-10)


def test_a_column_sum_where_there_are_as_many_rows_as_columns(gpu):
    x = np.random.default_rng(3).standard_normal((6, 6))
    b, m = Param(xp.zeros(6)), Arena("float64")
    for times in (1, 2):                            # written, then added
        kernels.add_sum(b, to_device(x), m)
        np.testing.assert_allclose(to_host(b.grad), times * x.sum(0), atol=1e-14)
    np.testing.assert_allclose(to_host(kernels.column_sums(to_device(x))), x.sum(0), atol=1e-14)


@pytest.mark.parametrize("limit", [1, 1024])
def test_a_padding_row_gets_no_gradient(gpu, monkeypatch, limit):
    monkeypatch.setattr(kernels, "SMALL_TABLE", limit)
    rng = np.random.default_rng(4)
    ids, d = np.array([[0, 1, 0], [2, 0, 1]]), rng.standard_normal((6, 5))
    rows, W, m = Rows(ids, share=False, words=False), Param(xp.zeros((3, 5))), Arena("float64")
    kernels.add_to_table(W, to_device(d), rows, "tokens", m, padding_id=0)
    wanted = np.zeros((3, 5))
    np.add.at(wanted, rows.tokens, d)
    assert wanted[0].any()
    wanted[0] = 0
    np.testing.assert_allclose(to_host(W.grad), wanted, atol=1e-14)


def step_of(model):
    """A step of document 004's model, without a graph, whose kernels do nothing: the most bytes of
    its Arena, and the allocations from CuPy's pools."""
    trainer = Trainer(Config(model=model, engine="eager"))
    with trainer.engine:
        trainer.update()                # its constants are kept for the next step
        with cupy_on_cpu.empty_kernels(), Counted() as count:
            trainer.update()
    arena = trainer.engine.workers.workers[0].arena
    chunk, end = max(place for _, place in arena.known.values())
    return sum(each.nbytes for each in arena.chunks[:chunk]) + 4 * end, count.number


class Counted:
    """Counts what is allocated from any pool of CuPy's."""

    def __enter__(self):
        outer = self
        outer.number = 0

        class Hook(xp.cuda.MemoryHook):
            name = "Counted"

            def malloc_postprocess(self, **facts):
                outer.number += 1

        self.hook = Hook()
        self.hook.__enter__()
        return self

    def __exit__(self, *error):
        self.hook.__exit__(*error)


@emulated
@pytest.mark.parametrize("mistake", [None, "scratch"])
@pytest.mark.parametrize("model", PEAK)
def test_memorys_peak(gpu, monkeypatch, model, mistake):
    if mistake:
        monkeypatch.setattr(memory._Scratch, "__exit__", lambda self, *error: None)
    most, _ = step_of(model)
    assert (most <= PEAK[model]) == (mistake is None)


@emulated
@pytest.mark.parametrize("model", PEAK)
def test_a_step_takes_little_from_the_pool(gpu, model):
    _, count = step_of(model)
    assert count <= ALLOCATIONS[model]


@emulated
@pytest.mark.parametrize("model", PEAK)
def test_a_replayed_step_takes_nothing_at_all(gpu, model):
    trainer = Trainer(Config(model=model, p=7, width=16))
    with trainer.engine:
        for _ in range(3):
            trainer.update()
        with Counted() as count:
            trainer.update()
    assert count.number == 0


def test_the_peak_is_followed(gpu):
    with peak_memory(xp.get_default_memory_pool()) as peak:
        before = peak.most
        x = xp.ones(1000, "f")
        del x
    assert peak.most >= before + 4000


@pytest.mark.slow
def test_every_result_of_every_kernel_matters():
    """1 % too large, each is seen, but for those that nobody reads afterwards."""
    unseen = {(name, what) for name, what, seen in broken_kernels.rows() if seen is None}
    assert unseen == broken_kernels.HARMLESS.keys()

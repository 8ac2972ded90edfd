"""npdl_train.fast.graph.GraphEngine: what a user may do with it, and what it can't capture."""

import numpy as np
import pytest

from npdl.backend import to_host, xp
from npdl.cublas import Handle
from npdl.errors import BackendError, InputError
from npdl.models.gpt import GPT
from npdl.optim import AdamW
from npdl_train.fast import graph
from npdl_train.fast.graph import GraphEngine
from npdl_train.runs.engine import Batch, PlainEngine
from tests.fast.cases import build, make_on_host
from tests.tools.device import needs_cupy

pytestmark = needs_cupy


def gpt_engine(**options):
    model = make_on_host(lambda: build(GPT)).to_backend()
    return GraphEngine(model, AdamW(model, 0.05), **options)


def batch_of(size, seed=0):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 7, (size, 3))
    return Batch(ids, rng.integers(0, 7, ids.shape), np.ones(ids.shape, bool))


def test_graphs_are_bounded(gpu, monkeypatch):
    monkeypatch.setattr(graph, "KEPT", 3)
    with gpt_engine() as engine, gpt_engine(captures=False) as other:
        for size in (1, 2, 3, 1, 4, 1, 2, 2, 2, 5, 1):
            for each in (engine, other):
                each.step(batch_of(size))
                each.update()
            assert len(engine.works) <= 3
        np.testing.assert_array_equal(to_host(engine.flat.data), to_host(other.flat.data))


def test_settings_that_change_are_obeyed(gpu):
    def trained(**options):
        with gpt_engine(**options) as engine:
            for step in range(8):
                if step == 4:
                    engine.flat.optimizer.weight_decay = 0.5
                    engine.flat.optimizer.betas = (0.5, 0.9)
                engine.step(batch_of(4))
                engine.update(0.01 * (step + 1))
            return [to_host(param.data) for _, param in engine.model.params()]

    for found, wanted in zip(trained(), trained(captures=False), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("captures", [True, False])
def test_a_table_of_positions_that_is_changed_in_place_is_obeyed(gpu, captures):
    def losses(make, optimizer=AdamW):
        model = make_on_host(lambda: build(GPT)).to_backend()
        found = []
        with make(model, optimizer(model, 0.05)) as engine:
            for step in range(6):
                if step == 4:
                    model.positions.table *= -0.5
                loss = engine.step(batch_of(4))
                engine.update()
                found.append(float(loss))
        return found

    found = losses(lambda *given: GraphEngine(*given, captures=captures))
    np.testing.assert_allclose(found, losses(PlainEngine), rtol=1e-10)


def test_a_batch_that_was_changed_in_place_is_looked_at_again(gpu):
    def trained(**options):
        batch = batch_of(4)
        with gpt_engine(**options) as engine:
            for step in range(6):
                batch.inputs[0, 1] = step
                batch.targets[1, 0] = step
                loss = engine.step(batch)
                engine.update()
            return float(loss) if engine.inside else None, engine.flat.data.get()

    np.testing.assert_array_equal(trained()[1], trained(captures=False)[1])
    with gpt_engine() as engine:
        batch = batch_of(4)
        engine.step(batch)
        engine.update()
        for what, array in (("token ids", batch.inputs), ("targets", batch.targets)):
            before, array[0, 0] = array[0, 0], 7
            for wrong in (batch, Batch(batch.inputs, batch.targets, batch.counted)):
                engine.step(wrong)
                with pytest.raises(InputError, match=f"^{what} contain 7; allowed are 0 to 6$"):
                    engine.update()
            array[0, 0] = before
        assert engine.flat.optimizer.steps == 1


def test_a_loss_is_read_between_its_update_and_the_next_step(gpu):
    with gpt_engine() as engine:
        for _ in range(4):
            loss = engine.step(batch_of(4))
            with pytest.raises(InputError, match="from its update until the next step"):
                float(loss)
            norm = engine.clip(0.1)
            engine.update()
            assert float(loss) > 0 and float(norm) > 0
        engine.step(batch_of(4))
        with pytest.raises(InputError, match="from its update until the next step"):
            float(loss)


def test_outside_with_it_is_the_fast_engine(gpu):
    engine, other = gpt_engine(), gpt_engine()
    loss, norm = engine.step(batch_of(4)), engine.clip(0.1)
    engine.update()
    with other:
        later, its = other.step(batch_of(4)), other.clip(0.1)
        other.update()
        assert abs(float(later) - float(loss)) < 1e-12 and abs(float(its) - float(norm)) < 1e-12
    for (_, a), (_, b) in zip(engine.model.params(), other.model.params(), strict=True):
        np.testing.assert_allclose(to_host(a.data), to_host(b.data), atol=1e-12)


def no_capture(stream):
    """As CuPy's builds for ROCm."""
    raise RuntimeError("not supported")


def failing_while_captured(function, error):
    def call(*given, **named):
        if xp.cuda.get_current_stream().is_capturing():
            raise error
        return function(*given, **named)

    return call


@pytest.mark.parametrize("why", ["lora", "not supported", "status 13 of cuBLAS", "is full"])
def test_what_cannot_be_captured_goes_on_eagerly_and_says_so_in_one_line(gpu, monkeypatch, capsys,
                                                                         why):
    """An adapter is the textbook's, whose products are CuPy's own."""
    if why == "not supported":
        monkeypatch.setattr(xp.cuda.Stream, "begin_capture", no_capture)
    if why == "status 13 of cuBLAS":
        monkeypatch.setattr(Handle, "ask", failing_while_captured(Handle.ask, BackendError(why)))
    if why == "is full":
        monkeypatch.setattr(graph, "loss_of", failing_while_captured(graph.loss_of,
                                                                     MemoryError(why)))

    def trained(captures):
        adapters = {"adapters": "lora"} if why == "lora" else {}
        model = make_on_host(lambda: build(GPT, **adapters)).to_backend()
        with GraphEngine(model, AdamW(model, 0.05), captures=captures) as engine:
            for _ in range(5):
                engine.step(batch_of(4))
                engine.update()
        return engine, [to_host(param.data) for _, param in model.params()]

    engine, found = trained(True)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "no CUDA graph (" in line and line.endswith("going on with --engine eager")
    assert why == "lora" or why in line
    assert not engine.captures
    _, wanted = trained(False)
    assert capsys.readouterr().err == ""
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)

"""npdl_train.fast.graph: a step as one CUDA graph is the eager step, bit for bit; what makes it one
that is wrong is seen."""

import itertools

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_host, xp
from npdl.cublas import Handle
from npdl.errors import BackendError, InputError
from npdl.models.gpt import GPT
from npdl.optim import AdamW
from npdl_train.fast import graph, kernels, loss, static
from npdl_train.fast.graph import GraphEngine
from npdl_train.fast.prefix import Rows
from npdl_train.fast.static import Masks
from npdl_train.runs.config import Config
from npdl_train.runs.engine import Batch, PlainEngine, make_engine
from npdl_train.runs.loop import Trainer
from tests.fast.cases import build, make_on_host
from tests.tools import cupy_on_cpu
from tests.tools.device import needs_cupy
from tests.tools.device_helpers import assert_same_records
from tests.tools.trained import assert_same_bytes

pytestmark = needs_cupy
emulated = pytest.mark.skipif(not cupy_on_cpu.installed(), reason="a card counts nothing")
SMALL = {"p": 7, "width": 16, "heads": 2}
CASES = {
    "gpt": {**SMALL, "clip": 1.0},
    "dropout": {**SMALL, "batch": 10, "dropout": 0.2, "schedule": "cosine", "warmup": 3},
    "adam, float64": {**SMALL, "dtype": "float64", "optimizer": "adam", "norm": "pre"},
    "lstm, dropout": {"model": "lstm", "p": 7, "width": 16, "layers": 2, "batch": 10,
                      "dropout": 0.2},
    "lstm, sgd": {"model": "lstm", "p": 7, "width": 16, "optimizer": "sgd", "momentum": 0.9},
}
TEXT = {"block": 12, "width": 16, "heads": 2, "layers": 2, "tied": True, "positions": "learned",
        "norm": "pre", "bias": False, "decay": "matrices", "clip": 1.0, "eval_batches": 3,
        "batch": 5}


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield


@pytest.fixture
def text(tmp_path):
    letters = stream(3).integers(0, 20, 1500)
    path = tmp_path / "text.txt"
    path.write_text("".join(chr(97 + letter) for letter in letters))
    return {**TEXT, "text": str(path)}


def run(settings, engine, steps=8, between=lambda: None):
    """(records, state, trainer) of a small run, evaluated at every second step."""
    trainer = Trainer(Config(**{"steps": steps, "engine": engine, **settings}))
    trainer.task.prepare()
    records = []
    with trainer.engine:
        for step in range(steps):
            trainer.update()
            between()
            if step % 2:
                records.append(trainer.evaluate())
    return records, trainer.state()[0], trainer


def assert_equal_engines(settings, **options):
    """A graph and the same kernels one by one: every record and every number of the state."""
    wanted, state, _ = run(settings, "eager")
    found, arrays, trainer = run(settings, "fast", **options)
    assert found == wanted
    assert_same_bytes(arrays, state)
    return trainer.engine


@pytest.mark.parametrize("case", CASES)
def test_a_graph_is_the_eager_step_bit_for_bit(gpu, case):
    engine = assert_equal_engines(CASES[case])
    assert engine.captures and all(work.graph is not None for work in engine.works.values())


def test_a_text_is_a_new_batch_each_time(gpu, text):
    engine = assert_equal_engines(text)
    assert len(engine.works) == 2 and engine.captures


@pytest.mark.parametrize("case", ["dropout", "lstm, sgd"])
def test_it_is_numpys_training(case):
    with backend.using("cupy"):
        found, _, _ = run(CASES[case], "fast")
    wanted, _, _ = run(CASES[case], "fast")
    assert_same_records(found, wanted)


@emulated
@pytest.mark.parametrize("case", CASES)
def test_the_host_asks_for_one_copy_and_one_launch(gpu, case):
    _, _, trainer = run(CASES[case], "fast", 4)
    with trainer.engine, cupy_on_cpu.record() as events:
        trainer.update()
    asked = [event.kind for event in events if event.kind != "node"]
    assert asked == ["copy", "graph"]
    assert not [event for event in events.of_kind("node") if "workspace" in event.name
                or "host" in event.name]


@emulated
def test_eager_means_eager(gpu):
    _, _, trainer = run(CASES["gpt"], "eager", 4)
    with trainer.engine, cupy_on_cpu.record() as events:
        trainer.update()
    assert not events.of_kind("graph") and len(events.of_kind("launch")) > 20


@emulated
@pytest.mark.parametrize("case", ["gpt", "lstm, sgd"])
def test_an_evaluation_waits_once_for_each_set(gpu, case):
    _, _, trainer = run(CASES[case], "fast", 4)
    with trainer.engine, cupy_on_cpu.record() as events:
        trainer.task.measure(trainer.engine)
    assert len(events.of_kind("graph")) == 2 == len(events.of_kind("synchronisation"))
    with trainer.engine, cupy_on_cpu.record() as events:
        trainer.evaluate()                      # and for the norm, finite where everything is
    assert len(events.of_kind("synchronisation")) == 3 and len(events.of_kind("launch")) <= 4


def test_a_run_goes_on_on_either(gpu):
    settings = CASES["dropout"]
    _, wanted, _ = run(settings, "fast")
    for first, then in itertools.permutations(("fast", "eager")):
        trainer = Trainer(Config(**settings, steps=8, engine=first))
        with trainer.engine:
            for _ in range(5):
                trainer.update()
        arrays, meta = trainer.state()
        other = Trainer(Config(**settings, steps=8, engine=then))
        other.load_state(arrays, meta)
        with other.engine:
            for _ in range(3):
                other.update()
        assert_same_bytes(other.state()[0], wanted)


# The traps, each as a mistake that the comparison sees

def churn():
    """Memory as other work of the process takes it: what lay in freed blocks is gone."""
    for size in (7, 100, 1000, 5000, 20000):
        xp.full(size, np.nan, "f")


def buffers_not_refreshed(monkeypatch):
    monkeypatch.setattr(graph.Work, "put", lambda self, *given: None)


def a_scalar_baked_in(monkeypatch):
    body = graph.Step.body

    def baked(self):
        self.scalars = [xp.asarray(to_host(x)) if not stream_is_captured() else x
                        for x in self.scalars]
        body(self)

    monkeypatch.setattr(graph.Step, "body", baked)


def stream_is_captured():
    return xp.cuda.get_current_stream().is_capturing()


def a_mask_of_the_step_before(monkeypatch):
    draw, kept = Masks.draw, {}

    def late(self, rng, places):
        old = kept.get(id(self))
        draw(self, rng, places)
        kept[id(self)] = [place.copy() for place in places]
        for place, before in zip(places, old or places, strict=True):
            place[...] = before

    monkeypatch.setattr(Masks, "draw", late)


def masks_not_drawn(monkeypatch):
    draw, done = Masks.draw, set()

    def once(self, rng, places):
        if len(done) < 2:
            draw(self, rng, places)
            done.add(len(done))

    monkeypatch.setattr(Masks, "draw", once)


def tokens_baked_in(monkeypatch):
    def first(self):
        return self.__dict__.setdefault("first", self.given.copy())

    monkeypatch.setattr(static.Tokens, "index", property(
        first, lambda self, index: setattr(self, "given", index)), raising=False)


@pytest.mark.parametrize("mistake", [buffers_not_refreshed, a_scalar_baked_in, tokens_baked_in,
                                     a_mask_of_the_step_before, masks_not_drawn],
                         ids=lambda f: f.__name__)
def test_a_mistake_is_seen(gpu, monkeypatch, mistake):
    settings = {**CASES["dropout"], "r_train": 0.5}
    wanted, state, _ = run(settings, "eager")
    mistake(monkeypatch)
    found, arrays, _ = run(settings, "fast")
    assert found != wanted
    with pytest.raises(AssertionError):
        assert_same_bytes(arrays, state)


@pytest.mark.parametrize("shared", [False, True])
def test_a_graphs_memory_is_its_own(gpu, monkeypatch, shared):
    """What is allocated after a capture never lies where the graph writes; in a pool that others
    take from, it does."""
    if shared:
        monkeypatch.setattr(xp.cuda, "MemoryPool", xp.get_default_memory_pool)
    trainer = Trainer(Config(**CASES["gpt"], steps=9))
    with trainer.engine:
        for _ in range(3):
            trainer.update()
        others = [xp.ones(size, "f") for size in (9, 15, 42, 252, 300, 600, 800, 1500, 3000)
                  for _ in range(8)]
        trainer.update()
        hurt = sum(not (to_host(x) == 1).all() for x in others)
    assert bool(hurt) == shared


def test_constants_outlive_what_else_is_made(gpu):
    """An lru_cache would give the first of them back while a graph reads them; where there is one,
    the graph's own pieces hold what it reads."""
    settings = CASES["gpt"]

    def others():
        for rows in range(1000, 1080):
            kernels.ones(1, rows, np.dtype("float32"), "cupy")
        for S in range(1, 11):
            Rows(np.zeros((2, S), int), share=False, words=False)
            loss.unshared(2, S, "cupy", np.ones((2, S), bool).tobytes(), False)
        churn()

    assert_equal_engines(settings, between=others)


@pytest.mark.parametrize("first", ["each once", "the same", "drawn"])
def test_no_way_is_chosen_by_the_first_batchs_tokens(gpu, first):
    """Lookup's ways for equal and for single tokens: a graph is made for all."""
    rng = np.random.default_rng(5)
    ids = {"each once": rng.permutation(7)[:6].reshape(2, 3), "the same": np.full((2, 3), 4),
           "drawn": rng.integers(0, 7, (2, 3))}
    order = [first, *(name for name in ids if name != first)] * 2
    batches = [Batch(ids[name], rng.integers(0, 7, (2, 3)), np.ones((2, 3), bool))
               for name in order]

    def losses(name):
        with backend.using(name):
            model = make_on_host(lambda: build(GPT)).to_backend()
            with make_engine("fast", model, AdamW(model, 0.05)) as engine:
                found = []
                for batch in batches:
                    loss = engine.step(batch)
                    engine.update()
                    found.append(float(loss))
            return found, {n: to_host(p.data) for n, p in model.params()}

    (found, there), (wanted, here) = losses("cupy"), losses("numpy")
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    for name, array in here.items():
        np.testing.assert_allclose(there[name], array, rtol=1e-8, atol=1e-9, err_msg=name)


# What a user may do

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
        if stream_is_captured():
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

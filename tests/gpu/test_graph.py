"""npdl_train.fast.graph: a step as one CUDA graph is the eager step, bit for bit; what makes it one
that is wrong is seen."""

import itertools

import numpy as np
import pytest

from npdl import backend
from npdl.backend import stream, to_host, xp
from npdl.models.gpt import GPT
from npdl.optim import AdamW
from npdl_train.fast import graph, kernels, loss, static
from npdl_train.fast.prefix import Rows
from npdl_train.fast.static import Masks
from npdl_train.runs.config import Config
from npdl_train.runs.engine import Batch, make_engine
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
        trainer.evaluate()                      # and once for the norm of the parameters
    assert len(events.of_kind("synchronisation")) == 3


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

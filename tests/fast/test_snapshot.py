"""Whatever the wing reads of a model and an optimizer is refused or obeyed when it changes."""

import pytest

from npdl.core import walk
from npdl.errors import InputError
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import Adam, AdamW
from npdl_train.fast import workers
from npdl_train.fast.engine import FastEngine
from npdl_train.fast.flat_parameters import UPDATES
from npdl_train.fast.workers import Processes, Threads
from tests.fast.cases import build, drawn
from tests.fast.snapshot import assert_every_change

slow = pytest.mark.slow
MODELS = [(GPT, {"adapters": "lora", "positions": "k/d"}), (LSTMLM, {"padding_id": 0}),
          *(pytest.param(kind, chosen, marks=slow) for kind, chosen in (
              (GPT, {"norm": "pre", "positions": "learned"}), (LSTMLM, {"adapters": "lora"}),
              (GPT, {"adapters": "qlora", "bias": False})))]


@pytest.mark.parametrize(("kind", "chosen"), MODELS)
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=slow)])
def test_every_attribute_is_refused_or_obeyed(kind, chosen, threads):
    places, fast = assert_every_change(kind, chosen, Adam, threads)
    assert type(fast.workers) is Threads
    layers = [layer for layer in walk(fast.model)]
    assert len(places["refused"]) > 3 * len(layers)
    assert {path[0] for _, name, path in places["obeyed"] if name == "optimizer"} == {
        "lr", "weight_decay", "steps", "betas", "eps", "m", "v", "params"}
    assert all(change == "written_over" for change, name, _ in places["obeyed"] if name == "model")


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [AdamW, *(
    pytest.param(each, marks=slow) for each in UPDATES if each is not AdamW)])
@pytest.mark.parametrize("kind", [GPT, LSTMLM])
def test_so_it_is_with_processes_and_every_optimizer(kind, optimizer, monkeypatch):
    monkeypatch.setattr(workers, "WORTH", 0)
    _, fast = assert_every_change(kind, {}, optimizer, 2)
    assert type(fast.workers) is Processes


def test_an_equal_number_is_the_same_and_another_is_named():
    model = build(GPT)
    with FastEngine(model, Adam(model)) as fast:
        norm = model.decoder.blocks[0].norm1
        norm.eps = float(repr(norm.eps))                    # another object
        fast.step(drawn("few shared", "ragged"))
        norm.eps = str(norm.eps)
        with pytest.raises(InputError, match=r"^model\.decoder\.blocks\.0\.norm1\.eps was changed"):
            fast.update()

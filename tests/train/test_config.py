"""Settings: a class for each task, and config files of earlier versions, which stay valid."""

import dataclasses
import json

import pytest

from npdl.errors import InputError
from npdl.train.config import Adapters, Config

REAL = {"model": "pretrained", "pretrained": "a", "text": "b"}
EVERY = [("ArithmeticConfig", {"p": 7, "orders": (2, 3)}),
         ("TextConfig", {"text": "b", "model": "lstm"}),
         ("DatesConfig", {"model": "lstm-seq2seq"}), ("PretrainedConfig", REAL),
         ("ArithmeticConfig", {"adapters": Adapters(rank=2), "engine": "plain", "numbers": 31})]


@pytest.mark.parametrize("task, settings", EVERY)
def test_settings_make_the_class_of_their_task_and_are_read_back(task, settings):
    config = Config(**settings)
    assert type(config).__name__ == task
    assert all(getattr(config, name) == value for name, value in settings.items())
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert dataclasses.replace(config, seed=3) == Config(**settings, seed=3)


@pytest.mark.parametrize("settings, said", [
    ({"text": "a", "p": 7}, "--p can't be used with a text"),
    ({"model": "seq2seq", "tied": True}, "--tied can't be used with dates to translate"),
    ({**REAL, "width": 8}, "--width can't be used with a real model"),
    ({"widht": 8}, "--widht is not an option; see train_gpt"),
    ({"model": "gpt", "pretrained": "a", "text": "b"}, "--model 'gpt'"),
    ({"model": "lstm", "init": "gpt2"}, "is for a GPT only"),
    ({"model": "lstm", "init": "lecun"}, "is for a GPT only"),
    ({"model": "pretrained", "text": "b"}, "--pretrained is missing"),
    ({"model": "pretrained", "pretrained": "a"}, "--text is missing"),
])
def test_a_setting_of_another_task_is_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Config(**settings)


def test_a_file_of_an_earlier_version_is_read():
    """It has settings of arithmetic in a text's file, and one that npdl no longer has."""
    old = {**Config().to_json(), "compute": "shared", "symmetric": False, "text": "b",
           "sha256": "c", "block": 16, "characters": "ab", "eval_batches": 3}
    del old["engine"], old["init"]                              # newer settings
    config = Config.from_json(old)
    assert (config.text, config.block, config.steps, config.clip) == ("b", 16, 10001, 1.0)
    assert (config.engine, config.init) == ("recorded", "torch")
    assert not {"p", "orders", "compute"} & config.to_json().keys()
    for name in ("novel", "symmetric"):
        with pytest.raises(InputError, match=f"'{name}' is unknown"):
            Config.from_json({**old, name: True})

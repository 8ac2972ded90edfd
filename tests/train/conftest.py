"""Small trained runs that several tests read, each trained once."""

import shutil

import pytest

from npdl.train.config import Config
from npdl.train.run import load_run, train

TINY = {"engine": "plain", "layers": 1, "width": 16, "heads": 2, "eval_first": 0}
PLAY = "To be, or not to be: that is the question.\n" * 20
ADDITION = {"p": 5, "steps": 4, "eval_every": 2, "save_every": 2, **TINY}
TEXT = {"text": "play.txt", "block": 8, "batch": 5, "eval_batches": 3, "steps": 1, **TINY}
SETTINGS = {
    "gpt": ADDITION, "lstm": ADDITION | {"model": "lstm"},
    "text": TEXT, "text-lstm": TEXT | {"model": "lstm"},
    "adds": {"p": 7, "layers": 2, "width": 16, "heads": 2, "eval_first": 0, "eval_every": 200,
             "save_every": 100, "steps": 200, "r_train": 1.0, "lr": 1e-2, "weight_decay": 0.0,
             "clip": None, "engine": "plain"},
}


@pytest.fixture(scope="session")
def get_run(tmp_path_factory):
    """Return get_run(name), which returns the folder of a trained run. Don't change the folder."""
    root = tmp_path_factory.mktemp("runs")
    (root / "play.txt").write_text(PLAY)

    def train_once(name):
        folder, settings = root / name, dict(SETTINGS[name])
        if "text" in settings:
            settings["text"] = str(root / settings["text"])
        if not folder.exists():
            assert train(Config(**settings), folder, quiet=True) == 0
        return folder
    return train_once


@pytest.fixture
def copy_run(get_run, tmp_path):
    """Return copy_run(name), which returns a copy of get_run(name) that a test may change."""
    return lambda name: shutil.copytree(get_run(name), tmp_path / name)


@pytest.fixture(scope="session")
def addition_run(get_run):
    """A run of a GPT that adds modulo 7 without a mistake."""
    assert load_run(get_run("adds")).records[-1]["train_accuracy"] == 1.0
    return get_run("adds")

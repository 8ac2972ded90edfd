"""Samples of the promises that `python -m tests.runs.trust --full` measures."""

import importlib
import os

import pytest

pytest.importorskip("resource", reason="signals, forks and /proc are POSIX's")

from npdl.errors import InputError, NpdlError
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer
from npdl_train.runs.run import load_run, train
from tests.runs.trust.__main__ import TOPICS

QUICK = ("numbers",)


@pytest.mark.parametrize("topic", [topic if topic in QUICK else
                                   pytest.param(topic, marks=pytest.mark.slow) for topic in TOPICS])
def test_promises(topic, tmp_path):
    figures = importlib.import_module(f"tests.runs.trust.{topic}").measure(False, tmp_path)
    assert all(figure.figure for figure in figures)


SMALL = {"p": 5, "width": 8, "heads": 2, "layers": 1, "steps": 4, "eval_every": 2, "save_every": 2}


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoint.npz"])
def test_a_named_pipe_in_a_run_folder_is_not_waited_for(tmp_path, name):
    train(Config(**SMALL), tmp_path / "run", quiet=True)
    (tmp_path / "run" / name).unlink()
    os.mkfifo(tmp_path / "run" / name)
    with pytest.raises(NpdlError, match="not a file"):
        load_run(tmp_path / "run")


@pytest.mark.parametrize(("settings", "option"), [
    ({"width": 10**9, "heads": 1}, "--width"),
    ({"model": "lstm", "layers": 1000, "width": 10**5}, "--width"),
    ({"text": "{text}", "block": 8, "batch": 10**9}, "--batch"),
    ({"text": "{text}", "block": 8, "eval_batches": 10**10}, "--eval-batches"),
])
def test_what_memory_cannot_hold_is_refused_before_it_is_made(tmp_path, settings, option):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be " * 50)
    settings = {name: str(path) if value == "{text}" else value for name, value in settings.items()}
    with pytest.raises(InputError, match=f"{option}.* GiB"):
        Trainer(Config(**{"width": 8, "heads": 2, "layers": 1, **settings}))

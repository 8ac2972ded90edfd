"""Encoder-decoders that translate dates: training, resuming, decoding, invalid options."""

import json

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.data import dates
from npdl.decoding import beam_search, greedy
from npdl.decoding.model_scorers import make_scorer
from npdl.train.config import SEQ2SEQ, Config
from npdl.train.loop import Trainer
from npdl.train.run import load_run, train
from npdl.train.task import DatesTask
from tests.tools import commands
from tests.tools.refusals import check_refused
from tests.tools.trained import assert_same_runs, make_trained_trainer, rewind_and_resume

TINY = {"engine": "plain", "width": 8, "heads": 2, "layers": 1, "batch": 4, "steps": 6,
        "eval_every": 3, "save_every": 2}
OPTIONS = [str(word) for name, value in TINY.items()
           for word in ("--" + name.replace("_", "-"), value)]
every_model = pytest.mark.parametrize("model", SEQ2SEQ)


@pytest.fixture(autouse=True)
def limit_measured_dates(monkeypatch):
    monkeypatch.setattr(DatesTask, "MEASURED", 30)


def make_tiny_config(model, **settings):
    return Config(model=model, **{**TINY, **settings})


@pytest.mark.parametrize("model, settings", [(SEQ2SEQ[0], {}), (SEQ2SEQ[1], {"dropout": 0.3})])
def test_translation_run_resumes_and_loads(tmp_path, model, settings):
    config = make_tiny_config(model, **settings)
    for name in ("whole", "cut"):
        assert train(config, tmp_path / name, quiet=True) == 0
    rewind_and_resume(tmp_path / "cut", config, 2)
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")
    run = load_run(tmp_path / "whole")
    assert run.config == config and [r["step"] for r in run.records] == [3, 6]
    saved = json.loads((tmp_path / "whole" / "config.json").read_text())["config"]
    assert not saved.keys() & {"p", "operator", "text", "block"}


@every_model
def test_training_uses_teacher_forcing_on_training_days(model):
    task = Trainer(make_tiny_config(model, batch=50)).task
    batch, words = task.batch(3), task.vocabulary
    assert (batch.inputs[:, 0] == words.bos).all() and (batch.targets[:, -1] == words.eos).all()
    np.testing.assert_array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    days = {dates.datetime.date.fromisoformat(words.decode(row)).toordinal()
            for row in batch.targets}
    assert days <= set(task.data.parts["train"])


@pytest.mark.slow
@every_model
def test_measured_accuracy_equals_greedy_decoding(model, monkeypatch):
    """A beam search with one hypothesis finds the same dates as greedy decoding."""
    monkeypatch.setattr(dates, "FORMS", ("{Y}{0m}{0d}", "{Y}/{0m}/{0d}"))
    config = make_tiny_config(model, width=32, batch=32, steps=300, lr=1e-2, eval_every=300)
    trainer = make_trained_trainer(config, 160)
    part, words = trainer.task.evaluation_batches["validation"], trainer.task.vocabulary
    accuracy = trainer.task.measure(trainer.engine)["validation_accuracy"]
    right = 0
    for source, real, target in zip(part.source, part.source_real, part.targets, strict=True):
        scorer = make_scorer(trainer.model, source[: real.sum()], first=[words.bos])
        [found] = greedy(scorer, 16, words.eos)
        right += found.tokens == tuple(target)
        assert beam_search(scorer, 1, 16, words.eos).best.tokens == found.tokens
    assert right / len(part) == accuracy > 0.9


@pytest.mark.slow
@every_model
def test_translation_run_works_with_all_commands(tmp_path, capsys, monkeypatch, model):
    run = str(tmp_path / "run")
    assert commands.train_seq2seq(["--model", model, *OPTIONS, "--quiet", "--out", run]) == 0
    capsys.readouterr()
    assert main(["generate", run, "March 3rd, 2021", "--method", "beam", "--n-best", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(line.startswith("March 3rd, 2021 -> ") for line in lines)
    assert main(["table", run]) == 0 and "Seq2Seq, dates" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "attention", run]) == 0 and capsys.readouterr().out == "attention.png\n"
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")
    missing = tmp_path / "missing"
    for arguments, mentioned in [
            (["generate", run], "0 characters"), (["generate", run, "ü"], "'ü'"),
            (["ask", run], "trained on dates"),
            (["plot", "flow", run], "not flow"), (["plot", "embeddings", run], "not embeddings"),
            (["finetune", run, "--out", str(missing)], "is a run of an encoder-decoder")]:
        check_refused(main, arguments, mentioned, capsys)
    assert not missing.exists()
    check_refused(commands.train_lstm, ["--resume", "--out", run],
                  "resume it with python experiments/train_seq2seq.py", capsys)
    other = SEQ2SEQ[model == SEQ2SEQ[0]]
    check_refused(commands.train_seq2seq, ["--resume", "--out", run, "--model", other],
                  f"has {model}", capsys)

"""The loss over a whole validation part."""

import numpy as np
import pytest

from experiments import text_losses
from experiments.train_gpt import main as train_gpt
from npdl.losses import SequenceLoss
from npdl.train.config import Config
from npdl.train.run import load_run, train


@pytest.fixture(name="text")
def write_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(np.random.default_rng(5).choice(list("abcde \n"), 1200)))
    return str(path)


def test_the_whole_part_by_hand(tmp_path, text, capsys, monkeypatch):
    out = str(tmp_path / "run")
    options = ["--text", text, "--block", "8", "--width", "8", "--heads", "2", "--steps", "3",
               "--eval-batches", "2", "--engine", "plain", "--quiet", "--out", out]
    assert train_gpt(options) == 0
    run = load_run(out)
    part = run.task.split_ids["validation"]
    wanted = []
    for start in range(0, len(part) - 8, 4):
        ids = part[start : start + 9][None]
        logits, _ = run.model.forward(ids[:, :-1])
        wanted.append(SequenceLoss().forward(logits, ids[:, 1:], np.ones((1, 8), bool))[0])
    monkeypatch.setattr(text_losses, "ROWS", 5)
    np.testing.assert_allclose(text_losses.compute_run_losses(run), wanted, rtol=1e-5)
    assert text_losses.main([out, out]) == 0
    shown = capsys.readouterr().out
    assert f"{np.mean(wanted):.4f}" in shown and "mean ± population deviation" in shown
    assert f"{run.records[-1]['validation_loss']:.4f}" in shown
    (tmp_path / "run" / "metrics.jsonl").write_text("")             # nothing recorded yet
    assert text_losses.main([out]) == 0
    assert f"| nan | {np.mean(wanted):.4f}" in capsys.readouterr().out


def test_other_runs_are_refused_in_one_line(tmp_path, text, capsys):
    sums = Config(p=5, width=8, heads=2, steps=1, eval_first=0, engine="plain")
    train(sums, tmp_path / "sums", quiet=True)
    bare = Config(text=text, block=8, width=8, heads=2, steps=1, r_train=1.0, eval_first=0,
                  engine="plain")
    train(bare, tmp_path / "bare", quiet=True)
    for name, mentioned in (("sums", "not trained on a text"), ("bare", "no validation part"),
                            ("nowhere", "holds no run")):
        assert text_losses.main([str(tmp_path / name)]) == 2
        errors = capsys.readouterr().err
        assert mentioned in errors and len(errors.strip().splitlines()) == 1

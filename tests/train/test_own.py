"""Custom optimizers, schedules, models and tasks in runs, sweeps, curves and tables."""

import functools
import json
import re
import runpy
from pathlib import Path

import joblib
import numpy as np
import pytest

import npdl
from npdl.errors import InputError
from npdl.train.config import Config, UserFunction
from npdl.train.metrics import read_records
from npdl.train.run import Run, load_run, train
from tests.tools import commands
from tests.tools.trained import assert_same_runs

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SMALL = {"p": 5, "width": 8, "heads": 2, "layers": 1, "steps": 4, "eval_first": 0, "eval_every": 2,
         "target": "numpy"}


OF_PAGE = {"npdl": npdl}            # with a class of docs/own.md
exec(re.search(r"```python\n(class GrokfastAdamW.*?)```",
               (EXAMPLES.parent / "own.md").read_text(encoding="utf-8"), re.S)[1], OF_PAGE)
GrokfastAdamW = OF_PAGE["GrokfastAdamW"]


def alternate_lr(config):
    return lambda step: config.lr * (1 + step % 2)


def test_run_with_custom_optimizer_and_schedule_resumes(tmp_path):
    settings = {**SMALL, "r_train": 1.0, "schedule": alternate_lr,
                "optimizer": functools.partial(GrokfastAdamW, amplify=3.0)}
    config, plain = Config(**settings), Config(**settings, engine="plain")
    train(config, tmp_path / "whole", quiet=True)
    train(config, tmp_path / "cut", quiet=True, for_steps=3)
    train(config, tmp_path / "cut", quiet=True)
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")
    records = read_records(tmp_path / "whole" / "metrics.jsonl")
    assert [record["lr"] for record in records] == [2e-3, 2e-3]
    train(plain, tmp_path / "plain", quiet=True)
    for one, other in zip(records, read_records(tmp_path / "plain" / "metrics.jsonl"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    assert load_run(tmp_path / "whole").step == 4           # its model is npdl's
    with pytest.raises(InputError, match="--lr 0.5: the run in"):
        train(Config(**settings, lr=0.5), tmp_path / "whole")


def test_custom_function_is_saved_by_name():
    config = Config(optimizer=functools.partial(GrokfastAdamW, amplify=3.0))
    assert config.optimizer == UserFunction("GrokfastAdamW(amplify=3.0)")
    assert config.optimizer != UserFunction("GrokfastAdamW")
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    with pytest.raises(InputError, match="<lambda> has no name .* with def"):
        Config(optimizer=lambda config, model: None)
    with pytest.raises(InputError, match="--betas"):
        Config(betas=alternate_lr)


def load_example_main(name):
    return runpy.run_path(EXAMPLES / f"{name}.py")["main"]


@pytest.mark.parametrize("processes", ["sequential", pytest.param("loky", marks=pytest.mark.slow)])
def test_sweep_over_custom_optimizers_makes_table_and_curves(tmp_path, capsys, processes):
    settings = {"final_decays": (1.0, 0.1), "seeds": (0, 1), "steps": 4, "p": 5, "width": 8,
                "engine": "plain"}
    with joblib.parallel_config(backend=processes):
        load_example_main("own_optimizer")(tmp_path, **settings)
        shown = capsys.readouterr().out
        assert load_example_main("own_optimizer")(tmp_path, **settings) >= 0      # all are finished
    assert capsys.readouterr().out == shown
    table, plotted, _ = shown.splitlines()[-3:]
    runs = table.split()[4:]
    assert commands.table(runs[::-1]) == 0
    heads = capsys.readouterr().out.splitlines()[0].split(" | ")
    assert heads[1].endswith("optimizer FallingDecay(end=0.1), seeds 0, 1")
    assert heads[2].startswith("GPT, + mod 5, r_train=0.8, optimizer FallingDecay(end=1.0)")
    assert plotted.split()[:5] == ["python", "-m", "npdl", "plot", "curves"]
    assert commands.main(["plot", "curves", *map(str, runs), "--out", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_custom_task_learns_resumes_and_is_in_table(tmp_path, capsys):
    small = {"n": 3, "steps": 120, "width": 32, "batch": 20, "lr": 5e-3, "target": "numpy"}
    assert load_example_main("own_task")(tmp_path, **small) > 0.95
    assert "python -m npdl" not in capsys.readouterr().out
    assert commands.table([str(tmp_path / "run")]) == 0
    assert "| GPT, Permutations(n=3), seed 0 |" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"Permutations\(n=3\) is defined in the program"):
        load_run(tmp_path / "run")


def test_custom_model_has_right_gradients_and_prints_sample(tmp_path, capsys):
    names = runpy.run_path(EXAMPLES / "own_model.py")
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    assert npdl.gradcheck(names["CoupledLSTM"](3, 2, rng=0), x).ok
    names["main"](tmp_path, steps=4, engine="plain")
    said = capsys.readouterr().out
    assert "A sample:" in said and "for more text, give load_run(" in said
    assert commands.generate([str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "make_coupled_lstm is defined in the program that trained the run" in said
    config = Config(text=str(tmp_path / "rhyme.txt"), model=names["make_coupled_lstm"], width=64,
                    block=32, lr=1e-2, clip=1.0, steps=4, eval_every=1, engine="plain")
    assert load_run(tmp_path / "run", config).model.params()


def test_custom_loop_needs_no_task_and_no_accuracy(tmp_path, capsys):
    config = Config(model=npdl.Linear, task=alternate_lr, steps=4, eval_first=0, eval_every=2)
    for for_steps in (3, None):
        model = npdl.Linear(3, 2)
        optimizer = npdl.SGD(model, lr=0.1)
        with Run(config, model, optimizer, tmp_path / "run", None, for_steps=for_steps) as run:
            for _ in run.remaining_steps():
                optimizer.step()
                if run.is_evaluation_due():
                    run.write_record({"train_loss": 0.5, "mine": 2.0}, optimizer.lr)
            run.finish(None)
    out, err = capsys.readouterr()
    assert "step      4/4  train 5.00e-01\n" in err and "run the same program to resume it" in err
    assert "| Metric | Linear, alternate_lr, seed 0 |" in out and "| L_train | 0.5 |" in out
    assert [record["mine"] for record in read_records(tmp_path / "run" / "metrics.jsonl")] == [2, 2]

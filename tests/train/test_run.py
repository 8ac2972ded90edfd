"""A run and its folder: files, resuming, stopping, divergence, and the lock of the folder."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from npdl.errors import InputError, NpdlError
from npdl.train import checkpoint, folder, run, versions
from npdl.train.config import Config, UserFunction
from npdl.train.folder import FolderInUse, lock_folder
from npdl.train.loop import Diverged, Trainer
from npdl.train.metrics import read_records
from npdl.train.run import load_run, read_resumed_config, train
from tests.tools import slow, trained

SMALL = {"engine": "plain", "p": 5, "width": 8, "heads": 2, "layers": 1, "eval_first": 3,
         "eval_every": 5, "save_every": 4}
FILES = {"config.json", "metrics.jsonl", "checkpoint.npz", "curves.png", "summary.json"}
every_engine = pytest.mark.parametrize("engine", slow.mark_except(["plain"], trained.ENGINES))


def make_small_config(model="gpt", **settings):
    return Config(model=model, **{**SMALL, **settings})


def test_run_folder_has_all_files(tmp_path, capsys, curves):
    config = make_small_config(steps=11)
    assert train(config, tmp_path / "run") == 0
    run_folder = tmp_path / "run"
    assert {path.name for path in run_folder.iterdir()} == FILES
    records = read_records(run_folder / "metrics.jsonl")
    assert [r["step"] for r in records] == [1, 2, 3, 5, 10, 11]
    assert set(records[0]) == {"step", "train_loss", "train_accuracy", "validation_loss",
                               "validation_accuracy", "l2_norm", "lr"}
    saved = json.loads((run_folder / "config.json").read_text())
    assert Config.from_json(saved["config"]) == config
    summary = json.loads((run_folder / "summary.json").read_text())
    assert summary["train_loss"] == min(r["train_loss"] for r in records)
    assert "t_f(L_val)" in capsys.readouterr().out
    run = load_run(run_folder)
    assert run.step == 11 and run.records == records
    squares = sum((p.data.astype("float64") ** 2).sum() for _, p in run.model.params())
    assert records[-1]["l2_norm"] == pytest.approx(np.sqrt(squares), rel=1e-5)
    arrays = trained.load_run_arrays(run_folder).items()
    trained.assert_same_bytes(run.model.state_dict(), {
        name.removeprefix("param/"): array for name, array in arrays if name.startswith("param/")})


@pytest.mark.parametrize("engine", slow.mark_except(["recorded"], trained.ENGINES))
@pytest.mark.parametrize("model", slow.mark_except(["gpt"], ["gpt", "lstm"]))
def test_a_resumed_run_is_bitwise_identical_and_repeats_later_records(tmp_path, model, engine):
    config = make_small_config(model, steps=11, engine=engine)
    train(config, tmp_path / "whole", quiet=True)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    with open(tmp_path / "cut/metrics.jsonl", "a") as file:
        file.write('{"step": 12, "tr')
    trained.rewind_and_resume(tmp_path / "cut", config, 4)
    trained.assert_same_runs(tmp_path / "whole", tmp_path / "cut")


@every_engine
def test_ctrl_c_before_the_first_step_stops_after_it_and_resuming_is_identical(
        tmp_path, capsys, engine):
    def read_step(trainer, stops=False):
        if stops and trainer.step == 0:
            signal.raise_signal(signal.SIGINT)
        return trainer.step

    config = make_small_config(steps=9, engine=engine)
    base = {name: param.data for name, param in Trainer(config).model.params()}
    stopped = functools.partial(read_step, stops=True)
    assert train(config, tmp_path / "run", base=base, metrics={"n": stopped}, quiet=True) == 130
    assert "stopped at step 1 of 9, saved" in capsys.readouterr().err
    assert train(config, tmp_path / "run", True, metrics={"n": read_step}, quiet=True) == 0
    assert train(config, tmp_path / "whole", base=base, metrics={"n": read_step}, quiet=True) == 0
    trained.assert_same_runs(tmp_path / "whole", tmp_path / "run")


def test_ctrl_c_while_the_folder_is_made_stops_after_the_first_step(tmp_path, capsys, monkeypatch):
    def make_and_interrupt(*given, make=folder.make_run_folder):
        make(*given)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(folder, "make_run_folder", make_and_interrupt)
    assert train(make_small_config(steps=9), tmp_path / "run", quiet=True) == 130
    assert "stopped at step 1 of 9, saved" in capsys.readouterr().err


@pytest.mark.parametrize("model, more, engine", [
    ("gpt", {"compute": "shared", "engine": "fast", "threads": 2}, "recorded"),
    ("lstm", {}, "plain")])
def test_a_run_of_an_older_version_loads_and_resumes_with_its_engine(
        tmp_path, capsys, model, more, engine):
    train(make_small_config(model, steps=4, engine=engine, target="numpy"), tmp_path, quiet=True)
    saved = json.loads((tmp_path / "config.json").read_text())
    saved["config"] |= more
    now, saved["versions"]["engine"] = saved["versions"]["engine"], "0123456789ab"
    (tmp_path / "config.json").write_text(json.dumps(saved))
    run = load_run(tmp_path)
    assert run.step == 4 and len(run.records) == 4
    config = read_resumed_config(tmp_path, {"steps": 6})
    assert config.engine == engine
    assert train(config, tmp_path, resume=True, quiet=True) == 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"was computed with engine 0123456789ab and continues with {now}" in line
    assert json.loads((tmp_path / "config.json").read_text())["versions"]["engine"] == now
    assert load_run(tmp_path).step == 6
    assert Trainer(read_resumed_config(tmp_path, {})).engine.name == engine


@every_engine
@pytest.mark.filterwarnings("ignore::RuntimeWarning")       # which NumPy's layers give
def test_a_run_that_diverges_stops_and_keeps_its_last_checkpoint(tmp_path, engine):
    config = make_small_config(steps=40, lr=1e30, save_every=1, eval_first=0, eval_every=40,
                               threads=2, engine=engine)
    with pytest.raises(Diverged, match=r"step 2: embedding.W holds NaN or infinity "
                                       r"\(such parameters: \d+\); the last checkpoint is kept"):
        train(config, tmp_path / "run", quiet=True)
    assert checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"] == 1
    with pytest.raises(Diverged):
        train(config, tmp_path / "run", resume=True, quiet=True)


def test_the_plain_engine_warns_of_the_operation_that_overflows(tmp_path):
    config = make_small_config(steps=40, lr=1e30, eval_first=0, engine="plain")
    with pytest.raises(RuntimeWarning, match="overflow encountered") as caught:
        train(config, tmp_path / "run", quiet=True)
    assert "npdl/layers" in str(caught.traceback[-1].path)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("lr", 1.0, "metric 'lr': each record has a number of this name already; choose"),
    ("sizes", [1, 2], "metric 'sizes' has returned list; return a number"),
    ("rows", np.zeros(3), r"metric 'rows' has returned float64 \(3,\); return a number"),
    ("odd", float("nan"), "metric 'odd' is nan at step 1; return a finite number"),
    ("vast", np.float32("inf"), "metric 'vast' is inf at step 1; return a finite number"),
    ("huge", 10**400, "metric 'huge' has returned .*; return a number"),
])
def test_a_metric_that_no_record_can_hold_is_refused(tmp_path, name, value, message):
    with pytest.raises(InputError, match=message):
        train(make_small_config(steps=3), tmp_path / "run", quiet=True,
              metrics={name: lambda trainer: value})


def test_other_settings_than_the_runs_are_refused_when_it_is_resumed(get_run):
    for given, message in (({"lr": 0.5}, "--lr 0.5"), ({"steps": 3}, "--steps 3"),
                           ({"optimizer": UserFunction("Muon")}, "--optimizer Muon: .* has adamw"),
                           ({"text": "x"}, "--text")):
        with pytest.raises(InputError, match=message):
            read_resumed_config(get_run("gpt"), given)
    assert read_resumed_config(get_run("gpt"), {"steps": 6, "p": 5}).steps == 6


def save_negative_seconds(path, get_run):
    arrays, meta = checkpoint.load(path)
    checkpoint.save(path, arrays, meta | {"seconds": -1})


@pytest.mark.parametrize("damage, said", [
    (lambda path, get_run: os.truncate(path, 100), "cannot be read .*damaged"),
    (lambda path, get_run: shutil.copy(get_run("lstm") / "checkpoint.npz", path), "does not fit"),
    (save_negative_seconds, "has step 4, updates 4 and seconds -1"),
    (lambda path, _: path.unlink(), "cannot be read .*it is missing.*restore it from a copy")])
def test_a_damaged_checkpoint_gives_one_error_line_that_names_it(copy_run, get_run, damage, said):
    run_folder = copy_run("gpt")
    damage(run_folder / "checkpoint.npz", get_run)
    for act in (load_run, lambda f: train(read_resumed_config(f, {}), f, resume=True, quiet=True)):
        with pytest.raises(NpdlError, match=r"checkpoint\.npz " + said) as caught:
            act(run_folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoint.npz"])
def test_a_named_pipe_in_a_run_folder_is_not_waited_for(copy_run, name):
    run_folder = copy_run("gpt")
    (run_folder / name).unlink()
    os.mkfifo(run_folder / name)
    with pytest.raises(NpdlError, match="not a file"):
        load_run(run_folder)


@pytest.mark.parametrize("name", ["checkpoint.npz", "metrics.jsonl", "summary.json"])
def test_a_run_without_its_settings_is_not_overwritten(copy_run, name):
    run_folder = copy_run("gpt")
    for other in set(os.listdir(run_folder)) - {name}:
        (run_folder / other).unlink()
    before = (run_folder / name).read_bytes()
    with pytest.raises(InputError, match="is not an empty folder"):
        train(Config(p=5), run_folder, quiet=True)
    assert os.listdir(run_folder) == [name] and (run_folder / name).read_bytes() == before


def test_the_lock_of_a_killed_process_is_released(tmp_path):
    code = ("import sys\nfrom npdl.train.folder import lock_folder\n"
            "with lock_folder(sys.argv[1]): print('locked', flush=True); sys.stdin.read()")
    owner = subprocess.Popen([sys.executable, "-c", code, tmp_path], text=True,
                             stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert owner.stdout.readline() == "locked\n"
    with pytest.raises(FolderInUse, match="another process works here"), lock_folder(tmp_path):
        pass
    owner.kill()
    owner.communicate()
    with lock_folder(tmp_path):
        pass


@pytest.mark.parametrize(("owner", "name"), slow.mark_except(["save", "append_record"], [
    (checkpoint, "save"), (run, "append_record"), (folder, "plot_curves"), (folder, "write_json")],
    lambda row: row[1]))
def test_run_killed_at_start_or_end_is_absent_or_completed(tmp_path, request, owner, name):
    config = make_small_config(steps=5, eval_every=1)
    call, pid = getattr(owner, name), os.fork()
    if pid == 0:
        setattr(owner, name, lambda *given: call(*given) if name == "write_json" and not str(
            given[0]).endswith("summary.json") else os.kill(os.getpid(), signal.SIGKILL))
        train(config, tmp_path / "run", quiet=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert (tmp_path / "run").exists() == (name != "save")
    if owner is folder:
        request.getfixturevalue("curves")
    for place in ("run", "whole"):
        assert train(config, tmp_path / place, quiet=True) == 0
        files = {path.name for path in (tmp_path / place).iterdir()}
        assert files == FILES - ({"curves.png"} if owner is not folder else set())
    trained.assert_same_runs(tmp_path / "whole", tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already"):
        train(config, tmp_path / "run", resume=False, quiet=True)


def test_versions_of_engine_and_libraries_are_collected():
    found = versions.collect_versions()
    assert found.keys() == {"npdl", "engine", "numpy", "blas", "kernels", "compiler", "processor"}
    assert all(isinstance(value, str) and value for value in found.values())


def test_engine_digest_depends_on_files_that_compute_steps_only(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    compute_digest = versions.compute_engine_digest.__wrapped__
    digests = [compute_digest()]
    for name in ("data/text.py", "study/step.py", "data/text.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"x = {len(digests)}\n")
        digests.append(compute_digest())
    assert digests[1] == digests[2] and len(set(digests)) == 3 and len(digests[0]) == 12

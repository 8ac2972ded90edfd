"""Sweeps: every run once, whoever asks; the same results alone, together, and after kills."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from npdl.errors import CheckpointError, InputError
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Config
from npdl_train.runs.folder import begin, read_config
from npdl_train.runs.lock import lock
from npdl_train.runs.run import load_run
from npdl_train.runs.sweep import (
    PROCESSES,
    folder_of,
    is_finished,
    load_records,
    steps_done,
    sweep,
    work,
)
from tests.tools import device
from tests.tools.device_helpers import assert_same_records

ROOT = Path(__file__).parents[2]
CONFIGS = [Config(model=model, p=7, width=16, heads=2, steps=30, save_every=10, seed=seed)
           for model, seed in (("gpt", 0), ("lstm", 1))]


def parameters(folder):
    return {name: array.tobytes() for name, array in
            checkpoint.load(folder / "checkpoint.npz")[0].items()}


def test_a_folder_is_named_by_what_decides_the_results(tmp_path):
    names = {folder_of(tmp_path, config).name for config in CONFIGS}
    assert len(names) == len(CONFIGS)
    again = Config.from_json(json.loads(json.dumps(CONFIGS[0].to_json())))
    assert folder_of(tmp_path, again) == folder_of(tmp_path, CONFIGS[0])


@pytest.mark.slow
def test_together_and_alone_give_the_same_bytes(tmp_path):
    for config in CONFIGS:
        assert work(config, folder_of(tmp_path / "alone", config)) == "finished"
    outcomes = sweep(CONFIGS, tmp_path / "together", jobs=2, quiet=True)
    assert {name: len(found) for name, found in outcomes.items()} == {"finished": 2}
    for config in CONFIGS:
        one, other = (folder_of(tmp_path / place, config) for place in ("alone", "together"))
        assert parameters(one) == parameters(other)
        assert load_records(tmp_path / "alone", config) == \
            load_records(tmp_path / "together", config)
        assert not (other / "claim.json").exists()
    stamps = {f: f.stat().st_mtime_ns for f in (tmp_path / "together").rglob("*")}
    sweep(CONFIGS, tmp_path / "together", jobs=2, quiet=True)       # nothing is done twice
    assert stamps == {f: f.stat().st_mtime_ns for f in (tmp_path / "together").rglob("*")}


@pytest.mark.slow
def test_two_launchers_share_the_work(tmp_path):
    code = ("import sys; from tests.runs.test_sweep import CONFIGS; "
            "from npdl_train.runs.sweep import sweep; "
            "print({k: len(v) for k, v in sweep(CONFIGS, sys.argv[1], 2, quiet=True).items()})")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    launchers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, text=True,
                                  env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    for launcher in launchers:
        launcher.communicate()
        assert launcher.returncode == 0
    for config in CONFIGS:
        folder = folder_of(tmp_path, config)
        assert is_finished(folder, config)
        steps = [record["step"] for record in load_records(tmp_path, config)]
        assert steps == list(range(1, 31))                          # no record was made twice


def test_a_folder_that_is_locked_is_left_alone(tmp_path):
    folder = folder_of(tmp_path, CONFIGS[0])
    folder.mkdir(parents=True)
    with lock(folder) as mine:
        assert mine
        assert work(CONFIGS[0], folder) == "taken"
    assert work(CONFIGS[0], folder) == "finished"


@pytest.mark.slow
def test_a_killed_run_is_resumed_by_the_same_command(tmp_path):
    config = Config(p=7, width=16, heads=2, steps=400, save_every=20, eval_first=5, eval_every=20)
    folder = folder_of(tmp_path, config)
    process = subprocess.Popen(
        [sys.executable, "-m", "npdl_train.runs.sweep", json.dumps(config.to_json()), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)})
    while steps_done(folder, config) < 60 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not is_finished(folder, config)
    assert sweep([config], tmp_path, jobs=1, quiet=True).keys() == {"finished"}
    work(config, tmp_path / "unbroken")
    assert parameters(folder) == parameters(tmp_path / "unbroken")


def test_a_run_imports_what_its_launcher_does(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(PROCESSES, "run", lambda command, env: seen.append(env))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "own")])
    sweep(CONFIGS[:1], tmp_path, jobs=2, quiet=True)
    assert seen[0]["PYTHONPATH"].split(os.pathsep)[-1] == str(tmp_path / "own")


@pytest.mark.slow
def test_a_run_that_fails_does_not_stop_the_others(tmp_path, capsys):
    broken = folder_of(tmp_path, CONFIGS[0])
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("not a run")
    outcomes = sweep(CONFIGS[:2], tmp_path, jobs=2, quiet=True)
    assert outcomes == {"failed": [broken], "finished": [folder_of(tmp_path, CONFIGS[1])]}
    assert "config.json" in capsys.readouterr().err


def test_a_run_may_go_on_with_another_backend(tmp_path):
    config = dataclasses.replace(CONFIGS[0], engine="plain")    # fast is another path there
    folder = folder_of(tmp_path, config)
    there = dataclasses.replace(config, backend="cupy")
    assert folder_of(tmp_path, there) == folder
    folder.mkdir()
    begin(config, folder)                       # and killed before its first checkpoint
    with device.numpy_as_cupy():
        assert work(there, folder) == "finished"
    assert read_config(folder) == there
    work(config, tmp_path / "unbroken")
    assert_same_records(load_run(folder).records, load_run(tmp_path / "unbroken").records)


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(InputError, match="--jobs 0"):
        sweep(CONFIGS, tmp_path, jobs=0)
    pytest.importorskip("distributed", reason="dask is not installed")
    with pytest.raises(InputError, match="--address"):
        sweep(CONFIGS, tmp_path, backend="dask")
    with pytest.raises(InputError, match="--address nonsense: cannot be reached"):
        sweep(CONFIGS, tmp_path, backend="dask", address="nonsense")


def test_a_dask_cluster_gives_the_same_weights(tmp_path):
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c:
        outcomes = sweep(CONFIGS, tmp_path / "dask", backend="dask",
                         address=c.scheduler_address, quiet=True)
    assert outcomes.keys() == {"finished"}
    for config in CONFIGS:
        work(config, folder_of(tmp_path / "alone", config))
        assert parameters(folder_of(tmp_path / "dask", config)) == \
            parameters(folder_of(tmp_path / "alone", config))


def test_a_process_that_is_stopped_keeps_its_lock(tmp_path):
    """A laptop's sleep, a stopped job: its process lives, so it goes on where it was."""
    code = ("import sys, time; from npdl_train.runs.lock import lock\n"
            "with lock(sys.argv[1]) as mine: print(mine, flush=True); time.sleep(60)")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment,
                             text=True, stdout=subprocess.PIPE)
    try:
        assert owner.stdout.readline() == "True\n"
        owner.send_signal(signal.SIGSTOP)
        with lock(tmp_path) as mine:
            assert not mine
        owner.kill()
        owner.wait()
        with lock(tmp_path) as mine:
            assert mine
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("jobs, number", [      # one job runs in the launcher's main thread
    (2, signal.SIGINT), (1, signal.SIGINT), (1, signal.SIGHUP), (2, signal.SIGTERM)])
def test_a_signal_ends_the_runs_with_the_launcher(tmp_path, jobs, number):
    config = Config(p=7, width=16, heads=2, steps=100_000, save_every=100_000, eval_every=50)
    code = ("import json, signal, sys; from npdl_train.runs.config import Config; "
            "from npdl_train.runs.sweep import sweep; "
            "signal.signal(signal.SIGINT, signal.default_int_handler); "    # as in a terminal
            "sweep([Config.from_json(json.loads(sys.argv[1]))], sys.argv[2], int(sys.argv[3]), "
            "quiet=True)")
    launcher = subprocess.Popen([sys.executable, "-c", code, json.dumps(config.to_json()),
                                 str(tmp_path), str(jobs)],
                                env={**os.environ, "PYTHONPATH": str(ROOT)},
                                stderr=subprocess.DEVNULL)
    folder = folder_of(tmp_path, config)
    while steps_done(folder, config) < 20 and launcher.poll() is None:
        time.sleep(0.02)
    launcher.send_signal(number)
    if number != signal.SIGINT:                     # a system that shuts down sends both
        launcher.send_signal(signal.SIGTERM)
        launcher.send_signal(signal.SIGHUP)
    launcher.wait()
    assert not (folder / "claim.json").exists()
    assert checkpoint.load(folder / "checkpoint.npz")[1]["step"] >= 20       # it was saved


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOLCK])
def test_a_full_disk_or_one_without_locks_is_one_line(tmp_path, monkeypatch, number):
    def refuse(*given):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("npdl_train.runs.lock._try_lock", refuse)
    with pytest.raises(CheckpointError, match=f"{os.strerror(number)}.*; free space"):
        work(CONFIGS[0], tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file.*cannot be made"):
        work(CONFIGS[0], tmp_path / "file" / "run")

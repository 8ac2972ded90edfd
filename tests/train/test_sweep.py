"""Sweeps make each run once. Parallel runs, dask and a stop don't change the results."""

import dataclasses
import json
import signal

import joblib
import pytest

from npdl.train import checkpoint
from npdl.train.config import Config
from npdl.train.folder import is_finished, lock_folder, read_config
from npdl.train.run import load_run, train
from npdl.train.sweep import get_run_folder, load_sweep_metrics, sweep
from tests.tools import device
from tests.tools.device_helpers import assert_same_records
from tests.tools.processes import start_python, wait_for_step
from tests.tools.trained import assert_same_runs

CONFIGS = [Config(model=model, p=7, width=16, heads=2, steps=30, save_every=10, seed=seed,
                  engine="plain")
           for model, seed in (("gpt", 0), ("lstm", 1))]


def test_a_folder_is_named_by_the_settings_that_decide_the_results(tmp_path):
    names = {get_run_folder(tmp_path, config).name for config in CONFIGS}
    assert len(names) == len(CONFIGS)
    again = Config.from_json(json.loads(json.dumps(CONFIGS[0].to_json())))
    assert get_run_folder(tmp_path, again) == get_run_folder(tmp_path, CONFIGS[0])
    there = dataclasses.replace(CONFIGS[0], backend="cupy")
    assert get_run_folder(tmp_path, there) == get_run_folder(tmp_path, CONFIGS[0])


@pytest.fixture(scope="module")
def run_root(tmp_path_factory):
    """The folders of both runs, trained in this process."""
    root = tmp_path_factory.mktemp("alone")
    for config in CONFIGS:
        assert train(config, get_run_folder(root, config), quiet=True) == 0
    return root


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_sweep_runs_are_identical_and_not_repeated(tmp_path, run_root, jobs):
    outcomes = sweep(CONFIGS, tmp_path, jobs=jobs, quiet=True)
    assert outcomes == {"finished": [get_run_folder(tmp_path, config) for config in CONFIGS]}
    for config in CONFIGS:
        assert_same_runs(get_run_folder(run_root, config), get_run_folder(tmp_path, config))
        assert load_sweep_metrics(tmp_path, config) == load_sweep_metrics(run_root, config)
    stamps = {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")}
    assert sweep(CONFIGS, tmp_path, jobs=jobs, quiet=True) == outcomes
    assert stamps == {f: f.stat().st_mtime_ns for f in tmp_path.rglob("*")}


@pytest.mark.slow
def test_dask_cluster_gives_the_same_results(tmp_path, run_root):
    distributed = pytest.importorskip("distributed", reason="dask is not installed")
    with (distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c,
          distributed.Client(c), joblib.parallel_config(backend="dask")):
        assert sweep(CONFIGS, tmp_path, quiet=True).keys() == {"finished"}
    for config in CONFIGS:
        assert_same_runs(get_run_folder(run_root, config), get_run_folder(tmp_path, config))


def test_a_run_that_fails_or_is_in_use_does_not_stop_the_others(tmp_path, capsys):
    third = dataclasses.replace(CONFIGS[0], seed=5)
    broken, used, good = (get_run_folder(tmp_path, config) for config in (*CONFIGS, third))
    broken.mkdir(parents=True)
    (broken / "config.json").write_text("not a run")
    train(CONFIGS[1], used, quiet=True, for_steps=1)
    with lock_folder(used):
        outcomes = sweep([*CONFIGS, third], tmp_path, jobs=1, quiet=True)
    assert outcomes == {"failed": [broken], "in use": [used], "finished": [good]}
    assert "config.json" in capsys.readouterr().err


def test_a_run_may_continue_with_another_backend(tmp_path):
    there = dataclasses.replace(CONFIGS[0], backend="cupy")
    folder = get_run_folder(tmp_path, there)
    train(CONFIGS[0], folder, quiet=True, for_steps=10)
    with device.cupy_or_numpy():
        assert sweep([there], tmp_path, jobs=1, quiet=True) == {"finished": [folder]}
    assert read_config(folder) == there
    train(CONFIGS[0], tmp_path / "unbroken", quiet=True)
    assert_same_records(load_run(folder).records, load_run(tmp_path / "unbroken").records)


SWEEP = """
import json, signal, sys
from npdl.cli.console import run_guarded
from npdl.train.config import Config
from npdl.train.sweep import sweep
signal.signal(signal.SIGINT, signal.default_int_handler)        # as in a terminal
configs = [Config.from_json(json.loads(text)) for text in sys.argv[3:]]
sys.exit(run_guarded("sweep", lambda: print(sweep(configs, sys.argv[1], int(sys.argv[2]),
                                                    quiet=True)) or 0))
"""


LONG = dataclasses.replace(CONFIGS[0], steps=400, save_every=20, eval_first=0, eval_every=20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that was not stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(LONG, folder, quiet=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("jobs, number", [
    (2, signal.SIGINT), (2, signal.SIGTERM), (1, signal.SIGKILL)])
def test_stopped_sweep_saves_and_resumes(tmp_path, whole, jobs, number):
    configs = [LONG, dataclasses.replace(LONG, seed=1)][:jobs]
    folders = [get_run_folder(tmp_path, one) for one in configs]
    launcher = start_python("-c", SWEEP, tmp_path, jobs,
                            *(json.dumps(one.to_json()) for one in configs))
    for folder in folders:
        wait_for_step(launcher, folder, 40)
    launcher.send_signal(number)
    _, errors = launcher.communicate()
    assert "Traceback" not in errors
    if number != signal.SIGKILL:
        assert launcher.returncode == 130
    for folder in folders:
        saved = checkpoint.load(folder / "checkpoint.npz")[1]["step"]
        assert (20 if number == signal.SIGKILL else 40) <= saved < LONG.steps
    assert not is_finished(folders[0], LONG)
    assert sweep([LONG], tmp_path, jobs=1, quiet=True) == {"finished": folders[:1]}
    assert_same_runs(whole, folders[0])

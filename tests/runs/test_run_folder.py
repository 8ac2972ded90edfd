"""A run folder and who may work in it: one process at a time, and nothing lost that is there."""

import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl.files import write_json
from npdl_train.runs import checkpoint
from npdl_train.runs import lock as runs_lock
from npdl_train.runs.config import Config
from npdl_train.runs.lock import lock, locked
from npdl_train.runs.metrics import read_metrics
from npdl_train.runs.run import train
from npdl_train.runs.sweep import is_finished, steps_done, work
from tests.tools import commands
from tests.tools.refusals import check_refused

SMALL = {"p": 5, "width": 8, "heads": 2, "layers": 1, "eval_first": 0, "eval_every": 2,
         "save_every": 2}
OPTIONS = ["--p", "5", "--width", "8", "--heads", "2", "--layers", "1", "--steps", "4", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(Config(steps=4, **SMALL), folder, quiet=True)
    return folder


@pytest.fixture
def run(tmp_path, trained):
    """The folder of a small finished run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(arguments, mentioned, tmp_path, capsys, model="gpt"):
    check_refused(lambda given: main([f"train-{model}", *given]), [*map(str, arguments), "--quiet"],
                  mentioned, tmp_path / "none", capsys)


@pytest.mark.parametrize("options", [OPTIONS, ["--resume"]])
def test_a_folder_that_a_process_works_in_is_refused(tmp_path, run, capsys, options):
    folder = run if options == ["--resume"] else tmp_path / "new"
    folder.mkdir(exist_ok=True)
    with lock(folder):
        before = contents(folder)
        refused([*options, "--out", folder], f"process {os.getpid()} on", tmp_path, capsys)
        assert contents(folder) == before
    assert "claim.json" not in os.listdir(folder)
    assert main(["train-gpt", *options, "--quiet", "--out", str(folder)]) == 0
    assert "claim.json" not in os.listdir(folder)


def test_of_many_that_begin_at_one_instant_one_does(tmp_path, monkeypatch):
    def slowly(path, value):                            # the gap between looking and writing
        time.sleep(0.05)
        write_json(path, value)

    monkeypatch.setattr("npdl_train.runs.folder.write_json", slowly)
    reading, writing = os.pipe()
    pids = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.close(writing)
            os.read(reading, 1)                         # until all are there
            os._exit(main(["train-gpt", *OPTIONS, "--out", str(tmp_path / "run")]))
        pids.append(pid)
    os.close(reading)
    os.close(writing)
    ends = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    assert ends == [0, 2, 2, 2, 2, 2]
    records, _ = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [record["step"] for record in records] == [1, 2, 3, 4]


def test_a_killed_process_leaves_the_folder_to_the_next(tmp_path):
    pid = os.fork()
    if pid == 0:
        with lock(tmp_path):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.listdir(tmp_path) == ["claim.json"]
    assert main(["train-gpt", *OPTIONS, "--out", str(tmp_path)]) == 0
    assert "claim.json" not in os.listdir(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff\xfe", b'{"pid": 1e999}',
                                     b'{"pid": %d, "host": "%s"}' % (10**400, b"x")])
def test_whatever_a_lock_file_says_it_is_whose_lock_it_is(tmp_path, content):
    (tmp_path / "claim.json").write_bytes(content)
    with lock(tmp_path) as mine:
        assert mine
        (tmp_path / "claim.json").write_bytes(content)          # someone writes into it meanwhile
        with pytest.raises(InputError, match="process works here"), locked(tmp_path):
            pass
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("odd", ["pipe", "link", "folder"])
def test_an_odd_lock_file_is_neither_waited_for_nor_written(tmp_path, run, capsys, odd):
    path, target = run / "claim.json", tmp_path / "somebody's"
    target.write_text("mine")
    {"pipe": os.mkfifo, "link": lambda path: path.symlink_to(target), "folder": os.mkdir}[odd](path)
    refused(["--resume", "--out", run], "claim.json: cannot be locked", tmp_path, capsys)
    assert target.read_text() == "mine"


def test_a_lock_that_its_holder_removes_is_not_held(tmp_path, monkeypatch):
    """Between the opening and the lock, the file may lose its name."""
    locks, try_lock = [], runs_lock._try_lock

    def late(file):
        locks.append(file)
        if len(locks) == 1:
            (tmp_path / "claim.json").unlink()
        return try_lock(file)

    monkeypatch.setattr(runs_lock, "_try_lock", late)
    with lock(tmp_path) as mine, lock(tmp_path) as other:
        assert mine and not other and len(locks) == 3


@pytest.mark.parametrize("name", ["checkpoint.npz", "metrics.jsonl", "summary.json"])
def test_a_run_whose_settings_are_lost_is_not_overwritten(tmp_path, run, capsys, name):
    for other in set(os.listdir(run)) - {name}:
        (run / other).unlink()
    before = contents(run)
    refused([*OPTIONS, "--out", run], f"holds the {name} of a run, but its config.json", tmp_path,
            capsys)
    assert contents(run) == before


def test_a_run_of_the_other_model_is_not_resumed(tmp_path, run, capsys):
    refused(["--resume", "--out", run], "resume it with train-gpt", tmp_path, capsys, "lstm")


def edited(folder, name, **changes):
    """Change a record of a run: the first one of metrics.jsonl, or the file's only one."""
    path = folder / name
    lines = path.read_text().splitlines() if name == "metrics.jsonl" else [path.read_text()]
    record = json.loads(lines[0])
    for key, value in changes.items():
        record.pop(key)
        record |= {} if value is None else {key: value}
    lines[0] = json.dumps(record).replace('"1e999"', "1e999")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("changes", [
    {"train_loss": "x"}, {"train_loss": [1.0]}, {"validation_accuracy": {}}, {"train_loss": True},
    {"train_loss": 10**400}, {"train_accuracy": "1e999"}, {"step": None}, {"step": 1.5},
    {"step": "1"}, {"step": -1}, {"step": True}, {"validation_loss": "\ud800"},
])
def test_edited_metrics_are_one_line_for_whoever_reads_them(tmp_path, run, capsys, changes):
    edited(run, "metrics.jsonl", **changes)
    refused(["--resume", "--out", run], "metrics.jsonl: line 1", tmp_path, capsys)
    for arguments in (["plot", "curves", run, "--out", tmp_path / "none"], ["ask", run, "1 + 1 ="]):
        check_refused(main, [*map(str, arguments)], "metrics.jsonl: line 1", tmp_path / "none",
                      capsys)


@pytest.mark.parametrize("changes", [
    {"delta_t_loss": None}, {"train_loss": 10**400}, {"train_loss": "x"}, {"final": None},
    {"final": []}, {"steps": "many"}, {"seconds": "1e999"}, {"t_f_train_loss": [3]},
])
def test_an_edited_summary_is_one_line_and_no_end_of_a_sweep(tmp_path, run, capsys, changes):
    shutil.copytree(run, tmp_path / "other")
    edited(tmp_path / "other", "summary.json", **changes)
    check_refused(commands.table, [str(run), str(tmp_path / "other")],
                  "summary.json: cannot be used", tmp_path / "none", capsys)
    config = Config(steps=4, **SMALL)
    assert not is_finished(tmp_path / "other", config)
    assert work(config, tmp_path / "other") == "finished"           # it is written again
    assert commands.table([str(run), str(tmp_path / "other")]) == 0


@pytest.mark.parametrize("seconds", ["1e999", "1" * 400, "1e300", "-1", '"x"'])
def test_a_checkpoint_with_odd_seconds_is_refused(tmp_path, run, capsys, seconds):
    """Sealed again: its digest is right."""
    def odd(meta):
        return re.sub(rb'"seconds": [^,}]*', b'"seconds": ' + seconds.encode(), encoded(meta))

    arrays, meta = checkpoint.load(run / "checkpoint.npz")
    encoded, checkpoint._encode_meta = checkpoint._encode_meta, odd
    try:
        checkpoint.save(run / "checkpoint.npz", arrays, meta)
    finally:
        checkpoint._encode_meta = encoded
    refused(["--resume", "--out", run], "checkpoint.npz: ", tmp_path, capsys)


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl"])
def test_a_named_pipe_is_no_record(tmp_path, run, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert not is_finished(run, Config(steps=4, **SMALL)) or name == "metrics.jsonl"
    assert steps_done(run, Config(steps=5, **SMALL)) in (0, 4)


def test_a_run_that_is_named_twice_counts_once(run, capsys):
    assert commands.table([str(run)]) == 0
    once = capsys.readouterr().out
    assert commands.table([str(run), f"{run}/", str(run)]) == 0
    assert capsys.readouterr().out == once

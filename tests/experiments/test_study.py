"""The study's runs: which, in which order; their records kept as they finish."""

import dataclasses
import gzip
import importlib.util
import json
import os
import threading
import time
from pathlib import Path

import pytest

from experiments import report
from experiments.study import launch, records
from npdl_train.runs import sweep as sweeping
from npdl_train.runs.config import Config
from tests.tools import device

ROOT = Path(__file__).resolve().parents[2]
SMALL = [Config(model=model, p=5, width=8, heads=2, steps=4, seed=seed, threads=1)
         for seed in (0, 42) for model in ("lstm", "gpt")]
BEYOND = ("further",)               # runs that the document does not ask for


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A study of four small runs; returns the folder for them."""
    monkeypatch.setattr(launch, "RUNS", {"sanity": SMALL})
    monkeypatch.setattr(records, "RESULTS", tmp_path / "kept")
    monkeypatch.setattr(launch, "LOOK", 0.05)
    return tmp_path / "runs"


def finish(config, root):
    assert sweeping.work(config, sweeping.folder_of(root, config)) == "finished"


def test_the_study_has_the_documents_runs():
    settings = {name: {(c.model, c.seed, c.r_train, c.layers, c.width, c.batch, c.weight_decay,
                        c.steps, c.p, c.orders) for c in configs}
                for name, configs in launch.RUNS.items() if name not in BEYOND}
    counts = {"sanity": 4, "data": 36, "mixed": 4, "model": 36, "compute": 20, "decay": 8}
    assert {name: len(runs) for name, runs in settings.items()} == counts
    assert settings["sanity"] < settings["data"] and settings["sanity"] < settings["model"]
    runs = launch.runs_of(counts)
    assert len(runs) == len(set(runs)) == 100
    assert {run.seed for run in runs} == {0, 42}


def test_the_most_decisive_runs_come_first():
    runs = launch.runs_of([name for name in launch.RUNS if name not in BEYOND])
    assert set(runs[:4]) == set(launch.RUNS["sanity"])
    first = [run for run in runs[4:] if run.seed == 0]
    assert runs[4:4 + len(first)] == first
    place = {run: i for i, run in enumerate(first)}
    ends = [(min(found), max(found)) for name in ("mixed", "data", "model", "decay", "compute")
            for found in [[place[run] for run in launch.RUNS[name] if run in place]]]
    assert all(last < start for (_, last), (start, _) in zip(ends, ends[1:], strict=False))
    costs = [launch.cost(run) for run in runs[4 + len(first):]]
    assert costs == sorted(costs) and len(costs) == 48


def test_other_seeds_repeat_the_first_ones_runs():
    runs = launch.runs_of(["sanity", "decay"], (7,))
    assert {dataclasses.replace(run, seed=0) for run in runs} == {
        run for name in ("sanity", "decay") for run in launch.RUNS[name] if run.seed == 0}
    assert {run.seed for run in runs} == {7}
    assert not set(launch.runs_of(["sanity"], (0,))) & set(runs)


def test_further_seeds_are_run_after_the_documents():
    further = launch.RUNS["further"]
    assert len(set(further)) == 6 and {run.seed for run in further} == {1, 2, 3}
    documents = {run for name, runs in launch.RUNS.items() if name not in BEYOND
                 for run in runs}
    assert {dataclasses.replace(run, seed=0) for run in further} < documents
    runs = launch.runs_of(launch.RUNS)
    assert set(further) <= set(runs) and not set(further) & set(runs[:60])
    assert not set(further) & set(launch.runs_of(launch.RUNS, [0, 42]))
    assert {run for run in launch.runs_of(["sanity"], [1])} < set(further)


def test_a_recipe_changes_the_clip_and_the_start_alone():
    for recipe in ("release", "stated"):
        found = launch.read_by(recipe, ["sanity", "data"])
        assert {c.model for c in found} == {"lstm", "gpt"} and len(found) == 36
        assert {dataclasses.replace(c, clip=1.0, init="torch") for c in found} == set(
            launch.runs_of(["sanity", "data"]))
        wanted = {"release": {("lstm", 1.0, "xavier"), ("gpt", 1.0, "torch")},
                  "stated": {("lstm", None, "torch"), ("gpt", None, "torch")}}[recipe]
        assert {(c.model, c.clip, c.init) for c in found} == wanted
        assert [records.with_recipe(c, "default") for c in found[:4]] == launch.runs_of(["sanity"])


def test_of_several_records_of_a_run_the_newest_engines_counts():
    known = [label["engine"] for label in reversed(records.labels())]
    made = [{"engine": engine} for engine in (records.engine_digest(), "ffffffffffff", *known)]
    assert sorted(made, key=records.recent, reverse=True) == made
    assert records.recent({}) == records.recent({"engine": None})


@pytest.mark.slow
def test_what_another_engine_made_is_made_anew_and_stands_beside_it(small, capsys, monkeypatch):
    monkeypatch.setattr(launch, "RUNS", {"sanity": SMALL[:1]})
    assert launch.main(["--out", str(small), "--jobs", "1"]) == 0
    path, today = records.path_of(SMALL[0]), records.engine_digest()
    stored = records.kept(SMALL[0])
    assert stored["made"]["engine"] == today
    stored["made"]["engine"], stored["records"]["train_loss"][0] = "0123456789ab", 9.0
    path.write_bytes(gzip.compress(json.dumps(stored).encode()))
    assert launch.main(["--out", str(small / "x")]) == 0 and "all kept" in capsys.readouterr().out
    assert records.kept(SMALL[0])["records"]["train_loss"][0] == 9.0
    assert launch.main(["--out", str(small / "x"), "--models", "gpt", "--anew"]) == 0
    assert records.kept(SMALL[0])["made"]["engine"] == "0123456789ab"
    assert launch.main(["--out", str(small / "x"), "--anew"]) == 0
    assert records.kept(SMALL[0])["made"]["engine"] == today
    assert records.kept(SMALL[0])["records"]["train_loss"][0] != 9.0
    assert [stored["made"]["engine"] for stored in records.kept_by(SMALL[0]).values()] == [
        "0123456789ab", today]
    assert records.read_kept(path)["records"]["train_loss"][0] == 9.0
    assert launch.main(["--anew", "--list"]) == 0
    assert "1 of   1 runs kept,         0 steps left" in capsys.readouterr().out


def test_a_run_is_kept_with_what_it_took(small):
    finish(SMALL[0], small)
    records.keep(small, SMALL[0])
    path = records.path_of(SMALL[0])
    stored = records.kept(SMALL[0])
    assert Config.from_json(stored["config"]) == SMALL[0]
    assert stored["made"]["steps"] == 4 and stored["made"]["seconds"] >= 0
    assert {"npdl", "machine", "numpy"} <= set(stored["made"])
    assert stored["records"]["step"] == [1, 2, 3, 4] and "l2_norm" in stored["records"]
    before = path.read_bytes()
    path.unlink()
    records.keep(small, SMALL[0])
    assert path.read_bytes() == before              # the same folder, the same bytes
    assert records.kept(SMALL[1]) is None


def test_records_of_each_order_are_kept(small):
    config = dataclasses.replace(SMALL[0], p=3, orders=(2, 3), stratified=True)
    finish(config, small)
    records.keep(small, config)
    assert {f"{part}_{what}_order{order}" for part in ("train", "validation")
            for what in ("loss", "accuracy") for order in (2, 3)} <= set(
                records.kept(config)["records"])


def test_an_old_file_is_read_and_renewed_where_its_run_is_there(small):
    finish(SMALL[0], small)
    records.keep(small, SMALL[0])
    path = records.path_of(SMALL[0])
    old = {name: part for name, part in records.kept(SMALL[0]).items() if name != "made"}
    path.write_bytes(gzip.compress(json.dumps(old).encode()))
    records.keep(small / "elsewhere", SMALL[0])
    assert records.kept(SMALL[0]) == old
    records.keep(small, SMALL[0])
    assert records.kept(SMALL[0])["made"]["steps"] == 4


def test_a_run_is_kept_while_others_go_on(small):
    with launch.keeping(small, SMALL):
        worker = threading.Thread(target=finish, args=(SMALL[0], small))
        worker.start()
        worker.join()
        until = time.monotonic() + 10
        while records.kept(SMALL[0]) is None and time.monotonic() < until:
            time.sleep(0.02)
        assert records.kept(SMALL[0]) is not None     # and the block has not ended
        assert records.kept(SMALL[1]) is None


def test_a_finished_run_that_was_not_kept_is_kept_by_the_next_call(small, monkeypatch, capsys):
    finish(SMALL[0], small)
    finish(SMALL[3], small)
    given = []
    monkeypatch.setattr(launch, "sweep", lambda configs, *_: given.extend(configs) or {})
    assert launch.main(["--out", str(small), "--seeds", "0"]) == 0
    assert records.kept(SMALL[0]) and records.kept(SMALL[3])     # of a seed not asked for, too
    assert given == [SMALL[1]]
    assert launch.main(["--out", str(small), "--list"]) == 0
    assert "sanity     2 of   4 runs kept" in capsys.readouterr().out


@pytest.mark.slow
def test_main_runs_and_keeps_everything(small, capsys, monkeypatch):
    short = [dataclasses.replace(config, steps=1) for config in SMALL[1:3]]     # no curves
    monkeypatch.setattr(launch, "RUNS", {"sanity": short})
    assert launch.main(["--out", str(small), "--jobs", "2"]) == 0
    assert all(records.kept(config) for config in short)
    assert "2 finished" in capsys.readouterr().out
    assert launch.main(["--out", str(small)]) == 0
    assert "all kept" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_on_a_gpu_are_kept_as_such(small, tmp_path, monkeypatch, capsys):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(
        "from tests.tools import device\ndevice.make_numpy_cupy()\n")
    monkeypatch.syspath_prepend(tmp_path)                   # which a run's process is given
    finish(SMALL[0], small)
    with device.numpy_as_cupy():
        assert launch.main(["--out", str(small), "--backend", "cupy", "--seeds", "0"]) == 0
    assert "1 finished" in capsys.readouterr().out
    on_cpu, on_gpu = records.kept(SMALL[0]), records.kept(SMALL[1])
    assert "cupy" not in on_cpu["made"] and on_gpu["made"]["cupy"] == "0.0"
    assert on_gpu["made"]["card"] == "NumPy" and "card" not in on_cpu["made"]
    assert Config.from_json(on_gpu["config"]) == SMALL[1]


@pytest.mark.skipif(importlib.util.find_spec("cupy") is not None, reason="CuPy is installed")
def test_a_missing_gpu_is_one_line_and_status_2(small, capsys):
    assert launch.main(["--out", str(small), "--backend", "cupy"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "backend 'cupy': CuPy is not installed" in line and not small.exists()


def test_an_unknown_question_is_one_line_and_status_2(capsys):
    with pytest.raises(SystemExit) as left:
        launch.main(["sanity", "speed"])
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_kept_file_belongs_to_a_readable_run():
    found = sorted(records.RESULTS.glob("*.json.gz"))
    assert found
    for path in found:
        stored = json.loads(gzip.decompress(path.read_bytes()))
        config = Config.from_json(stored["config"])
        assert path in (records.path_of(config),
                        records.path_of(config, stored.get("made", {}).get("engine")))
        assert stored["records"]["step"][-1] == config.steps
        assert len({len(column) for column in stored["records"].values()}) == 1


def spoilt(name, good):
    """A damaged file of kept records."""
    columns = json.loads(gzip.decompress(good))
    if name == "column":
        columns["records"]["train_loss"].pop()
    if name == "text":
        columns["records"]["train_loss"][0] = "x"
    if name == "config":
        columns["config"]["p"] = "x"
    flipped = bytearray(good)
    flipped[30] ^= 1
    texts = {"deep": "[" * 100_000, "large": "1" * 400, "list": "[]"}
    return {"empty": b"", "cut": good[:-20], "flipped": bytes(flipped), "tail": good + b"x"}.get(
        name, gzip.compress(texts.get(name, json.dumps(columns)).encode()))


@pytest.mark.parametrize("name", ["empty", "cut", "flipped", "tail", "deep", "large", "list",
                                  "column", "text", "config", "pipe"])
def test_damaged_records_are_one_line(small, capsys, monkeypatch, name):
    finish(SMALL[0], small)
    records.keep(small, SMALL[0])
    path = records.path_of(SMALL[0])
    if name == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_bytes(spoilt(name, path.read_bytes()))
    monkeypatch.setattr(launch, "RUNS", {"sanity": SMALL[:1]})
    for command, arguments in ((launch.main, ["--list", "--out", str(small)]),
                               (report.main, ["--check"])):
        assert command(arguments) == 2
        errors = capsys.readouterr().err
        assert f"{path.name}: is not a kept run" in errors and errors.count("\n") == 1

"""Kept records replay: their first steps come out again, to the last of their digits.

A record of another processor, of other BLAS kernels or of a GPU may round otherwise: it is passed
over. So is one that is labelled as no longer replaying (experiments/results/labels.json).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.keeping import short
from experiments.study import launch, records, replay
from npdl_train.runs import sweep as sweeping
from npdl_train.runs.config import Config

ROOT = Path(__file__).resolve().parents[2]
MOST = 3                            # records of each model and engine


def cheap_records():
    """{name: stored} of the smallest records of each model and engine, but for the labelled."""
    found = {}
    for path in sorted(records.RESULTS.glob("*.json.gz")):
        stored = records.stored_in(path)
        run = records.KeptRun(stored)
        stale = (replay.label_of(run) or {}).get("replays") is False
        small = run.config.p == 31 and run.config.steps <= 10_001
        if small and not stale and "card" not in run.made:
            found.setdefault((run.config.model, run.computed_by), []).append(
                (launch.cost(run.config) / run.config.steps, path.name, stored))
    return {name: stored for group in found.values() for _, name, stored in sorted(group)[:MOST]}


def marked():
    """The names, all but the cheapest with the mark slow."""
    found = cheap_records()
    first, *others = sorted(
        found, key=lambda name: launch.cost(records.KeptRun(found[name]).config))
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]


@pytest.mark.slow
@pytest.mark.parametrize("name", marked())
def test_a_kept_record_replays(name):
    # in a process of its own: OPENBLAS_CORETYPE would choose kernels that are not the processor's
    usual = {key: value for key, value in os.environ.items()
             if key not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    child = subprocess.run(
        [sys.executable, "-m", "experiments.study.replay", records.RESULTS / name],
        capture_output=True, text=True, env={**usual, "PYTHONPATH": str(ROOT)})
    if child.returncode == 3:
        pytest.skip(child.stdout)
    assert child.returncode == 0 and child.stdout + child.stderr == "", child.stdout + child.stderr


def test_every_label_says_why_and_is_of_records_that_are_there():
    runs = [records.KeptRun(records.stored_in(path)) for path in records.RESULTS.glob("*.json.gz")]
    for label in replay.labels():
        assert label["words"] and label["replays"] in (True, False)
        assert any(replay.label_of(run) is not None and replay.label_of(run) == label
                   for run in runs), f"labels.json: no record is by engine {label['engine']}"


def test_a_record_of_a_card_that_is_not_here_is_passed_over(tmp_path, capsys):
    stored = {"config": Config(p=5).to_json(), "records": {}, "made": {
        "engine": "0123456789ab", "kernels": "K", "card": "some card", "cupy": "14.2.0"}}
    path = tmp_path / "x.json.gz"
    records.write_record(path, stored)
    assert replay.main(path) == 3
    (line,) = capsys.readouterr().out.strip().splitlines()
    assert line.startswith("x.json.gz: made") and "some card" in line
    assert records.KeptRun(stored).computed_by == "engine 0123456789ab, some card, CuPy 14.2.0"


def test_an_lstm_is_replayed_beyond_its_plateau():
    """Its first 200 steps are alike whatever rounds: at 300 a record of other kernels differed."""
    assert replay.STEPS["lstm"] == 600
    for name, stored in cheap_records().items():
        steps = stored["records"]["step"]
        assert replay.STEPS[stored["config"]["model"]] in steps, name


def test_another_rounding_is_told_in_one_line(tmp_path):
    config = Config(p=5, width=8, heads=2, steps=4, threads=1)
    assert sweeping.work(config, sweeping.folder_of(tmp_path, config)) == "finished"
    kept = sweeping.load_records(tmp_path, config)
    columns = {key: [short(row[key]) for row in kept] for key in kept[0]}
    stored = {"config": config.to_json(), "made": {"engine": "0123456789ab", "blas": "b"},
              "records": columns}
    assert replay.first_difference(stored, 4, 1) is None
    columns["validation_loss"][2] *= 1.0001
    step, metric, now, was = replay.first_difference(stored, 4, 1)
    assert (step, metric) == (3, "validation_loss") and now != was
    line = replay.line_of(stored, "x.json.gz", (step, metric, now, was))
    assert "\n" not in line and "experiments.study --anew" in line and "0123456789ab" in line

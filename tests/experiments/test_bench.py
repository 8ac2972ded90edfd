"""The benchmark: a tiny round, its first losses, and its table."""

import json

import pytest

from experiments import bench
from experiments.bench import Variant
from experiments.benchmark.cases import QUICK
from experiments.benchmark.npdl_side import ENGINES, npdl_step
from tests.tools import slow


@pytest.fixture
def engines():
    with ENGINES:
        yield


@pytest.mark.parametrize("model", slow.but(["lstm"], QUICK))
@pytest.mark.usefixtures("engines")
def test_engines_begin_with_the_same_loss_and_learn(model):
    steps = [npdl_step(QUICK[model], engine, equal)[0]
             for engine, equal in (("plain", True), ("recorded", True), ("recorded", False))]
    losses = [float(step()) for step in steps]
    bench.check_losses(dict(enumerate(losses)))
    for step, first in zip(steps, losses, strict=True):
        for _ in range(5):
            last = step()
        assert float(last) < first


def test_a_tiny_round_prints_a_row_for_each_variant(tmp_path, capsys):
    path = tmp_path / "found.json"
    assert bench.main(["--quick", "--models", "lstm", "--engines", "plain", "--threads", "1",
                       "--json", str(path)]) == 0
    about, _, heading, _, *rows = capsys.readouterr().out.splitlines()
    assert "Python" in about and heading.startswith("| case")
    assert [row.split(" | ")[1] for row in rows] == ["npdl, plain"]
    assert all(len(v["rounds"]) == 1 and v["peak_mb"] > 0
               for v in json.loads(path.read_text())["variants"])


def test_ratios_are_medians_over_paired_rounds():
    def variant(side, name, rounds, work="equal"):
        return Variant("a case", name, side, {}, work, rounds=rounds)

    npdl, torch, less = table = [variant("npdl", "npdl", [2.0, 8.0, 3.0]),
                                 variant("torch", "torch", [1.0, 2.0, 3.0]),
                                 variant("torch", "less", [0.1] * 3, "less")]
    ratios = [line.split(" | ")[6] for line in bench.table(table)]
    assert ratios == ["2.00", "1.00", "0.05"]       # 2/1, 8/2, 3/3; and 0.1, 0.05, 0.033

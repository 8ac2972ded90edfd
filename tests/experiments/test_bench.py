"""The benchmark: a tiny round and its table."""

import pytest

from experiments import bench
from experiments.bench import Variant
from experiments.benchmark import npdl_side
from experiments.benchmark.cases import QUICK, make_batches
from npdl.errors import InputError


def test_a_tiny_round_prints_a_row_for_each_variant(capsys):
    assert bench.main(["--quick", "--models", "lstm", "--engines", "plain", "--threads", "1"]) == 0
    about, _, heading, _, *rows = capsys.readouterr().out.splitlines()
    assert "Python" in about and heading.startswith("| case")
    (row,) = [row.strip("| ").split(" | ") for row in rows]
    assert row[1] == "npdl, plain" and float(row[4]) > 0 and float(row[7]) > 0


def test_equal_work_shares_no_prefixes():
    case = QUICK["gpt"]
    [arrays] = make_batches(case, False)
    engines = [kind(*npdl_side.make_npdl_model(case)) for kind in (
        npdl_side.EveryPositionEngine, npdl_side.RecordedEngine)]
    assert [engine.can_share_prefixes(npdl_side.Batch(*arrays)) for engine in engines] == [
        False, True]


def test_engines_that_begin_with_different_losses_are_refused():
    bench.check_losses({"plain": 3.0, "recorded": 3.0 + 1e-9})
    with pytest.raises(InputError, match="engines begin with different losses"):
        bench.check_losses({"plain": 3.0, "recorded": 3.1})


def test_ratios_are_medians_over_paired_rounds():
    def variant(side, name, rounds, work="equal"):
        return Variant("a case", name, side, {}, work, rounds=rounds)

    npdl, torch, less = table = [variant("npdl", "npdl", [2.0, 8.0, 3.0]),
                                 variant("torch", "torch", [1.0, 2.0, 3.0]),
                                 variant("torch", "less", [0.1] * 3, "less")]
    ratios = [line.split(" | ")[6] for line in bench.format_rows(table)]
    assert ratios == ["2.00", "1.00", "0.05"]       # 2/1, 8/2, 3/3; and 0.1, 0.05, 0.033

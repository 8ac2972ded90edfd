"""The programs of docs/examples are short, and their models learn what they claim."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from npdl.data import pad_with_lengths
from npdl.errors import InputError
from npdl.train.config import Config
from npdl.train.metrics import read_records
from npdl.train.run import train

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "examples"


# tests/train/test_own.py runs own_optimizer, whose sweep takes a minute, with fewer steps.
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "own_optimizer")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_learns(name, capsys):
    path = FOLDER / f"{name}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    accuracy = runpy.run_path(path)["main"]()
    assert accuracy > 0.95
    assert f"{accuracy:.1%}" in capsys.readouterr().out.splitlines()[-1]


def test_pandas_reads_what_a_run_recorded(tmp_path):
    """Run the example of docs/own.md."""
    pandas = pytest.importorskip("pandas")
    config = Config(p=7, layers=1, width=16, steps=20, eval_first=0, eval_every=5, engine="plain")
    train(config, tmp_path / "run", quiet=True, metrics={"twice": lambda trainer: 2 * trainer.step})
    path = tmp_path / "run" / "metrics.jsonl"
    table, records = pandas.read_json(path, lines=True, precise_float=True), read_records(path)
    assert len(table) == 4 and (table.twice == 2 * table.step).all()
    for row, record in zip(table.to_dict("records"), records, strict=True):
        assert {name: row[name] for name in record} == record


def test_pad_with_lengths():
    x, lengths = pad_with_lengths([[3, 1, 4], [], [1, 5]], -1)
    np.testing.assert_array_equal(x, [[3, 1, 4], [-1, -1, -1], [1, 5, -1]])
    assert x.dtype == lengths.dtype == int and lengths.tolist() == [3, 0, 2]
    x, _ = pad_with_lengths([np.ones((1, 2), "float32"), np.zeros((3, 2), "float32")])
    assert x.shape == (2, 3, 2) and x.dtype == np.float32 and x.sum() == 2
    for wrong in ([], [[]], [3, 4], [np.ones((2, 3)), np.ones((2, 4))]):
        with pytest.raises(InputError, match="pad_with_lengths: got .* give one or more"):
            pad_with_lengths(wrong)

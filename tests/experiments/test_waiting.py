"""The bench of BLAS's waiting threads: it prints its four times, and leaves no process behind."""

import subprocess
import sys

import pytest

from experiments.bench import waiting


@pytest.mark.slow
def test_four_times_are_printed(monkeypatch, capsys):
    begun, popen = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a: begun.append(popen(*a)) or begun[-1])
    monkeypatch.setattr(sys, "argv", ["waiting", "--steps", "1"])
    waiting.main()
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["BLAS", "own", "one"] and len(rows) == 2
    assert all(int(number) > 0 for row in rows for number in row.split()[-2:])
    assert len(begun) == 1 and begun[0].poll() is not None

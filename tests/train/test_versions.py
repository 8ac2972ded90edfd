"""The versions that are saved with a run, and the engine's digest."""

import json

from npdl.train import versions
from npdl.train.run import read_resumed_config, train


def test_the_versions_that_decide_the_bits_are_named():
    found = versions.collect_versions()
    assert found.keys() == {"npdl", "engine", "numpy", "blas", "kernels", "compiler", "processor"}
    assert all(isinstance(value, str) and value for value in found.values())


def test_the_digest_follows_the_files_of_the_engine_only(tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    for name in versions.ENGINE:
        path = tmp_path / name if name.endswith(".py") else tmp_path / name / "a.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    digest = versions.engine_digest.__wrapped__
    before = digest()
    (tmp_path / "script.py").write_text("")
    assert digest() == before and len(before) == 12
    (tmp_path / "npdl" / "core.py").write_text("x = 2\n")
    assert digest() != before


def test_a_run_of_another_engine_says_so_and_continues(copy_of, capsys):
    folder = copy_of("gpt")
    path = folder / "config.json"
    saved = json.loads(path.read_text())
    now, saved["versions"]["engine"] = saved["versions"]["engine"], "0123456789ab"
    path.write_text(json.dumps(saved))
    assert train(read_resumed_config(folder, {"steps": 5}), folder, resume=True, quiet=True) == 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"was computed with engine 0123456789ab and continues with {now}" in line
    assert json.loads(path.read_text())["versions"]["engine"] == now

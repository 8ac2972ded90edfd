"""The versions that are saved with a run, and the engine's digest."""

from npdl.train import versions


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

"""Keep compiled steps in a temporary directory, and compile most of them without optimization."""

import pytest

from npdl.engine import c_build, step


@pytest.fixture(scope="session", autouse=True)
def use_temporary_cache(tmp_path_factory):
    """Keep what the tests compile out of the user's cache directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def reset_printed_notes():
    """Let each test print notes that are otherwise printed once in a process."""
    step.print_note_once.cache_clear()


@pytest.fixture
def unoptimized_compiler(monkeypatch):
    """Compile the same code without optimization, which takes a third of the time."""
    monkeypatch.setattr(c_build, "FLAGS", ["-O0" if f == "-O3" else f for f in c_build.FLAGS])

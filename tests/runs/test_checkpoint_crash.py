"""A save that fails or is killed leaves the old checkpoint whole, and nothing else."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl_train.folders import clean_stale
from npdl_train.process import has_ended
from npdl_train.runs import checkpoint
from tests.runs.checkpoint_example import META, assert_same, example


@pytest.mark.parametrize("module, name", [("os", "fsync"), ("os", "replace"), ("np", "write")])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"),
                                   KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file_and_no_temporary(
    tmp_path, monkeypatch, module, name, error
):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)

    def fail(*_, **__):
        assert any(entry.name.endswith(".tmp") for entry in tmp_path.iterdir())
        raise error

    with monkeypatch.context() as patch:
        if module == "os":
            patch.setattr(os, name, fail)
        else:
            patch.setattr(np.lib.format, "write_array", fail)
        with pytest.raises(CheckpointError if isinstance(error, OSError) else KeyboardInterrupt):
            checkpoint.save(path, {"W": np.ones(3)}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]
    got, meta = checkpoint.load(path)
    assert_same(got, example())
    assert meta == META


FULL_DISK = """
import resource, signal, sys, numpy as np
from npdl.errors import CheckpointError
from npdl_train.runs import checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for count in (5_000, 100_000):            # fails late, fails early
    try:
        checkpoint.save(sys.argv[1], {"W": np.ones(count), "b": np.ones(3_000)}, {})
    except CheckpointError as error:
        print(error)
"""

KILLED = """
import os, signal, sys, numpy as np
from npdl_train.runs import checkpoint
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], die)
checkpoint.save(sys.argv[1], {"W": np.ones(5)}, {})
"""


def test_a_write_that_the_system_cuts_short(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)
    ran = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True,
                         check=True)
    assert ran.stdout.count("cannot be written (File too large)") == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]
    assert_same(checkpoint.load(path)[0], example())


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_killed_while_saving_then_cleaned(tmp_path, moment):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)
    ran = subprocess.run([sys.executable, "-c", KILLED, path, moment], capture_output=True)
    assert ran.returncode == -9
    assert_same(checkpoint.load(path)[0], example())
    removed = clean_stale(tmp_path)
    assert len(removed) == 1 and removed[0].startswith(".a.npz.")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_a_folder_that_vanished_or_is_a_file(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written.*No such file"):
        checkpoint.save(tmp_path / "gone" / "a.npz", example(), META)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        checkpoint.save(tmp_path / "file" / "a.npz", example(), META)
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="cannot be written"):
        checkpoint.save(tmp_path / "folder", example(), META)
    with pytest.raises(InputError, match="is a folder"):
        checkpoint.save("/", example(), META)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


def test_clean_stale_removes_only_what_dead_processes_left(tmp_path):
    ran = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ran.pid, os.WEXITED | os.WNOWAIT)   # a zombie: nobody has asked how
    dead, alive = f".a.npz.{ran.pid}.tmp", f".a.npz.{os.getpid()}.tmp"
    others = ["a.npz", f"a.npz.{ran.pid}.tmp", ".a.npz.tmp", ".a.npz.x1.tmp", ".a.npz.0.tmp"]
    for name in (dead, alive, ".b.99999999999999999999.tmp", *others):
        (tmp_path / name).write_text("")
    (tmp_path / f".folder.{ran.pid}.tmp").mkdir()
    assert clean_stale(tmp_path) == sorted([dead, ".b.99999999999999999999.tmp"])
    assert {entry.name for entry in tmp_path.iterdir()} == {
        alive, f".folder.{ran.pid}.tmp", *others
    }
    assert clean_stale(tmp_path / "none") == []
    with pytest.raises(CheckpointError, match="cannot be cleaned"):
        clean_stale(tmp_path / "a.npz")
    assert not has_ended(1)                  # not ours, and still alive
    ran.wait()
    assert has_ended(ran.pid)

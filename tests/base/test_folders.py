"""Folders and files that are created atomically appear as a whole, or not at all."""

import os
import subprocess
import sys

import pytest

from npdl.cli.folders import create_folder_atomically, remove_stale_files
from npdl.cli.process import has_ended
from npdl.files import write_atomically


def make_folder(path, text):
    with create_folder_atomically(path) as made:
        (made / "deep").mkdir()
        (made / "deep" / "page").write_text(text)


def read_page(path):
    return (path / "deep" / "page").read_text()


@pytest.mark.parametrize("write", [
    lambda path: write_atomically(path, lambda file: file.write(b"x")),
    lambda path: make_folder(path, "x")])
def test_content_is_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch, write):
    calls = []

    def noted(name, function):
        def call(*arguments):
            calls.append(name if name != "fsync" else
                         "fsync " + os.path.basename(os.readlink(f"/proc/self/fd/{arguments[0]}")))
            return function(*arguments)
        return call

    for name in ("fsync", "rename", "replace"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    (tmp_path / "there").mkdir()
    write(tmp_path / "there" / "name")
    place = next(i for i, call in enumerate(calls) if call in ("rename", "replace"))
    temporary = f"fsync .name.{os.getpid()}.tmp"
    assert calls[place - 1] == temporary and calls[place + 1:] == ["fsync there"]


def test_a_folder_is_made_as_a_whole_or_not_at_all(tmp_path):
    site = tmp_path / "site"
    with pytest.raises(KeyError), create_folder_atomically(site) as made:
        (made / "half").write_text("")
        raise KeyError
    assert os.listdir(tmp_path) == []
    make_folder(site, "one")
    with pytest.raises(ValueError, match="is not an empty folder"):
        make_folder(site, "two")
    assert read_page(site) == "one" and os.listdir(tmp_path) == ["site"]


def test_clean_stale_removes_only_temporaries_of_dead_processes(tmp_path):
    ran = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ran.pid, os.WEXITED | os.WNOWAIT)       # a zombie
    dead, alive = f".a.npz.{ran.pid}.tmp", f".a.npz.{os.getpid()}.tmp"
    others = ["a.npz", f"a.npz.{ran.pid}.tmp", ".a.npz.tmp", ".a.npz.x1.tmp", ".a.npz.0.tmp"]
    for name in (dead, alive, *others):
        (tmp_path / name).write_text("")
    assert remove_stale_files(tmp_path) == [dead]
    assert {entry.name for entry in tmp_path.iterdir()} == {alive, *others}
    assert not has_ended(1)
    ran.wait()
    assert has_ended(ran.pid)

"""Scripts whose outputs are closed, are no regular files, or can't show all characters."""

import dataclasses
import errno
import os
import signal
import socket

import pytest

pytest.importorskip("resource", reason="closed descriptors and SIGHUP are POSIX's")

from npdl.__main__ import main as npdl_command
from npdl.cli.console import run_guarded
from npdl.train import checkpoint
from npdl.train.config import Config
from npdl.train.run import train
from tests.tools.processes import ARITHMETIC, start, wait_for_step
from tests.tools.refusals import run_and_get_status


@pytest.mark.parametrize(("number", "advice"), [
    (errno.ENOSPC, "free space, or"), (errno.ENOENT, "make the folder"),
    (errno.EMFILE, "raise the limit"),
    (errno.EACCES, "choose another"), (errno.EAGAIN, "end other programs")])
def test_what_the_system_refuses_has_its_own_remedy(capsys, number, advice):
    def refuse():
        raise OSError(number, os.strerror(number))

    assert run_guarded("npdl", refuse) == 2
    assert capsys.readouterr().err.startswith(
        f"npdl: the system reports an error ({os.strerror(number)}); {advice}")


SMALL = Config(p=5, width=8, heads=2, steps=1, engine="plain")
TINY = (*ARITHMETIC, "--heads", 2, "--steps", 2, "--engine", "plain")


def environment(**settings):
    """Return options of `start` that add these environment variables."""
    return {"env": {**os.environ, "PYTHONPATH": os.getcwd(), **settings}}


def closing(*handles):
    return {"preexec_fn": lambda: [os.close(handle) for handle in handles]}


@pytest.mark.slow
@pytest.mark.parametrize("how", [
    environment(PYTHONIOENCODING="cp1252", MPLBACKEND="odd"),
    environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"), closing(1), closing(0, 1, 2),
])
def test_a_training_needs_neither_utf8_nor_open_outputs(tmp_path, how):
    process = start("train_gpt", *TINY, "--out", tmp_path / "run", **how)
    output, errors = process.communicate()
    assert process.returncode == 0 and "Traceback" not in errors, errors
    assert checkpoint.load(tmp_path / "run" / "checkpoint.npz")[1]["step"] == 2
    assert {"summary.json", "curves.png"} < set(os.listdir(tmp_path / "run"))
    if "env" in how:
        assert "t(L)" in output


def test_a_package_that_does_not_load_is_one_line(tmp_path):
    (tmp_path / "tqdm").mkdir()
    (tmp_path / "tqdm" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')")
    process = start("train_gpt", *TINY, "--out", tmp_path / "run",
                    **environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{os.getcwd()}"))
    _, errors = process.communicate()
    assert process.returncode == 2 and errors.count("\n") == 1
    assert "tqdm is installed, but does not load (libfoo.so is missing); reinstall it" in errors


@pytest.mark.slow
def test_a_training_whose_terminal_closes_saves_and_leaves(tmp_path):
    process = start("train_gpt", *ARITHMETIC, "--heads", 2, "--steps", 100_000, "--save-every",
                    100_000, "--out", tmp_path / "run")
    wait_for_step(process, tmp_path / "run", 3)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)                 # a computer that shuts down sends both
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate()
    assert process.returncode == 130 and "resume it with: --resume" in errors
    assert checkpoint.load(tmp_path / "run" / "checkpoint.npz")[1]["step"] >= 3
    assert not (tmp_path / "run" / "claim.json").exists()


@pytest.mark.parametrize(("odd", "arguments"), [
    ("pipe", ["plot", "curves", "{run}", "--out"]),
    *((odd, ["step", "Linear", "--html"]) for odd in ("pipe", "folder", "socket"))])
def test_what_is_no_file_is_not_replaced(tmp_path, monkeypatch, capsys, arguments, odd):
    """The socket stands for a device file, which only root can create."""
    train(SMALL, tmp_path / "run", quiet=True)
    path = tmp_path / "place"
    monkeypatch.chdir(tmp_path)                 # a socket's path must be short
    if odd == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("place")
    else:
        os.mkfifo(path) if odd == "pipe" else path.mkdir()
    before = os.lstat(path)
    given = [argument.format(run=tmp_path / "run") for argument in arguments]
    assert run_and_get_status(npdl_command, [*given, str(path)]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and "place" in errors and "not a file" in errors
    assert os.lstat(path) == before
    assert sorted(os.listdir(tmp_path)) == ["place", "run"]


def test_a_picture_that_cannot_be_drawn_costs_no_more_than_itself(tmp_path, monkeypatch, capsys,
                                                                  curves):
    def fail(*arguments):
        raise ValueError("no\nfont")

    monkeypatch.setattr("npdl.train.folder.plot_curves", fail)
    assert train(dataclasses.replace(SMALL, steps=2), tmp_path / "run") == 0
    found = capsys.readouterr()
    assert "curves.png cannot be drawn (no font); everything else is saved\n" in found.err
    assert "2 steps in" in found.out and (tmp_path / "run" / "summary.json").exists()
    assert train(SMALL, tmp_path / "one record") == 0
    assert "curves.png" not in capsys.readouterr().err              # no attempt to draw curves


def test_numbers_that_overflow_are_one_line_and_no_warnings(tmp_path):
    train(SMALL, tmp_path / "run", quiet=True)
    path = tmp_path / "run" / "checkpoint.npz"
    arrays, meta = checkpoint.load(path)
    for name in arrays:
        arrays[name][...] = 3e38
    checkpoint.save(path, arrays, meta)
    process = start("ask", tmp_path / "run", "1 + 1 =")
    output, errors = process.communicate()
    assert process.returncode == 2 and not output
    assert errors.count("\n") == 1 and "not finite" in errors

"""Whole or not at all: what is left when a process is killed between two files, and the way on."""

import os
import signal
import subprocess
import sys

import pytest

from npdl.files import write_atomically
from npdl_train.commands.finetune import show_result
from npdl_train.folders import new_folder
from npdl_train.runs import checkpoint, folder, run
from npdl_train.runs.config import Config
from npdl_train.runs.metrics import read_metrics
from npdl_train.runs.run import train
from npdl_train.runs.sweep import is_finished, work
from tests.tools import commands, slow
from tests.tools.refusals import check_refused

CONFIG = Config(p=5, width=8, heads=2, layers=1, steps=4, eval_first=0, eval_every=2, save_every=2)
OPTIONS = ["--p", "5", "--width", "8", "--heads", "2", "--layers", "1", "--steps", "4",
           "--save-every", "2", "--threads", "1", "--quiet"]


def killed(act, *patches):
    """Do `act()` in a child with some names set anew, (module, name, value); it must be killed."""
    pid = os.fork()
    if pid == 0:
        for module, name, value in patches:
            setattr(module, name, value)
        act()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(function):
    return lambda *arguments, **options: die(function(*arguments, **options))


def dead_at(name, function):
    """`function`, but for a path with this name: then the process ends."""
    return lambda path, *more: (die if os.path.basename(path) == name else function)(path, *more)


PLACES = {
    "before the picture": (folder, "plot_curves", die),
    "before the summary": (folder, "write_json", dead_at("summary.json", folder.write_json)),
    "before the claim goes": (run, "conclude", die_after(run.conclude)),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", slow.but(["before the summary"], PLACES))
def test_a_run_of_a_sweep_that_was_killed_at_its_end_comes_to_it(tmp_path, curves, place):
    assert work(CONFIG, tmp_path / "whole") == "finished"
    killed(lambda: work(CONFIG, tmp_path / "run"), PLACES[place])
    assert "claim.json" in os.listdir(tmp_path / "run")
    assert is_finished(tmp_path / "run", CONFIG) is (place == "before the claim goes")
    assert work(CONFIG, tmp_path / "run") == "finished"
    left = {*os.listdir(tmp_path / "run")} - {"claim.json"}
    assert left == {*os.listdir(tmp_path / "whole")} == {
        "checkpoint.npz", "config.json", "curves.png", "metrics.jsonl", "summary.json"}
    for name in ("curves.png", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("command", ["train", "finetune"])
def test_killed_before_the_first_checkpoint_the_same_command_begins_anew(tmp_path, capsys, command):
    base, whole, out = (str(tmp_path / name) for name in ("base", "whole", "run"))
    assert commands.train_gpt([*OPTIONS, "--out", base]) == 0
    act, given = commands.train_gpt, OPTIONS
    if command == "finetune":
        act, given = commands.finetune, [base, "--operator", "-", "--steps", "4", "--quiet"]
    assert act([*given, "--out", whole]) == 0
    killed(lambda: act([*given, "--out", out]), (checkpoint, "save", die))
    check_refused(act, ["--resume", "--quiet", "--out", out], "without --resume",
                  tmp_path / "nothing", capsys)
    assert act([*given, "--out", out]) == 0
    for name in ("metrics.jsonl", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    before = sorted(os.listdir(out))
    check_refused(act, [*given, "--out", out], "go on with it by --resume", tmp_path / "nothing",
                  capsys)
    assert sorted(os.listdir(out)) == before


GREEDY = """
import os
import resource
import sys

from npdl_train.runs import folder
from tests.tools import commands

def greedy(*arguments):
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (32 << 20), -1))
    kept = greedy.kept = []
    for size in (1 << 20, 1 << 10, 64):
        try:
            while True:
                kept.append(bytearray(size))
        except MemoryError:
            pass
    raise MemoryError

folder.plot_curves = greedy
sys.exit(commands.train_gpt(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_picture_that_takes_all_memory_ends_no_finished_run(tmp_path):
    ended = subprocess.run([sys.executable, "-c", GREEDY, *OPTIONS, "--out", tmp_path / "run"],
                           stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "curves.png: cannot be drawn (MemoryError); all else is saved" in ended.stderr
    assert sorted(os.listdir(tmp_path / "run")) == ["checkpoint.npz", "config.json",
                                                    "metrics.jsonl", "summary.json"]


@pytest.mark.parametrize("write", [
    lambda path: write_atomically(path, lambda file: file.write(b"x")),
    lambda path: filled(path, "x"), lambda path: filled(path, "y", replace=True)])
def test_what_gets_its_name_is_on_the_disk_before_and_its_name_is_after(
        tmp_path, monkeypatch, write):
    """A kill cannot show it: the system writes what a dead process left, lost power does not."""
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


def filled(path, text, **how):
    with new_folder(path, **how) as made:
        (made / "deep").mkdir()
        (made / "deep" / "page").write_text(text)


def page(path):
    return (path / "deep" / "page").read_text()


def test_a_folder_is_replaced_whole_or_stays(tmp_path):
    site = tmp_path / "site"
    filled(site, "one")
    with pytest.raises(ValueError, match="is not an empty folder"):
        filled(site, "two")
    with pytest.raises(KeyError), new_folder(site, replace=True) as made:
        (made / "half").write_text("")
        raise KeyError
    assert page(site) == "one" and os.listdir(tmp_path) == ["site"]
    filled(site, "two", replace=True)
    assert page(site) == "two" and os.listdir(tmp_path) == ["site"]


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_a_folder_whose_maker_was_killed_can_be_made_again(tmp_path, renames):
    """Before the old one is moved, before the new one is there, before the old one is removed."""
    site, rename = tmp_path / "site", os.rename
    filled(site, "one")
    left = [renames]

    def counted(*paths):
        if left[0] == 0:
            die()
        left[0] -= 1
        rename(*paths)
        if renames == 2 and left[0] == 0:
            die()

    killed(lambda: filled(site, "two", replace=True), (os, "rename", counted))
    assert not site.exists() if renames == 1 else page(site) == ("one" if renames == 0 else "two")
    filled(site, "three", replace=True)
    assert page(site) == "three" and os.listdir(tmp_path) == ["site"]


def test_a_fine_tuning_that_was_stopped_tells_each_loss_once(tmp_path, capsys):
    assert train(CONFIG, tmp_path / "run", quiet=True) == 0
    records, _ = read_metrics(tmp_path / "run" / "metrics.jsonl")
    show_result(tmp_path / "run", 0, False)
    assert capsys.readouterr().out.count("at step") == len(records) == 2
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines(True)
    (tmp_path / "run" / "metrics.jsonl").write_text(lines[0])
    show_result(tmp_path / "run", 130, False)
    assert capsys.readouterr().out.count("at step") == 1

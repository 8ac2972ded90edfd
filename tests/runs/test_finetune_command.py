"""The command that fine-tunes: what it refuses, and --check."""

import os
import signal

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Adapters, Config
from npdl_train.runs.finetune import finetune_config
from npdl_train.runs.run import load_run, train
from tests.tools import commands
from tests.tools.refusals import check_refused


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a small GPT that was trained for one step."""
    folder = tmp_path_factory.mktemp("base") / "run"
    train(Config(p=7, width=16, heads=2, eval_first=0, steps=1, r_train=1.0), folder, quiet=True)
    return folder


BAD = [
    (("{base}", "--p", 8), "--p 8: the run's vocabulary has the numbers 0 to 6"),
    (("{base}", "--operator", "^"), "operator"),
    (("{base}", "--rank", 0), "rank"),
    (("{base}", "--rank", 100), "rank = 100"),
    (("{base}", "--alpha", -1), "--alpha -1.0"),
    (("{base}", "--where", "W_X"), "no linear map fits where = ('W_X',)"),
    (("{base}", "--bits", 1), "bits = 1"),
    (("{base}", "--bits", 4, "--block", 0), "--block 0: must be"),
    (("{base}", "--block", 64), "give --bits too"),
    (("{base}", "--rounding", "nearest"), "give --bits too"),
    (("{base}", "--text", "play.txt"), "means nothing to modular arithmetic"),
    (("{base}", "--lr", "nan"), "--lr"),
    (("{base}/nowhere",), "there is no such folder"),
    ((), "give the folder of the run"),
    (("{base}", "--resume"), "give the folder of the run"),
    (("{base}", "--merge"), "has no adapters to merge"),
    (("{base}", "--merge", "--rank", 2), "--rank: means nothing to --merge"),
    (("{base}", "--merge", "--check"), "--check: means nothing to --merge"),
    (("{base}", "--merge", "--for-steps", 2), "--for-steps: means nothing to --merge"),
    (("{base}", "--for-steps", 0), "--for-steps 0: must be"),
    (("--resume",), "holds no run"),
    (("--resume", "--rank", 3), "--rank: the adapters"),
]


@pytest.mark.parametrize("arguments, mentioned", BAD)
def test_bad_options_are_one_line_and_status_2(tmp_path, base, capsys, arguments, mentioned):
    arguments = [str(a).format(base=base) for a in arguments]
    folder = tmp_path / "run"
    check_refused(commands.finetune, [*arguments, "--quiet", "--out", str(folder)], mentioned,
                  folder, capsys)


def test_runs_of_the_wrong_kind_are_refused(tmp_path, base, capsys):
    out = ["--operator", "-", "--steps", "2", "--quiet", "--out", str(tmp_path / "run")]
    assert commands.finetune([str(base), *out]) == 0
    with pytest.raises(InputError, match="has adapters already"):
        finetune_config(load_run(tmp_path / "run"), Adapters(), {})
    assert commands.finetune(["--resume", "--out", str(base)]) == 2
    assert "was not fine-tuned" in capsys.readouterr().err
    assert commands.finetune([str(base), "--steps", "1", "--out", str(base)]) == 2
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["lora", "qlora"])
def test_check_finds_where_a_fine_tuning_goes_wrong(tmp_path, base, capsys, kind):
    out = str(tmp_path / "run")
    options = [str(base), "--lr", "1e30", "--steps", "5", "--quiet", "--out", out]
    bits = ["--bits", "4"] if kind == "qlora" else []
    assert commands.finetune([*options, *bits]) == 2
    plain = capsys.readouterr().err
    assert "--resume --check" in plain and len(plain.strip().splitlines()) == 1
    assert commands.finetune(["--resume", "--check", "--quiet", "--out", out]) == 2
    checked = capsys.readouterr().err
    assert "--resume --check" not in checked and "step " in checked
    assert len(checked.strip().splitlines()) == 1


def test_check_changes_no_number(tmp_path, base):
    for name, more in (("plain", []), ("checked", ["--check"])):
        options = ["--operator", "-", "--steps", "6", "--threads", "1", "--quiet"]
        assert commands.finetune([str(base), *options, *more, "--out", str(tmp_path / name)]) == 0
    one, other = (checkpoint.load(tmp_path / name / "checkpoint.npz")[0]
                  for name in ("plain", "checked"))
    assert all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, base):
    """A folder with a fine-tuning of `base`, and the arguments that merge it."""
    folder = tmp_path_factory.mktemp("tuned") / "run"
    assert commands.finetune([str(base), "--operator", "-", "--steps", "2", "--threads", "1",
                          "--quiet", "--out", str(folder)]) == 0
    return folder, [str(folder), "--merge", "--quiet", "--out"]


@pytest.mark.slow
@pytest.mark.parametrize("call, times", [("npdl_train.runs.checkpoint.save", 1), ("os.fsync", 1),
                                         ("os.fsync", 8), ("os.rename", 1)])
def test_a_killed_merge_is_not_there_and_can_be_made_again(tmp_path, tuned, monkeypatch, curves,
                                                           call, times):
    folder, merge = tuned
    out, left = tmp_path / "merged", iter(range(times, 0, -1))
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(call, lambda *_: next(left) == 1 and os.kill(os.getpid(), 9))
        try:
            commands.finetune([*merge, str(out)])
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not out.exists()
    assert commands.finetune([*merge, str(out)]) == 0
    assert os.listdir(tmp_path) == ["merged"]                   # what was begun is gone
    assert sorted(os.listdir(out)) == ["checkpoint.npz", "config.json", "curves.png",
                                       "metrics.jsonl", "summary.json"]
    assert (out / "metrics.jsonl").read_bytes() == (folder / "metrics.jsonl").read_bytes()
    assert commands.finetune([*merge, str(out)]) == 2               # it is there now


def test_a_table_has_runs_with_adapters(base, tuned, capsys):

    assert commands.table([str(tuned[0]), str(base)]) == 0
    assert "GPT, - mod 7" in capsys.readouterr().out


def test_a_merged_run_without_its_checkpoint_is_not_resumed(tmp_path, tuned, capsys):
    """It would begin with random values."""
    out = tmp_path / "merged"
    assert commands.finetune([*tuned[1], str(out)]) == 0
    (out / "checkpoint.npz").unlink()
    check_refused(commands.train_gpt,
                  ["--resume", "--quiet", "--out", str(out)], "checkpoint.npz: is missing",
                  tmp_path / "nothing", capsys)


def test_a_full_disk_leaves_nothing_of_a_merge(tmp_path, tuned, monkeypatch, capsys):
    def refuse(path, arrays, meta):
        raise CheckpointError(f"{path}: cannot be written (No space left on device); free space")

    with monkeypatch.context() as patch:
        patch.setattr("npdl_train.runs.checkpoint.save", refuse)
        check_refused(commands.finetune, [*tuned[1], str(tmp_path / "merged")], "No space left",
                      tmp_path / "merged", capsys)
    assert os.listdir(tmp_path) == []
    (tmp_path / "merged").mkdir()                               # an empty folder will do
    assert commands.finetune([*tuned[1], str(tmp_path / "merged")]) == 0

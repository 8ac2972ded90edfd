"""What training refuses: one line, exit status 2, and what was there as it was."""

import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl_train.runs.run import resumed_config, train
from tests.runs.test_training import script, small
from tests.tools import commands
from tests.tools.refusals import check_refused
from tests.tools.trained import arrays_of, assert_same_bytes

BAD = [
    (("--p", 1), "p"),
    (("--width", -4), "--width"),
    (("--width", 30), "--heads 4 does not divide --width 30"),
    (("--r-train", 0), "--r-train"),
    (("--r-train", 1.5), "--r-train"),
    (("--r-train", "nan"), "--r-train"),
    (("--operator", "^"), "operator"),
    (("--operator", "/", "--p", 12), "prime"),
    (("--orders", "4"), "orders"),
    (("--steps", "many"), "--steps"),
    (("--steps", 0), "--steps"),
    (("--lr", "nan"), "--lr"),
    (("--lr", -1), "--lr"),
    (("--dropout", 1), "--dropout"),
    (("--engine", "slow"), "--engine"),
    (("--compute", "shared"), "--compute"),
    (("--threads", 0), "--threads 0"),
    (("--threads", 10**9), "--threads 1000000000: must be an integer, 1 or more, 256 or less"),
    (("--for-steps", 0), "--for-steps 0"),
    (("--for-steps", "many"), "--for-steps"),
    (("--norm", "both"), "--norm"),
    (("--activation", "swish"), "--activation"),
    (("--betas", 1, 2), "betas"),
    (("--clip", 0), "--clip"),
    (("--schedule", "cosine", "--warmup", 20001), "warmup"),
    (("--nonsense",), "--nonsense"),
    (("--seed", -1), "--seed"),
    (("--resume",), "config.json"),
]


@pytest.mark.parametrize("arguments, mentioned", BAD)
def test_bad_options_are_one_line_and_status_2(tmp_path, capsys, arguments, mentioned):
    folder = tmp_path / "run"
    check_refused(commands.train_gpt,
                  [*map(str, arguments), "--out", str(folder)], mentioned, folder, capsys)


def test_cupy_that_is_missing_is_one_line_and_status_2(tmp_path):
    try:
        import cupy  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("CuPy is installed here")
    process = script("train_gpt", "--backend", "cupy", "--out", tmp_path / "run")
    _, errors = process.communicate()
    assert process.returncode == 2
    assert len(errors.strip().splitlines()) == 1 and "CuPy is not installed" in errors


def test_a_folder_with_a_run_or_without_permission_is_refused(tmp_path, capsys):
    train(small(steps=4), tmp_path / "run", quiet=True)
    before = arrays_of(tmp_path / "run")
    assert main(["train-gpt", "--out", str(tmp_path / "run"), "--steps", "5"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert_same_bytes(before, arrays_of(tmp_path / "run"))
    (tmp_path / "file").write_text("")
    assert main(["train-gpt", "--out", str(tmp_path / "file/run"), "--steps", "5"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_resume_with_other_settings_is_refused(tmp_path):
    train(small(steps=4), tmp_path, quiet=True)
    with pytest.raises(InputError, match="--lr 0.5"):
        resumed_config(tmp_path, {"lr": 0.5})
    with pytest.raises(InputError, match="--steps 3"):
        resumed_config(tmp_path, {"steps": 3})
    with pytest.raises(InputError, match="--engine plain"):
        resumed_config(tmp_path, {"engine": "plain"})
    assert resumed_config(tmp_path, {"steps": 6, "p": 7}).steps == 6


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other model"])
def test_a_damaged_checkpoint_is_one_line(tmp_path, capsys, damage):
    train(small(steps=4), tmp_path / "run", quiet=True)
    path = tmp_path / "run/checkpoint.npz"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 4
    if damage == "other model":
        train(small("lstm", steps=4), tmp_path / "other", quiet=True)
        content = (tmp_path / "other/checkpoint.npz").read_bytes()
    path.write_bytes(content[: {"cut": -100, "empty": 0}.get(damage, len(content))])
    assert main(["train-gpt", "--resume", "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err.strip()
    assert len(errors.splitlines()) == 1 and "checkpoint.npz" in errors

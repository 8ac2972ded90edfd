"""Fine-tuning the folder of a real model: run folders, resuming, merging, invalid options."""

import itertools
import json
import shutil

import numpy as np
import pytest

from npdl.adapt.linears import QuantLinear
from npdl.core import walk
from npdl.train.metrics import read_records
from npdl.train.pretrained import load
from npdl.train.run import load_run
from tests.tools import commands, slow
from tests.tools.refusals import check_refused
from tests.tools.trained import assert_same_runs, load_run_arrays
from tests.train.pretrained import model_folders

pytest.importorskip("tokenizers", reason="the text is in the model's tokens")

KINDS = {"lora": ["--rank", "2"], "qlora": ["--rank", "2", "--bits", "4", "--block", "16"],
         "full": ["--full"]}
every_kind = pytest.mark.parametrize("kind", slow.mark_except(["qlora"], KINDS))
IDS = np.arange(12).reshape(2, 6)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder `model` and a text beside it."""
    folder = tmp_path_factory.mktemp("base")
    model_folders.write_model_folder(folder / "model", model_folders.LLAMA)
    model_folders.write_model_folder(folder / "gpt2", model_folders.GPT2)
    (folder / "fox.txt").write_text(model_folders.TEXT * 40)
    return folder


def finetune(base, out, *options, model="model"):
    given = ["--steps", "6", "--batch", "2", "--window", "8", "--eval-every", "3", "--eval-batches",
             "1", "--engine", "plain", "--quiet", "--out", str(out)]
    return commands.finetune([str(base / model), "--text", str(base / "fox.txt"), *given,
                              *map(str, options)])


@pytest.mark.parametrize(("kind", "model"), slow.mark_except(
    [("qlora", "gpt2")], list(itertools.product(KINDS, ("model", "gpt2"))), tuple))
def test_loss_falls_and_checkpoint_has_trained_parameters(tmp_path, base, kind, model):
    out = tmp_path / "run"
    assert finetune(base, out, *KINDS[kind], "--steps", 60, "--lr", 0.02, "--engine", "recorded",
                    "--target", "numpy", model=model) == 0
    first, *_, last = read_records(out / "metrics.jsonl")
    assert first["step"] == 0 and last["validation_loss"] < 0.9 * first["validation_loss"]
    tuned = load_run(out)
    learned = {name.removeprefix("param/") for name in load_run_arrays(out)
               if name.startswith("param/")}
    assert learned == {name for name, _ in tuned.model.params()}
    if kind != "full":
        assert all(name.endswith((".A", ".B")) for name in learned)
    plain = load(base / model).model.state_dict()
    for name, array in tuned.model.state_dict().items():
        if kind == "lora" and not name.endswith((".A", ".B")):
            np.testing.assert_array_equal(array, plain[name.replace(".base.", ".")])
    assert any(isinstance(layer, QuantLinear) for layer in walk(tuned.model)) == (kind == "qlora")


@pytest.mark.slow
@every_kind
def test_a_resumed_run_is_bitwise_identical(tmp_path, base, kind):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert finetune(base, whole, *KINDS[kind]) == 0
    assert finetune(base, parts, *KINDS[kind], "--for-steps", 2) == 0
    for _ in range(2):
        assert commands.finetune(["--resume", "--for-steps", "2", "--quiet",
                                  "--out", str(parts)]) == 0
    assert_same_runs(whole, parts)


@pytest.mark.slow
@every_kind
def test_merged_model_folder_loads(tmp_path, base, kind, capsys):
    out, merged = tmp_path / "run", tmp_path / "merged"
    assert finetune(base, out, *KINDS[kind], "--lr", 0.1) == 0
    assert commands.finetune([str(out), "--merge", "--out", str(merged)]) == 0
    assert "transformers and `python -m npdl generate` load it" in capsys.readouterr().out
    tuned, found = load_run(out), load(merged)
    wanted = tuned.model.forward(IDS)[0]
    assert abs(found.model.forward(IDS)[0] - wanted).max() < 1e-4
    assert abs(load(base / "model").model.forward(IDS)[0] - wanted).max() > 1e-2
    texts = []
    for folder in (out, merged):
        assert commands.generate([str(folder), "The quick", "--tokens", "5"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] and texts[0].startswith("The quick")
    check_refused(commands.finetune, [str(out), "--merge", "--out", str(merged)],
                  "is not an empty folder", capsys)
    assert finetune(tmp_path, tmp_path / "again", "--text", base / "fox.txt", model="merged") == 0


def test_run_shows_loss_and_memory_and_other_commands_recognise_it(tmp_path, base, capsys):
    out = tmp_path / "run"
    assert commands.finetune([str(base / "model"), "--text", str(base / "fox.txt"), "--steps", "1",
                              "--engine", "plain", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "at step 1; " in shown and " at step 0\n" in shown and "peak memory" in shown
    summary = json.loads((out / "summary.json").read_text())
    assert summary["adapted"]["trainable"] == 2 * 8 * (2 * 64 + 2 * 48 + 3 * 96)
    assert commands.table([str(out)]) == 0
    assert "| model, LoRA, fox.txt, seed 0 |" in capsys.readouterr().out
    for command, more, mentioned in ((commands.ask, [str(out), "5 + 7 ="], "trained on text"),
                                     (commands.train_gpt, ["--resume", "--out", str(out)],
                                      "resume it with python -m npdl finetune")):
        check_refused(command, more, mentioned, capsys)


@pytest.mark.slow
def test_resume_needs_the_same_model(tmp_path, base, capsys):
    model, out = tmp_path / "model", tmp_path / "run"
    shutil.copytree(base / "model", model)
    assert finetune(base, out, "--for-steps", 2, model=model) == 0
    model.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    again = ["--resume", "--quiet", "--out", str(out)]
    check_refused(commands.finetune, again,
                  "if you moved the model, run: python -m npdl finetune --resume --out", capsys)
    assert commands.finetune([*again, "--pretrained", str(tmp_path / "elsewhere")]) == 0
    assert load_run(out).config.pretrained == str(tmp_path / "elsewhere")
    model_folders.rewrite_arrays(tmp_path / "elsewhere",
                                 lambda arrays: {n: a * 1.01 for n, a in arrays.items()})
    check_refused(commands.finetune, again,
                  "is not the model that the run began with (another SHA-256)", capsys)
    check_refused(commands.generate, [str(out), "The"], "another SHA-256", capsys)


BAD = [
    (("--p", 8), "can't be used with a real model"),
    (("--operator", "-"), "--operator can't be used with"),
    (("--pretrained", "a"), "--pretrained is only for --resume"),
    (("--full", "--rank", 2), "--rank is an option of adapters, and --full"),
    (("--window", 65), "--window 65 is longer than the model's context of 64 tokens"),
    (("--window", 0), "--window: 0 must be"),
    (("--text", "nowhere.txt"), "nowhere.txt cannot be read"),
    (("--window", 60, "--r-train", 0.999), "the validation part of the text has"),
    (("--lr", "nan"), "--lr"), (("--resume",), "give the folder of the run"),
    (("--merge",), "has no effect with --merge"),
]


@pytest.mark.parametrize("options, mentioned", BAD)
def test_bad_options_give_one_error_line_and_status_2(tmp_path, base, capsys, options, mentioned):
    given = [str(base / "model"), "--text", str(base / "fox.txt"), "--out", str(tmp_path / "run"),
             *map(str, options)]
    check_refused(commands.finetune, given, mentioned, capsys)
    assert not (tmp_path / "run").exists()


def test_wrong_finetuning_arguments_are_refused(tmp_path, base, capsys):
    assert finetune(base, tmp_path / "run") == 0
    for arguments, mentioned in (
            ([str(base / "model")], "--text is missing"),
            (["--resume", "--rank", "3", "--out", str(tmp_path / "run")], "--rank can't change"),
            ([str(tmp_path / "run"), "--text", str(base / "fox.txt")], "is a run of a real model")):
        check_refused(commands.finetune, arguments, mentioned, capsys)

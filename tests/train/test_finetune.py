"""Fine-tuning a run with LoRA and QLoRA: trainable parameters, resuming, invalid options."""

import shutil

import numpy as np
import pytest

from npdl import backend
from npdl.data import ModularArithmetic
from npdl.errors import InputError
from npdl.losses import loss_and_accuracy
from npdl.train.commands import generate
from npdl.train.commands.finetune import make_finetune_config
from npdl.train.config import Adapters
from npdl.train.loop import Trainer
from npdl.train.run import load_run, train
from tests.tools import commands, device, slow
from tests.tools.device_helpers import assert_same_records
from tests.tools.refusals import check_refused
from tests.tools.trained import assert_same_runs, load_run_arrays, rewind_and_resume
from tests.train.conftest import PLAY

QUICK = {"engine": "plain", "steps": 6, "eval_every": 3, "save_every": 2, "threads": 1}
KINDS = {"lora": {"rank": 2}, "lora some": {"rank": 3, "alpha": 6.0, "where": ("W_Q", "up")},
         "qlora": {"rank": 2, "bits": 4, "block": 16},
         "qlora some": {"rank": 2, "bits": 8, "rounding": "nearest", "where": ("W_V",)}}


def finetune_run(base, out, adapters, **given):
    run = load_run(base)
    config = make_finetune_config(run, adapters, {**QUICK, **given})
    assert train(config, out, quiet=True, base=run.model.state_dict()) == 0
    return load_run(out)


@pytest.mark.parametrize("kind", slow.mark_except(["lora", "qlora"], KINDS))
def test_only_adapters_train_and_step_0_equals_base(tmp_path, addition_run, kind):
    run = finetune_run(addition_run, tmp_path / "run", Adapters(**KINDS[kind]), operator="-",
                       r_train=0.5)
    before, after = load_run(addition_run).model.state_dict(), run.model.state_dict()
    learned = {name for name, _ in run.model.params()}
    assert learned and all(name.rsplit(".", 1)[1] in "AB" for name in learned)
    assert {name.removeprefix("m/") for name in load_run_arrays(tmp_path / "run")
            if name.startswith("m/")} == learned
    kept = 0
    for name, array in after.items():
        plain = name.replace(".base.", ".")
        if plain in before:
            kept += 1
            np.testing.assert_array_equal(array, before[plain], err_msg=name)
    assert kept >= 8
    assert all(np.abs(after[name]).max() > 0 for name in learned if name.endswith(".B"))
    if "bits" in KINDS[kind]:
        return
    data = ModularArithmetic(7, "-", r_train=0.5)       # untrained adapters: still the base
    for part, examples in (("train", data.train), ("validation", data.validation)):
        logits, _ = load_run(addition_run).model.forward(examples.inputs)
        loss, accuracy = loss_and_accuracy(logits, examples.targets, examples.eq_positions,
                                           examples.mask)
        assert run.records[0]["step"] == 0
        assert run.records[0][f"{part}_loss"] == pytest.approx(float(loss), rel=1e-4)
        assert run.records[0][f"{part}_accuracy"] == pytest.approx(float(accuracy), abs=1e-6)


def test_new_modulus_and_operator_keep_token_ids(addition_run):
    run = load_run(addition_run)
    config = make_finetune_config(run, Adapters(), {"p": 5, "operator": "*"})
    words = Trainer(config, run.model.state_dict()).task.vocabulary
    known = run.task.vocabulary
    assert words.size == known.size and words.operator == known.operator
    assert words.tokens[words.operator] == "*" and known.tokens[known.operator] == "+"
    assert [words.id_of(t) for t in ("4", "=", "BOS", "EOS", "PAD")] == \
        [known.id_of(t) for t in ("4", "=", "BOS", "EOS", "PAD")]
    with pytest.raises(InputError, match="--q 9: the run's vocabulary has the 7 numbers"):
        make_finetune_config(run, Adapters(), {"q": 9})
    assert make_finetune_config(run, Adapters(), {"p": 3, "q": 7}).numbers == 7


@pytest.mark.parametrize("model, kind, engine", [
    ("gpt", "lora", "recorded"), ("lstm", "qlora", "plain"),
    pytest.param("gpt", "qlora some", "recorded", marks=pytest.mark.slow)])
def test_a_resumed_fine_tuning_is_bitwise_identical(tmp_path, get_run, model, kind, engine):
    adapters = Adapters(**KINDS[kind])
    given = {"operator": "-", "engine": engine, "threads": 2, "target": "numpy"}
    finetune_run(get_run(model), tmp_path / "whole", adapters, **given)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    run = load_run(get_run(model))
    rewind_and_resume(tmp_path / "cut", make_finetune_config(run, adapters, {**QUICK, **given}), 4,
                      run.model.state_dict())
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")


def test_finetuning_on_device_equals_host(tmp_path, addition_run):
    adapters = Adapters(rank=2, bits=4, block=16)
    here = finetune_run(addition_run, tmp_path / "numpy", adapters, operator="-")
    with device.cupy_or_numpy(), backend.using("cupy"):
        config = make_finetune_config(load_run(addition_run), adapters,
                                      {**QUICK, "operator": "-", "backend": "cupy"})
        parameters = load_run(addition_run).model.state_dict()
        train(config, tmp_path / "device", quiet=True, base=parameters)
    assert_same_records(load_run(tmp_path / "device").records, here.records)


@pytest.mark.parametrize("model", ["text", "text-lstm"])
def test_text_run_is_finetuned_on_another_text(tmp_path, get_run, capsys, model):
    given, odd, out = (tmp_path / name for name in ("given", "odd", "tuned"))
    given.write_text(PLAY[::-1])
    odd.write_text("xyz " * 60)
    quick = ["--steps", "3", "--engine", "plain", "--quiet", "--out", str(out)]
    for text, said in ((["--text", str(odd)], "character 'x' is not among"), ([], "name the text")):
        check_refused(commands.finetune, [str(get_run(model)), *text, *quick], said, capsys)
        assert not out.exists()
    assert commands.finetune([str(get_run(model)), "--text", str(given), *quick]) == 0
    run = load_run(out)
    assert run.config.text == str(given) and run.config.batch == 5
    assert run.task.vocabulary.characters == "".join(sorted(set(PLAY)))
    assert generate.generate(generate.make_source_from_run(run), "be", tokens=12)[0]


def test_adapted_base_plain_resume_and_used_folder_are_refused(tmp_path, addition_run, capsys):
    with pytest.raises(InputError, match="has adapters already"):
        run = finetune_run(addition_run, tmp_path / "lora", Adapters())
        make_finetune_config(run, Adapters(), {})
    check_refused(commands.finetune, ["--resume", "--out", str(addition_run)],
                  "was not fine-tuned; resume it with python experiments/train_gpt.py", capsys)
    assert commands.finetune([str(addition_run), "--steps", "1", "--out", str(addition_run)]) == 2
    assert "holds a run already" in capsys.readouterr().err

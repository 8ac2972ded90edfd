"""Training on text: its characters, its windows, its evaluation, and a text that has changed."""

import numpy as np
import pytest

from npdl.data.text import Characters, draw_windows, split_text
from npdl.errors import InputError
from npdl.losses import CrossEntropy
from npdl.train.recipes import make_recipe_config
from npdl.train.run import load_run, train
from tests.tools import commands
from tests.tools.refusals import check_refused
from tests.tools.trained import make_trained_trainer

SMALL = {"engine": "plain", "layers": 2, "width": 16, "heads": 2, "block": 8, "batch": 5,
         "eval_batches": 3, "eval_every": 4, "save_every": 3, "threads": 1}
PLAY = "To be, or not to be: that is the question.\nWhether 'tis nobler in the mind – é ☃\n" * 20


@pytest.fixture
def text_path(tmp_path):
    path = tmp_path / "play.txt"
    path.write_text(PLAY, encoding="utf-8")
    return path


def small_config(text_path, model="gpt", **settings):
    return make_recipe_config(model, {"text": str(text_path), **SMALL, **settings})


def test_characters_are_sorted_and_survive_a_round_trip():
    words = Characters.from_text(PLAY)
    assert words.characters == "".join(sorted(set(PLAY))) and words.size == len(set(PLAY))
    ids = words.encode(PLAY)
    assert ids.dtype == np.int64 and words.decode(ids) == PLAY
    assert [words.characters[i] for i in ids[:5]] == list(PLAY[:5])
    assert words.encode("").shape == (0,)
    with pytest.raises(InputError, match="character 'Z'"):
        words.encode("be Z")
    assert words.decode([]) == ""
    for ids in ([-1], [words.size], [1.7], [True]):
        with pytest.raises(InputError, match="allowed are 0 to|must be integers"):
            words.decode(ids)


def test_windows_are_keyed_shifted_by_one_and_reach_both_ends():
    ids = np.arange(100, 120)
    inputs, targets = draw_windows(ids, 8, 500, 3, 7)
    assert inputs.shape == targets.shape == (500, 8)
    np.testing.assert_array_equal(targets, inputs + 1)
    assert set(inputs[:, 0]) == set(range(100, 112))        # the last target is the last token
    np.testing.assert_array_equal(draw_windows(ids, 8, 500, 3, 7)[0], inputs)
    assert (draw_windows(ids, 8, 500, 3, 8)[0] != inputs).any()


def test_the_text_is_split_in_order():
    parts = split_text(np.arange(100), 0.9, 5)
    assert parts["train"].tolist() == list(range(90))
    assert parts["validation"].tolist() == list(range(90, 100))
    assert list(split_text(np.arange(100), 1.0, 5)) == ["train"]
    with pytest.raises(InputError, match="validation part of the text has only 10 characters"):
        split_text(np.arange(100), 0.9, 10)


def test_evaluation_matches_direct_computation(text_path):
    trainer = make_trained_trainer(small_config(text_path, threads=2, eval_batches=200), 5)
    with trainer.engine:
        record = trainer.measure()
    ids = trainer.task.vocabulary.encode(PLAY)
    cut = round(0.9 * len(ids))
    for place, (name, part) in enumerate((("train", ids[:cut]), ("validation", ids[cut:]))):
        inputs, targets = draw_windows(part, 8, 1000, 0, place, 4)
        logits, _ = trainer.model.forward(inputs)
        wanted, _ = CrossEntropy().forward(logits, targets)         # the mean over all positions
        assert record[f"{name}_loss"] == pytest.approx(wanted, rel=1e-5)
        right = (logits.argmax(-1) == targets).mean()
        assert record[f"{name}_accuracy"] == pytest.approx(right, abs=1e-6)


def test_resume_detects_changed_or_missing_text(tmp_path, text_path, capsys):
    run = tmp_path / "run"
    train(small_config(text_path, steps=4), run, quiet=True)
    before = (run / "checkpoint.npz").read_bytes()
    text_path.write_text(PLAY.replace("question", "problem!"), encoding="utf-8")
    resume = ["--resume", "--quiet", "--out", str(run), "--steps", "6"]
    check_refused(commands.train_gpt, resume, "has changed since the run began", capsys)
    text_path.unlink()
    check_refused(commands.train_gpt, resume, "(No such file or directory); give another file; "
                  "if you moved it, give its new path with --text", capsys)
    assert (run / "checkpoint.npz").read_bytes() == before
    (tmp_path / "moved.txt").write_text(PLAY, encoding="utf-8")
    assert commands.train_gpt([*resume, "--text", str(tmp_path / "moved.txt")]) == 0
    assert load_run(run).step == 6

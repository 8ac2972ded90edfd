"""ask tells known equations from unseen ones; table leaves out unfinished runs."""

import dataclasses

import pytest

from npdl.train.commands import ask
from npdl.train.config import Config
from npdl.train.run import train
from tests.tools import commands

CONFIG = Config(engine="plain", p=5, width=8, layers=1, heads=2, steps=4, batch=8, eval_every=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{name: folder} of a run, one of another width, and one that was stopped half way."""
    folder = tmp_path_factory.mktemp("runs")
    train(CONFIG, folder / "one", quiet=True)
    train(dataclasses.replace(CONFIG, width=16), folder / "wide", quiet=True)
    train(dataclasses.replace(CONFIG, seed=1), folder / "stopped", quiet=True)
    text = (folder / "stopped" / "config.json").read_text()
    (folder / "stopped" / "config.json").write_text(text.replace('"steps": 4', '"steps": 40'))
    return {name: str(folder / name) for name in ("one", "wide", "stopped")}


def said(capsys, main, *arguments):
    status = main(list(arguments))
    found = capsys.readouterr()
    return status, found.out + found.err


def test_each_equation_is_known_or_not_and_has_its_answer(runs, capsys):
    data = ask.load_run(runs["one"]).task.data
    for examples, what in ((data.train, "it was trained on"), (data.validation, "it has not seen")):
        _, a, _, b, _, answer = examples.inputs[0]
        for question in (f"{a} + {b} =", f"{a}+{b}="):
            status, text = said(capsys, commands.ask, runs["one"], question, "--top", "10")
            assert status == 0 and what in text.splitlines()[0]
            right = [line.split()[0] for line in text.splitlines() if line.endswith("right")]
            assert right == [str(answer)] == [str((a + b) % 5)]
    status, text = said(capsys, commands.ask, runs["one"], f"{a} + {b} =", "--top", "1")
    unranked = f"the right answer, {answer}, has probability"
    assert text.splitlines()[1].endswith("right") or unranked in text
    status, text = said(capsys, commands.ask, runs["one"], "1+2+3=")
    assert status == 2 and "sequences of 7 tokens are longer than max_len = 6" in text


def test_without_a_question_two_unseen_ones_are_asked(runs, capsys):
    status, text = said(capsys, commands.ask, runs["one"])
    assert status == 0 and text.count("it has not seen this equation") == 2


@pytest.mark.parametrize("question", ["1 + 2", "BOS 1 + 2 =", "+ 2 =", "1 + =", "1 + 9 =",
                                      "1 + 2 = 3 =", "=", ""])
def test_what_is_no_equation_is_one_line(runs, capsys, question):
    status, text = said(capsys, commands.ask, runs["one"], question)
    assert status == 2 and text.count("\n") == 1


def test_a_folder_without_a_run_is_called_so(runs, capsys):
    for folder in (runs["one"] + "/checkpoint.npz", runs["one"] + "/nothing"):
        status, text = said(capsys, commands.ask, folder)
        assert status == 2 and "holds no run (config.json is missing)" in text


def test_a_stopped_run_is_in_no_mean_and_columns_that_differ_are_two(runs, capsys):
    status, text = said(capsys, commands.table, *list(runs.values())[::-1])
    heads = ["GPT, + mod 5, r_train=0.5, width 8 (seeds 0)",
             "GPT, + mod 5, r_train=0.5, width 16 (seeds 0)"]
    assert status == 0 and " | ".join(heads) in text
    assert f"{runs['stopped']} stopped at step 4 of 40 and is left out" in text
    status, text = said(capsys, commands.table, runs["stopped"])
    assert status == 2 and "stopped at step 4 of 40" in text

"""ask tells known equations from unseen ones; table leaves out unfinished runs."""

import pytest

from npdl.train.commands import table
from npdl.train.config import Adapters, Config
from npdl.train.run import load_run, train
from tests.tools import commands
from tests.tools.refusals import check_refused
from tests.train.conftest import SETTINGS


def run_command(capsys, main, *arguments):
    status = main(list(arguments))
    found = capsys.readouterr()
    return status, found.out + found.err


def test_output_says_if_equation_was_trained_and_its_answer(get_run, capsys):
    run = str(get_run("gpt"))
    data = load_run(run).task.data
    for examples, what in ((data.train, "it was trained on"), (data.validation, "it has not seen")):
        _, a, _, b, _, answer = examples.inputs[0]
        for question in (f"{a} + {b} =", f"{a}+{b}="):
            status, text = run_command(capsys, commands.ask, run, question, "--top", "10")
            assert status == 0 and what in text.splitlines()[0]
            right = [line.split()[0] for line in text.splitlines() if line.endswith("right")]
            assert right == [str(answer)] == [str((a + b) % 5)]
    status, text = run_command(capsys, commands.ask, run, f"{a} + {b} =", "--top", "1")
    unranked = f"the right answer, {answer}, has probability"
    assert text.splitlines()[1].endswith("right") or unranked in text
    check_refused(commands.ask, [run, "1+2+3="],
                  "sequences of 7 tokens are longer than max_len = 6", capsys)


def test_default_questions_are_two_unseen_equations(get_run, capsys):
    status, text = run_command(capsys, commands.ask, str(get_run("gpt")))
    assert status == 0 and text.count("it has not seen this equation") == 2


@pytest.mark.parametrize("question", ["1 + 2", "BOS 1 + 2 =", "+ 2 =", "1 + =", "1 + 9 =",
                                      "1 + 2 = 3 =", "=", ""])
def test_invalid_question_gives_one_error_line(get_run, capsys, question):
    check_refused(commands.ask, [str(get_run("gpt")), question], "", capsys)


def test_folder_without_a_run_is_refused(get_run, capsys):
    for name in ("checkpoint.npz", "nothing"):
        check_refused(commands.ask, [f"{get_run('gpt')}/{name}"],
                      "holds no run (its config.json is missing", capsys)


def test_table_leaves_out_stopped_runs(get_run, copy_run, tmp_path, capsys):
    stopped, narrow = copy_run("gpt"), tmp_path / "narrow"
    text = (stopped / "config.json").read_text()
    (stopped / "config.json").write_text(text.replace('"steps": 4', '"steps": 40'))
    train(Config(**SETTINGS["gpt"] | {"width": 8}), narrow, quiet=True)
    status, text = run_command(capsys, commands.table, *map(str, (stopped, narrow, get_run("gpt"))))
    heads = ["GPT, + mod 5, r_train=0.5, width 8, seed 0",
             "GPT, + mod 5, r_train=0.5, width 16, seed 0"]
    assert status == 0 and " | ".join(heads) in text
    assert f"{stopped} has metrics up to step 4 of 40 and is left out" in text
    status, text = run_command(capsys, commands.table, str(stopped))
    assert status == 2 and "up to step 4 of 40" in text


def test_runs_with_different_settings_have_different_headings(monkeypatch):
    runs = {str(change): Config(model="pretrained", pretrained="a", text="b", **change)
            for change in ({"block": 8}, {"r_train": 0.5}, {"adapters": Adapters()}, {},
                           {"adapters": Adapters(alpha=3.0)}, {"pretrained_sha256": "c"})}
    monkeypatch.setattr(table, "read_config", runs.get)
    assert len(table.group_runs(runs)) == len(runs)

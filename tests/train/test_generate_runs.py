"""Continuing a prompt with the model of a run: all methods, long texts, invalid options."""

import io

import numpy as np
import pytest

from npdl.layers.embedding import Embedding
from npdl.models.llama import Llama
from npdl.train.commands import generate
from npdl.train.config import Config
from npdl.train.run import load_run, train
from tests.tools import commands, slow
from tests.tools.refusals import check_refused
from tests.train.conftest import PLAY

SMALL = {"engine": "plain", "layers": 2, "width": 16, "heads": 2, "block": 8, "batch": 5,
         "eval_batches": 3}


@pytest.mark.parametrize(("kind", "computed"), [("model", {1, 5}), ("text", {1, 8})])
def test_full_window_is_cut_to_half_for_real_models(kind, computed, monkeypatch):
    """The model sometimes recomputes half of the window, and a run's model all of it each time."""
    class Words:
        encode_prompt = encode = staticmethod(lambda text: [1, 2, 3])

    rows, forward = set(), Embedding.forward
    monkeypatch.setattr(Embedding, "forward",
                        lambda self, ids: rows.add(np.shape(ids)[-1]) or forward(self, ids))
    source = generate.Source(Llama(9, 8, 1, 2, 1, 8, max_len=8), Words(), kind)
    [found], _ = generate.generate(source, "a", tokens=20)
    assert len(found.tokens) == 20 and rows == {3, *computed}


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_a_run_loads_and_generates_without_its_text(copy_run, capsys, model):
    run = copy_run("text" if model == "gpt" else "text-lstm")
    settings = (run / "config.json").read_text()
    (run / "config.json").write_text(settings.replace("play.txt", "gone.txt"))
    assert load_run(run).task.vocabulary.characters == "".join(sorted(set(PLAY)))
    assert commands.generate([str(run), "To be", "--tokens", "20"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("To be") and len(shown.out.rstrip("\n")) <= 25
    assert ("window has only 8" in shown.err) == (model == "gpt")
    check_refused(commands.ask, [str(run), "5 + 7 ="], "trained on text and not on equations; "
                  "to continue a prompt, use python -m npdl generate", capsys)


@pytest.mark.parametrize("model", slow.mark_except(["gpt"], ["gpt", "lstm"]))
def test_repeating_text_is_learned_and_continued(tmp_path, model):
    path = tmp_path / "round.txt"
    path.write_text("abcdefg" * 100)
    config = Config(model=model, text=str(path), steps=300, lr=1e-2, weight_decay=0.0,
                    eval_every=300, **SMALL)
    train(config, tmp_path / "run", quiet=True)
    run = load_run(tmp_path / "run")
    assert run.records[-1]["validation_accuracy"] > 0.85    # the first of a window can be guessed
    [found], ids = generate.generate(generate.make_source_from_run(run), "abcdef", tokens=30)
    assert run.task.vocabulary.decode([*ids, *found.tokens]) == ("abcdefg" * 6)[:36]
    beam, _ = generate.generate(generate.make_source_from_run(run), "abc", "beam", tokens=5,
                                width=2, n_best=2)
    assert run.task.vocabulary.decode(beam[0].tokens) == "defga" and len(beam) == 2
    assert beam[0].log_prob >= beam[1].log_prob
    [sampled], _ = generate.generate(generate.make_source_from_run(run), "abc", "sample", tokens=5,
                                     top_k=1, seed=5)
    assert run.task.vocabulary.decode(sampled.tokens) == "defga"


def test_equation_is_continued_to_its_end(addition_run, capsys):
    run = load_run(addition_run)
    for how in ({}, {"method": "beam", "n_best": 2, "length_power": 1.0},
                {"method": "sample", "top_p": 0.5}):
        found, ids = generate.generate(generate.make_source_from_run(run), "2 + 6 =", **how)
        assert run.task.vocabulary.decode(ids) == "BOS 2 + 6 ="
        assert run.task.vocabulary.decode(found[0].tokens) == "1 EOS" and found[0].complete
        assert len(found) == how.get("n_best", 1)
    assert commands.generate([str(addition_run), "2 + 6 ="]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("2 + 6 = 1 EOS    (probability 0.9") and not shown.err
    check_refused(commands.generate, [str(addition_run), "2 + 9 ="], "unknown token '9'", capsys)


def test_several_prompts_are_continued_one_after_the_other(get_run, capsys):
    run, apart = str(get_run("text")), []
    for prompt in ("To", "be"):
        assert commands.generate([run, prompt, "--tokens", "3"]) == 0
        apart.append(capsys.readouterr().out)
    assert commands.generate([run, "To", "be", "--tokens", "3"]) == 0
    assert capsys.readouterr().out == f"{apart[0]}{'-' * 40}\n{apart[1]}"


@pytest.mark.parametrize("said", [["hi", "and then"], []], ids=["arguments", "lines"])
def test_a_chat_remembers_what_was_said(said, monkeypatch, capsys):
    """Each prompt follows the earlier turns. Without prompts, lines are read from stdin."""
    heard = []

    class Words:
        def encode_chat(self, turns):
            heard.append(list(turns))
            return [1, 2, 3]

        def decode(self, ids):
            return "".join(map(str, ids))

        def make_stream_decoder(self, before):
            return lambda *token: self.decode(token)

    source = generate.Source(Llama(9, 8, 1, 2, 1, 8, max_len=64, rng=0), Words(), "model")
    monkeypatch.setattr(generate, "load_source", lambda path: source)
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\nand then\n\nnever read\n"))
    assert commands.generate(["model", *said, "--chat", "--tokens", "4"]) == 0
    answers = capsys.readouterr().out.split()
    assert len(answers) == 2 and heard[0] == heard[1] == ["hi"]     # shown, then continued
    assert heard[2:] == [["hi", answers[0], "and then"]] * 2

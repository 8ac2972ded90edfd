"""A real model on this machine: npdl against PyTorch, and three ways to fine-tune it.

    python experiments/bench_real.py FOLDER                      against PyTorch
    python experiments/bench_real.py FOLDER --text plays.txt     full fine-tuning, LoRA, QLoRA

FOLDER is a real model of the Llama kind with model.safetensors, or a .gguf file, which is then
written as such a folder first, for both sides. Against PyTorch (the model of `transformers`, in
float32): tokens a second of greedy decoding, a step of LoRA on 64 tokens (rank 8 on W_Q and W_V),
loading, and the most memory that each process held. The machine must be idle: when other jobs use
more than 5 % of it, the figures are printed as disturbed and the exit status is 1.

With --text: document 000's comparison. Each way has a process of its own; the table says what is
trained, what is stored, how long a step takes, and the loss of a held-out part of the text before
and after.
"""

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.bench import report
from experiments.bench.guard import Guard
from experiments.bench.harness import Variant, measure_steps
from experiments.bench.mkl import NAME, as_on_intel
from experiments.bench.real_sides import TOKENS, finetuning, npdl_step, torch_step
from experiments.bench.worker import WorkerError, serve
from npdl.errors import InputError
from npdl_train.console import OneLineParser, file_or_folder, folder, guarded, positive
from npdl_train.pretrained import load, to_huggingface
from npdl_train.runs.finetune import model_config

SCRIPT = Path(__file__).resolve()
RAW = argparse.RawDescriptionHelpFormatter
WORKS = {"generate": "greedy decoding, tokens/s", "lora": f"a LoRA step of {TOKENS} tokens, s",
         "load": "loading, s"}
WAYS = {"full fine-tuning": {"full": True}, "LoRA": {}, "QLoRA, 4 bits": {"bits": 4}}
LR = {"full fine-tuning": 2e-5}         # every parameter bears a smaller step than adapters do


@dataclasses.dataclass(frozen=True)
class Case:
    """A model's folder and how many tokens to generate."""

    folder: str
    tokens: int

    as_dict = dataclasses.asdict


def make_step(job):
    case, options = job["case"], job["options"]
    side = npdl_step if job["kind"] == "npdl" else torch_step
    return side(case["folder"], options["what"], case["tokens"], options["threads"])


def against_torch(args, path, guard):
    """Tables, and the record, of npdl beside PyTorch."""
    rows, case, (as_intel, said) = [], Case(str(path), args.tokens), as_on_intel()
    sides = {"npdl": ("npdl", {}), "PyTorch": ("torch", {}),
             **({f"PyTorch, {NAME}": ("torch", as_intel)} if as_intel else {})}
    for what in WORKS:
        for threads in args.threads if what != "load" else [1]:
            variants = [Variant(name, kind, threads=threads, environment=own,
                                options={"what": what, "threads": threads})
                        for name, (kind, own) in sides.items()]
            results = measure_steps(SCRIPT, case, variants, guard, args.rounds, args.turn)
            rows.append((what, threads, results))
    about = report.machine()
    lines = [f"### {path.name} in float32: {about['processor']}, NumPy {about['numpy']}, PyTorch "
             f"{about['torch']}", "",
             "| work | threads | npdl | beside | its own | ratio | npdl's peak MiB | its own |",
             "|---|--:|--:|---|--:|--:|--:|--:|"]
    for what, threads, (npdl, *others) in rows:
        for other in others:
            if npdl.error or other.error:
                continue
            mine, theirs = (1000 * args.tokens / r.median if what == "generate" else
                            r.median / 1000 for r in (npdl, other))
            lines.append(f"| {WORKS[what]} | {threads} | {mine:.3g} | {other.variant.name} "
                         f"| {theirs:.3g} | {mine / theirs:.2f} | {npdl.peak_mb:.0f} "
                         f"| {other.peak_mb:.0f} |")
    record = {"machine": about, "tokens": args.tokens,
              "rows": [{"work": what, **r.as_dict()} for what, _, side in rows for r in side]}
    return ["\n".join([*lines, "", said])], record


def ways_to_tune(args, path):
    """Document 000's comparison: the table, and its record."""
    rows = []
    for name, how in WAYS.items():
        given = {"text": args.text, "steps": args.steps}
        adapters = {} if "full" in how else {"rank": args.rank, **how}
        given |= {"lr": LR[name], **how} if "full" in how else {}
        config = model_config(path, adapters, given)
        job = {"finetuning": config.to_json()}
        done = subprocess.run([sys.executable, str(SCRIPT), "--worker", json.dumps(job)],
                              capture_output=True, text=True)
        if done.returncode:
            raise InputError(f"{name}: {(done.stderr.strip().splitlines() or ['died'])[-1]}")
        rows.append((name, config.lr, json.loads(done.stdout)))
    lines = [f"### {path.name}: {args.steps} steps of {config.batch} x {config.block} tokens, "
             f"rank {args.rank} on every linear map", "",
             "| | trainable | frozen | parameters, MiB | peak memory, MiB | a step, s | lr "
             "| held-out loss before | after |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, lr, row in rows:
        lines.append(f"| {name} | {row['trainable']:,} | {row['frozen']:,} "
                     f"| {row['stored_bytes'] / 2**20:.0f} | {row['peak_mb']:.0f} "
                     f"| {row['seconds']:.2f} | {lr:g} | {row['before']:.3f} "
                     f"| {row['after']:.3f} |")
    record = {"machine": report.machine(), "steps": args.steps, "rank": args.rank,
              "rows": [{"way": name, "lr": lr, **row} for name, lr, row in rows]}
    return ["\n".join(lines)], record


def parse(argv):
    parser = OneLineParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("model", nargs="?", type=file_or_folder,
                        help="a model's folder or a .gguf file")
    parser.add_argument("--tokens", type=positive, metavar="N", default=64, help="tokens to "
                        "generate (64)")
    parser.add_argument("--threads", type=positive, nargs="+", metavar="N", default=[1, 2],
                        help="threads of both sides' BLAS, one row each (1 2)")
    parser.add_argument("--rounds", type=positive, metavar="N", help="5; --quick: 1")
    parser.add_argument("--quick", action="store_true", help="few and short rounds: does it run?")
    parser.add_argument("--text", metavar="FILE", help="compare three ways to fine-tune on it")
    parser.add_argument("--steps", type=positive, metavar="N", default=50, help="of each (50)")
    parser.add_argument("--rank", type=positive, metavar="R", default=8, help="of adapters (8)")
    parser.add_argument("--out", metavar="DIR", type=folder, help="also write the table and JSON")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (1 if args.quick else 5)
    args.turn = 0.1 if args.quick else 3.0
    return args


def in_folder(path, scratch):
    """The model as a folder: a GGUF file is written as one into `scratch`."""
    if path.suffix != ".gguf":
        return path
    to_huggingface(load(path), Path(scratch) / path.stem)
    return Path(scratch) / path.stem


def main(argv=None):
    args = parse(argv)
    if args.worker:
        if "finetuning" in args.worker:
            return finetuning(args.worker["finetuning"])
        return serve(lambda: make_step(args.worker))
    if args.model is None:
        raise InputError("give a model's folder or a .gguf file")
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing and args.text is None:
        raise InputError(f"{missing[0]} is not installed, and it is what npdl is compared with; "
                         f"install it with: pip install {missing[0]}")
    guard = Guard(patience=2.0 if args.quick else 30.0)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        path = in_folder(Path(args.model), scratch)
        try:
            if args.text is not None:
                shown, record = ways_to_tune(args, path)
            else:
                shown, record = against_torch(args, path, guard)
        except WorkerError as error:
            print(f"bench_real: {error}", file=sys.stderr)
            return 1
    verdict = guard.verdict() if args.text is None else ""
    print("\n\n".join([*shown, verdict]).rstrip())
    if args.out:
        name = "real" if args.text is None else "real-tuning"
        report.write(args.out, f"bench_{name}", "\n\n".join([*shown, verdict]).rstrip(), record)
    return 1 if guard.disturbed else 0


if __name__ == "__main__":
    sys.exit(guarded("bench_real.py", main))

"""Compare the speed of npdl with PyTorch: training steps, decoding and LoRA, in one table.

  python experiments/bench.py                   three models, all engines, on the processor
  python experiments/bench.py --models gpt --engines recorded torch
  python experiments/bench.py --real FOLDER     also decoding and a LoRA step of a real model
  python experiments/bench.py --backend cupy    on this machine's GPU
  python experiments/bench.py --quick           tiny sizes, one short round: does it run?

A training step is forward, loss, backward and AdamW, in float32. With "equal" work, every position
is computed; with "less", positions that cannot change the loss are left out, as in the training
scripts. Each variant has its own process. In each round, the variants take turns, so that a ratio
compares times of the same round. The table shows the median time, its quartiles over rounds, and
the median ratio to the fastest PyTorch variant with equal work. Run it on an idle machine.
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script()         # Ctrl-C exits without a traceback

import argparse
import dataclasses
import functools
import importlib.util
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

os.environ.setdefault("CUPY_TF32", "0")         # before CuPy is imported

from experiments.benchmark.cases import CASES, QUICK
from experiments.benchmark.worker import KEEP_MEMORY, Worker, WorkerError, make_mkl_environment
from npdl import backend
from npdl.cli.console import (
    OneLineParser,
    checked_path_text,
    parse_positive,
    print_note,
    run_guarded,
)
from npdl.cli.process import count_usable_cores
from npdl.errors import InputError
from npdl.train.versions import get_gpu_name, get_processor_name

CORES = count_usable_cores()
REST = 0.2              # seconds between turns: idle OpenBLAS threads spin for half of it
TURN = 0.4              # seconds that each variant works in a round
SAME_LOSS = 1e-3        # allowed relative difference between the first losses of npdl's engines
FORMS = {"gpt": ("plain", "sdpa"), "lstm": ("nn.LSTM",), "text": ("plain", "sdpa")}


@dataclasses.dataclass
class Variant:
    """A row of the table.

    row       the first column: the model and its sizes
    side      "npdl" or "torch"
    work      "equal" or "less"
    options   arguments of the function that makes the step
    rounds    milliseconds per step in each round, filled by `measure_in_turns`
    """

    row: str
    name: str
    side: str
    options: dict
    work: str = "equal"
    threads: int = 1
    environment: dict = dataclasses.field(default_factory=dict)
    rounds: list = dataclasses.field(default_factory=list)
    peak_mb: float = 0.0


# --- the variants ---------------------------------------------------------------------------------
def step_variants(model, options, mkl):
    """Return the variants of a model's training step."""
    gpu, variants = options.backend == "cupy", []
    row = str((QUICK if options.quick else CASES)[model])
    if "plain" in options.engines:
        variants.append(Variant(row, "npdl, plain", "npdl", {"engine": "plain"}))
    if "recorded" in options.engines:
        if not gpu or model == "text":
            variants.append(Variant(row, "npdl, recorded", "npdl", {"engine": "recorded"},
                                    threads=options.threads))
        if model != "text":
            variants.append(Variant(row, "npdl, recorded, as in the scripts", "npdl", {
                "engine": "recorded", "all_positions": False}, "less", options.threads))
    if "torch" in options.engines:
        variants += (gpu_torch_variants(row, model) if gpu
                     else cpu_torch_variants(row, model, options, mkl))
    return variants


def cpu_torch_variants(row, model, options, mkl):
    """Return PyTorch's Variants on a processor: as installed, and with faster settings."""
    variants, tuned = [], KEEP_MEMORY | mkl
    for form in FORMS[model]:
        for adamw in ("foreach", "fused"):
            for name, environment in (("", {}), (", tuned", tuned)):
                variants.append(Variant(row, f"torch, {form}, {adamw}{name}", "torch",
                                        {"form": form, "adamw": adamw}, "equal", options.threads,
                                        environment))
    if model != "text":
        variants.append(Variant(row, "torch, needed positions, tuned", "torch",
                                {"form": FORMS[model][0], "last_count": 2}, "less",
                                options.threads, tuned))
    return variants


def gpu_torch_variants(row, model):
    """Return PyTorch's Variants on a GPU: eager, and its whole step as one CUDA graph."""
    form = "nn.LSTM" if model == "lstm" else "sdpa"
    last = {} if model == "text" else {"last_count": 2}
    captured = {"form": "plain" if model == "gpt" else form, "adamw": "captured", **last}
    work = "less" if last else "equal"
    return [Variant(row, f"torch, eager, {form}", "torch", {"form": form}),
            Variant(row, "torch, CUDA graph", "torch", captured, work),
            Variant(row, "torch, CUDA graph, compiled", "torch", captured | {"compiled": True},
                    work)]


def real_model_variants(task, options, mkl):
    """Return the Variants of `task` ("decoding" or "lora") with the real model of --real."""
    variants = []
    row = (f"{options.real.name}: decoding, a token" if task == "decoding"
           else f"{options.real.name}: a LoRA step, 64 tokens")
    for side in ("npdl", "torch"):
        for name, environment in (("", {}), (", tuned", KEEP_MEMORY | mkl)):
            if side == "torch" and "torch" in options.engines or side == "npdl" and not name:
                variants.append(Variant(row, f"{side}{name}", side, {
                    "task": task, "folder": options.real, "tokens": options.tokens},
                    "equal", options.threads, environment))
    return variants


def make_step(variant, case, backend_name):
    """Return (step, synchronize) of a variant: functions to make a step, and to wait."""
    if backend_name == "cupy":
        backend.use("cupy")
    side = importlib.import_module(f"experiments.benchmark.{variant.side}_side")
    options = variant.options | {"threads": variant.threads}
    task = options.pop("task", None)
    if task is None:
        options |= {"case": case, "random_batches": backend_name == "cupy"}
    return getattr(side, f"make_{task}_step" if task else "make_step")(**options)


# --- measuring ------------------------------------------------------------------------------------
def measure_in_turns(variants, case, options):
    """Measure the variants in turns, fill their `rounds`, and return those without an error."""
    workers, counts = {}, {}
    try:
        for variant in variants:
            job = functools.partial(make_step, variant, case, options.backend)
            try:
                worker = Worker(variant.name, job, variant.threads, variant.environment)
                ms, _ = worker.measure(2)
            except WorkerError as error:
                print_note(f"left out: {error}")
                continue
            workers[variant.name] = worker
            counts[variant.name] = max(2, min(200, round(1e3 * options.turn / ms)))
        alive = [variant for variant in variants if variant.name in workers]
        if not alive:
            raise InputError(f"no variant of {variants[0].row} could be measured; see above")
        check_losses({v.name: workers[v.name].first_loss for v in alive if v.side == "npdl"})
        for number in range(options.rounds):
            for i in range(len(alive)):
                variant = alive[(i + number) % len(alive)]
                ms, variant.peak_mb = workers[variant.name].measure(counts[variant.name])
                variant.rounds.append(ms)
                time.sleep(REST)
    finally:
        for worker in workers.values():
            worker.close()
    return alive


def check_losses(losses):
    """Raise InputError unless the first losses of npdl's engines, {variant: loss}, agree."""
    values = losses.values()
    if losses and max(values) - min(values) > SAME_LOSS * abs(min(values)):
        raise InputError(f"npdl's engines begin with different losses, {losses}; run the tests")


# --- the table ------------------------------------------------------------------------------------
def format_rows(variants):
    """Return the Markdown rows of one case."""
    rivals = [v for v in variants if v.side == "torch" and v.work == "equal"] or variants[:1]
    best = min(rivals, key=lambda v: statistics.median(v.rounds))
    lines = []
    for v in variants:
        scale = v.options["tokens"] if v.options.get("task") == "decoding" else 1
        low, median, high = (ms / scale for ms in quartiles(v.rounds))
        ratio = statistics.median(a / b for a, b in zip(v.rounds, best.rounds, strict=True))
        lines.append(f"| {v.row} | {v.name} | {v.work} | {v.threads} | {median:.3g} "
                     f"| {low:.3g} to {high:.3g} | {ratio:.2f} | {v.peak_mb:.0f} |")
    return lines


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


HEADING = ["| case | variant | work | threads | ms per step | quartiles, ms "
           "| time / fastest PyTorch | peak MB |",
           "|---|---|---|--:|--:|--:|--:|--:|"]


def describe_machine(options):
    """Return one line with the machine, the versions and the command."""
    parts = [f"{get_processor_name()}, {CORES} cores", f"Python {platform.python_version()}"]
    if options.backend == "cupy":
        with backend.using("cupy"):
            device = get_gpu_name()
        parts.insert(0, f"{device}, TF32 {'on' if os.environ['CUPY_TF32'] == '1' else 'off'}")
    for package in ("numpy", "torch", "cupy"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return "; ".join([*parts, f"`python {shlex.join(sys.argv)}`"])


# --- the command ----------------------------------------------------------------------------------
def parse_options(arguments):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", nargs="*", choices=tuple(CASES), default=list(CASES))
    p.add_argument("--engines", nargs="+", choices=("plain", "recorded", "torch"),
                   default=["plain", "recorded", "torch"])
    p.add_argument("--backend", choices=("numpy", "cupy"), default="numpy")
    p.add_argument("--threads", type=parse_positive, metavar="N", default=CORES,
                   help="of every variant except npdl's plain engine (default: all, %(default)s)")
    p.add_argument("--rounds", type=parse_positive, metavar="N", help="default: 9; --quick: 1")
    p.add_argument("--real", type=checked_path_text, metavar="FOLDER",
                   help="a model of the Llama kind, for decoding and LoRA (needs transformers)")
    p.add_argument("--tokens", type=parse_positive, metavar="N", default=32, help="to decode (32)")
    p.add_argument("--quick", action="store_true", help="tiny sizes, one short round")
    options = p.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 9)
    options.turn = 0.05 if options.quick else TURN
    options.real = options.real and Path(options.real)
    return options


def run_benchmark(options):
    """Measure and print; return the exit status."""
    if "torch" in options.engines and importlib.util.find_spec("torch") is None:
        raise InputError("PyTorch is not installed; install it with pip install torch, or leave it "
                         "out with --engines plain recorded")
    if options.real and not (options.real / "config.json").is_file():
        raise InputError(f"--real {options.real} has no config.json; give a model's folder")
    if options.real and options.backend == "cupy":
        raise InputError("--real measures on the processor; leave out --backend cupy")
    print(describe_machine(options), "", *HEADING, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        mkl = make_mkl_environment(folder) if "torch" in options.engines else {}
        jobs = [((QUICK if options.quick else CASES)[model], step_variants(model, options, mkl))
                for model in options.models]
        jobs += [(None, real_model_variants(task, options, mkl)) for task in ("decoding", "lora")
                 if options.real]
        for case, variants in jobs:
            print(*format_rows(measure_in_turns(variants, case, options)), sep="\n", flush=True)
    return 0


def main(arguments=None):
    options = parse_options(arguments)
    return run_guarded("bench.py", lambda: run_benchmark(options))


if __name__ == "__main__":
    sys.exit(main())

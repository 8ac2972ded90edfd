"""npdl on CuPy against PyTorch on the same GPU.

    python experiments/bench_gpu.py                    all of it, in at most 10 minutes
    python experiments/bench_gpu.py --quick            does it run?
    python experiments/bench_gpu.py --mode step        document 004's sizes only
    python experiments/bench_gpu.py --out D            also tables, JSON and figures

A step is forward, loss, backward and AdamW on a batch that is on the device already. Neither side
reads the loss inside; the device is waited for after every ten steps (fewer where a step takes
more than 10 ms), and such a block gives one time. Each variant is a process, all stay alive and
are asked in turn; figures are medians over the blocks. All compute in float32, with TF32 off
unless --tf32. Kernels are counted by PyTorch's profiler in a run of its own. Needs CuPy, PyTorch
with CUDA and a GPU: without one of them the exit status is 2. It is 1 when other jobs disturbed
the processor, which starts every kernel.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from experiments.bench import gpu_measure, gpu_report, report
from experiments.bench.cases import DOCUMENT, Case
from experiments.bench.guard import Guard
from experiments.bench.worker import WorkerError
from npdl.console import OneLineParser, folder, guarded

SCRIPT = Path(__file__).resolve()
MODES = ("step", "growth")


# --- the processes of the variants --------------------------------------------------------------
def make_side(kind, case, options):
    """The Side of one variant for one case."""
    from experiments.bench import gpu_sides

    if kind == "npdl":
        return gpu_sides.npdl_side(case, **options)
    gpt, lstm = options["forms"]
    how = {name: value for name, value in options.items() if name != "forms"}
    return gpu_sides.torch_side(case, lstm if case.model == "lstm" else gpt, **how)


def work(job):
    """What this script does when it is started as a worker."""
    if job["kind"] == "facts":
        print(json.dumps(facts(job["side"])))
    elif job["kind"] == "kernels":
        from experiments.bench.gpu_sides import count_kernels

        print(json.dumps(count_kernels(make_side(job["side"], Case(**job["case"]),
                                                 job["options"]))))
    else:
        from experiments.bench.gpu_worker import serve

        serve(lambda case: make_side(job["kind"], Case(**case), job["options"]))
    return 0


# --- what has to be there -----------------------------------------------------------------------
def facts(side):
    """What the figures belong to, from one side. Raises an error where it finds no GPU."""
    if side == "cupy":
        from npdl import backend

        backend.use("cupy")
        from npdl.backend import xp

        version = xp.cuda.runtime.runtimeGetVersion()
        return {"cupy": xp.__version__, "cupy_cuda": f"{version // 1000}.{version % 1000 // 10}",
                "device_gib": round(xp.cuda.runtime.memGetInfo()[1] / 2**30, 1)}
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(f"PyTorch {torch.__version__} sees no GPU; install its build for CUDA, "
                           "and look for the GPU by nvidia-smi")
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "torch_cuda": torch.version.cuda}


def checked_facts():
    """The facts of both sides, each from a process of its own, and the driver's version.

    Raises WorkerError, of one line, where a side cannot be used.
    """
    for module, how in (("cupy", "npdl's extra 'cuda12' or 'cuda13'"),
                        ("torch", "PyTorch's build for CUDA")):
        if importlib.util.find_spec(module) is None:
            raise WorkerError(f"{module} is not installed; install {how}")
    known = {}
    for side in ("cupy", "torch"):
        done = subprocess.run(gpu_measure.command(SCRIPT, {"kind": "facts", "side": side}),
                              capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise WorkerError(last.partition(": ")[2] or last)      # without the error's class
        known |= json.loads(done.stdout)
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        known["driver"] = subprocess.run(query, capture_output=True, text=True, check=True,
                                         timeout=20).stdout.split()[0]
    return known


# --- the command --------------------------------------------------------------------------------
def parse(argv):
    def positive(text):
        if float(text) <= 0:
            raise argparse.ArgumentTypeError(f"{text} must be above 0")
        return float(text) if "." in text else int(text)

    parser = OneLineParser(description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--model", nargs="+", choices=tuple(DOCUMENT), default=["gpt", "lstm"])
    parser.add_argument("--quick", action="store_true",
                        help="few and short rounds, small sizes: does it run?")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 11; growth: 5")
    parser.add_argument("--minutes", type=positive, metavar="M", default=10, help="the growth of "
                        "sizes ends before so many (%(default)s); it says what it left out")
    parser.add_argument("--no-compile", dest="compiled", action="store_false",
                        help="without torch.compile, which takes most of the time")
    parser.add_argument("--tf32", action="store_true", help="let both sides round to TF32")
    parser.add_argument("--out", metavar="DIR", type=folder,
                        help="also write tables, JSON and figures there")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def measure(args, team, guard, deadline):
    """(tables, record) of the modes that were asked for."""
    shown, record = [], {}
    turn = 0.05 if args.quick else 0.3

    def show(text):
        shown.append(text)
        print(text, end="\n\n", flush=True)

    if "step" in args.mode:
        record["steps"] = []
        for model in args.model:
            case = DOCUMENT[model]
            guard.wait_until_quiet()
            results = team.measure(case, int(args.rounds or (2 if args.quick else 11)), turn)
            kernels = gpu_measure.kernel_counts(SCRIPT, [r.variant for r in results], model, 120)
            show(gpu_report.step_table(case, results, kernels))
            record["steps"].append({"case": case.as_dict(), "kernels": kernels,
                                    "results": [r.as_dict() for r in results]})
    if "growth" in args.mode:
        points, late = gpu_measure.measure_growth(
            team, args.model, deadline, int(args.rounds or (2 if args.quick else 5)), turn,
            args.quick, guard)
        record |= {"growth": [dict(zip(("model", "axis", "value", "results"), point, strict=True))
                              for point in points], "left_out": late}
        if points:
            show(report.growth_table(points))
        if late:
            show(f"left out for lack of time (--minutes): {'; '.join(late)}")
        if args.out and points:
            os.makedirs(args.out, exist_ok=True)
            report.growth_figure(points, os.path.join(args.out, "bench_gpu_time.png"))
            report.growth_figure(points, os.path.join(args.out, "bench_gpu_memory.png"),
                                 "peak_mb", "peak device memory (MB)")
    return shown, record


def main(argv=None):
    args = parse(argv)
    if args.worker:
        return work(args.worker)
    deadline = time.monotonic() + 60 * args.minutes
    try:
        known = checked_facts()
    except WorkerError as error:
        print(f"bench_gpu: {error}", file=sys.stderr)
        return 2
    print(gpu_report.heading(known, args.tf32), end="\n\n", flush=True)
    guard = Guard(patience=2.0 if args.quick else 10.0)
    team = gpu_measure.Team(SCRIPT, gpu_measure.variants(args.compiled, args.tf32))
    try:
        shown, record = measure(args, team, guard, deadline)
    except KeyboardInterrupt:
        print("bench_gpu: interrupted", file=sys.stderr)
        return 130
    finally:
        team.close()
    verdict = guard.verdict()
    print(verdict)
    if args.out:
        record |= {"gpu": known, "tf32": args.tf32, "verdict": verdict,
                   "disturbed": guard.disturbed}
        text = "\n\n".join([gpu_report.heading(known, args.tf32), *shown, verdict])
        report.write(args.out, "bench_gpu", text, record)
    return 1 if guard.disturbed else 0


if __name__ == "__main__":
    sys.exit(guarded("bench_gpu.py", main))

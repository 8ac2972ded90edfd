"""npdl against PyTorch on this machine's processor.

    python experiments/bench_cpu.py                         steps of the GPT and the LSTM
    python experiments/bench_cpu.py --model text            of the text recipe's GPT
    python experiments/bench_cpu.py --mode sweep            two single-threaded runs at once
    python experiments/bench_cpu.py --mode growth --out D   time and memory against size
    python experiments/bench_cpu.py --mode training         a whole training, evaluation included
    python experiments/bench_cpu.py --mode explain          what each arrangement brings here

A step is forward, loss, backward and AdamW on a batch that is already there; both sides return
the loss as a number, at each step. Each variant has a process of its own, and all are asked in
turn. The machine must be idle: when other jobs use more than 5 % of it, the figures are printed
as disturbed and the exit status is 1. Without torch it is 2.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import argparse
import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_info

from experiments.bench import modes, report, training
from experiments.bench.cases import DOCUMENT, Case, make_batch, products
from experiments.bench.floor import numpy_step
from experiments.bench.guard import Guard
from experiments.bench.harness import Variant
from experiments.bench.npdl_side import npdl_step
from experiments.bench.profile import profile_step
from experiments.bench.worker import WorkerError, serve
from npdl_train.console import OneLineParser, folder, guarded, positive

SCRIPT = Path(__file__).resolve()
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- the rows of the tables, the process of one variant -----------------------------------------
def npdl_variants(case, threads, ladder=False, kernels=False):
    """npdl's rows of the tables; as a `ladder`, also the steps before and after them.

    With `kernels`, and where OpenBLAS has chosen its AVX-512 kernels, also rows with those for
    AVX2: some processors (Zen 4) are faster with them.
    """
    def variant(name, computed="equal", **options):
        work = "less" if computed in ("needed", "shared") else "equal"
        return Variant(name, "npdl", work, {"work": computed, "threads": threads, **options},
                       threads)

    plain = variant("npdl, plain (the textbook)", "plain", threads=1)
    variants = [plain, variant("npdl")]
    if ladder:
        alone = {"threads": 1, "trainer": False}
        variants = [plain,
                    Variant("npdl, one core, memory given back", "npdl",
                            options={"keep": False, **alone}),
                    Variant("npdl, one core, memory kept", "npdl", options=alone)]
        if threads > 1:
            variants += [variant(f"npdl, one shard, BLAS on {threads} cores", **alone),
                         variant(f"npdl, {threads} shards")]
    if not case.is_text:  # there, every position counts
        variants += [variant("npdl, needed only", "needed"),
                     variant("npdl, shared prefixes", "shared"),
                     variant("npdl, shared prefixes, tree prepared", "shared", prepared=True)]
    if kernels and any(library.get("architecture") == "SkylakeX" for library in threadpool_info()):
        avx2 = {"OPENBLAS_CORETYPE": "Haswell"}
        variants += [replace(v, name=f"{v.name}, AVX2 kernels", environment=avx2)
                     for v in variants if not v.options.get("prepared")]
    return variants


def make_step(job):
    """The step that a worker repeats. PyTorch is imported where it is measured alone."""
    case, options = Case(**job["case"]), dict(job["options"])
    if job["kind"] == "npdl":
        return npdl_step(case, **options)
    if job["kind"] == "floor" and not options.get("torch"):
        return numpy_step(products(case), options["shards"])
    import torch

    from experiments.bench import torch_side

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if job["kind"] == "floor":
        return torch_side.product_step(products(case))
    return torch_side.make_step(case, make_batch(case), **options)


def work(job):
    """What this script does when it is started as a worker."""
    if job["kind"] == "training":
        from experiments.bench import torch_training

        torch_training.main(job)
    elif job["kind"] == "profile":
        step = npdl_step(Case(**job["case"]), job["work"])
        print(json.dumps(profile_step(step, job["steps"])))
    else:
        serve(lambda: make_step(job))


MODES = {"step": modes.run_steps, "growth": modes.run_growth, "sweep": modes.run_sweep,
         "training": training.run_training, "explain": modes.run_explain}


def parse(argv):
    parser = OneLineParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("--mode", choices=MODES, default="step")
    parser.add_argument("--model", nargs="+", choices=tuple(DOCUMENT), default=["gpt", "lstm"])
    parser.add_argument("--quick", action="store_true", help="few and short rounds: does it run?")
    parser.add_argument("--rounds", type=positive, metavar="N", help="9; trainings: 1")
    parser.add_argument("--steps", type=positive, metavar="N",
                        help="updates of a whole training (10001)")
    parser.add_argument("--threads", type=positive, metavar="N", default=CORES,
                        help="cores to use (all: %(default)s); in a sweep, processes")
    parser.add_argument("--compile", action="store_true", help="torch.compile too (a minute more)")
    parser.add_argument("--out", metavar="DIR", type=folder,
                        help="also write tables, JSON and figures there")
    parser.add_argument("--worker", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


RAW = argparse.RawDescriptionHelpFormatter


def main(argv=None):
    args = parse(argv)
    if args.worker:
        return work(args.worker)
    if importlib.util.find_spec("torch") is None:
        print("bench_cpu: PyTorch is not installed, and it is what npdl is compared with; "
              "install it with: pip install torch", file=sys.stderr)
        return 2
    usual_rounds = 1 if args.mode == "training" else 3 if args.quick else 9
    bench = modes.Bench(
        script=SCRIPT, npdl_variants=npdl_variants, models=args.model,
        guard=Guard(patience=2.0 if args.quick else 30.0), rounds=args.rounds or usual_rounds,
        turn=0.1 if args.quick else 0.4, threads=args.threads, quick=args.quick,
        compiled=args.compile, out=args.out, steps=args.steps or (200 if args.quick else 10001))
    try:
        shown, record = MODES[args.mode](bench)
    except WorkerError as error:
        print(f"bench_cpu: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench_cpu: interrupted", file=sys.stderr)
        return 130
    verdict = bench.guard.verdict()
    print(verdict)
    if args.out:
        record |= {"verdict": verdict, "disturbed": bench.guard.disturbed}
        report.write(args.out, f"bench_{args.mode}", "\n\n".join([*shown, verdict]), record)
    return 1 if bench.guard.disturbed else 0


if __name__ == "__main__":
    sys.exit(guarded("bench_cpu.py", main))

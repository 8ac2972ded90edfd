"""The modes of the benchmark: which variants, on which cases, shown how."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import report, tables
from .cases import DOCUMENT, GROWTH, growth_case
from .guard import Guard
from .harness import KEEP_MEMORY, Variant, measure_steps, measure_sweep
from .mkl import NAME, as_on_intel
from .worker import THREAD_VARIABLES, WorkerError


@dataclass
class Bench:
    """What every mode is given. `npdl_variants(case, threads)` lists npdl's side."""

    script: str
    npdl_variants: Callable
    models: list
    guard: Guard
    rounds: int
    turn: float
    threads: int
    quick: bool = False
    compiled: bool = False
    out: str | None = None
    steps: int = 10001


def torch_variants(case, threads, compiled=False, every_adamw=True):
    """Torch in all its forms, MKL's kernels for Intel among them (`as_on_intel`); with
    `every_adamw` also with memory kept (KEEP_MEMORY), and one that skips the work that npdl can
    skip. Ratios are to the eager forms as they are installed."""
    forms = ("nn.LSTM", "per-gate") if case.model == "lstm" else ("plain", "sdpa")
    variants = []
    for form in forms:
        for adamw in ("default", "foreach", "fused") if every_adamw else ("fused",):
            variants.append(Variant(f"torch {form}, {adamw} AdamW", "torch", "equal",
                                    {"form": form, "adamw": adamw}, threads))
        if compiled:
            variants.append(Variant(f"torch {form}, fused AdamW, compiled", "torch", "equal",
                                    {"form": form, "adamw": "fused", "compiled": True}, threads))
    if every_adamw:
        variants += [Variant(f"torch {form}, fused AdamW, memory kept", "torch", "equal",
                             {"form": form, "adamw": "fused"}, threads, KEEP_MEMORY)
                     for form in forms]
    if kernels := as_on_intel()[0]:
        variants += [replace(v, name=f"{v.name}, {NAME}", environment=v.environment | kernels)
                     for v in variants]
    if not case.is_text and every_adamw:
        variants.append(Variant(f"torch {forms[0]}, fused AdamW, no dead work", "torch", "less",
                                {"form": forms[0], "adamw": "fused", "last": 2}, threads))
    return variants


def floor_variants(threads):
    """The products alone: BLAS with all threads, one BLAS thread in each shard, and torch."""
    one = Variant("products, NumPy", "floor", "floor", {"shards": 1}, threads)
    cut = Variant(f"products, NumPy, {threads} shards", "floor", "floor", {"shards": threads}, 1)
    torch = [Variant(f"products, torch{name}", "floor", "floor", {"torch": True}, threads, given)
             for name, given in (("", {}), (f", {NAME}", as_on_intel()[0])) if given or not name]
    return [one, cut, *torch] if threads > 1 else [one, *torch]


def run_steps(bench):
    shown, records = [], []
    for model in bench.models:
        case = DOCUMENT[model]
        variants = (torch_variants(case, bench.threads, bench.compiled)
                    + bench.npdl_variants(case, bench.threads, kernels=True)
                    + floor_variants(bench.threads))
        results = measure_steps(bench.script, case, variants, bench.guard, bench.rounds,
                                bench.turn)
        shown.append(report.step_table(case, results))
        print(shown[-1], end="\n\n", flush=True)
        records.append({"case": case.as_dict(), "results": [r.as_dict() for r in results]})
    return shown, {"steps": records}


def run_sweep(bench):
    shown, records = [], []
    for model in bench.models:
        case = DOCUMENT[model]
        variants = torch_variants(case, 1, bench.compiled) + bench.npdl_variants(case, 1)
        results = measure_sweep(bench.script, case, variants, bench.guard, bench.rounds,
                                4 * bench.turn, bench.threads)
        shown.append(report.sweep_table(case, results, bench.threads))
        print(shown[-1], end="\n\n", flush=True)
        records.append({"case": case.as_dict(), "results": [r.as_dict() for r in results]})
    return shown, {"sweeps": records, "processes": bench.threads}


def run_growth(bench):
    points = []
    for model in bench.models:
        for axis, values in GROWTH.items() if model != "text" else ():
            for value in values[:2] if bench.quick else values:
                case = growth_case(model, axis, value)
                variants = (torch_variants(case, bench.threads, every_adamw=False)
                            + bench.npdl_variants(case, bench.threads))
                results = measure_steps(bench.script, case, variants, bench.guard,
                                        bench.rounds, bench.turn)
                points.append((model, axis, value, [r.as_dict() for r in results]))
                print(f"{case.label()}: done", file=sys.stderr, flush=True)
    table = report.growth_table(points)
    print(table, end="\n\n", flush=True)
    if bench.out and points:
        os.makedirs(bench.out, exist_ok=True)
        report.growth_figure(points, os.path.join(bench.out, "bench_growth_time.png"))
        report.growth_figure(points, os.path.join(bench.out, "bench_growth_memory.png"),
                             "peak_mb", "peak memory (MB)")
    return [table], {"points": points}


def run_explain(bench):
    """npdl's own variants one after another, then where a step goes."""
    shown = []
    for model in bench.models:
        case = DOCUMENT[model]
        variants = bench.npdl_variants(case, bench.threads, ladder=True)
        results = measure_steps(bench.script, case, variants, bench.guard, bench.rounds,
                                bench.turn)
        shown.append(tables.ladder_table(case, results))
        print(shown[-1], end="\n\n", flush=True)
        for work in ("plain", "equal") if case.is_text else ("plain", "equal", "shared"):
            profile = ask_script(bench, "profile", case=case.as_dict(), work=work,
                                 steps=5 if bench.quick else 50)
            shown.append(tables.profile_table(case, work, profile))
            print(shown[-1], end="\n\n", flush=True)
    return shown, {}


def ask_script(bench, kind, **job):
    """Run one job of the benchmark's script in a process of its own, with one BLAS thread and
    memory kept. Raises WorkerError when it fails."""
    environment = os.environ | {variable: "1" for variable in THREAD_VARIABLES} | KEEP_MEMORY
    command = [sys.executable, str(bench.script), "--worker", json.dumps({"kind": kind, **job})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise WorkerError(f"{kind}: {' '.join(last) or 'no message'}")
    return json.loads(done.stdout)

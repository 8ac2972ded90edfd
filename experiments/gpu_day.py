"""The day a GPU is there: is npdl right on it, and how fast? One table, in under ten minutes.

    python experiments/gpu_day.py                      all of it, into runs/gpu-day
    python experiments/gpu_day.py --quick --out D      few steps, small sizes: does it run?
    CUPY_TF32=1 python experiments/gpu_day.py --only "speed.*(npdl fast|torch)" --out E

Right, first: the first steps of both models under both engines beside NumPy's, in float64 and
float32; two equal runs, and one as a CUDA graph beside the same kernels one by one, bit for bit;
every gradient case; both training scripts until they generalise. Then fast: milliseconds a step,
the host's share of them and the device's, the quarters of the blocks, the most memory, with one
batch and with a new one each time; NumPy on the same host, and PyTorch beside it where it is
installed for CUDA: eager, with its whole step as one CUDA graph, and with its model compiled and
that step as one graph; a sum down a column, both ways.

Each row is in gpu-day.json and gpu-day.md as soon as it is measured: the same command goes on where
one was ended. What fails is a bad row and stops nothing; what time did not allow is left out. The
exit status is 1 where a row is bad, 2 where there is no GPU. On an emulated card
(tests/tools/cupy_on_cpu) the times mean nothing, and it says so.
"""

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("CUPY_TF32", "0")         # before CuPy

import numpy as np

from experiments.bench.cases import DOCUMENT, Case, growth_case
from experiments.bench.gpu_sides import npdl_side, torch_side
from npdl import backend
from npdl.backend import to_host, xp
from npdl.files import write_atomically
from npdl_study.deviation import deviation
from npdl_train.console import OneLineParser, folder, guarded, start_script
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer
from npdl_train.runs.versions import engine_digest
from tests.tools.cases import all_cases
from tests.tools.device_helpers import on_device, on_host, run_case

ROOT = Path(__file__).resolve().parents[1]
MODELS, ENGINES = ("gpt", "lstm"), ("fast", "plain")
LEFT_OUT = "left out"
MARKS = {None: "", True: "ok", False: "BAD", LEFT_OUT: LEFT_OUT}
LIMITS = {"float64": (1e-9, 1e-9), "float32": (2e-4, 1e-4)}     # of a gradient case, of the steps
TF32_LIMIT = 5e-2           # of a gradient case in float32, where factors are rounded to 10 bits
CASES = 80                  # gradient cases a row
SPARE = 30.0                # seconds before the end at which nothing is begun any more
LARGER = [("batch", 8192), ("width", 512)]
QUICK_LARGER = [("batch", 64), ("width", 64)]
QUICK_RUN = ["--p", "7", "--width", "32", "--steps", "40"]
COLUMNS = [(2880, 128), (49152, 128), (49152, 512)]     # a document's step, batch 8192, width 512


class Day:
    """The rows found so far, those of a day before with the same facts, and the time left."""

    def __init__(self, quick, out, minutes, known=None, only=""):
        self.quick, self.out, self.known, self.rows = quick, out, known or {}, []
        self.only = re.compile(only)
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes
        if (out / "gpu-day.json").exists():
            found = json.loads((out / "gpu-day.json").read_text())
            if found["facts"] == self.known:
                self.rows = [row for row in found["rows"] if row["good"] != LEFT_OUT]

    def row(self, part, what, value, good=None):
        """One line of the table, kept at once; `good` is None where there is nothing to be right
        or wrong, LEFT_OUT where time did not allow it."""
        self.rows.append({"part": part, "what": what, "value": value, "good": good})
        print(f"{MARKS[good]:9} {part}: {what}: {value}", flush=True)
        self.keep()

    def keep(self):
        self.out.mkdir(parents=True, exist_ok=True)
        found = json.dumps({"facts": self.known, "rows": self.rows}, indent=1)
        for name, text in (("json", found), ("md", table(self.known, self.rows))):
            write_atomically(self.out / f"gpu-day.{name}",
                             lambda file, t=text: file.write(t.encode()))

    def left(self):
        """The seconds left; TimeoutError where nothing should be begun any more."""
        left = self.end - SPARE - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time was over (--minutes); the same command goes on")
        return left

    def attempt(self, part, what, function, *given):
        """A part's row, by function(day, *given) -> (value, good), unless it is there already or
        not asked for; a bad one says why, one that time did not allow is left out."""
        there = any((row["part"], row["what"]) == (part, what) for row in self.rows)
        if there or not self.only.search(f"{part}: {what}"):
            return
        try:
            self.left()
            self.row(part, what, *function(self, *given))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            self.row(part, what, " ".join(str(error).split())[:200], LEFT_OUT)
        except Exception as error:          # whatever CuPy, PyTorch or a script may raise
            words = " ".join(str(error).split())[:200]
            self.row(part, what, f"{type(error).__name__}: {words}", False)
        gc.collect()
        xp.get_default_memory_pool().free_all_blocks()


# --- is it right? -------------------------------------------------------------------------------
def records(name, config, steps):
    """What a Trainer measures after each of its first steps on a backend, and its last state."""
    with backend.using(name):
        trainer, found = Trainer(config), []
        with trainer.engine:
            for _ in range(steps):
                trainer.update()
                found.append(trainer.evaluate())
        return found, trainer.state()[0]


def first_steps(day, model, engine, dtype):
    config, steps = Config(model=model, engine=engine, dtype=dtype), 2 if day.quick else 20
    (here, _), (there, _) = (records(name, config, steps) for name in ("numpy", "cupy"))
    worst = max(abs(b[key] / a[key] - 1) for a, b in zip(here, there, strict=True)
                for key in ("train_loss", "validation_loss", "l2_norm"))
    limit = LIMITS[dtype][1]
    return f"{steps} steps differ by {worst:.1e} at most (limit {limit:g})", bool(worst <= limit)


def repeated(day, model, engine):
    steps = 2 if day.quick else 30
    (one, arrays), (two, again) = (
        records("cupy", Config(model=model, engine=engine), steps) for _ in range(2))
    same = one == two and all((arrays[name] == again[name]).all() for name in arrays)
    return f"{steps} steps twice: {'equal' if same else 'they differ'}", same


def as_a_graph(day, model):
    """A run whose step is a CUDA graph beside one that starts the same kernels one by one."""
    steps = 3 if day.quick else 60
    (one, arrays), (two, again) = (
        records("cupy", Config(model=model, engine=engine), steps) for engine in ("fast", "eager"))
    same = one == two and all((arrays[name] == again[name]).all() for name in arrays)
    return f"{steps} steps: {'equal bit for bit' if same else 'they differ'}", same


def to_the_end(day, model):
    out = (day.out / f"{model}-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    command = [sys.executable, str(ROOT / "experiments" / f"train_{model}.py"), "--backend", "cupy",
               "--out", str(out), "--quiet", *(QUICK_RUN if day.quick else [])]
    done = subprocess.run(command, text=True, capture_output=True, timeout=day.left())
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stderr[-200:]}")
    found = json.loads((out / "summary.json").read_text())
    reached = found["step_validation_accuracy_0.99"]
    good = None if day.quick else reached is not None
    return (f"{found['steps']} steps in {found['seconds']:.1f} s; validation accuracy "
            f"{found['final']['validation_accuracy']:.3f}, 0.99 at step {reached}"), good


def difference(found, wanted):
    """The largest difference of two lists of arrays, as a share of an array's largest entry."""
    most = 0.0
    for a, b in zip(found, wanted, strict=True):
        a, b = to_host(a), to_host(b)
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ArithmeticError(f"{a.dtype} {a.shape} where NumPy has {b.dtype} {b.shape}")
        most = max(most, deviation(a, b, 1.0))
    return most


def gradients(day, dtype, start):
    """Every gradient case from the start-th on, CASES of them."""
    with backend.using("numpy"):
        cases = all_cases()[start : start + CASES][:: 20 if day.quick else 1]
    wrong, most = [], 0.0
    limit = TF32_LIMIT if dtype == "float32" and backend.tf32() else LIMITS[dtype][0]
    for case in cases:
        day.left()
        try:
            with backend.using("numpy"):
                wanted = run_case(case, on_host, dtype)
            error = difference(run_case(case, on_device, dtype), wanted)
            most = max(most, error if error <= limit else 0.0)
            wrong += [] if error <= limit else [f"{case}: {error:.1e}"]
        except Exception as error:
            wrong.append(" ".join(f"{case}: {type(error).__name__} {error}".split())[:160])
    found = f"{len(cases)} cases, the right ones to {most:.1e} (limit {limit:g})"
    return "; ".join([found, *wrong]), not wrong


# --- how fast is it? ----------------------------------------------------------------------------
def timed(day, step, synchronize):
    """Milliseconds a step: (whole, of it until the host is free), each (lower quartile, median,
    upper quartile) over blocks of steps."""
    blocks, steps = (2, 1) if day.quick else (20, 10)
    whole, host = [], []
    for _ in range(blocks + 1):             # the first finds the device at rest
        began = time.perf_counter()
        for _ in range(steps):
            step()
        host.append(1e3 * (time.perf_counter() - began) / steps)
        synchronize()
        whole.append(1e3 * (time.perf_counter() - began) / steps)
    return [statistics.quantiles(each[1:], n=4) for each in (whole, host)]


def speed(day, case, name, new=False):
    """`name` is "npdl ENGINE", "NumPy fast" or "torch eager", "captured" or "compiled"."""
    kind, how = name.split(" ", 1)
    with backend.using("numpy" if kind == "NumPy" else "cupy"):
        side = (torch_side if kind == "torch" else npdl_side)(case, how, new)
        try:
            for _ in range(2 if day.quick else 5):
                side.step()
            side.synchronize()
            (low, whole, high), (_, host, _) = timed(day, side.step, side.synchronize)
            found = [f"{whole:.3f} ms a step ({low:.3f} to {high:.3f})",
                     f"{host:.3f} until the host is free"]
            if "times" not in day.known:                # an emulated card has no time
                device = side.elapsed(2 if day.quick else 50)
                found += [f"{device:.3f} on the device"] if device is not None else []
            memory = side.memory()
            found += [f"{memory:.0f} MB at most"] if memory is not None else []
        finally:
            side.forget()
    return "; ".join([*found, side.share]), None


def column_sum(day, rows, columns):
    """What a gradient of a bias is: CuPy's sum, and npdl's product with ones."""
    x, ones = xp.ones((rows, columns), "float32"), xp.ones((1, rows), "float32")
    found, out = [], xp.empty((1, columns), "float32")
    for work in (lambda: x.sum(0, out=out[0]), lambda: xp.matmul(ones, x, out=out)):
        work()
        found.append(timed(day, work, backend.synchronize)[0][1])
    return f"sum {1e3 * found[0]:.1f} us, product with ones {1e3 * found[1]:.1f} us", None


# --- the command --------------------------------------------------------------------------------
def facts():
    """What the figures belong to."""
    about = xp.cuda.runtime.getDeviceProperties(0)
    known = {"device": about["name"].decode(), "compute capability":
             f"{about['major']}.{about['minor']}", "CuPy": xp.__version__,
             "driver": xp.cuda.runtime.driverGetVersion(), "NumPy": np.__version__,
             "Python": sys.version.split()[0], "TF32": os.environ["CUPY_TF32"]}
    known["PyTorch"], known["engine"] = torch_version(), engine_digest()
    if "cupy_on_cpu" in known["device"]:
        known["times"] = "meaningless: an emulated card"
    return known


def torch_version():
    """PyTorch's version where it sees the card, or why it is left out."""
    try:
        import torch
    except ImportError:
        return "left out: not installed"
    if not torch.cuda.is_available():
        return f"left out: {torch.__version__} sees no card"
    return torch.__version__


def everything(day):
    """Every part: first whether it is right, then how fast, what tells most first."""
    for dtype in reversed(LIMITS):
        for model in MODELS:
            for engine in ENGINES:
                day.attempt("first steps", f"{model} {engine} {dtype}", first_steps, model, engine,
                            dtype)
    for model in MODELS:
        day.attempt("graph", model, as_a_graph, model)
        for engine in ENGINES:
            day.attempt("repeated", f"{model} {engine}", repeated, model, engine)
    for dtype in reversed(LIMITS):
        for start in range(0, count_of_cases(), CASES):
            day.attempt("gradients", f"{dtype}, from case {start}", gradients, dtype, start)
    for model in MODELS:
        day.attempt("to the end", f"train_{model}.py", to_the_end, model)
    names = ["npdl fast", "torch captured", "torch eager", "npdl eager", "NumPy fast", "npdl plain"]
    times = {"npdl fast": (True, False), "torch captured": (True, False), "torch compiled": (True,)}
    ways = [(*each, name) for each in sizes(day.quick) for name in names]
    ways += [(*each, "torch compiled") for each in sizes(day.quick)]    # which takes its time
    for case, size, name in ways:
        if name.startswith("torch") and day.known["PyTorch"].startswith("left out"):
            continue
        for new in times.get(name, (False,)):
            what = f"{case.model}, {size}, {name}{', a new batch each time' * new}"
            day.attempt("speed", what, speed, case, name, new)
    for rows, columns in COLUMNS[:1] if day.quick else COLUMNS:
        day.attempt("column sum", f"({rows}, {columns})", column_sum, rows, columns)


def count_of_cases():
    with backend.using("numpy"):
        return len(all_cases())


def sizes(quick):
    """[(a case, what it is called)]: the documents' and a text's, then larger ones."""
    text = DOCUMENT["text"]
    if quick:
        text = Case("text", batch=2, length=8, width=16, heads=2, layers=1)
    found = [(DOCUMENT[model], "document 004") for model in MODELS] + [(text, "a text")]
    return found + [(growth_case(model, axis, value), f"{axis} {value}")
                    for axis, value in (QUICK_LARGER if quick else LARGER) for model in MODELS]


def table(known, rows):
    bad = sum(row["good"] is False for row in rows)
    left = sum(row["good"] == LEFT_OUT for row in rows)
    lines = [f"{name}: {value}  " for name, value in known.items()]
    lines += [f"rows: {len(rows)}, bad: {bad}, left out: {left}", "", "| part | what | found | |",
              "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {row['part']} | {row['what']} | {row['value']} "
                                f"| {MARKS[row['good']]} |" for row in rows), ""])


def main(argv=None):
    parser = OneLineParser(description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=folder, default="runs/gpu-day", metavar="DIR",
                        help="where the table goes (%(default)s)")
    parser.add_argument("--minutes", type=float, default=9.5, metavar="M",
                        help="what has not begun half a minute before is left out (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help='only rows "part: what" in which this regular expression is found')
    args = parser.parse_args(argv)
    if not args.minutes > 0:
        parser.error(f"--minutes {args.minutes:g}: it must be above 0")
    try:
        re.compile(args.only)
    except re.error as error:
        parser.error(f"--only {args.only}: no regular expression: {error}")
    with backend.using("cupy"):             # one line and status 2 where there is no GPU
        day = Day(args.quick, Path(args.out), args.minutes, facts(), args.only)
        everything(day)
    day.keep()
    return 1 if any(row["good"] is False for row in day.rows) else 0


if __name__ == "__main__":
    start_script()
    sys.exit(guarded("gpu_day.py", main))

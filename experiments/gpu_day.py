"""The day a GPU is there: is npdl right on it, and how fast? One table, in under ten minutes.

    python experiments/gpu_day.py                      all of it, into runs/gpu-day
    python experiments/gpu_day.py --quick --out D      few steps, small sizes: does it run?

Right: the first steps of both models under both engines beside NumPy's, in float64 and float32;
two equal runs, bit for bit; both training scripts until they generalise; every gradient case.
Fast: milliseconds a step, the host's share of them, the most memory, at document 004's size and
at larger ones; a sum down a column, both ways; PyTorch eager and with CUDA graphs beside it where
it is installed for CUDA. Writes gpu-day.json and gpu-day.md. A part that fails, or that time did
not allow, is a bad row and stops nothing; the exit status is 1 where a row is bad, 2 where there
is no GPU. On an emulated card (tests/tools/cupy_on_cpu) the times mean nothing, and it says so.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("CUPY_TF32", "0")         # before CuPy

import numpy as np

from experiments.bench.cases import DOCUMENT, growth_case
from experiments.bench.gpu_sides import npdl_side, torch_side
from npdl import backend
from npdl.backend import to_host, xp
from npdl.files import write_atomically
from npdl_study.deviation import deviation
from npdl_train.console import OneLineParser, begin, folder, guarded
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer
from tests.tools.cases import all_cases
from tests.tools.device_helpers import on_device, on_host, run_case

ROOT = Path(__file__).resolve().parents[1]
MODELS, ENGINES = ("gpt", "lstm"), ("fast", "plain")
LIMITS = {"float64": (1e-9, 1e-9), "float32": (2e-4, 1e-4)}     # of a gradient case, of the steps
SPARE = 30.0                # seconds before the end at which nothing is begun any more
LARGER = [("batch", 8192), ("width", 512)]
QUICK_LARGER = [("batch", 64), ("width", 64)]
QUICK_RUN = ["--p", "7", "--width", "32", "--steps", "40"]
COLUMNS = [(2880, 128), (49152, 128), (49152, 512)]     # a document's step, batch 8192, width 512


class Day:
    """The rows found so far, and the time that is left."""

    def __init__(self, quick, out, minutes):
        self.quick, self.out, self.rows = quick, out, []
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes

    def row(self, part, what, value, good=None):
        """One line of the table; `good` is None where there is nothing to be right or wrong."""
        self.rows.append({"part": part, "what": what, "value": value, "good": good})
        mark = {None: "    ", True: "ok  ", False: "BAD "}[good]
        print(f"{mark}{part}: {what}: {value}", flush=True)

    def left(self):
        """The seconds left; TimeoutError where nothing should be begun any more."""
        left = self.end - SPARE - time.monotonic()
        if left <= 0:
            raise TimeoutError("left out: the time was over (--minutes)")
        return left

    def attempt(self, part, what, function, *given):
        """A part's row, by function(day, *given) -> (value, good), or a bad one that says why."""
        try:
            self.left()
            self.row(part, what, *function(self, *given))
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


def gradients(day, dtype):
    with backend.using("numpy"):
        cases = all_cases()[:: 20 if day.quick else 1]
    wrong, most, limit = [], 0.0, LIMITS[dtype][0]
    for number, case in enumerate(cases):
        if time.monotonic() > day.end - SPARE:
            wrong.append(f"{len(cases) - number} left out: the time was over (--minutes)")
            break
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
    """(milliseconds a step, of it until the host is free), medians over blocks of steps."""
    blocks, steps = (1, 1) if day.quick else (20, 10)
    whole, host = [], []
    for _ in range(blocks + 1):             # the first finds the device at rest
        began = time.perf_counter()
        for _ in range(steps):
            step()
        host.append(1e3 * (time.perf_counter() - began) / steps)
        synchronize()
        whole.append(1e3 * (time.perf_counter() - began) / steps)
    return statistics.median(whole[1:]), statistics.median(host[1:])


def speed(day, case, name):
    kind, how = name.split(" ", 1)
    side = (npdl_side(case, how) if kind == "npdl" else
            torch_side(case, None if how == "eager" else "reduce-overhead"))
    for _ in range(1 if day.quick else 5):
        side.step()
    side.synchronize()
    whole, host = timed(day, side.step, side.synchronize)
    value = (f"{whole:.3f} ms a step, of it {host:.3f} until the host is free; "
             f"{side.memory():.0f} MB at most")
    side.forget()
    return value, None


def column_sum(day, rows, columns):
    """What a gradient of a bias is: CuPy's sum, and npdl's product with ones."""
    x, ones = xp.ones((rows, columns), "float32"), xp.ones((1, rows), "float32")
    found, out = [], xp.empty((1, columns), "float32")
    for work in (lambda: x.sum(0, out=out[0]), lambda: xp.matmul(ones, x, out=out)):
        work()
        found.append(timed(day, work, backend.synchronize)[0])
    return f"sum {1e3 * found[0]:.1f} us, product with ones {1e3 * found[1]:.1f} us", None


# --- the command --------------------------------------------------------------------------------
def facts():
    """What the figures belong to."""
    about = xp.cuda.runtime.getDeviceProperties(0)
    known = {"device": about["name"].decode(), "compute capability":
             f"{about['major']}.{about['minor']}", "CuPy": xp.__version__,
             "driver": xp.cuda.runtime.driverGetVersion(), "NumPy": np.__version__,
             "Python": sys.version.split()[0], "TF32": os.environ["CUPY_TF32"]}
    if "cupy_on_cpu" in known["device"]:
        known["times"] = "meaningless: an emulated card"
    return known


def torch_version():
    """PyTorch's version where it sees the card, or why it is left out."""
    try:
        import torch
    except ImportError:
        return "left out: not installed", []
    if not torch.cuda.is_available():
        return f"left out: {torch.__version__} sees no card", []
    return torch.__version__, ["torch eager", "torch graphs"]


def everything(day, known):
    """Every part, what tells most first."""
    for dtype in LIMITS:
        for model in MODELS:
            for engine in ENGINES:
                day.attempt("first steps", f"{model} {engine} {dtype}", first_steps, model, engine,
                            dtype)
    for model in MODELS:
        for engine in ENGINES:
            day.attempt("repeated", f"{model} {engine}", repeated, model, engine)
    for model in MODELS:
        day.attempt("to the end", f"train_{model}.py", to_the_end, model)
    known["PyTorch"], rivals = torch_version()
    for axis, value in [(None, None), *(QUICK_LARGER if day.quick else LARGER)]:
        for model in MODELS:
            case = growth_case(model, axis, value) if axis else DOCUMENT[model]
            for name in ("npdl fast", "npdl plain", *rivals):
                size = f"{axis} {value}" if axis else "document 004"
                day.attempt("speed", f"{model}, {size}, {name}", speed, case, name)
    for rows, columns in COLUMNS[:1] if day.quick else COLUMNS:
        day.attempt("column sum", f"({rows}, {columns})", column_sum, rows, columns)
    for dtype in LIMITS:
        day.attempt("gradients", dtype, gradients, dtype)


def table(known, rows):
    lines = [f"{name}: {value}  " for name, value in known.items()]
    lines += ["", "| part | what | found | |", "|---|---|---|---|"]
    marks = {None: "", True: "ok", False: "BAD"}
    return "\n".join([*lines, *(f"| {row['part']} | {row['what']} | {row['value']} "
                                f"| {marks[row['good']]} |" for row in rows), ""])


def main(argv=None):
    parser = OneLineParser(description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=folder, default="runs/gpu-day", metavar="DIR",
                        help="where the table goes (%(default)s)")
    parser.add_argument("--minutes", type=float, default=9.5, metavar="M",
                        help="what has not begun half a minute before is left out (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="does it run?")
    args = parser.parse_args(argv)
    if not args.minutes > 0:
        parser.error(f"--minutes {args.minutes:g}: it must be above 0")
    with backend.using("cupy"):             # one line and status 2 where there is no GPU
        day, known = Day(args.quick, Path(args.out), args.minutes), facts()
        everything(day, known)
    known["minutes"] = round((time.monotonic() - day.began) / 60, 1)
    known["bad rows"] = sum(row["good"] is False for row in day.rows)
    day.out.mkdir(parents=True, exist_ok=True)
    found = json.dumps({"facts": known, "rows": day.rows}, indent=1)
    for name, text in (("json", found), ("md", table(known, day.rows))):
        write_atomically(day.out / f"gpu-day.{name}", lambda file, t=text: file.write(t.encode()))
    return 1 if known["bad rows"] else 0


if __name__ == "__main__":
    begin()
    sys.exit(guarded("gpu_day.py", main))

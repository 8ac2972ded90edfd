"""Run the training scripts and npdl's commands as separate processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARITHMETIC = ("--p", 5, "--width", 8, "--layers", 1, "--eval-first", 0, "--eval-every", 1,
              "--save-every", 3, "--threads", 1)


def start(program, *arguments, **popen_options):
    """Start a script of experiments/ or a command of npdl; `popen_options` are for Popen."""
    path = ROOT / "experiments" / f"{program}.py"
    begin = [path] if path.exists() else ["-m", "npdl", program]
    return start_python(*begin, *arguments, **popen_options)


def start_python(*arguments, **popen_options):
    """Start Python with these arguments, one BLAS thread and this folder's packages."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment, "cwd": ROOT}
    return subprocess.Popen(command, text=True, **{**usual, **popen_options})


def wait_for_step(process, folder, step):
    """Wait until the metrics of the run of a process have this step, or it has ended."""
    path, recorded = Path(folder) / "metrics.jsonl", 0
    while recorded < step and process.poll() is None:
        time.sleep(0.01)
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        recorded = json.loads(lines[-1])["step"] if lines else 0

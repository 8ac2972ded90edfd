"""Scripts as processes: outputs that are closed or full, Ctrl-C at any moment, missing extras."""

import contextlib
import os
import random
import signal
import time

from tests.training.trust.runs import ARITHMETIC, ROOT, start

# Scripts that take a while, for Ctrl-C, and ones that print, for closed outputs. {tmp} is a folder
# with runs in it, {new} one that no process has used yet.
LONG = (
    ("train_gpt", *ARITHMETIC, "--heads", 2, "--steps", 3000, "--quiet", "--out", "{new}"),
    ("train_lstm", *ARITHMETIC, "--steps", 3000, "--quiet", "--out", "{new}"),
    ("finetune", "{tmp}/run", "--steps", 3000, "--quiet", "--rank", 1, "--threads", 1, "--out",
     "{new}"),
    ("generate", "{tmp}/text", "1", "--tokens", 20000),
    ("study", "sanity", "--jobs", 1, "--out", "{new}", "--seeds", 77),
    ("npdl", "blame", "GPT"), ("npdl", "step", "GPT"), ("exercises",),
    ("ask", "{tmp}/run", "1 + 1 ="), ("table", "{tmp}/run"),
)
PRINTING = (
    ("train_gpt", *ARITHMETIC, "--heads", 2, "--steps", 3, "--out", "{new}"),
    ("train_gpt", "--help"), ("ask", "{tmp}/run", "1 + 1 ="), ("generate", "{tmp}/run", "1 + 1 ="),
    ("table", "{tmp}/run"), ("study", "--list", "--out", "{tmp}/study"),
    ("npdl", "step", "Linear"), ("npdl", "--help"), ("exercises", "--only", "001"),
    ("finetune", "--help"), ("bench_cpu", "--help"), ("gpu_day", "--help"),
)
READERS = ("npdl", "exercises")     # long texts: a reader that has seen enough is no error there


def processes(lines, folder, count):
    """Yield `count` of the command lines, one after the other, as (script, arguments)."""
    for number in range(count):
        script, *arguments = lines[number % len(lines)]
        new = str(folder / f"new-{script}-{number}-{time.monotonic_ns()}")
        yield script, [str(a).replace("{tmp}", str(folder)).replace("{new}", new)
                       for a in arguments]


def complaints(errors):
    """The lines of a standard error that are no progress."""
    return [line for line in errors.strip().splitlines()
            if not line.startswith(("step ", "["))]


def closed(folder, count):
    """Standard output that is closed, or a device that is full; how many were tried.

    A full device is always an error, of one line; so is a closed pipe, but for READERS.
    """
    tried = 0
    for sink in ("pipe", "/dev/full"):
        if sink != "pipe" and not os.path.exists(sink):
            continue
        for script, arguments in processes(PRINTING, folder, count):
            reading = None
            if sink == "pipe":
                reading, writing = os.pipe()
                os.close(reading)
            else:
                writing = os.open(sink, os.O_WRONLY)
            process = start(script, *arguments, stdout=writing)
            os.close(writing)
            _, errors = process.communicate()
            lines = complaints(errors)
            what = f"{script} {arguments} into {sink}: {process.returncode}, {errors!r}"
            quiet = sink == "pipe" and script in READERS and process.returncode == 0
            assert "Traceback" not in errors and "Exception ignored" not in errors, what
            assert quiet or (process.returncode == 2 and len(lines) == 1), what
            tried += 1
    return tried


def interrupted(folder, count, seed=3):
    """Ctrl-C at random moments from the first lines of a script on: status 130, no traceback.

    Returns how many came before the work began, and how many during it.
    """
    rng, moments = random.Random(seed), {"early": 0, "late": 0}
    turns = processes(LONG, folder, 20 * count)
    while sum(moments.values()) < count:
        script, arguments = next(turns)
        process = start(script, *arguments)
        _wait_for_npdl(process)
        if "--out" in arguments and rng.random() < 0.6:
            _wait_for_folder(process, arguments[arguments.index("--out") + 1])
        time.sleep(rng.uniform(0, 1.5))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
        if process.returncode == 0:
            continue                            # it was quicker
        what = f"{script} after Ctrl-C: {process.returncode}, {errors!r}"
        assert process.returncode in (130, -signal.SIGINT), what    # a shell shows 130 for both
        assert "Traceback" not in errors and len(complaints(errors)) <= 1, what
        moments["late" if output or errors else "early"] += 1
        assert not alive(folder), f"{script} left processes behind: {alive(folder)}"
    return moments


def alive(folder):
    """The command lines of processes that were given something in a folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/cmdline") as file:
                found.append(file.read().replace("\0", " "))
    return [line for line in found if str(folder) in line]


def _wait_for_npdl(process):
    """Wait until a process imports NumPy: a script's own first call, npdl.console.begin, is done.

    Before that Python itself is starting, and nothing of npdl's can be quiet.
    """
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            with open(f"/proc/{process.pid}/maps") as file:
                if "_multiarray_umath" in file.read():      # NumPy comes after it
                    return
        time.sleep(0.002)
    assert process.poll() == 0, f"the script did not import NumPy: {process.communicate()}"


def _wait_for_folder(process, folder):
    """Wait until a training has begun: its folder is there."""
    while process.poll() is None and not os.path.exists(folder):
        time.sleep(0.002)


MISSING = (                         # what is not installed, and a command line that wants it
    ("cupy", ("train_gpt", "--backend", "cupy", "--out", "{new}"), ("cupy", "--backend numpy")),
    ("distributed", ("study", "--backend", "dask", "--address", "tcp://x:1", "--out", "{new}"),
     ("dask", "pip install")),
    ("torch", ("bench_cpu", "--quick"), ("torch", "pip install")),
    ("cupy", ("gpu_day", "--quick"), ("CuPy", "cuda12")),
)


def missing(folder):
    """Scripts that want what is not installed say so; how many were tried."""
    hidden = folder / "hidden"
    for name, line, words in MISSING:
        (hidden / name).mkdir(parents=True, exist_ok=True)
        (hidden / name / "sitecustomize.py").write_text(    # Python runs it when it starts
            f"import sys\nsys.modules[{name!r}] = None\n")
        (script, arguments), = processes([line], folder, 1)
        environment = {**os.environ, "PYTHONPATH": f"{hidden / name}{os.pathsep}{ROOT}"}
        process = start(script, *arguments, env=environment)
        _, errors = process.communicate()
        what = f"{script} without {name}: {process.returncode}, {errors!r}"
        assert process.returncode == 2 and len(errors.strip().splitlines()) == 1, what
        assert all(word in errors for word in words), what
    return len(MISSING)

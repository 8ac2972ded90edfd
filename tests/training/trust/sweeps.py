"""Launchers that share a sweep's folder, and die: every run once, with the same bytes."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time

from npdl.training.claim import claim
from npdl.training.config import Config
from npdl.training.metrics import read_metrics
from npdl.training.sweep import folder_of, is_finished, sweep, work
from tests.training.trust import Figure
from tests.training.trust.runs import fingerprint, start_python

PRESENT = "inside"                              # the file that stands for working in a folder


def configs(count, steps):
    """Runs of both models that are saved every 5 steps."""
    small = {"p": 5, "width": 8, "heads": 2, "layers": 1, "steps": steps, "save_every": 5,
             "eval_first": 0, "eval_every": 1}
    return [Config(model=model, seed=seed, **small)
            for seed in range(count // 2) for model in ("gpt", "lstm")]


def alike(made, wanted, runs):
    """Raise unless every run is finished, with the bytes of `wanted`, each step recorded once.

    A process that was killed when all was written may leave its claim, which nobody asks for.
    """
    assert not workers(made), f"{made}: is still claimed"
    for config in runs:
        folder = folder_of(made, config)
        assert is_finished(folder, config), f"{folder}: is not finished"
        records, torn = read_metrics(folder / "metrics.jsonl")
        steps = [record["step"] for record in records]
        assert steps == list(range(1, config.steps + 1)) and not torn, f"{folder}: {steps}"
        assert fingerprint(folder) == wanted[config], f"{folder}: other bytes than alone"


def launcher(runs, root, jobs=2):
    """A process that makes the runs, in a group of its own so that Ctrl-C can be sent to it."""
    code = ("import json, signal, sys; from npdl.training.config import Config; "
            "signal.signal(signal.SIGINT, signal.default_int_handler); "    # as in a terminal
            "from npdl.training.sweep import sweep; "
            "sweep([Config.from_json(c) for c in json.loads(sys.argv[1])], sys.argv[2], "
            f"{jobs}, quiet=True)")
    settings = json.dumps([config.to_json() for config in runs])
    return start_python("-c", code, settings, root, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL, start_new_session=True)


def workers(root):
    """Process numbers of those alive who hold claims on runs below `root`."""
    found = []
    for path in root.glob("*/claim.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text())["pid"])
    return [pid for pid in found if not _is_dead(pid)]


def killed_launchers(folder, runs, wanted, kills, rng):
    """Two launchers at a time share the runs; launchers and workers are killed at random.

    Returns (launchers killed, workers killed). A worker outlives its launcher and ends its run.
    """
    root, done, end = folder / "shared", [0, 0], time.monotonic() + 60 * len(runs)
    root.mkdir()
    launchers = []
    while not all(is_finished(folder_of(root, config), config) for config in runs):
        assert time.monotonic() < end, "the sweep comes to no end"
        while len(launchers) < 2:
            launchers.append(launcher(runs, root))
        time.sleep(rng.uniform(0.2, 1.2))
        if sum(done) < kills and rng.random() < 0.4:
            victim = launchers.pop(rng.randrange(2))
            done[0] += victim.poll() is None
            victim.kill()
            victim.wait()
        elif sum(done) < kills:
            for pid in workers(root)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    done[1] += 1
        launchers = [process for process in launchers if process.poll() is None]
    for process in launchers:
        process.wait()
    end = time.monotonic() + 60
    while workers(root) and time.monotonic() < end:     # of launchers that were killed
        time.sleep(0.05)
    sweep(runs, root, quiet=True)
    alike(root, wanted, runs)
    return done


def contenders(folder, seconds, count, seed=0):
    """Processes that claim one folder again and again, and are killed while they hold it.

    Whoever holds the claim makes the file PRESENT, which must not be there, unless its maker is
    dead. Returns (claims held, holders killed).
    """
    folder.mkdir()
    children = {}
    rng, end, killed = random.Random(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        while len(children) < count:
            number = rng.randrange(2**32)
            pid = os.fork()
            if pid == 0:
                _contend(folder, number)
            children[pid] = True
        time.sleep(rng.uniform(0, 0.01))
        for pid in [pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]]:
            del children[pid]
        with contextlib.suppress(OSError, ValueError):
            holder = json.loads((folder / "claim.json").read_text())["pid"]
            if holder in children and rng.random() < 0.5:
                os.kill(holder, signal.SIGKILL)
                killed += 1
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    both, held = (path.read_text() if path.exists() else "" for path in
                  (folder / "both", folder / "held"))
    assert not both, f"two processes held the claim at a time: {both}"
    return len(held), killed


def _contend(folder, seed):
    """Claim the folder again and again, for a moment each; it is killed, or ends by a mistake."""
    rng = random.Random(seed)
    try:
        while True:
            with claim(folder) as mine:
                if mine is not None:
                    _be_alone(folder)
                    time.sleep(rng.uniform(0, 0.004))
                    if mine.holds():
                        (folder / PRESENT).unlink(missing_ok=True)
            time.sleep(rng.uniform(0, 0.004))
    except BaseException as error:
        with open(folder / "both", "a") as file:
            file.write(f"{type(error).__name__}: {error}; ")
    finally:
        os._exit(1)


def _be_alone(folder):
    """Write down who is here, and that someone else who lives is here too."""
    with contextlib.suppress(FileNotFoundError):
        other = (folder / PRESENT).read_text()
        if other and not _is_dead(other):
            with open(folder / "both", "a") as file:
                file.write(f"{other} and {os.getpid()}; ")
    (folder / PRESENT).write_text(str(os.getpid()))
    with open(folder / "held", "a") as file:
        file.write(".")


def _is_dead(pid):
    """Whether a process has ended; its parent may not have asked how."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    return True


def interrupted(folder, runs, wanted):
    """Ctrl-C to a launcher: its runs save and end with it, and the next launcher goes on."""
    root = folder / "interrupted"
    root.mkdir()
    process = launcher(runs, root)
    end = time.monotonic() + 60
    while not list(root.glob("*/checkpoint.npz")) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.wait()
    assert process.returncode != 0, "the sweep was quicker than Ctrl-C"
    assert not workers(root), "a run goes on after Ctrl-C"
    sweep(runs, root, quiet=True)
    alike(root, wanted, runs)


def measure(full, folder):
    runs = configs(12 if full else 4, 200 if full else 60)
    wanted = {}
    for config in runs:                                 # one after another, in this process
        assert work(config, folder_of(folder / "alone", config)) == "finished"
        wanted[config] = fingerprint(folder_of(folder / "alone", config))
    sweep(runs, folder / "parallel", jobs=2, quiet=True)
    alike(folder / "parallel", wanted, runs)
    killed = killed_launchers(folder, runs, wanted, 40 if full else 4, random.Random(5))
    interrupted(folder, runs, wanted)
    held, dead = contenders(folder / "contended", 100 if full else 3, 6)
    assert min(held, dead) >= (200 if full else 5), f"{held} claims, {dead} holders killed"
    return [
        Figure("Two launchers share a sweep: no run twice, the same bytes as alone",
               "a sweep one after another, in parallel, and by two launchers that are killed",
               f"{len(runs)} runs, each made four times, equal; {killed[0]} launchers and "
               f"{killed[1]} of their processes killed, Ctrl-C once; each step recorded once"),
        Figure("A claim is one process's at a time, and a dead one's claim lapses",
               "6 processes claim one folder again and again, SIGKILL to the holder",
               f"{held:,} claims, {dead:,} holders killed: never two at a time, "
               "none left waiting"),
    ]



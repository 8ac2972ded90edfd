"""The parent's end of experiments/bench_gpu.py: variants, turns, the growth of the sizes."""

import json
import os
import statistics
import subprocess
import sys
import time

from .cases import DOCUMENT, growth_case
from .harness import Result, Variant
from .worker import Worker, WorkerError

MODES = ("default", "reduce-overhead")          # of torch.compile
PLAIN, FUSED = ("plain", "per-gate"), ("sdpa", "nn.LSTM")       # forms of the GPT, of the LSTM
# The largest first: if time runs out, it is the middle of a curve that is missing.
GROWTH = {"batch": (8192, 32, 2048, 480), "width": (512, 64, 256, 128), "length": (128, 6, 32)}
QUICK = {"batch": (64, 32), "width": (64, 128), "length": (12, 6)}
LAST_START = 60.0           # seconds before the end at which no other case is begun


def variants(compiled=True, tf32=False):
    """Every variant, for both models."""
    def torch(name, forms, **options):
        return Variant(f"torch {name}", "torch", "equal",
                       {"forms": forms, "tf32": tf32, **options})

    environment = {"CUPY_TF32": "1" if tf32 else "0"}
    found = [
        Variant("npdl", "npdl", "equal", {"work": "equal"}, 1, environment),
        Variant("npdl, plain (the textbook)", "npdl", "equal", {"work": "plain"}, 1, environment),
        Variant("npdl, needed only", "npdl", "less", {"work": "needed"}, 1, environment),
        Variant("npdl, shared prefixes", "npdl", "less", {"work": "shared"}, 1, environment),
        torch("eager, plain / per gate", PLAIN),
        torch("eager, sdpa / nn.LSTM", FUSED),
    ]
    if compiled:
        found += [torch(f"compiled, {mode}, sdpa / nn.LSTM", FUSED, compiled=mode)
                  for mode in MODES]
    return found


def in_growth(variant):
    """Whether a variant takes part where sizes grow: equal work, and not in the slower form."""
    slower = variant.options.get("forms") == PLAIN or variant.options.get("work") == "plain"
    return variant.work == "equal" and not slower


class Team:
    """A worker for each variant, all alive at once; they serve one case after another."""

    def __init__(self, script, chosen, say=print):
        self.say, self.variants, self.workers = say, [], {}
        for variant in chosen:
            job = {"kind": variant.kind, "options": variant.options}
            try:
                worker = Worker(variant.name, command(script, job), 1, variant.environment)
                self.workers[variant.name] = worker
                self.variants.append(variant)
            except WorkerError as error:
                say(f"left out: {error}")

    def _ask_all(self, results, line):
        """Send to all at once, so that compilations run side by side; then hear them all."""
        for result in results:
            self._try(result, lambda worker: worker.send(line))
        for result in results:
            if not result.error:
                self._try(result, lambda worker: worker.receive())

    def _try(self, result, action):
        try:
            return action(self.workers[result.variant.name])
        except WorkerError as error:
            result.error = str(error)
            self.say(f"left out: {error}")
            if self.workers[result.variant.name].process.poll() is not None:
                self.workers.pop(result.variant.name).close()
            return None

    def measure(self, case, rounds, seconds, wanted=lambda variant: True):
        """A Result for each wanted variant: `rounds` turns of so many seconds, in rotated order.

        In a text every position counts, so there is no variant with less work.
        """
        results = [Result(v) for v in self.variants if v.name in self.workers and wanted(v)
                   and (v.work == "equal" or not case.is_text)]
        self._ask_all(results, f"case {json.dumps(case.as_dict())}")
        for number in range(rounds):
            alive = [result for result in results if not result.error]
            for i in range(len(alive)):
                result = alive[(i + number) % len(alive)]
                reply = self._try(result, lambda worker: worker.ask(f"turn {seconds}"))
                if reply:
                    result.ms += reply["ms"]
                    result.rounds.append(statistics.median(reply["ms"]))
        for result in results:
            if not result.error:
                reply = self._try(result, lambda worker: worker.ask("memory"))
                result.peak_mb = reply["peak_mb"] if reply else 0.0
        return results

    def close(self):
        for worker in self.workers.values():
            worker.close()


def command(script, job):
    return [sys.executable, str(script), "--worker", json.dumps(job)]


def growth_cases(models, quick=False):
    """[(model, axis, value, case)], the axes in turn, so that an early end spares all of them."""
    found, sizes = [], QUICK if quick else GROWTH
    for place in range(max(map(len, sizes.values()))):
        for axis, values in sizes.items():
            for model in models if place < len(values) else ():
                if model != "text":
                    found.append((model, axis, values[place],
                                  growth_case(model, axis, values[place])))
    return found


def measure_growth(team, models, deadline, rounds, seconds, quick, guard):
    """Points as report.growth_table takes them, and the labels of what time did not allow."""
    points, late = [], []
    for model, axis, value, case in growth_cases(models, quick):
        if time.monotonic() > deadline - LAST_START:
            late.append(case.label())
            continue
        guard.wait_until_quiet()
        rows = [result.as_dict() for result in team.measure(case, rounds, seconds, in_growth)]
        points.append((model, axis, value, rows))
        print(f"{case.label()}: done", file=sys.stderr, flush=True)
    order = list(GROWTH)
    points.sort(key=lambda point: (models.index(point[0]), order.index(point[1]), point[2]))
    return points, late


def kernel_counts(script, chosen, model, timeout):
    """{variant's name: counts or an error's text}, each from a process of its own, untimed."""
    started = {}
    for variant in chosen:
        job = {"kind": "kernels", "side": variant.kind, "options": variant.options,
               "case": DOCUMENT[model].as_dict()}
        started[variant.name] = subprocess.Popen(
            command(script, job), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | variant.environment)
    found, deadline = {}, time.monotonic() + timeout
    for name, process in started.items():
        try:
            out, complaints = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
            last = complaints.strip().splitlines()[-1:]
            found[name] = json.loads(out) if process.returncode == 0 else " ".join(last)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            found[name] = "took too long"
    return found

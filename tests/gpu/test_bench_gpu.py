"""experiments/bench_gpu.py without a GPU: its refusals, npdl's side on the stand-in, its tables."""

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from experiments import bench_gpu
from experiments.bench import gpu_measure, gpu_report, gpu_sides
from experiments.bench.cases import DOCUMENT, Case
from experiments.bench.guard import Guard
from experiments.bench.harness import Result, Variant
from experiments.bench.worker import Worker, WorkerError
from npdl import backend
from tests.tools import fakecupy
from tests.tools.refusals import status_of

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"gpt": Case("gpt", batch=12, width=8, heads=2), "lstm": Case("lstm", batch=12, width=8),
         "text": Case("text", batch=3, length=8, width=8, heads=2, vocab=11)}
KNOWN = {"device": "Some GPU", "device_gib": 8.0, "torch": "2.0", "torch_cuda": "13.0",
         "cupy": "14.2.0", "cupy_cuda": "13.0", "driver": "580.1"}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Worker processes find the stand-in for CuPy, with 50 MB of memory."""
    (tmp_path / "fake" / "cupy").mkdir(parents=True)
    (tmp_path / "fake" / "cupy" / "__init__.py").write_text(
        "from tests import fakecupy\nfakecupy.install(limit=50 * 10**6)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'fake'}{os.pathsep}{ROOT}")


# Refusals

def refused(capsys, *arguments):
    """The one line with which the script refuses, after a check of its exit status."""
    status = status_of(bench_gpu.main, list(arguments))
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert status == 2
    return line


@pytest.mark.parametrize("missing", ["cupy", "torch"])
def test_what_is_not_installed_is_named(capsys, monkeypatch, missing):
    monkeypatch.setattr(bench_gpu.importlib.util, "find_spec", lambda name: name != missing or None)
    assert f"bench_gpu: {missing} is not installed; install " in refused(capsys)


def test_a_cupy_without_a_gpu_is_one_line(capsys, monkeypatch, tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(
        "class cuda:\n class runtime:\n  getDeviceCount = staticmethod(lambda: 0)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setattr(bench_gpu.importlib.util, "find_spec", lambda name: True)
    assert "bench_gpu: backend 'cupy': no GPU was found" in refused(capsys)


@pytest.mark.torch
def test_a_pytorch_without_a_gpu_is_one_line(capsys, monkeypatch, stand_in):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("PyTorch sees a GPU here")
    monkeypatch.setattr(bench_gpu.importlib.util, "find_spec", lambda name: True)
    assert "sees no GPU; install its build for CUDA" in refused(capsys)


@pytest.mark.parametrize("arguments, said", [
    (("--mode", "sweep"), "invalid choice: 'sweep'"), (("--rounds", "0"), "0 must be above 0"),
    (("--model", "rnn"), "invalid choice: 'rnn'"), (("--minutes", "-1"), "-1 must be above 0"),
    (("--minutes", "soon"), "--minutes"),
])
def test_bad_options_are_one_line(capsys, arguments, said):
    assert said in refused(capsys, *arguments)


# npdl's side on the stand-in

@pytest.mark.slow
@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("work", ["plain", "equal", "needed", "shared"])
def test_npdls_step_learns_without_waiting_and_tells_its_memory(model, work):
    with fakecupy.installed(limit=10**9), backend.using("cupy"):
        side = gpu_sides.npdl_side(SMALL[model], work)
        first = float(side.step())
        fakecupy.waits.clear()
        for _ in range(20):
            loss = side.step()
        assert fakecupy.waits == []
        assert float(loss) < first
        before = fakecupy.memory.used
        told = side.memory()
        assert before < told["peak_mb"] * 2**20 <= fakecupy.memory.top
        side.forget()


def test_a_worker_serves_one_case_after_another_and_survives_errors(stand_in):
    job = {"kind": "npdl", "options": {"work": "equal"}}
    worker = Worker("npdl", gpu_measure.command(bench_gpu.SCRIPT, job), 1)
    try:
        for model in ("gpt", "lstm"):
            assert worker.ask(f"case {json.dumps(SMALL[model].as_dict())}") == {"ready": True}
            times = worker.ask("turn 0.01")["ms"]
            assert len(times) >= 2 and min(times) > 0
            assert 0 < worker.ask("memory")["peak_mb"] < 50
            with pytest.raises(WorkerError, match="OutOfMemoryError: Out of memory allocating"):
                worker.ask(f"case {json.dumps(Case(model, batch=5000, width=512).as_dict())}")
    finally:
        worker.close()


@pytest.mark.slow
def test_the_whole_run_with_npdl_alone(stand_in, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(bench_gpu, "checked_facts", lambda: KNOWN)
    npdl_alone = [v for v in gpu_measure.variants() if v.kind == "npdl"][:2]
    monkeypatch.setattr(gpu_measure, "variants", lambda compiled, tf32: npdl_alone)
    monkeypatch.setattr(gpu_measure, "QUICK", {"batch": (12, 6)})
    monkeypatch.setattr(bench_gpu, "Guard", lambda patience: Guard(patience=0.0, limit=2.0))
    monkeypatch.setattr(gpu_measure, "kernel_counts", lambda script, chosen, *rest: {
        "npdl": {"kernels": 401.0, "copies": 1.0, "launches": 400.0}})
    monkeypatch.setitem(DOCUMENT, "gpt", SMALL["gpt"])
    assert bench_gpu.main(["--quick", "--model", "gpt", "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "Some GPU (8.0 GiB, driver 580.1); CuPy 14.2.0 with CUDA 13.0" in shown
    assert "TF32 off" in shown and "| 401 | 1 | 400 |" in shown and "| gpt | batch | 6 |" in shown
    record = json.loads((tmp_path / "out" / "bench_gpu.json").read_text())
    assert record["gpu"] == KNOWN and record["left_out"] == []
    assert [point["value"] for point in record["growth"]] == [6, 12]
    rows = record["steps"][0]["results"]
    assert [row["name"] for row in rows] == ["npdl", "npdl, plain (the textbook)"]
    assert all(row["steps"] >= 4 and row["peak_mb"] > 0 for row in rows)
    for name in ("bench_gpu.md", "bench_gpu_time.png", "bench_gpu_memory.png"):
        assert (tmp_path / "out" / name).stat().st_size > 100


# PyTorch's side on the CPU, the counts, the tables

@pytest.mark.torch
@pytest.mark.parametrize("model, form", [("gpt", "plain"), ("gpt", "sdpa"), ("lstm", "nn.LSTM"),
                                         ("lstm", "per-gate"), ("text", "sdpa")])
def test_pytorchs_step_learns(model, form):
    torch = pytest.importorskip("torch")
    side = gpu_sides.torch_side(SMALL[model], form, device="cpu")
    first = float(side.step())
    for _ in range(20):
        loss = side.step()
    assert float(loss) < first and loss.dtype == torch.float32


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_no_count_without_kernels():
    pytest.importorskip("torch")
    side = gpu_sides.torch_side(SMALL["gpt"], "plain", device="cpu")
    with pytest.raises(ArithmeticError, match="saw no kernel"):
        gpu_sides.count_kernels(side, 1)


def test_counts_from_a_trace():
    events = [{"cat": "kernel", "name": "k"}] * 6 + [{"cat": "gpu_memcpy", "name": "m"}] * 2
    events += [{"cat": "gpu_memset", "name": "m"}] * 2 + [{"ph": "M"}]
    events += [{"cat": "cuda_driver", "name": "cuLaunchKernel"}] * 2
    events += [{"cat": "cuda_runtime", "name": name} for name in
               ("cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaStreamSynchronize")]
    events += [{"cat": "gpu_user_annotation", "name": "Launch"}]
    assert gpu_sides.count_events(events, 2) == {"kernels": 3, "copies": 2, "launches": 2}
    with pytest.raises(ArithmeticError, match="saw no kernel"):
        gpu_sides.count_events(events[6:], 2)


def result(name, kind, times, work="equal", error=None, **options):
    found = Result(Variant(name, kind, work, options), error=error)
    found.ms, found.rounds, found.peak_mb = list(times), list(times), 12.5
    return found


def test_the_table_of_steps():
    results = [result("npdl", "npdl", [3.0, 3.2, 3.4]), result("eager", "torch", [2.0, 2.0, 2.0]),
               result("fast", "torch", [1.0, 1.0, 1.0], compiled="default"),
               result("broken", "torch", [], error="RuntimeError: no")]
    counts = {"npdl": {"kernels": 400.0, "copies": 2.0, "launches": 399.0}, "fast": "took too long"}
    table = gpu_report.step_table(DOCUMENT["gpt"], results, counts)
    assert ("| npdl | equal | 3.200 | 3.000 | 3.100-3.300 | 1.60 | 1.55-1.65 | 400 | 2 | 399 "
            "| 12.5 |") in table
    assert "| broken | failed: RuntimeError: no |" in table
    assert table.endswith("fast: kernels were not counted: took too long")
    columns = [line.count("|") for line in table.splitlines() if line.startswith("|")]
    assert set(columns) == {12}


def test_variants_and_sizes():
    names = [variant.name for variant in gpu_measure.variants()]
    assert len(set(names)) == len(names) == 8
    assert len(gpu_measure.variants(compiled=False)) == 6
    grown = [v.name for v in gpu_measure.variants() if gpu_measure.in_growth(v)]
    assert grown == ["npdl", "torch eager, sdpa / nn.LSTM",
                     *(f"torch compiled, {mode}, sdpa / nn.LSTM" for mode in gpu_measure.MODES)]
    cases = gpu_measure.growth_cases(["gpt", "text", "lstm"])
    assert len(cases) == 22 and {case[0] for case in cases} == {"gpt", "lstm"}
    assert [case[1:3] for case in cases[::2]][:4] == [("batch", 8192), ("width", 512),
                                                      ("length", 128), ("batch", 32)]


def test_what_time_does_not_allow_is_listed():
    points, late = gpu_measure.measure_growth(None, ["gpt"], time.monotonic(), 1, 0.1, True, None)
    assert points == [] and len(late) == 6
    assert np.all([label.startswith("gpt: batch ") for label in late])

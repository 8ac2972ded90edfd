"""Tests that need no CuPy: a script prints one line and exits with status 2 if there is no usable
GPU, and the code for devices computes the same as the code for NumPy."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from npdl import backend
from npdl.errors import BackendError, InputError
from tests.tools import cupy_on_cpu, device, slow
from tests.tools.device_helpers import MODELS, small_config
from tests.tools.trained import get_trainer_state, make_trained_trainer

pytestmark = pytest.mark.skipif(cupy_on_cpu.installed(), reason="this CuPy is an emulated one")
ROOT = Path(__file__).resolve().parents[2]
FULL = """
from tests.tools import device
device.install_numpy_cupy()
class OutOfMemoryError(MemoryError):
    pass
OutOfMemoryError.__module__ = "cupy.cuda.memory"
def asarray(*given):
    raise OutOfMemoryError("Out of memory allocating 4,000,000 bytes (allocated so far: 0 bytes)")
import sys
sys.modules["cupy"].asarray = asarray
"""
COUNT = """
import sys
class CUDARuntimeError(RuntimeError):
    pass
def count():
    {body}
class cuda:
    class runtime:
        getDeviceCount = staticmethod(count)
"""
TOO_OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient"
# {problem: (the source of a module cupy, a part of the message)}.
PROBLEMS = {
    "missing": ("raise ModuleNotFoundError('No module named cupy')",
                "CuPy is not installed; install cupy-cuda12x[ctk] or cupy-cuda13x[ctk]"),
    "broken": ("try:\n    raise ImportError('libcuda.so.1: cannot open')\n"
               "except ImportError as error:\n"
               "    raise ImportError('\\n=====\\nFailed to import CuPy.\\n=====') from error",
               "cannot be loaded; install just one of cupy-cuda12x and cupy-cuda13x"),
    "driver": (COUNT.format(body=f"raise CUDARuntimeError('{TOO_OLD}')"),
               "no usable GPU; if nvidia-smi lists a GPU, its driver may be too old for this CuPy: "
               f"update the driver, or use '--backend numpy' ({TOO_OLD})"),
    "no GPU": (COUNT.format(body="return 0"), "no GPU was found"),
    "memory": (FULL, "the GPU's memory is full; lower --batch, --width"),
}


@pytest.mark.parametrize("problem", slow.mark_except(["missing", "driver"], PROBLEMS))
def test_unusable_gpu_gives_one_error_line(tmp_path, problem):
    cupy, message = PROBLEMS[problem]
    (tmp_path / "cupy.py").write_text(cupy)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, ROOT / "experiments" / "train_gpt.py", "--backend",
                           "cupy", "--quiet", "--out", tmp_path / "run"], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("train_gpt.py: backend 'cupy': ") and message in line
    assert done.stdout == ""


@pytest.mark.parametrize("problem", ["driver", "no GPU"])
def test_message_names_cuda_visible_devices(monkeypatch, problem):
    cupy = types.ModuleType("cupy")
    exec(PROBLEMS[problem][0], vars(cupy))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for shown in ("7", "", None):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if shown is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
        with pytest.raises(BackendError) as caught:
            backend.use("cupy")
        named = f"among those that CUDA_VISIBLE_DEVICES={shown!r} shows"
        assert (named in str(caught.value)) == (shown is not None)


def test_cupy_errors_are_converted_and_others_pass():
    with device.cupy_or_numpy(), backend.using("cupy"):
        with pytest.raises(BackendError, match="CUDARuntimeError: cudaErrorIllegal.* nvidia-smi"):
            with backend.convert_cupy_errors():
                module = {"__module__": "cupy_backends.cuda.api.runtime"}
                raise type("CUDARuntimeError", (RuntimeError,), module)("cudaErrorIllegal:\nodd")
        with pytest.raises(BackendError, match="libcublas.so.13.*cupy-cuda12x or cupy-cuda13x"):
            with backend.convert_cupy_errors():
                raise ImportError("libcublas.so.13: cannot open shared object file")
        for foreign in (ZeroDivisionError, MemoryError, InputError, KeyboardInterrupt,
                        ModuleNotFoundError):
            with pytest.raises(foreign):
                with backend.convert_cupy_errors():
                    raise foreign("not CuPy's")
    with pytest.raises(ImportError):            # NumPy's device needs no library of CUDA
        with backend.convert_cupy_errors():
            raise ImportError("libpng.so: cannot open shared object file")


@pytest.mark.parametrize(("model", "settings"), [
    row for row in MODELS if row[1]["engine"] == "plain"], ids=str)
def test_device_code_paths_equal_host_training(model, settings):
    """NumPy takes the place of CuPy if CuPy is missing. test_gpu.py has more tests."""
    config = small_config(model, settings, dtype="float64")
    wanted = make_trained_trainer(config, 4)
    with device.cupy_or_numpy(), backend.using("cupy"):
        found, _ = get_trainer_state(make_trained_trainer(config, 4))
    for name, array in get_trainer_state(wanted)[0].items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-9, err_msg=name)

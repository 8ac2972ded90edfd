"""What goes wrong with a GPU is one line and exit status 2, from the script that a user starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npdl import backend
from npdl.errors import BackendError, InputError
from tests.tools import fakecupy

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = "from tests import fakecupy\nfakecupy.install(limit={limit})\n"
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
# What `import cupy` runs: (the module's text, what the message has to say).
PROBLEMS = {
    "missing": ("raise ModuleNotFoundError('No module named cupy')",
                "CuPy is not installed; install npdl with the extra 'cuda12' or 'cuda13'"),
    "broken": ("try:\n    raise ImportError('libcuda.so.1: cannot open')\n"
               "except ImportError as error:\n"
               "    raise ImportError('\\n=====\\nFailed to import CuPy.\\n=====') from error",
               "cannot be loaded; install just one of the extras"),
    "driver": (COUNT.format(body=f"raise CUDARuntimeError('{TOO_OLD}')"),
               f"its driver is older than this CuPy needs: compare with nvidia-smi, update the "
               f"driver, or use '--backend numpy' ({TOO_OLD})"),
    "no GPU": (COUNT.format(body="return 0"), "no GPU was found"),
    "memory": (STAND_IN.format(limit=8 * 10**6),
               "the GPU's memory (8 GiB) is full; lower --batch, --width"),
}


def start(script, tmp_path, cupy, *arguments):
    """Run a script for which `import cupy` executes the text `cupy`."""
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text(cupy)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(ROOT / "experiments" / script), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_each_problem_is_one_line_from_the_script(tmp_path, problem):
    cupy, message = PROBLEMS[problem]
    done = start("train_gpt.py", tmp_path, cupy, "--backend", "cupy", "--quiet",
                 "--out", tmp_path / "run")
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("train_gpt.py: backend 'cupy': ") and message in line
    assert done.stdout == ""


def test_the_script_runs_on_the_stand_in(tmp_path):
    done = start("train_lstm.py", tmp_path, STAND_IN.format(limit=None), "--backend", "cupy",
                 "--p", 5, "--width", 8, "--steps", 3, "--threads", 4, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "3 steps" in done.stdout


def test_threads_say_that_a_gpu_ignores_them(capsys):
    from npdl.__main__ import main

    with pytest.raises(SystemExit):
        main(["train-gpt", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "ignored with --engine plain, and with --backend cupy" in text


def test_memory_that_fills_up_inside_a_step_is_one_line():
    with fakecupy.installed(limit=10**6), backend.using("cupy"):
        with pytest.raises(BackendError, match=r"memory \(8 GiB\) is full.*allocating 4,000,000"):
            with backend.plain_errors():
                backend.xp.zeros(10**6, "float32")


def test_other_errors_of_cupy_are_named_and_foreign_ones_pass():
    with fakecupy.installed() as cupy, backend.using("cupy"):
        with pytest.raises(BackendError, match="CUDARuntimeError: cudaErrorIllegal.* nvidia-smi"):
            with backend.plain_errors():
                raise cupy.cuda.runtime.CUDARuntimeError("cudaErrorIllegalAddress:\nan illegal one")
        with pytest.raises(BackendError, match="libcublas.so.13.*extra 'cuda12' or 'cuda13'"):
            with backend.plain_errors():
                raise ImportError("libcublas.so.13: cannot open shared object file")
        for foreign in (ZeroDivisionError, MemoryError, InputError, KeyboardInterrupt,
                        ModuleNotFoundError):
            with pytest.raises(foreign):
                with backend.plain_errors():
                    raise foreign("not CuPy's")
    with pytest.raises(ImportError):            # on NumPy no library of CUDA is missed
        with backend.plain_errors():
            raise ImportError("libpng.so: cannot open shared object file")


def test_a_device_that_answers_nothing_any_more_still_gets_its_line():
    with fakecupy.installed(limit=10) as cupy, backend.using("cupy"):
        del cupy.cuda.runtime.memGetInfo
        with pytest.raises(BackendError, match="the GPU's memory is full"):
            with backend.plain_errors():
                backend.xp.zeros(100)

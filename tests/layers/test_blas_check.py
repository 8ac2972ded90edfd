"""The self-test of BLAS at the start of a test run finds what it looks for, and names it."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.tools import blas_check

ROOT = Path(__file__).parents[2]


def wrong_for_its_own_transpose(a, b):
    """numpy issue 31776: float32 A @ A.T goes by another routine."""
    y = a @ b
    if a.dtype == np.float32 and b.base is a and len(a) > 64:
        y[-1, 0] += 1
    return y


def nan_in_a_corner(a, b):
    y = a @ b
    if y.ndim == 2 and y.shape[0] == 129:
        y[0, 0] = np.nan
    return y


def warning_without_cause(a, b):
    warnings.warn("divide by zero encountered in matmul", RuntimeWarning, stacklevel=2)
    return a @ b


def test_this_machines_blas_is_right():
    assert blas_check.complaint() is None


@pytest.mark.parametrize("matmul, what", [
    (wrong_for_its_own_transpose, "float32 A @ A.T of A (65"),
    (nan_in_a_corner, "float32 A.T @ A of A (100"),
])
def test_a_wrong_product_is_named(matmul, what):
    line = blas_check.complaint(matmul)
    assert what in line and np.__version__ in line and blas_check.blas_name() in line
    assert "\n" not in line


def test_a_warning_without_cause_is_noticed():
    assert blas_check.warns_without_cause(warning_without_cause)


RUN = """
import sys, warnings
import numpy as np
import pytest
from tests.tools import blas_check
from tests.layers import test_blas_check
{fault}
sys.exit(pytest.main(["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml",
                      sys.argv[1]]))
"""
TEST = """
import warnings

def test_products():
    warnings.warn("divide by zero encountered in matmul", RuntimeWarning)
"""


@pytest.mark.slow
@pytest.mark.parametrize("fault, status, said", [
    ("blas_check.wrong_product = lambda matmul: ('float32 A @ A.T', 1.0)", 4, "ERROR: NumPy "),
    ("blas_check.warns_without_cause = lambda: True", 0, "such warnings are ignored"),
    ("", 1, "RuntimeWarning: divide by zero encountered in matmul"),
])
def test_the_run_begins_with_it(tmp_path, fault, status, said):
    """In a run of its own: a wrong BLAS ends it, its warnings fail no test, others do."""
    (tmp_path / "test_products.py").write_text(TEST)
    done = subprocess.run([sys.executable, "-c", RUN.format(fault=fault),
                           str(tmp_path / "test_products.py")],
                          capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr

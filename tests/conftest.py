"""Settings of the whole test suite."""

import gc
import importlib
import os
import sys
import warnings

# The tests multiply tiny matrices: one thread is faster than several, and its results repeat.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# While the tests are collected, save npdl's bytecode, even if PYTHONDONTWRITEBYTECODE is set.
# Otherwise each of the hundreds of processes that tests start would compile npdl again.
keeps_none, sys.dont_write_bytecode = sys.dont_write_bytecode, False

import numpy as np  # NumPy reads the thread counts above when it is imported
import pytest
from xdist.scheduler import WorkStealingScheduling

from npdl import backend
from npdl.engine import target
from npdl.engine.numpy_target import NumPyCalls
from npdl.train import folder


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config):
    """Ignore warnings in matrix products if this BLAS warns although the products are right, as
    some builds do (NumPy issue 28687). All other warnings are errors."""
    if os.environ.get("NPDL_REQUIRE_TORCH"):
        importlib.import_module("torch")        # raises an error, where tests would be skipped
    x = np.random.default_rng(1).standard_normal((129, 100)).astype("float32")
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        x @ x.T, x.T @ x, x @ x[0]
    if caught:
        config.addinivalue_line("filterwarnings", "ignore:.* encountered in matmul:RuntimeWarning")


def pytest_collection_modifyitems(config, items):
    """Deselect slow tests. Skipping is slow: xdist sends each skipped test to a process."""
    if not config.getoption("--slow"):
        slow = [item for item in items if "slow" in item.keywords]
        items[:] = [item for item in items if "slow" not in item.keywords]
        config.hook.pytest_deselected(items=slow)


def pytest_xdist_make_scheduler(config, log):
    """Let an idle process take tests from a busy one, so that long tests delay no others."""
    return WorkStealingScheduling(config, log)


def pytest_collection_finish():
    sys.dont_write_bytecode = keeps_none
    gc.set_threshold(700, 10, 100)      # rarely look for garbage among the collected tests


# Don't wait for the disk: the files of a test need not survive a power failure.
os.fsync = lambda descriptor: None
plot_curves = folder.plot_curves
folder.plot_curves = lambda *_: None        # it takes longer than the rest of a small run


@pytest.fixture
def curves(monkeypatch):
    """Let runs in the process of this test draw curves.png."""
    monkeypatch.setattr(folder, "plot_curves", plot_curves)


@pytest.fixture(autouse=True)
def numpy_target(request, monkeypatch):
    """Let runs in this process use the NumPy target instead of C, which takes a second to compile.
    The tests in tests/engine use both targets."""
    if "tests/engine/" not in request.node.nodeid:
        monkeypatch.setattr(target, "CCalls", NumPyCalls)


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield

"""Settings of the whole test suite."""

import gc
import importlib
import os
import sys
import warnings

# The products of the tests are tiny: one thread is quicker than several, and repeatable.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# What is collected keeps its bytecode, even where Python was told to keep none: each of hundreds of
# processes that tests start would compile npdl again.
keeps_none, sys.dont_write_bytecode = sys.dont_write_bytecode, False

import numpy as np  # after the thread counts, which count when NumPy is first imported
import pytest
from xdist.scheduler import WorkStealingScheduling

from npdl import backend
from npdl.engine import target
from npdl.engine.numpy_target import NumPyCalls
from npdl.train import folder


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config):
    """Some builds of BLAS warn in products that are right (numpy issue 28687): ignore it there,
    although warnings are errors."""
    if os.environ.get("NPDL_REQUIRE_TORCH"):
        importlib.import_module("torch")        # without it, tests would be skipped
    x = np.random.default_rng(1).standard_normal((129, 100)).astype("float32")
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        x @ x.T, x.T @ x, x @ x[0]
    if caught:
        config.addinivalue_line("filterwarnings", "ignore:.* encountered in matmul:RuntimeWarning")


def pytest_collection_modifyitems(config, items):
    """Leave the slow ones out: not as skipped, which xdist would hand about one by one."""
    if not config.getoption("--slow"):
        slow = [item for item in items if "slow" in item.keywords]
        items[:] = [item for item in items if "slow" not in item.keywords]
        config.hook.pytest_deselected(items=slow)


def pytest_xdist_make_scheduler(config, log):
    """Who has run what he was given takes from the other: a test of minutes holds up no others."""
    return WorkStealingScheduling(config, log)


def pytest_collection_finish():
    sys.dont_write_bytecode = keeps_none
    gc.set_threshold(700, 10, 100)      # tests stay in memory: look for garbage among them rarely


# The files of a test need not outlive a power failure.
os.fsync = lambda descriptor: None
plot_curves = folder.plot_curves
folder.plot_curves = lambda *_: None        # it takes longer than all the rest of a small run


@pytest.fixture
def curves(monkeypatch):
    """Runs of this test's own process draw curves.png after all."""
    monkeypatch.setattr(folder, "plot_curves", plot_curves)


@pytest.fixture(autouse=True)
def numpy_target(request, monkeypatch):
    """Trainings of this process take NumPy where there is C, whose compilation takes a second;
    tests/engine has both."""
    if "tests/engine/" not in request.node.nodeid:
        monkeypatch.setattr(target, "CCalls", NumPyCalls)


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield

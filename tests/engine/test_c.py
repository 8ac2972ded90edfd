"""The C target: functions with errors of at most 2 ulp, and a cache that is safe to load."""

import ctypes
import math
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

import npdl
from npdl.engine import CompilerError, RecordedStep, c_build, c_math, compile_step
from npdl.engine.c_module import HEAD
from npdl.engine.c_source import GroupSource
from npdl.functions import softmax, softmax_backward, sum_by_index
from npdl.losses import SequenceLoss, SquaredError

COMPILERS = [name for name in ("gcc", "clang") if c_build.shutil.which(name)]
pytestmark = pytest.mark.skipif(not COMPILERS, reason="no C compiler")
LOOP = """
void {name}_many_{s}({T} *x, {T} *y, size_t n) {{
  #pragma omp simd
  for (size_t j = 0; j < n; j++) y[j] = {name}_{s}(x[j]);
}}
"""
EXACT = {"exp": np.exp, "log": np.log, "tanh": np.tanh,
         "erf": lambda x: np.array([math.erf(v) for v in x.astype(float)], x.dtype)}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 5e-324, 1e-310, 1e38, -1e38, 88.73,
           -87.4, -103.9, 709.8, -745.2, 1.0, -1.0, 0.9999999, 1.0000001, 6.0, -6.0, 20.0,
           1.17549435e-38, 2.2250738585072014e-308]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_c_functions_are_at_most_2_ulp_off(name, dtype, compiler, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    kinds = {np.float32: ("f", "float", ctypes.c_float),
             np.float64: ("d", "double", ctypes.c_double)}
    s, T, c_type = kinds[dtype]
    loops = "".join(LOOP.format(name=n, s=each, T=t) for n in EXACT
                    for each, t, _ in kinds.values())
    library = c_build.compile_and_load(HEAD + c_math.generate_math_functions() + loops)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(SPECIAL).astype(dtype), *(
            rng.choice([-1, 1], 40000) * np.exp(rng.uniform(-low, high, 40000))
            for low, high in ((30, 6.7), (3, 3), (1, 0.1)))]).astype(dtype)
        y, wide = np.empty_like(x), EXACT[name](x.astype(np.longdouble) if name != "erf" else x)
        wanted = wide.astype(dtype)
        pointer = ctypes.POINTER(c_type)
        getattr(library, f"{name}_many_{s}")(x.ctypes.data_as(pointer), y.ctypes.data_as(pointer),
                                             ctypes.c_size_t(x.size))
        np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(y[~finite & ~np.isnan(wanted)],
                                      wanted[~finite & ~np.isnan(wanted)])
        off = np.abs(y[finite] - wide[finite]) / np.spacing(np.abs(wanted[finite]))
    assert off.max() <= 2


def train_for_losses(target, threads=1):
    model = npdl.LSTMLM(5, 4, 1, 4, rng=0)
    step = compile_step(model, SequenceLoss(), npdl.AdamW(model), target=target, threads=threads)
    ids = np.random.default_rng(0).integers(0, 5, (2, 3))
    return [float(step(ids, ids, np.ones(ids.shape, bool))) for _ in range(3)]


@pytest.mark.usefixtures("unoptimized_compiler")
def test_scratch_memory_is_made_only_for_rows_that_a_later_loop_reads():
    model, rng = npdl.Linear(200, 200, rng=0), np.random.default_rng(0)
    step = compile_step(model, SquaredError(), npdl.AdamW(model), target="c")
    step(*rng.standard_normal((2, 3, 200), np.float32))
    lowered = step.recorded.recordings[0].lowered
    assert lowered._scratch.nbytes < model.W.data.nbytes     # AdamW's temporaries are variables


@pytest.mark.usefixtures("unoptimized_compiler")
def test_wide_rows_of_scratch_memory_do_not_overlap():
    def function(x, dy):
        y = softmax(x)
        return y, softmax_backward(dy * y, y)
    step, given = RecordedStep(function, (), "c"), np.random.default_rng(0).random((2, 4, 999))
    for found, wanted in zip(step(*given), function(*given), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-15)
    assert step.recordings[0].lowered._scratch.nbytes > 2 * 999 * 8


@pytest.mark.usefixtures("unoptimized_compiler")
def test_sums_by_index_and_small_products_are_c_functions():
    def function(rows, index, a, b):
        sums = sum_by_index(rows[..., ::2], index.T, 4), sum_by_index(rows[0], index[:, 1], 4)
        return *sums, a[:2] @ b[:2], a @ b      # products of two and of eight matrices
    given = (np.ones((2, 2, 5)), np.array([[0, 1], [1, 3]]), np.ones((8, 4, 2)), np.ones((8, 2, 4)))
    step = RecordedStep(function, (), "c")
    for found, wanted in zip(step(*given), function(*given), strict=True):
        np.testing.assert_array_equal(found, wanted)
    lowered = step.recordings[0].lowered
    pairs = zip(lowered.calls, lowered.call_operations, strict=True)
    compiled = [ops[0].kind for call, ops in pairs if isinstance(call.func, ctypes._CFuncPtr)]
    assert compiled.count("sum_by_index") == 2 and compiled.count("matmul") == 2


def test_an_elementwise_group_is_one_loop_and_a_row_reduction_has_a_loop_over_rows():
    for function, count in ((lambda x: np.exp(x[:2]) + 1.0, 1), (lambda x: x.sum(-1), 2)):
        step = RecordedStep(function, (), "numpy")
        step(np.ones((6, 4, 5)))
        (group,) = step.recordings[0].lowered.groups
        assert GroupSource("g", group).text.count("for (") == count


@pytest.fixture
def cache_folder(tmp_path, monkeypatch, unoptimized_compiler):
    """Return the path of the folder of compiled steps, which does not exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "npdl" / "steps"


def test_a_step_is_compiled_once(cache_folder, monkeypatch):
    first, lines = train_for_losses("c"), []
    (library,) = cache_folder.iterdir()
    assert stat.S_IMODE(cache_folder.stat().st_mode) == 0o700
    monkeypatch.setattr(c_build, "_compile", lambda *args: lines.append(args))
    assert train_for_losses("c") == first and not lines and library.exists()


def add_and_double(x):
    return (x + x) * 2


def write_compiler(cache, patch, text):
    path = cache.parent.parent / "compiler"
    path.write_text(text)
    path.chmod(0o755)
    patch.setenv("CC", str(path))


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda cache, patch: (cache.mkdir(parents=True), cache.chmod(0o777)), "others may write"),
    (lambda cache, patch: (RecordedStep(add_and_double, (), "c")(np.ones(300)), patch.setattr(
        os, "getuid", lambda: os.stat(cache).st_uid + 1)), "belongs to another user"),
    (lambda cache, patch: patch.setenv("CC", "no-such-compiler"), "install no-such-compiler"),
    (lambda cache, patch: patch.setattr(c_build, "FLAGS", ["--no-such-option"]), " failed: "),
    (lambda cache, patch: (patch.delenv("XDG_CACHE_HOME"), patch.setattr(
        os.path, "expanduser", lambda path: path)), "is not an absolute path"),
    (lambda cache, patch: cache.parent.write_text(""), "can't be saved or loaded"),
    (lambda cache, patch: write_compiler(cache, patch, "no program"), "can't be run"),
    (lambda cache, patch: write_compiler(
        cache, patch, "#!/bin/sh\n[ $1 = --version ] || kill -9 $$"), "stopped by signal 9"),
    (lambda cache, patch: (patch.setattr(c_build, "PATIENCE", 0.2), write_compiler(
        cache, patch, "#!/bin/sh\n[ $1 = --version ] || exec sleep 9")), "did not finish")])
def test_step_runs_with_numpy_without_a_safe_library(
        spoil, words, cache_folder, monkeypatch, capsys):
    spoil(cache_folder, monkeypatch)
    x = np.ones(300)
    for _ in range(2):                          # two steps print one line
        np.testing.assert_array_equal(RecordedStep(add_and_double, (), "auto")(x), 4 * x)
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line and line.endswith("; the step runs with NumPy instead, which is slower")
    with pytest.raises(CompilerError):
        RecordedStep(add_and_double, (), "c")(x)


@pytest.mark.slow
def test_two_processes_may_compile_the_same_step(cache_folder):
    code = ("from tests.engine.test_c import c_build, train_for_losses\n"
            "c_build.FLAGS[0] = '-O0'\nprint(train_for_losses('c'))")
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
            for _ in range(2)]
    first, second = (run.communicate(timeout=300)[0] for run in runs)
    assert first == second and first.startswith("[")

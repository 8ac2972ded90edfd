"""PyTorch at its best: the library that is preloaded on AMD processors, and what is said of it."""

import ctypes
import shutil

import pytest

from experiments.bench import mkl

ZEN = "vendor_id : AuthenticAMD\nflags : avx2 avx512f\n"


@pytest.fixture(autouse=True)
def anew():
    mkl.as_on_intel.cache_clear()
    yield
    mkl.as_on_intel.cache_clear()


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_library_answers_yes(monkeypatch):
    monkeypatch.setattr(mkl, "cpuinfo", lambda: ZEN)
    environment, said = mkl.as_on_intel()
    assert ctypes.CDLL(environment["LD_PRELOAD"]).mkl_serv_intel_cpu_true() == 1
    assert mkl.NAME in said


@pytest.mark.parametrize("about, compiler, said", [
    (ZEN, None, "needs a C compiler"), (ZEN.replace("Authentic", "Genuine"), "cc", "it chooses."),
    (ZEN.replace("avx512f", ""), "cc", "it chooses."), ("", "cc", "it chooses.")])
def test_elsewhere_nothing_is_preloaded(monkeypatch, about, compiler, said):
    monkeypatch.setattr(mkl, "cpuinfo", lambda: about)
    monkeypatch.setattr(shutil, "which", lambda name: compiler)
    environment, sentence = mkl.as_on_intel()
    assert environment == {} and said in sentence

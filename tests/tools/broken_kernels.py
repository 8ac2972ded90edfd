"""Would a wrong kernel be seen? `python -m tests.tools.broken_kernels`, where there is CuPy.

Each result of each kernel of npdl_train/fast's fused.py and cuda.py, one at a time, is made 1 % too
large; then the wing's loss, its gradients and an update of each optimizer are compared with
NumPy's.
The table says which comparison saw it first. Exit status 1 where none does without a reason.
"""

import contextlib
import inspect
import sys

import numpy as np

from npdl import backend
from npdl.backend import stream, to_device, to_host
from npdl.functions import softmax
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, Adam, AdamW
from npdl_train.fast import cuda, cuda_ends, cuda_lstm, fused, kernels
from npdl_train.fast.engine import FastEngine
from npdl_train.fast.memory import Arena
from npdl_train.runs.engine import PlainEngine
from tests.fast.cases import (
    assert_close,
    assert_equal,
    assert_equal_on_a_device,
    build,
    drawn,
    make_on_host,
)

OWN = {cuda: ("norm", "norm_backward", "softmax", "softmax_backward", "attend", "attend_backward"),
       cuda_ends: ("look_up", "loss", "clip"), cuda_lstm: ("gates", "gates_backward")}
KERNELS = {**{name: fused for name, value in vars(fused).items() if hasattr(value, "__wrapped__")},
           **{f"cuda.{name}": module for module, names in OWN.items() for name in names}}
PRE = {"norm": "pre", "positions": "learned"}
MODELS = {"gpt": (GPT, {}), "pre, learned": (GPT, PRE), "lstm": (LSTMLM, {})}
LIMITS = {"float64": 1e-10, "float32": 2e-5}
HARMLESS = {    # (kernel, what of it): why no comparison can see it
    ("normalise_backward", "x_hat"): "nobody reads it afterwards",
    ("gelu_of", "x2"): "memory for a moment: nobody reads it afterwards",
    ("adam", "spare"): "the same",
    ("cuda.norm_backward", "partial"): "the same",
    ("cuda.loss", "each"): "the same",
    ("state", "spare"): "the same",
}


def gradients(name, dtype):
    kind, chosen = MODELS[name]
    assert_equal_on_a_device(lambda: build(kind, dtype=dtype, **chosen),
                             drawn("few shared", "ragged"), atol=LIMITS[dtype])


def on_the_host(name):
    kind, chosen = MODELS[name]
    with backend.using("numpy"):
        assert_equal(lambda: build(kind, **chosen), drawn("few shared", "ragged"))


def update(kind, dtype):
    """Two updates from the same gradients: the wing's on a device, the textbook's on NumPy."""
    def updated(engine):
        model = make_on_host(lambda: build(LSTMLM, dtype=dtype)).to_backend()
        optimizer = kind(model, weight_decay=0.3)
        engine, norms = engine(model, optimizer), []
        for step in range(2):
            for number, param in enumerate(optimizer.params.values()):
                gradient = stream(4, step, number).standard_normal(param.shape).astype(dtype)
                param.grad[...] = to_device(gradient)
            norms.append(engine.clip(1.0))
            engine.update()
        arrays = [*norms, *(param.data for param in optimizer.params.values())]
        for moment in optimizer.moments:
            arrays += getattr(optimizer, moment).values()
        return [to_host(array) for array in arrays]

    with backend.using("numpy"):
        wanted = updated(PlainEngine)
    with backend.using("cupy"):
        found = updated(FastEngine)
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b, kind.__name__, LIMITS[dtype])


def many_positions():
    """Attention that is too long for one kernel."""
    before, cuda.SHORT = cuda.SHORT, 0
    try:
        gradients("gpt", "float64")
    finally:
        cuda.SHORT = before


def large_scores():
    """Beyond 88, where float32's exp overflows, and far below: the maximum is what keeps it."""
    rng = np.random.default_rng(0)
    for shift in (0.0, 1e4, -1e4):
        x = (100 * rng.standard_normal((2, 3, 4)) + shift).astype("float32")
        hidden = np.where(np.tri(3, 4, 1, bool), 0, -np.inf).astype("float32")
        wanted = softmax(x, hidden == 0)
        with backend.using("cupy"):
            found = kernels.softmax(to_device(x), 1.0, to_device(hidden), Arena("float32"))
            assert_close(to_host(found), wanted, "softmax", 1e-4)


CHECKS = {
    **{f"gradients, {name}, {dtype}": lambda n=name, d=dtype: gradients(n, d)
       for dtype in LIMITS for name in MODELS},
    **{f"update, {kind.__name__}, {dtype}": lambda k=kind, d=dtype: update(k, d)
       for dtype in LIMITS for kind in (SGD, Adam, AdamW)},
    **{f"gradients on NumPy, {name}": lambda n=name: on_the_host(n) for name in ("gpt", "lstm")},
    "softmax of large scores": large_scores,
    "many positions": many_positions,
}


@contextlib.contextmanager
def replaced(name, function):
    module, name = KERNELS[name], name.removeprefix("cuda.")
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


def watched(name, seen):
    """The kernel; what it changes or returns goes into the set `seen`, by name."""
    kernel = getattr(KERNELS[name], name.removeprefix("cuda."))
    parameters = list(inspect.signature(kernel).parameters)

    def call(*given):
        before = [np.copy(to_host(x)) if hasattr(x, "dtype") else None for x in given]
        result = kernel(*given)
        seen.update(
            what for what, x, old in zip(parameters, given, before, strict=True)
            if old is not None and not np.array_equal(to_host(x), old, equal_nan=True))
        if result is not None and not any(result is x for x in given):
            seen.add("result")
        return result

    return call


def enlarged(name, what):
    """The kernel, one of its results 1 % too large."""
    kernel = getattr(KERNELS[name], name.removeprefix("cuda."))
    parameters = list(inspect.signature(kernel).parameters)

    def call(*given):
        result = kernel(*given)
        if what == "result":
            return result * 1.01
        array = given[parameters.index(what)]
        if array is not None:
            array *= 1.01
        return result

    return call


def results_of_kernels():
    """{kernel: {what it changes or returns: the checks in which it does}}, from one run of all."""
    found = {name: {} for name in KERNELS}
    for check, function in CHECKS.items():
        changed = {name: set() for name in KERNELS}
        with contextlib.ExitStack() as stack:
            for name, seen in changed.items():
                stack.enter_context(replaced(name, watched(name, seen)))
            function()
        for name, seen in changed.items():
            for what in seen:
                found[name].setdefault(what, []).append(check)
    return found


def first_to_see(name, what, checks):
    """The one of the checks that fails with the kernel so changed, or None."""
    with replaced(name, enlarged(name, what)):
        for check in checks:
            try:
                CHECKS[check]()
            except AssertionError:
                return check
    return None


def rows():
    """(kernel, what of it is 1 % too large, the check that sees it or None), for each."""
    for name, changed in results_of_kernels().items():
        assert changed, f"no check runs {name}"
        for what in sorted(changed):
            yield name, what, first_to_see(name, what, changed[what])


def main():
    print("| kernel | 1 % too large | seen by |\n|---|---|---|")
    blind = 0
    for name, what, seen in rows():
        why = HARMLESS.get((name, what))
        blind += seen is None and why is None
        print(f"| {name} | {what} | {seen or f'nothing: {why}'} |", flush=True)
    return 1 if blind else 0


if __name__ == "__main__":
    sys.exit(main())

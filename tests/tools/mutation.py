"""Mistakes in the textbook's backwards: does the gradient check see them? See mutation_score.

Every function that only backwards run gets small mistakes (mutants, mutant_kinds), and the cases
that run the function are checked until one fails. A mutant that passes them all is equivalent when
its place is run and no gradient differs on other random inputs either; else it has survived.
"""

import collections
import contextlib
import functools
import inspect
import linecache
import signal
import sys
import time

import numpy as np

import npdl.functions as shared
from npdl.backend import stream
from npdl.core import gradients_of
from npdl_study.check.subjects import subject_of
from npdl_study.check.verdicts import Check
from npdl_study.trace.source import patched
from npdl_study.trees import leaves
from tests.tools.cases import all_cases
from tests.tools.mutant_kinds import all_mutants
from tests.tools.mutation_score import owner
from tests.tools.running import case_rng, npdl_modules

SECONDS = 10            # of processor time: a backward that takes longer does not end
PROBES = (1, 2)                                     # seeds of the inputs that tell equivalents
WHERE, CAUGHT, GOALS = "backward of", ("caught", "by an exception"), {
    ("caught", "by an exception"): 0.95}

# Survivors change a gradient, but on inputs or machines that no gradient check can have; another
# test sees them.
DEVICE = "a device alone runs it; tests/gpu/test_gpu_more.py compares it with NumPy"
REASONS = {                                     # (function, a part of the line) -> why
    ("sum_by_index", "_sum_on_device("): DEVICE,
}


def reason(mutant):
    """The reason for a survivor, or None when there is none yet."""
    return next((why for (name, line), why in REASONS.items()
                 if name == mutant.function.__qualname__ and line in mutant.text), None)


class Checked:
    """A gradient-check case with its numerical gradients, and what its backward gives now."""

    def __init__(self, case):
        self.case = case
        self._check, self._probes, self._spans = None, [], {}

    def _check_of(self, seed=None):
        rng = case_rng(self.case) if seed is None else stream(seed, 91)
        layer, inputs, options = self.case.build(rng)
        entries = self.case.entries if seed is None else 0
        subject = subject_of(layer, inputs, options, self.case.forward, seed or 0)
        return Check(subject, entries=entries, bare=True)

    @property
    def check(self):
        if self._check is None:
            self._check = self._check_of()
        return self._check

    def probe(self):
        """Compute what `differs` compares with, while the code is as it is."""
        if not self._probes:
            checks = [self._check_of(seed) for seed in PROBES]
            self._probes = [(check, results(check)) for check in checks]

    def differs(self):
        """Whether the code now in place gives other gradients on the probes."""
        return any(not same(results(check), before) for check, before in self._probes)

    def spans_run(self, code):
        """The (line, end line, column, end column) of what a backward evaluates of `code`."""
        if code not in self._spans:
            places, run = list(code.co_positions()), set()

            def follow(frame, event, arg):
                if frame.f_code is not code:
                    return None
                frame.f_trace_opcodes = True
                if event == "opcode":
                    run.add(places[frame.f_lasti // 2])
                return follow

            before = sys.gettrace()
            sys.settrace(follow)
            try:
                for used in self.check.uses:
                    self.check.backward(used)
            finally:
                sys.settrace(before)
            self._spans[code] = run
        return self._spans[code]

    @contextlib.contextmanager
    def kept(self):
        """Put back what a mutant may write into: parameters, inputs, upstream gradients."""
        checks = [self.check, *(check for check, _ in self._probes)]
        arrays = [a for c in checks for a in (*c.arrays.values(), *(d for _, d in leaves(c.dout)))
                  if isinstance(a, np.ndarray)]
        copies = [a.copy() for a in arrays]
        try:
            yield
        finally:
            for array, copy in zip(arrays, copies, strict=True):
                array[...] = copy


def results(check):
    """Every gradient, with all outputs used and with each alone."""
    found = []
    for used in check.uses:
        gradients, _ = check.backward(used)
        found += [np.array(gradients[name]) for name in check.arrays]
    return found


def same(found, wanted):
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-10, equal_nan=True)
               for a, b in zip(found, wanted, strict=True))


def known_functions():
    """{code: function} of what npdl's layers, models and losses define, and what they share."""
    found = {gradients_of.__code__: gradients_of}
    for module in [*npdl_modules(), shared]:
        linecache.getlines(module.__file__)         # the source as it was imported
        for thing in vars(module).values():
            if getattr(thing, "__module__", "") == module.__name__:
                inner = vars(thing).values() if inspect.isclass(thing) else [thing]
                found |= {f.__code__: f for f in inner if inspect.isfunction(f)}
    return found


def codes_run(call):
    """The code objects that a call runs."""
    seen, before = set(), sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.add(frame.f_code))
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen


def backward_functions(checked):
    """{function: [the Checked that run it]} for every function that no forward runs."""
    known, forward, backward = known_functions(), set(), collections.defaultdict(list)
    for item in checked:
        layer, inputs, options = item.case.build(case_rng(item.case))
        check = Check(subject_of(layer, inputs, options, item.case.forward), entries=0)
        forward |= codes_run(check.subject.run)
        start = time.perf_counter()
        ran = codes_run(lambda check=check: [check.backward(used) for used in check.uses])
        item.cost = (time.perf_counter() - start) * sum(a.size for a in check.arrays.values())
        for code in ran & known.keys():
            backward[code].append(item)
    found = {known[code]: items for code, items in backward.items() if code not in forward}
    for function, items in found.items():
        items.sort(key=lambda i: (i.case.layer_class.__name__ != owner(function), i.cost))
    return dict(sorted(found.items(), key=lambda f: (f[0].__module__,
                                                     f[0].__code__.co_firstlineno)))


def is_run(mutant, items):
    """Whether the changed expression, not only its line, is ever evaluated."""
    code, place = mutant.function.__code__, (mutant.line, mutant.column)
    spans = [p for p in code.co_positions() if None not in p
             and (p[0], p[2]) <= place < (p[1], max(p[3], p[2] + 1))]
    if not spans:
        return True
    smallest = min(spans, key=lambda p: (p[1] - p[0], p[3] - p[2]))
    return any(smallest in item.spans_run(code) for item in items)


@contextlib.contextmanager
def time_limit(seconds):
    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(mutant, items):
    """How a mutant fares in the cases `items`.

    "caught"; "by an exception"; "survived": no case fails, or no case runs what was changed;
    "equivalent".
    """
    code = mutant.code()
    for item in items:
        _ = item.check                                  # computed while the code is as it is
        with item.kept(), patched(mutant.function, code), np.errstate(all="ignore"):
            try:
                with time_limit(SECONDS):
                    if not item.check.passes():
                        return "caught"
            except Exception:
                return "by an exception"
    changes = (reason(mutant) or not is_run(mutant, items)
               or any(_differs(mutant, code, item) for item in items))
    return "survived" if changes else "equivalent"


def _differs(mutant, code, item):
    item.probe()
    with item.kept(), patched(mutant.function, code), np.errstate(all="ignore"):
        try:
            with time_limit(SECONDS):
                return item.differs()
        except Exception:
            return True


@functools.cache
def running():
    """backward_functions of every gradient-check case."""
    return backward_functions([Checked(case) for case in all_cases()])


def functions():
    return list(running())


mistakes = all_mutants


def judge_of(functions):
    return lambda mutant: judge(mutant, running()[mutant.function])

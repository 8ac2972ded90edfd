"""Mistakes in npdl under `python -m exercises`: are they noticed, and does a verdict move?

Every function of npdl's that an exercise runs, a check of arguments apart, gets small mistakes
(mutants, mutant_kinds), one at a time. Each exercise that runs the changed statement is run as the
command runs it, in a process of its own. "caught" is a failure of our own; "endless" takes more
processor time than SECONDS; "moved" is a verdict on a document that is another word, or reached
another way, than before, and not our failure; "survived": what is printed is not the same, or a
number that npdl hands to an exercise, or one layer to another, and nobody says so; "equivalent":
neither is, or no exercise runs the statement. See mutation_score.
"""

import contextlib
import dataclasses
import functools
import inspect
import io
import linecache
import multiprocessing
import os
import resource
import signal
import sys
import traceback
from numbers import Number
from types import SimpleNamespace

import numpy as np

from exercises import witness
from exercises.framework import (
    FAILED,
    FOLDER,
    claims_of,
    failures,
    modules,
    name_of,
    solution_text,
    solutions_of,
)
from npdl.core import Layer
from npdl_study.trace.source import original_file, patched
from tests.tools.mutant_kinds import all_mutants

SECONDS = 30            # of processor time, for the exercises that run one statement
MEMORY = 2**33          # of a process, in bytes
WHERE, CAUGHT = "what exercises run of", ("caught", "endless", "moved")
GOALS = {("caught", "endless"): 0.95}
ROOMS = ("npdl.layers.", "npdl.models.", "npdl.losses", "npdl.functions", "npdl.adapt.",
         "npdl.data.arithmetic", "npdl.decoding.", "npdl.optim")
UNTOUCHED = ("__init__", "__post_init__", "sizes", "check_linear", "frozen_bias",
             "_check_options", "_checked_orders", "_integer", "_places", "not_infinite")

REASONS = {}            # (function, a part of the line) -> why no run sees it


def reason(mutant):
    """The reason for a survivor, or None when there is none yet."""
    return next((why for (name, line), why in REASONS.items()
                 if name == mutant.function.__qualname__ and line in mutant.text), None)


def known_functions():
    """{code: function} of npdl's that get mistakes, as they are imported now."""
    known = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOMS):
            linecache.getlines(module.__file__)             # the source as it was imported
            for thing in vars(module).values():
                if getattr(thing, "__module__", "") == name:
                    inner = vars(thing).values() if inspect.isclass(thing) else [thing]
                    known |= {f.__code__: f for f in map(inspect.unwrap, inner)
                              if inspect.isfunction(f) and original_file(
                                  f.__code__.co_filename) == module.__file__
                              and f.__name__ != "<lambda>"}
    return known


def running(path, line):
    """The functions of npdl's in which this line of a file is."""
    return [f for code, f in known_functions().items() if code.co_filename == str(path)
            and code.co_firstlineno <= line <= max(n or 0 for *_, n in code.co_lines())]


@functools.cache
def exercises():
    """{name: an exercise as it is}: its module, the (file, line) that it runs of npdl's, and what
    it tells."""
    found, files = modules(), {code.co_filename for code in known_functions()}
    return {name_of(module): SimpleNamespace(module=module, **in_a_process(
        lambda module=module: {"lines": lines_run(module, files), "told": outcome([module])}))
        for module in found}


def lines_run(module, files):
    run = set()

    def follow(frame, event, arg):
        if frame.f_code.co_filename not in files:
            return None
        run.add((frame.f_code.co_filename, frame.f_lineno))
        return follow

    sys.settrace(follow)
    try:
        outcome([module])
    finally:
        sys.settrace(None)
    forget()
    return run


def functions():
    """Those that an exercise runs: more than their `def`."""
    run = set().union(*(e.lines for e in exercises().values()))
    known = known_functions()
    return sorted((f for code, f in known.items() if f.__name__ not in UNTOUCHED and any(
        (code.co_filename, line) in run for *_, line in code.co_lines()
        if line and line > code.co_firstlineno)),
        key=lambda f: (f.__module__, f.__code__.co_firstlineno))


mistakes = all_mutants


def users(mutant):
    """The exercises that run the statement, or the head of a compound one, with the mistake."""
    file, line = mutant.function.__code__.co_filename, mutant.statement
    places = {(file, number) for number in range(line.first, line.last + 1)}
    return [e for e in exercises().values() if places & e.lines]


def outcome(modules, numbers=None):
    """(verdicts, everything printed, failures) of some exercises, as the command has them.

    numbers  a list, to which what npdl hands on is added, as `numbers_of` has it
    """
    verdicts, printed, failed = {}, [], []
    with contextlib.redirect_stderr(io.StringIO()), witness.watching():
        if numbers is not None:
            sys.setprofile(functools.partial(_note, numbers, set(known_functions())))
        for module in modules:
            claims, solutions = claims_of(module), solutions_of(module)
            verdicts[name_of(module)] = [(c.claim, str(c.verdict), c.basis) for c in claims]
            printed += map(str, claims)
            printed += map(solution_text, solutions)
            failed += failures(solutions, claims)
        sys.setprofile(None)
    return verdicts, printed, failed


def _note(numbers, known, frame, event, arg):
    if event != "return" or frame.f_code not in known or not frame.f_back.f_code.co_filename \
            .startswith(str(FOLDER)):
        return
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if name == "forward" and isinstance(arg, tuple):
        arg = arg[0]                                        # the cache is npdl's own
    numbers += numbers_of(arg)
    if name == "backward" and isinstance(owner, Layer):
        numbers += numbers_of([param.grad for _, param in owner.params()])


def numbers_of(value):
    """[(sum along a fixed direction, sum of sizes, shape)] of all arrays and numbers in a value,
    and its texts."""
    if isinstance(value, (np.ndarray, Number)):
        array = np.nan_to_num(np.asarray(value, complex).real.ravel(), posinf=9e99, neginf=-9e99)
        return [(float(array @ np.cos(np.arange(array.size) + 1.0)), float(np.abs(array).sum()),
                 np.shape(value))]
    if dataclasses.is_dataclass(value) and not isinstance(value, (Layer, type)):
        value = vars(value)
    if isinstance(value, dict):
        value = [*value, *value.values()]
    return [n for v in value for n in numbers_of(v)] if isinstance(value, (tuple, list)) else [
        value] if isinstance(value, str) else []


def same(found, wanted):
    return len(found) == len(wanted) and all(
        a == b or a[2:] == b[2:] and not isinstance(a, str)
        and abs(a[0] - b[0]) <= 1e-9 * max(a[1], b[1]) for a, b in zip(found, wanted, strict=True))


def forget():
    """Empty every cache of the exercises, and what was noted of npdl."""
    witness.FAULTS.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith(("exercises.", "npdl.")):
            for thing in vars(module).values():
                getattr(thing, "cache_clear", lambda: None)()


@functools.cache
def numbers_as_they_are(*names):
    return in_a_process(lambda: _numbers(names))


def _numbers(names):
    numbers = []
    outcome([exercises()[name].module for name in names], numbers)
    return numbers


def judge_of(chosen):
    return judge


def judge(mutant):
    used = users(mutant)
    names = [name_of(e.module) for e in used]
    if not used:
        return "equivalent"
    with patched(mutant.function, mutant.code()):
        word = in_a_process(lambda: verdict(used))
    if word != "equivalent":
        return word
    before = numbers_as_they_are(*names)
    with patched(mutant.function, mutant.code()):
        numbers = in_a_process(lambda: _numbers(names))
    return "equivalent" if same(numbers, before) else "survived"


def verdict(used):
    verdicts, printed, failed = outcome([e.module for e in used])
    for exercise in used:
        (before,) = exercise.told[0].values()
        now = verdicts[name_of(exercise.module)]
        known = {claim: rest for claim, *rest in before}
        pairs = zip(before, now, strict=True) if len(before) == len(now) else (
            ((c, *known[c]), (c, *rest)) for c, *rest in now if c in known)
        if any(new[1] != FAILED and new[1:] != old[1:] for old, new in pairs):
            return "moved"
    if failed:
        return "caught"
    return "equivalent" if printed == sum((e.told[1] for e in used), []) else "survived"


def in_a_process(call):
    """What the call returns, in a copy of this process; "endless" where it takes too long."""
    mine, its = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            its.send(call())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    its.close()
    try:
        return mine.recv()
    except EOFError:
        return "endless"
    finally:
        mine.close()
        assert os.waitpid(child, 0)[1] in (0, signal.SIGXCPU)

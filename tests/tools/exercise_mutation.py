"""Mistakes in npdl under `python -m exercises`: are they noticed, and does a verdict move?

Every function of npdl's forwards and backwards that an exercise runs gets small mistakes (mutants,
mutant_kinds), one at a time, each in a process of its own that runs the exercises which use that
function as the command does. "caught" is a failure of our own; "moved" is a verdict on a document
that is another word than before, and not our failure; "equivalent" changes no claim, solution or
verdict; what changes one of them and is not seen has survived. See mutation_score.
"""

import contextlib
import functools
import inspect
import io
import linecache
import multiprocessing
import os
import resource
import sys

from exercises import witness
from exercises.framework import (
    FAILED,
    claims_of,
    failures,
    modules,
    name_of,
    solution_text,
    solutions_of,
)
from tests.tools.mutant_kinds import all_mutants

SECONDS = 60            # of processor time, for the exercises that use one function
WHERE, CAUGHT = "forwards and backwards of", ("caught", "moved")
GOALS = {("caught",): 0.95}
ROOMS = ("npdl.layers.", "npdl.models.", "npdl.losses", "npdl.functions", "npdl.adapt.linears",
         "npdl.adapt.quantize", "npdl.data.arithmetic", "npdl.decoding.")
UNTOUCHED = ("__init__", "__post_init__", "of", "sizes", "check_linear", "frozen_bias",
             "_check_options", "_checked_orders", "_integer", "_places", "not_infinite", "start")

REASONS = {}            # (function, a part of the line) -> why no run sees it


def reason(mutant):
    """The reason for a survivor, or None when there is none yet."""
    return next((why for (name, line), why in REASONS.items()
                 if name == mutant.function.__qualname__ and line in mutant.text), None)


def known_functions():
    """{code: function} of npdl's forwards and backwards, as they are imported now."""
    known = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOMS):
            linecache.getlines(module.__file__)             # the source as it was imported
            for thing in vars(module).values():
                if getattr(thing, "__module__", "") == name:
                    inner = vars(thing).values() if inspect.isclass(thing) else [thing]
                    known |= {f.__code__: f for f in map(inspect.unwrap, inner)
                              if inspect.isfunction(f) and f.__code__.co_filename
                              == module.__file__ and f.__name__ != "<lambda>"}

    return known


def running(path, line):
    """The functions of npdl's in which this line of a file is."""
    return [f for code, f in known_functions().items() if code.co_filename == str(path)
            and code.co_firstlineno <= line <= max(n or 0 for *_, n in code.co_lines())]


@functools.cache
def users():
    """{function of npdl's: [the exercises that run it]}, of forwards and backwards."""
    found, exercises = {}, modules()
    known = known_functions()

    def follow(frame, event, arg):
        if frame.f_code in known:
            found.setdefault(known[frame.f_code], {})[name_of(module)] = module

    for module in exercises:
        sys.setprofile(follow)
        try:
            claims_of(module)
            solutions_of(module)
        finally:
            sys.setprofile(None)
    return {f: list(by.values()) for f, by in found.items() if f.__name__ not in UNTOUCHED}


def functions():
    return sorted(users(), key=lambda f: (f.__module__, f.__code__.co_firstlineno))


def mistakes(function):
    return all_mutants(function)


def told(exercises):
    """(verdicts, everything printed, failures) of some exercises, as a fresh process has them."""
    forget()
    verdicts, printed, failed = {}, [], []
    with contextlib.redirect_stderr(io.StringIO()), witness.watching():
        for module in exercises:
            claims, solutions = claims_of(module), solutions_of(module)
            verdicts |= {(name_of(module), c.part, c.claim): str(c.verdict) for c in claims}
            printed += [f"{c.computed} {c.evidence}" for c in claims]
            printed += [solution_text(s) for s in solutions]
            failed += failures(solutions, claims)
    return verdicts, printed, failed


def forget():
    """Empty every cache of the exercises, and what was noted of npdl."""
    witness.FAULTS.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("exercises."):
            for thing in vars(module).values():
                getattr(thing, "cache_clear", lambda: None)()


@functools.cache
def as_it_is(function):
    verdicts, printed, failed = told(users()[function])
    assert not failed, failed
    return verdicts, printed


def judge_of(chosen):
    def judge(mutant):
        before = as_it_is(mutant.function)
        return in_a_process(lambda: verdict(mutant, *before))

    return judge


def verdict(mutant, verdicts, printed):
    mutant.function.__code__ = mutant.code()
    now, text, failed = told(users()[mutant.function])
    if any(now.get(key, FAILED) not in (word, FAILED) for key, word in verdicts.items()):
        return "moved"
    return "caught" if failed else "survived" if text != printed else "equivalent"


def in_a_process(call):
    """What the call returns, in a copy of this process; "caught" where the copy does not end."""
    mine, its = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            its.send(call())
        finally:
            os._exit(0)
    its.close()
    try:
        return mine.recv()
    except EOFError:
        return "caught"
    finally:
        mine.close()
        os.waitpid(child, 0)

"""One-token mistakes in the textbook's backwards: does `blame` see them, and on which line? See
mutation_score.

A change counts when it alters a gradient, or raises, in some gradient-check case that runs the
line; it is "caught" where blame names its line, caught "on another line" where it names one
elsewhere.
"""

import inspect
import warnings

import numpy as np

from npdl_study.blame.report import Blame
from npdl_study.blame.search import search
from npdl_study.check.subjects import Subject
from npdl_study.step.record import Recorder
from npdl_study.trace.source import patched
from npdl_study.trees import copied
from tests.tools.cases import all_cases
from tests.tools.mutants import mutants
from tests.tools.running import build, npdl_modules

WHERE, CAUGHT, GOALS = "layer or function", ("caught", "on another line"), {
    ("caught", "on another line"): 0.95, ("caught",): 0.85}
TRIED = 6                           # cases tried for a mutant before it counts as unchanged
HOMES = ("npdl.layers.", "npdl.adapt.", "npdl.models.", "npdl.losses", "npdl.functions")


class RunCase:
    """A gradient-check case, its results with the code as it is, and the lines that it runs."""

    def __init__(self, case):
        self.case = case
        built = build(case)
        self.subject = Subject(built.layer, built.inputs, built.options, case.forward)
        layer, dout = self.subject.layer, self.subject.dout
        recorder = Recorder(self.run)
        recording = recorder.run(layer, self.subject.inputs, self.subject.run,
                                 lambda outputs: copied(dout))
        self.cost = len(recording.steps)
        self.lines = {(s.call.function.code, line) for s in recording.phase("backward")
                      for line in range(s.line.first, s.line.last + 1)}
        self.results = self.run()

    def run(self):
        """Every gradient, for every upstream gradient."""
        found = []
        with np.errstate(all="ignore"):
            for used in self.subject.uses:
                _, cache = self.subject.run()
                gradients, _ = self.subject.backward(self.subject.upstream(used), cache, 0)
                found += [np.array(gradients[name]) for name in sorted(gradients)]
        return found

    def changed(self):
        """Whether the code now in place gives other gradients."""
        try:
            found = self.run()
        except Exception:
            return True
        if [a.shape for a in found] != [a.shape for a in self.results]:
            return True
        return any(not np.allclose(a, b, rtol=1e-9, atol=1e-10)
                   for a, b in zip(found, self.results, strict=True))


def functions():
    """Every function of npdl that is a part of a backward."""
    found = []
    for module in npdl_modules():
        if not module.__name__.startswith(HOMES):
            continue
        for thing in vars(module).values():
            if getattr(thing, "__module__", "") != module.__name__:
                continue
            inner = vars(thing).values() if inspect.isclass(thing) else [thing]
            found += [f for f in inner if inspect.isfunction(f) and "backward" in f.__name__]
    return sorted(set(found), key=lambda f: (f.__module__, f.__code__.co_firstlineno))


def cases_for(classes=None):
    """The prepared cases (of these classes), the cheapest first, sizes of 1 last."""
    found = [RunCase(case) for case in all_cases()
             if classes is None or case.layer_class.__name__ in classes]
    return sorted(found, key=lambda p: ("of 1" in str(p.case) or "one " in str(p.case), p.cost))


def judge(mutant, prepared):
    """How one mutant fares: a word of CAUGHT, "survived" or "equivalent"."""
    code = mutant.code()
    original = mutant.function.__code__
    running = [p for p in prepared if (original, mutant.line) in p.lines]
    with patched(mutant.function, code), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in running[:TRIED] + running[-1:]:
            if case.changed():
                report = search(case.subject)
                if report.right:
                    return "survived"
                return "caught" if at_mutant(report, mutant) else "on another line"
    return "equivalent"


def at_mutant(report: Blame, mutant):
    """Whether a report names the statement that was changed."""
    statement = mutant.statement
    return (report.function == mutant.function.__qualname__
            and statement.first <= report.line <= statement.last)


mistakes = mutants


def judge_of(functions, classes=None):
    """The judge, with the prepared cases (of these classes)."""
    prepared = cases_for(classes)
    return lambda mutant: judge(mutant, prepared)


def reason(mutant):
    return None

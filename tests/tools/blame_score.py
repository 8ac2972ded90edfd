"""The share of wrong backwards that `blame` catches, and blames on the right line.

    python -m tests.tools.blame_score [--every N] [--functions softmax] [--module norms] [--show]
    python -m tests.tools.blame_score --kept rows.jsonl       # in parts: goes on where it stopped

Every function that is part of a backward gets one-token changes (tests.tools.mutants), one at a time.
A change counts when it alters a gradient, or raises, in some gradient-check case that runs the
line. The table says how many of those `blame` sees in that case, and on which line it puts them.
Exit status 1 below 95 % caught or 90 % blamed.
"""

import collections
import inspect
import json
import sys
import warnings
from pathlib import Path

import numpy as np

from npdl.console import OneLineParser
from npdl_study.blame.report import Blame
from npdl_study.blame.search import Search
from npdl_study.check.check import Check
from npdl_study.trace.patch import patched
from npdl_study.trace.record import record
from npdl_study.trees import copied
from npdl_study.trees import kept as kept_arrays
from tests.tools.cases import all_cases
from tests.tools.mutants import mutants
from tests.tools.running import build, npdl_modules

CAUGHT, BLAMED = 0.95, 0.90
TRIED = 6                           # cases tried for a mutant before it counts as unchanged
HOMES = ("npdl.layers.", "npdl.models.", "npdl.losses", "npdl.functions")


class Prepared:
    """A gradient-check case, its results with the code as it is, and the lines that it runs."""

    def __init__(self, case):
        self.case = case
        built = build(case)
        self.check = Check(built.layer, built.inputs, built.options, case.forward)
        self.check.reset()
        whole = self.check.upstreams[0]
        recording = record(self.check.layer, self.check.inputs, self.check.options,
                           copied(whole), forward=self.check.forward)
        self.cost = len(recording.steps)
        self.lines = {(s.call.code, line) for s in recording.phase("backward")
                      for line in range(s.statement.first, s.statement.last + 1)}
        self.results = self.run()

    def run(self):
        """Every gradient, for every upstream gradient."""
        check, found = self.check, []
        for dout in check.upstreams:
            check.reset()
            with np.errstate(all="ignore"), kept_arrays(check.layer, check.inputs):
                _, cache = check.forward(check.layer, *check.inputs, **check.options)
                returned = copied(check.layer.backward(copied(dout), cache))
            found += [np.array(p.grad) for _, p in check.layer.params()]
            found += [np.array(a) for name, a in check.subject.returned(returned).items()
                      if name in check.subject.arrays]
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
    found = [Prepared(case) for case in all_cases()
             if classes is None or case.layer_class.__name__ in classes]
    return sorted(found, key=lambda p: ("of 1" in str(p.case) or "one " in str(p.case), p.cost))


def judge(mutant, prepared):
    """(changed, caught, blamed, the Blame) of one mutant."""
    code = mutant.code()
    original = mutant.function.__code__
    running = [p for p in prepared if (original, mutant.line) in p.lines]
    with patched(mutant.function, code), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in running[:TRIED] + running[-1:]:
            if case.changed():
                report = Search(case.check.subject).run()
                return True, not report.right, at_mutant(report, mutant), report, case
    return False, False, False, None, None


def at_mutant(report: Blame, mutant):
    """Whether a report names the statement that was changed."""
    statement = mutant.statement
    return (report.function == mutant.function.__qualname__
            and statement.first <= report.line <= statement.last)


def main(arguments=None):
    parser = OneLineParser(prog="python -m tests.tools.blame_score",
                           description="Score blame over one-token changes of every backward.")
    parser.add_argument("--every", type=int, default=1, help="take one mutant in N")
    parser.add_argument("--first", type=int, default=0, help="which of the N: 0 to N - 1")
    parser.add_argument("--functions", help="only functions whose name contains this")
    parser.add_argument("--module", help="only functions of modules whose name contains this")
    parser.add_argument("--show", action="store_true", help="print what was missed")
    parser.add_argument("--kept", metavar="FILE", help="append each function's row to this file, "
                        "and leave out those that are in it; other parts of the mutants add up")
    parser.add_argument("--table", metavar="FILE", help="no scoring: the table of a kept file")
    options = parser.parse_args(arguments)
    if options.table:
        return report(kept(options.table)[0])
    rows, missed = score(options.every, options.functions, module=options.module,
                         keep=options.kept, first=options.first)
    status = report(rows)
    for line in missed if options.show else ():
        print(line)
    return status


def report(rows):
    """Print the table of {function: [mutants, changed, caught, blamed]}; the exit status."""
    layers = collections.OrderedDict()
    for name, row in rows.items():
        whole = layers.setdefault(name.split(".")[0], np.zeros(4, int))
        whole += row
    total = sum(layers.values(), np.zeros(4, int))
    print("| layer or function | mutants | change a result | caught | blamed on their line |")
    print("|---|--:|--:|--:|--:|")
    for name, (made, changed, caught, blamed) in [*layers.items(), ("all", total)]:
        print(f"| {name} | {made} | {changed} | {share(caught, changed)} | "
              f"{share(blamed, caught)} |")
    return int(total[2] < CAUGHT * total[1] or total[3] < BLAMED * total[2])


def kept(path):
    """(the rows of a file that --kept wrote, the parts (function, every, first) that are in it)."""
    lines = Path(path).read_text().splitlines() if path and Path(path).exists() else []
    rows, parts = {}, set()
    for name, every, first, row, _ in map(json.loads, lines):
        rows[name] = [int(n) for n in np.add(rows.get(name, [0, 0, 0, 0]), row)]
        parts.add((name, every, first))
    return rows, parts


def score(every=1, contains=None, classes=None, module=None, keep=None, first=0):
    """({function: [mutants, changed, caught, blamed]}, what was missed, in words).

    One mutant in `every` of the functions whose name has `contains` in it, from number `first` on,
    judged in the cases of `classes` (of all layers, if None).
    """
    chosen = [f for f in functions() if (not contains or contains in f.__qualname__)
              and (not module or module in f.__module__)]
    (rows, parts), missed = kept(keep), []
    prepared = cases_for(classes)
    for function in chosen:
        name = function.__qualname__
        if (name, every, first) in parts:
            continue
        row, own = [0, 0, 0, 0], []
        for mutant in mutants(function)[first::every]:
            changed, caught, blamed, found, case = judge(mutant, prepared)
            for i, yes in enumerate((True, changed, caught, blamed)):
                row[i] += yes
            if changed and not (caught and blamed):
                where = f"{found.function}:{found.line} {found.kind}"
                own.append(f"{'blamed on ' + where if caught else 'not caught'} | {mutant} | "
                           f"{case.case}")
        rows[name] = [int(n) for n in np.add(rows.get(name, [0, 0, 0, 0]), row)]
        missed += own
        if keep:
            with open(keep, "a") as file:
                file.write(json.dumps([name, every, first, row, own]) + "\n")
    return {name: row for name, row in rows.items() if row[0]}, missed


def share(part, whole):
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())

"""The share of mistakes in the exercises' own functions that hand-made facts catch.

    python -m tests.tools.exercise_mutation [--functions d001 solved/d001] [--every N] [--all]

Every function of an exercise that computes (and neither draws nor makes claims or solutions) gets
small mistakes (tests.tools.mutants, tests.tools.mutant_kinds, and `>` for `>=` and the like), one at a time.
The tests of tests/test_exercises_*.py that run the function are run, the quickest first, until one
fails; tests/exercises/test_ledger.py, which compares with kept text, is not among them. What a worked
solution computes (exercises/solved) is measured by tests/test_exercises_*_solved.py and
tests/test_worked*.py. An exception, or a test that does not end, counts as caught.

The table is docs/exercise-mutation.md, written again after each exercise. One whose source and
tests have not changed since keeps its row; --all measures it again. The page names the rows that
were measured before a change; --page writes it again without measuring any. With --every the
result is printed, and not kept. Exit status 1 where an exercise is below 90 %.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import inspect
import io
import linecache
import re
import resource
import sys
import time
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from npdl_study.trace.patch import patched
from tests.tools.mutant_kinds import Replacement, all_mutants
from tests.tools.mutation import codes_run, time_limit

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "exercise-mutation.md"
TESTS = ROOT / "tests"
GOAL = 0.9
MEMORY = 6 * 2**30              # of address space: a mutant that fills it is caught
BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ABOUT = f"""\
# Mutation score of the exercises

Written by `python -m tests.tools.exercise_mutation`. Every function of an exercise that computes is
changed by one small mistake at a time, and the tests of `tests/test_exercises_*.py` that run it are
run: facts made by hand, on the documents' data and on other data, not the kept text of the ledger.
For the worked solutions, `solved/`, it is those of `tests/test_exercises_*_solved.py` and
`tests/test_worked*.py`, their own checks against npdl among them. The goal is {100 * GOAL:.0f} %
for each.

Not measured are the functions that make claims and solutions: what stands in them is text, the
arrangement of numbers, and the comparisons from which `judge` and `proved` make the verdicts.
`tests/exercises/test_ledger.py` and `tests/exercises/test_exercises_broken.py` hold these; a comparison that is wrong
in itself changes a verdict of the ledger, and nothing else sees it. An exercise without mistakes,
"none", has no other functions.

Below the table stands every mistake that no test sees. Many of these change nothing that can be
seen: `.T` of a vector, axis 1 for -1 of a matrix, index 0 for -1 where there is one, a sign that
cancels in a quotient or under a norm, the seed or the sign of random numbers, `<` for `<=` where
both sides are never equal, a loop that goes on after it has converged.
"""


class Items:
    """A pytest plugin that runs `work(items)` in place of the tests it collected."""

    def __init__(self, work):
        self.work = work

    def pytest_runtestloop(self, session):
        self.work(session.items)
        return True


def passes(item):
    """Run one test; whether it passes or is skipped."""
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def exercise_names():
    """The exercises' modules that have functions of their own, scripts and their neighbours."""
    names = sorted(path.relative_to(ROOT / "exercises").with_suffix("").as_posix()
                   for path in (ROOT / "exercises").rglob("*.py"))
    wanted = re.compile(r"(solved/)?d\d{3}_|probes|neurons|.*_claims")
    return [name for name in names if wanted.match(name)]


def module_of(name):
    return importlib.import_module(f"exercises.{name}".replace("/", "."))


def own_functions(name):
    """{code: function} of an exercise's functions and methods."""
    module = module_of(name)
    linecache.getlines(module.__file__)
    found = {}
    for thing in vars(module).values():
        if getattr(thing, "__module__", "") == module.__name__:
            inner = vars(thing).values() if inspect.isclass(thing) else [thing]
            found |= {f.__code__: f for f in map(plain, inner)
                      if f is not None and f.__code__.co_filename == module.__file__}
    return found


def plain(thing):
    """The function behind a method, property or cache; None where there is none."""
    thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
    return thing if inspect.isfunction(thing) else None


def makers(name):
    """The codes of an exercise that return claims, or solutions, which other tests judge."""
    from exercises.framework import Claim, Solution

    found = set()

    def note(frame, event, arg):
        first = arg[0] if isinstance(arg, list) and arg else arg
        if event == "return" and isinstance(first, (Claim, Solution)):
            found.add(frame.f_code)

    given = vars(module_of(name))
    make = next((given[kind] for kind in ("claims", "all_claims", "solutions") if kind in given),
                None)
    if make:
        sys.setprofile(note)
        try:
            make()
        finally:
            sys.setprofile(None)
    return found


def measured(name):
    """The functions of an exercise that are measured."""
    skip = makers(name)
    return [function for code, function in own_functions(name).items() if code not in skip
            and not re.match(r"figures|draw|solutions|claims|all_claims|box$", function.__name__)]


def mistakes(function):
    """Every mutant of a function, but for what stands in error messages and formatted text."""
    text = "".join(linecache.getlines(function.__code__.co_filename))
    spans = [(n.lineno, n.col_offset, n.end_lineno, n.end_col_offset)
             for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Raise, ast.JoinedStr))]
    found = [m for m in [*all_mutants(function), *bounds(function, text)]
             if m.was != "_" and not any(s[:2] <= (m.line, m.column) < s[2:] for s in spans)]
    return list({m.source(): m for m in found}.values())


def bounds(function, text):
    """Mutants with < for <=, == for != and so on."""
    code = function.__code__
    last = code.co_firstlineno + len(inspect.getsourcelines(function)[0])
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if code.co_firstlineno < token.start[0] < last and token.string in BOUNDS:
            yield Replacement(function, *token.start, token.string, BOUNDS[token.string], "bound")


def forget():
    """Empty the caches of the exercises: what they keep was computed without the mistake."""
    for name, module in list(sys.modules.items()):
        if name.startswith("exercises."):
            for thing in vars(module).values():
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()


class Facts:
    """The tests, which functions each runs, and how long it takes."""

    def __init__(self, items, functions):
        self.running, self.seconds = defaultdict(list), {}
        for item in items:
            forget()
            start, passed = time.process_time(), []
            ran = codes_run(lambda item=item, passed=passed: passed.append(passes(item)))
            self.seconds[item] = time.process_time() - start
            if not all(passed):
                raise RuntimeError(f"{item} fails without a mistake: mend it first")
            for function in functions:
                if function.__code__ in ran:
                    self.running[function].append(item)
        for items_of in self.running.values():
            items_of.sort(key=self.seconds.get)

    def catch(self, mutant):
        """Whether a test fails under the mutant."""
        code = mutant.code()
        if code is None:
            return True
        for item in self.running[mutant.function]:
            forget()
            with patched(mutant.function, code), contextlib.redirect_stdout(io.StringIO()):
                try:
                    with time_limit(3 + 10 * self.seconds[item]):
                        passed = passes(item)
                except TimeoutError:
                    passed = False
            if not passed:
                return True
        return False


def tests_of(name):
    """The test files of the documents that an exercise, or the scripts that use it, belong to.

    A worked solution has its own ones: the document's others do not run it. What stands beside
    the scripts may have one of its own name.
    """
    if name.startswith("solved/"):
        document = name.removeprefix("solved/d")[:3]
        own = f"test_exercises_{document}_solved.py", f"test_worked_{document}.py"
        return sorted(path for file in (*own, "test_worked.py", "test_worked_[a-z]*.py")
                      for path in TESTS.glob(file))
    scripts = [name] if re.match(r"d\d{3}_", name) else [
        path.stem for path in sorted((ROOT / "exercises").glob("d[0-9]*_*.py"))
        if name in path.read_text(encoding="utf-8")]
    files = [f"test_{name}.py", *(f"test_exercises_{script[1:4]}*.py" for script in scripts)]
    return sorted({path for file in files for path in TESTS.glob(file)})


def digest(name):
    """What a row rests on: the exercise's source, and the tests of its document."""
    files = [ROOT / "exercises" / f"{name}.py", *tests_of(name)]
    return hashlib.sha256(b"".join(map(Path.read_bytes, files))).hexdigest()[:12]


def kept_rows(text):
    """{exercise: (mutants, caught, digest, survivors)} of the table as it was written."""
    rows = {m[1]: (int(m[2]), int(m[3]), m[4], []) for m in re.finditer(
        r"^\| ([\w/]+) \| (\d+) \| (\d+) \| (?:[\d.]+ %|none) \| ([0-9a-f]{12}) \|$", text, re.M)}
    for m in re.finditer(r"^\* ([\w/]+): (.*)$", text, re.M):
        if m[1] in rows:
            rows[m[1]][3].append(m[2])
    return rows


def share(rows):
    mutants, caught = (sum(row[i] for row in rows.values()) for i in (0, 1))
    return caught / mutants if mutants else 1.0


def low_rows(rows):
    """The exercises below the goal."""
    return [name for name, row in sorted(rows.items()) if share({name: row}) < GOAL]


def stale(rows):
    """The exercises whose row was measured before their source, or their tests, changed."""
    return [name for name in exercise_names() if name in rows and rows[name][2] != digest(name)]


def markdown(rows):
    """The table and the survivors."""
    lines = [ABOUT, "| exercise | mistakes | caught | share | sources |", "|---|--:|--:|--:|---|"]
    for name, (mutants, caught, sources, _) in sorted(rows.items()):
        part = f"{100 * caught / mutants:.1f} %" if mutants else "none"
        lines.append(f"| {name} | {mutants} | {caught} | {part} | {sources} |")
    total, caught = (sum(row[i] for row in rows.values()) for i in (0, 1))
    lines += [f"| all | {total} | {caught} | {100 * share(rows):.1f} % | |", ""]
    missing = [name for name in exercise_names() if name not in rows]
    if missing:
        lines += [f"Not measured yet: {', '.join(missing)}.", ""]
    old = stale(rows)
    if old:
        lines += [f"Measured before the exercise or its tests changed: {', '.join(old)}.", ""]
    lines += ["## Survivors", ""]
    lines += [f"* {name}: {text}" for name, row in sorted(rows.items()) for text in row[3]]
    return "\n".join(lines) + "\n"


def measure(names, every, keep):
    """Call keep(exercise, row) for each of the named ones, by running pytest on their tests."""
    settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("mutation")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen, sources = {name: measured(name) for name in names}, {n: digest(n) for n in names}

    def work(items):
        facts = Facts(items, [f for functions in chosen.values() for f in functions])
        for name, functions in chosen.items():
            pool = [m for f in functions for m in mistakes(f)][::every]
            start, unseen = time.time(), [m for m in pool if not facts.catch(m)]
            keep(name, (len(pool), len(pool) - len(unseen), sources[name],
                        [f"{m}".replace("|", "\\|") for m in unseen]))
            print(f"{name}: {len(pool) - len(unseen)} of {len(pool)} caught, "
                  f"{time.time() - start:.0f} s", file=sys.__stderr__, flush=True)

    files = sorted({str(path) for name in names for path in tests_of(name)})
    pytest.main([*files, "-q", "--tb=no", "-p", "no:cacheprovider",
                 "--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning"], [Items(work)])


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--functions", nargs="+", default=[""], metavar="NAME",
                        help="only exercises whose names begin so")
    parser.add_argument("--every", type=int, default=1, help="take one mistake in N")
    parser.add_argument("--all", action="store_true", help="measure what has not changed, too")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page again")
    options = parser.parse_args(given)
    names, found = exercise_names(), {}

    def table():
        """The kept rows, read again each time: another run may have added some."""
        text = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
        rows = {name: row for name, row in kept_rows(text).items() if name in names}
        return (rows if options.every == 1 else {}) | found

    def keep(name, row):
        found[name] = row
        if options.every == 1:
            TABLE.write_text(markdown(table()), encoding="utf-8")

    if options.page:
        TABLE.write_text(markdown(table()), encoding="utf-8")
        return 0
    rows = table()
    measure([name for name in names if name.startswith(tuple(options.functions)) and (
        options.all or name not in rows or rows[name][2] != digest(name))], options.every, keep)
    if options.every > 1:
        print(markdown(found))
    low = low_rows(table())
    print(f"{100 * share(table()):.1f} % caught; below the goal: {', '.join(low) or 'none'}")
    return int(bool(low))


if __name__ == "__main__":
    sys.exit(main())

"""Which small edit of a few statements makes a wrong backward right."""

import ast
import itertools
import re
from dataclasses import dataclass

import numpy as np

from npdl_study.blame.edits import Edit, edits
from npdl_study.blame.vocabulary import Forward, vocabulary
from npdl_study.trace.handed import is_alias
from npdl_study.trace.patch import edited_code, function_of, patched
from npdl_study.trace.syntax import binary, cloned, parsed
from npdl_study.trace.trace import file_of, original_file

MOST_EDITS = 3000
SCALE = -1 / 30                 # a backward is linear in what it is handed: a smaller one, as the
                                # rounding in a numerical gradient that is 0 grows with it
FOR_SUSPECTS = 4                # rank of edits that statements beside them are spared


@dataclass
class Found:
    """An edit that helps: `everywhere` when it makes every gradient right, else one value."""

    edit: object
    statement: object
    code: object
    function: object
    everywhere: bool


class Repair:
    """Tries edits of the statements of a region, backward steps; `origin` is the likeliest.

    `suspects` are the Units that can mend what is wrong; without them a statement raised.
    """

    def __init__(self, search, region, origin, suspects=()):
        self.check, self.dout = search.check, search.dout
        self.origin, self.region = origin, region
        self.suspects = {(unit.code, unit.statement) for unit in suspects}
        self.missing = missing_name(origin.error)
        wrong = search.trials.wrong if suspects else frozenset()
        self.goal = suspects[0].mended if suspects and suspects[0].mended != wrong else None
        self.wrong = wrong
        self.forward = Forward(search.recording)
        module = type(self.check.layer).__module__
        self.own_file = None if module.startswith("npdl.") else file_of(module)
        self.tries = sorted(self._tries(), key=lambda item: item[0])[:MOST_EDITS]

    def find(self, ranks=range(10)):
        """The likeliest Found of the edits of these ranks, or None."""
        tries = [item for item in self.tries if item[1].rank in ranks]
        for found in self._patches(tries, True):
            if self.goal is None and self.check.works([self.dout]) and self.check.works() \
                    and self.check.works([times(self.dout, SCALE)]):
                return found
            if self.goal is not None and self._helps():
                found.everywhere = False
                return found
        return None

    def _helps(self):
        """Whether the gradients that the suspects can mend are right, and no right one spoilt."""
        try:
            finals = self.check.finals(self.dout)
        except Exception:
            return False
        return all(f.right or f.kink for f in finals if f.name in self.goal
                   or f.name not in self.wrong)

    def _patches(self, tries, everywhere):
        """Yield a Found for each edit, while the function runs with it."""
        for _, edit, step, function in tries:
            try:
                code = edited_code(step.call.code, edit.of or step.statement, edit.node)
            except (SyntaxError, ValueError, TypeError, StopIteration):
                continue
            if code is None or code.co_freevars != step.call.code.co_freevars:
                continue
            with patched(function, code):
                yield Found(edit, step.statement, code, function, everywhere)

    def _tries(self):
        """(order, edit, step, function) of every edit of the region's statements."""
        seen = set()
        for step in self.region:
            function = function_of(step.call.code)
            if function is None or (step.call.code, step.statement) in seen:
                continue
            seen.add((step.call.code, step.statement))
            if self.forward.unpacked_by(step.statement):
                continue
            away = self.own_file not in (None, original_file(step.call.code.co_filename))
            for edit in edits(step.statement, self._words(step.call)):
                if not _ends(step, edit):
                    continue
                known = (step.call.code, step.statement) in self.suspects
                if self.suspects and not known and self._is_far(step, edit):
                    continue
                order = (away, self._unlikely(step, edit), edit.rank, not known,
                         step.statement is not self.origin.statement,
                         step.index if self.suspects else -step.index)
                yield order, edit, step, function

    def upstream(self, step, name):
        """The Found of a factor that the gradient `name`, which a backward is handed, lacks at its
        first `step` and so in every statement that reads it; None where there is none."""
        function = function_of(step.call.code)
        if function is None:                            # a hidden one, as in a notebook
            return None
        words = self._words(step.call)
        texts = [text + index for text in words.arrays if text != name
                 for index in ("", "[:, None]", "[:, :, None]", "[..., None]")] + words.numbers
        was, tries = ast.Name(name, ast.Load()), []
        for text, sign in itertools.product(texts, "*/"):
            now = binary(was, sign, parsed(text))
            node = ast.If(ast.Constant(True), [ast.Assign([ast.Name(name, ast.Store())], now),
                                               cloned(step.statement.node)], [])
            edit = Edit(5, "missing factor", name, ast.unparse(now), node)
            tries.append((0, edit, step, function))
        return next((found for found in self._patches(tries, True) if self.check.works()), None)

    def _is_far(self, step, edit):
        """Whether an edit is too rare to be tried beside the statements that come into question."""
        made = edit.kind in ("missing term", "missing factor", "count", "window") and step.writes
        return edit.rank == FOR_SUSPECTS and not is_alias(step.statement) or bool(
            made and edit.rank > FOR_SUSPECTS)

    def _unlikely(self, step, edit):
        """After a NameError: which of the edits that supply the missing name come first.

        A name that is bound nowhere was lost where it should have been bound, and so was one in
        whose place a name was bound that had a value already; else it was misread.
        """
        if not self.missing:
            return 0
        if edit.now == self.missing and edit.rank >= 6:
            nowhere = not isinstance(self.origin.error, UnboundLocalError)
            return 0 if nowhere or self._had_value(edit.was, step) else 2
        return 1 if step is self.origin and edit.was == self.missing else 3

    def _had_value(self, name, step):
        """Whether a name was bound in the call before a step, which does not read it."""
        return name not in step.statement.reads and (name in step.call.function.arguments or any(
            name in other.statement.binds for other in self.region
            if other.call is step.call and other.index < step.index))

    def _words(self, call):
        return vocabulary(call, self.region, self.forward, self.missing)


def times(dout, number):
    """An upstream gradient, an array or a nest of these, times a number."""
    if isinstance(dout, tuple):
        return tuple(times(item, number) for item in dout)
    return None if dout is None else dout * number


def _ends(step, edit):
    """Whether a `while` surely ends with an edit: what it counts by is left alone."""
    if isinstance(step.statement.node, ast.While):
        return edit.kind in ("number", "comparison")
    around = [s for s in step.call.function.statements if s.first in step.statement.loops]
    return bool(step.writes) or not any(isinstance(s.node, ast.While) for s in around)


def missing_name(error):
    """The name that a NameError lacked; an UnboundLocalError has it in its message only."""
    if not isinstance(error, NameError):
        return ""
    quoted = re.search(r"'(\w+)'", str(error))
    return error.name or (quoted[1] if quoted else "")


def first_difference(recordings, statement):
    """The first pair of steps of a statement, one of each recording, whose values differ."""
    pairs = [[s for s in recording.phase("backward") if s.statement.first == statement.first
              and s.statement.source == statement.source] for recording in recordings]
    for before, after in zip(*pairs, strict=False):
        for a, b in itertools.product(before.writes, after.writes):
            if a.name == b.name and a.how != "through a view" and not same(a.value, b.value):
                return before, a, b
    return None


def same(a, b):
    """Whether two values, arrays or tuples of them, agree to rounding."""
    if isinstance(a, tuple) or isinstance(b, tuple):
        return isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) and all(
            same(x, y) for x, y in zip(a, b, strict=True))
    if a is None or b is None:
        return a is b
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)

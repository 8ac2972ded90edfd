"""Run edits of the candidate statements until one makes every gradient correct.

If the values of a statement are known, its edited expression is evaluated first. The whole backward
is run with the edit only if the linear system of `localize` allows the value. It is then also run
on inputs and upstream gradients that were not used to find the candidate.
"""

import ast
import contextlib
import functools
import itertools
import operator
from dataclasses import dataclass

import numpy as np

from npdl.study.blame.edits import (
    FACTOR,
    RANKS,
    TOKEN,
    build_node,
    expression_edits,
    statement_edits,
)
from npdl.study.blame.localize import CONSTANT, CORRECT, MATCHED, PASSED, UNMATCHED, Candidate
from npdl.study.blame.vocabulary import make_vocabulary
from npdl.study.trace.runs import restore_attributes, silence_warnings
from npdl.study.trace.source import replace_line
from npdl.study.trace.syntax import clone_tree, find_expressions

# These kinds of edits change the shape of a value.
RESHAPING = ("wrong axis", "missing transpose", "extra transpose", "missing sum", "extra sum")
HOLE = "__npdl_hole__"          # the name that replaces the edited part in compiled expressions
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
RUN_COST = 1500         # a run of an edit spends this in addition to its computed values; a larger
                        # number allows fewer runs


@dataclass
class Fix:
    """An edit of a statement after which every gradient is correct.

    kind       the diagnosis
    candidate  the Candidate of the statement
    node       the statement that replaces it
    """

    kind: str
    candidate: object
    node: ast.stmt

    @property
    def line(self):
        return self.candidate.line

    @property
    def text(self):
        """Return the source of the statement that replaces the line, or the header of a loop."""
        return ast.unparse(self.node).split("\n")[0]


class FixSearch:
    """A search for Fixes of a Localization. A Fix must also pass the Checks of `validation`."""

    def __init__(self, found, validation):
        self.found, self.validation = found, validation
        self.runs, self.budget = found.runs, found.runs.budget
        self.words = functools.cache(self._vocabulary)

    def fixes(self):
        """Return the Fixes of the first stage that has any, at most one for each line."""
        for group, rank in self._stages():
            fixes = [fix for c in group if (fix := self.fix(c, rank)) is not None]
            if fixes and group[0].rest:
                return fixes[:1]
            if fixes or self.budget.over:
                return sorted(fixes, key=lambda fix: self.found.rank(fix.candidate))
        return []

    def _stages(self):
        """Yield (Candidates, rank of edits) in the order in which they are tried.

        1. Candidates whose values match no gradient, or are constant. After the edits of the rank
           FACTOR come edits of one token of Candidates that only pass values on.
        2. Candidates whose values match a gradient, and then those whose values are correct.
        3. Candidates that correct all gradients with a rest (Localization.partial).
        4. The other lines that backward ran.
        """
        unmatched, constant, matched, passed, correct = (
            [c for c in self.found.candidates if c.status == status and (
                c.feasible and (status != CORRECT or not c.constant)
                or c.feasible is None and status == PASSED)]
            for status in (UNMATCHED, CONSTANT, MATCHED, PASSED, CORRECT))
        for rank in RANKS:
            yield from ((unmatched, rank), (constant, rank))
            if rank == FACTOR:
                yield passed, TOKEN
        yield from itertools.product((matched, correct), RANKS)
        tried = {c.line for c in unmatched + constant + matched + correct + passed}
        rest = [*passed, *self._other_lines(tried)]
        yield from itertools.product((self.found.partial, rest), RANKS)

    def fix(self, candidate, rank):
        """Return the first Fix of a Candidate among the edits of a rank, or None."""
        for kind, new in self._edits(candidate, rank):
            if self.budget.over:
                return None
            if self._is_fixed(candidate, new):
                return Fix(kind, candidate, new)
        return None

    def _is_fixed(self, candidate, new):
        """Return True if all gradients are correct with the statement `new` for a Candidate.

        If the Candidate has a rest, a change of the rest may correct the other gradients.
        """
        if any(isinstance(one.node, ast.While) for one in candidate.line.function.lines):
            return False                                # an edit may make the loop endless
        self.budget.spend(RUN_COST)
        with replace_line(candidate.line, [new]) as is_valid, contextlib.suppress(Exception):
            if not is_valid:
                return False
            with restore_attributes(self.runs.subject.layer):
                found = self.runs.gradients()
            if candidate.rest:
                return self.runs.is_correctable(found, candidate.free)
            return not self.runs.wrong(found) and all(map(_has_passed, self.validation))
        return False                                    # the edited code raises an exception

    def _other_lines(self, lines):
        """Yield a Candidate for each line of backward that is not in `lines`."""
        known = {c.line: c for c in self.found.candidates if not c.is_argument}
        for function in self.found.functions.values():
            for line in function.lines:
                if line not in lines | self.found.forward_lines and "zeros" not in line.text:
                    yield known.get(line) or Candidate(line)

    def _edits(self, candidate, rank):
        """Yield the edits (kind, statement) of a rank that agree with the known values."""
        words, node = self.words(candidate.line), candidate.line.node
        if not candidate.is_argument:
            yield from ((kind, new) for r, kind, new in statement_edits(node) if r == rank)
        places = {self.runs.watch.places[key[0]].node: key[0] for key in candidate.values}
        for part, is_value in find_expressions(node):
            if candidate.is_argument:                   # edit this argument alone
                part = next((n for n in ast.walk(part) if n in places), None)
                if part is None:
                    continue
            place = places.get(part) if is_value else None
            allows = candidate.value_test(place) if place is not None \
                and candidate.feasible is not None else None
            test = allows and ValueTest(allows, words, part, self.budget)
            for inner, edits in expression_edits(part, words):
                for r, kind, new in edits:
                    if r == rank and (allows is not False or kind in RESHAPING) and (
                            not test or test(inner, new)):
                        yield kind, clone_tree(node, inner, build_node(inner, new))

    def _vocabulary(self, line):
        """Return the Vocabulary at a Line, with the variables that were recorded nearest to it."""
        frames, places = self.found.frames, self.runs.watch.places
        keys = [k for k in frames if places[k[0]].function is line.function and k[1] == 0]
        keys.sort(key=lambda k: (places[k[0]].line is not line, abs(
            places[k[0]].line.first - line.first), -k[0]))
        functions = self.runs.watch.functions[::-1]     # backward's expressions first
        return make_vocabulary(line, frames[keys[0]] if keys else {}, functions)


def _has_passed(check):
    """Return True if no gradient is wrong in a Check."""
    with restore_attributes(check.subject.layer):
        return check.verdict().used is None


class ValueTest:
    """Tests if allows(value) is True for the value that the expression `whole` has when edited."""

    def __init__(self, allows, words, whole, budget):
        self.allows, self.words, self.whole, self.budget = allows, words, whole, budget
        self.holes, self.parts = {}, {}

    def __call__(self, part, new):
        """Return True if the value of the expression is allowed after an edit of a part."""
        self.budget.spend(RUN_COST / 50)                # a test computes one expression only
        shape, size = self.allows.shape, int(np.prod(self.allows.shape))
        try:
            with silence_warnings():
                value = np.asarray(self._value(part, new), float)
            return self.allows(value.reshape(shape) if value.size == size else
                               np.broadcast_to(value, shape))
        except Exception:                               # the edit doesn't fit the shapes
            return False

    def _value(self, part, new):
        """Return the value of `whole` with `new` in the place of a part."""
        space = self.words.space
        if isinstance(part, ast.keyword):
            return evaluate(clone_tree(self.whole, part, new), space)
        if isinstance(new, tuple):                      # most edits are pairs: be fast
            if part not in self.parts:
                self.parts[part] = evaluate(clone_tree(part), space)
            new = OPERATORS[new[0]](self.parts[part], self.words.values[new[1]])
        else:
            new = evaluate(clone_tree(build_node(part, new)), space)
        if part is self.whole:
            return new
        if part not in self.holes:
            self.holes[part] = compile_expression(
                clone_tree(self.whole, part, ast.Name(HOLE, ast.Load())))
        return eval(self.holes[part], space | {HOLE: new})


def compile_expression(node):
    """Return the code of an expression."""
    return compile(ast.fix_missing_locations(ast.Expression(node)), "edit", "eval")


def evaluate(node, space):
    """Return the value of an expression with the variables in `space`."""
    return eval(compile_expression(node), space)

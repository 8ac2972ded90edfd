"""Run edits of the candidate statements until one makes every gradient correct.

Running the whole backward is slow, so an edited expression is first evaluated alone. Backward runs
with the edit only if the linear system of `localize` allows the value of the expression. If all
gradients are then correct, backward also runs on other inputs, to validate the edit.
"""

import ast
import contextlib
import functools
import itertools
from dataclasses import dataclass

import numpy as np

from npdl.study.blame import edits
from npdl.study.blame.localize import CONSTANT, CORRECT, MATCHED, PASSED, UNMATCHED, Candidate
from npdl.study.blame.vocabulary import Vocabulary
from npdl.study.trace.runs import preserve_attributes, silence_warnings
from npdl.study.trace.source import replace_statement
from npdl.study.trace.syntax import clone_tree, find_top_expressions, parse_expression

# These kinds of edits change the shape of a value.
RESHAPING = ("wrong axis", "missing transpose", "extra transpose", "missing sum", "extra sum")
HOLE = "__npdl_hole__"          # the name that replaces the edited part in compiled expressions
RUN_COST = 1500         # a run of an edit spends this in addition to its computed values; a larger
                        # number allows fewer runs


@dataclass
class Fix:
    """An edit of a statement after which every gradient is correct."""

    kind: str                   # the diagnosis, such as "wrong sign"
    candidate: object           # the Candidate of the statement
    node: ast.stmt              # the syntax tree of the new statement

    @property
    def replaced_statement(self):
        return self.candidate.statement

    @property
    def text(self):
        """Return the source of the new statement; for a loop, only its header."""
        return ast.unparse(self.node).split("\n")[0]


class FixSearch:
    """Searches for edits of candidate statements, and validates them by Checks on other inputs."""

    def __init__(self, localization, validation):
        self.localization, self.validation = localization, validation
        self.runs, self.budget = localization.runs, localization.runs.budget
        self.vocabulary_of = functools.cache(self._make_vocabulary)

    def find_fixes(self):
        """Return the Fixes of the first successful stage, at most one per line."""
        for group, rank in self._iterate_stages():
            fixes = [fix for c in group if (fix := self.find_fix(c, rank)) is not None]
            if fixes and group[0].rest:
                return fixes[:1]
            if fixes or self.budget.is_spent:
                return sorted(fixes, key=lambda fix: self.localization.sort_key(fix.candidate))
        return []

    def _iterate_stages(self):
        """Yield (list of Candidates, rank of edits) in the order in which they are tried.

        1. Candidates with the status UNMATCHED or CONSTANT (npdl.study.blame.localize). After the
           edits of rank FACTOR, Candidates with the status PASSED get the edits of rank TOKEN.
        2. Candidates with the status MATCHED, and then CORRECT.
        3. Candidates that need a second change, too (Localization.two_change_candidates).
        4. The other statements of backward.
        """
        unmatched, constant, matched, passed, correct = (
            [c for c in self.localization.candidates if c.status == status and (
                c.feasible and (status != CORRECT or not c.constant)
                or c.feasible is None and status == PASSED)]
            for status in (UNMATCHED, CONSTANT, MATCHED, PASSED, CORRECT))
        for rank in edits.RANKS:
            yield from ((unmatched, rank), (constant, rank))
            if rank == edits.FACTOR:
                yield passed, edits.TOKEN
        yield from itertools.product((matched, correct), edits.RANKS)
        tried = {c.statement for c in unmatched + constant + matched + correct + passed}
        rest = [*passed, *self._make_untried_candidates(tried)]
        yield from itertools.product((self.localization.two_change_candidates, rest), edits.RANKS)

    def find_fix(self, candidate, edit_rank):
        """Return the first Fix of a Candidate among the edits of a rank, or None."""
        for kind, new in self._make_edits(candidate, edit_rank):
            if self.budget.is_spent:
                return None
            if self._is_fixed_by(candidate, new):
                return Fix(kind, candidate, new)
        return None

    def _is_fixed_by(self, candidate, new_node):
        """Return True if all gradients are correct with this syntax node in a Candidate's place.

        If the Candidate needs a second change, the errors that remain may be a linear combination
        of its columns `free`.
        """
        if any(isinstance(one.node, ast.While) for one in candidate.statement.function.statements):
            return False                                # an edit may make the loop endless
        self.budget.left -= RUN_COST
        with (replace_statement(candidate.statement, new_node) as is_valid,
              contextlib.suppress(Exception)):
            if not is_valid:
                return False
            with preserve_attributes(self.runs.subject.layer):
                found = self.runs.compute_gradients()
            if candidate.rest:
                return self.runs.is_correctable(found, candidate.free)
            return not self.runs.find_wrong_gradients(found) and all(
                map(_has_right_gradients, self.validation))
        return False                                    # the edited code raises an exception

    def _make_untried_candidates(self, tried_statements):
        """Yield a Candidate for each line of backward that is not in `tried_statements`."""
        known = {c.statement: c for c in self.localization.candidates if not c.is_argument}
        left_out = tried_statements | self.localization.forward_statements
        for function in self.localization.backward_functions.values():
            for statement in function.statements:
                if statement not in left_out and "zeros" not in statement.text:
                    yield known.get(statement) or Candidate(statement)

    def _make_edits(self, candidate, edit_rank):
        """Yield the edits (kind, new statement) of a rank, without those that can't be correct."""
        vocabulary, node = self.vocabulary_of(candidate.statement), candidate.statement.node
        if not candidate.is_argument:
            yield from ((kind, clone_tree(ast.parse(new).body[0]))
                        for r, kind, new in edits.make_statement_edits(node) if r == edit_rank)
        expressions = {self.runs.watch.expressions[key[0]].node: key[0] for key in candidate.values}
        for part, is_value in find_top_expressions(node):
            if candidate.is_argument:                   # edit this argument alone
                part = next((n for n in ast.walk(part) if n in expressions), None)
                if part is None:
                    continue
            is_allowed = candidate.make_value_test(expressions.get(part)) if is_value else None
            test = is_allowed and _make_edit_test(is_allowed, vocabulary, part, self.budget)
            for inner, changes in edits.make_edits_by_part(part, vocabulary):
                for r, kind, new in changes:
                    if r == edit_rank and (is_allowed is not False or kind in RESHAPING) and (
                            not test or test(inner, new)):
                        index = parse_expression(f"_[{new}]").slice     # `new` may be "i, :"
                        yield kind, clone_tree(node, inner, index)

    def _make_vocabulary(self, statement):
        """Return the Vocabulary for edits of a Statement, with variables recorded at or near it."""
        frames, expressions = self.localization.frames, self.runs.watch.expressions
        keys = [k for k in frames if expressions[k[0]].function is statement.function and k[1] == 0]

        def compute_distance(key):
            at = expressions[key[0]].statement          # None for an argument, which comes last
            lines_between = at and abs(at.first_line - statement.first_line)
            return at is None, at is not statement, lines_between, -key[0]

        functions = self.runs.watch.functions[::-1]     # backward's expressions first
        frame = frames[min(keys, key=compute_distance)] if keys else {}
        return Vocabulary(statement, frame, functions)


def _has_right_gradients(check):
    """Return True if backward computes no wrong gradient for the inputs of a Check."""
    with preserve_attributes(check.subject.layer):
        return check.compute_verdict().used_outputs is None


def _make_edit_test(is_allowed, vocabulary, expression, budget):
    """Return a function may_be_right(part, new), which tests an edit of an expression.

    It returns True if the value of the expression passes the test `is_allowed`, after the source
    `new` replaces the syntax node `part`. Each test spends some of the budget. The new source is
    evaluated with the variables of the Vocabulary.
    """
    space, shape = vocabulary.variables, is_allowed.shape

    @functools.cache                                    # compile once for all edits of a part
    def compile_with_hole(part):
        text = ast.unparse(clone_tree(expression, part, ast.Name(HOLE, ast.Load())))
        return compile(text, "edit", "eval")

    def may_be_right(part, new):
        budget.left -= RUN_COST / 50                    # a test computes one expression only
        with contextlib.suppress(Exception), silence_warnings():    # a shape may not fit
            value = eval(compile_with_hole(part), space | {HOLE: eval(new, space)})
            value = np.asarray(value, float)
            return is_allowed(value.reshape(shape) if value.size == np.prod(shape, dtype=int) else
                          np.broadcast_to(value, shape))
        return False

    return may_be_right

"""Which wrong values of a walk are wrong by their name alone, and which because of what they read.

A `dz` that a statement reads whole, and makes a right value of, was what it had to be, whatever its
name promises. A value that is wrong after one that its statement read says nothing of its line.
"""

import ast

import numpy as np

from npdl_study.trace.fold import makes_room, only_names
from npdl_study.trace.reads import uses
from npdl_study.trace.syntax import names_of


class Follows:
    """Looks at the verdicts of a Walk's backward; `cleared` are those that are no longer wrong."""

    def __init__(self, walk):
        self.walk, self.cleared = walk, set()
        self.steps = walk.recording.phase("backward")

    def leads_to_right(self, verdict):
        """Whether what is right was made of a wrong value: by statements that read all of it, and
        wrote as many entries that are not 0."""
        size, left = np.size(verdict.value), np.size(verdict.value)
        for step in self.steps:
            if step.call is not verdict.call or step.index <= verdict.at:
                continue
            for write in step.writes:
                if not isinstance(write.value, np.ndarray) or \
                        verdict.name not in uses(_made_of(step, write)):
                    continue
                found = self.walk.verdict(step, write.name)
                if found is not None and found is not verdict and (
                        found.right or id(found) in self.cleared):
                    left -= np.count_nonzero(write.value)
            if verdict.name in step.statement.binds:
                break
        return size > 0 >= left

    def mark(self):
        """Let the wrong Verdicts follow whose statement read what is wrong, or what another one
        made and is not known to be right, or ran what is wrong."""
        wrong = {key for key, verdict in self.walk.verdicts.arguments.items()
                 if verdict.right is False}
        seen, inside, left = set(), [], {}              # calls; which steps wrote what is wrong
        first = self.steps[0].index if self.steps else 0
        for step in self.steps:
            number = step.call.number
            if number not in seen:
                seen.add(number)
                wrong |= {(number, name) for name in self._handed_wrong(step.call, wrong)}
            ran = any(inside[max(step.first_inner - first, 0):])
            found = [self.walk.verdict(step, w.name) for w in step.writes]
            reads_wrong = ran or any((number, name) in wrong for name in step.statement.reads)
            unsure = any(left.get((number, name), step.statement) is not step.statement
                         for name in step.statement.reads)
            inside.append(any(v is not None and v.right is False for v in found)
                          or step.statement.is_return and reads_wrong)
            for write, verdict in zip(step.writes, found, strict=True):
                key, right = (number, write.name), verdict and verdict.right
                right = right or id(verdict) in self.cleared
                if right or only_names(step.statement.node) or makes_room(step.statement):
                    left.pop(key, None)
                else:
                    left[key] = step.statement
                if verdict is not None and verdict.right is False:
                    verdict.follows = reads_wrong or unsure
                    wrong.add(key)
                elif not right and reads_wrong:
                    wrong.add(key)
                elif write.how == "bound":
                    wrong.discard(key)

    def _handed_wrong(self, call, wrong):
        """The arguments of a call for which its caller reads what is wrong."""
        if call.from_statement is None or call.parent is None:
            return
        given = next((node.args for node in ast.walk(call.from_statement.node) if isinstance(
            node, ast.Call) and ast.unparse(node.func).split(".")[-1] == call.function.name), ())
        for name, argument in zip(call.function.given, given, strict=False):
            known = self.walk.verdicts.arguments.get((call.number, name))
            if not (known and known.right) and any(
                    (call.parent.number, n) in wrong for n in names_of(argument)):
                yield name


def _made_of(step, write):
    """The part of a statement that makes a write: of `a, b = x, y` x for a; none of `a, b = f(x)`,
    where it is not known which part of x went into a."""
    node = step.statement.node
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return next((ast.Expr(value) for name, value in zip(
            target.elts, node.value.elts, strict=False) if ast.unparse(name) == write.name), None)
    return node if len(step.writes) == 1 else None

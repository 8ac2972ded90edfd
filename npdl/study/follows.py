"""Which wrong values of a walk are wrong by their name alone, and which because of what they read.

A `dz` that a statement reads whole, and makes a right value of, was what it had to be, whatever its
name promises. A value that is wrong after one that its statement read says nothing of its line.
"""

import ast

import numpy as np

from npdl.study.reads import uses


class Follows:
    """Looks at the verdicts of a Walk's backward; `cleared` are those that are no longer wrong."""

    def __init__(self, walk):
        self.walk, self.cleared = walk, set()
        self.steps = walk.recording.phase("backward")

    def leads_to_right(self, verdict):
        """Whether what is right was made of a wrong value: by statements that read all of it, and
        wrote as many entries."""
        size, left = np.size(verdict.value), np.size(verdict.value)
        for step in self.steps:
            if step.call is not verdict.call or step.index <= verdict.at:
                continue
            if verdict.name in uses(step.statement.node) and len(step.writes) == 1:
                write, = step.writes
                found = self.walk.verdict(step, write.name)
                if found is not None and found is not verdict and (
                        found.right or id(found) in self.cleared):
                    left -= np.size(write.value)
            if verdict.name in step.statement.binds:
                break
        return size > 0 >= left

    def mark(self):
        """Let the wrong Verdicts follow whose statement read what is wrong, or ran what is."""
        wrong = {key for key, verdict in self.walk.verdicts.arguments.items()
                 if verdict.right is False}
        seen, inside = set(), []                        # calls; which steps wrote what is wrong
        first = self.steps[0].index if self.steps else 0
        for step in self.steps:
            number = step.call.number
            if number not in seen:
                seen.add(number)
                wrong |= {(number, name) for name in self._handed_wrong(step.call, wrong)}
            ran = any(inside[max(step.first_inner - first, 0):])
            found = [self.walk.verdict(step, w.name) for w in step.writes]
            reads_wrong = ran or any((number, name) in wrong for name in step.statement.reads)
            inside.append(any(v is not None and v.right is False for v in found)
                          or step.statement.is_return and reads_wrong)
            for write, verdict in zip(step.writes, found, strict=True):
                if verdict is not None and verdict.right is False:
                    verdict.follows = reads_wrong
                    wrong.add((number, write.name))
                elif verdict is not None and verdict.right or not reads_wrong:
                    wrong -= {(number, write.name)} if write.how == "bound" else set()
                else:
                    wrong.add((number, write.name))

    def _handed_wrong(self, call, wrong):
        """The arguments of a call for which its caller reads what is wrong."""
        if call.from_statement is None or call.parent is None:
            return
        names = [name for name in call.function.arguments if name != "self"]
        given = next((node.args for node in ast.walk(call.from_statement.node) if isinstance(
            node, ast.Call) and ast.unparse(node.func).split(".")[-1] == call.function.name), ())
        for name, argument in zip(names, given, strict=False):
            known = self.walk.verdicts.arguments.get((call.number, name))
            read = {n.id for n in ast.walk(argument) if isinstance(n, ast.Name)}
            if not (known and known.right) and any((call.parent.number, n) in wrong for n in read):
                yield name

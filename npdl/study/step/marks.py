"""Compare the values that backward computed with the true gradients of forward's variables.

A value with the name `dz` is right if it is the true gradient of a variable `z` of forward. Each
use of z and each time step has its own gradient. If a gradient of the layer is wrong, the line that
`blame` finds is marked "WRONG". Every other `dz` that is not the gradient of z is marked "wrong,
here or upstream".
"""

import ast
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from npdl.study.trace.oracle import (
    CLOSE,
    Oracle,
    guess_variable_names,
    is_similar_shape,
    normalise_name,
)

WORDS = {"right": "right", "wrong": "WRONG", "upstream": "wrong, here or upstream"}


@dataclass
class Mark:
    """The comparison of one value with a true gradient."""

    kind: str                   # "right", "wrong", or "upstream" if the mistake may be upstream
    error: float = np.nan       # relative error of the inner product with a random direction
    of: str = ""                # source of forward's variable whose gradient this value should be
    call: object = None         # the Call (npdl.study.step.record) that computed this variable
    line: int = 0               # the line number at which this variable was computed

    @property
    def is_wrong(self):
        return self.kind in ("wrong", "upstream")

    @property
    def text(self):
        """Return the mark in words, such as "right (relative error 1e-12)"."""
        error = f" (relative error {self.error:.0e})" if np.isfinite(self.error) else ""
        return WORDS[self.kind] + error


class Marks:
    """Compares the values that backward wrote with true gradients, and sets their marks.

    recording       the Recorder, after its run
    runs            a Runs object, which runs the layer again; without budget, the marking ends
    is_layer_wrong  True if a gradient of the layer is wrong
    """

    def __init__(self, recording, runs, is_layer_wrong):
        self.recording, self.runs = recording, runs
        self.steps = recording.list_steps("backward")
        self.oracle = oracle = Oracle(runs)
        self.keys = defaultdict(list)                   # of forward's values, by their names
        for key in oracle.values:
            expression = oracle.expressions[key[0]]
            if expression.names or isinstance(
                    expression.node, (ast.Name, ast.Attribute, ast.Subscript)):
                text = oracle.get_assigned_variable(key) or expression.text
                self.keys[normalise_name(text.removesuffix(".data"))].append(key)
        for step in self.steps:
            for write in step.writes:
                if runs.budget.is_spent:
                    return
                if step.error is None:
                    self._mark_if_gradient(step, write, is_layer_wrong)

    def mark_line_wrong(self, file, line_number):
        """Mark as wrong the values that a line writes, except for values that are marked right."""
        for step in self.steps:
            if step.statement.function.file == file and step.statement.first_line == line_number:
                for write in step.writes:
                    if write.mark is None or write.mark.kind != "right":
                        write.mark = replace(write.mark or Mark("wrong"), kind="wrong")

    def _mark_if_gradient(self, step, write, is_layer_wrong):
        """Set the mark of a written value if it is a gradient, or has a gradient's name like "dx".

        The gradient may be the whole array, or only the value that the statement assigns to a part
        of the array or adds to it, such as e in `dx[i] += e`.
        """
        for arrays in self._group_written_arrays(step, write):
            found = [self._find_nearest_gradient(array, step.call, write.name) for array in arrays]
            known = [(error, key) for error, key in found if key is not None]
            if known and (write.mark is None or write.mark.kind != "right"):
                error, key = max(known)
                is_right = len(known) == len(found) and error <= CLOSE
                if is_right or is_layer_wrong and np.isfinite(error):   # else it may be no gradient
                    expression = self.oracle.expressions[key[0]]
                    write.mark = Mark("right" if is_right else "upstream", error,
                                      self.oracle.get_assigned_variable(key) or expression.text,
                                      self.recording.call_of.get(key),
                                      (expression.statement or expression.function).node.lineno)

    def _find_nearest_gradient(self, array, call, variable):
        """Find the value of forward whose gradient is nearest to an array.

        For the variable "dz", all values of z are compared; for "return", the arguments of forward.
        Returns (relative error, key of the value), or (inf, None) if forward
        has no such value.
        """
        made = self.recording.call_of
        if variable == "return":
            keys = [k for k in self.oracle.values if made.get(k) in call.pairs
                    and self.oracle.expressions[k[0]].statement is None]
        else:
            keys = [key for name in guess_variable_names(variable)
                    for key in self.keys.get(name, ())]
        keys = [k for k in keys if is_similar_shape(self.oracle.values[k].shape, array.shape)]
        if not array.any():                             # zero is the gradient of any unused value
            keys = [k for k in keys if (expression := self.oracle.expressions[k[0]]).names
                    or isinstance(expression.node, ast.Attribute)]
        best = np.inf, None
        for key in sorted(keys, key=lambda k: made.get(k) not in call.pairs):
            if self.runs.budget.is_spent:
                break
            error = self.oracle.compute_gradient_error(key, array)
            if error <= CLOSE:
                return error, key
            if best[1] is None or error < best[0] or np.isnan(error):
                best = error, key
        return best

    def _group_written_arrays(self, step, write):
        """Return up to two lists: the whole written arrays, and the values assigned to parts."""
        keys = [] if isinstance(step.statement.node, ast.Expr) else [
            k for k in step.keys if step.statement.is_return
            or write.name in (given := self.oracle.get_assigned_variable(k), given.split("[")[0])]
        parts = [self.recording.values[k] for k in keys if k in self.recording.values]
        return [found for found in (write.arrays, parts) if found]

"""Compare the values that backward computed with the true gradients of forward's variables.

A `dz` is right if it is the true gradient of a `z` of forward, for each use and each time step
separately. If a gradient of the layer is wrong, the line that blame finds is wrong, and every other
value that differs from the gradient that its name promises is wrong here or upstream.
"""

import ast
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from npdl.study.trace.oracle import CLOSE, Oracle, alike, plain, stems


@dataclass
class Mark:
    """The comparison of one value. `right` is True, False, or None if nothing is known.

    error     the relative error of its inner product with a random direction
    of        the source of the variable of forward whose gradient it is or should be; `call` is its
              Call, `line` its line number
    upstream  True if the error may be in what the line reads
    kink      True if forward has a kink there
    """

    right: bool | None = None
    error: float = np.nan
    of: str = ""
    call: object = None
    line: int = 0
    upstream: bool = False
    kink: bool = False

    @property
    def text(self):
        """Return the mark in words, or "" if nothing is known."""
        error = f" (relative error {self.error:.0e})" if np.isfinite(self.error) else ""
        if self.right:
            return "right" + error
        if self.kink:
            return "inconclusive: a kink"
        if self.upstream:
            return f"wrong, here or upstream{error}"
        return f"WRONG{error}" if self.right is False else ""


class Marks:
    """Finds `of`, {(index of a step, name): Mark}, for a Recording and the Runs of its layer.

    It stops when the budget of the Runs is spent. `is_wrong` says if a gradient is wrong.
    """

    def __init__(self, recording, runs, is_wrong):
        self.recording, self.runs, self.of = recording, runs, {}
        self.steps = recording.phase("backward")
        self.oracle = oracle = Oracle(runs)
        self.keys = defaultdict(list)                   # of forward's values, by their names
        for key in oracle.values:
            place = oracle.places[key[0]]
            if place.names or isinstance(place.node, (ast.Name, ast.Attribute, ast.Subscript)):
                text = oracle.given_to(key) or place.text
                self.keys[plain(text.removesuffix(".data"))].append(key)
        for step in self.steps:
            for write in step.writes:
                if runs.budget.over:
                    return
                if step.error is None and write.how != "through a view":
                    self._compare(step, write, is_wrong)

    def mark_line(self, file, number):
        """Mark what a line computed as wrong, except where it is right."""
        for step in self.steps:
            if step.line.function.file == file and step.line.first == number:
                for write in step.writes:
                    mark = self.of.setdefault((step.index, write.name), Mark())
                    if not mark.right:
                        mark.right, mark.upstream, mark.kink = False, False, False

    def _compare(self, step, write, is_wrong):
        """Mark a write that is, or should be by its name, a gradient.

        All of an array may be the gradient, or what was assigned to a part of it, or added.
        """
        mark = Mark()
        for arrays in self._arrays(step, write):
            found = [self._nearest(array, step.call, write.name) for array in arrays]
            known = [(error, key) for error, key in found if key is not None]
            if any(not error <= CLOSE and self.oracle.is_kink(key) for error, key in known):
                mark.kink = True
            elif known and not mark.error <= CLOSE:
                error, key = max(known)
                place = self.oracle.places[key[0]]
                mark = Mark(len(known) == len(found) and error <= CLOSE or None, error,
                            self.oracle.given_to(key) or place.text,
                            self.recording.call_of.get(key),
                            (place.line or place.function).node.lineno)
        if mark.right is None and not mark.kink and np.isfinite(mark.error):
            if not is_wrong:
                return                                  # it may be something else, and no error
            mark.right, mark.upstream = False, True
        if mark.right is not None or mark.kink:
            self.of[step.index, write.name] = mark

    def _nearest(self, array, call, name):
        """Return (error, key) of the value of forward whose gradient an array is, or is nearest to.

        The name says which values are meant; (inf, None) if it says nothing.
        """
        around, pairs = call, []
        while around is not None:
            pairs, around = [*pairs, *around.pairs], around.parent
        made = self.recording.call_of
        if name == "return":
            keys = [k for k in self.oracle.values if made.get(k) in call.pairs
                    and self.oracle.places[k[0]].line is None]
        else:
            keys = [key for stem in stems(name) for key in self.keys.get(stem, ())]
        keys = [k for k in keys if alike(self.oracle.values[k].shape, array.shape)]
        if not array.any():                             # zero is the gradient of any unused value
            keys = [k for k in keys if (place := self.oracle.places[k[0]]).names
                    or isinstance(place.node, ast.Attribute)]
        best = np.inf, None
        for key in sorted(keys, key=lambda k: made.get(k) not in pairs):
            if self.runs.budget.over:
                break
            error = self.oracle.error(key, array)
            if error <= CLOSE:
                return error, key
            if best[1] is None or error < best[0] or np.isnan(error):
                best = error, key
        return best

    def _arrays(self, step, write):
        """Return lists of arrays: the arrays of a write, and what its statement computed for it."""
        keys = [] if isinstance(step.line.node, ast.Expr) else [
            k for k in step.keys if step.line.is_return
            or self.oracle.given_to(k).split("[")[0] == write.name]
        parts = [self.recording.values[k] for k in keys if k in self.recording.values]
        return [found for found in (write.arrays, parts) if found]

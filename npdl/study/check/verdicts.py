"""Decide whether a backward pass is right: compare each gradient with finite differences.

A `Check` computes the numerical gradients once. Then it calls backward with the upstream gradients
of all outputs, of each output alone, and of each pair of outputs.

An entry of a gradient is right if it is close to the numerical derivative. The allowed error is
LIMIT times the scale of the derivative (npdl.study.check.differences), plus an allowance for
rounding. The entry is wrong if its error is larger than the allowed error and the uncertainty of
the numerical derivative. Otherwise the entry is inconclusive.
"""

import functools
from dataclasses import dataclass, field

import numpy as np

from npdl.backend import make_rng
from npdl.core import walk
from npdl.exceptions import to_printable
from npdl.study.check.differences import LIMIT, Direction, choose_tolerance, make_perturbed_run
from npdl.study.check.questions import make_notes_and_questions
from npdl.study.trees import leaves

FEW, MANY = 200, 400            # if an array has more than MANY entries, only FEW are compared, and
GROSS = 0.1                     # a relative error for which one step size is enough if the array is
                                # known to be wrong; a smaller limit saves time, but trusts it more
DIRECTIONS = 2                  # the derivatives along this number of random directions


@dataclass
class Row:
    """The comparison of one gradient with the numerical gradient.

    name          the name of the array, such as "W" or "input x"
    right         True, False, or None if some entries are inconclusive
    error         the largest relative error of an entry; LIMIT is allowed in float64
    index         the index of this entry
    computed      the value that backward computed for this entry
    numerical     the numerical derivative for this entry
    points        the number of entries that were compared
    unknown       the indices of the inconclusive entries
    reason        why the first entry of `unknown` is inconclusive, or how the shape is wrong
    used_outputs  the outputs that had an upstream gradient, such as "0 and 1"; "" for all outputs
    kind          "missing" if there is no gradient, "shape" if its shape is wrong, or ""
    """

    name: str
    right: bool | None = True
    error: float = 0.0
    index: tuple = ()
    computed: float = 0.0
    numerical: float = 0.0
    reason: str = ""
    points: int = 0
    unknown: list = field(default_factory=list)
    used_outputs: str = ""
    kind: str = ""

    @property
    def is_question(self):
        """Return True if backward returned no gradient although the outputs depend on the array."""
        return self.kind == "missing" and self.right is None

    @property
    def inconclusive_text(self):
        """Return a clause that says which entries are inconclusive, and why."""
        first, *others = self.unknown or [()]
        at = f" at {list(map(int, first))}" * bool(first)
        more = f" and {len(others)} other entr{'ies' if others[1:] else 'y'}" * bool(others)
        return f"inconclusive{at}{more}: {self.reason}"

    @property
    def text(self):
        """Return the comparison as a row of a table, without the name."""
        if self.kind:
            return f"{'inf':>9}  {self.reason}" if self.kind == "shape" else self.reason
        if not self.points and self.right is None:
            return self.inconclusive_text
        used = f", with an upstream gradient of output {self.used_outputs} only"
        unknown = f"; {self.inconclusive_text}"
        return (f"{self.error:9.1e}  {list(map(int, self.index))}: computed {self.computed:.9g}, "
                f"numerical {self.numerical:.9g}"
                + used * bool(self.used_outputs and self.right is False)
                + unknown * bool(self.unknown))


@dataclass(repr=False)
class Verdict:
    """The result of gradcheck: a comparison of all gradients of a layer with numerical ones.

    check         the Check, which holds the numerical gradients
    rows          one Row for each gradient
    notes         sentences that are printed at the end
    questions     questions to the layer's author, about arrays that may be parameters or constants
    faults        sentences about errors that no Row shows, such as side effects
    used_outputs  the paths of the outputs that had an upstream gradient when backward was wrong for
                  the first time, or None if backward is right
    error         the exception that backward raised, or None
    """

    check: object
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    questions: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    used_outputs: tuple | None = None
    error: object = None

    @property
    def subject(self):
        return self.check.subject

    @property
    def right(self):
        """Return True if all gradients are right, and False if there is a wrong one or a fault.

        Return None if no gradient is wrong, but one is inconclusive or there is a question.
        """
        if self.faults or any(row.right is False for row in self.rows):
            return False
        known = self.rows and all(row.right for row in self.rows) and not self.questions
        return True if known else None

    @property
    def wrong_rows(self):
        """Return the list of the Rows (comparisons) that show a wrong gradient."""
        return [row for row in self.rows if row.right is False]

    def ok(self):
        """Return True if all gradients are right, and False if one is wrong or inconclusive."""
        return self.right is True

    def __repr__(self):
        """Return a table of the gradients, the worst first, then faults, questions and notes."""
        width = max([len(row.name) for row in self.rows] + [8])
        texts = [f"{'gradient':<{width}}  {'error':>9}  worst entry"] * bool(self.rows)
        texts += [f"{row.name:<{width}}  {row.text}" for row in sorted(
            self.rows, key=lambda row: (row.right is None, -row.error))]
        texts += [f"wrong: {fault}" for fault in self.faults]
        texts += [f"question: {question}" for question in self.questions]
        return to_printable("\n".join(texts + [f"note: {note}" for note in self.notes]), "\n")


class Check:
    """The numerical gradients of a layer, with which the gradients of backward are compared.

    subject  a Subject (npdl.study.check.subjects), which runs the layer
    entries  compare at most this many entries of each array, chosen at random; 0 compares the
             derivative along one random direction; None compares all entries of an array with at
             most MANY entries
    base     the output arrays
    weights  the upstream gradients of these arrays
    """

    def __init__(self, subject, entries=None):
        self.subject, self.arrays = subject, subject.arrays
        self.paths, self.notes = subject.paths, [*subject.notes]
        self.base = [np.array(a) for a in subject.compute_outputs()]
        rng = make_rng(subject.seed, 80)
        self.weights = [d for _, d in leaves(subject.dout)]
        self.limit = choose_tolerance(self.base)
        if self.limit > LIMIT:
            self.notes.append("forward has a lower precision than float64, so gradients are "
                              f"allowed a relative error of {self.limit:.0e}")
        points = {name: choose_entries(a, rng, entries) for name, a in self.arrays.items()}
        for name, row in find_padding_ids(subject):         # their gradients are 0 by definition
            points[name] = [p for p in points[name] if isinstance(p, tuple) and p[0] != row]
        self.directions = {name: [
            (point, Direction(make_perturbed_run(a, point, subject.compute_outputs), self.base,
                              self.weights, np.abs(a).max(initial=0)))
            for point in points[name]] for name, a in self.arrays.items()}
        self._find_derivatives = functools.cache(self._compute_derivatives)

    def describe_progress(self):
        """Return a sentence that says how many numerical derivatives are computed so far."""
        begun = [bool(one.levels) for pairs in self.directions.values() for _, one in pairs]
        return f"{sum(begun)} of {len(begun)} numerical derivatives are computed"

    def compute_verdict(self):
        """Compare the gradients for all outputs together, for each output and for each pair.

        Returns the Verdict. The check stops as soon as a gradient is wrong. If no gradient is
        wrong, the Verdict has the least certain comparison of each gradient.
        """
        found = {}
        for used_outputs in self.subject.uses:
            try:
                gradients = self.compute_gradients(used_outputs)
            except Exception as error:
                return Verdict(self, notes=list(self.notes), used_outputs=used_outputs, error=error)
            rows = {name: self.compare_gradient(name, gradients.get(name), used_outputs)
                    for name in self.arrays}
            if any(row.right is False for row in rows.values()):
                return self._make_verdict([*rows.values()], used_outputs)
            found = {name: max(found.get(name, row), row, key=lambda row: (
                row.is_question, len(row.unknown), row.error)) for name, row in rows.items()}
        return self._make_verdict([*found.values()])

    def _make_verdict(self, rows, used_outputs=None):
        """Return the Verdict for a list of Rows, with questions to the author of the layer.

        A Row of an input that needs no gradient becomes a note. If all gradients are 0, all Rows
        become inconclusive.
        """
        if self.has_only_zero_gradients and not any(row.right is False for row in rows):
            for row in rows:
                row.right, row.points = None, 0
                row.reason = "all gradients are 0 at these inputs"
        missing = [row.name for row in rows if row.is_question]
        notes, questions = make_notes_and_questions(self.subject, missing)
        return Verdict(self, [row for row in rows if row.name not in notes],
                       [*self.notes, *notes.values()], questions, used_outputs=used_outputs)

    @property
    def has_only_zero_gradients(self):
        """Return True if all numerical gradients are 0, so a comparison with them shows nothing."""
        return any(self.directions.values()) and not self._find_derivatives(self.paths)[1]

    def compute_gradients(self, used_outputs):
        """Run forward and backward and return {name: gradient}.

        Only the outputs at the paths `used_outputs` have an upstream gradient. Before backward
        runs, each param.grad is filled with random numbers.
        """
        _, cache = self.subject.run_forward()
        return self.subject.backward(self.subject.copy_upstream(used_outputs), cache)

    def compare_gradient(self, name, gradient, used_outputs):
        """Compare the gradient of the array `name` with the numerical one, and return the Row.

        `gradient` is None if backward returned no gradient. Only the outputs at the paths
        `used_outputs` have an upstream gradient.
        """
        wanted, row = self.arrays[name].shape, Row(name)
        row.used_outputs = " and ".join(used_outputs) * (used_outputs != self.paths)
        if gradient is None:
            needed = any(one.compute_error_ratio(0.0) > 1 and not one.reason
                         for one in self._find_derivatives(used_outputs)[2][name])
            row.right, row.kind = None if needed else True, "missing"
            row.reason = "backward returned no gradient"
        elif np.shape(gradient) != wanted:
            row.right, row.error, row.kind = False, np.inf, "shape"
            turned = ": transpose it" * (wanted == np.shape(gradient)[::-1])
            row.reason = f"has shape {np.shape(gradient)}, must be {wanted}{turned}"
        else:
            with np.errstate(all="ignore"):
                self._compare_entries(row, gradient, *self._find_derivatives(used_outputs))
        return row

    def _compare_entries(self, row, gradient, outputs, largest_derivative, derivatives):
        """Compare a gradient with its numerical derivatives; set the fields of the Row.

        The last three arguments are the result of _compute_derivatives. After a wrong entry, more
        step sizes are tried only for entries with an error below GROSS.
        """
        worst, derivatives = -1.0, derivatives[row.name]
        for i, (point, direction) in enumerate(self.directions[row.name]):
            is_entry = isinstance(point, tuple)             # otherwise, it is a direction
            computed = float(gradient[point] if is_entry else (gradient * point).sum())
            ratio = derivatives[i].compute_error_ratio(computed)
            if ratio > 1 and (worst <= 1 or self.limit * ratio < GROSS):    # try more step sizes
                derivatives[i] = direction.compute_derivative(outputs, largest_derivative)
            one, excess = derivatives[i], derivatives[i].compute_error_ratio(computed)
            if one.reason and excess <= 1:              # it may be right or wrong
                row.reason = row.reason or one.reason
                row.unknown.append(point if is_entry else ())
                continue
            row.points += 1
            if excess > worst:
                worst, row.computed, row.numerical = excess, computed, one.value
                row.index = point if is_entry else ()
        row.error = self.limit * max(worst, 0.0)
        row.right = False if worst > 1 else None if row.unknown else True

    def compute_derivative(self, outputs_at, used_outputs):
        """Differentiate the weighted sum of outputs_at(t) at t = 0; return the Derivative.

        Only the outputs at the paths `used_outputs` are summed.
        """
        outputs, largest_derivative, _ = self._find_derivatives(used_outputs)
        direction = Direction(outputs_at, self.base, self.weights)
        return direction.compute_derivative(outputs, largest_derivative, is_quick=True)

    def get_numerical_gradient(self, name, used_outputs):
        """Return the numerical gradient of the named array; entries that are unknown are NaN."""
        found = np.full(self.arrays[name].shape, np.nan)
        known = self._find_derivatives(used_outputs)[2][name]
        for (point, _), one in zip(self.directions[name], known, strict=True):
            if isinstance(point, tuple) and not one.reason:
                found[point] = one.value
        return found

    def _compute_derivatives(self, used_outputs):
        """Compute the numerical derivatives of the outputs whose paths are in `used_outputs`.

        Returns (outputs, largest_derivative, {name: [Derivative]}). `outputs` are the indices of
        these outputs. `largest_derivative` is the largest scale, the sum of the magnitudes of the
        derivatives of all output entries.
        """
        outputs = [self.paths.index(path) for path in used_outputs]
        largest_derivative = max(
            (one.estimate_at_level(0)[1, outputs].sum()
             for pairs in self.directions.values() for _, one in pairs), default=0.0)
        return outputs, largest_derivative, {
            name: [one.compute_derivative(outputs, largest_derivative, is_quick=True)
                   for _, one in pairs] for name, pairs in self.directions.items()}


def find_padding_ids(subject):
    """Yield (name of W, padding id) for every embedding that has a padding id."""
    for part in walk(subject.layer):
        row = getattr(part, "padding_id", None)
        yield from ((name, row) for name, param in subject.params.items()
                    if row is not None and param is getattr(part, "W", None))


def choose_entries(array, rng, entries=None):
    """List the indices to compare. For a large array, list a few and then random directions."""
    indices = list(np.ndindex(array.shape))
    if entries is None and len(indices) <= MANY or len(indices) <= (entries or 0):
        return indices
    few = rng.choice(len(indices), FEW if entries is None else entries, replace=False)
    count = {None: DIRECTIONS, 0: 1}.get(entries, 0)
    return [indices[i] for i in few] + [
        rng.choice([-1.0, 1.0], array.shape) for _ in range(count)]

"""Decide whether a backward pass is right: compare each gradient with finite differences.

A `Check` computes the numerical gradients once and can then judge several backward functions. It
calls backward with the upstream gradients of all outputs, and then with those of each output alone
and of each pair of outputs.

An entry is right if its error is at most LIMIT, relative to the magnitudes of the terms that the
derivative is summed from, plus an allowance for rounding. It is wrong if the error is larger than
that, and larger than the uncertainty of the numerical derivative. Otherwise it is inconclusive.
"""

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from npdl.backend import stream
from npdl.core import walk
from npdl.exceptions import printable
from npdl.study.check.differences import LIMIT, Line, allowed_error, perturb_entry
from npdl.study.check.questions import find_questions
from npdl.study.trees import leaves

FEW, MANY = 200, 400            # if an array has more than MANY entries, only FEW are compared, and
DIRECTIONS = 2                  # the derivatives along so many random directions


@dataclass
class Row:
    """The comparison of one gradient with the numerical gradient.

    name       the name of the array, such as "W" or "input x"
    right      True, False, or None if some entries are inconclusive
    error      the largest relative error of an entry; LIMIT is allowed in float64
    index      the index of this entry
    computed   the value that backward computed for this entry
    numerical  the numerical derivative for this entry
    points     the number of entries that were compared
    unknown    the indices of the inconclusive entries
    reason     why the first one is inconclusive, or what is wrong with the gradient's shape
    used       the outputs whose upstream gradients were used, or "" if all outputs were used
    kind       "missing" if there is no gradient, "shape" if its shape is wrong, or ""
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
    used: str = ""
    kind: str = ""

    @property
    def is_question(self):
        """Return True if backward returned no gradient although the outputs depend on the array."""
        return self.kind == "missing" and self.right is None

    @property
    def doubt(self):
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
            return self.doubt
        used = f", with the gradient of output {self.used} alone"
        unknown = f"; {self.doubt}"
        return (f"{self.error:9.1e}  {list(map(int, self.index))}: computed {self.computed:.9g}, "
                f"numerical {self.numerical:.9g}" + used * bool(self.used and self.right is False)
                + unknown * bool(self.unknown))


@dataclass(repr=False)
class Verdict:
    """The result of a Check.

    check      the Check
    rows       one Row for each gradient
    notes      sentences for the reader
    questions  sentences about arrays whose role is not known
    faults     sentences about errors that no Row shows, such as side effects
    used       the paths of the outputs whose upstream gradients showed the first error of backward;
               None if there is no error
    error      the exception that backward raised, or None
    """

    check: object
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    questions: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    used: list | None = None
    error: object = None

    @property
    def subject(self):
        return self.check.subject

    @property
    def right(self):
        """Return True or False, or None if nothing is wrong, but something is not known.

        A gradient may be inconclusive, or a question may be open.
        """
        if self.faults or any(row.right is False for row in self.rows):
            return False
        known = self.rows and all(row.right for row in self.rows) and not self.questions
        return True if known else None

    @property
    def wrong(self):
        """Return the Rows of the wrong gradients."""
        return [row for row in self.rows if row.right is False]

    def ok(self):
        """Return True if everything is right; False if something is wrong or inconclusive."""
        return self.right is True

    def __repr__(self):
        """Return a table of the gradients, the worst one first, followed by the sentences."""
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{'gradient':<{width}}  {'error':>9}  worst entry"] * bool(self.rows)
        lines += [f"{row.name:<{width}}  {row.text}" for row in sorted(
            self.rows, key=lambda row: (row.right is None, -row.error))]
        lines += [f"wrong: {fault}" for fault in self.faults]
        lines += [f"question: {question}" for question in self.questions]
        return printable("\n".join(lines + [f"note: {note}" for note in self.notes]), "\n")


class Check:
    """A Subject with its numerical gradients, with which gradients of backward are compared.

    subject  the Subject
    entries  the largest number of entries of an array that are compared, chosen at random; None
             compares all entries of arrays with at most MANY entries; 0 compares no single entry,
             but the derivative along a random direction
    base     the outputs
    weights  their upstream gradients
    """

    def __init__(self, subject, entries=None):
        self.subject, self.arrays = subject, subject.arrays
        self.paths, self.dout, self.uses = subject.paths, subject.dout, subject.uses
        self.notes = [*subject.notes]
        rng, self.base = stream(subject.seed, 80), [np.array(a) for a in subject.outputs()]
        self.weights = [d for _, d in leaves(self.dout)]
        self.limit = allowed_error(self.base)
        if self.limit > LIMIT:
            self.notes.append("forward computes in less than float64, so gradients are compared "
                              f"to a relative error of {self.limit:.0e} only")
        points = {name: choose_entries(a, rng, entries) for name, a in self.arrays.items()}
        for name, row in find_padding_rows(subject):         # their gradients are 0 by definition
            points[name] = [p for p in points[name] if isinstance(p, tuple) and p[0] != row]
        self.lines = {name: [(point, Line(perturb_entry(a, point, subject.outputs), self.base,
                                          self.weights, np.abs(a).max(initial=0)))
                             for point in points[name]] for name, a in self.arrays.items()}
        self._known = functools.cache(self._numerical)

    def progress(self):
        """Return a sentence that says how many numerical derivatives are computed so far."""
        begun = [line.is_begun for lines in self.lines.values() for _, line in lines]
        return f"{sum(begun)} of {len(begun)} numerical derivatives are computed"

    def verdict(self):
        """Run backward for every list of outputs in `uses` (Subject) and return the Verdict.

        The check ends after the first list for which a gradient is wrong, and the Rows are those of
        this list. If no gradient is wrong, a gradient gets the Row of the list for which it is
        least certain.
        """
        found = {}
        for used in self.uses:
            try:
                gradients = self.backward(used)
            except Exception as error:
                return Verdict(self, notes=list(self.notes), used=used, error=error)
            rows = {name: self.compare(name, gradients.get(name), used) for name in self.arrays}
            if any(row.right is False for row in rows.values()):
                return replace(self._asked([*rows.values()]), used=used)
            found = {name: max(found.get(name, row), row, key=_uncertainty)
                     for name, row in rows.items()}
        return self._asked([*found.values()])

    def _asked(self, rows):
        """Return the Verdict with the open questions and without the Rows of targets.

        If all gradients are 0, all Rows become inconclusive.
        """
        if self.all_zero and not any(row.right is False for row in rows):
            for row in rows:
                row.right, row.points = None, 0
                row.reason = "all gradients are 0 at these inputs"
        notes, found = find_questions(self.subject, [row.name for row in rows if row.is_question])
        return Verdict(self, [row for row in rows if row.name not in notes],
                       [*self.notes, *notes.values()], found)

    @property
    def all_zero(self):
        """Return True if all gradients are 0 for these inputs, so a comparison shows nothing."""
        return any(self.lines.values()) and not self._known(tuple(self.paths))[1]

    def backward(self, used):
        """Run forward, and backward for the outputs at the paths `used`; return {name: gradient}.

        Before backward runs, each param.grad is filled with random numbers.
        """
        _, cache = self.subject.run()
        return self.subject.backward(self.subject.upstream(used), cache, is_random=True)

    def compare(self, name, gradient, used):
        """Return the Row of a gradient, which may be None, for the outputs at the paths `used`."""
        wanted, row = self.arrays[name].shape, Row(name)
        row.used = " and ".join(used) * (used != self.paths)
        if gradient is None:
            needed = any(one.excess(0.0) > 1 and not one.reason
                         for one in self._known(tuple(used))[2][name])
            row.right, row.kind = None if needed else True, "missing"
            row.reason = "backward returned no gradient for it"
        elif np.shape(gradient) != wanted:
            row.right, row.error, row.kind = False, np.inf, "shape"
            turned = ": transpose it" * (wanted == np.shape(gradient)[::-1])
            row.reason = f"has shape {np.shape(gradient)}, must be {wanted}{turned}"
        else:
            with np.errstate(all="ignore"):
                self._fill(row, gradient, *self._known(tuple(used)))
        return row

    def _fill(self, row, gradient, columns, largest, known):
        """Compare the entries of a gradient with the numerical derivatives, and fill in the Row."""
        worst, known = -1.0, known[row.name]
        for i, (point, line) in enumerate(self.lines[row.name]):
            computed = float(select_component(gradient, point))
            if known[i].excess(computed) > 1:           # try more step sizes
                known[i] = line.derivative(columns, largest)
            one, excess = known[i], known[i].excess(computed)
            if one.reason and excess <= 1:              # it may be right or wrong
                row.reason = row.reason or one.reason
                row.unknown.append(_index(point))
                continue
            row.points += 1
            if excess > worst:
                worst, row.computed, row.numerical = excess, computed, one.value
                row.index = _index(point)
        row.error = self.limit * max(worst, 0.0)
        row.right = False if worst > 1 else None if row.unknown else True

    def derivative(self, at, used):
        """Return the Derivative of the outputs at(t) by t, at t = 0."""
        columns, largest, _ = self._known(tuple(used))
        return Line(at, self.base, self.weights).derivative(columns, largest, is_quick=True)

    def numerical(self, name, used):
        """Return the numerical gradient of an array; the entries that are not known are NaN."""
        found = np.full(self.arrays[name].shape, np.nan)
        known = self._known(tuple(used))[2][name]
        for (point, _), one in zip(self.lines[name], known, strict=True):
            if isinstance(point, tuple) and not one.reason:
                found[point] = one.value
        return found

    def _numerical(self, used):
        """Return (columns, largest, {name: [Derivative]}) for the outputs at the paths `used`.

        `columns` are the indices of these outputs, `largest` is the largest scale of a derivative.
        """
        columns = [self.paths.index(path) for path in used]
        largest = max((line.points(0)[1, columns].sum() for lines in self.lines.values()
                       for _, line in lines), default=0.0)
        return columns, largest, {
            name: [line.derivative(columns, largest, is_quick=True) for _, line in lines]
            for name, lines in self.lines.items()}


def _uncertainty(row):
    """Return the key by which Rows that are not wrong are compared."""
    return row.is_question, len(row.unknown), row.error


def find_padding_rows(subject):
    """Yield (name of W, padding id) for every embedding that has a padding id."""
    for part in walk(subject.layer):
        row = getattr(part, "padding_id", None)
        yield from ((name, row) for name, param in subject.params.items()
                    if row is not None and param is getattr(part, "W", None))


def _index(point):
    """Return the index of an entry, or () for a direction."""
    return point if isinstance(point, tuple) else ()


def select_component(gradient, point):
    """Return the entry of a gradient at an index, or its inner product with a direction."""
    return gradient[point] if isinstance(point, tuple) else (gradient * point).sum()


def choose_entries(array, rng, entries=None):
    """Return the indices of the entries to compare, and random directions for a large array."""
    indices = list(np.ndindex(array.shape))
    if entries is None and len(indices) <= MANY or len(indices) <= (entries or 0):
        return indices
    few = rng.choice(len(indices), FEW if entries is None else entries, replace=False)
    count = {None: DIRECTIONS, 0: 1}.get(entries, 0)
    return [indices[i] for i in few] + [
        rng.choice([-1.0, 1.0], array.shape) for _ in range(count)]

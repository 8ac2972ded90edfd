"""The verdict on a backward: each of its gradients against its numerical derivatives.

`check(subject)` gives a Verdict. A `Check` computes the derivatives once and judges as many
backwards as one likes, with all outputs used and with each, and each two, alone.

An entry is right when it differs from its derivative by no more than LIMIT of what the derivative
is summed from, and what rounding explains; wrong when by more, and by more than the derivative's
doubts; and else not checkable here. A gradient that is zero by theory is so compared at the scale
of its parts, or of the layer's other gradients where these are rounding themselves.
"""

from dataclasses import dataclass, field

import numpy as np

from npdl.backend import stream
from npdl_study.check.differences import KINK, LIMIT, SURE, Line, limit_of, moved
from npdl_study.check.questions import questions
from npdl_study.trees import is_float, leaves

FEW, MANY = 200, 400            # of an array of more than MANY entries FEW are looked at, and
DIRECTIONS = 2                  # so many random directions of all
FLOOR = 1e-3                    # of the layer's largest: a gradient below is compared as if it were
ROUNDING = 1e-13                # of the layer's largest: what a backward may be off by itself


@dataclass
class Row:
    """One gradient. `right` is None where no entry of it can be checked here, with the `reason`.

    error      of its worst entry: LIMIT is what is allowed in float64; the entry is `index`, with
               the `computed` and `numerical` value there and the difference that is `allowed`
    unknown    how many entries can't be checked, the first for the `reason` at `doubtful`
    used       the outputs that were used alone, if it was wrong then
    place, kind, diagnosis   of a wrong one, by `explain`
    """

    name: str
    right: bool | None = True
    error: float = 0.0
    index: tuple = ()
    computed: float = 0.0
    numerical: float = 0.0
    allowed: float = 0.0
    reason: str = ""
    unknown: int = 0
    doubtful: object = ()
    used: str = ""
    place: str = ""
    kind: str = ""
    diagnosis: str = ""


@dataclass(repr=False)
class Verdict:
    """The rows of a check; `faults` that no row shows, in sentences; `notes` on what was not
    looked at; `questions` on what may be a gradient, or may need one. `right` is None where some
    gradient could not be checked, or placed, and none is wrong."""

    rows: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    questions: list = field(default_factory=list)

    @property
    def right(self):
        if self.faults or any(row.right is False for row in self.rows):
            return False
        known = self.rows and all(row.right for row in self.rows) and not self.questions
        return True if known else None

    @property
    def wrong(self):
        return [row for row in self.rows if row.right is False]


@dataclass
class Comparison:
    """One gradient at the entries that were looked at, with some outputs used."""

    name: str
    used: list
    points: list                # indices of entries, or directions: arrays of the gradient's shape
    computed: np.ndarray
    numerical: np.ndarray
    allowed: np.ndarray
    unknown: np.ndarray         # a mask
    reasons: dict               # {number of a point: why it can't be checked}
    note: str = ""              # what is wrong with the gradient as a whole
    missing: bool = False       # there is none
    limit: float = LIMIT

    @property
    def errors(self):
        """`limit` where an entry differs by what is allowed; 0 where it can't be checked."""
        with np.errstate(all="ignore"):
            errors = self.limit * np.abs(self.computed - self.numerical) / self.allowed
        errors = np.where(self.computed == self.numerical, 0, errors)
        errors[~np.isfinite(errors)] = np.inf
        return np.where(self.unknown, 0, errors)

    @property
    def wrong(self):
        return self.errors > self.limit

    @property
    def row(self):
        if self.missing:
            return Row(self.name, None if np.any(self.numerical) else True, reason=self.note,
                       kind="missing", place=self.name)
        if self.note:
            return Row(self.name, False, np.inf, reason=self.note, diagnosis=self.note,
                       kind="shape", place=self.name)
        if not self.points:
            return Row(self.name)
        errors, first = self.errors, min(self.reasons, default=0)
        at = int(errors.argmax())
        right = None if self.unknown.all() else bool(errors[at] <= self.limit)
        entry = self.points[at]
        return Row(self.name, right, float(errors[at]), entry if isinstance(entry, tuple) else (),
                   float(self.computed[at]), float(self.numerical[at]), float(self.allowed[at]),
                   self.reasons.get(first, ""), int(self.unknown.sum()), self.points[first])


class Check:
    """A Subject with numerical derivatives of all that has a gradient; it judges backwards.

    entries      check at most this many entries of each array, chosen at random
    each_output  False leaves out the backwards with one output, or two of several, used alone
    bare         True hands over the gradient of the first output, used alone, as a bare array
    """

    def __init__(self, subject, entries=None, each_output=True, bare=False):
        self.subject, self.arrays, self.bare = subject, subject.arrays, bare
        self.paths, self.dout, self.notes = subject.paths, subject.dout, subject.notes()
        self.uses = subject.uses if each_output else subject.uses[:1]
        rng, base = stream(subject.seed, 80), [np.array(a) for a in subject.outputs()]
        weights = [d for _, d in leaves(self.dout)]
        limit = limit_of(base)
        if limit > LIMIT:
            self.notes.append(f"forward computes in less than float64: its gradients are held "
                              f"against differences to {limit:.0e} of their size alone")
        self.points = {name: chosen(a, rng, entries) for name, a in self.arrays.items()}
        self.lines = {name: [Line(moved(a, point, subject.outputs), base, weights,
                                  np.abs(a).max(initial=0)) for point in self.points[name]]
                      for name, a in self.arrays.items()}
        self._known, self._scales = {}, {}

    def verdict(self):
        """The Verdict on the backward that the layer has now, each gradient's worst use."""
        found = {}
        for comparison in self.comparisons():
            found.setdefault(comparison.name, []).append(comparison)
        rows = [worst_row(own, self.paths) for own in found.values()]
        if self.all_zero and not any(row.right is False for row in rows):
            for row in rows:
                row.right, row.reason = None, "every gradient is 0 at these inputs"
        return self.asked(rows)

    def asked(self, rows):
        """The Verdict of Rows, less those of inputs that need no gradient; with the questions."""
        notes, found = questions(self.subject, [row.name for row in rows if (
            row.kind == "missing" and row.right is None)])
        return Verdict([row for row in rows if row.name not in notes], notes=list(notes.values()),
                       questions=found)

    @property
    def all_zero(self):
        """Whether no output changes with anything: every gradient is 0, and that shows nothing."""
        return any(self.lines.values()) and not self._largest(self.paths)

    def passes(self):
        """Whether no gradient is wrong; stops at the first that is."""
        return not any(c.row.right is False for c in self.comparisons())

    def comparisons(self):
        """Yield a Comparison for every gradient, with all outputs used and with each alone."""
        for used in self.uses:
            gradients, _ = self.backward(used)
            for name in self.arrays:
                yield self.compare(name, gradients.get(name), used)

    def backward(self, used, turn=0):
        """({name: gradient}, {name: what param.grad holds}) with some outputs used."""
        dout = self.subject.upstream(used)
        if self.bare and used == self.paths[:1] != self.paths and is_float(dout[0]):
            dout = dout[0]
        _, cache = self.subject.run()
        return self.subject.backward(dout, cache, turn)

    def compare(self, name, gradient, used):
        """The Comparison of a gradient, an array or None, with the outputs `used`."""
        points, wanted = self.points[name], self.arrays[name].shape
        known = self._numerical(name, tuple(used))
        found = Comparison(name, used, points, np.zeros(len(points)), known.value, known.allowed,
                           known.unknown, known.reasons, limit=known.limit)
        if gradient is None:
            found.note, found.missing = "backward returned no gradient for it", True
            found.numerical = np.where(known.hidden, 0, known.value * (
                np.abs(known.value) > known.allowed))
        elif np.shape(gradient) != wanted:
            found.note = self._misshapen(np.asarray(gradient), points, wanted, known)
        else:
            with np.errstate(all="ignore"):
                found.computed = np.array([at(gradient, point) for point in points], float)
            for i in np.flatnonzero(found.wrong & ~known.refined):
                known.refine(i)
            for i in np.flatnonzero(known.unknown):     # known well enough to be wrong
                off = abs(found.computed[i] - known.value[i])
                found.unknown[i] = not off > known.allowed[i]
        return found

    def _misshapen(self, gradient, points, wanted, known):
        """What is said of a gradient with another shape than its array's."""
        said = f"its shape is {gradient.shape}, the array's own {wanted}"
        if gradient.shape == wanted[::-1]:
            return f"{said}; it is transposed"
        if gradient.size == np.prod(wanted) and [n for n in gradient.shape if n > 1] == [
                n for n in wanted if n > 1]:
            found = [at(gradient.reshape(wanted), point) for point in points]
            if (np.abs(found - known.value) <= known.allowed).all():
                return f"{said}; its numbers are right: write .reshape{wanted} after it"
        return said

    def parts(self, name, index):
        """The derivative of one entry, in the parts that each entry of each output adds."""
        return self.lines[name][self.points[name].index(index)].parts()

    def numerical(self, name, used):
        """The numerical values at the points of an array, with the outputs `used`."""
        return self._numerical(name, tuple(used)).value

    def _numerical(self, name, used):
        if (name, used) not in self._known:
            columns = [self.paths.index(path) for path in used]
            self._known[name, used] = Numerical(self.lines[name], columns, self._largest(used))
        known = self._known[name, used]
        known.unknown = known.hidden.copy()
        return known

    def _largest(self, used):
        """The largest scale of any derivative, with the outputs `used`."""
        if tuple(used) not in self._scales:
            columns = [self.paths.index(path) for path in used]
            self._scales[tuple(used)] = max((line.points(0)[1, columns].sum() for lines in
                                             self.lines.values() for line in lines), default=0.0)
        return self._scales[tuple(used)]


class Numerical:
    """The derivatives of one array with some outputs used, and what is allowed for each."""

    def __init__(self, lines, columns, largest):
        self.lines, self.columns, self.largest = lines, columns, largest
        self.floor = FLOOR * largest
        found = np.array([line.points(0)[:, columns].sum(1) for line in lines]).reshape(-1, 4)
        self.value, scale, bend, noise = (column.copy() for column in found.T)
        self.limit = max((line.limit for line in lines), default=LIMIT)
        self.allowed = self.limit * scale + SURE * noise + ROUNDING * largest
        self.hidden = np.zeros(len(lines), bool)
        self.refined, self.reasons = np.full(len(lines), not largest), {}
        size = np.maximum(scale, self.floor)
        doubtful = ~(bend <= KINK * size) | ~(SURE * noise <= self.limit * size)
        for i in np.flatnonzero(doubtful & ~self.refined):
            self.refine(i)

    def refine(self, i):
        """Try other steps for one entry: a derivative that can be relied on, or a reason."""
        found = self.lines[i].derivative(self.columns, self.floor)
        self.value[i], self.refined[i], self.hidden[i] = found.value, True, bool(found.reason)
        self.allowed[i] = self.limit * found.scale + SURE * found.doubt + ROUNDING * self.largest
        if found.reason:
            self.reasons[i] = found.reason


def worst_row(comparisons, paths):
    """The Row of one gradient from its Comparisons, one for each use of the outputs."""
    rows = [c.row for c in comparisons]
    asked = [row.kind == "missing" and row.right is None for row in rows]   # of what has a slope
    at = max(range(len(rows)), key=lambda i: (rows[i].right is False, asked[i],
                                              rows[i].right is not None, rows[i].error))
    if comparisons[at].used != paths:
        rows[at].used = " and ".join(comparisons[at].used)
    return rows[at]


def at(gradient, point):
    """A gradient's entry, or what it is along a direction."""
    return gradient[point] if isinstance(point, tuple) else (gradient * point).sum()


def chosen(array, rng, entries=None):
    """What is looked at of an array: all its entries; of many a sample, and random directions of
    all, in which every entry shows."""
    indices = list(np.ndindex(array.shape))
    if entries is None and len(indices) <= MANY or len(indices) <= (entries or 0):
        return indices
    few = rng.choice(len(indices), FEW if entries is None else entries, replace=False)
    directions = [rng.choice([-1.0, 1.0], array.shape) for _ in range(DIRECTIONS)]
    return [indices[i] for i in few] + (directions if entries is None else [])

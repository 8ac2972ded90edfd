"""The verdict on a backward pass: each gradient is compared with finite differences.

A `Check` computes the numerical gradients once and can then judge several backwards. It compares
with the upstream gradients of all outputs, and with those of each output and each pair alone.

An entry is right if its error is at most LIMIT, relative to the magnitudes of the terms that the
derivative is summed from, plus an allowance for rounding. It is wrong if the error is larger than
that, and larger than the uncertainty of the numerical derivative. Otherwise it is inconclusive.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from npdl.backend import stream
from npdl.core import walk
from npdl.exceptions import printable
from npdl.study.check.differences import KINK, LIMIT, SURE, Line, limit_of, moved
from npdl.study.check.questions import questions
from npdl.study.trees import leaves

FEW, MANY = 200, 400            # of an array with more than MANY entries, FEW are compared, and
DIRECTIONS = 2                  # the derivatives along so many random directions
FLOOR = 1e-3                    # of the layer's largest derivative: smaller ones are compared as if
                                # they were so large
ROUNDING = 1e-13                # of the layer's largest derivative: allowed rounding of a backward


@dataclass
class Row:
    """The comparison of one gradient. `right` is None if entries of it are inconclusive.

    error      the largest relative error of an entry: LIMIT is allowed in float64
    index      that entry, with its `computed` and `numerical` value
    points     the number of entries that were compared
    unknown    the number of inconclusive entries; the first is at `first_unknown`, for the `reason`
    used       the outputs whose upstream gradients were handed over, if not all
    kind       "missing" or "shape" if there is no gradient, or one of another shape
    """

    name: str
    right: bool | None = True
    error: float = 0.0
    index: tuple = ()
    computed: float = 0.0
    numerical: float = 0.0
    reason: str = ""
    points: int = 0
    unknown: int = 0
    first_unknown: object = ()
    used: str = ""
    kind: str = ""

    @property
    def is_question(self):
        """Return True if there is no gradient, and one is needed."""
        return self.kind == "missing" and self.right is None

    def lines(self):
        """Return the lines of a table on this gradient, without its name."""
        if self.kind == "shape":
            return [f"{'inf':>9}  {self.reason}"]
        if self.kind or not self.points and self.right is None:
            return [self.reason if self.kind else f"inconclusive here: {self.reason}"]
        used = f", with the gradient of output {self.used} alone" if self.right is False \
            and self.used else ""
        found = [f"{self.error:9.1e}  {list(map(int, self.index))}: computed {self.computed:.9g}, "
                 f"numerical {self.numerical:.9g}{used}"]
        if self.unknown:
            where = list(map(int, self.first_unknown)) if isinstance(
                self.first_unknown, tuple) else "a random direction"
            found.append(f"{self.unknown} of its entries inconclusive, the first at {where}: "
                         f"{self.reason}")
        return found


@dataclass(repr=False)
class Verdict:
    """The rows of a Check, with sentences: `faults` that no row shows, `questions`, and `notes`.

    `right` is None if a gradient is inconclusive or a question is open, and nothing is wrong.
    `dout` is the upstream gradient for which backward raised `error`, or for which the Check
    stopped; None if there is none.
    """

    check: object
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    questions: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    dout: object = None
    error: object = None

    @property
    def subject(self):
        return self.check.subject

    @property
    def right(self):
        if self.faults or any(row.right is False for row in self.rows):
            return False
        known = self.rows and all(row.right for row in self.rows) and not self.questions
        return True if known else None

    @property
    def wrong(self):
        return [row for row in self.rows if row.right is False]

    @property
    def worst(self):
        """Return the largest relative error, or inf if there are faults such as side effects."""
        errors = [row.error for row in self.rows if row.right is not None or row.points]
        return np.inf if self.faults else max(errors, default=0.0)

    def ok(self, limit=np.inf):
        """Return True if everything is right, to a limit; False if something is inconclusive."""
        return self.right is True and self.worst <= limit

    def __repr__(self):
        """Return a table of the gradients, the worst first, and the sentences."""
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{'gradient':<{width}}  {'error':>9}  worst entry"] * bool(self.rows)
        for row in sorted(self.rows, key=lambda row: (row.right is None, -row.error)):
            lines += [f"{row.name:<{width}}  {line}" if i == 0 else f"    {line}"
                      for i, line in enumerate(row.lines())]
        lines += [f"wrong: {fault}" for fault in self.faults]
        lines += [f"question: {question}" for question in self.questions]
        return printable("\n".join(lines + [f"note: {note}" for note in self.notes]), "\n")


class Check:
    """A Subject with its numerical gradients; it judges backwards.

    At most `entries` entries of each array are compared, chosen at random.
    """

    def __init__(self, subject, entries=None):
        self.subject, self.arrays = subject, subject.arrays
        self.paths, self.dout, self.uses = subject.paths, subject.dout, subject.uses
        self.notes = subject.notes()
        rng, base = stream(subject.seed, 80), [np.array(a) for a in subject.outputs()]
        weights = [d for _, d in leaves(self.dout)]
        limit = limit_of(base)
        if limit > LIMIT:
            self.notes.append("forward computes in less than float64, so gradients are compared "
                              f"to a relative error of {limit:.0e} only")
        self.points = {name: chosen(a, rng, entries) for name, a in self.arrays.items()}
        for name, row in padding_rows(subject):         # its gradient is 0 by definition
            self.points[name] = [p for p in self.points[name]
                                 if isinstance(p, tuple) and p[0] != row]
        self.lines = {name: [Line(moved(a, point, subject.outputs), base, weights,
                                  np.abs(a).max(initial=0)) for point in self.points[name]]
                      for name, a in self.arrays.items()}
        self._known, self._scales = {}, {}

    def progress(self):
        """Return a sentence on how much is computed."""
        lines = [line for lines in self.lines.values() for line in lines]
        return (f"{sum(line.is_begun for line in lines)} of {len(lines)} numerical derivatives are "
                "computed")

    def verdict(self, stop=False):
        """Return the Verdict on the backward, with the worst comparison of each gradient.

        With `stop`, return after the first upstream gradient for which a gradient is wrong.
        """
        found = {}
        for used in self.uses:
            dout = self.subject.upstream(used)
            try:
                gradients, _ = self.backward(used)
            except Exception as error:
                return Verdict(self, notes=list(self.notes), dout=dout, error=error)
            for name in self.arrays:
                found.setdefault(name, []).append(self.compare(name, gradients.get(name), used))
            rows = [max(own, key=_badness) for own in found.values()]
            if stop and any(row.right is False for row in rows):
                return replace(self._asked(rows), rows=[own[-1] for own in found.values()],
                               dout=dout)
        return self._asked(rows)

    def _asked(self, rows):
        """Return the Verdict of Rows, without those of targets, and with the questions.

        If all gradients are 0, comparing them shows nothing.
        """
        if self.all_zero and not any(row.right is False for row in rows):
            for row in rows:
                row.right, row.points = None, 0
                row.reason = "all gradients are 0 at these inputs"
        notes, found = questions(self.subject, [row.name for row in rows if row.is_question])
        return Verdict(self, [row for row in rows if row.name not in notes],
                       [*self.notes, *notes.values()], found)

    @property
    def all_zero(self):
        """Return True if all gradients are 0 here, so that comparing them shows nothing."""
        return any(self.lines.values()) and not self._largest(self.paths)

    def passes(self, ignored=()):
        """Return True if no gradient is wrong, except for the ignored."""
        for used in self.uses:
            gradients, _ = self.backward(used)
            if any(self.compare(name, gradients.get(name), used).right is False
                   for name in self.arrays if name not in ignored):
                return False
        return True

    def backward(self, used, turn=0):
        """Return ({name: gradient}, {name: content of param.grad}) for a use of the outputs."""
        _, cache = self.subject.run()
        return self.subject.backward(self.subject.upstream(used), cache, turn)

    def compare(self, name, gradient, used):
        """Return the Row of a gradient, an array or None, for a use of the outputs."""
        points, wanted = self.points[name], self.arrays[name].shape
        known, row = self._numerical(name, tuple(used)), Row(name)
        row.used = " and ".join(used) if used != self.paths else ""
        if gradient is None:
            needed = (np.abs(known.value) > known.allowed) & ~known.hidden
            row.right, row.kind = None if needed.any() else True, "missing"
            row.reason = "backward returned no gradient for it"
        elif np.shape(gradient) != wanted:
            row.right, row.error, row.kind = False, np.inf, "shape"
            row.reason = f"its shape is {np.shape(gradient)}; it must be {wanted}"
        elif points:
            with np.errstate(all="ignore"):
                computed = np.array([at(gradient, point) for point in points], float)
            known.fill(row, points, computed)
        return row

    def _numerical(self, name, used):
        if (name, used) not in self._known:
            columns = [self.paths.index(path) for path in used]
            self._known[name, used] = Numerical(self.lines[name], columns, self._largest(used))
        return self._known[name, used]

    def _largest(self, used):
        """Return the largest scale of any derivative, for a use of the outputs."""
        if tuple(used) not in self._scales:
            columns = [self.paths.index(path) for path in used]
            self._scales[tuple(used)] = max((line.points(0)[1, columns].sum() for lines in
                                             self.lines.values() for line in lines), default=0.0)
        return self._scales[tuple(used)]


class Numerical:
    """The numerical derivatives of one array for a use of the outputs, and the allowed errors."""

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

    def fill(self, row, points, computed):
        """Fill in a Row: compare the computed derivatives at the points with the numerical ones."""
        for i in np.flatnonzero((self._errors(computed) > self.limit) & ~self.refined):
            self.refine(i)
        errors = self._errors(computed)
        unknown = self.hidden & ~(errors > self.limit)  # or certain enough to be called wrong
        worst = int(np.where(unknown, -1, errors).argmax())
        row.right = False if errors[worst] > self.limit else None if unknown.any() else True
        row.error = 0.0 if unknown[worst] else float(errors[worst])
        row.index = points[worst] if isinstance(points[worst], tuple) else ()
        row.computed, row.numerical = float(computed[worst]), float(self.value[worst])
        row.unknown, row.points = int(unknown.sum()), int((~unknown).sum())
        if unknown.any():
            first = int(unknown.argmax())
            row.first_unknown, row.reason = points[first], self.reasons[first]

    def _errors(self, computed):
        """Return the relative errors, of which `limit` is allowed; 0 for an unknown derivative."""
        with np.errstate(all="ignore"):
            errors = self.limit * np.abs(computed - self.value) / self.allowed
        errors = np.where(computed == self.value, 0, errors)
        errors[~np.isfinite(errors)] = np.inf
        return np.where(np.isnan(self.value), 0, errors)

    def refine(self, i):
        """Try other step sizes for one entry, to find a reliable derivative or a reason."""
        found = self.lines[i].derivative(self.columns, self.floor)
        self.value[i], self.refined[i], self.hidden[i] = found.value, True, bool(found.reason)
        self.allowed[i] = self.limit * found.scale + SURE * found.doubt + ROUNDING * self.largest
        if found.reason:
            self.reasons[i] = found.reason


def _badness(row):
    """Return how bad a Row is, for the worst of several."""
    return row.right is False, row.is_question, row.unknown, row.error


def padding_rows(subject):
    """Yield (name of the parameter, padding id) of every embedding with a padding id."""
    for part in walk(subject.layer):
        row = getattr(part, "padding_id", None)
        yield from ((name, row) for name, param in subject.params.items()
                    if row is not None and param is getattr(part, "W", None))


def at(gradient, point):
    """Return an entry of a gradient, or its inner product with a direction."""
    return gradient[point] if isinstance(point, tuple) else (gradient * point).sum()


def chosen(array, rng, entries=None):
    """Choose what to compare: all entries; of large arrays a sample, and random directions."""
    indices = list(np.ndindex(array.shape))
    if entries is None and len(indices) <= MANY or len(indices) <= (entries or 0):
        return indices
    few = rng.choice(len(indices), FEW if entries is None else entries, replace=False)
    directions = [rng.choice([-1.0, 1.0], array.shape) for _ in range(DIRECTIONS)]
    return [indices[i] for i in few] + (directions if entries is None else [])

"""Find the statements of a backward pass that could be the mistake (fault localisation).

Keep the forward pass fixed. Then every gradient is a linear function of the values that one
statement of the backward pass computes. So we can ask, for each statement separately:

    Is there a value that this statement could have computed
    such that every gradient would have been correct?

To answer, we add 1 to each entry of the statement's values, rerun backward, and record how the
gradients change. These changes are the columns of a matrix J. If J @ delta = (true - computed
gradients) has a solution, the statement is a *candidate*: value + delta is what it should have
computed. If there is no solution, the statement alone can't be the mistake.

A statement in a loop runs several times, so the unknown is the list of all its values. A value is
identified by a key (expression, occurrence): the expression's number, and how often it had run.

Candidates are ranked by what is known of their values: a value that forward computes too is not a
gradient; a `dz` that is the true gradient of forward's `z` is correct.
"""

import ast
import contextlib
import functools
from dataclasses import dataclass, field, replace

import numpy as np

from npdl.study.deviation import deviation
from npdl.study.trace.oracle import Oracle, normalise_name, variable_names
from npdl.study.trace.runs import LEAST, SOLVED, ZERO, solve_linear
from npdl.study.trace.syntax import is_pass_through

MAX_ENTRIES = 400       # statements with more entries are not perturbed; a larger number is slower,
                        # but leaves fewer statements unknown

# What is known of a statement's values, most suspicious first: they match no forward variable's
# gradient; they don't depend on the upstream gradient; they match a forward variable's gradient;
# they are only passed through; they are correct, or are no gradients.
UNMATCHED, CONSTANT, MATCHED, PASSED, CORRECT = range(5)


@dataclass(eq=False)
class Candidate:
    """A statement, or an argument that it passes to one of the student's functions.

    line         the Line of the statement
    is_argument  True for an argument
    values       {key: array} of the computed values, in the order of execution
    order        the position of the first value in the order of execution
    J            the changes of all gradients if 1 is added to an entry of the values; one column
                 for each entry, or None if the changes are unknown
    residual     the true minus the computed gradients, one entry for each row of J
    feasible     True if values exist that correct all gradients; None if that is unknown
    expected     {key: array} of such values
    unique       True if no other values correct all gradients
    status       what is known of the values, from UNMATCHED to CORRECT
    gradient_of  the variable of forward whose gradient the statement should compute, or ""
    constant     the keys of values that don't depend on the upstream gradient
    free         columns as in J, for a second change that is also needed (`partial`), or None
    rest         a sentence on this second change, or ""
    """

    line: object
    is_argument: bool = False
    values: dict = field(default_factory=dict)
    order: int = 0
    J: object = None
    residual: object = None
    feasible: bool | None = None
    expected: dict = field(default_factory=dict)
    unique: bool = False
    status: int = MATCHED
    gradient_of: str = ""
    constant: set = field(default_factory=set)
    free: object = None
    rest: str = ""

    @property
    def changed(self):
        """Return the keys of the values that must change, or all keys if that is unknown."""
        return [key for key, value in self.values.items() if key in self.expected and deviation(
            self.expected[key], value, LEAST) > SOLVED] or list(self.values)

    @property
    def key(self):
        return self.changed[0]

    @property
    def unknown(self):
        """Return the number of unknowns of the linear system, those of the rest included."""
        return self.J.shape[1] + (0 if self.free is None else self.free.shape[1])

    def value_test(self, place):
        """Return a function test(array) for the first value of the expression `place`.

        test(array) returns True if all gradients can be correct when this value is replaced by the
        array. The later values of the expression may change as well. The result is None if nothing
        is known, and False if no array passes the test.
        """
        if self.J is None or set(self.values) <= self.constant:
            return None
        at, own, first = 0, None, None
        others = [] if self.free is None else [self.free]
        for key, value in self.values.items():
            columns = self.J[:, at : at + value.size]
            at += value.size
            if key[0] == place and first is None:
                first, own = value, columns
            elif key[0] == place:
                others.append(columns)
        free = np.concatenate(others, 1) if others else own[:, :0]
        undo = np.linalg.pinv(free, rcond=ZERO)
        needed = self.residual - free @ (undo @ self.residual)
        effect = own - free @ (undo @ own)
        most = SOLVED * max(1.0, np.abs(needed).max(initial=0))

        def test(value):
            change = (np.broadcast_to(value, first.shape) - first).ravel()
            return bool((np.abs(needed - effect @ change) <= most).all())

        best = np.linalg.lstsq(effect, needed, rcond=ZERO)[0]
        test.shape = first.shape
        return test if (np.abs(needed - effect @ best) <= 10 * most).all() else False


@dataclass
class Localization:
    """The candidates for the wrong gradients.

    runs        Runs, which rerun the layer with changed intermediate values
    base        {name: gradient} as backward computes them
    wrong       the names of the wrong gradients
    oracle      an Oracle, which returns the true gradients of the values of forward
    candidates  all Candidates, in the order of execution
    frames      {key: {name: value}} of the local variables when a value was computed
    """

    runs: object
    base: dict
    wrong: set
    oracle: object
    candidates: list
    frames: dict

    @property
    def feasible(self):
        return [c for c in self.candidates if c.feasible]

    def rank(self, candidate):
        """Return a tuple by which Candidates are sorted; the smallest is the most suspicious one.

        Statements of the layer's file come first, then callers before the functions that they
        call, then the order of execution. If all of backward ignores the upstream gradient, the
        last statement comes first: the factor is most likely missing there.
        """
        watch, function = self.runs.watch, candidate.line.function
        return (function.file != watch.home, watch.functions.index(function),
                candidate.order if self.runs.uses_dout else -candidate.order)

    @functools.cached_property
    def partial(self):
        """Return Candidates that can't correct all gradients alone, but together with a rest.

        With two mistakes, the rest is a later statement, and one linear system gives the values of
        both statements. With more mistakes, the rest is all wrong gradients except for one.
        Candidates with the fewest unknowns come first, and then those of callers.
        """
        known, best = [c for c in self.candidates if c.J is not None and c.feasible is False
                       and c.status < PASSED], {}
        for one in known:
            rests = [(c.J, "all gradients are correct with this line, if line "
                      f"{c.line.first} is corrected, too") for c in known if c.order > one.order]
            rests += [(np.eye(len(one.J))[:, self.runs.rows(self.wrong - {name})],
                       f"with this line, the gradient of {name} is correct") for name in self.wrong]
            for free, rest in sorted(rests, key=lambda pair: pair[0].shape[1]):
                delta, is_unique, fits = solve_linear(
                    np.concatenate([one.J, free], 1), one.residual)
                if self.runs.budget.over:
                    return []
                if fits:
                    best[one] = replace(one, free=free, rest=rest, feasible=True, unique=is_unique)
                    _set_expected_values(best[one], delta)
                    break
        least = min((c.unknown for c in self.feasible if c.J is not None and c.status < PASSED),
                    default=np.inf)
        found = sorted(best.values(), key=lambda c: (c.unknown, self.rank(c)))
        return [c for c in found if c.unknown <= least]

    @functools.cached_property
    def forward_lines(self):
        """Return the Lines that forward runs. Their values are correct."""
        return {self.runs.watch.places[key[0]].line for key in self.oracle.values}

    @functools.cached_property
    def functions(self):
        """Return {name: function} of the functions that only backward runs."""
        forward = {line.function for line in self.forward_lines if line is not None}
        return {f.code.co_name: f for f in self.runs.watch.functions
                if f not in forward and "forward" not in f.qualname}


def localize(runs):
    """Return the Localization for Runs whose true gradients are known (`Runs.learn`)."""
    base, places, found = runs.gradients(), runs.watch.places, {}
    values, frames = record_backward(runs)
    for order, (key, value) in enumerate(values.items()):
        line = places[key[0]].line
        is_argument = key[0] in line.places[:-1] and not isinstance(
            getattr(line.node, "value", None), (ast.Tuple, ast.Dict))
        own = (line, key[0] if is_argument else None)
        found.setdefault(own, Candidate(line, is_argument, order=order)).values[key] = value
    known = Localization(runs, base, runs.wrong(base), Oracle(runs), list(found.values()), frames)
    constant = _constant_keys(runs, values)
    for candidate in known.candidates:
        _perturb(runs, candidate)
        candidate.constant = {key for key in candidate.values if key in constant}
        if candidate.J is not None:
            with contextlib.suppress(Exception):
                _solve(known, candidate)
        _set_status(known, candidate)
    runs.gradients()                                    # rerun unchanged: restores the layer
    return known


def record_backward(runs):
    """Run backward; return the values of its statements, and the local variables at each value.

    These are two dicts, {key: array} and {key: {name: value}}. If backward raises an exception,
    they are those of the statements before it.
    """
    roots = {i for i, place in enumerate(runs.watch.places) if place.root and place.line}
    with contextlib.suppress(Exception):
        runs.gradients(only=roots, record=True, frames=True)
    return runs.watch.seen or {}, runs.watch.locals or {}


def _constant_keys(runs, values):
    """Return the keys of values that don't change when the upstream gradient is doubled."""
    with contextlib.suppress(Exception):
        runs.gradients(2.0, only={key[0] for key in values}, record=True)
        twice = runs.watch.seen
        moved = {k for k, v in values.items() if k in twice and not np.array_equal(twice[k], v)}
        runs.uses_dout = bool(moved)
        return {k for k in values if k in twice and k not in moved} if moved else set()
    return set()


def _perturb(runs, candidate):
    """Add 1 to each entry of a Candidate's values in turn, and set its J and its residual."""
    values, only = candidate.values, {key[0] for key in candidate.values}
    if not 0 < sum(v.size for v in values.values()) <= MAX_ENTRIES:
        return
    with contextlib.suppress(Exception):                # some code raises if a value is changed
        residual, columns = runs.short(runs.gradients(only=only, put=dict(values))), []
        for key, value in values.items():
            for at in np.ndindex(value.shape):
                if runs.budget.over:
                    return
                moved = value.copy()
                moved[at] += 1.0
                columns.append(residual - runs.short(runs.gradients(
                    only=only, put={**values, key: moved})))
        J = np.stack(columns, axis=1)
        if np.isfinite(J).all():
            candidate.J, candidate.residual = J, residual


def _solve(found, candidate):
    """Compute the values of a Candidate with which all gradients would be correct.

    Set `expected`, `unique` and `feasible`.
    """
    runs = found.runs
    delta, candidate.unique, _ = solve_linear(candidate.J, candidate.residual)
    _set_expected_values(candidate, delta)
    after = runs.gradients(only={key[0] for key in candidate.values}, put=candidate.expected)
    candidate.feasible = not runs.wrong(after)
    if not candidate.feasible and any(
            found.base[name].shape != runs.truth[name].shape for name in found.wrong):
        candidate.feasible = None                       # a value of another shape may correct it


def _set_expected_values(candidate, delta):
    """Set the expected values of a Candidate; `delta` holds the changes of all their entries."""
    candidate.expected = {}
    for key, value in candidate.values.items():
        own, delta = delta[: value.size], delta[value.size :]
        candidate.expected[key] = value + own.reshape(value.shape)


def _set_status(found, candidate):
    """Set the status of a Candidate, and the variable whose gradient it should compute."""
    places, node = found.runs.watch.places, candidate.line.node
    candidate.gradient_of = ""
    statuses = [_find_status(found, candidate, *item) for item in candidate.values.items()]
    candidate.status = CORRECT if all(s == CORRECT for s in statuses) else min(statuses)
    parts = [places[key[0]].node for key in candidate.changed]
    if candidate.status < CORRECT and (
            candidate.line in found.forward_lines or is_pass_through(node, parts)
            or not candidate.is_argument and _called_function(node) in found.functions):
        candidate.status = PASSED
    if candidate.feasible and candidate.unique and not candidate.gradient_of \
            and candidate.status < PASSED:
        candidate.gradient_of = found.oracle.name(candidate.expected[candidate.key])


def _called_function(node):
    """Return f for the statements `y = f(x)` and `return f(x)`, and "" for others."""
    func = getattr(getattr(node, "value", None), "func", None)
    return getattr(func, "attr", getattr(func, "id", ""))


def _find_status(found, candidate, key, value):
    """Return the status of one value of a Candidate, from UNMATCHED to CORRECT."""
    oracle, node = found.oracle, found.runs.watch.places[key[0]].node
    expected = candidate.expected.get(key) if candidate.feasible and candidate.unique else None
    is_difference = isinstance(getattr(node, "op", None), ast.Sub) and not found.runs.uses_dout
    if not value.any() and (expected is None or not expected.any()):
        return CORRECT
    if oracle.is_forwards(value) and not is_difference:     # a loss may return y - t
        return CORRECT
    if key in candidate.constant:                       # a derivative, a mask, an index
        is_mask = np.isin(value, (-1, 0, 1)).all() and (expected is None or not np.isin(
            np.round(expected, 6), (-1, 0, 1)).all())
        return CORRECT if is_mask or not candidate.feasible else CONSTANT
    name = _find_variable(found, candidate, key)
    if name and oracle.is_named(name, value):
        return CORRECT
    if name and expected is not None and oracle.is_named(name, expected):
        candidate.gradient_of = candidate.gradient_of or name
        return UNMATCHED
    return MATCHED if value.any() and oracle.name(value) else UNMATCHED


def _find_variable(found, candidate, key):
    """Return the name of the variable z of forward if a value is assigned to dz, or ""."""
    names = found.runs.watch.places[key[0]].names
    if candidate.is_argument or not names or isinstance(candidate.line.node, ast.AugAssign):
        return ""
    known = {normalise_name(found.oracle.given_to(k)) for k in found.oracle.values} - {""}
    text = names[key[1] % len(names)]
    stem = next(iter(variable_names(text)), "") if ".grad" not in text else ""
    return next((n for n in known if n.lower() == stem.lower()), "") if stem else ""

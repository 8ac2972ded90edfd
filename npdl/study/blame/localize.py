"""Find the statements of a backward pass that could be the mistake (fault localisation).

Keep the forward pass fixed. Then every gradient is a linear function of the values that one
statement of the backward pass computes. So we can ask, for each statement separately:

    Is there a value that this statement could have computed
    such that every gradient would have been correct?

To answer, we add 1 to each entry of the statement's values, rerun backward, and record how the
gradients change. These changes are the columns of a matrix J. If J @ delta = (true - computed
gradients) has a solution, the statement is a *candidate*: value + delta is what it should have
computed. If there is no solution, the statement alone can't be the mistake.

A statement in a loop runs several times, so the unknown is the list of all its values. The key
(3, 1) stands for the value that expression number 3 computes when it runs for the second time.

The values decide how suspicious a statement is: a value that forward computes too is no gradient,
and a value `dz` is correct if it is the true gradient of the variable `z` of forward.
"""

import ast
import contextlib
import functools
from dataclasses import dataclass, field, replace

import numpy as np

from npdl.study.relative_error import relative_error
from npdl.study.trace.oracle import Oracle, guess_variable_names, normalise_name
from npdl.study.trace.runs import LEAST, SOLVED, ZERO, solve_linear
from npdl.study.trace.syntax import is_pass_through

MAX_ENTRIES = 400       # statements with more entries are not perturbed; a larger number is slower,
                        # but leaves fewer statements unknown

# The status of a statement, most suspicious first:
#     UNMATCHED  its values are the gradient of no variable of forward
#     CONSTANT   its values don't depend on the upstream gradient
#     MATCHED    its values are the gradient of some variable of forward
#     PASSED     it only passes values on, as in `return dx`
#     CORRECT    its values are correct, or are no gradients
UNMATCHED, CONSTANT, MATCHED, PASSED, CORRECT = range(5)


@dataclass(eq=False)
class Candidate:
    """A statement that could be the mistake, or an argument of a function that it calls."""

    statement: object           # the Statement
    is_argument: bool = False
    values: dict = field(default_factory=dict)      # {key: array} of the computed values
    order: int = 0              # the position of the first value in the order of execution
    J: object = None            # the changes of all gradients if 1 is added to an entry of the
                                # values, one column for each entry; None if they are unknown
    residual: object = None     # true minus computed gradients, one entry for each row of J
    feasible: bool | None = None        # True if some values of this statement correct all
                                        # gradients; None if unknown
    expected: dict = field(default_factory=dict)    # {key: array} of such values
    unique: bool = False        # True if no other values correct all gradients
    status: int = MATCHED       # UNMATCHED, CONSTANT, MATCHED, PASSED or CORRECT
    gradient_of: str = ""       # the variable of forward whose gradient it should compute
    constant: set = field(default_factory=set)      # the keys of values that don't depend on the
                                                    # upstream gradient
    free: object = None         # columns as in J for a second mistake, which is corrected as well;
                                # no columns if there is only one mistake
    rest: str = ""              # a sentence on this second mistake

    @property
    def keys_to_change(self):
        """Return the keys of the values that must change, or all keys if that is unknown."""
        return [key for key, value in self.values.items() if key in self.expected
                and relative_error(self.expected[key], value, LEAST) > SOLVED] or list(self.values)

    @property
    def first_key_to_change(self):
        return self.keys_to_change[0]

    @property
    def num_unknowns(self):
        """Return the number of columns of the linear system, J and `free` together."""
        return self.J.shape[1] + self.free.shape[1]

    def split_columns_by_key(self, matrix):
        """Return {key: columns of the matrix that belong to this value}, as in J."""
        ends = np.cumsum([value.size for value in self.values.values()])
        return dict(zip(self.values, np.split(matrix, ends, axis=-1), strict=False))

    def make_value_test(self, expression_number):
        """Return a function is_allowed(array), which tests a value of an expression.

        is_allowed(array) returns True if all gradients can be correct when the array replaces the
        first value of the expression; its later values may change as well. Returns None instead of
        a function if nothing is known, and False if no array passes the test.
        """
        if expression_number is None or self.J is None or self.feasible is None or (
                set(self.values) <= self.constant):
            return None
        columns = [own for key, own in self.split_columns_by_key(self.J).items()
                   if key[0] == expression_number]
        first = next(value for key, value in self.values.items() if key[0] == expression_number)
        own, free = columns[0], np.concatenate([self.free, *columns[1:]], 1)
        undo = np.linalg.pinv(free, rcond=ZERO)
        needed = self.residual - free @ (undo @ self.residual)
        effect = own - free @ (undo @ own)
        most = SOLVED * max(1.0, np.abs(needed).max(initial=0))

        def is_allowed(value):
            change = (np.broadcast_to(value, first.shape) - first).ravel()
            return bool((np.abs(needed - effect @ change) <= most).all())

        best = np.linalg.lstsq(effect, needed, rcond=ZERO)[0]
        is_allowed.shape = first.shape
        return is_allowed if (np.abs(needed - effect @ best) <= 10 * most).all() else False


@dataclass
class Localization:
    """The result of `localize`: the statements that could be the mistake."""

    runs: object                # Runs, which rerun the layer with changed intermediate values
    base: dict                  # {name: gradient} as backward computes them
    wrong: set                  # the names of the wrong gradients
    oracle: object              # an Oracle, which compares arrays with true gradients
    candidates: list            # all Candidates, in the order of execution
    frames: dict                # {key: {name: value}}, the local variables when the value of the
                                # key was computed

    @property
    def feasible_candidates(self):
        return [c for c in self.candidates if c.feasible]

    def sort_key(self, candidate):
        """Return a tuple by which Candidates are sorted, the most suspicious one first.

        Statements in the layer's file come first. A caller comes before the functions that it
        calls, and a statement before later statements. If backward ignores the upstream gradient,
        the last statement comes first, because it likely lacks this gradient as a factor.
        """
        watch, function = self.runs.watch, candidate.statement.function
        return (function.file != watch.main_file, watch.functions.index(function),
                candidate.order if self.runs.uses_dout else -candidate.order)

    @functools.cached_property
    def two_change_candidates(self):
        """Return Candidates that correct all gradients only together with a second change.

        The second change gives new values to a later statement, or to all wrong gradients except
        one. One linear system determines both changes. The Candidates are sorted by the number of
        columns of this system, then by `sort_key`.
        """
        known, best = [c for c in self.candidates if c.J is not None and c.feasible is False
                       and c.status < PASSED], {}
        for one in known:
            rests = [(c.J, "all gradients are correct with this line, if line "
                      f"{c.statement.first_line} is corrected, too")
                     for c in known if c.order > one.order]
            rests += [(np.eye(len(one.J))[:, self.runs.make_gradient_mask(self.wrong - {name})],
                       f"with this line, the gradient of {name} is correct") for name in self.wrong]
            for free, rest in sorted(rests, key=lambda pair: pair[0].shape[1]):
                delta, is_unique, is_solved = solve_linear(
                    np.concatenate([one.J, free], 1), one.residual)
                if self.runs.budget.is_spent:
                    return []
                if is_solved:
                    best[one] = replace(one, free=free, rest=rest, feasible=True, unique=is_unique)
                    _set_expected_values(best[one], delta)
                    break
        least = min((c.num_unknowns for c in self.feasible_candidates
                     if c.J is not None and c.status < PASSED), default=np.inf)
        found = sorted(best.values(), key=lambda c: (c.num_unknowns, self.sort_key(c)))
        return [c for c in found if c.num_unknowns <= least]

    @functools.cached_property
    def forward_statements(self):
        """Return the Statements that forward runs. Their values are correct."""
        return {self.runs.watch.expressions[key[0]].statement for key in self.oracle.values}

    @functools.cached_property
    def backward_functions(self):
        """Return {name: function} of the functions that only backward runs."""
        forward = {one.function for one in self.forward_statements if one is not None}
        return {f.code.co_name: f for f in self.runs.watch.functions
                if f not in forward and "forward" not in f.qualname}


def localize(runs):
    """Return the Localization: the possibly wrong statements. runs.truth must be set before."""
    base, expressions, candidates = runs.compute_gradients(), runs.watch.expressions, {}
    values, frames = record_backward(runs)
    for order, (key, value) in enumerate(values.items()):
        statement = expressions[key[0]].statement
        is_argument = key[0] in statement.expressions[:-1] and not isinstance(
            getattr(statement.node, "value", None), (ast.Tuple, ast.Dict))
        own = (statement, key[0] if is_argument else None)
        candidate = Candidate(statement, is_argument, order=order)
        candidates.setdefault(own, candidate).values[key] = value
    wrong = runs.find_wrong_gradients(base)
    localization = Localization(runs, base, wrong, Oracle(runs), list(candidates.values()), frames)
    constant = _find_dout_independent_keys(runs, values)
    for candidate in localization.candidates:
        _measure_jacobian(runs, candidate)
        candidate.constant = {key for key in candidate.values if key in constant}
        if candidate.J is not None:
            with contextlib.suppress(Exception):
                _solve_for_correct_values(localization, candidate)
        _set_status(localization, candidate)
    runs.compute_gradients()                            # rerun unchanged: restores the layer
    return localization


def record_backward(runs):
    """Run backward; return {key: array} of its values, and {key: {name: value}} of local variables.

    A key is (number of an expression, how often it had run before). If backward raises an
    exception, both dicts have only the values before the exception. The second dict also has the
    keys of arguments, for functions whose other values (such as masks) are not recorded.
    """
    expressions = runs.watch.expressions
    numbers = {i for i, one in enumerate(expressions) if one.root or one.statement is None}
    with contextlib.suppress(Exception):
        runs.compute_gradients(expression_numbers=numbers, record=True, record_locals=True)
    seen = runs.watch.seen or {}
    return {k: v for k, v in seen.items() if expressions[k[0]].statement}, runs.watch.locals or {}


def _find_dout_independent_keys(runs, values):
    """Return the keys of values that don't change when the upstream gradient is doubled."""
    with contextlib.suppress(Exception):
        runs.compute_gradients(2.0, expression_numbers={key[0] for key in values}, record=True)
        twice = runs.watch.seen
        moved = {k for k, v in values.items() if k in twice and not np.array_equal(twice[k], v)}
        runs.uses_dout = bool(moved)
        return {k for k in values if k in twice and k not in moved} if moved else set()
    return set()


def _measure_jacobian(runs, candidate):
    """Set J and `residual`: rerun backward with 1 added to each entry of a Candidate's values."""
    values, numbers = candidate.values, {key[0] for key in candidate.values}
    if not 0 < sum(v.size for v in values.values()) <= MAX_ENTRIES:
        return
    with contextlib.suppress(Exception):                # some code raises if a value is changed
        columns, gradients = [], runs.compute_gradients(
            expression_numbers=numbers, replacements=dict(values))
        residual = runs.compute_residual(gradients)
        for key, value in values.items():
            for at in np.ndindex(value.shape):
                if runs.budget.is_spent:
                    return
                moved = value.copy()
                moved[at] += 1.0
                columns.append(residual - runs.compute_residual(runs.compute_gradients(
                    expression_numbers=numbers, replacements={**values, key: moved})))
        J = np.stack(columns, axis=1)
        if np.isfinite(J).all():
            candidate.J, candidate.free, candidate.residual = J, J[:, :0], residual


def _solve_for_correct_values(localization, candidate):
    """Compute values that would correct all gradients; set `expected`, `unique` and `feasible`."""
    runs = localization.runs
    delta, candidate.unique, _ = solve_linear(candidate.J, candidate.residual)
    _set_expected_values(candidate, delta)
    numbers = {key[0] for key in candidate.values}
    after = runs.compute_gradients(expression_numbers=numbers, replacements=candidate.expected)
    candidate.feasible = not runs.find_wrong_gradients(after)
    if not candidate.feasible and any(
            localization.base[name].shape != runs.truth[name].shape for name in localization.wrong):
        candidate.feasible = None                       # a value of another shape may correct it


def _set_expected_values(candidate, delta):
    """Set `expected` to the values plus delta, a vector with one entry for each column of J."""
    candidate.expected = {
        key: candidate.values[key] + own.reshape(candidate.values[key].shape)
        for key, own in candidate.split_columns_by_key(delta).items()}


def _set_status(localization, candidate):
    """Set `status` and `gradient_of` of a Candidate."""
    expressions, node = localization.runs.watch.expressions, candidate.statement.node
    candidate.gradient_of = ""
    candidate.status = min(
        _find_value_status(localization, candidate, *item) for item in candidate.values.items())
    parts = [expressions[key[0]].node for key in candidate.keys_to_change]
    if candidate.status < CORRECT and (
            candidate.statement in localization.forward_statements or is_pass_through(node, parts)
            or not candidate.is_argument
            and _find_called_function_name(node) in localization.backward_functions):
        candidate.status = PASSED
    if candidate.feasible and candidate.unique and not candidate.gradient_of \
            and candidate.status < PASSED:
        expected = candidate.expected[candidate.first_key_to_change]
        candidate.gradient_of = localization.oracle.find_source_with_gradient(expected)


def _find_called_function_name(node):
    """Return the name "f" if a statement is `y = f(x)` or `return f(x)`, else ""."""
    func = getattr(getattr(node, "value", None), "func", None)
    return getattr(func, "attr", getattr(func, "id", ""))


def _find_value_status(localization, candidate, key, value):
    """Return the status of one value of a Candidate, from UNMATCHED to CORRECT."""
    runs, oracle = localization.runs, localization.oracle
    expected = candidate.expected.get(key) if candidate.feasible and candidate.unique else None
    node = runs.watch.expressions[key[0]].node
    is_difference = isinstance(getattr(node, "op", None), ast.Sub) and not runs.uses_dout
    if not value.any() and (expected is None or not expected.any()):
        return CORRECT
    if oracle.is_forward_value(value) and not is_difference:     # a loss may return y - t
        return CORRECT
    if key in candidate.constant:                       # a derivative, a mask, an index
        is_mask = np.isin(value, (-1, 0, 1)).all() and (expected is None or not np.isin(
            np.round(expected, 6), (-1, 0, 1)).all())
        return CORRECT if is_mask or not candidate.feasible else CONSTANT
    name = _find_forward_variable(localization, candidate, key)
    if name and oracle.is_gradient_of(value, name):
        return CORRECT
    if name and expected is not None and oracle.is_gradient_of(expected, name):
        candidate.gradient_of = candidate.gradient_of or name
        return UNMATCHED
    return MATCHED if value.any() and oracle.find_source_with_gradient(value) else UNMATCHED


def _find_forward_variable(localization, candidate, key):
    """Return "z" if the value is assigned to `dz` and forward has a variable z, else ""."""
    oracle, names = localization.oracle, localization.runs.watch.expressions[key[0]].names
    if candidate.is_argument or not names or isinstance(candidate.statement.node, ast.AugAssign):
        return ""
    known = {normalise_name(oracle.get_assigned_variable(k)) for k in oracle.values} - {""}
    text = names[key[1] % len(names)]
    stem = next(iter(guess_variable_names(text)), "") if ".grad" not in text else ""
    return next((n for n in known if n.lower() == stem.lower()), "") if stem else ""

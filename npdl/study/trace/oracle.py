"""Decide if a value is the true gradient of a variable that forward computes.

Only the inner product of the true gradient with a random direction is computed. It is the
derivative of the loss when the variable is perturbed along this direction. The variable is
perturbed where it is computed or used, so each use and each time step has its own gradient.
"""

import contextlib
import functools
import re
from collections import defaultdict

import numpy as np

from npdl.backend import make_rng

CLOSE = 1e-7                    # allowed relative error of an inner product; with a larger number,
                                # wrong values pass as right
LEAST = 1e-3                    # added to the size of a value, so tiny values have small errors
KEY, GRADS = re.compile(r".*\['(\w+)'\]"), re.compile(r"\bgrads?\['\w+'\]")


@functools.lru_cache(maxsize=256)
def get_direction(shape):
    """Return a random array of a shape; every call with this shape returns the same array."""
    return make_rng(0, 5, *shape).standard_normal(shape)


def normalise_name(name):
    """Return a variable's bare name: "xhat" for self.x_hat, cache['x_hat'] and x_hat[t]."""
    key = KEY.match(name)
    return (key[1] if key else name.split("[")[0].split(".")[-1]).replace("_", "")


def guess_variable_names(gradient_name):
    """Return the names of the variables whose gradient may have this name.

    The list for each of dx, d_x, gx, grad_x, x_grad and x.grad contains "x".
    """
    if gradient_name.endswith(".grad") or GRADS.search(gradient_name):
        return [normalise_name(gradient_name.removesuffix(".grad"))]
    text = normalise_name(gradient_name)
    found = [text.removesuffix(end) for end in ("grad", "bar") if text.endswith(end)]
    found += [text.removeprefix(begin) for begin in ("grad", "d", "g") if text.startswith(begin)]
    return [stem for stem in dict.fromkeys(found) if stem]


class Oracle:
    """Compares arrays with the true gradients of all values that forward computes.

    runs         a Runs, which runs the layer again with changed values
    values       {key: array} of these values; a key is (number, occurrence), so (7, 1) is the value
                 that expression 7 has when it runs for the second time
    expressions  the list of Expressions; the number in a key is an index of this list
    """

    def __init__(self, runs):
        self.runs, self.expressions = runs, runs.watch.expressions
        runs.compute_outputs(expression_numbers=set(range(len(self.expressions))), record=True)
        self.values = runs.watch.seen
        self.projections, self.sizes = {}, defaultdict(list)
        for key, value in self.values.items():
            self.sizes[value.size].append(key)

    def project_true_gradient(self, key):
        """Return the inner product of a random direction and the true gradient of one value.

        `key` says which value of forward it is (see `values`). The result is NaN if finite
        differences do not determine it.
        """
        if key not in self.projections:
            u = get_direction(self.values[key].shape)
            self.projections[key] = np.nan
            with contextlib.suppress(Exception):        # some code raises if a value is changed
                found = self.runs.check.compute_derivative(lambda t: self.runs.compute_outputs(
                    expression_numbers={key[0]}, additions={key: t * u}), self.runs.used_outputs)
                self.projections[key] = np.nan if found.reason else found.value
        return self.projections[key]

    def is_forward_value(self, value):
        """Return True if forward has computed a value that is equal to `value`."""
        return any(np.allclose(self.values[k].ravel(), np.ravel(value), 1e-9, 1e-12)
                   for k in self.sizes.get(value.size, ()))

    def get_assigned_variable(self, key):
        """Return the name of the variable to which forward assigns the value of a key, or ""."""
        names = self.expressions[key[0]].names
        return names[key[1] % len(names)] if names else ""

    def compute_gradient_error(self, key, array):
        """Compare an array with the true gradient of forward's value `key`; return the error.

        The relative error is inf if the shapes differ, and NaN if the true gradient is unknown.
        """
        shape = self.values[key].shape
        if not is_similar_shape(shape, array.shape):
            return np.inf
        terms = get_direction(shape) * np.reshape(array, shape)
        size = np.sqrt((terms * terms).sum()) + LEAST
        return float(abs(terms.sum() - self.project_true_gradient(key)) / size)

    def is_gradient_of(self, value, name):
        """Return True if `value` is the true gradient of a variable of forward with this name."""
        keys = [key for key in self.sizes.get(value.size, ())
                if normalise_name(self.get_assigned_variable(key)) == name]
        return any(self.compute_gradient_error(key, value) <= CLOSE for key in keys)

    def find_source_with_gradient(self, value):
        """Return the source of forward's expression whose gradient is `value` or value.T, or ""."""
        for key in self.sizes.get(value.size, ()):
            if self.runs.budget.is_spent:
                break
            if any(self.compute_gradient_error(key, array) <= CLOSE for array in (value, value.T)):
                return self.get_assigned_variable(key) or self.expressions[key[0]].text
        return ""


def is_similar_shape(a, b):
    """Return True if two shapes are equal, apart from axes of length 1 and merged leading axes.

    For example, (2, 4, 3) is similar to (8, 3).
    """
    a, b = [n for n in a if n != 1], [n for n in b if n != 1]
    return a == b or bool(a and b) and a[-1] == b[-1] and np.prod(a) == np.prod(
        b) and min(len(a), len(b)) <= 2

"""Tell if a value is the true gradient of a variable that forward computes.

The true gradient of a variable is not computed itself, but only its inner product with a random
direction. This inner product is the derivative of the loss when the variable is perturbed along the
direction. The variable is perturbed where it is computed, or where it is used, so each use and each
time step has a gradient of its own.
"""

import contextlib
import functools
import re
from collections import defaultdict

import numpy as np

from npdl.backend import stream

CLOSE = 1e-7                    # allowed relative error of an inner product; with a larger number,
                                # wrong values pass as right
LEAST = 1e-3                    # added to the size of a product, so tiny values have small errors
KEY, GRADS = re.compile(r".*\['(\w+)'\]"), re.compile(r"\bgrads?\['\w+'\]")


@functools.lru_cache(maxsize=256)
def random_direction(shape):
    """Return the direction for a shape, a random array that is the same in every call."""
    return stream(0, 5, *shape).standard_normal(shape)


def normalise_name(name):
    """Return a variable's name in a form that can be compared.

    It is "xhat" for each of self.x_hat, cache['x_hat'] and x_hat[t].
    """
    key = KEY.match(name)
    return (key[1] if key else name.split("[")[0].split(".")[-1]).replace("_", "")


def variable_names(name):
    """Return the names of the variables whose gradient may have the given name.

    For each of dx, d_x, gx, grad_x, x_grad and x.grad, the name x is among them.
    """
    if name.endswith(".grad") or GRADS.search(name):
        return [normalise_name(name.removesuffix(".grad"))]
    text = normalise_name(name)
    found = [text.removesuffix(end) for end in ("grad", "bar") if text.endswith(end)]
    found += [text.removeprefix(begin) for begin in ("grad", "d", "g") if text.startswith(begin)]
    return [stem for stem in dict.fromkeys(found) if stem]


class Oracle:
    """Knows the true gradients of the values that the forward of Runs computes.

    values   {key: array} of these values; a key is (the number of a Place, occurrence)
    places   the list of Places, in which the number is an index
    """

    def __init__(self, runs):
        self.runs, self.places = runs, runs.watch.places
        runs.outputs(only=set(range(len(self.places))), record=True)
        self.values = runs.watch.seen
        self.products, self.sizes = {}, defaultdict(list)
        for key, value in self.values.items():
            self.sizes[value.size].append(key)

    def product(self, key):
        """Return the inner product of a value's true gradient and `random_direction`, or NaN."""
        if key not in self.products:
            u = random_direction(self.values[key].shape)
            self.products[key] = np.nan
            with contextlib.suppress(Exception):        # some code raises if a value is changed
                found = self.runs.check.derivative(lambda t: self.runs.outputs(
                    only={key[0]}, add={key: t * u}), self.runs.used)
                self.products[key] = np.nan if found.reason else found.value
        return self.products[key]

    def is_forwards(self, value):
        """Return True if forward has computed a value that is equal to `value`."""
        return any(np.allclose(self.values[k].ravel(), np.ravel(value), 1e-9, 1e-12)
                   for k in self.sizes.get(value.size, ()))

    def given_to(self, key):
        """Return the variable to which forward assigns a value, or "".

        For `a, b = f(x)`, the first value is assigned to a, and the second one to b.
        """
        names = self.places[key[0]].names
        return names[key[1] % len(names)] if names else ""

    def error(self, key, value):
        """Return the relative error of `value` as the gradient of the value `key` of forward.

        The error is inf if the shapes differ, and NaN if the true gradient is unknown.
        """
        shape = self.values[key].shape
        if not is_similar_shape(shape, value.shape):
            return np.inf
        terms = random_direction(shape) * np.reshape(value, shape)
        size = np.sqrt((terms * terms).sum()) + LEAST
        return float(abs(terms.sum() - self.product(key)) / size)

    def is_named(self, name, value):
        """Return True if `value` is the gradient of a variable of forward with this name."""
        return any(self.error(key, value) <= CLOSE for key in self.sizes.get(value.size, ())
                   if normalise_name(self.given_to(key)) == name)

    def name(self, value):
        """Return the expression of forward whose gradient is `value` or its transpose, or ""."""
        for key in self.sizes.get(value.size, ()):
            if self.runs.budget.over:
                break
            if self.error(key, value) <= CLOSE or self.error(key, value.T) <= CLOSE:
                return self.given_to(key) or self.places[key[0]].text
        return ""


def is_similar_shape(one, two):
    """Return True if two shapes are equal, except for axes of length 1 and merged axes."""
    one, two = [n for n in one if n != 1], [n for n in two if n != 1]
    return one == two or bool(one and two) and one[-1] == two[-1] and np.prod(one) == np.prod(
        two) and min(len(one), len(two)) <= 2

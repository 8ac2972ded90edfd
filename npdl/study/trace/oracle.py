"""The true gradients of everything that a forward computes, and whether a value is one of them.

The gradient of a value is known by its product with a random direction: the slope of the loss, the
value shifted where it is computed, or where it is used. So each use and each time step stands
apart.
"""

import functools
import re
from collections import defaultdict

import numpy as np

from npdl.backend import stream

STEPS = (1e-3, 1e-5)            # of differences of the fourth order; the second where they disagree
CLOSE = 1e-7                    # of a product with a direction
KINK = 1e-2                     # of a slope: by so much it differs on the two sides
MOST = 400                      # values of one size whose gradients are looked up
KEY, GRADS = re.compile(r".*\['(\w+)'\]"), re.compile(r"\bgrads?\['\w+'\]")
USES = 40                       # of one value, of which sums are looked up


def slope(loss, steps=STEPS):
    """Return the derivative of loss(h) at 0; NaN where two step sizes disagree, as at a kink."""
    for h in steps:
        high, low = [loss(h), loss(2 * h)], [loss(-h), loss(-2 * h)]
        one, two = (high[0] - low[0]) / (2 * h), (high[1] - low[1]) / (4 * h)
        found = (4 * one - two) / 3
        if abs(one - two) <= 1e-4 * abs(found) + 1e-8 * (1 + abs(high[0]) * 1e-6 / h):
            return found
    return np.nan


@functools.lru_cache(maxsize=256)
def direction(shape):
    return stream(0, 5, *shape).standard_normal(shape)


def plain(name):
    """Return a name for comparison: xhat for self.x_hat, cache['x_hat'] and x_hat[t]."""
    key = KEY.match(name)
    return (key[1] if key else name.split("[")[0].split(".")[-1]).replace("_", "")


def stems(name):
    """Return the names whose gradient a name may be: x for dx, d_x, gx, grad_x, x_grad, x.grad."""
    if name.endswith(".grad") or GRADS.search(name):
        return [plain(name.removesuffix(".grad"))]
    text = plain(name)
    found = [text.removesuffix(end) for end in ("grad", "bar") if text.endswith(end)]
    found += [text.removeprefix(begin) for begin in ("grad", "d", "g") if text.startswith(begin)]
    return [stem for stem in dict.fromkeys(found) if stem]


class Oracle:
    """The true gradients of the values that the forward of Runs computes."""

    def __init__(self, runs):
        self.runs = runs
        self.places = runs.watch.places
        runs.loss(only=set(range(len(self.places))), record=True)
        self.values = runs.watch.seen
        self.slopes, self.known = {}, {}
        self.sizes = defaultdict(list)
        for key, value in self.values.items():
            self.sizes[value.size].append(key)
        self.bytes = {(v.size, v.tobytes()) for v in self.values.values()}

    def product(self, key):
        """Return the inner product of a value's gradient with its direction."""
        if key not in self.slopes:
            u = direction(self.values[key].shape)
            self.slopes[key] = self._slope(key, u)
        return self.slopes[key]

    def _slope(self, key, u):
        try:
            return slope(lambda h: self.runs.loss(only={key[0]}, add={key: h * u}))
        except Exception:
            return np.nan

    def is_kink(self, key):
        """Return True if the one-sided derivatives along a value's direction differ."""
        u, h = direction(self.values[key].shape), STEPS[-1]
        low, here, high = (self.runs.loss(only={key[0]}, add={key: by * u}) for by in (-h, 0, h))
        return not abs(low + high - 2 * here) <= KINK * h * (1 + abs(high - low) / h)

    def is_forwards(self, value):
        """Return True if forward computed this same value."""
        return (value.size, np.array(value, float).tobytes()) in self.bytes or any(
            np.allclose(self.values[k].ravel(), np.ravel(value), 1e-9, 1e-12)
            for k in self.sizes.get(value.size, ()))

    def given_to(self, key):
        """Return the name that forward gives a value; in `a, b = f(x)`, a is the first."""
        names = self.places[key[0]].names
        return names[key[1] % len(names)] if names else ""

    def is_of(self, key, value):
        """Return True if `value` is the gradient of forward's value `key`."""
        return self.error(key, value) <= CLOSE

    def error(self, key, value):
        """Return the relative error of `value` as the gradient of forward's value `key`.

        The error is inf for another shape, and NaN if the gradient is unknown.
        """
        shape = self.values[key].shape
        if not alike(shape, value.shape):
            return np.inf
        return self._error(self.product(key), shape, value)

    def _error(self, product, shape, value):
        terms = direction(shape) * np.reshape(value, shape)
        return float(abs(terms.sum() - product) / (np.sqrt((terms * terms).sum()) + 1e-3))

    def _agrees(self, product, shape, value):
        return self._error(product, shape, value) <= CLOSE

    def is_named(self, name, value):
        """Return True if a value is the gradient of a forward variable called `name`."""
        return any(self.is_of(key, value) for key in self.sizes.get(value.size, ())
                   if plain(self.given_to(key)) == name)

    def name(self, value):
        """Return the forward expression whose gradient is `value` or its transpose, or ""."""
        turned = [value] if value.ndim < 2 else [value, value.T, np.swapaxes(value, -1, -2)]
        for shape, product, text in self._of_size(value.size):
            for v in turned[: len(turned) if value.ndim != 2 else 2]:
                if alike(shape, v.shape) and self._agrees(product, shape, v):
                    return text
        return ""

    def _of_size(self, size):
        """Return [(shape, product, source)] of a size's values, and of sums of uses in a row."""
        if size in self.known:
            return self.known[size]
        keys = sorted(self.sizes.get(size, ()), key=lambda k: not self.places[k[0]].root)[:MOST]
        found, uses = [], defaultdict(list)
        for key in sorted(keys, key=list(self.values).index):
            if self.runs.budget.over:
                break
            place, shape = self.places[key[0]], self.values[key].shape
            text = self.given_to(key) or place.text
            found.append((shape, self.product(key), text))
            if not place.root:
                uses[text, shape].append(self.product(key))
        for (text, shape), products in uses.items():
            sums = np.cumsum([0.0, *products[:USES]])
            found += [(shape, sums[j] - sums[i], text) for i in range(len(sums))
                      for j in range(i + 2, len(sums))]
        self.known[size] = found
        return found


def alike(one, two):
    """Return True if shapes are equal except for axes of length 1 and merged neighbours."""
    one, two = [n for n in one if n != 1], [n for n in two if n != 1]
    return one == two or bool(one and two) and one[-1] == two[-1] and np.prod(one) == np.prod(
        two) and min(len(one), len(two)) <= 2

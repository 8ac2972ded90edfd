"""Numerical derivatives that know how far they can be trusted.

A `Line` is a function moved along one direction, usually one entry of one array: at each step h it
is evaluated at -2h, -h, h and 2h. With the value in the middle these five points give

    the derivative      (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, off by h^4
    the bend            what the two sides differ by, beyond a smooth curve's: h^3, at a kink O(1)
    the noise           what rounding, of the outputs or of numbers near 1, can do to it

One step is enough to agree with a gradient to seven digits. To disagree with it, or to say
anything at a kink, takes two steps that agree with each other: `Line.derivative` tries steps from
1e-7 to 0.3 of the array's size. Where none do, the derivative is not known, and the reason is said.
Outputs are subtracted before they are weighted and summed, which keeps their last digits.
"""

from dataclasses import dataclass

import numpy as np

LIMIT = 1e-7                    # the relative error that is allowed; of outputs that are no float64
                                # the root of their eps: 3e-4 for float32
STEP = 5e-4                     # of the size of the array, at level 0
FINER = 8                       # a level down divides the step by this
LEVELS = (0, 1, -1, 2, -2, 3, -3, 4)
SURE = 4                        # of its doubts is what a derivative is believed to
KINK = 1e-3                     # a bend of more than this part of the scale is looked into


@dataclass
class Derivative:
    """`value` is known to `doubt`; `scale` is the sum of the sizes of the parts that it is
    summed from, one for each entry of the outputs. `reason` says why it is not known, or is ""."""

    value: float
    doubt: float
    scale: float
    reason: str = ""


class Line:
    """The outputs along one direction.

    at        at(t) returns the outputs, a list of arrays, t away from where they are now
    base      the outputs there
    weights   their upstream gradients: the derivative is that of sum weights * outputs
    size      of the numbers that are moved: steps are relative to it
    """

    def __init__(self, at, base, weights, size=1.0):
        self.at, self.base, self.weights = at, base, weights
        self.size = size if np.isfinite(size) and size > 0 else 1.0
        self.limit, self._found = limit_of(base), {}

    def points(self, level):
        """(value, scale, bend, noise), one of each for every output, at one level of steps."""
        if level not in self._found:
            h = self.size * STEP / FINER**level
            with np.errstate(all="ignore"):
                around = [[np.array(a, float) for a in self.at(t)] for t in (h, -h, 2 * h, -2 * h)]
                self._found[level] = np.array([
                    five_points(h, weight, middle, *outputs) for weight, middle, *outputs
                    in zip(self.weights, self.base, *around, strict=True)]).T
        return self._found[level]

    def parts(self, level=0):
        """What each entry of each output adds to the derivative: a list of arrays."""
        h = self.size * STEP / FINER**level
        a, b, c, d = (self.at(t) for t in (h, -h, 2 * h, -2 * h))
        return [w * (8 * (p - q) - (r - s)) / (12 * h)
                for w, p, q, r, s in zip(self.weights, a, b, c, d, strict=True)]

    def derivative(self, used=slice(None), floor=0.0):
        """The Derivative by the two neighbouring steps that agree best, for some of the outputs.

        A derivative smaller than `floor` need be known no better than that one would be.
        """
        best = Derivative(np.nan, np.inf, 0.0)
        known = {}
        for level in LEVELS:
            known[level] = self.points(level)[:, used].sum(1)
            for coarse, fine in ((level, level + 1), (level - 1, level)):
                if coarse not in known or fine not in known:
                    continue
                value, scale, bend, noise = known[coarse]
                doubt = abs(value - known[fine][0]) + bend + noise
                if doubt < best.doubt:
                    best = Derivative(value, doubt, scale)
            if best.doubt <= self.limit / 10 * max(best.scale, floor):
                return best
        if not best.doubt <= self.limit * max(best.scale, floor):
            best.reason = self._reason(used, known, best)
        return best

    def _reason(self, used, known, best):
        """Why no two steps agree."""
        middle = self.base[used] if isinstance(used, slice) else [self.base[i] for i in used]
        if not all(np.isfinite(a).all() for a in middle):
            return "the outputs are not finite"
        fine = [known[level] for level in LEVELS if level >= 1]
        if not np.isfinite(best.value):
            return "the outputs are not finite beside it"
        bends = [bend for _, scale, bend, noise in fine if bend > KINK * scale and bend > noise]
        if len(bends) == len(fine):
            return "a jump: the outputs are not continuous here" if bends[-1] > FINER * bends[0] \
                else f"a kink: the slopes of its two sides differ by {bends[-1]:.2g}"
        if best.doubt > 100 * max(noise for *_, noise in known.values()):
            return f"two steps differ by {best.doubt:.1g}: the slope itself changes abruptly here"
        return (f"rounding hides it: two steps differ by {best.doubt:.1g}; the numbers are too "
                "large, too small or too uneven")


def limit_of(outputs):
    """The relative error that is allowed for the derivatives of these outputs."""
    eps = max((np.finfo(np.asarray(a).dtype).eps for a in outputs), default=0.0)
    return LIMIT if eps <= np.finfo(float).eps else float(np.sqrt(eps))


def five_points(h, weight, middle, a, b, c, d):
    """(derivative, scale, bend, noise) of one output from its arrays at h, -h, 2h and -2h."""
    weight, middle = np.asarray(weight), np.asarray(middle)
    slope = weight * (8 * (a - b) - (c - d)) / (12 * h)
    near, far = (a - middle + (b - middle)) / h, (c - middle + (d - middle)) / (2 * h)
    size = np.maximum(np.abs(middle), 1)            # log(1 + x) rounds as 1 does, however small
    rounding = np.finfo(middle.dtype).eps * np.abs(weight) * size / h
    bend = np.abs(weight * (far - 2 * near)) - 8 * rounding
    return slope.sum(), np.abs(slope).sum(), bend.clip(0).sum(), length(rounding)


def length(array):
    """The Euclidean length of an array, of any size of numbers."""
    largest = np.abs(array).max(initial=0)
    return largest * np.sqrt(((array / largest) ** 2).sum()) if largest > 0 else largest


def moved(array, index, run):
    """at(t) for a Line: what `run()` returns, a list of arrays, with array[index] moved by t.

    `index` may be an array of the array's shape: a direction. The array is put back each time.
    """
    def at(t):
        before = array.copy()
        if isinstance(index, np.ndarray):
            array[...] = before + t * index
        else:
            array[index] = before[index] + t
        try:
            return [np.array(a) for a in run()]         # an output may be the input itself
        finally:
            array[...] = before
    return at

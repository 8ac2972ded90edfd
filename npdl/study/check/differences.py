"""Compute finite differences and estimate their uncertainty.

A `Direction` is a function f of a step along one direction, usually along one entry of one array.
For a step h the function is evaluated at -2h, -h, h and 2h. With f(0) these values give

    the derivative      (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, with an error of O(h^4)
    the scale           the sum of the magnitudes of the derivatives of all output entries
    the bend            the difference of the derivatives from the left and from the right, which is
                        O(h^3) for a smooth function and O(1) at a kink
    the noise           the largest possible effect of rounding

A gradient is right if it agrees with the derivative for one step size. It is wrong only if two step
sizes agree with each other, but not with the gradient. `Direction.compute_derivative` tries steps
from 1e-7 to 0.3 of the array's largest entry. If no two steps agree, the derivative is unknown.
Outputs are subtracted before they are weighted and summed, which reduces the effect of rounding.
"""

from dataclasses import dataclass

import numpy as np

LIMIT = 1e-7                    # the allowed relative error for float64 outputs; for float32 it is
                                # the square root of the machine epsilon, 3e-4
STEP = 5e-4                     # the step at level 0, relative to the array's largest entry
FINER = 8                       # the next level divides the step by this
LEVELS = (0, 1, -1, 2, -2, 3, -3, 4)
SURE = 4                        # the error of a derivative is at most this times its uncertainty
KINK = 1e-3                     # a bend larger than this, relative to the scale, is examined
FLOOR = 1e-3                    # a derivative below this fraction of the layer's largest one may be
                                # as uncertain as a derivative of that size
ROUNDING = 1e-13                # allowed rounding error of a backward, as a fraction of the layer's
                                # largest derivative


@dataclass
class Derivative:
    """A numerical derivative.

    value        the derivative, computed by finite differences
    uncertainty  an estimate of the error of `value`
    allowed      a gradient is right if it differs from `value` by at most this much
    reason       why the derivative is unknown, or ""
    """

    value: float
    uncertainty: float
    allowed: float
    reason: str = ""

    def compute_error_ratio(self, computed):
        """Return |computed - value| / allowed; a ratio above 1 means that `computed` is wrong."""
        if computed == self.value or np.isnan(self.value):
            return 0.0
        found = abs(computed - self.value) / self.allowed
        return float(found) if np.isfinite(found) else np.inf


class Direction:
    """The outputs of a layer as a function of a step t along one direction.

    outputs_at  a function; outputs_at(t) returns the outputs, a list of arrays
    base        the outputs at t = 0
    weights     upstream gradients of the outputs; the sum of weights * outputs is differentiated
    size        the largest entry of the perturbed array; steps are relative to this number
    levels      {level: the result of estimate_at_level}, as far as it is computed
    """

    def __init__(self, outputs_at, base, weights, size=1.0):
        self.outputs_at, self.base, self.weights = outputs_at, base, weights
        self.size = size if np.isfinite(size) and size > 0 else 1.0
        self.limit, self.levels = choose_tolerance(base), {}

    def estimate_at_level(self, level):
        """Return the derivative, scale, bend and noise of each output, as an array (4, outputs).

        `level` is the number of the step size (LEVELS).
        """
        if level not in self.levels:
            h = self.size * STEP / FINER**level
            with np.errstate(all="ignore"):
                around = [[np.array(a, float) for a in self.outputs_at(t)]
                          for t in (h, -h, 2 * h, -2 * h)]
                self.levels[level] = np.array([
                    estimate_derivative(h, weight, middle, *outputs) for weight, middle, *outputs
                    in zip(self.weights, self.base, *around, strict=True)]).T
        return self.levels[level]

    def compute_derivative(self, outputs=slice(None), largest_derivative=0.0, is_quick=False):
        """Return the Derivative from the two neighbouring step sizes whose results agree best.

        outputs             the indices of the outputs whose weighted sum is differentiated
        largest_derivative  the largest derivative of the layer; for a much smaller derivative, a
                            larger uncertainty is accepted
        is_quick            True accepts the first step size if its uncertainty is small
        """
        known, best, floor, reason = {}, (np.inf, np.nan, 0.0), FLOOR * largest_derivative, ""
        for level in LEVELS:
            known[level] = self.estimate_at_level(level)[:, outputs].sum(1)
            value, scale, bend, noise = known[level]
            size = max(scale, floor)
            if is_quick and level == 0 and (
                    not size or bend <= KINK * size and SURE * noise <= self.limit * size):
                best = noise, value, scale
                break
            for coarse, fine in ((level, level + 1), (level - 1, level)):
                if coarse in known and fine in known:
                    value, scale, bend, noise = known[coarse]
                    uncertainty = abs(value - known[fine][0]) + bend + noise
                    best = min(best, (uncertainty, value, scale), key=lambda found: found[0])
            if best[0] <= self.limit / 10 * max(best[2], floor):
                break
        else:
            if not best[0] <= self.limit * max(best[2], floor):
                reason = _explain_unknown_derivative(known, best[0])
        uncertainty, value, scale = best
        allowed = self.limit * scale + SURE * uncertainty + ROUNDING * largest_derivative
        return Derivative(value, uncertainty, allowed, reason)


def _explain_unknown_derivative(estimates, uncertainty):
    """Return a clause that says why no two step sizes agree.

    estimates    {level: (derivative, scale, bend, noise)}
    uncertainty  the smallest uncertainty of a derivative; it is infinite for outputs with NaN
    """
    if not np.isfinite(uncertainty):
        return "the outputs are not finite"
    fine = [estimates[level] for level in LEVELS if level >= 1]
    if all(bend > max(KINK * scale, noise) for _, scale, bend, noise in fine):
        return ("the derivatives from the left and from the right differ by "
                f"{fine[-1][2]:.2g} (a kink)")
    return (f"the derivatives with two step sizes differ by {uncertainty:.1g}: the derivative "
            "changes abruptly here, or rounding hides it")


def choose_tolerance(outputs):
    """Return the allowed relative error of the derivatives of outputs, a list of arrays."""
    eps = max((np.finfo(np.asarray(a).dtype).eps for a in outputs), default=0.0)
    return LIMIT if eps <= np.finfo(float).eps else float(np.sqrt(eps))


def estimate_derivative(h, weight, at_0, plus_h, minus_h, plus_2h, minus_2h):
    """Estimate the derivative of one output from its values at 0, h, -h, 2h and -2h.

    `weight` is the upstream gradient. Returns (derivative, scale, bend, noise); the module's
    docstring defines these numbers.
    """
    weight, at_0 = np.asarray(weight), np.asarray(at_0)
    slope = weight * (8 * (plus_h - minus_h) - (plus_2h - minus_2h)) / (12 * h)
    near = (plus_h - at_0 + (minus_h - at_0)) / h
    far = (plus_2h - at_0 + (minus_2h - at_0)) / (2 * h)
    size = np.maximum(np.abs(at_0), 1)              # a small log(1 + x) has the rounding of 1
    rounding = np.finfo(at_0.dtype).eps * np.abs(weight) * size / h
    bend = np.abs(weight * (far - 2 * near)) - 8 * rounding
    return slope.sum(), np.abs(slope).sum(), bend.clip(0).sum(), np.linalg.norm(rounding)


def make_perturbed_run(array, index, run):
    """Return a function run_at(t): add t to array[index], and return copies of run()'s arrays.

    If `index` is an array (a direction), t * index is added. The array is restored after each call.
    """
    def run_at(t):
        before = array.copy()
        if isinstance(index, np.ndarray):
            array[...] = before + t * index
        else:
            array[index] = before[index] + t
        try:
            return [np.array(a) for a in run()]         # an output may be the input itself
        finally:
            array[...] = before
    return run_at

"""How far apart two arrays are: what a gradient, an equation or another library's number is held
against."""

import math

import numpy as np


def deviation(found, wanted, least=0.0):
    """The largest difference of two arrays, as a share of the largest finite entry of `wanted`, or
    of `least` where that is larger. Infinity for other shapes, and for NaN and infinities that are
    not in the same places.
    """
    found, wanted = (a.astype(float) if a.dtype.kind in "biu" else a
                     for a in (np.asarray(found), np.asarray(wanted)))
    if found.shape != wanted.shape:
        return math.inf
    with np.errstate(all="ignore"):
        error, size = np.abs(found - wanted).max(initial=0), np.abs(wanted).max(initial=0)
        if not math.isfinite(error):
            odd = ~(np.isfinite(found) & np.isfinite(wanted))
            if not np.array_equal(found[odd], wanted[odd], equal_nan=True):
                return math.inf
            error = np.abs(found - wanted)[~odd].max(initial=0)
            size = np.abs(wanted[~odd]).max(initial=0)
        return float(error / max(size, least)) if error else 0.0

"""Measure the relative error of an array."""

import math

import numpy as np


def relative_error(found, expected, min_scale=0.0):
    """Return the largest absolute difference of two arrays, relative to max |expected|.

    If max |expected| is below `min_scale`, the error is relative to `min_scale`. The error is
    infinite if the shapes differ, or if the arrays differ where one of them is NaN or infinite.
    """
    found, expected = (a.astype(float) if a.dtype.kind in "biu" else a
                       for a in (np.asarray(found), np.asarray(expected)))
    if found.shape != expected.shape:
        return math.inf
    with np.errstate(all="ignore"):
        error, size = np.abs(found - expected).max(initial=0), np.abs(expected).max(initial=0)
        if not math.isfinite(error):
            odd = ~(np.isfinite(found) & np.isfinite(expected))
            if not np.array_equal(found[odd], expected[odd], equal_nan=True):
                return math.inf
            error = np.abs(found - expected)[~odd].max(initial=0)
            size = np.abs(expected[~odd]).max(initial=0)
        return float(error / max(size, min_scale)) if error else 0.0

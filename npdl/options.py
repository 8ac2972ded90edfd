"""Checks of options: the numbers, names and flags that constructors and functions take.

They raise InputError. Every message is one line: what was given, and what is allowed.
"""

import math
import numbers

import numpy as np

from npdl.exceptions import InputError

FLOATS = ("float32", "float64", "float")
LARGEST_INTEGER = 2**63 - 1         # of NumPy's int64


def is_integer(value):
    """Return True if a value is an integer, but not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def require_bool(**flags):
    """Raise InputError unless every named value is True or False."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} = {value!r}; it must be True or False")


def require_dtype(dtype):
    """Raise InputError unless `dtype` is float32 or float64.

    In float16 an optimizer's eps of 1e-8 is rounded to 0, so the first step could divide 0 by 0.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(
        dtype, "__name__", "")
    if name not in FLOATS:
        raise InputError(f"dtype = {dtype!r}; it must be 'float32' or 'float64'")


def require_number(name, value, is_allowed, requirement):
    """Raise InputError unless `value` is a real number (not a bool) and is_allowed(value) is true.

    `requirement` ends the message, and describes the allowed values.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not is_allowed(value):
        raise InputError(f"{name} = {value!r}; it must be {requirement}")


def _make_requirement(is_allowed, requirement):
    """Return a function that raises InputError if one of its keyword arguments isn't allowed."""
    def require(**values):
        for name, value in values.items():
            require_number(name, value, is_allowed, requirement)
    return require


# These raise InputError unless every named number is valid. Example: require_positive(width=3).
require_positive = _make_requirement(lambda n: is_integer(n) and n >= 1, "a positive integer")
require_above_0 = _make_requirement(lambda x: 0 < x < math.inf, "a finite number above 0")
require_not_negative = _make_requirement(lambda x: 0 <= x < math.inf, "a finite number, 0 or more")
require_below_1 = _make_requirement(lambda x: 0 <= x < 1, "at least 0 and below 1")
require_fraction = _make_requirement(lambda x: 0 < x <= 1, "above 0 and at most 1")


def checked_integer(name, value, low, high=LARGEST_INTEGER):
    """Return `value` as an int. Raise InputError unless it is an integer from `low` to `high`."""
    require_number(name, value, lambda n: is_integer(n) and low <= n <= high,
                   f"an integer, {low} or more" if high == LARGEST_INTEGER else
                   f"an integer from {low} to {high}")
    return int(value)


def require_choice(name, value, choices):
    """Raise InputError unless `value` is one of `choices`."""
    if not any(value is choice or (isinstance(value, str) and value == choice)
               for choice in choices):
        raise InputError(f"{name} = {value!r}; choose one of: {', '.join(map(str, choices))}")

"""Starting values, drawn on the host in float64 from a seeded stream, then cast.

A model's float32 and float64 versions therefore start from the same numbers.
"""

import math
import numbers

import numpy as np

from npdl.backend import stream, to_device
from npdl.errors import InputError

FLOATS = ("float16", "float32", "float64", "float", "longdouble")


def generator(rng):
    """`rng` itself if it is a generator; a fresh stream if it is a seed, an integer from 0 on."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise InputError(f"rng = {rng!r}; it must be a NumPy generator or a seed, 0 or more")
    return stream(rng, 0)


def uniform_fan_in(rng, fan_in, shape, dtype):
    """U(-b, b) with b = 1/sqrt(fan_in): how a linear map starts, weights and bias alike."""
    require_dtype(dtype)
    bound = 1.0 / math.sqrt(fan_in)
    return to_device(rng.uniform(-bound, bound, shape).astype(dtype))


def standard_normal(rng, shape, dtype):
    """N(0, 1): how an embedding table starts."""
    require_dtype(dtype)
    return to_device(rng.standard_normal(shape).astype(dtype))


def require_positive(**sizes):
    """Raise InputError unless every named size is a positive integer."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"{name} = {value!r}; it must be a positive integer")


def require_dtype(dtype):
    """Raise InputError unless `dtype` is one of floats."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(
        dtype, "__name__", "")
    if name not in FLOATS:
        raise InputError(f"dtype = {dtype!r}; it must be one of floats: 'float32' or 'float64'")


def require_number(name, value, allowed, wanted):
    """Raise InputError unless `value` is a real number, no bool, for which `allowed` holds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not allowed(value):
        raise InputError(f"{name} = {value!r}; it must be {wanted}")

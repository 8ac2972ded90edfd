"""Initialisation of parameters.

Values are drawn on the CPU in float64 from a seeded generator, and then converted. So the same seed
gives a model in float32 and a model in float64 the same values, up to rounding.
"""

import math

import numpy as np

from npdl.backend import make_rng, to_device, xp
from npdl.errors import InputError
from npdl.options import is_integer, require_dtype

# If `rng` is BLANK, parameters are zeros, which take no memory until they are written. A model that
# is read from a file is made in this way.
BLANK = object()


def generator(rng):
    """Return a new generator for the seed `rng`. A generator or BLANK is returned as it is."""
    if rng is BLANK or isinstance(rng, np.random.Generator):
        return rng
    if not is_integer(rng) or rng < 0:
        raise InputError(f"rng = {rng!r}; give a NumPy generator or an integer of at least 0")
    return make_rng(rng, 0)


def uniform_fan_in(rng, fan_in, shape, dtype):
    """Draw from U(-b, b), b = 1/sqrt(fan_in), for the weights and the bias of a linear layer."""
    require_dtype(dtype)
    if rng is BLANK:
        return xp.zeros(shape, dtype)
    bound = 1.0 / math.sqrt(fan_in)
    return to_device(rng.uniform(-bound, bound, shape).astype(dtype))


def constant(value, shape, dtype):
    """Return an array that is filled with a number, for gains and biases."""
    require_dtype(dtype)
    return xp.full(shape, value, dtype)


def standard_normal(rng, shape, dtype):
    """Draw from N(0, 1), for an embedding matrix."""
    require_dtype(dtype)
    if rng is BLANK:
        return xp.zeros(shape, dtype)
    return to_device(rng.standard_normal(shape).astype(dtype))

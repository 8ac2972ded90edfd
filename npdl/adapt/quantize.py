"""Quantized matrices: m-bit integers and a step size, stored in m bits each.

    quantize(W) = floor(W / step),  step = max|W| / (2^(m-1) - 1),  dequantize = step * codes

From QLoRA (Dettmers et al. 2023, arXiv:2305.14314): one step size for each block of values; NF4,
whose 16 levels are the quantiles of a normal distribution; and double quantization, which stores
the step sizes themselves in 8 bits.

`floor` rounds down, by half a step on average. "nearest" has no such bias and half the largest
error. A value that is a multiple of the step up to rounding is taken as that multiple, so that
quantizing a second time changes nothing.
"""

import math
from statistics import NormalDist

import numpy as np

from npdl.backend import xp
from npdl.errors import InputError, is_integer

ROUNDINGS = {"floor": "floor", "nearest": "rint", "nf4": None}
STEPS_BITS, STEPS_BLOCK = 8, 256                    # of double quantization


def normal_float():
    """Return the 16 levels of NF4: 8 quantiles of the standard normal above 0, 7 below, and 0.

    The quantiles' probabilities are evenly spaced from 1/2 to the mean of 1 - 1/32 and 1 - 1/30.
    The largest level is 1.
    """
    quantile, outer = NormalDist().inv_cdf, 1 - (1 / 32 + 1 / 30) / 2
    above = [quantile(p) for p in np.linspace(outer, 0.5, 9)[:-1]]
    below = [-quantile(p) for p in np.linspace(outer, 0.5, 8)[:-1]]
    return np.array(sorted([*above, 0.0, *below])) / above[0]


NF4 = normal_float()


def quantize(W, bits=4, rounding="floor", block=None):
    """Quantize W into integers of its shape, in -(2^(m-1) - 1) .. 2^(m-1) - 1, and step sizes (n,).

    bits      m, from 2 to 16
    rounding  "floor", "nearest" (halves to even), or "nf4", for 4 bits: the code
              is the number of the nearest of NF4's levels, less 8, and the step size the block's
              largest magnitude
    block     None: one step size for all of W. An integer k: one for every k numbers, counted
              row by row; the last block may be shorter.
    The step sizes have W's dtype, float32 for float16; a block of zeros has step size 0. Raises
    InputError for options outside these and for values that are not finite floats.
    """
    _check_options(bits, rounding, block)
    if W.dtype.kind != "f" or W.size == 0 or not bool(xp.isfinite(W).all()):
        raise InputError(
            f"quantize: {W.dtype} of shape {W.shape}; it must hold finite floats, at least one"
        )
    top = 2 ** (bits - 1) - 1
    wide = W.astype(np.promote_types(W.dtype, np.float32), copy=False)
    rows = _in_blocks(wide, block)                              # rows (n, k)
    largest = xp.abs(rows).max(-1, keepdims=True)
    divisor = xp.where(largest == 0, 1, largest).astype(rows.dtype, copy=False)
    if rounding == "nf4":
        middles = xp.asarray((NF4[1:] + NF4[:-1]) / 2)
        codes = (xp.searchsorted(middles, rows / divisor) - 8).astype(np.int8)
        return codes.reshape(-1)[: W.size].reshape(W.shape), largest.reshape(-1)
    # (W / max) * top is W / step with max|W| landing on top exactly. The four roundings between a
    # multiple of the step and its quotient would make a whole step of themselves.
    quotient = rows / divisor * top
    nearest = xp.rint(quotient)
    on_grid = xp.abs(quotient - nearest) <= 4 * np.finfo(rows.dtype).eps * xp.abs(nearest)
    codes = xp.where(on_grid, nearest, getattr(xp, ROUNDINGS[rounding])(quotient))
    codes = codes.astype(_integer(bits)).reshape(-1)[: W.size].reshape(W.shape)
    return codes, largest.reshape(-1) / rows.dtype.type(top)


def dequantize(codes, step, block=None, rounding="floor"):
    """Return step * codes, or step * level for "nf4", in the step sizes' dtype.

    This is the inverse of `quantize`, except for the rounding.
    """
    units = _in_blocks(codes, block)
    if rounding == "nf4":
        levels = units.reshape(-1).astype(np.int64) + 8
        units = xp.take_along_axis(xp.asarray(NF4), levels, 0).reshape(units.shape)
    values = units.astype(step.dtype) * step[:, None]
    return values.reshape(-1)[: codes.size].reshape(codes.shape)


def quantize_steps(step):
    """Quantize step sizes (n,) in their turn (double quantization).

    Returns codes of 8 bits (n,), and what dequantize_steps needs: the step size of every 256 codes,
    and the mean of all step sizes, which is subtracted first.
    """
    mean = step.mean()
    codes, scale = quantize(step - mean, STEPS_BITS, "nearest", STEPS_BLOCK)
    return codes, xp.concatenate([scale, mean[None]])


def dequantize_steps(codes, scale):
    """Return the step sizes (n,) that quantize_steps stored."""
    return dequantize(codes, scale[:-1], STEPS_BLOCK) + scale[-1]


def pack(codes, bits):
    """Pack codes of any shape into bytes, m bits for each code.

    The codes' lowest bits come first, eight codes to a byte, then their second bits, and so on:
    (m, ceil(size / 8)) of uint8.
    """
    size = codes.size
    shifted = xp.zeros(_padded(size), _unsigned(bits))
    shifted[:size] = codes.reshape(-1).astype(np.int32) + 2 ** (bits - 1)
    planes = xp.stack([(shifted >> i) & 1 for i in range(bits)]).astype(np.uint8)
    return xp.packbits(planes.reshape(-1)).reshape(bits, -1)


def unpack(packed, shape):
    """Return the codes of `shape` that `pack` put into bytes."""
    bits, size = len(packed), math.prod(shape)
    shifted = _together(packed[:8])
    if bits > 8:
        shifted = shifted.astype(np.uint16) | (_together(packed[8:]).astype(np.uint16) << 8)
    codes = shifted[:size] - _unsigned(bits)(2 ** (bits - 1))   # modulo 2^8 or 2^16
    return codes.view(_integer(bits)).reshape(shape)


def _together(planes):
    """Combine bit planes (m, n), bytes with one bit of eight codes, into codes (8 n,), for m <= 8.

    Eight codes are put together at once, as the bytes of one uint64.
    """
    codes = xp.unpackbits(planes[0]).view(np.uint64)            # a byte for each bit
    for i in range(1, len(planes)):
        codes = codes | (xp.unpackbits(planes[i]).view(np.uint64) << np.uint64(i))
    return codes.view(np.uint8)


def stored_bytes(size, bits, block=None, itemsize=4, double=False):
    """Return how many bytes `size` quantized numbers take: the packed codes and the step sizes.

    Double quantization stores each step size in a byte, with a float for each 256 of them and one
    more.
    """
    steps = 1 if block is None else -(-size // block)
    packed = bits * _padded(size) // 8
    if double:
        return packed + steps + (-(-steps // STEPS_BLOCK) + 1) * itemsize
    return packed + steps * itemsize


def _padded(size):
    return -(-size // 8) * 8


def _integer(bits):
    return np.int8 if bits <= 8 else np.int16


def _unsigned(bits):
    return np.uint8 if bits <= 8 else np.uint16


def _in_blocks(array, block):
    """Return the entries, row by row, as (blocks, block size), the last block padded with zeros."""
    flat = array.reshape(-1)
    if block is None:
        return flat[None]
    block = min(block, max(flat.size, 1))           # the last block is filled up, no further
    if flat.size % block == 0:
        return flat.reshape(-1, block)
    filled = xp.zeros(-(-flat.size // block) * block, flat.dtype)
    filled[: flat.size] = flat
    return filled.reshape(-1, block)


def _check_options(bits, rounding, block):
    if not is_integer(bits) or not 2 <= bits <= 16:
        raise InputError(f"bits = {bits!r}; it must be an integer from 2 to 16")
    if rounding not in tuple(ROUNDINGS):
        raise InputError(f"rounding = {rounding!r}; choose one of: {', '.join(ROUNDINGS)}")
    if rounding == "nf4" and bits != 4:
        raise InputError(f"bits = {bits} with rounding 'nf4'; its levels are 16: give bits = 4")
    if block is not None and (not is_integer(block) or block < 1):
        raise InputError(f"block = {block!r}; it must be a positive integer, or None")

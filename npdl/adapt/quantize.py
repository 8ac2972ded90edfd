"""Quantization: a matrix is stored as step sizes and as integers of m bits, the *codes*.

    codes = floor(W / step),   step = max|W| / (2^(m-1) - 1),   dequantize(codes) = step * codes

Three options are from QLoRA (Dettmers et al. 2023, arXiv:2305.14314). With blocks, each block of
values has its own step size. NF4 replaces the multiples of the step by 16 levels, quantiles of a
normal distribution. Double quantization stores the step sizes in 8 bits, too.

The rounding "floor" decreases the values by half a step on average. "nearest" has no such bias, and
its largest error is half as large. Both return the code n for the value n * step, even if this
product has a rounding error. So quantizing a dequantized matrix gives the same codes.
"""

import math
from statistics import NormalDist

import numpy as np

from npdl.backend import xp
from npdl.errors import InputError, describe
from npdl.options import checked_integer, require_choice, require_positive

ROUNDINGS = {"floor": "floor", "nearest": "rint", "nf4": None}
STEPS_BITS, STEPS_BLOCK = 8, 256    # bits and block size of step sizes in double quantization


def make_nf4_levels():
    """Return the 16 levels of NF4, scaled so that the largest is 1.

    The levels are 0, 8 positive quantiles of N(0, 1), and 7 negative levels. The probabilities of
    the 8 quantiles are evenly spaced between 1/2, which is left out, and 1 - (1/32 + 1/30) / 2. The
    negative levels are 7 quantiles of the same kind, with a minus sign.
    """
    quantile, outer = NormalDist().inv_cdf, 1 - (1 / 32 + 1 / 30) / 2
    above = [quantile(p) for p in np.linspace(outer, 0.5, 9)[:-1]]
    below = [-quantile(p) for p in np.linspace(outer, 0.5, 8)[:-1]]
    return np.array(sorted([*above, 0.0, *below])) / above[0]


NF4 = make_nf4_levels()


def quantize(W, bits=4, rounding="floor", block=None):
    """Return the codes of W (integers with the shape of W) and the step sizes, one for each block.

    bits      m, from 2 to 16; the codes are from -(2^(m-1) - 1) to 2^(m-1) - 1
    rounding  "floor", "nearest" (halves to even), or "nf4" for m = 4. With "nf4", the code is
              i - 8 if the nearest level is NF4[i], and the step size is the largest absolute
              value in the block
    block     the number of neighbouring entries (row by row) that share a step size. The last
              block may be shorter. With None, all entries share one step size
    The step sizes have the dtype of W, or float32 if W is float16. The step size of a block of
    zeros is 0. Raises InputError for other options, and if W has an entry that is not a finite
    float.
    """
    checked_integer("bits", bits, 2, 16)
    require_choice("rounding", rounding, ROUNDINGS)
    if rounding == "nf4" and bits != 4:
        raise InputError(f"bits = {bits} with rounding 'nf4', which has 16 levels; give bits = 4")
    if block is not None:
        require_positive(block=block)
    if W.dtype.kind != "f" or W.size == 0:
        raise InputError(f"quantize: W is {describe(W)}; give an array of floats that is not empty")
    if not bool(xp.isfinite(W).all()):
        raise InputError(f"quantize: W {W.shape} has an entry that is NaN or infinite; give finite "
                         "floats")
    top = 2 ** (bits - 1) - 1
    wide = W.astype(np.promote_types(W.dtype, np.float32), copy=False)
    rows = _split_blocks(wide, block)                              # rows (n, k)
    largest = xp.abs(rows).max(-1, keepdims=True)
    divisor = xp.where(largest == 0, 1, largest).astype(rows.dtype, copy=False)
    if rounding == "nf4":
        middles = xp.asarray((NF4[1:] + NF4[:-1]) / 2)
        codes = (xp.searchsorted(middles, rows / divisor) - 8).astype(np.int8)
        return codes.reshape(-1)[: W.size].reshape(W.shape), largest.reshape(-1)
    # (W / max) * top is W / step, and exactly `top` for max|W|. Four rounding errors separate a
    # multiple of the step from its quotient; without `on_grid`, floor would return one less.
    quotient = rows / divisor * top
    nearest = xp.rint(quotient)
    on_grid = xp.abs(quotient - nearest) <= 4 * np.finfo(rows.dtype).eps * xp.abs(nearest)
    codes = xp.where(on_grid, nearest, getattr(xp, ROUNDINGS[rounding])(quotient))
    codes = codes.astype(_code_dtypes(bits)[0]).reshape(-1)[: W.size].reshape(W.shape)
    return codes, largest.reshape(-1) / rows.dtype.type(top)


def dequantize(codes, step_sizes, block=None, rounding="floor"):
    """Return step * codes, or step * level for "nf4", in the dtype of `step_sizes`.

    This is the inverse of `quantize`, except for the rounding errors.
    """
    units = _split_blocks(codes, block)
    if rounding == "nf4":
        levels = units.reshape(-1).astype(np.int64) + 8
        units = xp.take_along_axis(xp.asarray(NF4), levels, 0).reshape(units.shape)
    values = units.astype(step_sizes.dtype) * step_sizes[:, None]
    return values.reshape(-1)[: codes.size].reshape(codes.shape)


def quantize_sizes(step_sizes):
    """Quantize the step sizes (n,) (double quantization).

    Returns codes of 8 bits (n,), and an array `scale` for dequantize_sizes. The mean of the
    sizes is subtracted before the quantization. `scale` holds one step size for each 256 codes,
    followed by the mean.
    """
    mean = step_sizes.mean()
    codes, scale = quantize(step_sizes - mean, STEPS_BITS, "nearest", STEPS_BLOCK)
    return codes, xp.concatenate([scale, mean[None]])


def dequantize_sizes(codes, scale):
    """Return the step sizes (n,) from the codes and the scale of quantize_sizes."""
    return dequantize(codes, scale[:-1], STEPS_BLOCK) + scale[-1]


def pack(codes, bits):
    """Pack codes of any shape into bytes. A code takes m = `bits` bits.

    Returns uint8 (m, ceil(size / 8)). Row i contains bit i of all codes, eight codes in a byte. Row
    0 has the lowest bits.
    """
    size = codes.size
    shifted = xp.zeros(-(-size // 8) * 8, _code_dtypes(bits)[1])
    shifted[:size] = codes.reshape(-1).astype(np.int32) + 2 ** (bits - 1)
    planes = xp.stack([(shifted >> i) & 1 for i in range(bits)]).astype(np.uint8)
    return xp.packbits(planes.reshape(-1)).reshape(bits, -1)


def unpack(packed, shape):
    """Return the codes with this shape from the bytes that `pack` returned."""
    bits, size = len(packed), math.prod(shape)
    shifted = _join_bit_planes(packed[:8])
    if bits > 8:
        shifted = shifted.astype(np.uint16) | (_join_bit_planes(packed[8:]).astype(np.uint16) << 8)
    signed, unsigned = _code_dtypes(bits)
    codes = shifted[:size] - unsigned(2 ** (bits - 1))          # modulo 2^8 or 2^16
    return codes.view(signed).reshape(shape)


def _join_bit_planes(planes):
    """Return the codes (8 n,) from `planes` (m, n): row i has bit i of all codes, m <= 8."""
    codes = xp.unpackbits(planes[0]).view(np.uint64)            # a byte for each bit
    for i in range(1, len(planes)):
        codes = codes | (xp.unpackbits(planes[i]).view(np.uint64) << np.uint64(i))
    return codes.view(np.uint8)


def count_bytes(size, bits, block=None, itemsize=4, double=False):
    """Return the number of bytes of `size` quantized entries, with their step sizes.

    With double quantization, each step size takes one byte. In addition, one float is stored for
    every 256 step sizes, and one for their mean.
    """
    sizes = 1 if block is None else -(-size // block)
    packed = bits * -(-size // 8)
    if double:
        return packed + sizes + (-(-sizes // STEPS_BLOCK) + 1) * itemsize
    return packed + sizes * itemsize


def _code_dtypes(bits):
    return (np.int8, np.uint8) if bits <= 8 else (np.int16, np.uint16)


def _split_blocks(array, block):
    """Reshape an array to (number of blocks, `block`), padded with zeros. None makes one block."""
    flat = array.reshape(-1)
    if block is None:
        return flat[None]
    block = min(block, max(flat.size, 1))           # the padding is shorter than a block
    if flat.size % block == 0:
        return flat.reshape(-1, block)
    filled = xp.zeros(-(-flat.size // block) * block, flat.dtype)
    filled[: flat.size] = flat
    return filled.reshape(-1, block)

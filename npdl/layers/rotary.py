"""Rotary position embeddings (Su et al. 2021, arXiv:2104.09864), and scalings for long contexts."""

import math
from dataclasses import dataclass

from npdl.backend import to_device, xp
from npdl.core import Cache, Layer
from npdl.errors import InputError, check_gradient, checked_positions
from npdl.options import LARGEST_INTEGER, require_above_0, require_choice, require_positive


@dataclass(frozen=True)
class LinearScaling:
    """scale_frequencies(f) = f / factor, for the frequencies f (d/2,) of Rotary.

    This has the same effect as a division of every position by `factor`. Chen et al. 2023,
    arXiv:2306.15595.
    """

    factor: float

    def __post_init__(self):
        require_above_0(factor=self.factor)

    def scale_frequencies(self, f):
        return f / self.factor


@dataclass(frozen=True)
class Llama3Scaling:
    """scale_frequencies(f) = (1 - s) f / factor + s f,   s = (L f / 2 pi - low) / (high - low).

    s is limited to the range from 0 to 1. The model was trained with contexts of L =
    `original_length` tokens. In such a context, a pair of entries with the frequency f (see Rotary)
    rotates L f / 2 pi times. If it rotates more than `high` times, it keeps f. If it rotates less
    than `low` times, its frequency becomes f / factor. In between, it becomes a weighted mean
    of both. Llama 3.1 to 3.3 use this.
    """

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    original_length: int = 8192

    def __post_init__(self):
        require_above_0(factor=self.factor, low=self.low, high=self.high)
        require_positive(original_length=self.original_length)
        if self.low >= self.high:
            raise InputError(f"low = {self.low} must be below high = {self.high}")

    def scale_frequencies(self, f):
        rotations = self.original_length * f / (2 * math.pi)
        s = xp.clip((rotations - self.low) / (self.high - self.low), 0, 1)
        return (1 - s) * f / self.factor + s * f


class Rotary(Layer):
    """Rotate the pair (x_i, x_{i+d/2}) by the angle position * f_i,   f_i = rope_theta^(-2i/d):
    (..., S, d) -> (..., S, d).

    If the positions of two vectors are moved by the same number, the inner product of the rotated
    vectors stays the same. `positions` are integers (S,), or of any shape that broadcasts to
    (..., S). None means 0 .. S-1. `scaling` (a LinearScaling, a Llama3Scaling, or None) changes the
    frequencies f (d/2,) for contexts that are longer than in training. The layer has no parameters.
    Its backward rotates the gradient in the opposite direction. Raises InputError if d is odd.
    """

    def __init__(self, d, rope_theta=10000.0, *, scaling=None):
        require_positive(d=d)
        if d % 2:
            raise InputError(f"d = {d}; rotary positions rotate pairs, so d must be even")
        require_above_0(rope_theta=rope_theta)
        require_choice("scaling", type(scaling), (type(None), LinearScaling, Llama3Scaling))
        self.d, self.rope_theta, self.scaling = d, rope_theta, scaling

    def forward(self, x, positions=None):
        positions = checked_positions("Rotary", x, positions, (LARGEST_INTEGER, self.d))
        cos, sin = self.cos_and_sin(positions, x.dtype)             # cos, sin (S, d/2)
        y = rotate(x, cos, sin)                                     # y (..., S, d)
        return y, Cache(cos=cos, sin=sin, shape=x.shape)

    def backward(self, dy, cache):
        cos, sin, half = cache.cos, cache.sin, self.d // 2
        check_gradient(dy, cache.shape, "Rotary")
        dy_a, dy_b = dy[..., :half], dy[..., half:]
        da = dy_a * cos + dy_b * sin                                # y_a = a cos - b sin
        db = dy_b * cos - dy_a * sin                                # y_b = a sin + b cos
        dx = xp.concatenate([da, db], -1)
        return dx

    def cos_and_sin(self, positions, dtype):
        """Return the cos and the sin (..., d/2) of the rotation angles at these positions (...)."""
        power = xp.arange(0, self.d, 2) / self.d                    # power (p,)
        f = 1 / self.rope_theta**power
        f = f if self.scaling is None else self.scaling.scale_frequencies(f)
        angle = to_device(positions)[..., None] * f                 # angle (S, p)
        return xp.cos(angle).astype(dtype), xp.sin(angle).astype(dtype)


def rotate(x, cos, sin):
    """Return x (..., S, d) with each pair (x_i, x_{i+d/2}) rotated. cos and sin are (S, d/2)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]                             # a (..., S, p)
    return xp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

"""Batch, instance and group normalisation.

The input is x (N, C, L), with N samples, C channels and L positions, or x (N, C). The layers differ
in the set of entries that share a mean and a variance. Layers that normalise over the last axis are
in npdl.layers.layer_norm.
"""

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.errors import InputError, check_gradient, check_shape
from npdl.functions import infinity_to_nan, mean_in_float64, sum_rows
from npdl.init import constant
from npdl.options import require_above_0, require_bool, require_fraction, require_positive


def non_channel_axes(x):
    """Return the axes of x except the channels: (0, 2) for (N, C, L), and (0,) for (N, C)."""
    return (0, *range(2, x.ndim))


def to_wide_floats(x):
    """Return x in float32 or wider, because squares overflow in float16 and in small integers."""
    return x.astype(xp.promote_types(x.dtype, xp.float32), copy=False)


def centre_and_moments(x, axes):
    """Return (x - mean, mean, biased variance). The moments are over `axes`, which keep length 1.

    The mean of large numbers has a rounding error, which would increase the variance. So the
    mean of the difference is subtracted once more.
    """
    mean = mean_in_float64(x, axes)
    rest = mean_in_float64(x - mean, axes)
    c = x - mean - rest
    return c, mean + rest, infinity_to_nan(mean_in_float64(c**2, axes))


def split_groups(x, groups):
    """Reshape (N, C) or (N, C, L) to (N, G, n): row g has the n entries of a group of channels."""
    return x.reshape(len(x), groups, -1)


def normalise_backward(dx_hat, x_hat, std, axes):
    """Return dx from dx_hat, for x_hat = (x - mean) / std, where mean and std depend on x."""
    # x_hat stays the same if a constant is added to x, and (except for eps) if x - mean is
    # scaled. So two parts of dx_hat are removed: its mean, and its part along x_hat.
    shift = mean_in_float64(dx_hat, axes)
    stretch = mean_in_float64(dx_hat * x_hat, axes)
    dx = (dx_hat - shift - stretch * x_hat) / std
    return dx


class ChannelNorm(Layer):
    """y = gain * x_hat + bias, with gain and bias (C,). Base class of the layers of this module.

    With affine=False the layer has no gain and no bias, and y = x_hat.
    """

    def __init__(self, channels, *, eps=1e-5, affine=True, dtype="float32"):
        require_positive(channels=channels)
        require_above_0(eps=eps)
        require_bool(affine=affine)
        self.gain = Param(constant(1, channels, dtype)) if affine else None
        self.bias = Param(constant(0, channels, dtype)) if affine else None
        self.channels, self.eps = channels, eps

    def scale_and_shift(self, x_hat):
        """Return y = gain * x_hat + bias, or x_hat if the layer has no gain."""
        if self.gain is None:
            return x_hat
        return per_channel(self.gain.data, x_hat) * x_hat + per_channel(self.bias.data, x_hat)

    def scale_and_shift_backward(self, dy, x_hat):
        """Return dx_hat from dy, and add to the gradients of gain and bias."""
        check_gradient(dy, x_hat.shape, type(self).__name__)
        if self.gain is None:
            return dy
        self.gain.grad += sum_rows((dy * x_hat).swapaxes(1, -1))    # y = gain * x_hat + bias
        self.bias.grad += sum_rows(dy.swapaxes(1, -1))
        return dy * per_channel(self.gain.data, dy)


class BatchNorm(ChannelNorm):
    """x_hat = (x - mean) / sqrt(var + eps),   y = gain * x_hat + bias,   for each channel.

    forward(x, training=True): x and y are (N, C, L) or (N, C). In training, mean and var are
    computed from the n values of a channel in the batch. The sum of squares in var is divided by n,
    not by n - 1. The running statistics are updated:

        running_mean += momentum * (mean - running_mean)
        running_var += momentum * (n / (n - 1) * var - running_var)

    With training=False, x is normalised with the running statistics, and they don't change. They
    are frozen Params, which are saved with the model but not updated by optimizers. Raises
    InputError if a channel has only one value in training, because x_hat would always be 0. Ioffe &
    Szegedy 2015, arXiv:1502.03167.
    """

    def __init__(self, channels, *, eps=1e-5, momentum=0.1, affine=True, dtype="float32"):
        require_fraction(momentum=momentum)
        super().__init__(channels, eps=eps, affine=affine, dtype=dtype)
        self.running_mean = Param(constant(0, channels, dtype), decay=False, trainable=False)
        self.running_var = Param(constant(1, channels, dtype), decay=False, trainable=False)
        self.momentum = momentum

    def forward(self, x, training=True):
        require_bool(training=training)
        check_shape("BatchNorm", x, f"(N, {self.channels}, L)", f"(N, {self.channels})")
        x = to_wide_floats(x)
        if training:
            c, mean, var = centre_and_moments(x, non_channel_axes(x))  # mean (1, C, 1) or (1, C)
            self.update_running(mean.reshape(-1), var.reshape(-1), x.size // self.channels)
        else:
            c = x - per_channel(self.running_mean.data, x)
            var = per_channel(self.running_var.data, x)
        std = xp.sqrt(var + self.eps)                       # std    (1, C, 1) or (1, C)
        x_hat = c / std                                     # x_hat  (N, C, L) or (N, C)
        y = self.scale_and_shift(x_hat)
        return y, Cache(x_hat=x_hat, std=std, training=training)

    def backward(self, dy, cache):
        x_hat, std = cache.x_hat, cache.std
        dx_hat = self.scale_and_shift_backward(dy, x_hat)
        if cache.training:
            dx = normalise_backward(dx_hat, x_hat, std, non_channel_axes(dy))
        else:
            dx = dx_hat / std                               # mean and std are fixed
        return dx

    def update_running(self, mean, var, count):
        """Update the running statistics with mean and var (C,), of `count` values per channel."""
        if count < 2:
            raise InputError("BatchNorm: training needs more than one value for each channel; "
                             "give a larger batch, or training=False")
        var = var * count / (count - 1)                     # unbiased
        self.running_mean.data[...] += self.momentum * (mean - self.running_mean.data)
        self.running_var.data[...] += self.momentum * (var - self.running_var.data)


class GroupNorm(ChannelNorm):
    """x_hat = (x - mean) / sqrt(var + eps),   y = gain * x_hat + bias.

    x and y are (N, C, L) or (N, C). The C channels form `groups` groups of neighbouring channels.
    Each group of each sample has its own mean and variance. With one group this is layer
    normalisation over channels and positions. Wu & He 2018, arXiv:1803.08494.
    """

    def __init__(self, channels, groups, *, eps=1e-5, affine=True, dtype="float32"):
        super().__init__(channels, eps=eps, affine=affine, dtype=dtype)
        require_positive(groups=groups)
        if channels % groups:
            raise InputError(f"groups = {groups} does not divide the {channels} channels; choose a "
                             "divisor")
        self.groups = groups

    def forward(self, x):
        check_shape("GroupNorm", x, f"(N, {self.channels}, L)", f"(N, {self.channels})")
        c, _, var = centre_and_moments(split_groups(to_wide_floats(x), self.groups), (2,))
        std = xp.sqrt(var + self.eps)                       # std    (N, G, 1)
        x_hat = (c / std).reshape(x.shape)
        y = self.scale_and_shift(x_hat)                     # y      (N, C, L) or (N, C)
        return y, Cache(x_hat=x_hat, std=std)

    def backward(self, dy, cache):
        dx_hat = split_groups(self.scale_and_shift_backward(dy, cache.x_hat), self.groups)
        x_hat = split_groups(cache.x_hat, self.groups)      # x_hat  (N, G, C/G * L)
        dx = normalise_backward(dx_hat, x_hat, cache.std, (2,))
        return dx.reshape(dy.shape)


class InstanceNorm(GroupNorm):
    """x_hat = (x - mean) / sqrt(var + eps),   y = gain * x_hat + bias.

    x and y are (N, C, L). Each channel of each sample has its own mean and variance over its L
    positions, so this is GroupNorm with one channel in each group. Raises InputError if L is 1,
    because every value would become 0. Ulyanov et al. 2016, arXiv:1607.08022.
    """

    def __init__(self, channels, *, eps=1e-5, affine=True, dtype="float32"):
        super().__init__(channels, channels, eps=eps, affine=affine, dtype=dtype)

    def forward(self, x):
        check_shape("InstanceNorm", x, f"(N, {self.channels}, L)")
        if x.shape[2] < 2:
            raise InputError(f"InstanceNorm: the input has shape {x.shape}; its last axis must "
                             "have at least 2 entries, or every value would become 0")
        return super().forward(x)


def per_channel(values, x):
    """Reshape (C,) to (1, C, 1) or (1, C), to broadcast against x."""
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))

"""Normalisation over other sets of axes than the last: batch, instance and group.

With x (N, C, L) - samples, channels, places - the kinds differ only in which entries share a mean
and a variance. `statistics` computes them for every kind; the layers here are built on it.
LayerNorm and RMSNorm, over the last axis, are in npdl.layers.norm.
"""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.errors import (
    InputError,
    check_gradient,
    check_real,
    require_dtype,
    require_number,
    require_positive,
)
from npdl.functions import sum_rows

KINDS = ("batch", "layer", "instance", "group", "rms")


def statistics(x, kind, groups=1):
    """Mean and biased variance of x (N, C, L) or (N, C), with the averaged axes kept as 1.

    kind "batch"     one for each channel: over samples and places      (1, C, 1) or (1, C)
         "layer"     one for each sample: over channels and places      (N, 1, 1) or (N, 1)
         "instance"  one for each sample and channel: over places       (N, C, 1)
         "group"     one for each sample and group of channels          (N, G, 1)
         "rms"       mean 0 and mean square, over the last axis         (N, C, 1) or (N, 1)
         a tuple of axes: over those. (Document 000, Question 1, as it is solved there, has
         (0,) for batch, (-1,) for layer and (1, 2) for instance; a transformer's LayerNorm
         is (-1,) too.)
    Raises InputError for another kind, for x that is neither 2-D nor 3-D, for "instance" on
    (N, C), where every entry would be its own mean, and for groups that do not divide C.
    """
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InputError(f"kind = {kind!r}; choose one of {', '.join(KINDS)}, or give axes")
        _check_dimensions(x, kind, kind == "instance")
    if kind == "rms":
        mean_square = (x * x).mean(-1, keepdims=True)
        return xp.zeros_like(mean_square), mean_square
    if kind == "group":
        x, axes = split_groups(x, groups), (2,)
    elif isinstance(kind, str):
        places = tuple(range(2, x.ndim))
        axes = {"batch": (0, *places), "layer": (1, *places), "instance": places}[kind]
    else:
        axes = tuple(kind)
    mean = x.mean(axes, keepdims=True)
    centred = x - mean
    var = (centred * centred).mean(axes, keepdims=True)
    return mean, var


def split_groups(x, groups):
    """(N, C, ...) -> (N, G, C/G * ...): neighbouring channels share a group."""
    require_positive(groups=groups)
    N, C = x.shape[:2]
    if C % groups:
        raise InputError(f"groups = {groups} does not divide the {C} channels")
    return x.reshape(N, groups, x.size // (N * groups))


def normalise_backward(dx_hat, x_hat, std, axes):
    """The gradient of x from that of x_hat = (x - mean) / std, mean and std taken from x."""
    shift = dx_hat.mean(axes, keepdims=True)            # x + a has the same x_hat as x ...
    stretch = (dx_hat * x_hat).mean(axes, keepdims=True)    # ... and (nearly) so has a * x
    dx = (dx_hat - shift - stretch * x_hat) / std
    return dx


class BatchNorm(Layer):
    """y = gain * (x - mean) / sqrt(var + eps) + bias, one mean and variance for each channel.

    forward(x, training=True): x (N, C, L) or (N, C). In training they are the batch's own (var
    biased, 1/n), and the running statistics move towards them by `momentum` (running_var towards
    the unbiased variance); otherwise they are the running ones, and nothing changes. The running
    statistics are frozen Params: saved with the model, unseen by optimizers. Ioffe & Szegedy 2015,
    arXiv:1502.03167. Raises InputError when a channel has one value only in training: it would
    always be normalised to 0.
    """

    def __init__(self, channels, eps=1e-5, momentum=0.1, affine=True, dtype="float32"):
        require_number("momentum", momentum, lambda value: 0 < value <= 1,
                       "above 0 and at most 1")
        _make_affine(self, channels, affine, dtype, eps)
        self.running_mean = Param(xp.zeros(channels, dtype), decay=False, trainable=False)
        self.running_var = Param(xp.ones(channels, dtype), decay=False, trainable=False)
        self.channels = channels
        self.eps = eps
        self.momentum = momentum

    def forward(self, x, training=True):
        _check_channels(x, self.channels, "BatchNorm")
        if training:
            mean, var = statistics(x, "batch")          # mean   (1, C, 1) or (1, C)
            self._update(mean.reshape(-1), var.reshape(-1), x.size // self.channels)
        else:
            mean = _per_channel(self.running_mean.data, x)
            var = _per_channel(self.running_var.data, x)
        std = xp.sqrt(var + self.eps)                   # std    (1, C, 1) or (1, C)
        x_hat = (x - mean) / std                        # x_hat  (N, C, L) or (N, C)
        y = _affine(self, x_hat)
        return y, Cache(x_hat=x_hat, std=std, training=training)

    def backward(self, dy, cache):
        dx_hat = _affine_backward(self, dy, cache.x_hat)
        if not cache.training:
            dx = dx_hat / cache.std                     # x_hat = (x - mean) / std, both fixed
            return dx
        axes = (0, *range(2, dy.ndim))
        dx = normalise_backward(dx_hat, cache.x_hat, cache.std, axes)
        return dx

    def _update(self, mean, var, count):
        if count < 2:
            raise InputError("BatchNorm: training needs more than one value for each channel; "
                             "give a larger batch, or training=False")
        keep, move = 1 - self.momentum, self.momentum
        running_mean, running_var = self.running_mean.data, self.running_var.data
        running_mean[...] = keep * running_mean + move * mean
        running_var[...] = keep * running_var + move * (count / (count - 1)) * var


class GroupNorm(Layer):
    """y = gain * (x - mean) / sqrt(var + eps) + bias, one mean for each sample and group.

    x (N, C, L) or (N, C); the C channels form `groups` groups of neighbours; gain and bias (C,).
    One group is layer normalisation over channels and places. Wu & He 2018, arXiv:1803.08494.
    """

    def __init__(self, channels, groups, eps=1e-5, affine=True, dtype="float32"):
        require_positive(groups=groups)
        _make_affine(self, channels, affine, dtype, eps)
        if channels % groups:
            raise InputError(f"groups = {groups} does not divide the {channels} channels")
        self.channels = channels
        self.groups = groups
        self.eps = eps

    def forward(self, x):
        _check_channels(x, self.channels, "GroupNorm")
        mean, var = statistics(x, "group", self.groups)     # mean   (N, G, 1)
        std = xp.sqrt(var + self.eps)                       # std    (N, G, 1)
        x_hat = ((split_groups(x, self.groups) - mean) / std).reshape(x.shape)
        y = _affine(self, x_hat)                            # y      (N, C, L) or (N, C)
        return y, Cache(x_hat=x_hat, std=std)

    def backward(self, dy, cache):
        dx_hat = _affine_backward(self, dy, cache.x_hat)
        x_hat = split_groups(cache.x_hat, self.groups)
        dx = normalise_backward(split_groups(dx_hat, self.groups), x_hat, cache.std, (2,))
        return dx.reshape(dy.shape)


class InstanceNorm(Layer):
    """y = gain * (x - mean) / sqrt(var + eps) + bias, one mean for each sample and channel.

    x (N, C, L) with more than one place; the statistics are always the sample's own.
    Ulyanov et al. 2016, arXiv:1607.08022.
    """

    def __init__(self, channels, eps=1e-5, affine=True, dtype="float32"):
        _make_affine(self, channels, affine, dtype, eps)
        self.channels = channels
        self.eps = eps

    def forward(self, x):
        _check_channels(x, self.channels, "InstanceNorm", places=True)
        if x.shape[2] < 2:
            raise InputError(f"InstanceNorm: the input has shape {x.shape}; its last axis must "
                             "be at least 2, or every value would become 0")
        mean, var = statistics(x, "instance")           # mean   (N, C, 1)
        std = xp.sqrt(var + self.eps)                   # std    (N, C, 1)
        x_hat = (x - mean) / std                        # x_hat  (N, C, L)
        y = _affine(self, x_hat)
        return y, Cache(x_hat=x_hat, std=std)

    def backward(self, dy, cache):
        dx_hat = _affine_backward(self, dy, cache.x_hat)
        dx = normalise_backward(dx_hat, cache.x_hat, cache.std, (2,))
        return dx


def _require_eps(eps):
    require_number("eps", eps, lambda value: 0 < value < math.inf, "a finite number above 0")


def _make_affine(layer, channels, affine, dtype, eps):
    require_positive(channels=channels)
    require_dtype(dtype)
    _require_eps(eps)
    layer.gain = Param(xp.ones(channels, dtype)) if affine else None
    layer.bias = Param(xp.zeros(channels, dtype)) if affine else None


def _per_channel(values, x):
    """(C,) as (1, C, 1) or (1, C), to broadcast against x."""
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))


def _affine(layer, x_hat):
    if layer.gain is None:
        return x_hat
    return _per_channel(layer.gain.data, x_hat) * x_hat + _per_channel(layer.bias.data, x_hat)


def _affine_backward(layer, dy, x_hat):
    check_gradient(dy, x_hat.shape, type(layer).__name__)
    if layer.gain is None:
        return dy
    layer.gain.grad += sum_rows((dy * x_hat).swapaxes(1, -1))   # y = gain * x_hat + bias
    layer.bias.grad += sum_rows(dy.swapaxes(1, -1))
    dx_hat = dy * _per_channel(layer.gain.data, dy)
    return dx_hat


def _check_dimensions(x, owner, places=False):
    check_real(owner, the_input=x)
    if x.ndim not in ((3,) if places else (2, 3)) or 0 in x.shape:
        wanted = "(N, C, L)" if places else "(N, C, L) or (N, C)"
        raise InputError(f"{owner}: the input has shape {x.shape}; it must be {wanted}, none 0")


def _check_channels(x, channels, owner, places=False):
    _check_dimensions(x, owner, places)
    if x.shape[1] != channels:
        raise InputError(f"{owner}: the input {x.shape} has {x.shape[1]} channels; it must have "
                         f"{channels}")

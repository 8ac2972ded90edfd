"""Losses for sequences, classes, numbers and distributions, and the exact-match accuracy.

The values of targets on a GPU are not checked, because the program would have to wait for the GPU.
For a target that is out of range, CuPy uses a wrong entry instead of raising an error.
"""

import math

import numpy as np

from npdl.backend import as_array, is_host, one_hot, to_host, xp
from npdl.core import Cache, Layer
from npdl.errors import (
    InputError,
    check_dtype_kinds,
    check_floats,
    check_gradient,
    check_shapes,
    checked_ids,
    short_repr,
)
from npdl.functions import log_softmax, subtract_one_hot, sum_without_overflow
from npdl.options import is_integer, require_choice, require_number

REDUCTIONS = ("none", "mean", "sum")


def answer_mask(targets, eq_positions, mask):
    """Return `mask` (B, S) with False up to and including the '=', which is at `eq_positions`."""
    return mask & (xp.arange(targets.shape[1]) > eq_positions[:, None])


class ReducedLoss(Layer):
    """Base class of losses that return a sum, a mean, or one loss for each sample or row."""

    def __init__(self, reduction="mean"):
        require_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction


class SequenceLoss(ReducedLoss):
    """loss = mean over samples of (mean over the unmasked targets of -log softmax(logits)[target]).

    forward(logits, targets, loss_mask): logits (B, S, V), integers targets (B, S), and bools
    loss_mask (B, S), which are True for the targets that count. For a language model they are False
    for padding. For equations, `answer_mask` computes them.

    average    "sample" as in the formula, or "token", which averages over all unmasked targets of
               the batch at once
    reduction  "mean", "sum" (of the samples), or "none", which returns one loss per sample (B,)
    A sample without an unmasked target has loss 0. Masked logits and targets have no effect, even
    if they are NaN or out of range. Raises InputError for shapes that do not fit, and for unmasked
    targets that are not integers in [0, V).
    """

    def __init__(self, reduction="mean", average="sample"):
        super().__init__(reduction)
        require_choice("average", average, ("sample", "token"))
        self.average = average

    def forward(self, logits, targets, loss_mask):
        check_floats("loss", logits=logits)
        check_loss_shapes(logits.shape, targets, loss_mask)
        targets = xp.where(loss_mask, targets, 0)
        if is_host():                                       # on a GPU, this would wait for it
            checked_ids(targets, logits.shape[-1], "targets")
        log_p = log_softmax(xp.where(loss_mask[..., None], logits, 0))  # log_p (B, S, V)
        nll = -xp.take_along_axis(log_p, targets[..., None], -1)[..., 0]    # nll (B, S)
        weight = self.weights(loss_mask.astype(logits.dtype))   # weight (B, S)
        loss = sum_without_overflow(nll * weight, 1)            # loss (B,)
        if self.reduction != "none":
            loss = loss.sum()
        return loss, Cache(log_p=log_p, targets=targets, weight=weight, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "SequenceLoss")
        log_p, targets = cache.log_p, cache.targets
        dloss = dloss[:, None] if self.reduction == "none" else dloss
        dnll = cache.weight * dloss                             # loss = sum nll * weight
        p_less = subtract_one_hot(xp.exp(log_p), targets)
        dlogits = p_less * dnll[..., None]                      # nll = -log_p[target]
        return dlogits

    def weights(self, unmasked):
        """Return the weights (B, S). `unmasked` is 1 for unmasked targets, and 0 for others."""
        if self.average == "sample":
            weight = unmasked / xp.maximum(unmasked.sum(1, keepdims=True), 1)
        else:
            weight = unmasked * (len(unmasked) / xp.maximum(sum_without_overflow(unmasked), 1))
        return weight / len(unmasked) if self.reduction == "mean" else weight


def exact_match(logits, targets, loss_mask, reduction="mean"):
    """Return the fraction of samples whose unmasked targets all have the largest logit.

    The arguments and errors are those of SequenceLoss.forward. With `reduction` "none", the result
    is 1 or 0 for each sample (B,). A target is wrong if one of its logits is NaN.
    """
    require_choice("reduction", reduction, REDUCTIONS)
    check_floats("exact_match", logits=logits)
    check_loss_shapes(logits.shape, targets, loss_mask)
    right = (most_probable(logits) == targets) | ~loss_mask
    return reduce_loss(right.all(1).astype(logits.dtype), reduction)


def most_probable(logits):
    """Return the indices (...) of the largest logits (..., V), or -1 where a logit is NaN."""
    top = logits.argmax(-1)                                     # the first NaN, if there is one
    largest = xp.take_along_axis(logits, top[..., None], -1)[..., 0]
    return xp.where(xp.isnan(largest), -1, top)


def loss_and_accuracy(logits, targets, eq_positions, mask, reduction="mean"):
    """Return the SequenceLoss and the exact-match accuracy of the right-hand sides of equations."""
    loss_mask = answer_mask(targets, eq_positions, mask)
    loss, _ = SequenceLoss(reduction).forward(logits, targets, loss_mask)
    return loss, exact_match(logits, targets, loss_mask, reduction)


class CrossEntropy(ReducedLoss):
    """loss = mean nll,   nll = -sum_v q_v log softmax(logits)_v,   q = one_hot(target).

    forward(logits, targets): logits (..., V), integers targets (...).
    ignored    a target that does not count, such as a padding id; it may be outside [0, V)
    smoothing  makes q = (1 - smoothing) one_hot(target) + smoothing / V
    reduction  "mean" over the targets that are not ignored, "sum", or "none", which returns one
               loss for each target (...)
    If all targets are ignored, the loss is 0. Raises InputError for shapes that do not fit, and for
    targets out of range.
    """

    def __init__(self, ignored=None, smoothing=0.0, reduction="mean"):
        super().__init__(reduction)
        require_number("smoothing", smoothing, lambda value: 0 <= value <= 1, "between 0 and 1")
        if ignored is not None:
            require_number("ignored", ignored, is_integer, "an integer or None")
        self.ignored = ignored
        self.smoothing = smoothing

    def forward(self, logits, targets):
        targets, loss_mask = self.mask_ignored(logits, targets)
        V = logits.shape[-1]
        log_p = log_softmax(xp.where(loss_mask[..., None], logits, 0))  # log_p (..., V)
        q = (1 - self.smoothing) * one_hot(targets, V, logits.dtype) + self.smoothing / V
        terms = q * xp.where(q > 0, log_p, 0)                       # 0 log 0 is 0
        nll = -terms.sum(-1)                                        # nll (...)
        weight = loss_mask.astype(logits.dtype)
        if self.reduction == "mean":
            weight = (weight / xp.maximum(sum_without_overflow(weight), 1)).astype(logits.dtype)
        loss = nll * weight
        if self.reduction != "none":
            loss = sum_without_overflow(loss)
        return loss, Cache(log_p=log_p, q=q, weight=weight, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "CrossEntropy")
        dnll = cache.weight * dloss                     # loss = sum nll * weight
        p = xp.exp(cache.log_p)
        dlogits = (p - cache.q) * dnll[..., None]       # nll = -sum q log_softmax(logits)
        return dlogits

    def mask_ignored(self, logits, targets):
        """Return the targets with ignored ones set to 0, and a mask that is False for these."""
        targets = checked_targets("loss", logits, targets)
        valid = xp.ones(targets.shape, bool) if self.ignored is None else targets != self.ignored
        return checked_ids(xp.where(valid, targets, 0), logits.shape[-1], "targets"), valid


class WeightedCrossEntropy(CrossEntropy):
    """loss = -sum_v w_v q_v log softmax(logits)_v: CrossEntropy with a weight for each class.

    `class_weights` w (V,) are numbers of at least 0. The targets q and the other arguments are
    those of CrossEntropy. The reduction "mean" divides the sum of the losses by the sum of
    w[target] over the targets that are not ignored, as torch.nn.CrossEntropyLoss(weight=w) does.
    """

    def __init__(self, class_weights, ignored=None, smoothing=0.0, reduction="mean"):
        super().__init__(ignored, smoothing, reduction)
        w = to_host(class_weights)
        if w.ndim != 1 or w.dtype.kind not in "iuf" or not ((w >= 0) & (w < math.inf)).all():
            raise InputError(f"class_weights = {short_repr(class_weights)}; they must be finite "
                             "numbers, 0 or more, one for each class")
        self.class_weights = tuple(w.tolist())
        self.soft = SoftCrossEntropy("none")

    def forward(self, logits, targets):
        targets, loss_mask = self.mask_ignored(logits, targets)
        V, w = logits.shape[-1], xp.asarray(self.class_weights, logits.dtype)   # w (V,)
        if len(w) != V:
            raise InputError(f"there are {len(w)} class_weights, but the logits have {V} classes; "
                             "give one weight for each class")
        q = (1 - self.smoothing) * one_hot(targets, V, logits.dtype) + self.smoothing / V
        nll, c_soft = self.soft.forward(xp.where(loss_mask[..., None], logits, 0), w * q)
        weight = loss_mask.astype(logits.dtype)
        if self.reduction == "mean":
            w_y = xp.take_along_axis(w, targets.reshape(-1), 0).reshape(targets.shape)  # w_y (...)
            total = sum_without_overflow(weight * w_y)
            weight = (weight / xp.where(total == 0, 1, total)).astype(logits.dtype)
        loss = nll * weight
        if self.reduction != "none":
            loss = sum_without_overflow(loss)
        return loss, Cache(soft=c_soft, weight=weight, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "WeightedCrossEntropy")
        dnll = cache.weight * dloss                         # loss = sum nll * weight
        dlogits, _ = self.soft.backward(dnll, cache.soft)   # nll = soft(logits, w * q)
        return dlogits


class SoftCrossEntropy(ReducedLoss):
    """nll = -sum_v q_v log softmax(logits)_v, where the targets q are probabilities.

    forward(logits, q): both are (..., V), and both get a gradient. For example, q are the
    probabilities that another model predicts (distillation). With class weights w, give w * q as q.
    `reduction` is "mean" (over all targets), "sum", or "none", which returns one loss for each
    target (...).
    """

    def forward(self, logits, q):
        check_shapes("loss", kinds="f", logits=(logits, "(..., V)"), q=(q, "(..., V)"))
        q = q.astype(np.promote_types(q.dtype, logits.dtype))       # also a copy for backward
        log_p = log_softmax(logits)                                 # log_p (..., V)
        terms = q * xp.where(q == 0, 0, log_p)                      # 0 log 0 is 0
        nll = -terms.sum(-1)                                        # nll (...)
        loss = reduce_loss(nll, self.reduction)
        return loss, Cache(log_p=log_p, q=q, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "SoftCrossEntropy")
        log_p, q = cache.log_p, cache.q
        dnll = reduce_loss_backward(dloss, self.reduction, log_p[..., 0])[..., None]
        p = xp.exp(log_p)
        total = q.sum(-1, keepdims=True)                            # total (..., 1)
        dlogits = (total * p - q) * dnll                            # nll = -sum q log p
        dq = -log_p * dnll
        return dlogits, dq


class StableMaxLoss(ReducedLoss):
    """loss = -log(s(x_y) / sum_v s(x_v)),   s(x) = x + 1 if x >= 0, else 1 / (1 - x).

    forward(logits, targets): logits x (..., V), integers targets y (...). s(x) grows linearly,
    while the exp(x) of softmax grows exponentially. If one logit is large, rounding the sum of
    softmax can lose the terms of all other logits. The sum of s loses them only at far larger
    logits. `reduction` is "mean", "sum" or "none", as in CrossEntropy. Raises InputError for shapes
    that do not fit, and for targets outside [0, V). Prieto et al. 2025, arXiv:2501.04697.
    """

    def forward(self, logits, targets):
        targets = checked_targets("stablemax", logits, targets)
        targets = checked_ids(targets, logits.shape[-1], "targets")
        below = logits < 0
        s = xp.where(below, 1 / (1 - xp.where(below, logits, 0)), logits + 1)   # s (..., V)
        total = s.sum(-1, keepdims=True)                                # total (..., 1)
        s_y = xp.take_along_axis(s, targets[..., None], -1)             # s_y (..., 1)
        nll = (xp.log(total) - xp.log(s_y))[..., 0]                     # nll (...)
        loss = reduce_loss(nll, self.reduction)
        return loss, Cache(s=s, below=below, total=total, s_y=s_y, targets=targets, loss=loss)

    def backward(self, dloss, cache):
        s = cache.s
        check_gradient(dloss, cache.loss.shape, "StableMaxLoss")
        dnll = reduce_loss_backward(dloss, self.reduction, cache.total[..., 0])[..., None]
        q = one_hot(cache.targets, s.shape[-1], s.dtype)
        ds = dnll * (1 / cache.total - q / cache.s_y)           # nll = log sum s - log s_y
        slope = xp.where(cache.below, s * s, 1).astype(s.dtype)     # (1 / (1 - x))' = s^2
        dlogits = ds * slope
        return dlogits


class SquaredError(ReducedLoss):
    """loss = factor * ||y - z||^2, with the norm over the last axis.

    forward(y, z): the output y and its target z are (..., D), and both get a gradient.
    factor     for example 1 or 1/2; with 1 / D the loss is that of torch.nn.MSELoss
    reduction  "mean" over all but the last axis, "sum", or "none", which returns one loss for each
               vector (...)
    Raises InputError if the shapes differ.
    """

    def __init__(self, factor=1.0, reduction="mean"):
        super().__init__(reduction)
        require_number("factor", factor, math.isfinite, "a finite number")
        self.factor = factor

    def forward(self, y, z):
        check_shapes("squared error", kinds="f", y=(y, "(..., D)"), z=(z, "(..., D)"))
        e = y - z                                                   # e (..., D)
        loss = reduce_loss(self.factor * sum_without_overflow(e * e, -1), self.reduction)
        return loss, Cache(e=e, loss=loss)

    def backward(self, dloss, cache):
        e = cache.e
        check_gradient(dloss, cache.loss.shape, "SquaredError")
        dsquare = reduce_loss_backward(dloss, self.reduction, e[..., 0])
        de = 2 * self.factor * e * dsquare[..., None]               # loss = factor sum e^2
        dy = de                                                     # e = y - z
        dz = -de
        return dy, dz


class KLDivergence(ReducedLoss):
    """D(P || Q) = sum_v P_v log(P_v / Q_v),   P = softmax(p_logits),   Q = softmax(q_logits).

    forward(p_logits, q_logits): both are (..., V), and both get a gradient. `reduction` is "mean"
    over all but the last axis, "sum", or "none", which returns one divergence for each row (...).
    """

    def forward(self, p_logits, q_logits):
        check_shapes("KL divergence", kinds="f", p_logits=(p_logits, "(..., V)"),
                     q_logits=(q_logits, "(..., V)"))
        log_p, log_q = log_softmax(p_logits), log_softmax(q_logits)
        p, q = xp.exp(log_p), xp.exp(log_q)
        log_ratio = xp.where(p > 0, log_p - log_q, 0)               # log_ratio (..., V)
        D = (p * log_ratio).sum(-1, keepdims=True)                  # D (..., 1)
        loss = reduce_loss(D[..., 0], self.reduction)
        return loss, Cache(p=p, q=q, log_ratio=log_ratio, D=D, loss=loss)

    def backward(self, dloss, cache):
        p, q, log_ratio, D = cache.p, cache.q, cache.log_ratio, cache.D
        check_gradient(dloss, cache.loss.shape, "KLDivergence")
        dD = reduce_loss_backward(dloss, self.reduction, D[..., 0])[..., None]
        dp_logits = dD * p * (log_ratio - D)                        # D = sum p (log_p - log_q)
        dq_logits = dD * (q - p)
        return dp_logits, dq_logits


def check_loss_shapes(logits_shape, targets, loss_mask):
    """Raise InputError unless the arguments of a loss fit together.

    `logits_shape` must be (B, S, V), `targets` integers (B, S), and `loss_mask` bools (B, S).
    """
    check_dtype_kinds("iu", "loss", targets=targets)
    check_dtype_kinds("b", "loss", loss_mask=loss_mask)
    if (len(logits_shape) != 3 or not logits_shape[2]
            or not targets.shape == loss_mask.shape == logits_shape[:2]):
        raise InputError(f"loss: logits {logits_shape}, targets {targets.shape} and loss_mask "
                         f"{loss_mask.shape} do not fit; they must be (B, S, V), (B, S) and "
                         "(B, S), with V of at least 1")


def checked_targets(owner, logits, targets):
    """Check that the targets (...) fit logits (..., V), and return them as an array."""
    targets = as_array(targets)
    check_floats(owner, logits=logits)
    check_dtype_kinds("iu", owner, targets=targets)
    check_shapes(owner, logits=(logits, "(..., V)"), targets=(targets, "(...)"))
    return targets


def reduce_loss(loss, reduction):
    """Return `loss`, its sum or its mean, as `reduction` says. The mean of an empty array is 0."""
    if reduction == "none":
        return loss
    total = sum_without_overflow(loss)
    return total if reduction == "sum" else total / max(1, loss.size)


def reduce_loss_backward(dloss, reduction, like):
    """Return the gradient of `loss` from `dloss`, the gradient of reduce_loss(loss).

    `like` is an array with the shape and the dtype of `loss`.
    """
    weight = 1 / max(1, like.size) if reduction == "mean" else 1
    return xp.full_like(like, weight) * dloss

"""Losses: over sequences, of classes, of numbers, between distributions; and exact match.

Targets that are on a device already are not looked at, which would wait for it: CuPy takes one
that is out of range from the other end (npdl.errors.checked_ids).
"""

import math

from npdl.backend import as_array, is_host, one_hot, xp
from npdl.core import Cache, Layer
from npdl.errors import (
    InputError,
    check_gradient,
    checked_ids,
    is_integer,
    require_choice,
    require_number,
)
from npdl.functions import log_softmax, minus_one_hot, wide_sum
from npdl.training_errors import check_kinds, check_loss_shapes

REDUCTIONS = ("none", "mean", "sum")


def answer_mask(targets, eq_positions, mask):
    """Return (B, S), True where `mask` is and after the '=' at eq_positions (B,)."""
    return mask & (xp.arange(targets.shape[1]) > eq_positions[:, None])


class SequenceLoss(Layer):
    """Negative log-likelihood: averaged over each sample's counted tokens, then over the batch.

    forward(logits, targets, counted): logits (B, S, V), targets (B, S) integers, counted (B, S)
    True for the tokens that count: all but padding for a language model, or `answer_mask`, the
    right-hand sides of equations.
    average    "sample" as above, or "token": over all counted tokens of the batch at once
    reduction  "mean"; "sum" over the samples; "none" for one number per sample, (B,)
    A sample in which nothing counts has loss 0, and what does not count may hold anything, NaN
    included. Raises InputError for shapes that do not agree and for counted targets that are not
    integers in [0, V).
    """

    def __init__(self, reduction="mean", average="sample"):
        require_choice("reduction", reduction, REDUCTIONS)
        require_choice("average", average, ("sample", "token"))
        self.reduction = reduction
        self.average = average

    def forward(self, logits, targets, counted):
        check_kinds("loss", logits=(logits, "f"))
        check_loss_shapes(logits.shape, targets, counted)
        targets = xp.where(counted, targets, 0)
        if is_host():                                       # a device would have to be waited for
            checked_ids(targets, logits.shape[-1], "targets")
        log_p = log_softmax(xp.where(counted[..., None], logits, 0))    # log_p (B, S, V)
        nll = -xp.take_along_axis(log_p, targets[..., None], -1)[..., 0]    # nll (B, S)
        weight = self.weights(counted.astype(logits.dtype))     # weight (B, S)
        loss = wide_sum(nll * weight, 1)                        # loss (B,)
        if self.reduction != "none":
            loss = loss.sum()
        return loss, Cache(log_p=log_p, targets=targets, weight=weight, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "SequenceLoss")
        log_p, targets = cache.log_p, cache.targets
        dloss = dloss[:, None] if self.reduction == "none" else dloss
        dnll = cache.weight * dloss                             # loss = sum nll * weight
        p_less = minus_one_hot(xp.exp(log_p), targets)
        dlogits = p_less * dnll[..., None]                      # nll = -log_p[target]
        return dlogits

    def weights(self, counted):
        """Return each token's weight in the loss, from `counted` (B, S), 1 for unmasked tokens."""
        if self.average == "sample":
            weight = counted / xp.maximum(counted.sum(1, keepdims=True), 1)
        else:
            weight = counted * (len(counted) / xp.maximum(wide_sum(counted), 1))
        return weight / len(counted) if self.reduction == "mean" else weight


def exact_match(logits, targets, counted, reduction="mean"):
    """Share of samples whose every counted token is the most probable one: (B,) or a scalar.

    Shapes, and what is refused, as SequenceLoss. Where a logit is NaN, no token is right.
    """
    require_choice("reduction", reduction, REDUCTIONS)
    check_kinds("exact_match", logits=(logits, "f"))
    check_loss_shapes(logits.shape, targets, counted)
    right = (most_probable(logits) == targets) | ~counted
    return reduced(right.all(1).astype(logits.dtype), reduction)


def most_probable(logits):
    """Return the index of the largest of the logits (..., V), or -1 where one is NaN: (...)."""
    top = logits.argmax(-1)                                     # of the first NaN, if there is one
    found = xp.take_along_axis(logits, top[..., None], -1)[..., 0]
    return xp.where(xp.isnan(found), -1, top)


def loss_and_accuracy(logits, targets, eq_positions, mask, reduction="mean"):
    """Return the loss and the exact-match accuracy of the right-hand sides of equations."""
    counted = answer_mask(targets, eq_positions, mask)
    loss, _ = SequenceLoss(reduction).forward(logits, targets, counted)
    return loss, exact_match(logits, targets, counted, reduction)


class CrossEntropy(Layer):
    """loss = sum nll * weight,   nll = -sum_v q_v log softmax(logits)_v, with q the target.

    forward(logits, targets): logits (..., V), targets (...) integers.
    ignored    a target that does not count, such as a padding id (it may lie outside [0, V))
    smoothing  q = (1 - smoothing) one-hot + smoothing / V
    reduction  "mean" over the counted targets, "sum", or "none": one number each, (...)
    Where nothing counts the loss is 0. Raises InputError for shapes that do not agree and for
    targets out of range.
    """

    def __init__(self, ignored=None, smoothing=0.0, reduction="mean"):
        require_choice("reduction", reduction, REDUCTIONS)
        require_number("smoothing", smoothing, lambda value: 0 <= value <= 1, "between 0 and 1")
        if ignored is not None and not is_integer(ignored):
            raise InputError(f"ignored = {ignored!r}; it must be an integer, or None for none")
        self.ignored = ignored
        self.smoothing = smoothing
        self.reduction = reduction

    def forward(self, logits, targets):
        targets, counted = self.checked(logits, targets)
        V = logits.shape[-1]
        log_p = log_softmax(xp.where(counted[..., None], logits, 0))    # log_p (..., V)
        q = (1 - self.smoothing) * one_hot(targets, V, logits.dtype) + self.smoothing / V
        terms = q * xp.where(q > 0, log_p, 0)                       # 0 log 0 is 0
        nll = -terms.sum(-1)                                        # nll (...)
        weight = counted.astype(logits.dtype)
        if self.reduction == "mean":
            weight = (weight / xp.maximum(wide_sum(weight), 1)).astype(logits.dtype)
        loss = nll * weight
        if self.reduction != "none":
            loss = wide_sum(loss)
        return loss, Cache(log_p=log_p, q=q, weight=weight, loss=loss)

    def backward(self, dloss, cache):
        check_gradient(dloss, cache.loss.shape, "CrossEntropy")
        dnll = cache.weight * dloss                     # loss = sum nll * weight
        p = xp.exp(cache.log_p)
        dlogits = (p - cache.q) * dnll[..., None]       # nll = -sum q log_softmax(logits)
        return dlogits

    def checked(self, logits, targets):
        """Return the targets (...), 0 where they are ignored, and (...) True where they are not."""
        targets, V = fitting_targets("loss", logits, targets)
        counted = xp.ones(targets.shape, bool) if self.ignored is None else targets != self.ignored
        return checked_ids(xp.where(counted, targets, 0), V, "targets"), counted


class StableMaxLoss(Layer):
    """-log(s(x_y) / sum_v s(x_v)),   s(x) = x + 1 for x >= 0,   1 / (1 - x) below.

    Prieto et al. 2025, arXiv:2501.04697. s grows as x does, not as exp x: a large logit does not
    push the others below what the sum's rounding keeps.
    forward(logits, targets): logits (..., V), targets (...) integers. reduction "mean", "sum" or
    "none". Raises InputError for shapes that do not fit and for targets outside [0, V).
    """

    def __init__(self, reduction="mean"):
        require_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(self, logits, targets):
        targets, V = fitting_targets("stablemax", logits, targets)
        targets = checked_ids(targets, V, "targets")
        below = logits < 0
        s = xp.where(below, 1 / (1 - xp.where(below, logits, 0)), logits + 1)   # s (..., V)
        total = s.sum(-1, keepdims=True)                                # total (..., 1)
        s_y = xp.take_along_axis(s, targets[..., None], -1)             # s_y (..., 1)
        nll = (xp.log(total) - xp.log(s_y))[..., 0]                     # nll (...)
        loss = reduced(nll, self.reduction)
        return loss, Cache(s=s, below=below, total=total, s_y=s_y, targets=targets, loss=loss)

    def backward(self, dloss, cache):
        s = cache.s
        check_gradient(dloss, cache.loss.shape, "StableMaxLoss")
        dnll = spread(dloss, self.reduction, cache.total[..., 0])[..., None]
        q = one_hot(cache.targets, s.shape[-1], s.dtype)
        ds = dnll * (1 / cache.total - q / cache.s_y)           # nll = log sum s - log s_y
        slope = xp.where(cache.below, s * s, 1).astype(s.dtype)     # (1 / (1 - x))' = s^2
        dlogits = ds * slope
        return dlogits


class SquaredError(Layer):
    """loss = factor * ||y - z||^2 over the last axis, of y and its target z, both (..., D).

    factor     1 or 1/2, for example
    reduction  "mean" over all but the last axis, "sum", or "none": one number each, (...).
               torch.nn.MSELoss also divides by D: use factor = 1 / D for its value
    Both y and z get a gradient. Raises InputError when the shapes differ.
    """

    def __init__(self, factor=1.0, reduction="mean"):
        require_choice("reduction", reduction, REDUCTIONS)
        require_number("factor", factor, math.isfinite, "a finite number")
        self.factor = factor
        self.reduction = reduction

    def forward(self, y, z):
        check_kinds("squared error", y=(y, "f"), z=(z, "f"))
        if y.shape != z.shape or 0 in y.shape[-1:] or y.ndim == 0:
            raise InputError(f"squared error: {y.shape} and {z.shape} must be the same (..., D)")
        e = y - z                                                   # e (..., D)
        loss = reduced(self.factor * wide_sum(e * e, -1), self.reduction)
        return loss, Cache(e=e, loss=loss)

    def backward(self, dloss, cache):
        e = cache.e
        check_gradient(dloss, cache.loss.shape, "SquaredError")
        dsquare = spread(dloss, self.reduction, e[..., 0])
        de = 2 * self.factor * e * dsquare[..., None]               # loss = factor sum e^2
        dy = de                                                     # e = y - z
        dz = -de
        return dy, dz


class KLDivergence(Layer):
    """D(P || Q) = sum_v P_v log(P_v / Q_v), P and Q the softmax of two sets of logits (..., V).

    Both sets of logits get a gradient. `reduction` is SquaredError's.
    """

    def __init__(self, reduction="mean"):
        require_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(self, p_logits, q_logits):
        check_kinds("KL divergence", p_logits=(p_logits, "f"), q_logits=(q_logits, "f"))
        if p_logits.shape != q_logits.shape or 0 in p_logits.shape[-1:] or p_logits.ndim == 0:
            raise InputError(f"KL divergence: logits {p_logits.shape} and {q_logits.shape} "
                             "must have the same shape (..., V)")
        log_p, log_q = log_softmax(p_logits), log_softmax(q_logits)
        p, q = xp.exp(log_p), xp.exp(log_q)
        log_ratio = xp.where(p > 0, log_p - log_q, 0)               # log_ratio (..., V)
        D = (p * log_ratio).sum(-1, keepdims=True)                  # D (..., 1)
        loss = reduced(D[..., 0], self.reduction)
        return loss, Cache(p=p, q=q, log_ratio=log_ratio, D=D, loss=loss)

    def backward(self, dloss, cache):
        p, q, log_ratio, D = cache.p, cache.q, cache.log_ratio, cache.D
        check_gradient(dloss, cache.loss.shape, "KLDivergence")
        dD = spread(dloss, self.reduction, D[..., 0])[..., None]
        dp_logits = dD * p * (log_ratio - D)                        # D = sum p (log_p - log_q)
        dq_logits = dD * (q - p)
        return dp_logits, dq_logits


def kl_divergence(p, q):
    """Compute D(P || Q) over the last axis from probabilities: (..., V) -> (...).

    Where p is 0 a term is 0; where q is 0 and p is not, the divergence is infinite.
    """
    possible = p > 0
    log_p, log_q = xp.log(xp.where(possible, p, 1)), xp.log(xp.where(q > 0, q, 1))
    terms = p * (log_p - log_q)
    return xp.where((possible & (q <= 0)).any(-1), math.inf, terms.sum(-1))


def fitting_targets(loss, logits, targets):
    """Return integer targets (...) as an array, and V of logits (..., V); InputError for others."""
    targets = as_array(targets)
    check_kinds(loss, logits=(logits, "f"), targets=(targets, "iu"))
    V = logits.shape[-1] if logits.ndim else 0
    if targets.shape != logits.shape[:-1] or V == 0:
        raise InputError(f"{loss}: logits {logits.shape} and targets {targets.shape} do not fit; "
                         "they must be (..., V) and (...)")
    return targets, V


def reduced(loss, reduction):
    """Return `loss` (...) itself, its sum, or its mean, which is 0 if `loss` is empty."""
    if reduction == "none":
        return loss
    return wide_sum(loss) if reduction == "sum" else wide_sum(loss) / max(1, loss.size)


def spread(dloss, reduction, entries):
    """Return the gradient of each entry of a loss shaped like `entries`: backward of `reduced`."""
    share = 1 / max(1, entries.size) if reduction == "mean" else 1
    return xp.full_like(entries, share) * dloss

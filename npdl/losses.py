"""The loss and the accuracy of document 004, Problem 3, and the usual losses."""

import math

from npdl.backend import is_host, one_hot, xp
from npdl.core import Cache, Layer
from npdl.errors import InputError
from npdl.init import require_number
from npdl.layers.activation import log_softmax
from npdl.layers.embedding import checked_ids

REDUCTIONS = ("none", "mean", "sum")


def answer_mask(targets, eq_positions, mask):
    """(B, S) True on the right-hand side: after the '=' at eq_positions (B,), where `mask`."""
    return mask & (xp.arange(targets.shape[1]) > eq_positions[:, None])


class SequenceLoss(Layer):
    """Negative log-likelihood: averaged over each sample's counted tokens, then over the batch.

    forward(logits, targets, counted): logits (B, S, V), targets (B, S) integers, counted (B, S)
    True for the tokens that count. With `answer_mask` this is the loss of document 004, Problem
    3; with everything but padding counted it is next-token training.
    average    "sample" as above, or "token": over all counted tokens of the batch at once
    reduction  "mean"; "sum" over the samples; "none" for one number per sample, (B,)
    A sample in which nothing counts has loss 0. Raises InputError for shapes that do not agree and
    for counted targets that are not integers in [0, V).
    """

    def __init__(self, reduction="mean", average="sample"):
        if reduction not in REDUCTIONS:
            raise InputError(f"reduction = {reduction!r}; choose one of: {', '.join(REDUCTIONS)}")
        if average not in ("sample", "token"):
            raise InputError(f"average = {average!r}; choose 'sample' or 'token'")
        self.reduction = reduction
        self.average = average

    def forward(self, logits, targets, counted):
        check_loss_shapes(logits, targets, counted)
        if is_host():                           # a device would have to be waited for
            checked_ids(xp.where(counted, targets, 0), logits.shape[-1], "targets")
        log_p = log_softmax(logits)
        chosen = one_hot(targets, logits.shape[-1], logits.dtype)
        nll = -(log_p * chosen).sum(-1)                             # nll (B, S)
        weight = counted.astype(logits.dtype)
        if self.average == "sample":
            weight = weight / xp.maximum(weight.sum(1, keepdims=True), 1)
        else:
            weight = weight * (len(weight) / xp.maximum(weight.sum(), 1))
        loss = (nll * weight).sum(1)                                # loss (B,)
        if self.reduction != "none":
            loss = loss.mean() if self.reduction == "mean" else loss.sum()
        return loss, Cache(log_p=log_p, chosen=chosen, weight=weight)

    def backward(self, dloss, cache):
        if self.reduction == "mean":
            dloss = dloss / len(cache.weight)
        if self.reduction == "none":
            dloss = dloss[:, None]
        dnll = cache.weight * dloss
        dlogits = xp.exp(cache.log_p)                               # nll = -log_p[target]
        dlogits = xp.subtract(dlogits, cache.chosen, out=dlogits)
        dlogits = xp.multiply(dlogits, dnll[..., None], out=dlogits)
        return dlogits


def exact_match(logits, targets, counted, reduction="mean"):
    """Share of samples whose every counted token is the most probable one: (B,) or a scalar."""
    right = (logits.argmax(-1) == targets) | ~counted
    right = right.all(1).astype(logits.dtype)
    return {"none": lambda: right, "mean": right.mean, "sum": right.sum}[reduction]()


def loss_and_accuracy(logits, targets, eq_positions, mask, reduction="mean"):
    """Document 004, Problem 3: the loss and the exact-match accuracy of the right-hand sides."""
    counted = answer_mask(targets, eq_positions, mask)
    loss, _ = SequenceLoss(reduction).forward(logits, targets, counted)
    return loss, exact_match(logits, targets, counted, reduction)


def check_loss_shapes(logits, targets, counted):
    """Raise InputError unless logits (B, S, V) go with targets (B, S) and counted (B, S)."""
    if logits.ndim != 3 or targets.shape != logits.shape[:2] or counted.shape != targets.shape:
        raise InputError(
            f"loss: logits {logits.shape}, targets {targets.shape} and counted {counted.shape} "
            "do not fit; they must be (B, S, V), (B, S) and (B, S)"
        )
    check_kinds("loss", logits=(logits, "f"), targets=(targets, "iu"), counted=(counted, "b"))


def check_kinds(owner, **arrays):
    """Raise InputError unless each array, given as (array, kinds), has one of NumPy's kinds."""
    words = {"f": "floats", "iu": "integers", "b": "bools"}
    for name, (array, kinds) in arrays.items():
        if array.dtype.kind not in kinds:
            raise InputError(f"{owner}: {name} is {array.dtype} {array.shape}; it must hold "
                             f"{words[kinds]}")


class CrossEntropy(Layer):
    """-sum_v q_v log softmax(logits)_v, where q is the target, perhaps smoothed.

    forward(logits, targets): logits (..., V), targets (...) integers.
    ignored    targets of this value do not count (padding, say)
    smoothing  s: the target is (1 - s) one-hot + s / V (Szegedy et al. 2016, arXiv:1512.00567)
    reduction  "mean" over the counted targets, "sum", or "none": one number each, (...)
    Where nothing counts the loss is 0. Raises InputError for shapes that do not agree and for
    targets out of range.
    """

    def __init__(self, ignored=None, smoothing=0.0, reduction="mean"):
        check_reduction(reduction)
        require_number("smoothing", smoothing, lambda value: 0 <= value <= 1, "between 0 and 1")
        self.ignored = ignored
        self.smoothing = smoothing
        self.reduction = reduction

    def forward(self, logits, targets):
        V = logits.shape[-1] if logits.ndim else 0
        targets = xp.asarray(targets)
        check_kinds("loss", logits=(logits, "f"), targets=(targets, "iu"))
        if targets.shape != logits.shape[:-1] or V == 0:
            raise InputError(f"loss: logits {logits.shape} and targets {targets.shape} do not fit; "
                             "they must be (..., V) and (...)")
        counted = xp.ones(targets.shape, bool) if self.ignored is None else targets != self.ignored
        targets = checked_ids(xp.where(counted, targets, 0), V, "targets")
        log_p = log_softmax(logits)                                 # log_p (..., V)
        q = one_hot(targets, V, logits.dtype) * (1 - self.smoothing) + self.smoothing / V
        nll = -(log_p * q).sum(-1)                                  # nll (...)
        weight = counted.astype(logits.dtype)
        if self.reduction == "mean":
            weight = weight / xp.maximum(weight.sum(), 1)
        loss = nll * weight
        if self.reduction != "none":
            loss = loss.sum()
        return loss, Cache(log_p=log_p, q=q, weight=weight)

    def backward(self, dloss, cache):
        dnll = cache.weight * dloss                                 # loss = sum nll * weight
        dlogits = xp.exp(cache.log_p) - cache.q                     # nll = -sum q log_p
        dlogits = xp.multiply(dlogits, dnll[..., None], out=dlogits)
        return dlogits


class SquaredError(Layer):
    """factor * ||y - z||^2 over the last axis: of prediction y and target z, both (..., D).

    factor     1 in document 000, Question 3; 1/2 in document 001, Question 3
    reduction  "mean" over all but the last axis, "sum", or "none": one number each, (...)
    Both y and z get a gradient. Raises InputError when the shapes differ.
    """

    def __init__(self, factor=1.0, reduction="mean"):
        check_reduction(reduction)
        self.factor = factor
        self.reduction = reduction

    def forward(self, y, z):
        if y.shape != z.shape or y.ndim == 0:
            raise InputError(f"squared error: {y.shape} and {z.shape} must be the same (..., D)")
        check_kinds("squared error", y=(y, "f"), z=(z, "f"))
        e = y - z                                                   # e (..., D)
        loss = self.factor * (e * e).sum(-1)
        return reduced(loss, self.reduction), Cache(e=e)

    def backward(self, dloss, cache):
        dsquare = spread(dloss, self.reduction, cache.e[..., 0])
        dy = (2 * self.factor) * cache.e * dsquare[..., None]       # loss = factor sum e^2
        dz = -dy                                                    # e = y - z
        return dy, dz


class KLDivergence(Layer):
    """D(P || Q) = sum_v P_v log(P_v / Q_v), P and Q the softmax of two sets of logits (..., V).

    Document 001, Question 1. Both get a gradient. reduction as SquaredError's.
    """

    def __init__(self, reduction="mean"):
        check_reduction(reduction)
        self.reduction = reduction

    def forward(self, p_logits, q_logits):
        if p_logits.shape != q_logits.shape or p_logits.ndim == 0:
            raise InputError(f"KL divergence: logits {p_logits.shape} and {q_logits.shape} "
                             "must have the same shape (..., V)")
        check_kinds("KL divergence", p_logits=(p_logits, "f"), q_logits=(q_logits, "f"))
        log_p, log_q = log_softmax(p_logits), log_softmax(q_logits)
        p = xp.exp(log_p)
        log_ratio = log_p - log_q                                   # log_ratio (..., V)
        divergence = (p * log_ratio).sum(-1, keepdims=True)         # divergence (..., 1)
        cache = Cache(p=p, log_q=log_q, log_ratio=log_ratio, divergence=divergence)
        return reduced(divergence[..., 0], self.reduction), cache

    def backward(self, dloss, cache):
        p, divergence = cache.p, cache.divergence
        ddivergence = spread(dloss, self.reduction, p[..., 0])[..., None]
        dp_logits = ddivergence * p * (cache.log_ratio - divergence)
        dq_logits = ddivergence * (xp.exp(cache.log_q) - p)         # D = ... - sum p log_q
        return dp_logits, dq_logits


def kl_divergence(p, q):
    """D(P || Q) over the last axis, from probabilities: (..., V) -> (...).

    Where p is 0 a term is 0; where q is 0 and p is not, the divergence is infinite.
    """
    possible = p > 0
    log_p, log_q = xp.log(xp.where(possible, p, 1)), xp.log(xp.where(q > 0, q, 1))
    terms = p * (log_p - log_q)
    return xp.where((possible & (q <= 0)).any(-1), math.inf, terms.sum(-1))


def check_reduction(reduction):
    """Raise InputError for a reduction that does not exist."""
    if reduction not in REDUCTIONS:
        raise InputError(f"reduction = {reduction!r}; choose one of: {', '.join(REDUCTIONS)}")


def reduced(loss, reduction):
    """`loss` (...) itself, its mean or its sum."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def spread(dloss, reduction, entries):
    """Backward of `reduced`: the gradient of each entry of a loss of the shape of `entries`."""
    share = 1 / max(1, entries.size) if reduction == "mean" else 1
    return xp.full_like(entries, share) * dloss

"""Cross-entropies with a weight for each class, and with probabilities as targets."""

import math

import numpy as np

from npdl.backend import one_hot, to_host, xp
from npdl.core import Cache
from npdl.errors import InputError, check_gradient, check_shapes, short_repr
from npdl.functions import log_softmax, sum_without_overflow
from npdl.losses import CrossEntropy, ReducedLoss, reduce_loss, reduce_loss_backward


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

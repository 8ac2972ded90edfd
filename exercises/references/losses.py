"""Losses and accuracies."""

import math

import numpy as np

from exercises.references.functions import log_softmax, wide
from exercises.references.table import layer, same


def joined(losses, reduction):
    """Losses as they are, their sum or their mean."""
    if reduction == "none":
        return losses
    return losses.sum() / (max(1, losses.size) if reduction == "mean" else 1)


@layer("SquaredError")
def squared_error(self, y, z):
    e = wide(y) - wide(z)
    return joined(self.factor * sum(e[..., d] ** 2 for d in range(e.shape[-1])), self.reduction)


@layer("KLDivergence")
def kl_layer(self, p_logits, q_logits):
    p, q = log_softmax(p_logits), log_softmax(q_logits)
    terms = np.where(p > -math.inf, np.exp(p) * (p - q), 0)
    return joined(terms.sum(-1), self.reduction)


@same("losses", "kl_divergence")
def kl_divergence(p, q):
    p, q = np.broadcast_arrays(wide(p), wide(q))
    found = np.empty(p.shape[:-1])
    for i in np.ndindex(found.shape):
        pairs = [(a, b) for a, b in zip(p[i], q[i], strict=True) if a > 0]
        found[i] = math.inf if any(b <= 0 for _, b in pairs) else math.fsum(
            a * (math.log(a) - math.log(b)) for a, b in pairs)
    return found


@layer("CrossEntropy")
def cross_entropy(self, logits, targets):
    logits, targets = wide(logits), np.asarray(targets)
    losses, V = np.zeros(targets.shape), logits.shape[-1]
    counted = [i for i in np.ndindex(targets.shape) if targets[i] != self.ignored]
    for i in counted:
        p = log_softmax(logits[i])
        q = np.full(V, self.smoothing / V)
        q[targets[i]] += 1 - self.smoothing
        losses[i] = -sum(a * b for a, b in zip(q, p, strict=True) if a > 0)
    if self.reduction == "none":
        return losses
    return losses.sum() / (max(1, len(counted)) if self.reduction == "mean" else 1)


@layer("SequenceLoss")
def sequence_loss(self, logits, targets, counted):
    counted, losses = np.asarray(counted), np.zeros(len(targets))
    for b in range(len(targets)):
        places = np.flatnonzero(counted[b])
        if len(places):
            total = -sum(log_softmax(logits[b, t])[targets[b, t]] for t in places)
            losses[b] = (total / len(places) if self.average == "sample"
                         else total * len(targets) / counted.sum())
    return joined(losses, self.reduction)


@same("losses", "answer_mask")
def answer_mask(targets, eq_positions, mask):
    return np.array([[bool(mask[b][t]) and t > eq_positions[b] for t in range(len(targets[b]))]
                     for b in range(len(targets))])


@same("losses", "exact_match")
def exact_match(logits, targets, counted, reduction="mean"):
    right = [float(all(max(range(logits.shape[-1]), key=lambda v: logits[b, t, v]) == targets[b][t]
                       and not np.isnan(logits[b, t]).any()
                       for t in range(logits.shape[1]) if counted[b][t]))
             for b in range(len(logits))]
    return joined(np.array(right), reduction)


@same("losses", "loss_and_accuracy")
def loss_and_accuracy(logits, targets, eq_positions, mask, reduction="mean"):
    counted = answer_mask(targets, eq_positions, mask)
    nll = np.zeros(len(targets))
    for b in range(len(targets)):
        own = [-log_softmax(logits[b, t])[targets[b][t]] for t in np.flatnonzero(counted[b])]
        nll[b] = sum(own) / max(1, len(own))
    return joined(nll, reduction), exact_match(logits, targets, counted, reduction)

"""Pairs of layers that work position by position, and of losses (tests.layers.torch_compare).

Each is asked for all that npdl.study.check.examples tells of its layer, so with every option.
"""

import torch
import torch.nn.functional as F

from npdl.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh, TanhGELU
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.embedding import Embedding, LearnedPositions, Unembedding
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import FeedForward
from npdl.layers.weighted_losses import SoftCrossEntropy, WeightedCrossEntropy
from npdl.losses import (
    CrossEntropy,
    KLDivergence,
    SequenceLoss,
    SquaredError,
    StableMaxLoss,
)
from npdl.models.mlp import MLP
from tests.layers.torch_compare import pairs_of


def pointwise(cls, torchs, theirs):
    return pairs_of(cls, torchs, lambda layer, P, x: theirs(x))


def softmax(layer, P, x, visible=None):
    return (x if visible is None else x.masked_fill(torch.tensor(~visible), -torch.inf)).softmax(-1)


def linear(P, x, name=""):
    return F.linear(x, P[f"{name}W"].T, P.get(f"{name}b"))


def positions(layer, P, x, positions=None):
    places = torch.arange(x.shape[-2]) if positions is None else torch.tensor(positions)
    return x + F.embedding(places, P["W"])


def layer_norm(layer, P, x):
    return F.layer_norm(x, x.shape[-1:], P["gain"], P.get("bias"), layer.eps)


def rms_norm(layer, P, x):
    return F.rms_norm(x, x.shape[-1:], P["gain"], layer.eps)


def batch_norm(layer, P, x, training=True):
    mean, var = P["running_mean"].clone(), P["running_var"].clone()
    return F.batch_norm(x, mean, var, P.get("gain"), P.get("bias"), training, 0.1, layer.eps)


def group_norm(layer, P, x):
    return F.group_norm(x, layer.groups, P.get("gain"), P.get("bias"), layer.eps)


def instance_norm(layer, P, x):
    return F.instance_norm(x, weight=P.get("gain"), bias=P.get("bias"), eps=layer.eps)


def cross_entropy(layer, P, logits, targets):
    """Torch's mean over targets that are all ignored is NaN; npdl's is 0."""
    ignored = -100 if layer.ignored is None else layer.ignored
    weight = class_weights(layer, logits)
    terms = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), weight, ignore_index=ignored,
                            label_smoothing=layer.smoothing, reduction="none").view(targets.shape)
    if layer.reduction == "mean":
        total = (weight[targets.clamp(min=0)] * (targets != ignored)).sum()
        return terms.sum() / (total if total else 1)
    return reduced(layer, terms)


def class_weights(layer, logits):
    given = getattr(layer, "class_weights", None)
    return torch.tensor([1.0] * logits.shape[-1] if given is None else given, dtype=logits.dtype)


def soft_cross_entropy(layer, P, logits, q):
    V = logits.shape[-1]
    terms = F.cross_entropy(logits.reshape(-1, V), q.reshape(-1, V), class_weights(layer, logits),
                            reduction="none").view(q.shape[:-1])
    return reduced(layer, terms)


def reduced(layer, terms):
    """A reduction of terms of any shape, one for each row."""
    return {"none": terms, "sum": terms.sum(), "mean": terms.mean()}[layer.reduction]


def sequence_loss(layer, P, logits, targets, counted):
    """The mean over a sequence's counted tokens, and then over sequences; or over all tokens."""
    terms = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    terms = terms.view(targets.shape) * counted
    if layer.average == "token":
        return terms.sum() / counted.sum()
    return reduced(layer, terms.sum(1) / counted.sum(1))


def stablemax(layer, P, logits, targets):
    """arXiv:2501.04697, equations 5 and 6."""
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    p = (s / s.sum(-1, keepdim=True)).gather(-1, targets[..., None])[..., 0]
    return reduced(layer, -torch.log(p))


def squared_error(layer, P, y, z):
    return reduced(layer, layer.factor * F.mse_loss(y, z, reduction="none").sum(-1))


def kl(layer, P, p, q):
    terms = F.kl_div(q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True)
    return reduced(layer, terms.sum(-1))


def mlp(layer, P, x):
    for i in range(len(layer.maps)):
        x = linear(P, x if i == 0 else F.relu(x), f"maps.{i}.")
    return x


def feed_forward(layer, P, x):
    activation = {"GELU": F.gelu, "ReLU": F.relu}[type(layer.activation).__name__]
    return linear(P, activation(linear(P, x, "up.")), "down.")


PAIRS = [
    *pointwise(Sigmoid, "nn.Sigmoid", torch.sigmoid),
    *pointwise(Tanh, "nn.Tanh", torch.tanh),
    *pointwise(ReLU, "nn.ReLU", torch.relu),
    *pointwise(GELU, "nn.GELU", F.gelu),
    *pointwise(TanhGELU, "nn.GELU('tanh')", lambda x: F.gelu(x, approximate="tanh")),
    *pairs_of(Softmax, "nn.Softmax", softmax),
    *pairs_of(Linear, "nn.Linear", lambda layer, P, x: linear(P, x)),
    *pairs_of(Embedding, "nn.Embedding",
          lambda layer, P, ids: F.embedding(ids, P["W"], layer.padding_id)),
    *pairs_of(Unembedding, "nn.Linear", lambda layer, P, x: F.linear(x, P["W"])),
    *pairs_of(LearnedPositions, "nn.Embedding", positions),
    *pairs_of(LayerNorm, "nn.LayerNorm", layer_norm),
    *pairs_of(RMSNorm, "nn.RMSNorm", rms_norm),
    *pairs_of(BatchNorm, "nn.BatchNorm", batch_norm),
    *pairs_of(GroupNorm, "nn.GroupNorm", group_norm),
    *pairs_of(InstanceNorm, "nn.InstanceNorm", instance_norm),
    *pairs_of(FeedForward, "nn.Linear and nn.GELU", feed_forward),
    *pairs_of(CrossEntropy, "nn.CrossEntropyLoss", cross_entropy),
    *pairs_of(WeightedCrossEntropy, "nn.CrossEntropyLoss", cross_entropy),
    *pairs_of(SoftCrossEntropy, "nn.CrossEntropyLoss", soft_cross_entropy),
    *pairs_of(SequenceLoss, "nn.CrossEntropyLoss", sequence_loss),
    *pairs_of(StableMaxLoss, "its formula", stablemax),
    *pairs_of(SquaredError, "nn.MSELoss", squared_error),
    *pairs_of(KLDivergence, "nn.KLDivLoss", kl),
    *pairs_of(MLP, "nn.Linear, nn.ReLU", mlp),
]

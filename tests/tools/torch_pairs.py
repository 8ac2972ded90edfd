"""Pairs of layers that work position by position, and of losses (tests.tools.torch_compare)."""

import torch
import torch.nn.functional as F

from npdl.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh, TanhGELU
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.embedding import Embedding, LearnedPositions, Unembedding
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.losses import CrossEntropy, KLDivergence, SequenceLoss, SquaredError, StableMaxLoss
from npdl.models.mlp import MLP
from tests.tools.torch_compare import Pair, sizes


def pointwise(cls, torchs, theirs):
    def build(rng):
        return cls(), (3 * rng.standard_normal(sizes(rng, 3)),), {}

    return Pair(cls, torchs, torchs, build, lambda P, x: theirs(x))


def hidden(rng):
    x = rng.standard_normal(sizes(rng, 2, 2))
    visible = rng.random(x.shape) < 0.6
    visible[:, 0] = True
    return Softmax(), (x,), {"visible": visible}


def linear(bias):
    def build(rng):
        B, S, D, E = sizes(rng, 4)
        return Linear(D, E, bias=bias, rng=rng), (rng.standard_normal((B, S, D)),), {}

    return Pair(Linear, "bias" if bias else "no bias", "nn.Linear", build,
                lambda P, x: F.linear(x, P["W"].T, P.get("b")))


def table(padding_id):
    def build(rng):
        B, S, D = sizes(rng, 3)
        return Embedding(7, D, padding_id=padding_id, rng=rng), (rng.integers(0, 7, (B, S)),), {}

    return Pair(Embedding, f"padding_id {padding_id}", "nn.Embedding", build,
                lambda P, ids: F.embedding(ids, P["W"], padding_id))


def unembedding(rng):
    B, S, D, V = sizes(rng, 4)
    return Unembedding(Embedding(V, D, rng=rng)), (rng.standard_normal((B, S, D)),), {}


def positions(rng):
    B, S, D = sizes(rng, 3)
    return LearnedPositions(6, D, rng=rng), (rng.standard_normal((B, S, D)),), {}


def layer_norm(bias):
    def build(rng):
        B, S, D = sizes(rng, 3, 2)
        return LayerNorm(D, bias=bias), (3 + 2 * rng.standard_normal((B, S, D)),), {}

    return Pair(LayerNorm, "bias" if bias else "no bias", "nn.LayerNorm", build,
                lambda P, x: F.layer_norm(x, x.shape[-1:], P["gain"], P.get("bias"), 1e-5))


def channels(cls, what, theirs, ndim=3, groups=None, **options):
    """A normalisation of x (N, C, L), or (N, C) for ndim 2."""
    def build(rng):
        shape = sizes(rng, ndim, 2)
        shape[1] = shape[1] * (groups or 1)
        args = (shape[1], groups) if groups else (shape[1],)
        return cls(*args), (1 + rng.standard_normal(shape),), options

    return Pair(cls, what, f"nn.{cls.__name__}", build, theirs)


def batch_norm(P, x, training=True):
    mean, var = P["running_mean"].clone(), P["running_var"].clone()
    return F.batch_norm(x, mean, var, P["gain"], P["bias"], training, 0.1, 1e-5)


def rms_norm(rng):
    B, S, D = sizes(rng, 3)
    return RMSNorm(D), (rng.standard_normal((B, S, D)),), {}


def cross_entropy(reduction, ignored=None, smoothing=0.0):
    def build(rng):
        B, S, V = sizes(rng, 3, 2)
        targets = rng.integers(0, V, (B, S))
        if ignored is not None:
            targets[:, ::2] = ignored
        return (CrossEntropy(ignored, smoothing, reduction),
                (3 * rng.standard_normal((B, S, V)), targets), {})

    def theirs(P, logits, targets):
        ignore = -100 if ignored is None else ignored
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=ignore,
                               label_smoothing=smoothing, reduction=reduction)
        return loss.view(targets.shape) if reduction == "none" else loss

    what = f"{reduction}, ignored {ignored}, smoothing {smoothing}"
    return Pair(CrossEntropy, what, "nn.CrossEntropyLoss", build, theirs)


def token_loss(rng):
    B, S, V = sizes(rng, 3, 2)
    counted = rng.random((B, S)) < 0.7
    counted[0, 0] = True
    return (SequenceLoss("mean", "token"),
            (3 * rng.standard_normal((B, S, V)), rng.integers(0, V, (B, S)), counted), {})


def two_of(layer):
    def build(rng):
        shape = sizes(rng, 3)
        return layer, (rng.standard_normal(shape), rng.standard_normal(shape)), {}

    return build


def stablemax(P, logits, targets):
    """arXiv:2501.04697, equations 5 and 6."""
    s = torch.where(logits < 0, 1 / (1 - logits.clamp(max=0)), logits + 1)
    return -torch.log(s / s.sum(-1, keepdim=True)).gather(-1, targets[..., None]).mean()


def logits_and_ids(layer):
    def build(rng):
        B, S, V = sizes(rng, 3, 2)
        return layer, (3 * rng.standard_normal((B, S, V)), rng.integers(0, V, (B, S))), {}

    return build


def mlp(rng):
    B, *widths = sizes(rng, 5)
    return MLP(widths, rng=rng), (rng.standard_normal((B, widths[0])),), {}


def mlp_of_torch(P, x):
    for i in range(3):
        x = F.linear(x, P[f"maps.{i}.W"].T, P[f"maps.{i}.b"])
        x = F.relu(x) if i < 2 else x
    return x


def kl(P, p, q):
    terms = F.kl_div(q.log_softmax(-1), p.log_softmax(-1), reduction="none", log_target=True)
    return terms.sum(-1).mean()


PAIRS = [
    pointwise(Sigmoid, "nn.Sigmoid", torch.sigmoid),
    pointwise(Tanh, "nn.Tanh", torch.tanh),
    pointwise(ReLU, "nn.ReLU", torch.relu),
    pointwise(GELU, "nn.GELU", F.gelu),
    pointwise(TanhGELU, "nn.GELU('tanh')", lambda x: F.gelu(x, approximate="tanh")),
    pointwise(Softmax, "nn.Softmax", lambda x: x.softmax(-1)),
    Pair(Softmax, "some hidden", "nn.Softmax", hidden, lambda P, x, visible: x.masked_fill(
        torch.tensor(~visible), -torch.inf).softmax(-1)),
    linear(True), linear(False), table(None), table(2),
    Pair(Unembedding, "(B, S, D)", "nn.Linear", unembedding, lambda P, x: F.linear(x, P["W"])),
    Pair(LearnedPositions, "(B, S, D)", "nn.Embedding", positions,
         lambda P, x: x + F.embedding(torch.arange(x.shape[1]), P["W"])),
    layer_norm(True), layer_norm(False),
    channels(BatchNorm, "(N, C, L)", batch_norm),
    channels(BatchNorm, "(N, C)", batch_norm, ndim=2),
    channels(BatchNorm, "running statistics", batch_norm, training=False),
    channels(GroupNorm, "(N, C, L)", lambda P, x: F.group_norm(x, 2, P["gain"], P["bias"]),
             groups=2),
    channels(GroupNorm, "(N, C)", lambda P, x: F.group_norm(x, 3, P["gain"], P["bias"]), 2, 3),
    channels(InstanceNorm, "(N, C, L)",
             lambda P, x: F.instance_norm(x, weight=P["gain"], bias=P["bias"])),
    Pair(RMSNorm, "(B, S, D)", "nn.RMSNorm", rms_norm,
         lambda P, x: F.rms_norm(x, x.shape[-1:], P["gain"], 1e-5)),
    *(cross_entropy(r, i, s) for r, i, s in (("mean", None, 0.0), ("mean", 1, 0.2),
                                             ("sum", -100, 0.1), ("none", 0, 0.0))),
    Pair(SequenceLoss, "by token", "nn.CrossEntropyLoss", token_loss,
         lambda P, logits, targets, counted: F.cross_entropy(logits[counted], targets[counted])),
    Pair(StableMaxLoss, "mean", "its formula", logits_and_ids(StableMaxLoss()), stablemax),
    Pair(MLP, "three maps", "nn.Linear, nn.ReLU", mlp, mlp_of_torch),
    Pair(SquaredError, "sum", "nn.MSELoss", two_of(SquaredError(reduction="sum")),
         lambda P, y, z: F.mse_loss(y, z, reduction="sum")),
    Pair(SquaredError, "mean", "nn.MSELoss", two_of(SquaredError()),
         lambda P, y, z: F.mse_loss(y, z) * y.shape[-1]),
    Pair(KLDivergence, "mean", "nn.KLDivLoss", two_of(KLDivergence()), kl),
]

"""Numbers that go wrong say where; extreme numbers that are not wrong stay right."""

import contextlib
import io

import numpy as np

from npdl.__main__ import main
from npdl.adapt.quantize import dequantize, quantize
from npdl.backend import stream
from npdl.decoding import filtered
from npdl.functions import log_softmax, softmax
from npdl.layers.attention import (
    AdditiveAttention,
    DotAttention,
    MultiHeadAttention,
    ScaledDotAttention,
)
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.graph import GraphAttention
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.recurrent import LSTM
from npdl.losses import CrossEntropy, KLDivergence, SequenceLoss, answer_mask, exact_match
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl_train.runs import checkpoint
from npdl_train.runs.loop import unwarned
from npdl_train.runs.nonfinite import find_nonfinite
from tests.runs.trust import Figure

LARGE = 3e38                                    # nearly float32's largest number


def diverging(folder):
    """Trainings that diverge: the line names step and layer, the checkpoint stays good."""
    ways = (("gpt", "--lr", "1e13"), ("lstm", "--lr", "1e13"),
            ("gpt", "--optimizer", "sgd", "--lr", "1e3", "--momentum", "0.9"),
            ("lstm", "--optimizer", "sgd", "--lr", "1e30"),
            ("gpt", "--norm", "pre", "--lr", "1e20"), ("gpt", "--tied", "--lr", "1e15"))
    for number, (model, *way) in enumerate(ways):
        out = folder / f"diverged-{number}"
        options = ["--p", "5", "--width", "8", "--steps", "60", "--threads", "1", "--quiet",
                   "--save-every", "1", "--eval-first", "0", "--eval-every", "60", *way]
        said = [_failing(model, [*options, "--out", str(out)]),
                _failing(model, ["--resume", "--check", "--quiet", "--out", str(out)])]
        _, meta = checkpoint.load(out / "checkpoint.npz")     # it would refuse NaN
        for line in said:
            assert f"step {meta['step'] + 1}:" in line and "not finite" in line, line
        assert ".py:" in said[1] or "optimizer" in said[1], said[1]
    return len(ways)


def _failing(model, arguments):
    """The one line of a training that must fail."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        status = main([f"train-{model}", *arguments])
    lines = errors.getvalue().strip().splitlines()
    assert status == 2 and len(lines) == 1, (status, lines)
    return lines[0]


def culprits():
    """A parameter is made large or NaN: find_nonfinite names the layer that suffers first."""
    ids = np.arange(12).reshape(2, 6) % 9
    makers = (lambda: GPT(9, 8, 2, 2, max_len=6), lambda: LSTMLM(9, 8, 2),
              lambda: GPT(9, 8, 2, 2, max_len=6, norm="pre", positions="learned", tied=True))
    count = 0
    for make in makers:
        names = [name for name, _ in make().params()]
        for name in names:
            model = make()
            dict(model.params())[name].data[...] = np.nan
            found = find_nonfinite(model, ids)
            assert f"{found.layer}.{found.array}" == name and found.method == "parameter", found
            count += 1
        for name in names:
            if not name.endswith(("W_Q.W", "W_K.W", "W_V.W", "up.W")):
                continue                        # what they read is larger than 1
            model = make()
            data = dict(model.params())[name].data
            data[...] = LARGE * np.sign(stream(4).standard_normal(data.shape))
            found = find_nonfinite(model, ids)
            owner = name.rpartition(".")[0]
            assert found.method == "forward" and found.layer == owner, (name, found)
            assert "npdl/layers/linear.py" in found.line and found.what == "overflow", found
            count += 1
        assert find_nonfinite(make(), ids) is None
    return count


def extremes():
    """Extreme numbers that have an answer get it; each line is one of them."""
    with unwarned():
        checks = [*_logits(), *_rows(), *_norms(), *_masked(), *_other_attentions(),
                  *_other_losses(), *_empty()]
    for what, holds in checks:
        assert holds, what
    return len(checks)


def _logits():
    targets, counted = np.array([[0, 1]]), np.ones((1, 2), bool)
    for size in (1e4, 1e30, LARGE):
        logits = np.array([[[size, -size, 0], [-size, size, 0]]], "float32")
        for kind, layer in (("sample", SequenceLoss()), ("token", SequenceLoss(average="token"))):
            loss, cache = layer.forward(logits, targets, counted)
            yield f"{kind} loss of sure and right logits {size}", loss == 0
            yield f"its gradient at {size}", (layer.backward(np.float32(1), cache) == 0).all()
        layer = CrossEntropy()
        loss, cache = layer.forward(logits, targets)
        yield f"cross-entropy at {size}", loss == 0
        yield f"its gradient at {size}", (layer.backward(np.float32(1), cache) == 0).all()
        p = softmax(logits)
        yield f"softmax at {size}", (p == np.array([[[1, 0, 0], [0, 1, 0]]])).all()
        yield f"log softmax at {size}", (log_softmax(logits).max(-1) == 0).all()
        same = log_softmax(np.full((2, 4), size, "float32"))
        yield f"equal logits {size}", np.allclose(same, -np.log(4))
    wrong = np.array([[[-1e4, 1e4]]], "float32")
    loss, _ = SequenceLoss().forward(wrong, np.array([[0]]), np.ones((1, 1), bool))
    yield "sure and wrong", loss == 2e4


def _norms():
    """Rows, groups and channels without variance, and of zeros."""
    kinds = (RMSNorm(6), BatchNorm(6), GroupNorm(6, 3), InstanceNorm(6))
    for norm in kinds:
        shape = (4, 6, 5) if isinstance(norm, InstanceNorm) else (4, 6)
        for value in (0.0, 3.0, -1e4, 1e18):
            y, cache = norm.forward(np.full(shape, value, "float32"))
            dy = stream(1).standard_normal(shape).astype("float32")
            what = f"{type(norm).__name__} of rows of {value}"
            yield what, np.isfinite(y).all() and np.abs(y).max() < 2
            yield f"its gradient, {what}", np.isfinite(norm.backward(dy, cache)).all()


def _other_attentions():
    """Queries and nodes that see nothing, by every layer that attends."""
    x = stream(5).standard_normal((2, 3, 4)).astype("float32")
    seen = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)
    for layer in (DotAttention(), ScaledDotAttention(), AdditiveAttention(4, 4, 3)):
        for size in (1, 1e18):
            y, cache = layer.forward(x * np.float32(size), x, x, seen)
            A = cache.A
            what = f"{type(layer).__name__}, queries times {size:g}"
            yield what, (y[:, 1] == 0).all() and (A[:, 1] == 0).all() and np.isfinite(y).all()
            gradients = layer.backward(np.ones_like(y), cache)
            yield f"its gradients, {what}", all(np.isfinite(g).all() for g in gradients)
    y, _ = GraphAttention(4, 3).forward(x, seen)
    yield "a node without neighbours", (y[:, 1] == 0).all() and np.isfinite(y).all()
    (y, _), _ = LSTM(4, 3).forward(x * np.float32(1e30), lengths=np.array([0, 3]))
    yield "an LSTM of inputs of 1e30, and of no steps", np.isfinite(y).all() and (y[0] == 0).all()


def _other_losses():
    p = np.array([[LARGE, -LARGE, 0]], "float32")
    for q in (p, -p, np.zeros_like(p)):
        loss, cache = KLDivergence().forward(p, q)
        yield "KL divergence of sure distributions", loss >= 0 or np.isposinf(loss)
    loss, cache = CrossEntropy(smoothing=0.1).forward(p / 1e30, np.array([0]))
    yield "smoothed cross-entropy of sure logits", np.isfinite(loss)
    yield "its gradient", np.isfinite(CrossEntropy().backward(np.float32(1), cache)).all()
    flat = np.log(np.full((1, 4), 0.25))
    for temperature in (1e-300, 1e-8, 1e300):
        rows = filtered(flat + np.arange(4), temperature)
        yield f"sampling at temperature {temperature}", np.allclose(rows.sum(), 1)
    for value in (0.0, LARGE):
        codes, step = quantize(np.full((2, 3), value, "float32"), 4, "nearest")
        back = dequantize(codes, step)
        yield f"quantized matrix of {value}", np.isfinite(back).all()


def _rows():
    norm = LayerNorm(6)
    for value in (0.0, 1.0, -7.5, 1e4):
        y, cache = norm.forward(np.full((2, 6), value, "float32"))
        yield f"LayerNorm of rows of {value}", np.abs(y).max() < 1e-3 * max(1, abs(value))
        dx = norm.backward(stream(1).standard_normal((2, 6)).astype("float32"), cache)
        yield f"its gradient at {value}", np.isfinite(dx).all()


def _masked():
    layer = MultiHeadAttention(8, 2)
    x = stream(2).standard_normal((2, 3, 8)).astype("float32")
    for mask in (np.zeros((3, 3), bool), np.eye(3, dtype=bool) & [[True], [False], [True]]):
        y, cache = layer.forward(x, x, x, mask)
        A = cache.attend.A
        gradients = layer.backward(np.ones_like(y), cache)
        hidden = ~np.broadcast_to(mask, A.shape)
        yield "weights where nothing is visible are 0", (A[hidden] == 0).all()
        yield "output of masked rows", np.isfinite(y).all()
        yield "gradients of masked rows", all(np.isfinite(g).all() for g in gradients)
    model, ids = GPT(9, 8, 2, 2, max_len=4), np.array([[1, 2, 3, 8], [8, 8, 8, 8]])
    logits, cache = model.forward(ids, key_mask=ids != 8)
    model.backward(np.ones_like(logits), cache)
    yield "a sequence of padding alone", np.isfinite(logits).all()
    yield "its gradients", all(np.isfinite(p.grad).all() for _, p in model.params())


def _empty():
    logits = stream(3).standard_normal((2, 4, 5)).astype("float32")
    targets, mask = np.ones((2, 4), int), np.array([[1, 1, 1, 1], [0, 0, 0, 0]], bool)
    counted = answer_mask(targets, np.array([3, 1]), mask)      # nothing after '=', or padding
    for average in ("sample", "token"):
        layer = SequenceLoss(average=average)
        loss, cache = layer.forward(logits, targets, counted)
        yield f"loss of empty right-hand sides ({average})", loss == 0
        yield "its gradient", (layer.backward(np.float32(1), cache) == 0).all()
    yield "they are all right", exact_match(logits, targets, counted) == 1
    loss, _ = CrossEntropy(ignored=1).forward(logits, targets)
    yield "cross-entropy when all is ignored", loss == 0


def measure(full, folder):
    runs, found, right = diverging(folder), culprits(), extremes()
    return [
        Figure("Numbers that go wrong say where", "trainings that diverge, then --check; "
               "a large or NaN parameter",
               f"{runs} diverging trainings stopped with step and parameter, --check named layer "
               f"and line (or the optimizer), no NaN saved; {found} of {found} culprits named"),
        Figure("Extreme numbers stay right", "logits to 3e38, equal rows, masked rows, nothing to "
               "count", f"{right} of {right} finite and right"),
    ]

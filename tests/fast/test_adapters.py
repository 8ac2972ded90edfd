"""A Llama's step of LoRA in columns is the textbook's, whatever is changed between two steps."""

import numpy as np
import pytest

from npdl.adapt import add_lora, quantize_linears
from npdl.losses import SequenceLoss
from npdl.models.llama import Llama
from npdl.optim import AdamW
from npdl_train.fast import adapters
from npdl_train.runs.engine import AdapterEngine, Batch, PlainEngine, make_engine

QV, EVERY, V = ("W_Q", "W_V"), None, 19


def llama(where=QV, dtype="float64", bits=None, double=False, seed=0, **options):
    """A small Llama with adapters, every number of them and of the norms drawn."""
    rng = np.random.default_rng(seed)
    model = Llama(V, 16, 3, 4, 2, 12, 32, rng=rng, dtype=dtype, **options)
    if bits:
        quantize_linears(model, bits, double=double)
    if where != "none":
        add_lora(model, 2, alpha=3, where=where)
    for name, param in model.params(frozen=True):
        if name.endswith(("gain", ".A", ".B", "W_Q.b")):
            param.data[...] = 0.5 * rng.standard_normal(param.shape)
    return model


def batch(B=2, S=7, counted=0.7, seed=1):
    rng = np.random.default_rng(seed)
    real = rng.random((B, S)) < counted
    real[:, -1] = True
    return Batch(rng.integers(0, V, (B, S)), np.where(real, rng.integers(0, V, (B, S)), -1), real)


def assert_as_the_textbook(model, given, tolerance=1e-12, must_fit=False):
    assert adapters.is_supported(model) or not must_fit
    found = []
    for engine in PlainEngine(model, AdamW(model)), AdapterEngine(model, AdamW(model)):
        for _, param in model.params():
            param.grad[...] = 7
        loss = engine.step(given)
        found.append([loss, *(param.grad.copy() for _, param in model.params())])
    for plain, fast in zip(*found, strict=True):
        np.testing.assert_allclose(fast, plain, rtol=0, atol=tolerance * (1 + abs(plain).max()))
    return found[0]


KINDS = [
    {}, {"where": EVERY}, {"where": EVERY, "tied": False, "qkv_bias": True}, {"bits": 4},
    {"bits": 4, "double": True}, {"d_head": 6}, {"where": "down"}, {"where": "gate"},
    {"where": lambda name: name.startswith("blocks.1.")}, {"where": "blocks.2.attention.W_O"},
    {"where": "classifier", "tied": False}]


@pytest.mark.parametrize("options", KINDS, ids=[", ".join(kind) or "lora" for kind in KINDS])
def test_equals_the_textbook(options):
    for shape in (1, 1), (2, 7), (1, 20):
        assert_as_the_textbook(llama(**options), batch(*shape), must_fit=True)
    assert_as_the_textbook(llama(dtype="float32", **options), batch(), 2e-5, must_fit=True)


CHANGES = {
    "eps": lambda m: setattr(m.blocks[0].norm1, "eps", 0.3),
    "scale": lambda m: setattr(m.blocks[1].attention.W_Q, "scale", 0.2),
    "theta": lambda m: setattr(m.blocks[1].attention.rotary, "rope_theta", 7.0),
    "a frozen adapter": lambda m: setattr(m.blocks[0].attention.W_Q.A, "trainable", False),
    "a frozen block": lambda m: m.blocks[0].set_trainable(False),
    "a gain that learns": lambda m: setattr(m.norm.gain, "trainable", True),
    "all learns": lambda m: m.set_trainable(True),
    "a table that learns": lambda m: setattr(m.embedding.W, "trainable", True),
    "a map in its place": lambda m: setattr(m.blocks[0].ffn, "up", m.blocks[1].ffn.up),
    "a tail cut off": lambda m: m.blocks.pop(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_is_obeyed(change):
    model, given = llama(), batch()
    before = assert_as_the_textbook(model, given)
    change(model)
    after = assert_as_the_textbook(model, given)
    assert len(before) != len(after) or any(not np.array_equal(*pair)
                                            for pair in zip(before, after, strict=True))


def test_below_the_first_adapter_nothing_is_computed(monkeypatch):
    blocks, backward = [], adapters.backward_block
    monkeypatch.setattr(adapters, "backward_block", lambda *given: (
        blocks.append(given[-1]), backward(*given)))
    assert_as_the_textbook(llama(lambda name: name.startswith("blocks.1.ffn")), batch())
    assert blocks == [True, False]          # of blocks 2 and 1; what is below 1 is not wanted


def test_what_does_not_count_may_be_nan():
    given = batch()
    logits = np.random.default_rng(2).standard_normal((2, 7, V))
    logits[~given.counted] = np.nan
    layer = SequenceLoss()
    loss, cache = layer.forward(logits, given.targets, given.counted)
    found, dlogits = adapters.loss_and_gradient(logits.reshape(-1, V).T.copy(), (2, 7),
                                                given.targets, given.counted)
    assert found == pytest.approx(loss, rel=1e-14)
    np.testing.assert_allclose(dlogits.T.reshape(logits.shape), layer.backward(1.0, cache),
                               rtol=0, atol=1e-15)


def test_others_run_under_the_textbook(capsys):
    full, other = llama("none"), llama()
    other.blocks[1].__class__ = type("Own", (type(other.blocks[1]),), {})
    half = llama(dtype="float32")
    half.norm.gain.data = half.norm.gain.data.astype("float64")
    for model in full, other, half:
        assert type(make_engine("fast", model, AdamW(model))) is PlainEngine
        assert "going on with --engine plain" in capsys.readouterr().err
    engine = make_engine("fast", model := llama(), AdamW(model), 2)
    assert type(engine) is AdapterEngine and engine.blas_threads.count == 2
    assert engine.name == "fast" and capsys.readouterr().err == ""


def test_the_same_is_refused():
    model, right = llama(), batch()
    wrong = [Batch(right.inputs + V, right.targets, right.counted),
             Batch(np.zeros((1, 33), int), np.zeros((1, 33), int), np.ones((1, 33), bool)),
             Batch(right.inputs, right.targets - 99, right.counted),
             Batch(right.inputs, right.targets[:1], right.counted)]
    for given in wrong:
        said = []
        for kind in PlainEngine, AdapterEngine:
            with pytest.raises(Exception) as refused:
                kind(model, AdamW(model)).step(given)
            said.append((type(refused.value), str(refused.value)))
        assert said[0] == said[1]

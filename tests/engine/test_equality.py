"""A recorded step computes the same values as the plain step, on both targets: for the examples of
every layer, model, loss and adapter (with --slow, for every option), and for every optimizer."""

import numpy as np
import pytest

import npdl
from npdl import optim
from npdl.engine import RecordedStep, c_build, compile_step, training_step
from npdl.engine.prefix import round_up_length
from npdl.losses import SequenceLoss
from npdl.study.check.samples import find_layer_classes, make_sample_builders
from npdl.study.trees import as_tuple, cast_tree, draw_upstream, leaves, map_leaves

TOLERANCE = {"float64": 1e-12, "float32": 2e-4}     # relative to 1 + the largest entry
STEPS = 3
FEW = 2                     # examples of a layer that are compared by default
QUICK_IN_C = ("Embedding", "LSTMCell", "LayerNorm", "ScaledDotAttention")
needs_compiler = pytest.mark.skipif(
    not any(map(c_build.shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
pytestmark = pytest.mark.usefixtures("unoptimized_compiler")
TARGETS = ["numpy", pytest.param("c", marks=needs_compiler)]


def redraw_arrays(nested, rng):
    """Return the structure with random values in float arrays, and with the others shuffled."""
    def redraw_leaf(leaf):
        if not isinstance(leaf, np.ndarray):
            return leaf
        if leaf.dtype.kind == "f":
            return rng.standard_normal(leaf.shape).astype(leaf.dtype)
        return rng.permutation(leaf.reshape(-1)).reshape(leaf.shape)
    return map_leaves(nested, redraw_leaf)


def forward_and_backward(layers, inputs, options, douts):
    """Return the results of several layers, so that one recorded step compiles them all."""
    found = []
    for layer, given, named, dout in zip(layers, inputs, options, douts, strict=True):
        outputs, cache = layer.forward(*given, **named)
        found.append((outputs, layer.backward(dout, cache)))
    return tuple(found)


def collect_arrays(layers, answers):
    """Yield every output and gradient, and the frozen parameters, which a forward may change."""
    for layer, (outputs, dx) in zip(layers, answers, strict=True):
        yield from (array for _, array in leaves(outputs, "y"))
        yield from (array for _, array in leaves(as_tuple(dx), "dx"))
        yield from (p.grad if p.trainable else p.data for _, p in layer.params(with_frozen=True))


def assert_close(found, wanted, tolerance):
    for a, b in zip(found, wanted, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        assert np.all(np.isfinite(a) == np.isfinite(b))
        size = 1 + float(np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, atol=tolerance * size, rtol=0)


def list_layer_cases():
    """Yield cases of each layer: on the NumPy target in one dtype, and in C in the other. By
    default, FEW examples of each layer run on the NumPy target, and a few layers in C."""
    for i, name in enumerate(sorted(find_layer_classes())):
        dtypes = ("float64", "float32")[:: 1 - i % 2 * 2]
        for dtype, target in zip(dtypes, ("numpy", "c"), strict=True):
            marks = [needs_compiler] * (target == "c")
            if target == "numpy" or name in QUICK_IN_C:
                yield pytest.param(name, dtype, target, FEW, marks=marks)
            yield pytest.param(name, dtype, target, None, marks=[*marks, pytest.mark.slow])


def make_example_layers(name, dtype, max_count):
    """Return (plain layers, their inputs, their options, rng) of the examples of a layer class."""
    try:
        samples = list(make_sample_builders(find_layer_classes()[name]).values())
    except npdl.errors.InputError:
        pytest.skip("a base class")
    rng = np.random.default_rng(len(name))
    chosen = samples[::-(-len(samples) // max_count)] if max_count else samples    # evenly spaced
    layers, inputs, options = zip(*(build(rng) for build in chosen), strict=True)
    plain = [layer.astype(dtype) for layer in layers]
    for layer in plain:
        for _, param in layer.params():
            param.data[...] = 0.5 * rng.standard_normal(param.shape)
    return plain, inputs, options, rng


def run_plain_steps(layers, inputs, options, rng, dtype):
    """Yield (arguments, results) of some plain steps. All inputs but the first are random."""
    with np.errstate(all="ignore"):
        for i in range(STEPS):
            given = cast_tree(inputs if i == 0 else redraw_arrays(inputs, rng), dtype)
            douts = [cast_tree(draw_upstream(layer.astype(dtype).forward(*x, **o)[0], rng), dtype)
                     for layer, x, o in zip(layers, given, options, strict=True)]
            for layer in layers:
                layer.zero_grad()
            yield (given, options, douts), forward_and_backward(layers, given, options, douts)


@pytest.mark.parametrize(("name", "dtype", "target", "max_count"), list(list_layer_cases()))
def test_every_layer_equals_its_plain_step(name, dtype, target, max_count):
    plain, *examples = make_example_layers(name, dtype, max_count)
    layers, lines = [layer.astype(dtype) for layer in plain], []
    step = RecordedStep(forward_and_backward, (layers,), target, lines.append)
    for arguments, wanted in run_plain_steps(plain, *examples, dtype):
        for layer in layers:
            layer.zero_grad()
        found = step(*arguments)
        assert_close(collect_arrays(layers, found), collect_arrays(plain, wanted), TOLERANCE[dtype])
    assert not lines and len(step.recordings) == 1


def make_gpt(dtype, blocks=1, **options):
    return npdl.GPT(11, 12, blocks, 3, max_len=8, dtype=dtype, rng=1, **options)


def make_step_pair(make_model, make_optimizer=optim.SGD, loss=None, max_norm=None, **settings):
    """Return (two equal models, a plain step of the first, a recorded step of the second)."""
    loss = loss or SequenceLoss()
    models = [make_model(), make_model()]
    plain, recorded = map(make_optimizer, models)

    def plain_step(inputs, *targets, lr=None, **options):
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return training_step(models[0], loss, plain, inputs, targets, options, lr, max_norm)
    step = compile_step(models[1], loss, recorded, max_norm=max_norm, **settings)
    plain_step.optimizer, step.optimizer = plain, recorded
    return models, plain_step, step


def assert_same_parameters(models, tolerance=1e-12):
    plain, recorded = ([p for _, p in model.params(with_frozen=True)] for model in models)
    assert_close([p.data for p in recorded], [p.data for p in plain], tolerance)
    for a, b in zip(plain, recorded, strict=True):
        assert type(b.data) is np.ndarray and type(b.grad) in (np.ndarray, type(a.grad))


OPTIMIZERS = {
    "SGD": lambda model: optim.SGD(model, momentum=0.9, weight_decay=0.1),
    # eps is large, so that a gradient of 0 with a rounding error does not change a parameter
    "Adam": lambda model: optim.Adam(model, weight_decay=0.1, eps=1e-3),
    "AdamW": lambda model: optim.AdamW(model, betas=(0.8, 0.95), eps=1e-3),
    "Muon": lambda model: optim.Muon(model, [name for name, p in model.params()
                                             if "ffn" in name and p.data.ndim == 2], eps=1e-3),
}


@pytest.mark.parametrize(("dtype", "target"), [
    ("float64", "numpy"), pytest.param("float32", "c", marks=[needs_compiler, pytest.mark.slow]),
    pytest.param("float32", "numpy", marks=pytest.mark.slow),
    pytest.param("float64", "c", marks=[needs_compiler, pytest.mark.slow])])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_equals_plain_training(name, dtype, target):
    """The steps clip gradients, drop out, and have tied weights, padding and two batch shapes."""
    rng = np.random.default_rng(3)
    models, plain, step = make_step_pair(
        lambda: make_gpt(dtype, norm="pre", positions="learned", tied=True, dropout=0.2,
                         padding_id=1),
        OPTIMIZERS[name], max_norm=0.5, target=target)
    for i in range(6):
        ids, targets = rng.integers(0, 11, (2, 3 if i == 3 else 4, 6))
        given = ids, targets, rng.random(ids.shape) < 0.7
        found, wanted = (run(*given, lr=0.01 * (i + 1), rng=np.random.default_rng(i))
                         for run in (step, plain))
        assert_close([found], [wanted], TOLERANCE[dtype])
    state, wanted = step.optimizer.state_dict(), plain.optimizer.state_dict()
    assert state.pop("steps") == wanted.pop("steps") == 6
    assert_same_parameters(models, 10 * TOLERANCE[dtype])
    for moment in state:
        assert_close(state[moment].values(), wanted[moment].values(), 10 * TOLERANCE[dtype])
    assert step.recorded.why_not is None and len(step.recorded.recordings) == 2


PREFIX_MODELS = {
    "GPT": lambda dtype: make_gpt(dtype, 2, padding_id=2),
    "GPT2": lambda dtype: npdl.GPT2(11, 12, 2, 3, max_len=8, dtype=dtype, rng=1),
    "GPT of one block": lambda dtype: npdl.GPT(11, 6, 1, 1, max_len=8, norm="pre", dtype=dtype),
    "LSTMLM": lambda dtype: npdl.LSTMLM(11, 6, 2, 5, dtype=dtype, rng=1)}


@pytest.mark.parametrize(("name", "average", "threads", "target"), [
    ("GPT", "sample", 2, "numpy"), ("LSTMLM", "token", 1, "numpy"),
    pytest.param("GPT of one block", "sample", 2, "numpy", marks=pytest.mark.slow),
    *(pytest.param(name, "token", 1, "c", marks=[needs_compiler, pytest.mark.slow])
      for name in PREFIX_MODELS)])
def test_shared_prefixes_equal_the_whole_batch(name, average, threads, target):
    """Most prefixes are shared in the batches with three different tokens, and few in the last."""
    rng = np.random.default_rng(3)
    models, plain, step = make_step_pair(
        lambda: PREFIX_MODELS[name]("float64"), OPTIMIZERS["AdamW"], SequenceLoss("mean", average),
        max_norm=0.5, target=target, threads=threads, share_prefixes=True)
    for i in range(6):
        if i % 2 == 0:
            ids = rng.integers(0, 3 if i < 4 else 11, (40, 5))
            given = ids, rng.integers(0, 11, ids.shape), rng.random(ids.shape) < 0.4
        assert_close([step(*given, lr=0.01)], [plain(*given, lr=0.01)], 1e-12)
    assert_same_parameters(models, 1e-11)
    for shard in step.recorded.shards:
        assert shard.why_not is None and len(shard.recordings) in (2, 3)


def test_batches_with_a_similar_number_of_prefixes_share_a_recording():
    """The engine rounds the number of rows up. The added rows change no result."""
    assert list(map(round_up_length, (1, 15, 17, 1503))) == [1, 15, 18, 1536]
    rng, sizes = np.random.default_rng(8), set()
    models, plain, step = make_step_pair(lambda: npdl.LSTMLM(40, 6, 1, 5, dtype="float64", rng=1),
                                         target="numpy", share_prefixes=True)
    for _ in range(12):
        ids = rng.integers(0, [1, 40, 4, 4], (100, 4))
        counted = np.tile(np.arange(4) == 3, (100, 1))
        sizes.add(tuple(len(np.unique(ids[:, :n], axis=0)) for n in (2, 3, 4)))
        given = ids, ids, counted
        assert_close([step(*given, lr=0.1)], [plain(*given, lr=0.1)], 1e-12)
    assert_same_parameters(models)
    recordings = step.recorded.shards[0].recordings
    assert len(recordings) < len(sizes)
    products = [op for op in recordings[0].operations
                if op.kind == "matmul" and op.output.shape[-1] == 6 != op.inputs[0].shape[0]]
    assert len(products) == 1           # dx is one product, after summing by token


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_embedding_matrix_is_multiplied_once(dtype, target):
    """A batch has more tokens than the vocabulary, so the whole matrix is multiplied first."""
    rng = np.random.default_rng(6)
    models, plain, step = make_step_pair(lambda: npdl.LSTMLM(4, 5, 1, 6, dtype=dtype, rng=0),
                                         target=target)
    for _ in range(3):
        given = *rng.integers(0, 4, (2, 7, 3)), np.ones((7, 3), bool)
        assert_close([step(*given, lr=0.1)], [plain(*given, lr=0.1)], TOLERANCE[dtype])
    assert_same_parameters(models, TOLERANCE[dtype])
    tables = [op for op in step.recorded.recordings[0].operations
              if op.kind == "matmul" and op.inputs[0].shape == (4, 5)]
    assert len(tables) == 1                     # one product for all time steps


def grokking_step(model, loss, optimizer, grokfast, ids, targets, counted):
    """Train with the two changes of the gradients from the study of grokking."""
    model.zero_grad()
    logits, cache = model.forward(ids)
    value, c_loss = loss.forward(logits, targets, counted)
    model.backward(loss.backward(1.0, c_loss), cache)
    grokfast.filter_gradients()
    optim.make_gradients_orthogonal(optimizer.params.values())
    optimizer.step()
    return value


@pytest.mark.parametrize("target", TARGETS)
def test_custom_step_may_create_state_in_first_step(target):
    rng, loss = np.random.default_rng(4), SequenceLoss("mean", "token")
    sides = []
    for _ in range(2):
        model = make_gpt("float64")
        optimizer = optim.SGD(model, lr=0.05)
        sides.append((model, loss, optimizer, optim.Grokfast(optimizer.params.values())))
    step = RecordedStep(grokking_step, sides[1], target)
    for _ in range(4):
        ids, targets = rng.integers(0, 11, (2, 3, 5))
        counted = np.ones(ids.shape, bool)
        assert_close([step(ids, targets, counted)],
                     [grokking_step(*sides[0], ids, targets, counted)], 1e-12)
    assert_close(sides[1][3].mu, sides[0][3].mu, 1e-11)
    assert step.why_not is None


@pytest.mark.parametrize("target", TARGETS)
def test_adapter_training_equals_plain_training(target):
    """The GPT is quantized, and only its LoRA adapters are trained."""
    from npdl.adapt import add_lora, quantize_linears

    def make():
        model = make_gpt("float64")
        quantize_linears(model, rounding="nf4", block=4, double=True, where=("W_Q", "up"))
        add_lora(model, rank=2, where=("W_Q", "W_V", "up"), rng=2)
        return model

    rng = np.random.default_rng(5)
    models, plain, step = make_step_pair(make, OPTIMIZERS["AdamW"], target=target)
    for _ in range(4):
        given = *rng.integers(0, 11, (2, 3, 5)), rng.random((3, 5)) < 0.8
        assert_close([step(*given, lr=0.01)], [plain(*given, lr=0.01)], 1e-12)
    assert_same_parameters(models, 1e-11)
    sources = {op.source[0] for op in step.recorded.recordings[0].operations}
    assert any(file.endswith("linears.py") for file in sources) and step.recorded.why_not is None

"""The fast wing beside the textbook: steps of both on the same model, batch and masks.

`grid` draws the options of model and step from the lists that npdl itself has of them, so that a
new activation is in the proof, or refused, without a word here.
"""

import inspect
import itertools

import numpy as np

from npdl import backend
from npdl.adapt import add_lora, quantize_linears
from npdl.backend import stream, to_host, xp
from npdl.errors import FLOATS
from npdl.functions import ERF_FIT_END, softmax, softmax_backward
from npdl.layers.activation import ACTIVATIONS, GELU
from npdl.layers.embedding import POSITIONS
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import BLOCKS
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import SGD, Adam, AdamW
from npdl_study.check.subjects import randomise
from npdl_study.deviation import deviation
from npdl_train.fast import attention, engine, flat_parameters, fused, kernels, loss, prefix
from npdl_train.fast.engine import FastEngine
from npdl_train.fast.memory import Arena
from npdl_train.fast.prefix import Rows
from npdl_train.runs.engine import Batch, PlainEngine, make_engine
from tests.tools import device

V, S, D = 7, 4, 6            # no two sizes alike, heads (2) and their width (3) neither
BATCHES = {
    "many shared": lambda rng: rng.integers(0, 2, (9, S)),
    "few shared": lambda rng: rng.integers(0, V, (6, S)),
    "all the same": lambda rng: np.tile(rng.integers(0, V, (1, S)), (5, 1)),
    "one sequence": lambda rng: rng.integers(0, V, (1, S)),
    "one position": lambda rng: rng.integers(0, 2, (7, 1)),
}
COUNTED = {
    "the last": lambda rng, shape: np.arange(shape[1]) == np.full((shape[0], 1), shape[1] - 1),
    "ragged": lambda rng, shape: rng.random(shape) < 0.5,
    "all": lambda rng, shape: np.ones(shape, bool),
    "none": lambda rng, shape: np.zeros(shape, bool),
}


FLAGS = (True, False)
SIZES = {"vocab_size": V, "d_model": D, "max_len": S + 1}
DRAWN = {GPT: 420, LSTMLM: 180}


def options(kind):
    """{option: its values} of a model, of its adapters and of a step: the lists that npdl has."""
    values = {"num_layers": (1, 2, 3), "dropout": (0.0, 0.4), "padding_id": (None, 0),
              "bias": FLAGS, "dtype": FLOATS}
    if kind is GPT:
        values |= {"attention_dropout": (0.0,), "num_heads": (1, 2), "multiplier": (1, 2),
                   "norm": tuple(BLOCKS),
                   "activation": tuple(ACTIVATIONS), "positions": POSITIONS, "tied": FLAGS,
                   "norm_bias": FLAGS, "ffn_bias": FLAGS, "classifier_bias": FLAGS,
                   "eps": (1e-5, 0.5)}
    else:
        values |= {"d_hidden": (None, 5)}
    return values | {"adapters": (None, "lora", "qlora"), "freeze": FLAGS, "drop": FLAGS,
                     "optimizer": tuple(flat_parameters.UPDATES),
                     "decay": (0.0, 0.3), "norms": (0.5, 1e6),
                     "batch": tuple(BATCHES), "counted": tuple(COUNTED), "threads": (1, 2)}


STEP = ("adapters", "freeze", "drop", "optimizer", "decay", "norms", "batch", "counted", "threads")


def grid(kind):
    """As many choices of one value for every option as DRAWN says, always the same ones."""
    rng = stream(20)
    return [{name: values[rng.integers(len(values))] for name, values in options(kind).items()}
            for _ in range(DRAWN[kind])]


def sparse(kind):
    """A few choices of the grid: each pair of values of two options that it has, at least once."""
    choices, pairs = grid(kind), list(itertools.combinations(options(kind), 2))
    met = [{(a, b, choice[a], choice[b]) for a, b in pairs} for choice in choices]
    left, found = set().union(*met), []
    while left:
        best = max(range(len(met)), key=lambda i: len(met[i] & left))
        left -= met[best]
        found.append(choices[best])
    return found


def build(kind, adapters=None, freeze=False, seed=1, **chosen):
    """A small model with random parameters, every other of them frozen on `freeze`."""
    wanted = {**SIZES, "num_heads": 2, "multiplier": 2, "dtype": "float64", **chosen}
    taken = inspect.signature(kind.__init__).parameters
    model = kind(**{name: value for name, value in wanted.items() if name in taken})
    if adapters == "qlora":
        quantize_linears(model, 4)
    if adapters:
        add_lora(model, rank=1, alpha=2.0)
    randomise(model, stream(seed, 2))
    for _, param in list(model.params())[1::2] if freeze else ():
        param.trainable = False
    return model


def drawn(batch, counted, seed=7):
    """A Batch of one kind."""
    rng = stream(seed, 1)
    ids = BATCHES[batch](rng)
    return Batch(ids, rng.integers(0, V, ids.shape), COUNTED[counted](rng, ids.shape))


def both(make, optimizer=AdamW, decay=1e-2, **options):
    """(the textbook's engine, the wing's), each with a model of its own from `make`."""
    large = {} if optimizer is SGD else {"eps": 1e-3}       # else rounding decides an update
    models = make(), make()
    pair = [optimizer(model, 0.05, weight_decay=decay, **large) for model in models]
    return PlainEngine(models[0], pair[0]), FastEngine(models[1], pair[1], **options)


def assert_chosen(kind, choice):
    """Two steps of both engines with the options of a choice, or that the wing refuses them."""
    chosen = {name: value for name, value in choice.items() if name not in STEP}
    step = {name: choice[name] for name in STEP}

    def make():
        return build(kind, step["adapters"], step["freeze"], **chosen)

    model = make()
    if engine.unsupported(model, step["optimizer"](model)):
        assert isinstance(make_engine("fast", model, step["optimizer"](model)), PlainEngine)
        return
    assert_equal(make, drawn(step["batch"], step["counted"]), step["threads"], step["drop"],
                 1e-4 if choice["dtype"] == "float32" else 1e-12,
                 optimizer=step["optimizer"], decay=step["decay"], max_norm=step["norms"])


def assert_close(found, wanted, what, atol=1e-12):
    assert deviation(found, wanted, 1.0) <= atol, what


def assert_equal(make, batch, threads=1, dropout=False, atol=1e-12, max_norm=0.5, **options):
    """The loss, every gradient, and what `measure` says of the batch; the same after an update."""
    rng = (lambda: stream(3, 5)) if dropout else None
    plain, fast = both(make, threads=threads, **options)
    parameters = dict(fast.model.params(frozen=True))
    with plain, fast:
        for _ in range(2):
            assert_close(fast.step(batch, rng), plain.step(batch, rng), "loss", atol)
            for name, param in plain.model.params():
                assert_close(parameters[name].grad, param.grad, name, atol)
            for found, wanted in zip(fast.measure(batch), plain.measure(batch), strict=True):
                assert_close(found, wanted, "measure", atol)
            assert_close(fast.clip(max_norm), plain.clip(max_norm), "norm", atol)
            for each in (plain, fast):
                each.update()
            for name, param in plain.model.params(frozen=True):
                assert_close(parameters[name].data, param.data, name, atol)


def assert_equal_on_a_device(make, batch, dropout=False, atol=1e-12):
    """The same, the wing on a device."""
    rng = (lambda: stream(3, 5)) if dropout else None
    plain, _ = both(make)
    with plain:
        wanted = plain.step(batch, rng)
        measured = plain.measure(batch)
    with device.numpy_as_cupy(), backend.using("cupy"):
        model = make_on_host(make).to_backend()
        with FastEngine(model, AdamW(model)) as fast:
            fast.step(batch, rng)
            loss = fast.step(batch, rng)
            assert_close(to_host(xp.asarray(loss)), wanted, "loss", atol)
            gradients = {name: to_host(param.grad) for name, param in model.params()}
            found = fast.measure(batch)
    for name, param in plain.model.params():
        assert_close(gradients[name], param.grad, name, atol)
    for value, expected in zip(found, measured, strict=True):
        assert_close(value, expected, "measure", atol)


def make_on_host(make):
    with backend.using("numpy"):
        return make()


def assert_tree(ids):
    """Rows have one node for each distinct prefix, and runs in which no row moves."""
    rows = Rows(ids)
    prefixes = [tuple(row[: t + 1]) for row in ids for t in range(len(row))]
    assert rows.size == len(set(prefixes)) == len(rows.tokens) == rows.levels[-1].stop
    nodes = dict(zip(prefixes, rows.node.ravel().tolist(), strict=True))
    assert [nodes[tokens] for tokens in prefixes] == rows.node.ravel().tolist()
    for tokens, node in nodes.items():
        assert (rows.tokens[node], rows.positions[node]) == (tokens[-1], len(tokens) - 1)
    for run in rows.runs:
        for t in range(run.first + 1, run.stop):
            for tokens, node in nodes.items():
                if len(tokens) == t + 1:
                    assert node - nodes[tokens[:-1]] == run.nodes


def assert_kernels():
    """Each kernel equals its layer, and writes over nothing but what it says."""
    rng, m = stream(9, 9), Arena("float64")
    pairs = [(Linear(3, 5, dtype="float64"), kernels.linear, kernels.linear_backward),
             (Linear(3, 5, bias=False, dtype="float64"), kernels.linear, kernels.linear_backward),
             (LayerNorm(5, dtype="float64"), kernels.layer_norm, kernels.layer_norm_backward),
             (GELU(), kernels.activation, kernels.activation_backward)]
    for layer, forward, backward in pairs:
        randomise(layer, rng)
        x = rng.standard_normal((4, 3 if isinstance(layer, Linear) else 5))
        y, cache = layer.forward(x)
        dy = rng.standard_normal(y.shape)
        for twice in (1, 2):                            # the second time, gradients add up
            layer.zero_grad()
            for _ in range(twice):
                dx = layer.backward(dy, cache)
            wanted = (y, dx, *(p.grad.copy() for _, p in layer.params()))
            layer.zero_grad()
            m.written.clear()
            for _ in range(twice):
                given, upstream = x.copy(), dy.copy()
                found, kept = forward(layer, given, m)
                assert isinstance(layer, GELU) or np.array_equal(given, x)
                found = found.copy(), backward(layer, upstream, kept, m).copy()
                assert not isinstance(layer, Linear) or np.array_equal(upstream, dy)
            for a, b in zip((*found, *(p.grad for _, p in layer.params())), wanted, strict=True):
                assert_close(a, b, type(layer).__name__)
    assert_softmax(m, rng)
    row = np.full((2, 128), 1000.1, np.float32)         # what varies by rounding alone is 0
    assert not kernels.layer_norm(LayerNorm(128), row, Arena("float32"))[0].any()
    row[0, ::2] = 1e20                                  # and squares that overflow give no 0
    with np.errstate(over="ignore", invalid="ignore"):
        y, _ = kernels.layer_norm(LayerNorm(128), row, Arena("float32"))
        assert_close(y, LayerNorm(128).forward(row)[0], "squares that overflow")
    assert np.isnan(y[0]).all() and not y[1].any()


def assert_softmax(m, rng):
    """Over short and long axes; without the maximum, exp overflows at 1e4 and gives 0 at -1e4."""
    for S, (size, shift) in itertools.product((7, 20), ((1.0, 0.0), (1.0, 1e4), (1.0, -1e4),
                                                      (1e4, 0.0))):
        x, dy = rng.standard_normal((2, 2, 3, 2, S))
        mask = rng.random((2, S)) < 0.7
        mask[:, 0] = True
        hidden = np.where(mask, 0, -np.inf)
        y = softmax(0.3 * (size * x + shift), mask)
        dx = 0.3 * softmax_backward(dy, y)
        found = kernels.softmax(size * x + shift, 0.3, hidden, m)
        assert_close(found, y, "softmax")
        assert_close(kernels.softmax_backward(dy.copy(), found, 0.3, m), dx, "softmax")


def assert_erf_fit():
    """Beyond ERF_FIT_END, where the wing does not clamp, the fit's tanh is 1 in float32."""
    x = np.sqrt(np.geomspace(ERF_FIT_END, 1e36, 20001)).astype(np.float32)
    for sign in (1, -1):
        y, slope = sign * x, np.empty_like(x)
        with np.errstate(over="ignore"):
            fused.gelu(y, slope, np.empty_like(x), np.empty_like(x))
        np.testing.assert_allclose(y, np.maximum(sign * x, 0), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(slope, sign > 0, atol=1e-5)


def assert_equal_for_large_tables():
    """A vocabulary that is too large for one-hot rows, rows too long for columns, and batches,
    queries and sums that are cut in parts."""
    limits = {(kernels, "SMALL_TABLE"): 1, (kernels, "SHORT_AXIS"): 1, (kernels, "BLOCK"): 20,
              (kernels, "TURNED"): 1, (kernels, "SMALL"): 0, (attention, "PART"): 2,
              (prefix, "FEW_WORDS"): 0}
    before = {(module, name): getattr(module, name) for module, name in limits}
    forget()
    try:
        for (module, name), value in limits.items():
            setattr(module, name, value)
        for counted in ("ragged", "all"):
            assert_equal(lambda: build(GPT, num_layers=1, padding_id=0),
                         drawn("many shared", counted))
            assert_equal(lambda: build(GPT, norm="pre", positions="learned"),
                         drawn("few shared", counted))
            assert_equal(lambda: build(LSTMLM, num_layers=1, padding_id=0),
                         drawn("few shared", counted))
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)
        forget()


def forget():
    """What is kept of batches that share nothing."""
    prefix.unshared.cache_clear()
    loss.unshared.cache_clear()


def assert_same_updates(kind, decay, max_norm):
    """Three updates of an optimizer, clipped or not, from the same gradients, in small blocks."""
    block, flat_parameters.BLOCK = flat_parameters.BLOCK, 37
    try:
        compare_updates(kind, decay, max_norm)
    finally:
        flat_parameters.BLOCK = block


def assert_clipping_overflows_to_nan():
    """A norm that is infinite makes no gradient 0."""
    for kind in (PlainEngine, FastEngine):
        model = build(GPT, dtype="float32")
        engine = kind(model, AdamW(model))
        for _, param in model.params():
            param.grad[...] = 1e20
        with np.errstate(over="ignore", invalid="ignore"):
            assert engine.clip(1.0) == np.inf
        assert all(np.isnan(param.grad).all() for _, param in model.params())


def assert_moments_overflow_to_nan():
    """A gradient whose square is infinite makes its own parameter NaN, and no update 0."""
    pairs = [*itertools.product((PlainEngine, FastEngine), (Adam, AdamW)),
             (PlainEngine, flat_parameters.AdamWInPlace)]
    for kind, optimizer in pairs:
        model = make_on_host(lambda: build(GPT, dtype="float32")).to_backend()
        engine = kind(model, optimizer(model))
        for name, param in model.params():
            param.grad[...] = 1e20 if name == "embedding.W" else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            engine.update()
        assert [name for name, param in model.params() if not xp.isfinite(param.data).all()] == [
            "embedding.W"]


def compare_updates(kind, decay, max_norm):
    kinds = [(PlainEngine, kind), (FastEngine, kind)]
    kinds += [(PlainEngine, flat_parameters.AdamWInPlace)] * (kind is AdamW)
    models = [build(GPT) for _ in kinds]
    for model in models:
        for _, param in model.params():
            param.decay = param.data.ndim >= 2
    turned = models[-1].embedding.W         # not in one piece: in place, the textbook updates it
    turned.data = np.asfortranarray(turned.data)
    engines = [kind(model, optimizer(model, 0.1, weight_decay=decay))
               for (kind, optimizer), model in zip(kinds, models, strict=True)]
    rng = stream(5, 5)
    for lr in (0.05, None, 0.02):
        for (_, p), *others in zip(*(model.params() for model in models), strict=True):
            p.grad[...] = rng.standard_normal(p.shape)
            for _, q in others:
                q.grad[...] = p.grad
        norms = [one.clip(max_norm) for one in engines]
        assert_close(norms[1], norms[0], "norm")
        for one in engines:
            one.update(lr)
    plain, *others = (getattr(one, "flat", one).optimizer for one in engines)
    for name, p in plain.params.items():
        for fast in others:
            assert_close(fast.params[name].data, p.data, name)
            for moment in plain.moments:
                assert_close(getattr(fast, moment)[name], getattr(plain, moment)[name], moment)

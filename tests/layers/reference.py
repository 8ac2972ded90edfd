"""Results frozen before the layers were written anew: losses, outputs and every gradient.

`cases()` runs small batches of every layer, model, loss and optimizer in float64 with seeded
parameters; reference.npz beside this file holds what they gave. `python -m tests.layers.reference`
writes it, which is done once: from then on the numbers are what new code is held to. So they have
inputs of their own: npdl_study.check.examples may change.
"""

from pathlib import Path

import numpy as np

from npdl.adapt import add_lora, quantize_linears
from npdl.layers.activation import GELU, TanhGELU
from npdl.layers.attention import (
    AdditiveAttention,
    DotAttention,
    MultiHeadAttention,
    causal_mask,
)
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.embedding import Embedding, LearnedPositions, Unembedding
from npdl.layers.graph import AddReLU, GraphAttention, MessagePassing
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import GRU, LSTM, RNN
from npdl.losses import CrossEntropy, KLDivergence, SequenceLoss, SquaredError
from npdl.models.attentive_rnn import AttentiveRNN
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.optim import SGD, Adam, AdamW, clip_by_global_norm

FILE = Path(__file__).with_suffix(".npz")
D64 = {"dtype": "float64"}
LENGTHS = np.array([2, 4, 0])


def first(value):
    return value[0] if isinstance(value, tuple) else value


def arrays_in(value):
    """The arrays of a nest of tuples, in order, without what is None."""
    if value is None:
        return []
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in arrays_in(item)]
    return [np.asarray(value)]


def randomised(layer, rng, scale=0.5):
    for _, param in layer.params():
        param.data[...] = scale * rng.standard_normal(param.shape)
    layer.zero_grad()
    return layer


def gradients(layer):
    return {f"d.{name}": param.grad.copy() for name, param in layer.params()}


def of_layer(make, *inputs, state=None, **options):
    """Forward, a random upstream gradient for the first output, backward."""
    def run(rng):
        layer = randomised(make(), rng)
        given = [rng.standard_normal(x) if isinstance(x, tuple) else x for x in inputs]
        if state is not None:
            given.append(tuple(rng.standard_normal(s) for s in state) if isinstance(state, list)
                         else rng.standard_normal(state))
        out, cache = layer.forward(*given, **options)
        y = first(out)
        dy = rng.standard_normal(y.shape)
        dx = layer.backward(dy, cache)
        return {"y": y, "dx": arrays_in(first(dx))[0] if arrays_in(first(dx)) else np.zeros(0),
                **gradients(layer)}
    return run


def of_recurrent(make, shape, state, lengths=None):
    """Gradients by the outputs and by the final state, from a given state."""
    def run(rng):
        layer = randomised(make(), rng)
        x = rng.standard_normal(shape)
        start = tuple(rng.standard_normal(s) for s in state)
        dfinal = tuple(rng.standard_normal(s) for s in state)
        start, dfinal = (start[0], dfinal[0]) if len(state) == 1 else (start, dfinal)
        (y, final), cache = layer.forward(x, start, lengths=lengths)
        dx, dstart = layer.backward((rng.standard_normal(y.shape), dfinal), cache)
        parts = {f"state{i}": a for i, a in enumerate(arrays_in((final, dstart)))}
        return {"y": y, "dx": dx, **parts, **gradients(layer)}
    return run


def of_model(make, ids, vocab, state=None, **options):
    """The sequence loss of a language model, part of its tokens counted."""
    def run(rng):
        model = randomised(make(), rng, 0.3)
        batch = rng.integers(0, vocab, ids)
        targets, counted = rng.integers(0, vocab, ids), rng.random(ids) < 0.6
        given = (tuple(rng.standard_normal(s) for s in state),) if state is not None else ()
        chosen = {k: v(rng) if callable(v) else v for k, v in options.items()}
        out, cache = model.forward(batch, *given, **chosen)
        loss_layer = SequenceLoss()
        loss, c_loss = loss_layer.forward(first(out), targets, counted)
        model.backward(loss_layer.backward(1.0, c_loss), cache)
        return {"logits": first(out), "loss": loss, **gradients(model)}
    return run


def adapted(make, bits=None):
    def build():
        model = make()
        if bits:
            quantize_linears(model, bits)
        add_lora(model, rank=2, alpha=3.0)
        return model
    return build


def of_loss(make, *inputs):
    def run(rng):
        layer = make()
        given = [x(rng) for x in inputs]
        loss, cache = layer.forward(*given)
        dloss = rng.standard_normal(np.shape(loss)) if np.ndim(loss) else 0.7
        parts = arrays_in(layer.backward(dloss, cache))
        return {"loss": loss, **{f"d{i}": d for i, d in enumerate(parts)}}
    return run


def of_optimizer(make, max_norm=None):
    def run(rng):
        model = randomised(Linear(3, 4, **D64), rng)
        optimizer = make(model)
        for _ in range(5):
            for _, param in model.params():
                param.grad[...] = rng.standard_normal(param.shape)
            if max_norm is not None:
                clip_by_global_norm(optimizer.params.values(), max_norm)
            optimizer.step()
        return {name: param.data.copy() for name, param in model.params()}
    return run


def of_parity(make):
    """A model with one vector in, all of its loss."""
    def run(rng):
        layer = randomised(make(), rng)
        x, z = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4, 2))
        loss, cache = layer.forward(x, z, lengths=LENGTHS)
        return {"loss": loss, "dx": layer.backward(1.0, cache)[0], **gradients(layer)}
    return run


def of_autoencoder(rng):
    layer = randomised(AutoencoderLoss(Autoencoder(2, 3, 4, **D64)), rng)
    x1, x2 = rng.standard_normal((2, 5, 2))
    losses, cache = layer.forward(x1, x2, rng.integers(0, 4, 5))
    dx1, dx2, _ = layer.backward((1.0, 1.0), cache)
    return {"J1": losses[0], "J2": losses[1], "dx1": dx1, "dx2": dx2, **gradients(layer)}


def of_seq2seq(norm):
    def run(rng):
        model = randomised(Seq2Seq(4, 5, 4, 1, 2, 2, 6, norm=norm, **D64), rng, 0.3)
        source, target = rng.integers(0, 4, (2, 4)), rng.integers(0, 5, (2, 3))
        mask = np.array([[True, True, True, False], [True] * 4])
        out, cache = model.forward(source, target, mask)
        logits = first(out)
        model.backward(rng.standard_normal(logits.shape), cache)
        return {"logits": logits, **gradients(model)}
    return run


def gpt(**options):
    return lambda: GPT(6, 4, **{"num_layers": 2, "num_heads": 2, "multiplier": 2, "max_len": 5,
                                **D64, **options})


def lstm(**options):
    return lambda: LSTMLM(6, 3, **{**D64, **options})


def drop(rng):
    return np.random.default_rng(int(rng.integers(1 << 30)))


def padded(rng):
    return np.arange(5) < rng.integers(2, 6, 4)[:, None]


HL = [(2, 3, 3)]
CASES = {
    "Linear": of_layer(lambda: Linear(3, 4, **D64), (2, 5, 3)),
    "Embedding": of_layer(lambda: Embedding(5, 3, padding_id=1, **D64),
                          np.array([[1, 2, 2], [0, 4, 1]])),
    "Unembedding": of_layer(lambda: Unembedding(Embedding(5, 3, **D64)), (2, 3, 3)),
    "LearnedPositions": of_layer(lambda: LearnedPositions(4, 3, **D64), (2, 3, 3)),
    "LayerNorm": of_layer(lambda: LayerNorm(6, **D64), (2, 3, 6)),
    "LayerNorm, no bias": of_layer(lambda: LayerNorm(6, bias=False, **D64), (2, 3, 6)),
    "RMSNorm": of_layer(lambda: RMSNorm(6, **D64), (2, 3, 6)),
    "BatchNorm": of_layer(lambda: BatchNorm(3, **D64), (4, 3, 2)),
    "GroupNorm": of_layer(lambda: GroupNorm(4, 2, **D64), (2, 4, 3)),
    "InstanceNorm": of_layer(lambda: InstanceNorm(3, **D64), (2, 3, 4)),
    "GELU": of_layer(GELU, (3, 4)),
    "GELU tanh": of_layer(TanhGELU, (3, 4)),
    "RNN": of_recurrent(lambda: RNN(2, 3, 2, **D64), (3, 4, 2), [(2, 3, 3)], LENGTHS),
    "GRU": of_recurrent(lambda: GRU(2, 3, 2, **D64), (3, 4, 2), [(2, 3, 3)], LENGTHS),
    "LSTM": of_recurrent(lambda: LSTM(2, 3, 2, **D64), (3, 4, 2), HL * 2),
    "LSTM, lengths": of_recurrent(lambda: LSTM(2, 3, 2, **D64), (3, 4, 2), HL * 2, LENGTHS),
    "LSTM, no bias": of_layer(lambda: LSTM(2, 3, bias=False, **D64), (3, 4, 2)),
    "Bidirectional": of_layer(lambda: Bidirectional(LSTM(2, 3, rng=0, **D64), GRU(
        2, 2, rng=1, **D64)), (3, 4, 2), lengths=LENGTHS),
    "DotAttention": of_layer(DotAttention, (2, 3, 4), (2, 5, 4), (2, 5, 2)),
    "AdditiveAttention": of_layer(lambda: AdditiveAttention(4, 3, 2, **D64), (2, 3, 4), (2, 5, 3),
                                  (2, 5, 2)),
    "MultiHeadAttention": of_layer(lambda: MultiHeadAttention(4, 2, **D64), (2, 3, 4), (2, 3, 4),
                                   (2, 3, 4), mask=causal_mask(3)),
    "GraphAttention": of_layer(lambda: GraphAttention(3, 2, **D64), (4, 3)),
    "MessagePassing": of_layer(lambda: MessagePassing(Linear(3, 2, **D64), AddReLU(
        3, 2, **D64)), (4, 3), (4, 4)),
    "AttentiveRNN": of_layer(lambda: AttentiveRNN(2, 3, **D64), (2, 4, 2)),
    "AttentiveRNN, previous": of_layer(
        lambda: AttentiveRNN(2, 3, score="additive", query="previous", **D64), (2, 4, 2),
        state=[(2, 3), (2, 2, 3)]),
    "BiRNN": of_layer(lambda: BiRNN(2, 3, 4, **D64), (3, 4, 2), lengths=LENGTHS),
    "BiRNNLoss": of_parity(lambda: BiRNNLoss(BiRNN(2, 3, 2, **D64))),
    "AutoencoderLoss": of_autoencoder,
    "Seq2Seq": of_seq2seq("post"),
    "Seq2Seq, pre": of_seq2seq("pre"),
    "GPT": of_model(gpt(), (3, 5), 6),
    "GPT, pre, learned, tied": of_model(gpt(norm="pre", positions="learned", tied=True), (3, 5), 6),
    "GPT, 2k/d, relu, no bias": of_model(gpt(positions="2k/d", activation="relu", bias=False,
                                             norm_bias=False), (3, 5), 6),
    "GPT, padding": of_model(gpt(padding_id=0), (4, 5), 6, key_mask=padded),
    "GPT, dropout": of_model(gpt(dropout=0.3), (3, 5), 6, rng=drop),
    "GPT, LoRA": of_model(adapted(gpt()), (3, 5), 6),
    "GPT, QLoRA": of_model(adapted(gpt(norm="pre"), 4), (3, 5), 6),
    "LSTMLM": of_model(lstm(), (3, 5), 6),
    "LSTMLM, 3 layers, padding": of_model(lstm(num_layers=3, padding_id=2), (3, 5), 6),
    "LSTMLM, no bias, wider": of_model(lstm(bias=False, d_hidden=4), (3, 5), 6),
    "LSTMLM, state": of_model(lstm(), (3, 5), 6, state=HL * 2),
    "LSTMLM, lengths": of_model(lstm(), (3, 5), 6, lengths=np.array([5, 2, 1])),
    "LSTMLM, dropout": of_model(lstm(dropout=0.3), (3, 5), 6, rng=drop),
    "LSTMLM, QLoRA": of_model(adapted(lstm(), 4), (3, 5), 6),
    "SequenceLoss, token": of_loss(lambda: SequenceLoss("sum", "token"),
                                   lambda rng: rng.standard_normal((3, 4, 5)),
                                   lambda rng: rng.integers(0, 5, (3, 4)),
                                   lambda rng: rng.random((3, 4)) < 0.5),
    "CrossEntropy": of_loss(lambda: CrossEntropy(ignored=1, smoothing=0.1),
                            lambda rng: rng.standard_normal((6, 5)),
                            lambda rng: rng.integers(0, 5, 6)),
    "SquaredError": of_loss(lambda: SquaredError(0.5, "none"),
                            lambda rng: rng.standard_normal((3, 4)),
                            lambda rng: rng.standard_normal((3, 4))),
    "KLDivergence": of_loss(KLDivergence, lambda rng: rng.standard_normal((3, 4)),
                            lambda rng: rng.standard_normal((3, 4))),
    "SGD": of_optimizer(lambda model: SGD(model, 0.1, momentum=0.9, weight_decay=0.01)),
    "Adam": of_optimizer(lambda model: Adam(model, 0.1, weight_decay=0.01)),
    "AdamW, clipped": of_optimizer(lambda model: AdamW(model, 0.1, weight_decay=0.1), 1.0),
}


def results():
    """{case: {name: array}} as the code at hand computes them."""
    return {name: run(np.random.default_rng(number)) for number, (name, run) in
            enumerate(CASES.items())}


if __name__ == "__main__":
    flat_results = {f"{case}/{name}": np.asarray(array) for case, arrays in results().items()
                    for name, array in arrays.items()}
    np.savez_compressed(FILE, **flat_results)
    print(f"{FILE.name}: {len(CASES)} cases, {len(flat_results)} arrays, "
          f"{FILE.stat().st_size / 1024:.0f} kB")

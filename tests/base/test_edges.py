"""Edge cases for which npdl once computed a wrong value, or raised an error of NumPy: VALUES lists
calls with their results, and REFUSED lists calls that must raise an InputError."""

import math

import numpy as np
import pytest

import npdl
from npdl import RNN, Bidirectional, CrossEntropy, Embedding, Linear, LSTMCell, Sequential, Tanh
from npdl.adapt import add_lora
from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.adapt.quantize import quantize
from npdl.backend import make_rng
from npdl.data.dates import Dates, DateWords
from npdl.data.text import draw_windows, split_text
from npdl.decoding.model_scorers import RecomputedSeq2Seq
from npdl.engine import compile_step
from npdl.errors import InputError
from npdl.functions import log_softmax, reverse
from npdl.layers.graph import ReplaceUpdate
from npdl.layers.neuron import ThresholdNeuron
from npdl.layers.recurrent import RecurrentLayer
from npdl.losses import REDUCTIONS, SoftCrossEntropy, exact_match
from npdl.optim import SGD, decay_only_matrices, make_gradients_orthogonal, orthogonalise
from npdl.study.check.samples import make_sample_builders
from npdl.train.pretrained.exchange import from_torch
from npdl.train.sweep import sweep

D64 = {"dtype": "float64"}
NAN, INF = np.nan, np.inf
BYTES = np.array([[100, 120, 200, 250]], "uint8")
NORMS = npdl.BatchNorm(6), npdl.GroupNorm(6, 2), npdl.InstanceNorm(6)
HUGE = (1e20 * make_rng(4).standard_normal((7, 6, 11))).astype("float32")
HALVES = np.array([[0.7, 0.2, 0.1]], "float16")
STEPS, LINEAR = make_rng(1).standard_normal((2, 6, 3)), Linear(2, 2)


class Mine(npdl.Layer):
    def __init__(self):
        self.params = {"W": np.ones(2)}         # hides the method params()


def y_of(layer, *inputs):
    return layer.forward(*inputs)[0]


def lstm_outputs(lengths):
    """Return the outputs of an LSTM for sequences with these lengths."""
    return npdl.LSTM(3, 4, **D64).forward(STEPS, lengths=lengths)[0][0]


def embedding_gradient(layer):
    """Return dW of an embedding or linear layer for the upstream gradient (1, NaN, 1)."""
    dy = np.array([1, NAN, 1])[:, None]
    is_table = isinstance(layer, Embedding)
    _, cache = layer.forward(np.arange(3) if is_table else np.zeros((3, 1)))
    layer.backward(dy, cache)
    return layer.W.grad.ravel()


def bias_gradient():
    """Return db for a million rows of 0.1, in float32."""
    layer, x = Linear(2, 2), np.ones((10**6, 2), "float32")
    _, cache = layer.forward(x)
    layer.backward(np.full_like(x, 0.1), cache)
    return layer.b.grad


def table_gradient():
    """Return dW of an Embedding for 1.5 million gradients of 0.1, in float32."""
    layer, ids = Embedding(4, 1), np.tile([0, 1, 1], (500_000, 1))
    y, cache = layer.forward(ids)
    layer.backward(np.full_like(y, 0.1), cache)
    return layer.W.grad[:2]


def gradient_after(change, grad):
    """Return the gradient of weights of 1e20 after `change`, which divides by a norm."""
    layer = Linear(2, 2)
    layer.W.data[...], layer.W.grad[...] = 1e20, grad
    change([layer.W])
    return layer.W.grad


def loss_gradient(loss, *inputs):
    _, cache = loss.forward(*inputs)
    return loss.backward(1.0, cache)


BAD_ROW = np.array([[0.0, 0, 0], [NAN, -INF, 0]])
SEQUENCE = BAD_ROW[None], np.array([[0, 9]]), np.array([[True, False]])
IGNORED = BAD_ROW, np.array([0, -1])
LOG2, LOG3 = math.log(2), math.log(3)
VALUES = {                                      # name: (found, wanted, relative error)
    "a neuron at its threshold fires": (
        lambda: y_of(ThresholdNeuron.from_weights([1, -1], 0), np.ones((1, 2))), [[1]], 0),
    "reverse turns the valid steps alone": (
        lambda: reverse(np.arange(8).reshape(2, 4, 1), [3, 1])[..., 0],
        [[2, 1, 0, 3], [4, 5, 6, 7]], 0),
    "targets in float16 are summed in the dtype of the logits": (
        lambda: loss_gradient(SoftCrossEntropy(), np.zeros((1, 3), "f4"), HALVES)[0],
        HALVES.astype("f8").sum() / 3 - HALVES, 1e-6),
    "large logits": (lambda: y_of(CrossEntropy(), np.array([[1e4, 0]]), np.array([1])), 1e4, 1e-9),
    "a new padding row is 0": (lambda: Embedding(2, 3, padding_id=1).W.data[1], [0, 0, 0], 0),
    "uint8 lengths": (lambda: lstm_outputs(np.array([1, 6], "uint8")),
                      lambda: lstm_outputs([1, 6]), 1e-14),
    **{f"{type(norm).__name__} of a constant": (
        lambda norm=norm, x=x: y_of(norm, np.full(x, 123456.7, "f")), np.zeros(x), 0)
       for norm, x in ((npdl.LayerNorm(128), (4, 128)), *((n, (7, 6, 11)) for n in NORMS))},
    **{f"{type(norm).__name__} of squares that overflow": (
        lambda norm=norm, x=x: y_of(norm, x), np.full(x.shape, NAN), 0)
       for norm, x in (*((norm, HUGE) for norm in (npdl.LayerNorm(11), npdl.RMSNorm(11), *NORMS)),
                       (npdl.LayerNorm(11, **D64), 1e140 * HUGE.astype("d")))},
    "clipping by a norm that overflows": (
        lambda: gradient_after(lambda params: npdl.clip_by_global_norm(params, 1.0), 1e20), NAN, 0),
    "the orthogonal gradient at weights whose squares overflow": (
        lambda: gradient_after(make_gradients_orthogonal, 1.0), NAN, 0),
    "orthogonalise, squares that overflow": (
        lambda: orthogonalise(np.full((2, 2), 1e20, "float32")), NAN, 0),
    **{f"the {how} of 100,000 losses in float16": (
        lambda how=how: y_of(CrossEntropy(reduction=how), np.zeros((100000, 2), "float16"),
                             np.zeros(100000, int)), wanted, 5e-3)      # 1e-5 is coarse in float16
       for how, wanted in (("mean", LOG2), ("sum", 1e5 * LOG2))},
    "exact_match of NaN": (lambda: exact_match(np.full((1, 1, 3), NAN), np.zeros((1, 1), int),
                                               np.ones((1, 1), bool)), 0, 0),
    "exact_match": (lambda: exact_match(np.zeros((1, 2, 3)), np.array([[0, 1]]),
                                        np.array([[True, False]])), 1, 0),
    "CrossEntropy, NaN where it is ignored": (
        lambda: y_of(CrossEntropy(-1), *IGNORED), LOG3, 1e-14),
    "its gradient": (lambda: loss_gradient(CrossEntropy(-1), *IGNORED),
                     [[-2 / 3, 1 / 3, 1 / 3], [0, 0, 0]], 1e-14),
    **{f"CrossEntropy of what is ignored, {how}": (
        lambda how=how: y_of(CrossEntropy(2, reduction=how), np.ones((3, 4)), np.full(3, 2)), 0, 0)
       for how in REDUCTIONS},
    "and the gradient of its mean": (lambda: loss_gradient(
        CrossEntropy(2), np.ones((3, 4)), np.full(3, 2)), np.zeros((3, 4)), 0),
    "SequenceLoss, NaN where nothing counts": (
        lambda: y_of(npdl.SequenceLoss(), *SEQUENCE), LOG3, 1e-14),
    "and its gradient": (lambda: loss_gradient(npdl.SequenceLoss(), *SEQUENCE),
                         [[[-2 / 3, 1 / 3, 1 / 3], [0, 0, 0]]], 1e-14),
    "NaN into one row of a table": (lambda: embedding_gradient(Embedding(4, 1, **D64)),
                                    [1, NAN, 1, 0], 0),
    "NaN into the padding row": (lambda: embedding_gradient(Embedding(4, 1, padding_id=1, **D64)),
                                 [1, 0, 1, 0], 0),
    "NaN into one position": (lambda: embedding_gradient(npdl.LearnedPositions(4, 1, **D64)),
                              [1, NAN, 1, 0], 0),
    "log_softmax of an impossible choice": (lambda: log_softmax(np.array([0, -INF, 0])),
                                            [-LOG2, -INF, -LOG2], 1e-15),
    "the loss of an impossible target": (
        lambda: y_of(CrossEntropy(), np.array([[0, -INF]]), np.array([1])), INF, 0),
    "an impossible token that is not the target": (
        lambda: y_of(CrossEntropy(), np.array([[0, -INF]]), np.array([0])), 0, 0),
    "the gradient of a bias over a million rows": (bias_gradient, [1e5, 1e5], 1e-6),
    "the gradient of a table over a million rows": (table_gradient, [[5e4], [1e5]], 1e-6),
    **{f"{type(loss).__name__} of nothing": (
        lambda loss=loss, inputs=inputs: y_of(loss, *inputs), 0, 0) for loss, *inputs in (
        (npdl.SquaredError(), np.ones((0, 2)), np.ones((0, 2))),
        (npdl.KLDivergence(), np.ones((0, 2)), np.ones((0, 2))),
        (CrossEntropy(), np.ones((0, 2)), np.ones(0, int)))},
}


@pytest.mark.parametrize("name", VALUES)
def test_edge_values(name):
    found, wanted, relative = VALUES[name]
    wanted = wanted() if callable(wanted) else wanted
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(found(), wanted, rtol=relative, atol=relative)


REFUSED = [                                     # (call, what the message says)
    (lambda: Bidirectional(RNN(4, 2), RNN(3, 2)), "both read the same input"),
    (lambda: npdl.Seq2Seq(4, 4, 4, 1, 1, max_len=4).forward(
        np.ones((3, 2), int), np.ones((3, 2), int), np.ones((1, 2), bool)), "key_mask is"),
    (lambda: RecurrentLayer(RNN(3, 2)), "give a cell"),
    (lambda: ThresholdNeuron.from_weights([[1, 1]], [0, 0, 0]), "do not fit"),
    *((lambda id_=id_: Embedding(4, 2, padding_id=id_), "padding_id = ")
      for id_ in (True, 1.9, 4, -1, [1], "a")),
    (lambda: LoRALinear(LoRALinear(Linear(2, 2), 1), 1), "give a Linear or"),
    (lambda: LoRALinear(None), "got NoneType"),
    (lambda: FrozenLinear(Embedding(3, 2)), "give a Linear"),
    (lambda: QuantLinear(LoRALinear(Linear(2, 2), 1)), "give a Linear"),
    *((lambda where=where: add_lora(npdl.MLP([2, 2]), 1, where=where), "where = ")
      for where in (5, (1, 2), ["maps.0", None])),
    (lambda: Bidirectional(LSTMCell, LSTMCell), "such as LSTM"),
    (lambda: npdl.MessagePassing(Linear(4, 4), ReplaceUpdate()).forward(BYTES, np.ones((1, 1))),
     "h is uint8"),
    (lambda: Sequential(), "got nothing; give layers"),
    (lambda: Sequential(Linear(2, 2), Tanh), "got type; give layers"),
    (lambda: Sequential([Linear(2, 2)]), "got list; give layers"),
    (lambda: Sequential(Linear(2, 2)).forward(STEPS, mask=None), "takes the option 'mask'"),
    (lambda: draw_windows(np.arange(9), 0, 2, 1), "block = 0"),
    (lambda: draw_windows(np.arange(9), 9, 2, 1), "only 9 tokens"),
    *((lambda x=x: split_text(np.arange(99), x, 4), "train_fraction = ")
      for x in (-0.5, 0, 1.5, NAN, None)),
    (lambda: RecomputedSeq2Seq(npdl.Seq2Seq(5, 5, 4, 1, 2), [1, 2, 3], [1], [3, 1, 0]).start(),
     "must be bool"),
    (lambda: from_torch(Linear(1, 1), {"weight": [[1e300]], "bias": [0.0]}),
     "magnitude 1e.300, too large for"),
    (lambda: npdl.BatchNorm(2).forward(np.ones((1, 2, 1))), "more than one value"),
    (lambda: npdl.InstanceNorm(2).forward(np.ones((4, 2, 1))), "at least 2"),
    (lambda: decay_only_matrices(Linear(2, 2).params()), "give a Layer"),
    (lambda: npdl.blame(Linear(3, 2), np.ones((3, 4))), r"must be \(\.\.\., 3\)"),
    (lambda: npdl.blame(object(), np.ones(3)), "object is not a layer; give an instance"),
    (lambda: npdl.Param(np.ma.masked_array(np.ones(3), [True, False, False])), "no mask"),
    (lambda: Linear(3, 2).astype("float16"), "float16"),
    (lambda: make_sample_builders(Mine), "Mine has 0 examples in EXAMPLES of npdl/study/check/ex"),
    (Mine, "give the attribute another name"),
    (lambda: quantize(np.ones((2, 2)), 3, "nf4"), "give bits = 4"),
    (lambda: sweep([], "nowhere", jobs=0), "jobs = 0"),
    (lambda: compile_step(LINEAR, CrossEntropy(), SGD(LINEAR), target="fortran"),
     "choose one of: auto, c, numpy"),
    *((lambda optimizer=optimizer: compile_step(LINEAR, CrossEntropy(), optimizer),
       r"of this model; .* AdamW\(model\)") for optimizer in (SGD(Linear(2, 2)), SGD)),
    (lambda: compile_step(LINEAR, "mse", SGD(LINEAR)), "got str; give a model and"),
    (lambda: Dates(0), "r_train = 0"), (lambda: Dates(1.5), "r_train = 1.5"),
    (lambda: DateWords().encode(""), "0 characters"),
    (lambda: DateWords().encode("3" * 40), "40 characters"),
    (lambda: DateWords().encode("3 März"), "'ä'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_edge_errors(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)

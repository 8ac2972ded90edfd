"""What the fast wing refuses and what it follows: models, later changes to them, batches."""

import functools
import itertools

import numpy as np

from npdl.core import Param
from npdl.errors import InputError
from npdl.layers.activation import Softmax
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.optim import AdamW, Muon, matrices_only
from npdl_train.fast.engine import FastEngine
from npdl_train.runs.engine import Batch
from tests.fast.cases import D, V, assert_close, both, build, drawn


def refusals():
    """[(model, optimizer, why the wing hands it to the textbook)]."""
    def made(kind, change=lambda model: None, **chosen):
        model = build(kind, **chosen)
        return model, AdamW(change(model) or model)

    def replaced(place, name, make):
        """A layer of a model put another's place."""
        def change(model):
            owner = functools.reduce(lambda o, n: o[int(n)] if n.isdigit() else getattr(o, n),
                                     filter(None, place.split(".")), model)
            layer = make(getattr(owner, name))
            setattr(owner, name, layer)

        return change

    def own(layer):
        layer.__class__ = type("Own", (type(layer),), {})
        return layer

    def mixed(model):
        model.classifier.b.data = model.classifier.b.data.astype("float32")

    block = "decoder.blocks.1"
    places = [("", "positions"), ("", "embedding"), ("", "decoder"), ("", "classifier"),
              ("", "dropout"), (block, "attention"), (block, "ffn"), (block, "norm1"),
              (f"{block}.attention", "W_K"), (f"{block}.ffn", "activation")]
    layers = "is not among its layers for"
    return [
        (*made(Seq2Seq, source_vocab=5, target_vocab=5), "Seq2Seq is not among its models"),
        (*made(type("MyGPT", (GPT,), {})), "MyGPT is not among its models"),
        (build(GPT), Muon(build(GPT), []), "Muon is not among its optimizers"),
        (build(GPT), type("Mine", (AdamW,), {})(build(GPT)), "Mine is not among its optimizers"),
        (*made(LSTMLM, mixed), "the parameters have several dtypes"),
        (*made(GPT, lambda model: model.classifier),
         "the optimizer has not the parameters that the model learns"),
        *((*made(GPT, replaced(*place, own)), f"Own {layers} {'.'.join(filter(None, place))}")
          for place in places),
        *((*made(LSTMLM, replaced(place, name, own)), f"Own {layers} {place}.{name}")
          for place, name in (("lstm", "dropout"), ("lstm.layers.1", "cell"))),
        (*made(GPT, replaced(block, "norm2", lambda _: RMSNorm(D, dtype="float64"))),
         f"RMSNorm {layers} {block}.norm2"),
        (*made(GPT, replaced(f"{block}.ffn", "activation", lambda _: Softmax())),
         f"Softmax {layers} {block}.ffn.activation"),
    ]


def refusal(call):
    """What an InputError says."""
    try:
        call()
    except InputError as error:
        return str(error)
    raise AssertionError("was taken")


def change_decay(model, fast):
    matrices_only(model)


def change_frozen(model, fast):
    model.classifier.W.trainable = False


def change_freed(model, fast):
    model.set_trainable(False)
    model.set_trainable(True)


def change_data(model, fast):
    model.classifier.W.data = model.classifier.W.data.copy()


def change_layer(model, fast):
    model.classifier = Linear(D, V, dtype="float64")


def change_param(model, fast):
    model.classifier.W = Param(model.classifier.W.data.copy())


def change_list(model, fast):
    parts = model.decoder.blocks if isinstance(model, GPT) else model.lstm.layers
    parts[0] = parts[1]


def change_engine(model, fast):
    FastEngine(model, fast.flat.optimizer)


CHANGES = (change_decay, change_frozen, change_freed, change_data, change_engine, change_layer,
           change_param, change_list)


def assert_changes_are_refused():
    """A model that is changed after its engine was made is no longer this engine's."""
    batch = drawn("few shared", "ragged")
    for kind, change in itertools.product((GPT, LSTMLM), CHANGES):
        model = build(kind)
        with FastEngine(model, AdamW(model)) as fast:
            fast.step(batch)
            change(model, fast)
            calls = [lambda fast=fast: fast.step(batch), lambda fast=fast: fast.measure(batch),
                     lambda fast=fast: fast.clip(1.0), fast.update]
            assert all("make the engine afterwards" in refusal(call) for call in calls)


def assert_a_changed_batch_is_read_again():
    """What is written into a batch, or put in the place of its arrays, counts at the next step."""
    for kind, name in itertools.product((GPT, LSTMLM), ("inputs", "targets", "counted")):
        plain, fast = both(lambda kind=kind: build(kind))
        batch = drawn("few shared", "ragged")
        with plain, fast:
            fast.step(batch)
            getattr(batch, name)[:, 0] ^= True
            assert_close(fast.step(batch), plain.step(batch), name)
            setattr(batch, name, getattr(batch, name)[::-1].copy())
            assert_close(fast.step(batch), plain.step(batch), name)


def assert_batches_are_refused():
    """By both engines, with the same words."""
    ids, targets, counted = (np.ones((2, 3), dtype) for dtype in (int, int, bool))
    wrong = [(ids, targets, counted / 2), (ids, targets, counted[:1]), (ids, targets, ids),
             (ids, targets[:, :2], counted), (ids[:0], targets[:0], counted[:0]),
             (ids + V, targets, counted), (ids, targets + V, counted), (ids / 2, targets, counted),
             (ids, targets / 2, counted)]
    for kind, arrays in itertools.product((GPT, LSTMLM), wrong):
        plain, fast = both(lambda kind=kind: build(kind))
        with plain, fast:
            said = [refusal(lambda e=engine, a=arrays: e.step(Batch(*a)))
                    for engine in (plain, fast)]
        assert said[0] == said[1]

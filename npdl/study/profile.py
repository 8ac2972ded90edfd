"""`python -m npdl profile GPT`: where a training step of a model or a layer spends its time."""

import inspect

import numpy as np

from npdl.backend import stream
from npdl.engine import RecordedStep, compile_step, profile
from npdl.engine.target import TARGETS
from npdl.errors import InputError, require_positive
from npdl.losses import SequenceLoss
from npdl.optim import AdamW
from npdl.study.check.samples import layer_classes, sample
from npdl.study.trees import cast, upstream

VOCABULARY = 64


def add_arguments(parser):
    parser.add_argument("name", help="a model or a layer of npdl: GPT, LSTM, LayerNorm, ..")
    for name, value, what in (("batch", 32, "sequences"), ("length", 64, "tokens or steps each"),
                              ("width", 128, "d_model, d_in and d_hidden")):
        parser.add_argument(f"--{name}", type=int, default=value,
                            help=f"{what} (default {value})")
    parser.add_argument("--rounds", type=int, default=10,
                        help="the smallest of this many times counts (default 10)")
    parser.add_argument("--target", choices=TARGETS, default="auto",
                        help="C, NumPy, or C where a compiler is found (default auto)")


def run(options):
    require_positive(batch=options.batch, length=options.length, width=options.width,
                     rounds=options.rounds)
    recorded = recorded_step(options)
    if recorded.why_not is not None:
        raise InputError(f"profile {options.name}: {recorded.why_not}")
    print(profile.report(profile.profile(recorded, options.rounds)))


def recorded_step(options):
    """A RecordedStep of one step of training, or of forward and backward, that has run."""
    classes = layer_classes()
    if options.name not in classes:
        raise InputError(f"profile: {options.name!r} is no layer of npdl; give one of: "
                         f"{', '.join(classes)}")
    cls, rng = classes[options.name], stream(0, 5)
    taken = inspect.signature(cls).parameters
    shape = options.batch, options.length
    if list(taken)[:1] == ["vocab_size"]:
        sizes = {"d_model": options.width} | (
            {"max_len": options.length} if "max_len" in taken else {})
        model = cls(VOCABULARY, **{name: n for name, n in sizes.items() if name in taken})
        ids, targets = rng.integers(0, VOCABULARY, (2, *shape))
        step = compile_step(model, SequenceLoss(), AdamW(model), target=options.target)
        step(ids, targets, np.ones(shape, bool))
        return step.recorded
    if {"d_in", "d_hidden"} <= taken.keys() and "training" not in taken:
        layer, inputs, named = cls(options.width, options.width), (rng.standard_normal(
            (*shape, options.width), np.float32),), {}
    else:
        layer, inputs, named = sample(cls)
        inputs = cast(tuple(inputs), "float32")
    dout = cast(upstream(layer.forward(*inputs, **named)[0], rng), "float32")
    step = RecordedStep(forward_and_backward, (layer,), options.target)
    step(inputs, named, dout)
    return step


def forward_and_backward(layer, inputs, options, dout):
    outputs, cache = layer.forward(*inputs, **options)
    return outputs, layer.backward(dout, cache)

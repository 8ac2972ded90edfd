"""The gradient-check cases of every layer: several shapes, sizes of 1, views, every output."""

import numpy as np
import pytest

from npdl.study.gradcheck import GradientCheck
from npdl.study.nests import leaves
from tests.cases import all_cases, strided
from tests.running import arrays_in, build, case_rng, covers, each, npdl_layers

CASES = all_cases()
LAYERS = npdl_layers()


def inputs_of(case):
    """The arrays among a case's inputs, as they are drawn."""
    return list(arrays_in(list(case.build(case_rng(case))[1])))


@pytest.fixture(scope="module")
def drawn():
    """{class: the inputs of each of its cases}."""
    inputs = {id(case): inputs_of(case) for case in CASES}
    return {cls: [inputs[id(case)] for case in CASES if covers(case.layer_class, cls)]
            for cls in LAYERS}


def name(cls):
    return cls.__name__


@pytest.mark.parametrize("cls", LAYERS, ids=name)
def test_several_shapes(cls, drawn):
    assert len({tuple(a.shape for a in arrays) for arrays in drawn[cls]}) >= 2


@pytest.mark.parametrize("cls", LAYERS, ids=name)
def test_sizes_of_1(cls, drawn):
    assert any(1 in a.shape for arrays in drawn[cls] for a in arrays)


@pytest.mark.parametrize("cls", LAYERS, ids=name)
def test_views_that_are_not_contiguous(cls, drawn):
    assert any(not a.flags.c_contiguous for arrays in drawn[cls] for a in arrays)


WITH_LENGTHS = {"RNNLayer", "GRULayer", "LSTMLayer", "RNN", "GRU", "LSTM", "Bidirectional", "BiRNN",
                "BiRNNLoss", "LSTMLM"}
WITH_MASKS = {"MultiHeadAttention": {"mask"}, "Block": {"mask"}, "Decoder": {"mask"},
              "DotAttention": {"mask"}, "ScaledDotAttention": {"mask"},
              "AdditiveAttention": {"mask"}, "Softmax": {"visible"}, "Encoder": {"key_mask"},
              "DecoderBlock": {"mask", "memory_mask"}, "CrossDecoder": {"mask", "memory_mask"},
              "GPT": {"key_mask"}, "Seq2Seq": {"source_mask", "target_mask"},
              "GraphAttention": {"neighbours"}}


def options_of(names):
    """The options that the cases of a class use."""
    return {key for case in CASES if case.layer_class.__name__ == names
            for key, value in case.build(case_rng(case))[2].items() if value is not None}


@pytest.mark.parametrize("names", sorted(WITH_LENGTHS))
def test_lengths(names):
    assert "lengths" in options_of(names)


@pytest.mark.parametrize("names", sorted(WITH_MASKS))
def test_masks(names):
    assert options_of(names) >= WITH_MASKS[names]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_output_is_also_used_alone(case):
    layer, inputs, options = case.build(case_rng(case))
    check = GradientCheck(layer, *inputs, forward=case.forward, entries=0, **options)
    outputs = {path for path, _ in leaves(check.run()[0])}
    alone = [set(used) for used in check.uses if len(used) == 1]
    assert len(outputs) == 1 or all({path} in alone for path in outputs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_strided_inputs_give_the_same_gradients(case):
    built = build(case)
    outputs, cache = built.forward()
    wanted = built.gradients(built.upstream(outputs), cache)
    other = built.layer.astype("float64")
    inputs = each(built.inputs, lambda a: strided(a) if np.ndim(a) else a, keep=True)
    outputs, cache = built.forward(other, inputs)
    found = built.gradients(built.upstream(outputs), cache, other)
    assert found.keys() == wanted.keys()
    for key, gradient in wanted.items():
        scale = max(1.0, np.abs(gradient).max(initial=0))
        np.testing.assert_allclose(found[key], gradient, rtol=0, atol=1e-11 * scale, err_msg=key)

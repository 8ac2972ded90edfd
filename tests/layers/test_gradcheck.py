"""Every gradient of every layer against finite differences, in cases that reach everything."""

import dataclasses

import numpy as np
import pytest

from npdl.core import walk
from npdl.study.check import verdicts
from npdl.study.check.differences import LIMIT
from npdl.study.check.samples import every_sample
from tests.tools.cases import all_cases, is_composed
from tests.tools.running import CASE_LIMIT, arrays_in, build, case_rng, check, covers, npdl_layers

CASES = all_cases()
LENGTHS = ("RNNLayer", "GRULayer", "LSTMLayer", "RNN", "GRU", "LSTM", "Bidirectional", "BiRNN",
           "BiRNNLoss", "LSTMLM", "LSTMSeq2Seq")
MASKS = {"MultiHeadAttention": {"mask"}, "Block": {"mask"}, "PreNormBlock": {"mask"},
         "Decoder": {"mask"}, "DotAttention": {"mask"}, "ScaledDotAttention": {"mask"},
         "AdditiveAttention": {"mask"}, "Softmax": {"visible"}, "Encoder": {"key_mask"},
         "DecoderBlock": {"mask", "memory_mask"}, "PreNormDecoderBlock": {"mask", "memory_mask"},
         "CrossDecoder": {"mask", "memory_mask"}, "GPT": {"key_mask"},
         "Seq2Seq": {"source_mask", "target_mask"}, "GraphAttention": {"neighbours"}}


composed = [case for case in CASES if is_composed(case.layer_class)]


@pytest.mark.parametrize("case", [case for case in CASES if not (
    case.of_option and is_composed(case.layer_class))], ids=str)
def test_gradients_agree_with_finite_differences(case, monkeypatch):
    """Every entry; of a composed layer each array along a random direction, in which all show, and
    its options only with --slow: its parts have theirs."""
    if case in composed:
        for name, value in {"FEW": 0, "MANY": 0, "DIRECTIONS": 1}.items():
            monkeypatch.setattr(verdicts, name, value)
        case = dataclasses.replace(case, entries=None)
    agrees(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", composed, ids=str)
def test_entries_of_composed_layers_agree(case):
    agrees(case)


def agrees(case):
    assert any(isinstance(part, case.layer_class) for part in walk(build(case).layer))
    report = check(case)
    assert report.rows, "nothing was compared"
    assert report.worst < CASE_LIMIT, f"{case}\n{report}"


def test_the_limit_is_the_one_that_is_asked_for():
    assert CASE_LIMIT == LIMIT == 1e-7


@pytest.mark.parametrize("cls", npdl_layers(), ids=lambda cls: cls.__name__)
def test_every_layer_has_cases_of_several_shapes_and_of_sizes_of_1(cls):
    every_sample(cls)                                   # says what is missing, and where to put it
    own = [case for case in CASES if covers(case.layer_class, cls)]
    drawn = [list(arrays_in(list(case.build(case_rng(case))[1]))) for case in own]
    assert len({tuple(a.shape for a in arrays) for arrays in drawn}) >= 2
    assert any(1 in a.shape for arrays in drawn for a in arrays)


@pytest.mark.parametrize("name", [*LENGTHS, *MASKS])
def test_lengths_and_masks_are_among_the_cases(name):
    built = [case.build(case_rng(case)) for case in CASES if case.layer_class.__name__ == name]
    assert MASKS.get(name, {"lengths"}) <= {key for _, _, options in built for key in options}
    after_the_end = any(np.isnan(x).any() for _, inputs, _ in built for x in arrays_in(inputs))
    assert after_the_end or name not in LENGTHS or name in LENGTHS[-2:]         # tokens are no NaN


def test_case_names_differ():
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})


def test_the_walk_finds_the_layers():
    names = {cls.__name__ for cls in npdl_layers()}
    assert {"Linear", "LSTMCell", "Block", "GPT", "LSTMLM", "SequenceLoss", "Same"} <= names
    assert not names & {"Cell", "RecurrentLayer", "Recurrent", "Layer"}         # bases

"""Every layer's gradients agree with finite differences, in every case of tests/layers/cases.py."""

import dataclasses

import pytest

from npdl.core import walk
from npdl.study.check.samples import ROW, every_sample
from tests.layers.cases import all_cases, is_composed
from tests.tools import slow
from tests.tools.running import CASE_LIMIT, build, check, npdl_layers

CASES = all_cases()


def is_large(case):
    return is_composed(case.layer_class) or case.what not in ROW


def is_rare(case):
    """Whether it is of an option of a composed layer, whose parts have theirs, or its first
    example: in the second every size is another."""
    return is_composed(case.layer_class) and (case.of_option or case.what == ROW[0])


@pytest.mark.parametrize("case", slow.but([str(case) for case in CASES if not is_rare(case)],
                                          CASES), ids=str)
def test_gradients_agree_with_finite_differences(case):
    """Every entry of an elementary layer's examples; in all other cases each array along a random
    direction, in which all entries show."""
    if is_large(case):
        case = dataclasses.replace(case, entries=0)
    agrees(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [
    case for case in CASES if is_large(case) and not is_rare(case)], ids=str)
def test_every_entry_agrees(case):
    agrees(case)


def agrees(case):
    assert any(isinstance(part, case.layer_class) for part in walk(build(case).layer))
    report = check(case)
    assert report.rows, "nothing was compared"
    assert report.worst < CASE_LIMIT, f"{case}\n{report}"


@pytest.mark.parametrize("cls", npdl_layers(), ids=lambda cls: cls.__name__)
def test_every_layer_has_examples(cls):
    every_sample(cls)                                   # says what is missing, and where to put it


def test_case_names_differ():
    assert len({str(case) for case in CASES}) == len(CASES)

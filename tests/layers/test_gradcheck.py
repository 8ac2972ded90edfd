"""Every layer's gradients agree with finite differences, in every case of tests/layers/cases.py."""

import pytest

from npdl.core import walk
from npdl.study.check.gradcheck import gradcheck
from npdl.study.check.samples import ROW, make_sample_builders
from tests.layers.cases import all_cases, is_composed
from tests.tools import slow
from tests.tools.running import make_case_rng, npdl_layers

CASES = all_cases()


def is_slow_case(case):
    """Return True for the first example of a layer, because all sizes differ in the second, and for
    the options and the sizes of 1 of a composed layer, because its parts have such cases."""
    return case.what == ROW[0] or is_composed(case.layer_class) and (
        case.of_option or case.what == ROW[2])


@pytest.mark.parametrize("case", slow.mark_except(
    [str(case) for case in CASES if not is_slow_case(case)], CASES), ids=str)
def test_gradients_agree_along_a_random_direction(case):
    """The derivative along a random direction depends on all entries of an array. An embedding
    matrix with a padding row is compared entry by entry, without this row."""
    check_gradients(case, entries=None if "padding_id" in case.what else 0)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if not is_composed(case.layer_class)],
                         ids=str)
def test_every_gradient_entry_agrees(case):
    check_gradients(case, entries=None)


def check_gradients(case, entries):
    layer, inputs, options = case.build(make_case_rng(case))
    assert any(isinstance(part, case.layer_class) for part in walk(layer))
    report = gradcheck(layer, *inputs, entries=entries, **options)
    assert report.rows, "nothing was compared"
    worst = max(row.error for row in report.rows)
    assert not report.faults and worst < 1e-7, f"{case}\n{report}"


@pytest.mark.parametrize("cls", npdl_layers(), ids=lambda cls: cls.__name__)
def test_every_layer_has_examples(cls):
    make_sample_builders(cls)                           # its error says what is missing

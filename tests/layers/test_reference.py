"""The layers, models, losses and optimizers give what they gave before they were written anew."""

import numpy as np
import pytest

from npdl_study.deviation import deviation
from tests.layers.reference import CASES, FILE, results


@pytest.fixture(scope="module")
def found():
    return results()


@pytest.mark.parametrize("case", CASES)
def test_equals_the_frozen_results(case, found):
    with np.load(FILE) as frozen:
        names = [name for name in frozen.files if name.startswith(f"{case}/")]
        assert sorted(names) == sorted(f"{case}/{name}" for name in found[case])
        for name in names:
            wanted, got = frozen[name], found[case][name.removeprefix(f"{case}/")]
            assert deviation(got, wanted, 1.0) <= 1e-12, name

"""The layers, models, losses and optimizers give what they gave before they were written anew."""

import numpy as np
import pytest

from tests.tools.reference import CASES, FILE, results


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
            scale = max(1.0, np.abs(wanted).max(initial=0))
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * scale, err_msg=name)

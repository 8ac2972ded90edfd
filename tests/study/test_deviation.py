import math

import numpy as np
import pytest

from npdl_study.deviation import deviation

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("found, wanted, least, share", [
    ([1, 2], [1.0, 4.0], 0, 0.5), ([3.0], [-2.0], 0, 2.5), ([0.0], [0.0], 0, 0),
    ([1e-9], [0.0], 0, INF), ([0.1], [0.2], 1.0, 0.1), ([NAN, INF, 1.0], [NAN, INF, 2.0], 0, 0.5),
    ([NAN], [1.0], 0, INF), ([1.0], [INF], 0, INF), ([INF], [-INF], 0, INF), ([1.0], 1.0, 0, INF),
    ([], [], 0, 0), ([True, False], [True, True], 0, 1),
])
def test_a_share_of_the_largest_entry(found, wanted, least, share):
    assert math.isclose(deviation(np.array(found), np.array(wanted), least), share)

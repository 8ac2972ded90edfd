"""Work shared out among threads."""

import pytest

from npdl.layers.linear import Linear
from npdl.optim import Flat
from npdl.training.parallel import Workers


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_each_gives_its_results_in_the_order_of_the_items(count, items):
    model = Linear(2, 2)
    with Workers(model, Flat(model), count) as workers:
        assert workers.each(lambda item: 2 * item, iter(range(items))) == [
            2 * item for item in range(items)]

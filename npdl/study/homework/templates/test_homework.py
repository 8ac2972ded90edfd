"""The tests of this homework: python -m pytest -q"""

import pytest

from npdl.study.homework.handout import read_homework
from npdl.study.homework.home import describe_layer_errors


@pytest.mark.parametrize("name", read_homework(".")[0])
def test_layer(name):
    if problems := describe_layer_errors(name):
        pytest.fail(problems, pytrace=False)

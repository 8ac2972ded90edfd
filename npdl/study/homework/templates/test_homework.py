"""The tests of this homework: python -m pytest -q"""

import pytest

from npdl.study.homework.handout import read_homework
from npdl.study.homework.home import find_problems


@pytest.mark.parametrize("name", read_homework(".")[0])
def test(name):
    if problems := find_problems(name):
        pytest.fail(problems, pytrace=False)

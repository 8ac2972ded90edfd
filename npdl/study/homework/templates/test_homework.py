"""The tests of this homework: python -m pytest -q"""

import pytest

from npdl.study.homework.home import find_problems, names


@pytest.mark.parametrize("name", names())
def test(name):
    problems = find_problems(name)
    if problems:
        pytest.fail(problems, pytrace=False)

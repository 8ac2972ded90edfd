"""A GPU for the tests that ask for one."""

import pytest

from npdl import backend


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield

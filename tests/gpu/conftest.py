"""A card for whoever asks for one."""

import pytest

from npdl import backend


@pytest.fixture
def gpu():
    with backend.using("cupy"):
        yield

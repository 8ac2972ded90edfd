"""Exercises are asked for verdicts as they are elsewhere: with npdl held to plain loops."""

import pytest

from exercises import witness


@pytest.fixture(autouse=True, scope="module")
def watched():
    with witness.watching():
        yield


@pytest.fixture(autouse=True)
def nothing_noted_before():
    witness.FAULTS.clear()
    yield
    witness.FAULTS.clear()

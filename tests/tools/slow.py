"""Parametrised tests of which a few cases run by default, and all of them with --slow."""

import pytest


def mark_except(quick, values, name=str):
    """Return the values for parametrize; those whose name is not in `quick` are marked slow."""
    names = [name(value) for value in values]
    assert set(quick) <= set(names), sorted(set(quick) - set(names))
    return [value if name in quick else pytest.param(
        *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for name, value in zip(names, values, strict=True)]

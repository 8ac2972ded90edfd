"""Parametrised tests of which a few cases run by default, and all of them with --slow."""

import pytest


def mark_except(quick_names, values, name=str):
    """Return the values for parametrize; those not named in `quick_names` are marked slow."""
    names = [name(value) for value in values]
    assert set(quick_names) <= set(names), sorted(set(quick_names) - set(names))
    return [value if name in quick_names else pytest.param(
        *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for name, value in zip(names, values, strict=True)]

"""The equations of a print are found, and calculated again."""

import pytest

from exercises.arithmetic import equations, wrong


@pytest.mark.parametrize("text, pairs, mistakes", [
    ("0.5 · 0.906 − 0.3² = 0.363", 1, 0), ("0.5 · 0.906 − 0.3² = 0.364", 1, 1),
    ("h₃ = 2³ · 1 = 8,   L = 8²/2 = 31", 2, 1), ("x + 3 = 5", 0, 0), ("2 · 3 = 6 words", 1, 0),
    ("0.731 · (1, 0) + 0.269 · (0, 2) = (0.731, 0.538)", 1, 0), ("2/3 = 0.667, 1/3 = 0.334", 2, 1),
    ("3 = 2 + 1 = 4", 2, 1), ("(2 − 1) (4 − 1) = 3", 0, 0), ("2^3 − 1 = 7 ≠ 0", 1, 0),
    ("W (1, 0) = (0.50, 0.35)", 0, 0), ("1,200 · 2 = 2,400", 1, 0), ("√9 + σ(0) = 3.51", 1, 1),
    ("for each of them 2 · 3 = 7", 1, 1), ("W 3 = 4", 0, 0), ("there are 3 = 4", 0, 0),
])
def test_equations_are_found_and_calculated(text, pairs, mistakes):
    assert (len(equations(text)), len(wrong(text))) == (pairs, mistakes)

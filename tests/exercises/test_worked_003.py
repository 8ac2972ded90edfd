"""What the worked solutions of document 003 compute: more facts made by hand, on other data."""

from exercises.d003_parity_lstm import DESIGNS
from exercises.solved import d003_eigenvalues as eigenvalues
from exercises.solved import d003_parity_lstm as parity
from exercises.solved import d003_points_and_review as review


def test_question_3_forgetting_and_a_closed_output():
    assert parity.trace(DESIGNS["from the hint"], (1, 0, 1)) == [
        (1, 1, 0, 0, 0, 1, 1, 1, 1, 1), (2, 0, 1, 1, 1, 0, 1, 1, 1, 1),
        (3, 1, 1, 1, 0, 0, 1, 1, 0, 0)]
    down = {"f": (0, 0, 1), "i": (0, 0, 1), "C": (0, -2, 1), "o": (0, 2, -1)}
    assert parity.trace(down, (1, 1, 0, 0)) == [
        (1, 1, 0, 0, 1, 1, -1, 1, -1, -1), (2, 1, -1, -1, 1, 1, -1, 1, -2, -1),
        (3, 0, -1, -2, 1, 1, 1, 0, -1, 0), (4, 0, 0, -1, 1, 1, 1, 0, 0, 0)]


def test_question_5_an_eigenvector_of_another_length():
    assert eigenvalues.shares([(1, (1.0, 0.0)), (2, (3.0, 2.0))], (7.0, 4.0)) == (1, 2)


def test_question_7_the_slope_of_the_loss_is_small_and_not_negative():
    assert 0 < review.measured()[2][1] < 0.01

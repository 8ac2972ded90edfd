"""What trees and searches refuse, and their odd cases."""

import math

import numpy as np
import pytest

from npdl.decoding import (
    Ranking,
    Scorer,
    Tree,
    beam_search,
    exhaustive_search,
    filter_probabilities,
    greedy,
)
from npdl.errors import InputError


class Wrong(Scorer):
    """Gives the same rows always."""

    def __init__(self, rows):
        self.rows = np.array(rows)

    def start(self):
        return self.rows, None

    def advance(self, state, parents, tokens):
        return self.rows[parents], None


@pytest.mark.parametrize("call, message", [
    (lambda: Tree({}), "no branches"),
    (lambda: Tree({"a": 0.5}), "at most 0"),
    (lambda: Tree({"a": math.nan}), "at most 0"),
    (lambda: Tree({"a": 1.5}, probabilities=True), "between 0 and 1"),
    (lambda: Tree({"a": -0.5}, probabilities=True), "between 0 and 1"),
    (lambda: Tree({"a": 0.5, "b": (0.6, {})}, probabilities=True), "sum to more than 1"),
    (lambda: Tree({"a": (-1.0, {"b": "c"})}), "is not a branch"),
    (lambda: Tree({"a": (-1.0, -2.0, {})}), "is not a branch"),
    (lambda: Tree({"a": -1.0}, vocab=["b"]), "not in vocab"),
    (lambda: beam_search(Wrong(np.full((2, 2), -1.0)), 1, 2), "from one prompt"),
    (lambda: beam_search(Wrong([[-1.0, 0.5]]), 1, 2), "above 0 or NaN"),
    (lambda: exhaustive_search(Wrong([[-1.0, math.nan]]), 2), "above 0 or NaN"),
    (lambda: greedy(Wrong([[-1.0, math.nan]]), 2), "above 0 or NaN"),
    (lambda: filter_probabilities(np.zeros((1, 2)), math.inf), "temperature"),
])
def test_refusals_are_one_line(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_tree_is_its_data():
    tree = Tree({"b": [0.5, {"a": 0.5}], "a": 0.0}, probabilities=True)     # lists, as in JSON
    assert tree.vocab == ["a", "b"] and tree.token("b") == 1
    rows, state = tree.start()
    np.testing.assert_array_equal(rows, [[-math.inf, math.log(0.5)]])
    assert tree.is_leaf(state, [0, 0], [0, 1]).tolist() == [True, False]
    rows, _ = tree.advance(state, [0], [1])
    np.testing.assert_array_equal(rows, [[math.log(0.5), -math.inf]])


def test_leaves_that_are_not_the_end_token_finish_nothing():
    tree = Tree({"a": (0.6, {"a": 0.5}), "b": (0.4, {"</s>": 0.5})},
                vocab=["</s>", "a", "b"], probabilities=True)
    result = beam_search(tree, 2, 5, eos=0)
    assert [h.tokens for h in result.finished] == [(2, 0)]
    assert exhaustive_search(tree, 5, eos=0).count == 1
    (one,) = greedy(tree, 5, eos=0)
    assert one.tokens == (1, 1) and not one.complete


def test_nothing_finishes():
    tree = Tree({"a": (0.6, {"a": 0.5}), "b": 0.4}, vocab=["</s>", "a", "b"], probabilities=True)
    short = beam_search(tree, 2, 1, eos=0)
    assert not short.finished and short.best.tokens == (1,) and not short.best.complete
    assert short.reason == "max_len" and short.steps[0].bound == -math.inf
    dead = beam_search(tree, 2, 9, eos=0)
    assert dead.best is None and dead.reason == "empty"
    assert exhaustive_search(tree, 9, eos=0).best is None


def test_bounds_are_reached_by_the_best_possible_end():
    for power in (-1.0, 0.0, 0.5, 1.0, 2.0):
        ranking = Ranking(6, power)
        live = ranking.hypothesis((1, 1), -3.0, False)
        ends = [ranking.hypothesis((1,) * n, -3.0, True).score for n in range(3, 7)]
        assert ranking.bound(live) == max(ends)
    assert Ranking(2).bound(live) == -math.inf

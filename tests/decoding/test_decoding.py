"""Greedy, beam and exhaustive search on trees that are given as data."""

import math

import numpy as np
import pytest

from npdl.decoding import Ranking, Tree, beam_search, exhaustive_search, full_beam_search

END = 0


def random_tree(rng, V=3, depth=4, ties=False):
    """Return a tree over the words 0 .. V-1 without some branches. 0 is the end token."""
    def grow(depth_left):
        p = rng.dirichlet(np.full(V, 0.7))
        p = rng.choice([0.125, 0.25, 0.5], V) / 2 if ties else p
        branches = {}
        for word in range(V):
            if rng.random() < 0.85:
                below = grow(depth_left - 1) if word != END and depth_left > 1 else {}
                branches[word] = (float(p[word]), below)
        return branches or {END: 1.0}

    return Tree(grow(depth), vocab=range(V), probabilities=True)


@pytest.mark.parametrize("power", [0.0, 0.6, 1.0, -0.5])
@pytest.mark.parametrize("ties", [False, True])
def test_the_stopping_rule_never_changes_the_result(power, ties):
    rng, stopped = np.random.default_rng(1), 0
    for _ in range(60):
        tree, width = random_tree(rng, ties=ties), int(rng.integers(1, 6))
        n_best = int(rng.integers(1, 3))
        early = beam_search(tree, width, 4, END, power, n_best)
        late = beam_search(tree, width, 4, END, power, n_best, stop=False)
        assert early.finished[:n_best] == late.finished[:n_best]
        for first, second in zip(early.steps, late.steps, strict=False):
            assert first.kept == second.kept
        stopped += len(early.steps) < len(late.steps)
    assert stopped > 2                                      # otherwise the rule was not tested


@pytest.mark.parametrize("power", [0.0, 0.7, -1.0])
@pytest.mark.parametrize("eos", [END, None])
@pytest.mark.parametrize("ties", [False, True])
def test_wide_beam_search_is_exhaustive(power, eos, ties):
    rng = np.random.default_rng(2)
    for _ in range(8):
        tree = random_tree(rng, ties=ties)
        whole = exhaustive_search(tree, 4, eos, power, n_best=1000)
        beam = beam_search(tree, 3**4, 4, eos, power, stop=False)
        assert beam.finished == whole.finished and whole.count == len(whole.finished)
        bare = beam_search(tree, 3**4, 4, eos, power, keep_steps=False)
        assert bare.finished[:1] == whole.finished[:1] and not bare.steps
        assert exhaustive_search(tree, 4, eos, power, n_best=2).finished == whole.finished[:2]
        if eos is not None:
            full = full_beam_search(tree, 200, 4, eos, power)
            assert [h for h in full.finished if h.complete][:1] == whole.finished[:1]


def test_ties_are_ordered_by_tokens():
    """(a, y) comes before the equally probable (b, x), although b is more probable than a."""
    tree = Tree({"b": (0.5, {"x": 0.25, "y": 0.75}), "a": (0.25, {"x": 0.5, "y": 0.5})},
                probabilities=True)
    result = beam_search(tree, 4, 2)
    assert [" ".join(tree.words(h)) for h in result.finished] == ["b y", "a x", "a y", "b x"]
    narrow = beam_search(tree, 2, 2).steps[-1]
    assert [" ".join(tree.words(h)) for h in narrow.kept] == ["b y", "a x"]
    assert [" ".join(tree.words(h)) for h in narrow.pruned] == ["a y", "b x"]
    assert exhaustive_search(tree, 2, n_best=4).finished == result.finished


def test_full_beam_replaces_finished_hypotheses():
    """With width 2, "0" finishes, and both "1 .." and "2 .." stay in the beam."""
    tree = Tree({0: 0.4, 1: (0.35, {0: 0.5, 1: 0.5}), 2: (0.25, {0: 1.0})}, vocab=range(3),
                probabilities=True)
    found = full_beam_search(tree, 2, 2, END)
    assert [h.tokens for h in found.finished] == [(0,), (2, 0)]
    assert [h.tokens for h in beam_search(tree, 2, 2, END, n_best=2).finished] == [(0,), (1, 0)]


def test_search_without_finished_hypotheses():
    tree = Tree({"a": [0.6, {"a": 0.5}], "b": 0.4}, vocab=["</s>", "a", "b"], probabilities=True)
    short = beam_search(tree, 2, 1, eos=0)
    assert not short.finished and short.best.tokens == (1,) and not short.best.complete
    assert short.reason == "max_len" and short.steps[0].bound == -math.inf
    dead = beam_search(tree, 2, 9, eos=0)
    assert dead.best is None and dead.reason == "empty"
    assert exhaustive_search(tree, 9, eos=0).best is None
    assert beam_search(tree, 2, 9, eos=(0, 2)).best.tokens == (2,)      # "b" is an end token, too


def test_score_bound_is_tight():
    for power in (-1.0, 0.0, 0.5, 1.0, 2.0):
        ranking = Ranking(6, power)
        live = ranking.make_hypothesis((1, 1), -3.0, False)
        ends = [ranking.make_hypothesis((1,) * n, -3.0, True).score for n in range(3, 7)]
        assert ranking.score_bound(live) == max(ends)
    assert Ranking(2).score_bound(live) == -math.inf

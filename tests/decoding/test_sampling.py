"""Sampling: temperature, top-k and top-p, and the frequencies of the samples."""

import math

import numpy as np
import pytest

from npdl.decoding import Tree, filter_probabilities, sample


def test_filter_probabilities_by_hand():
    p = np.array([[0.5, 0.25, 0.15, 0.1]])
    log_p = np.log(p)
    two = [[2 / 3, 1 / 3, 0, 0]]
    for options, wanted in (
            ({}, p), ({"temperature": 0.5}, p**2 / (p**2).sum()), ({"top_k": 2}, two),
            ({"top_p": 0.74}, two), ({"top_p": 0.8}, p * [1, 1, 1, 0] / 0.9),
            ({"top_p": 1e-9}, [[1, 0, 0, 0]]), ({"top_p": 1.0}, p),
            ({"top_k": 3, "top_p": 0.8}, two)):
        np.testing.assert_allclose(filter_probabilities(log_p, **options), wanted)
    np.testing.assert_allclose(filter_probabilities(np.log(np.full((1, 4), 0.25)), top_k=2),
                               [[.5, .5, 0, 0]])
    first = filter_probabilities(np.zeros((1, 100)), top_k=5)
    assert np.flatnonzero(first).tolist() == [0, 1, 2, 3, 4]
    for tiny in (1e-6, 5e-324):            # the second lets the quotients overflow
        assert filter_probabilities(log_p, tiny).tolist() == [[1, 0, 0, 0]]
    assert filter_probabilities(np.array([[-1e4, -1e4 - 1]]))[0, 0] > 0.7


def test_samples_have_the_models_frequencies():
    tree = Tree({"a": (0.2, {"a": 0.5, "b": 0.5}), "b": (0.7, {"a": 1.0}), "c": 0.1},
                probabilities=True)
    drawn = [[] for _ in range(20000)]
    found = sample(tree, 2, 0, count=20000, on_token=lambda i, token: drawn[i].append(token))
    assert [list(hypothesis.tokens) for hypothesis in found] == drawn
    assert found == sample(tree, 2, rng=0, count=20000) != sample(tree, 2, rng=1, count=20000)
    share = {"aa": 0.1, "ab": 0.1, "ba": 0.7, "c": 0.1}
    counts = {word: 0 for word in share}
    for hypothesis in found:
        word = "".join(tree.words(hypothesis))
        counts[word] += 1
        assert hypothesis.complete and math.isclose(hypothesis.log_prob, math.log(share[word]))
    for word, p in share.items():
        assert abs(counts[word] / 20000 - p) < 4 * math.sqrt(p * (1 - p) / 20000)


@pytest.mark.parametrize("options", [{"top_k": 7}, {"top_k": 300, "top_p": 0.6}, {"top_p": 0.3},
                                     {"top_p": 0.95}, {"top_p": 0.9999}, {"top_k": 5000}], ids=str)
@pytest.mark.parametrize("temperature", [0.3, 5.0])
def test_filter_matches_full_sort(options, temperature):
    """The result equals that of a full sort. Half of the numbers occur more than once."""
    rng = np.random.default_rng(1)
    rows = np.round(rng.standard_normal((3, 5000)), 3)
    kept = filter_probabilities(rows, temperature, **options)
    for row, found in zip(rows, kept, strict=True):
        p = np.exp((row - row.max()) / temperature)
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))[: options.get("top_k")]
        wanted, share = np.zeros_like(p), 0.0
        enough = options.get("top_p", 1) * math.fsum(p[order])
        for i in order:
            if share >= enough - 1e-12:
                break
            wanted[i], share = p[i], share + p[i]
        np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-12)

"""The rows of a batch: which prefixes there are, and that every map's backward is its transpose.

That a step on them computes what the textbook computes is tests/test_fast.py's.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npdl.data import ModularArithmetic
from npdl.errors import InputError
from npdl.fast.prefix import PrefixTree, Unshared, select, select_backward

batches = given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6))


def prefix_sizes(ids):
    """How many distinct prefixes of each length a batch has."""
    return [len({tuple(row[:length]) for row in ids.tolist()})
            for length in range(1, ids.shape[1] + 1)]


def assert_rows_stand_for(rows, ids):
    """Every entry of the batch has a node with its token and position, reached through its own
    prefix alone."""
    B, S = ids.shape
    assert rows.batch_shape == (B, S) and rows.size == len(rows.tokens) == len(rows.positions)
    np.testing.assert_array_equal(rows.tokens[rows.node], ids)
    np.testing.assert_array_equal(rows.positions[rows.node], np.tile(np.arange(S), (B, 1)))
    prefix_of = {}
    for b in range(B):
        for t in range(S):
            prefix = tuple(ids[b, : t + 1])
            assert prefix_of.setdefault(int(rows.node[b, t]), prefix) == prefix
    assert len(prefix_of) == rows.size


@settings(max_examples=30, deadline=None)
@batches
def test_the_tree_lists_every_prefix_once(B, S, high, seed):
    ids = np.random.default_rng(seed).integers(0, high, (B, S))
    tree = PrefixTree(ids)
    assert_rows_stand_for(tree, ids)
    assert [level.stop - level.start for level in tree.levels] == prefix_sizes(ids)
    assert tree.size == sum(prefix_sizes(ids))


@settings(max_examples=30, deadline=None)
@batches
def test_each_map_and_its_backward_are_transposes(B, S, high, seed):
    """<map(x), y> = <x, map_backward(y)> for every pair."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, high, (B, S))
    for kind in (PrefixTree(ids), Unshared(ids), Unshared(ids, by_time=True)):
        rows, batch = rng.standard_normal((kind.size, 2)), rng.standard_normal((B, S, 2))
        pairs = [(kind.spread, kind.spread_backward, rows, batch),
                 (kind.pick, kind.pick_backward, batch, rows)]
        for at in (None, rng.integers(0, S, 2), rng.integers(0, S, (B, 3))):
            chosen = rng.standard_normal((B, at.shape[-1], 2)) if at is not None else rows
            pairs.append((lambda x, at=at, kind=kind: select(x, kind, at),
                          lambda d, at=at, kind=kind: select_backward(d, kind, at), rows, chosen))
        for t in range(1, S) if kind.levels else ():
            above, level = rows[kind.levels[t - 1]], rows[kind.levels[t]]
            pairs.append((lambda x, t=t, kind=kind: kind.from_parent(t, x),
                          lambda d, t=t, kind=kind: kind.to_parent(t, d), above, level))
        for forward, backward, x, y in pairs:
            assert (forward(x) * y).sum() == pytest.approx((x * backward(y)).sum(), abs=1e-10)
        np.testing.assert_array_equal(kind.pick(kind.spread(rows)), rows)


@pytest.mark.parametrize("by_time", [False, True])
def test_unshared_rows_are_the_entries_themselves(by_time):
    ids = np.array([[1, 2, 3], [1, 2, 4]])
    rows = Unshared(ids, by_time)
    assert rows.size == 6
    np.testing.assert_array_equal(rows.tokens[rows.node], ids)
    np.testing.assert_array_equal(rows.tokens, (ids.T if by_time else ids).ravel())
    np.testing.assert_array_equal(rows.positions[rows.node], [[0, 1, 2]] * 2)


def test_the_full_batch_of_document_004():
    train = ModularArithmetic(31).train
    assert train.inputs.shape == (480, 6)
    tree = PrefixTree(train.inputs)
    assert tree.size == 1503
    assert [level.stop - level.start for level in tree.levels] == [1, 31, 31, 480, 480, 480]


@pytest.mark.parametrize("kind", [PrefixTree, Unshared])
@pytest.mark.parametrize("ids", [np.zeros(3, int), np.zeros((0, 2), int), np.zeros((2, 0), int),
                                 np.zeros((1, 1, 1), int), np.zeros((2, 2))])
def test_what_is_no_batch_is_refused(kind, ids):
    with pytest.raises(InputError, match=r"must be integers \(B, S\)"):
        kind(ids)

"""The rows of a batch: which prefixes there are, and that every map's backward is its transpose.

That a step on them computes what the textbook computes is tests/fast/test_fast.py's.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npdl.data import ModularArithmetic
from npdl.errors import InputError
from npdl_train.fast.memory import Arena
from npdl_train.fast.prefix import Lookup, Needed, Rows, Words

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


@settings(max_examples=30)
@batches
def test_the_rows_list_every_prefix_once(B, S, high, seed):
    ids = np.random.default_rng(seed).integers(0, high, (B, S))
    rows = Rows(ids)
    assert_rows_stand_for(rows, ids)
    assert [level.stop - level.start for level in rows.levels] == prefix_sizes(ids)
    assert rows.size == sum(prefix_sizes(ids))
    assert [run.first for run in rows.runs] + [S] == [0] + [run.stop for run in rows.runs]
    np.testing.assert_array_equal(rows.pick(ids[..., None])[:, 0], rows.tokens)


@settings(max_examples=30)
@batches
def test_each_lookup_and_its_sum_are_transposes(B, S, high, seed):
    """<take(x), y> = <x, sum(y)>: for children, for words, for the rows that a loss reads."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, high, (B, S))
    rows, lookups = Rows(ids), []
    words = Words(rows)
    lookups += [run.parent for run in rows.runs[1:]] + [words.rows]
    lookups += [lookup for _, _, lookup in words.levels]
    lookups += [Lookup(rng.integers(0, 5, 7), 5), rows.readers("tokens", high + 1)]
    for lookup in lookups:
        x, y = rng.standard_normal((2, lookup.size, 3)), rng.standard_normal((2, lookup.length, 3))
        taken, summed = lookup.take(x, np.empty_like(y)), lookup.sum(y, np.empty_like(x))
        np.testing.assert_array_equal(taken, x[:, lookup.index])
        assert (taken * y).sum() == pytest.approx((x * summed).sum(), abs=1e-10)
    y = rng.standard_normal((2, rows.size, 3))
    np.testing.assert_allclose(words.sum(y, np.empty((2, words.size, 3))),
                               words.rows.sum(y, np.empty((2, words.size, 3))), atol=1e-12)


@settings(max_examples=30)
@batches
def test_needed_rows_are_taken_and_put_back(B, S, high, seed):
    rng, m = np.random.default_rng(seed), Arena("float64")
    rows = Rows(rng.integers(0, high, (B, S)))
    index = np.flatnonzero(rng.random(rows.size) < 0.6)
    x, total = rng.standard_normal((2, rows.size, 3))
    needed = Needed(index, rows.size)
    taken, before = needed.take(x, m.empty), total.copy()
    np.testing.assert_array_equal(taken, x[index])
    put = np.array(needed.put(taken, rows.size, m))
    assert (put * total).sum() == pytest.approx((taken * total[index]).sum(), abs=1e-10)
    needed.add(taken, total)
    np.testing.assert_array_equal(total, before + put)


def test_unshared_rows_are_the_entries_position_after_position():
    ids = np.array([[1, 2, 3], [1, 2, 4]])
    rows = Rows(ids, share=False, words=False)
    assert rows.size == 6 and len(rows.runs) == 1 and rows.words is None
    np.testing.assert_array_equal(rows.tokens, ids.T.ravel())
    np.testing.assert_array_equal(rows.positions, [0, 0, 1, 1, 2, 2])


def test_the_full_batch_of_document_004():
    train = ModularArithmetic(31).train
    assert train.inputs.shape == (480, 6)
    rows = Rows(train.inputs)
    assert rows.size == 1503
    assert [level.stop - level.start for level in rows.levels] == [1, 31, 31, 480, 480, 480]
    assert [(run.first, run.stop, run.nodes) for run in rows.runs] == [
        (0, 1, 1), (1, 3, 31), (3, 6, 480)]
    assert rows.words.size == 96


@pytest.mark.parametrize("ids", [np.zeros(3, int), np.zeros((0, 2), int), np.zeros((2, 0), int),
                                 np.zeros((1, 1, 1), int), np.zeros((2, 2))])
def test_what_is_no_batch_is_refused(ids):
    with pytest.raises(InputError, match=r"must be integers \(B, S\)"):
        Rows(ids)

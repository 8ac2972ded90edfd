"""Modular arithmetic data against hand-written equations and a plain-Python enumeration."""

import math
from itertools import product

import numpy as np
import pytest

from npdl.data import Examples, ModularArithmetic, Vocabulary, batch_indices
from npdl.errors import InputError


def decode_examples(data, examples):
    """Return the sequences as texts: the first input, followed by all targets."""
    whole = np.concatenate([examples.inputs[:, :1], examples.targets], axis=1)
    return [data.vocabulary.decode(row) for row in whole]


def list_equations_by_loops(p, q, operator, orders):
    """Return all equations as texts, made one at a time, in the order before the shuffle."""
    lines = []
    for order in orders:
        for first, *others in product(range(p), repeat=order):
            if operator == "/":             # the dividend is the result times the divisors
                result, first = first, math.prod([first, *others]) % p
            if operator == "/" and 0 in others:
                continue
            left = f" {operator} ".join(map(str, [first, *others]))
            if operator != "/":
                result = eval(left) % q
            line = f"BOS {left} = {result} EOS".split()
            lines.append(" ".join(line + ["PAD"] * (2 * max(orders) + 3 - len(line))))
    return lines


@pytest.mark.parametrize("p, q, operator, orders, r_train, seed, stratified", [
    (5, 3, "-", (2, 3), 0.3, 1, False), (4, 9, "*", (3,), 0.7, 2, False),
    (5, 5, "/", (2, 3), 0.5, 4, False), (4, 1, "+", (2, 3), 0.5, 7, False),
    *((5, 5, operator, (2, 3), 0.3, 4, True) for operator in "+-*/")])
def test_order_and_split_match_plain_enumeration(p, q, operator, orders, r_train, seed, stratified):
    data = ModularArithmetic(p, operator, q, orders, r_train, seed, stratified)
    lines = list_equations_by_loops(p, q, operator, orders)
    np.random.RandomState(seed).shuffle(lines)
    assert decode_examples(data, data.equations) == lines
    assert data.vocabulary.size == max(p, q) + 5
    groups = [[line for line in lines if line.endswith("PAD") == short] for short in (True, False)]
    groups = groups if stratified else [lines]
    train, validation = [], []
    for group in groups:
        cut = round(len(group) * r_train)
        train, validation = train + group[:cut], validation + group[cut:]
    parts = [decode_examples(data, part) for part in (data.train, data.validation)]
    assert parts == [train, validation]


def test_tokens_padding_and_masks_by_hand():
    data = ModularArithmetic(5, "+", orders=(2, 3))
    lines = decode_examples(data, data.equations)
    rows = [lines.index("BOS 3 + 4 = 2 EOS PAD PAD"), lines.index("BOS 4 + 4 + 4 = 2 EOS")]
    pair = data.equations.take(rows)
    # ids: + is 5, = is 6, BOS 7, EOS 8, PAD 9
    assert pair.inputs.tolist() == [[7, 3, 5, 4, 6, 2, 8, 9], [7, 4, 5, 4, 5, 4, 6, 2]]
    assert pair.targets.tolist() == [[3, 5, 4, 6, 2, 8, 9, 9], [4, 5, 4, 5, 4, 6, 2, 8]]
    assert pair.mask.astype(int).tolist() == [[1, 1, 1, 1, 1, 1, 0, 0], [1] * 8]
    assert pair.answer_mask.astype(int).tolist() == [[0, 0, 0, 0, 1, 1, 0, 0],
                                                     [0, 0, 0, 0, 0, 0, 1, 1]]
    assert pair.eq_positions.tolist() == [3, 5] and pair.orders.tolist() == [2, 3]
    for name in ("inputs", "targets", "eq_positions", "orders"):
        assert getattr(pair, name).dtype == np.int64
    assert pair.mask.dtype == pair.answer_mask.dtype == bool
    assert data.vocabulary.encode("").dtype == data.vocabulary.encode("4").dtype == np.int64


def test_take_copies_and_checks_indices():
    examples = ModularArithmetic(5).equations
    part = examples.take([3, 3, 0])
    assert isinstance(part, Examples) and len(part) == 3
    assert (part.inputs == examples.inputs[[3, 3, 0]]).all()
    part.inputs[:] = -1
    assert examples.inputs.min() == 0
    assert len(examples.take([])) == 0
    for indices in ([25], [-1], [0.5], [[0]], 3, [True] * 25, [[0], [1, 2]]):
        with pytest.raises(InputError, match="indices"):
            examples.take(indices)


@pytest.mark.parametrize("n, size, lengths", [
    (10, 4, [4, 4, 2]), (8, 4, [4, 4]), (5, 512, [5]), (3, 1, [1, 1, 1])])
def test_batches_of_an_epoch_are_the_documented_permutation(n, size, lengths):
    for epoch in (2, 0, 1):                         # in any order of calls
        key = np.random.SeedSequence((7, epoch, 1))
        expected = np.random.Generator(np.random.Philox(key)).permutation(n)
        batches = [batch_indices(n, size, epoch * len(lengths) + i, seed=7)
                   for i in range(len(lengths))]
        assert [len(batch) for batch in batches] == lengths
        assert np.concatenate(batches).tolist() == expected.tolist()


INVALID = [                                     # (options of ModularArithmetic, the words)
    ({"p": 5, "r_train": 0.01}, "empty training set"),
    ({"p": 2, "r_train": 0.05, "orders": (2, 3), "stratified": True}, "empty training set"),
    ({"orders": ()}, "orders"), ({"orders": (2, 2)}, "orders"), ({"orders": (2, 4)}, "orders"),
    ({"orders": 2}, "orders"), ({"orders": (2.0,)}, "orders"), ({"orders": "23"}, "orders"),
    ({"p": 9, "operator": "/"}, "not prime"), ({"p": 5, "operator": "/", "q": 7}, "q = 7"),
    ({"stratified": "no"}, "stratified"), ({"stratified": True}, "stratified"),
    ({"seed": -1}, "seed = -1"), ({"seed": 2**32}, "seed"), ({"seed": None}, "seed = None")]


@pytest.mark.parametrize("call, words", [
    (lambda v: v.decode([0, 10]), "ids contain 10"), (lambda v: v.decode([-1]), "ids contain -1"),
    (lambda v: v.decode([1.0]), "must be integers"), (lambda v: v.decode([[1]]), "1-D"),
    (lambda v: v.encode("BOS 3 + 5"), "unknown token '5'"),
    (lambda v: v.encode(["3", "x"]), "unknown token 'x'"), (lambda v: v.encode(3), "cannot encode"),
    (lambda v: v.id_of("-"), "unknown token '-'"), (lambda v: v.id_of(["+"]), "unknown token"),
    (lambda v: batch_indices(0, 4, 0, 0), "n = 0"),
    (lambda v: batch_indices(4, 2, -1, 0), "step = -1"),
    (lambda v: batch_indices(4, 2, 0, -1), "seed = -1"),
    *((lambda _, options=options: ModularArithmetic(**options), words)
      for options, words in INVALID)])
def test_invalid_options_tokens_ids_and_batches(call, words):
    with pytest.raises(InputError, match=words) as caught:
        call(Vocabulary(5, "+"))
    assert "\n" not in str(caught.value)

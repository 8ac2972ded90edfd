"""Equations of modular arithmetic as token sequences, their split, and their batches.

N is the number of equations. S is the length of the model's input. It is one less than the length
of the longest token sequence, because the last token is only a target.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from operator import index as as_index

import numpy as np

from npdl.backend import make_rng
from npdl.errors import InputError, checked_ids, short_repr
from npdl.options import checked_integer, require_bool, require_fraction

OPERATORS = ("+", "-", "*", "/")
SPECIAL = ("=", "BOS", "EOS", "PAD")
MOST_EQUATIONS = 10_000_000     # all equations are in memory: these take 0.7 GB
MOST_NUMBERS = 1_000_000        # each is a token


class Vocabulary:
    """The vocabulary of equations: numbers, an operator such as "+", `=`, `BOS`, `EOS` and `PAD`.

    The ids are in this order. The numbers are 0 .. count - 1. `tokens` is the tuple of all tokens
    and `size` their number. `operator`, `eq`, `bos`, `eos` and `pad` are the ids of the last five.
    """

    def __init__(self, count, operator):
        self.tokens = (*map(str, range(count)), operator, *SPECIAL)
        self.size = len(self.tokens)
        self.operator, self.eq, self.bos, self.eos, self.pad = range(count, self.size)
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def id_of(self, token):
        """Return the id of one token. Raise InputError if it is unknown."""
        try:
            return self._ids[str(token)]
        except KeyError:
            raise InputError(f"unknown token {short_repr(token)}; allowed: 0 to {self.size - 6} "
                             f"and {' '.join(self.tokens[-5:])}, separated by spaces") from None

    def encode(self, text):
        """Return the ids (int64, 1-D) of tokens separated by spaces, or of a list of tokens."""
        tokens = text.split() if isinstance(text, str) else text
        if not isinstance(tokens, (list, tuple)):
            raise InputError(f"cannot encode {short_repr(text)}; give a text or a list of tokens")
        return np.array([self.id_of(token) for token in tokens], dtype=np.int64)

    def decode(self, ids):
        """Return the text of a 1-D sequence of ids. Raise InputError if one is out of range."""
        return " ".join(self.tokens[i] for i in _checked_indices("ids", ids, self.size))


@dataclass(frozen=True, eq=False)
class Examples:
    """N equations as examples of next-token prediction.

    targets[:, t] is the token after inputs[:, t]. `mask` is True where the target is not `PAD`.
    `eq_positions` are the positions of `=` in `targets`, and `orders` are the numbers of operands.
    """

    inputs: np.ndarray        # (N, S) int64
    targets: np.ndarray       # (N, S) int64
    eq_positions: np.ndarray  # (N,) int64
    mask: np.ndarray          # (N, S) bool
    orders: np.ndarray        # (N,) int64

    def __len__(self):
        return len(self.inputs)

    def take(self, indices):
        """Return copies of the examples at these indices (1-D integers in [0, N))."""
        rows = _checked_indices("indices", indices, len(self))
        return Examples(*(array[rows] for array in vars(self).values()))

    @property
    def answer_mask(self):
        """Return the loss mask (N, S), True for targets after `=` except PAD."""
        after_eq = np.arange(self.targets.shape[1]) > self.eq_positions[:, None]  # (N, S)
        return after_eq & self.mask


class ModularArithmetic:
    """All equations `a o b = r` (order 2) or `a o b o c = r` (order 3), or both.

    `operator` is o: "+", "-", "*" or "/", and is applied from left to right. The operands are
    integers modulo `p`, and the results integers modulo `q` (p if None). For "/" the result is
    chosen first, so that every division is exact. The equations are shuffled with `seed`. The first
    round(N * r_train) of them are `train`, and the rest are `validation`. With `stratified`, the
    equations of order 2 and of order 3 are split separately. The vocabulary has `numbers` numbers.
    None means as many as the equations need. Raises InputError for settings out of range.
    """

    def __init__(self, p=31, operator="+", q=None, orders=(2,), r_train=0.5, seed=0,
                 stratified=False, numbers=None):
        self.p = checked_integer("p", p, 2)
        self.q = self.p if q is None else checked_integer("q", q, 1, MOST_NUMBERS)
        self.operator, self.orders = operator, _checked_orders(orders)
        self.r_train, self.seed = r_train, checked_integer("seed", seed, 0, 2**32 - 1)
        self.stratified = stratified
        require_bool(stratified=stratified)
        require_fraction(r_train=r_train)
        self._check_options()
        largest = max(self.p, self.q)
        numbers = checked_integer("numbers", largest if numbers is None else numbers, largest,
                                  MOST_NUMBERS)
        self.vocabulary = Vocabulary(numbers, operator)
        self.sequence_length = 2 * max(self.orders) + 2  # S

        examples = self._make_examples()
        order = np.arange(len(examples))
        np.random.RandomState(self.seed).shuffle(order)
        self.equations = examples.take(order)
        train, rest = self._split()
        self.train = self.equations.take(train)
        self.validation = self.equations.take(rest)

    def _check_options(self):
        if self.p ** max(self.orders) > MOST_EQUATIONS:
            raise InputError(f"p = {self.p} with orders = {self.orders} gives more than "
                             f"{MOST_EQUATIONS:,} equations; choose a smaller p")
        if not isinstance(self.operator, str) or self.operator not in OPERATORS:
            raise InputError(f"operator = {short_repr(self.operator)} is unknown; "
                             f"choose one of {' '.join(OPERATORS)}")
        is_prime = all(self.p % d for d in range(2, math.isqrt(self.p) + 1))
        if self.operator == "/" and not is_prime:
            raise InputError(f"p = {self.p} is not prime; '/' needs a prime p; choose another p")
        if self.operator == "/" and self.q != self.p:
            raise InputError(f"q = {self.q} with p = {self.p}; '/' needs q equal to p; leave q out")
        if self.stratified and self.orders != (2, 3):
            raise InputError(f"stratified = True with orders = {self.orders}; set orders=(2, 3) or "
                             "stratified=False")

    def _list_equations(self, order):
        """Return the operands (N, order) and results (N,) of all equations of one order."""
        if self.operator == "/":  # all (result, b[, c]), with divisors b, c from 1
            sizes = (self.p,) + (self.p - 1,) * (order - 1)
            loops = np.indices(sizes, dtype=np.int64).reshape(order, -1).T
            loops = loops + np.array([0] + [1] * (order - 1))
            dividend = loops.prod(axis=1) % self.p
            return np.column_stack([dividend, loops[:, 1:]]), loops[:, 0]
        operands = np.indices((self.p,) * order, dtype=np.int64).reshape(order, -1).T
        apply = {"+": np.add, "-": np.subtract, "*": np.multiply}[self.operator]
        return operands, apply.reduce(operands, axis=1) % self.q

    def _make_examples(self):
        """Return the Examples of all equations, not shuffled. Those of order 2 come first."""
        vocabulary, parts, orders = self.vocabulary, [], []
        for order in self.orders:
            operands, result = self._list_equations(order)
            eq = 2 * order  # BOS is at 0, operands at odd positions, operators between them
            tokens = np.full((len(result), self.sequence_length + 1), vocabulary.pad, np.int64)
            tokens[:, 0] = vocabulary.bos
            tokens[:, 1:eq:2] = operands
            tokens[:, 2:eq:2] = vocabulary.operator
            tokens[:, eq] = vocabulary.eq
            tokens[:, eq + 1] = result
            tokens[:, eq + 2] = vocabulary.eos
            parts.append(tokens)
            orders.append(np.full(len(result), order, dtype=np.int64))
        tokens, orders = np.concatenate(parts), np.concatenate(orders)  # (N, S + 1), (N,)
        targets = tokens[:, 1:]
        return Examples(tokens[:, :-1], targets, 2 * orders - 1, targets != vocabulary.pad, orders)

    def _split(self):
        """Return the indices of the training and validation sets in the shuffled equations."""
        groups = [np.arange(len(self.equations))]
        if self.stratified:
            groups = [np.flatnonzero(self.equations.orders == order) for order in self.orders]
        cuts = [round(len(rows) * self.r_train) for rows in groups]
        if sum(cuts) == 0:
            raise InputError(f"r_train = {self.r_train} of {len(self.equations)} equations gives "
                             "an empty training set; choose a larger r_train or p")
        train = np.concatenate([rows[:cut] for rows, cut in zip(groups, cuts, strict=True)])
        rest = np.concatenate([rows[cut:] for rows, cut in zip(groups, cuts, strict=True)])
        return train, rest


def batch_indices(n, batch_size, step, seed):
    """Return the indices (int64, 1-D) of the examples in the batch of training step `step` >= 0.

    Each epoch is a permutation that depends on (seed, epoch). It is split into batches of
    `batch_size`; the last batch may be smaller. The result depends only on the arguments, so a run
    can be resumed without a saved state.
    """
    n, batch_size = checked_integer("n", n, 1), checked_integer("batch_size", batch_size, 1)
    step, seed = checked_integer("step", step, 0), checked_integer("seed", seed, 0)
    epoch, batch = divmod(step, -(-n // batch_size))
    order = _epoch_order(n, seed, epoch)
    return order[batch * batch_size:(batch + 1) * batch_size].copy()


@lru_cache(maxsize=1)
def _epoch_order(n, seed, epoch):
    return make_rng(seed, epoch, 1).permutation(n)


def _checked_indices(name, values, size):
    """Return `values` as a 1-D array. Raise InputError unless they are integers in [0, size)."""
    indices = checked_ids(values, size, name)
    if indices.ndim != 1:
        raise InputError(f"{name} have shape {indices.shape}; they must be a 1-D sequence")
    return indices


def _checked_orders(orders):
    try:
        result = tuple(sorted(as_index(order) for order in orders))
    except TypeError:
        result = ()
    if result not in ((2,), (3,), (2, 3)):
        raise InputError(f"orders = {short_repr(orders)}; choose (2,), (3,) or (2, 3)")
    return result

"""Document 001, Question 2: the shapes of the derivatives in backpropagation through time."""

import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, judge, run_script
from exercises.shown import below
from npdl.errors import InputError
from npdl.layers.linear import Linear
from npdl.layers.recurrent import RNN

QUESTION = """\
Give the dimensions of these derivatives, for an output matrix O (n x m), a hidden state matrix
H (n x m), an input vector X of p elements and a scalar loss L:
  1. dL/dO    2. dO/dH    3. dH/dX    4. d^2 L / dH^2"""
TITLES = {
    "2.1": "The shape of dL/dO",
    "2.2": "The shape of dO/dH",
    "2.3": "The shape of dH/dX",
    "2.4": "The shape of the second derivative d²L/dH²",
}

MARKS = {"Q1": 4, "Q2": 4, "Q3": 6, "Q4": 6}
PART_MARKS = {"Q1": (4,), "Q2": (None, 1, 1, 1), "Q3": (2, 2, None), "Q4": (None, None, 1)}

claim = partial(Claim, "001", "Q2")


def numerical_derivative(function, x, step=1e-3):
    """Every partial derivative of function(x): an array of the value's shape, then x's.

    Fourth-order central differences; x is any float array, the value any array or number.
    """
    x = np.asarray(x, float)
    if x.size == 0:
        raise InputError("x has no entries; there is nothing to differentiate by")
    value = np.asarray(function(x))
    slopes = np.empty((*value.shape, *x.shape))
    for index in np.ndindex(x.shape):
        def at(distance, index=index):
            moved = x.copy()
            moved[index] += distance
            return np.asarray(function(moved))

        slopes[(..., *index)] = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))
                                 ) / (12 * step)
    return slopes


def network(n=3, m=4, p=5, seed=0):
    """(H of X, O of H, L of O): an RNN of width m reads X (p,) at each of n steps; O = H V;
    L is the sum of squares to random targets."""
    rnn = RNN(p, m, rng=seed, dtype="float64")
    out = Linear(m, m, bias=False, rng=seed + 1, dtype="float64")
    target = np.random.default_rng(seed).standard_normal((n, m))

    def hidden(X):
        return rnn.forward(np.tile(X, (1, n, 1)))[0][0][0]  # (n, m)

    def output(H):
        return out.forward(H)[0]

    def loss(out):
        return ((out - target) ** 2).sum()

    return hidden, output, loss


def derivatives(n=3, m=4, p=5, seed=0):
    """{"dL/dO", "dO/dH", "dH/dX", "d2L/dH2": array} by differences, on a real network."""
    if min(n, m, p) < 1:
        raise InputError(f"n = {n}, m = {m}, p = {p}; each must be at least 1")
    hidden, output, loss = network(n, m, p, seed)
    X = np.random.default_rng(seed + 1).standard_normal(p)
    H = hidden(X)
    return {
        "dL/dO": numerical_derivative(loss, output(H)),
        "dO/dH": numerical_derivative(output, H),
        "dH/dX": numerical_derivative(hidden, X),
        "d2L/dH2": numerical_derivative(
            lambda h: numerical_derivative(lambda g: loss(output(g)), h, 1e-2), H, 1e-2),
    }


def expected_shapes(n, m, p):
    """The shapes by the rule: that of the value, then that of what it is differentiated by."""
    return {"dL/dO": (n, m), "dO/dH": (n, m, n, m), "dH/dX": (n, m, p),
            "d2L/dH2": (n, m, n, m)}


def chain(found):
    """dL/dX by contracting dL/dO, dO/dH and dH/dX over all their shared indices."""
    dH = np.tensordot(found["dL/dO"], found["dO/dH"], axes=2)
    return np.tensordot(dH, found["dH/dX"], axes=2)


def chain_error(found, n, m, p):
    """How far chain(found) is from differences of L in X, relative to the largest."""
    hidden, output, loss = network(n, m, p)
    X = np.random.default_rng(1).standard_normal(p)
    direct = numerical_derivative(lambda x: loss(output(hidden(x))), X)
    return np.abs(chain(found) - direct).max() / np.abs(direct).max()


def claims(n=3, m=4, p=5):
    found = derivatives(n, m, p)
    return [*shape_claims(found, n, m, p), *layout_claims(found, n, m, p)]


def shape_claims(found, n, m, p):
    hessian = found["d2L/dH2"].reshape(n * m, n * m)
    symmetric = np.abs(hessian - hessian.T).max() < 1e-6 * np.abs(hessian).max()
    filled = np.count_nonzero(np.abs(found["dO/dH"]) > 1e-9)
    chained = chain_error(found, n, m, p)
    answers = {
        "dL/dO": ("n x m", ""),
        "dO/dH": ("n x m x n x m (as a matrix, nm x nm)",
                  f"; with O = H V only {filled} = n m^2 of the {(n * m) ** 2} are not zero, row i "
                  "of O reading row i of H"),
        "dH/dX": ("n x m x p", ""),
        "d2L/dH2": ("n x m x n x m (as a matrix, the nm x nm Hessian)",
                    f"; {'' if symmetric else 'not '}symmetric, so {n * m * (n * m + 1) // 2} "
                    "different numbers at most"),
    }
    rows = []
    for part, (name, (answer, more)) in enumerate(answers.items(), 1):
        right = found[name].shape == expected_shapes(n, m, p)[name]
        rows.append(claim(
            str(part), f"Dimensions of {name}.", "none", answer,
            judge(right and chained < 1e-8, "no answer given"),
            f"n = {n}, m = {m}, p = {p}: differences give {times(found[name].shape)} numbers"
            f"{more}"))
    return rows


def layout_claims(found, n, m, p):
    error = chain_error(found, n, m, p)
    wider = wider_output(n, m, m + 2)
    rows = [mark for row in PART_MARKS.values() for mark in row]
    printed = len(rows) - rows.count(None), len(rows)
    return [
        claim("1", "The shape of a derivative is settled by the shapes of both sides.",
              "layout not stated", "value first, then variable; a gradient has its variable's "
              "shape; the other layout has m x n for part 1",
              judge(error < 1e-8, "convention"),
              "in this layout the chain rule is a contraction over neighbouring indices: dL/dX "
              f"agrees with differences to {below(error, 1e-8)}"),
        claim("2", "O and H have the same number of columns.", "n x m for both",
              "the number of classes k and of hidden units m may differ: n x k x n x m then",
              judge(wider == (n, m + 2, n, m), "under-specified"),
              f"a map from {m} to {m + 2} columns: {times(wider)} numbers"),
        Claim("001", "Table", "", "The marks of the four questions add up to the total.", "20",
              f"{' + '.join(map(str, MARKS.values()))} = {sum(MARKS.values())}",
              judge(sum(MARKS.values()) == 20), "sum of the table's rows"),
        Claim("001", "Table", "parts", "How many marks has each part?",
              "printed for {} of the {} parts".format(*printed),
              ", ".join(f"{question}: {left} for {'part' if len(places) == 1 else 'parts'} "
                        f"{' and '.join(map(str, places))}"
                        for question, (left, places) in missing_marks().items()),
              judge(printed[0] < printed[1], "no answer given"),
              "the question's marks less those printed for its other parts; "
              "how the two parts of Q4 share theirs can't be derived"),
    ]


def missing_marks(marks=MARKS, parts=PART_MARKS):
    """{question: (marks left, numbers of the parts without a printed mark)}."""
    return {question: (marks[question] - sum(m for m in row if m is not None),
                       [place for place, m in enumerate(row, 1) if m is None])
            for question, row in parts.items() if None in row}


def times(shape):
    return " x ".join(map(str, shape))


def wider_output(n, m, k):
    """Shape of dO/dH for O (n, k) of H (n, m)."""
    out = Linear(m, k, bias=False, dtype="float64")
    return numerical_derivative(lambda H: out.forward(H)[0], np.ones((n, m))).shape


if __name__ == "__main__":
    sys.exit(run_script(globals()))

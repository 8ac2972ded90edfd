"""Document 001, Question 2: the shapes of the derivatives in backpropagation through time."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge
from exercises.probes import difference
from exercises.worked import Check, Solution, below, num
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
    hidden, output, loss = network(n, m, p, seed)
    X = np.random.default_rng(seed + 1).standard_normal(p)
    H = hidden(X)
    return {
        "dL/dO": difference(loss, output(H)),
        "dO/dH": difference(output, H),
        "dH/dX": difference(hidden, X),
        "d2L/dH2": difference(
            lambda h: difference(lambda g: loss(output(g)), h, 1e-2), H, 1e-2),
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
    direct = difference(lambda x: loss(output(hidden(x))), X)
    return np.abs(chain(found) - direct).max() / np.abs(direct).max()


def claims(n=3, m=4, p=5):
    found = derivatives(n, m, p)
    return [*shape_claims(found, n, m, p), *layout_claims(found, n, m, p)]


def distinct(size):
    """How many entries of a symmetric matrix of `size` rows can differ."""
    return size * (size + 1) // 2


def shape_claims(found, n, m, p):
    size = n * m
    entries = size**2
    hessian = found["d2L/dH2"].reshape(size, size)
    symmetric = np.abs(hessian - hessian.T).max() < 1e-6 * np.abs(hessian).max()
    filled = np.count_nonzero(np.abs(found["dO/dH"]) > 1e-9)
    chained = chain_error(found, n, m, p)
    answers = {
        "dL/dO": ("n x m", ""),
        "dO/dH": ("n x m x n x m (as a matrix, nm x nm)",
                  f"; with O = H V only {filled} = n m^2 of the {entries} are not zero, row i "
                  "of O reading row i of H"),
        "dH/dX": ("n x m x p", ""),
        "d2L/dH2": ("n x m x n x m (as a matrix, the nm x nm Hessian)",
                    f"; {'' if symmetric else 'not '}symmetric, so {distinct(size)} "
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
    k = m + 2
    wider = wider_output(n, m, k)
    rows = [mark for row in PART_MARKS.values() for mark in row]
    printed = len(rows) - rows.count(None), len(rows)
    yield claim("1", "The shape of a derivative is settled by the shapes of both sides.",
                "layout not stated",
                "value first, then variable; a gradient has its variable's shape; the other "
                "layout has m x n for part 1", judge(error < 1e-8, "convention"),
                "in this layout the chain rule is a contraction over neighbouring indices: dL/dX "
                f"agrees with differences to {below(error, 1e-8)}")
    yield claim("2", "O and H have the same number of columns.", "n x m for both",
                "the number of classes k and of hidden units m may differ: n x k x n x m then",
                judge(wider == (n, k, n, m), "under-specified"),
                f"a map from {m} to {k} columns: {times(wider)} numbers")
    yield Claim("001", "Table", "", "The marks of the four questions add up to the total.", "20",
                f"{' + '.join(map(str, MARKS.values()))} = {sum(MARKS.values())}",
                judge(sum(MARKS.values()) == 20), "sum of the table's rows")
    yield Claim("001", "Table", "parts", "How many marks has each part?",
                "printed for {} of the {} parts".format(*printed),
                ", ".join(f"{question}: {left} for {'part' if len(places) == 1 else 'parts'} "
                          f"{' and '.join(map(str, places))}"
                          for question, (left, places) in missing_marks().items()),
                judge(printed[0] < printed[1], "no answer given"),
                "the question's marks less those printed for its other parts; how the two parts "
                "of Q4 share theirs can't be derived")


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
    return difference(lambda H: out.forward(H)[0], np.ones((n, m))).shape


N, M, P = 2, 2, 3
H = np.array([[1.0, 2.0], [0.0, -1.0]])
V = np.array([[1.0, 0.0], [2.0, -1.0]])
TARGET = np.array([[4.0, -1.0], [-2.0, 2.0]])
X = np.array([1.0, 0.0, -1.0])
A = np.array([[[1, 0, 2], [0, 1, 0]], [[1, 1, 0], [0, 0, -1]]], float)  # H = A x: (n, m, p)
EXAMPLE = f"n = {N}, m = {M}, p = {P}; O = H V, and L = the sum of squares of O − target."
RULE = ("The rule: differentiating an array of shape s by one of shape t asks how each entry of "
        "the first moves with each entry of the second: one number a pair, set out as s, then t.")
OUT = H @ V


def loss(out):
    return ((out - TARGET) ** 2).sum()


def checked(name, function, at, ours):
    """The Check that differences of function at `at` are `ours`, in the shape expected."""
    slopes = difference(function, at, 1e-2)
    return Check(f"Differences give an array {times(slopes.shape)}, with the same numbers.",
                 slopes.shape == expected_shapes(N, M, P)[name]
                 and np.allclose(slopes.reshape(ours.shape), ours, atol=1e-6))


def solutions():
    shapes = expected_shapes(N, M, P)
    count = {name: math.prod(shape) for name, shape in shapes.items()}
    size, after = N * M, N * M + 1
    dL, V4 = 2 * (OUT - TARGET), np.kron(np.eye(N), V.T)
    hessian = np.kron(np.eye(N), 2 * V @ V.T)
    found = {
        "dL/dO": (loss, OUT, dL), "dO/dH": (lambda h: h @ V, H, V4),
        "dH/dX": (lambda x: A @ x, X, A),
        "d2L/dH2": (lambda h: difference(lambda g: loss(g @ V), h, 1e-2), H, hessian),
    }

    work = Solution("2.1", EXAMPLE)
    work.step(RULE, "∂L/∂O: () and (n, m) make (n, m)")
    work.step("L is one number, so there is one slope for each entry of O: the gradient has the "
              "shape of O.", "∂L/∂O_ij = 2 (O_ij − target_ij)",
              f"entry (1, 1): 2 · ({num(OUT[0, 0], 0)} − {num(TARGET[0, 0], 0)}) = "
              f"{num(dL[0, 0], 0)}", {"O": OUT, "target": TARGET, "∂L/∂O": dL})
    work.answer = f"n x m, here {times(shapes['dL/dO'])}."
    work.checks.append(checked("dL/dO", *found["dL/dO"]))
    yield work
    work = Solution("2.2", EXAMPLE)
    work.step(RULE, "∂O/∂H: (n, m) and (n, m) make (n, m, n, m)",
              f"{N} · {M} · {N} · {M} = {count['dO/dH']} numbers")
    work.step("Write one entry of O, and differentiate it by every entry of H: only its own row "
              "of H occurs.", "O_ij = Σ_k H_ik V_kj  →  ∂O_ij/∂H_lk = V_kj where l = i, else 0",
              f"∂O₁₁/∂H₁₂ = V₂₁ = {num(V[1, 0], 0)};   ∂O₁₁/∂H₂₁ = {num(V4[0, M], 0)}")
    work.step("To see all at once, number the entries row by row: nm rows for O, nm columns for H.",
              arrays={"V": V, "∂O/∂H as nm x nm": V4})
    work.answer = f"n x m x n x m, or nm x nm as a matrix; here {times(shapes['dO/dH'])}."
    work.checks.append(checked("dO/dH", *found["dO/dH"]))
    yield work
    work = Solution("2.3", EXAMPLE)
    work.step(RULE, "∂H/∂X: (n, m) and (p) make (n, m, p)",
              f"{N} · {M} · {P} = {count['dH/dX']} numbers")
    work.step("Each entry of H depends on each entry of X; take H = A X, entry by entry, to have "
              "slopes that can be read off.", "H_ij = Σ_k A_ijk X_k  →  ∂H_ij/∂X_k = A_ijk",
              f"∂H₁₁/∂X₃ = A₁₁₃ = {num(A[0, 0, 2], 0)}", {"∂H/∂X as nm x p": A.reshape(size, P)})
    work.answer = f"n x m x p, here {times(shapes['dH/dX'])}."
    work.checks.append(checked("dH/dX", *found["dH/dX"]))
    yield work
    work = Solution("2.4", EXAMPLE)
    work.step("The first derivative of L by H has the shape of H; differentiate it by H again.",
              "∂L/∂H: (n, m)   →   ∂²L/∂H²: (n, m, n, m)",
              f"{N} · {M} · {N} · {M} = {count['d2L/dH2']} numbers")
    work.step("For O = H V: the first derivative is linear in H, so the second is constant; "
              "entries of different rows have nothing to do with each other.",
              "∂L/∂H = 2 (H V − target) Vᵀ  →  ∂²L/∂H_ik ∂H_lj = 2 (V Vᵀ)_kj if l = i, else 0",
              arrays={"2 V Vᵀ": 2 * V @ V.T, "∂²L/∂H² as nm x nm": hessian})
    work.step("The order of differentiating does not matter, so this matrix is symmetric.",
              "at most nm (nm + 1) / 2 different numbers",
              f"{size} · {after} / 2 = {distinct(size)}")
    work.answer = ("n x m x n x m, the Hessian nm x nm as a matrix; here "
                   f"{times(shapes['d2L/dH2'])}.")
    work.checks.append(checked("d2L/dH2", *found["d2L/dH2"]))
    yield work

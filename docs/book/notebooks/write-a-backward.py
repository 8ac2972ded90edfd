# %% [markdown]
# # Write a backward, with a hint when you want one
#
# The layer below is a gate: `s = sigmoid(x W + b)`, `y = s * x`. Its forward is there. Write the
# backward into the cell, run it, and read what `blame` says; it names a line, not the answer.

# %%
import numpy as np

from npdl import Cache, Layer, Param, blame, gradcheck, step


class Gate(Layer):
    """s = sigmoid(x W + b),   y = s * x:   (B, D) -> (B, D)."""

    def __init__(self, d, rng=None):
        rng = rng or np.random.default_rng(0)
        self.W = Param(rng.standard_normal((d, d)) / np.sqrt(d))
        self.b = Param(np.zeros(d))

    def forward(self, x):
        z = x @ self.W.data + self.b.data
        s = 1 / (1 + np.exp(-z))
        y = s * x
        return y, Cache(x=x, s=s)


x = np.random.default_rng(1).standard_normal((2, 3))

# %% [markdown]
# Yours to write: five lines, one for each line of the forward and one for each parameter.


# %%
class Mine(Gate):
    def backward(self, dy, cache):
        raise NotImplementedError


blame(Mine(3), x)

# %% [markdown]
# One way to begin, with two mistakes in it. Run it, read, fix, run again.


# %%
class Begun(Gate):
    def backward(self, dy, cache):
        x, s = cache.x, cache.s
        ds = dy * x
        dz = ds * s * (1 + s)
        self.W.grad += x.T @ dz
        self.b.grad += dz.sum(0)
        dx = dz @ self.W.data.T
        return dx


report = blame(Begun(3), x)
assert not report.right
report

# %% [markdown]
# And done: `x` is read twice, by the product and by the map, so its gradient has two terms.


# %%
class Done(Gate):
    def backward(self, dy, cache):
        x, s = cache.x, cache.s
        ds = dy * x                                 # y = s * x
        dz = ds * s * (1 - s)                       # s = sigmoid(z)
        self.W.grad += x.T @ dz                     # z = x W + b
        self.b.grad += dz.sum(0)
        dx = dy * s + dz @ self.W.data.T
        return dx


assert blame(Done(3), x).right
print(gradcheck(Done(3), x))
step(Done(3), x)

# %% [markdown]
# More of these are cut out of npdl's own layers, with tests, by
#
# ```sh
# python -m npdl homework --out homework --layers LayerNorm Softmax
# ```

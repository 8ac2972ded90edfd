# %% [markdown]
# # Step and blame
#
# `step` runs a layer's forward and backward line by line and checks every value; `blame` finds the
# first wrong line of a backward. Both show themselves in a cell, as often as you like.

# %%
import numpy as np

from npdl import LayerNorm, LSTMCell, blame, gradcheck, step

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 5))

# %% [markdown]
# Every gradient of a layer against fourth-order differences, in float64:

# %%
print(gradcheck(LayerNorm(5), x))

# %% [markdown]
# The same layer line by line. Press play, or walk with the arrow keys; a tick is a value that a
# numerical gradient confirms.

# %%
step(LayerNorm(5), x)

# %% [markdown]
# A second one beside it, an LSTM's cell with a state that is given:

# %%
h, c = rng.standard_normal((2, 2, 3))
step(LSTMCell(4, 3), rng.standard_normal((2, 4)), (h, c))

# %% [markdown]
# Now a mistake. A class of your own is a `Layer` with `forward` and `backward`; this one has
# forgotten that the variance moves with every entry.


# %%
from npdl import Cache, Layer, Param


class Norm(Layer):
    def __init__(self, d):
        self.gain = Param(np.ones(d))

    def forward(self, x):
        centred = x - x.mean(-1, keepdims=True)
        std = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        x_hat = centred / std
        return self.gain.data * x_hat, Cache(x_hat=x_hat, std=std)

    def backward(self, dy, cache):
        x_hat, std = cache.x_hat, cache.std
        self.gain.grad += (dy * x_hat).sum(0)
        dx_hat = dy * self.gain.data
        dx = (dx_hat - dx_hat.mean(-1, keepdims=True)) / std
        return dx


report = blame(Norm(5), x)
report

# %% [markdown]
# What `blame` found is data too:

# %%
assert not report.right and "dx = " in report.source
report.line, report.kind, report.diagnosis

# %% [markdown]
# The line mended, and asked again:


# %%
class Mended(Norm):
    def backward(self, dy, cache):
        x_hat, std = cache.x_hat, cache.std
        self.gain.grad += (dy * x_hat).sum(0)
        dx_hat = dy * self.gain.data
        along = (dx_hat * x_hat).mean(-1, keepdims=True)
        dx = (dx_hat - dx_hat.mean(-1, keepdims=True) - along * x_hat) / std
        return dx


report = blame(Mended(5), x)
assert report.right
report

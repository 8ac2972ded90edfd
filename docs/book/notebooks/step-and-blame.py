# %% [markdown]
# # Step and blame
#
# `step` runs a layer's forward and backward line by line and checks the values; `blame` finds the
# incorrect line of a backward pass. Both results render in a cell.

# %%
import numpy as np

from npdl import LayerNorm, LSTMCell, blame, gradcheck, step

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 5))

# %% [markdown]
# `gradcheck` compares every gradient of a layer with finite differences, in float64:

# %%
print(gradcheck(LayerNorm(5), x))

# %% [markdown]
# The same layer line by line. Press play, or use the arrow keys. A tick marks a value that agrees
# with a numerical gradient.

# %%
step(LayerNorm(5), x)

# %% [markdown]
# A second example, an LSTM cell with an initial state:

# %%
h, c = rng.standard_normal((2, 2, 3))
step(LSTMCell(4, 3), rng.standard_normal((2, 4)), (h, c))

# %% [markdown]
# Now a mistake. A class of your own is a `Layer` with `forward` and `backward`. This one forgets
# that the variance depends on every entry.


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
# The result of `blame` has attributes, too:

# %%
assert not report.right and "dx = " in report.source
report.line, report.kind, report.diagnosis

# %% [markdown]
# The corrected line, checked again:


# %%
class Corrected(Norm):
    def backward(self, dy, cache):
        x_hat, std = cache.x_hat, cache.std
        self.gain.grad += (dy * x_hat).sum(0)
        dx_hat = dy * self.gain.data
        along = (dx_hat * x_hat).mean(-1, keepdims=True)
        dx = (dx_hat - dx_hat.mean(-1, keepdims=True) - along * x_hat) / std
        return dx


report = blame(Corrected(5), x)
assert report.right
report

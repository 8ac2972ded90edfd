"""Two more GRUs: the form of cuDNN, PyTorch and Keras, and the form of the original paper.

In `npdl.layers.recurrent.GRUCell` the reset gate scales the product h_prev W_h, which has no bias.
In all three classes the new state h is close to the candidate h_hat if the update gate z is close
to 1.
"""

from npdl.backend import xp
from npdl.core import Cache, NoBias, Param, checked_gradients
from npdl.functions import sigmoid, sum_rows
from npdl.init import generator, uniform_fan_in
from npdl.layers.recurrent import Cell, GRUCell, Recurrent


class ResetAfterGRUCell(GRUCell):
    """a = x W_x + b and u = h_prev W_h + b_h, each in three blocks:   (cuDNN, PyTorch, Keras)
    z = sigmoid(a_z + u_z),   r = sigmoid(a_r + u_r),   h_hat = tanh(a_h + r * u_h),
    h = (1 - z) * h_prev + z * h_hat.

    Shapes: x (B, D), h_prev (B, H), b_h (3H,). The reset gate r scales u_h, which includes the
    bias. In PyTorch and Keras, z and 1 - z are exchanged.
    """

    def __init__(self, d_in, d_hidden, *, bias=True, rng=0, dtype="float32"):
        rng = generator(rng)
        super().__init__(d_in, d_hidden, bias=bias, rng=rng, dtype=dtype)
        G, fan_in = 3 * d_hidden, d_in + d_hidden
        self.b_h = Param(uniform_fan_in(rng, fan_in, (G,), dtype)) if bias else NoBias(G)

    def forward(self, x, state=None):
        h_prev = self.initial_state(x, state)
        a = x @ self.W_x.data + self.b.data                 # a (B, 3H)
        u = h_prev @ self.W_h.data + self.b_h.data          # u (B, 3H)
        a_z, a_r, a_h = xp.split(a, 3, -1)                  # a_z (B, H)
        u_z, u_r, u_h = xp.split(u, 3, -1)
        z = sigmoid(a_z + u_z)
        r = sigmoid(a_r + u_r)
        h_hat = xp.tanh(a_h + r * u_h)
        h = (1 - z) * h_prev + z * h_hat
        return h, Cache(x=x, h_prev=h_prev, z=z, r=r, h_hat=h_hat, u_h=u_h)

    def backward(self, dh, cache):
        h_prev, z, r, h_hat, u_h = cache.h_prev, cache.z, cache.r, cache.h_hat, cache.u_h
        dh = checked_gradients(dh, z, "ResetAfterGRUCell")
        dz = dh * (h_hat - h_prev)                          # h = (1 - z) * h_prev + z * h_hat
        dh_hat = dh * z
        da_h = dh_hat * (1 - h_hat**2)                      # h_hat = tanh(a_h + r * u_h)
        dr = da_h * u_h
        du_h = da_h * r
        da_z = dz * z * (1 - z)                             # z = sigmoid(a_z + u_z)
        da_r = dr * r * (1 - r)                             # r = sigmoid(a_r + u_r)
        da = xp.concatenate([da_z, da_r, da_h], -1)         # da (B, 3H)
        du = xp.concatenate([da_z, da_r, du_h], -1)
        self.W_x.grad += cache.x.T @ da                     # a = x W_x + b
        self.b.grad += sum_rows(da)
        self.W_h.grad += h_prev.T @ du                      # u = h_prev W_h + b_h
        self.b_h.grad += sum_rows(du)
        dx = da @ self.W_x.data.T
        dh_prev = dh * (1 - z) + du @ self.W_h.data.T
        return dx, dh_prev


class ResetBeforeGRUCell(Cell):
    """a = x W_x + b in three blocks a_z, a_r, a_h, and W_h = [W_zr (H, 2H), W_c (H, H)]:
    [u_z, u_r] = h_prev W_zr,   z = sigmoid(a_z + u_z),   r = sigmoid(a_r + u_r),
    h_hat = tanh(a_h + (r * h_prev) W_c),   h = (1 - z) * h_prev + z * h_hat.

    Shapes: x (B, D), h_prev (B, H). The reset gate r scales the state before the product, as in
    Cho et al. 2014, arXiv:1406.1078v3. In that paper, z and 1 - z are exchanged.
    """

    gates = 3

    def forward(self, x, state=None):
        h_prev, H = self.initial_state(x, state), self.d_hidden
        a = x @ self.W_x.data + self.b.data                 # a (B, 3H)
        a_z, a_r, a_h = xp.split(a, 3, -1)                  # a_z (B, H)
        W_zr, W_c = self.W_h.data[:, : 2 * H], self.W_h.data[:, 2 * H :]
        u_z, u_r = xp.split(h_prev @ W_zr, 2, -1)           # u_z (B, H)
        z = sigmoid(a_z + u_z)
        r = sigmoid(a_r + u_r)
        s = r * h_prev                                      # s (B, H)
        h_hat = xp.tanh(a_h + s @ W_c)
        h = (1 - z) * h_prev + z * h_hat
        return h, Cache(x=x, h_prev=h_prev, z=z, r=r, s=s, h_hat=h_hat)

    def backward(self, dh, cache):
        h_prev, z, r, s, h_hat = cache.h_prev, cache.z, cache.r, cache.s, cache.h_hat
        H = self.d_hidden
        dh = checked_gradients(dh, z, "ResetBeforeGRUCell")
        W_zr, W_c = self.W_h.data[:, : 2 * H], self.W_h.data[:, 2 * H :]
        dz = dh * (h_hat - h_prev)                          # h = (1 - z) * h_prev + z * h_hat
        dh_hat = dh * z
        da_h = dh_hat * (1 - h_hat**2)                      # h_hat = tanh(a_h + s W_c)
        ds = da_h @ W_c.T
        dr = ds * h_prev                                    # s = r * h_prev
        da_z = dz * z * (1 - z)                             # z = sigmoid(a_z + u_z)
        da_r = dr * r * (1 - r)                             # r = sigmoid(a_r + u_r)
        du = xp.concatenate([da_z, da_r], -1)               # du (B, 2H)
        da = xp.concatenate([du, da_h], -1)                 # da (B, 3H)
        self.W_x.grad += cache.x.T @ da                     # a = x W_x + b
        self.b.grad += sum_rows(da)
        dW_zr = h_prev.T @ du                               # [u_z, u_r] = h_prev W_zr
        dW_c = s.T @ da_h
        self.W_h.grad += xp.concatenate([dW_zr, dW_c], -1)
        dx = da @ self.W_x.data.T
        dh_prev = dh * (1 - z) + ds * r + du @ W_zr.T
        return dx, dh_prev


class ResetAfterGRU(Recurrent):
    cell = ResetAfterGRUCell


class ResetBeforeGRU(Recurrent):
    cell = ResetBeforeGRUCell

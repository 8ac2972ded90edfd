"""The GRU of document 002, Problem 2: one step, one layer through time, several layers.

An update gate z near 1 takes the new candidate, near 0 it keeps the old state (elsewhere it is
often the other way round), and the reset gate r scales U h, after the product (in Cho et al.
2014, arXiv:1406.1078, it scales h before it). Blocks are packed z, r, h_hat along the last axis:
W_x = [W_z, W_r, W], W_h = [U_z, U_r, U]. The document has no biases; here one for each block stands
beside W x, outside the reset gate. The loop over time is in npdl.layers.through_time.
"""

from npdl.backend import xp
from npdl.core import Cache
from npdl.layers.activation import sigmoid
from npdl.layers.through_time import Cell, Recurrent, RecurrentLayer, stack


class GRUCell(Cell):
    """One step:  z, r = sigmoid(x W_z + h U_z + b_z), sigmoid(x W_r + h U_r + b_r)
                  h_hat = tanh(x W + b + r * (h U)),   h' = (1 - z) * h + z * h_hat

    forward(x, h): x (B, D), h (B, H), zeros if None -> h'.
    W_x (D, 3H), W_h (H, 3H) and b (3H,) start uniform in +-1/sqrt(D + H).
    """

    num_gates = 3
    gate_names = ("update", "reset", "candidate")
    one_sum = False                                     # r stands between h U and the rest

    def step(self, a, u, state):
        """From a = x W_x + b, u = h W_h (B, 3H) and (h,) to (h',). The gates take a's place."""
        (h_prev,) = state
        H = self.d_hidden
        u_z_r, u_h = u[:, : 2 * H], u[:, 2 * H :]
        z_r, h_hat = a[:, : 2 * H], a[:, 2 * H :]
        z_r = xp.add(z_r, u_z_r, out=z_r)
        z_r = sigmoid(z_r, out=z_r)
        z, r = z_r[:, :H], z_r[:, H:]
        h_hat = xp.add(h_hat, r * u_h, out=h_hat)
        h_hat = xp.tanh(h_hat, out=h_hat)
        h = (1 - z) * h_prev + z * h_hat
        return (h,), Cache(z=z, r=r, h_hat=h_hat, u_h=u_h, h_prev=h_prev)

    def step_backward(self, dstate, cache, da, du):
        """From (dh',) to da and du, written into the arrays given, and (dh,) less its part by u."""
        (dh,) = dstate
        H = self.d_hidden
        z, r, h_hat, u_h, h_prev = cache.z, cache.r, cache.h_hat, cache.u_h, cache.h_prev
        dz = dh * (h_hat - h_prev)                      # h' = (1 - z) * h + z * h_hat
        dh_hat = dh * z
        da_h = dh_hat * (1 - h_hat * h_hat)             # h_hat = tanh(a_h + r * u_h)
        dr = da_h * u_h
        da[:, :H] = dz * z * (1 - z)                    # z, r = sigmoid(a + u)
        da[:, H : 2 * H] = dr * r * (1 - r)
        da[:, 2 * H :] = da_h
        du[:, : 2 * H] = da[:, : 2 * H]
        du[:, 2 * H :] = da_h * r
        dh_prev = dh * (1 - z)
        return (dh_prev,)


class GRULayer(RecurrentLayer):
    """A GRUCell applied at t = 0..S-1: (B, S, D) -> (B, S, H) and the final h (B, H).

    forward(x, h, tree, lengths): see RecurrentLayer.
    """

    def __init__(self, d_in, d_hidden, bias=True, rng=0, dtype="float32"):
        super().__init__(GRUCell(d_in, d_hidden, bias, rng, dtype))


class GRU(Recurrent):
    """`num_layers` GRULayers, each reading the one below; dropout between them, not after.

    forward(x, h, rng, tree, lengths): x (B, S, D), h (L, B, H) or None -> y (B, S, H) and the
    final h (L, B, H). See Recurrent.
    """

    def __init__(self, d_in, d_hidden, num_layers=1, bias=True, dropout=0.0, rng=0,
                 dtype="float32"):
        super().__init__(stack(GRULayer, d_in, d_hidden, num_layers, bias, rng, dtype), dropout)

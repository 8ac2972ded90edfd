"""The LSTM: one step, one layer through time, several layers (Hochreiter & Schmidhuber 1997).

Gates are packed i, f, o, g along the last axis (input, forget, output, candidate), with one bias
for each gate. Document 004, Problem 1. The loop over time is in npdl.layers.through_time.
"""

from npdl.backend import xp
from npdl.core import Cache
from npdl.layers.activation import sigmoid
from npdl.layers.through_time import Cell, Recurrent, RecurrentLayer, stack


class LSTMCell(Cell):
    """One step:  i, f, o = sigmoid(z), g = tanh(z),  z = x W_x + h W_h + b
                  c' = f * c + i * g,   h' = o * tanh(c')

    forward(x, (h, c)): x (B, D), h and c (B, H), zeros if None -> (h', c').
    W_x (D, 4H), W_h (H, 4H) and b (4H,) start uniform in +-1/sqrt(D + H).
    """

    num_gates = 4
    gate_names = ("input", "forget", "output", "candidate")
    num_parts = 2

    def step(self, z, u, state):
        """From z = x W_x + b, u = h W_h (B, 4H) and (h, c) to (h', c')."""
        _, c_prev = state
        H = self.d_hidden
        z = xp.add(z, u, out=z)                         # z (B, 4H)
        s = sigmoid(z[:, : 3 * H])                      # s (B, 3H): i, f and o side by side
        i, f, o = split_sigmoids(s)
        g = xp.tanh(z[:, 3 * H :])                      # g (B, H), and so i, f, o
        c = f * c_prev                                  # c (B, H)
        c = xp.add(c, i * g, out=c)
        tanh_c = xp.tanh(c)
        h = o * tanh_c                                  # h (B, H)
        return (h, c), Cache(s=s, i=i, f=f, o=o, g=g, c_prev=c_prev, tanh_c=tanh_c)

    def step_backward(self, dstate, cache, dz, du):
        """From (dh', dc') to dz, written into the array that is given, and (None, dc)."""
        dh, dc = dstate                                 # dh (B, H)
        i, f, o, g = cache.i, cache.f, cache.o, cache.g
        s, tanh_c, c_prev = cache.s, cache.tanh_c, cache.c_prev
        dz_i, dz_f, dz_o, dz_g = split_gates(dz)        # dz_i (B, H), a view: to write it fills dz
        do = dh * tanh_c                                # h' = o * tanh(c')
        dc = dc + dh * o * (1 - tanh_c * tanh_c)
        di = dc * g                                     # c' = f * c + i * g
        df = dc * c_prev
        dg = dc * i
        slope_i, slope_f, slope_o = split_sigmoids(s * (1 - s))     # i, f, o = sigmoid(z)
        dz_i = xp.multiply(di, slope_i, out=dz_i)
        dz_f = xp.multiply(df, slope_f, out=dz_f)
        dz_o = xp.multiply(do, slope_o, out=dz_o)
        dz_g = xp.multiply(dg, 1 - g * g, out=dz_g)     # g = tanh(z)
        dc_prev = dc * f                                # dc_prev (B, H)
        return None, dc_prev                            # h is read by u = h W_h alone


def split_gates(packed):
    """(B, 4H) -> four views (B, H): i, f, o, g."""
    H = packed.shape[-1] // 4
    return *split_sigmoids(packed[:, : 3 * H]), packed[:, 3 * H :]


def split_sigmoids(packed):
    """(B, 3H) -> three views (B, H): i, f, o."""
    H = packed.shape[-1] // 3
    return packed[:, :H], packed[:, H : 2 * H], packed[:, 2 * H :]


class LSTMLayer(RecurrentLayer):
    """An LSTMCell applied at t = 0..S-1: (B, S, D) -> (B, S, H) and the final (h, c), each (B, H).

    forward(x, state, tree, lengths): see RecurrentLayer.
    """

    def __init__(self, d_in, d_hidden, bias=True, rng=0, dtype="float32"):
        super().__init__(LSTMCell(d_in, d_hidden, bias, rng, dtype))


class LSTM(Recurrent):
    """`num_layers` LSTMLayers, each reading the one below; dropout between them, not after.

    forward(x, state, rng, tree, lengths): x (B, S, D), state (h, c) each (L, B, H) or None
    -> y (B, S, H) and the final state (h, c), each (L, B, H). See Recurrent.
    """

    def __init__(self, d_in, d_hidden, num_layers=1, bias=True, dropout=0.0, rng=0,
                 dtype="float32"):
        super().__init__(stack(LSTMLayer, d_in, d_hidden, num_layers, bias, rng, dtype), dropout)

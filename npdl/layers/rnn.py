"""The plain recurrent network: one step, one layer through time, several layers (Elman 1990).

Document 000, Question 3. The loop over time is in npdl.layers.through_time.
"""

from npdl.backend import xp
from npdl.core import Cache
from npdl.layers.through_time import Cell, Recurrent, RecurrentLayer, stack


class RNNCell(Cell):
    """One step:  h' = tanh(x W_x + h W_h + b)

    forward(x, h): x (B, D), h (B, H), zeros if None -> h'.
    W_x (D, H), W_h (H, H) and b (H,) start uniform in +-1/sqrt(D + H).
    """

    def step(self, z, u, state):
        """From z = x W_x + b and u = h W_h (B, H) to (h',)."""
        z = xp.add(z, u, out=z)
        h = xp.tanh(z)
        return (h,), Cache(h=h)

    def step_backward(self, dstate, cache, dz, du):
        """From (dh',) to dz, written into the array that is given, and (None,)."""
        (dh,) = dstate
        h = cache.h
        dz[...] = dh * (1 - h * h)                      # h' = tanh(z)
        return (None,)                                  # h is read by u = h W_h alone


class RNNLayer(RecurrentLayer):
    """An RNNCell applied at t = 0..S-1: (B, S, D) -> (B, S, H) and the final h (B, H).

    forward(x, h, tree, lengths): see RecurrentLayer.
    """

    def __init__(self, d_in, d_hidden, bias=True, rng=0, dtype="float32"):
        super().__init__(RNNCell(d_in, d_hidden, bias, rng, dtype))


class RNN(Recurrent):
    """`num_layers` RNNLayers, each reading the one below; dropout between them, not after.

    forward(x, h, rng, tree, lengths): x (B, S, D), h (L, B, H) or None -> y (B, S, H) and the
    final h (L, B, H). See Recurrent.
    """

    def __init__(self, d_in, d_hidden, num_layers=1, bias=True, dropout=0.0, rng=0,
                 dtype="float32"):
        super().__init__(stack(RNNLayer, d_in, d_hidden, num_layers, bias, rng, dtype), dropout)

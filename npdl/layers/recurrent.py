"""Recurrent networks: cells compute one step, layers compute all steps, networks stack layers.

The state of an RNN or GRU is h (B, H). The state of an LSTM is the pair (h, c). W_x, W_h and b
consist of one block for each gate, side by side. Hochreiter & Schmidhuber 1997 (LSTM), Cho et al.
2014 (GRU).
"""

from npdl.backend import xp
from npdl.core import Cache, Layer, NoBias, Param, checked_gradients
from npdl.errors import InputError, check_shape, checked_state, describe, is_array
from npdl.functions import h_of, length_mask, map_state, sigmoid, sum_rows
from npdl.init import generator, uniform_fan_in
from npdl.layers.dropout import Dropout
from npdl.options import require_bool, require_positive


class Cell(Layer):
    """Base class of cells, with W_x (D, G), W_h (H, G) and b (G,), where G = gates * H.

    forward(x, state) maps x (B, D) and the previous state to the new state. Each array of a state
    is (B, H); the state None means zeros. The parameters are initialised uniformly in
    +-1/sqrt(D + H). Raises InputError for sizes below 1, and for arrays of other shapes.
    """

    gates, parts = 1, 1                 # number of blocks in G, number of arrays in the state

    def __init__(self, d_in, d_hidden, *, bias=True, rng=0, dtype="float32"):
        require_positive(d_in=d_in, d_hidden=d_hidden)
        require_bool(bias=bias)
        rng, fan_in, G = generator(rng), d_in + d_hidden, self.gates * d_hidden
        self.W_x = Param(uniform_fan_in(rng, fan_in, (d_in, G), dtype))
        self.W_h = Param(uniform_fan_in(rng, fan_in, (d_hidden, G), dtype))
        self.b = Param(uniform_fan_in(rng, fan_in, (G,), dtype)) if bias else NoBias(G)
        self.d_hidden = d_hidden

    def initial_state(self, x, state=None):
        """Return `state`, or zeros for None. Raise InputError if x or the state doesn't fit."""
        check_shape(type(self).__name__, x, f"(B, {self.W_x.shape[0]})")
        shape = (len(x), self.d_hidden)
        if state is not None:
            return checked_state(state, self.parts, shape, type(self).__name__)
        h = xp.zeros(shape, self.W_h.data.dtype)
        return h if self.parts == 1 else (h,) * self.parts


class RNNCell(Cell):
    """h = tanh(x W_x + h_prev W_h + b),   with x (B, D) and h (B, H)   (Elman 1990)."""

    def forward(self, x, state=None):
        h_prev = self.initial_state(x, state)
        h = xp.tanh(x @ self.W_x.data + h_prev @ self.W_h.data + self.b.data)
        return h, Cache(x=x, h_prev=h_prev, h=h)

    def backward(self, dh, cache):
        dh = checked_gradients(dh, cache.h, "RNNCell")
        dz = dh * (1 - cache.h**2)                          # h = tanh(z)
        self.W_x.grad += cache.x.T @ dz                     # z = x W_x + h_prev W_h + b
        self.W_h.grad += cache.h_prev.T @ dz
        self.b.grad += sum_rows(dz)
        dx = dz @ self.W_x.data.T
        dh_prev = dz @ self.W_h.data.T
        return dx, dh_prev


class GRUCell(Cell):
    """a = x W_x + b and u = h_prev W_h, each in three blocks:   (Cho et al. 2014, arXiv:1406.1078)
    z = sigmoid(a_z + u_z),   r = sigmoid(a_r + u_r),   h_hat = tanh(a_h + r * u_h),
    h = (1 - z) * h_prev + z * h_hat.

    Shapes: x (B, D), h_prev (B, H). The new state is close to the candidate h_hat if z is close to
    1; in many other texts, z and 1 - z are exchanged. Here r scales the product h_prev W_h. In the
    paper it scales h_prev before the product (ResetBeforeGRUCell).
    """

    gates = 3

    def forward(self, x, state=None):
        h_prev = self.initial_state(x, state)
        a = x @ self.W_x.data + self.b.data                 # a (B, 3H)
        u = h_prev @ self.W_h.data                          # u (B, 3H)
        a_z, a_r, a_h = xp.split(a, 3, -1)                  # a_z (B, H)
        u_z, u_r, u_h = xp.split(u, 3, -1)
        z = sigmoid(a_z + u_z)
        r = sigmoid(a_r + u_r)
        h_hat = xp.tanh(a_h + r * u_h)
        h = (1 - z) * h_prev + z * h_hat
        return h, Cache(x=x, h_prev=h_prev, z=z, r=r, h_hat=h_hat, u_h=u_h)

    def backward(self, dh, cache):
        h_prev, z, r, h_hat, u_h = cache.h_prev, cache.z, cache.r, cache.h_hat, cache.u_h
        dh = checked_gradients(dh, z, "GRUCell")
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
        self.W_h.grad += h_prev.T @ du                      # u = h_prev W_h
        dx = da @ self.W_x.data.T
        dh_prev = dh * (1 - z) + du @ self.W_h.data.T
        return dx, dh_prev


class LSTMCell(Cell):
    """z = x W_x + h_prev W_h + b in four blocks:   (Hochreiter & Schmidhuber 1997)
    i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),   g = tanh(z_g),
    c = f * c_prev + i * g,   h = o * tanh(c).

    Shapes: x (B, D), and all of h_prev, c_prev, h, c (B, H). The state is the pair (h, c).
    """

    gates, parts = 4, 2

    def forward(self, x, state=None):
        h_prev, c_prev = self.initial_state(x, state)
        z = x @ self.W_x.data + h_prev @ self.W_h.data + self.b.data        # z   (B, 4H)
        z_i, z_f, z_o, z_g = xp.split(z, 4, -1)                             # z_i (B, H)
        i = sigmoid(z_i)
        f = sigmoid(z_f)
        o = sigmoid(z_o)
        g = xp.tanh(z_g)
        c = f * c_prev + i * g                                              # c   (B, H)
        tanh_c = xp.tanh(c)
        h = o * tanh_c                                                      # h   (B, H)
        return (h, c), Cache(x=x, h_prev=h_prev, c_prev=c_prev, i=i, f=f, o=o, g=g, tanh_c=tanh_c)

    def backward(self, dstate, cache):
        x, h_prev, c_prev, tanh_c = cache.x, cache.h_prev, cache.c_prev, cache.tanh_c
        i, f, o, g = cache.i, cache.f, cache.o, cache.g
        dh, dc = checked_gradients(dstate, (o, tanh_c), "LSTMCell")
        do = dh * tanh_c                                    # h = o * tanh(c)
        dc = dc + dh * o * (1 - tanh_c**2)
        df = dc * c_prev                                    # c = f * c_prev + i * g
        di = dc * g
        dg = dc * i
        dc_prev = dc * f
        dz_i = di * i * (1 - i)                             # i = sigmoid(z_i)
        dz_f = df * f * (1 - f)                             # f = sigmoid(z_f)
        dz_o = do * o * (1 - o)                             # o = sigmoid(z_o)
        dz_g = dg * (1 - g**2)                              # g = tanh(z_g)
        dz = xp.concatenate([dz_i, dz_f, dz_o, dz_g], -1)   # dz (B, 4H)
        self.W_x.grad += x.T @ dz                           # z = x W_x + h_prev W_h + b
        self.W_h.grad += h_prev.T @ dz
        self.b.grad += sum_rows(dz)
        dx = dz @ self.W_x.data.T
        dh_prev = dz @ self.W_h.data.T
        return dx, (dh_prev, dc_prev)


class RecurrentLayer(Layer):
    """state_t = cell(x_t, state_{t-1}) for t = 0, 1, .. S-1, and y_t = h_t.

        RecurrentLayer(LSTMCell(3, 5))

    forward(x, state, lengths) maps x (B, S, D) to (y, last state), with y (B, S, H). `state` is the
    state before the first step, with arrays (B, H); None means zeros. With `lengths` (B,),
    sequence b has lengths[b] valid steps. In later steps its outputs are zero and its state does
    not change. The values of x in these steps have no effect on any output or gradient, even if
    they are NaN.
    """

    def __init__(self, cell):
        if not isinstance(cell, Cell):
            raise InputError(f"RecurrentLayer: got {describe(cell)}; give a cell, such as "
                             "LSTMCell(3, 5)")
        self.cell = cell

    def forward(self, x, state=None, lengths=None):
        owner = type(self.cell).__name__.removesuffix("Cell")       # LSTM of LSTMCell
        check_shape(owner, x, f"(B, S, {self.cell.W_x.shape[0]})")
        valid = None                                        # all steps
        if lengths is not None:
            valid = length_mask(lengths, x.shape[1], len(x), owner)[..., None]  # valid (B, S, 1)
            x = xp.where(valid, x, 0)
        state = self.cell.initial_state(x[:, 0], state)
        ys, steps = [], []
        for t in range(x.shape[1]):
            new, step = self.cell.forward(x[:, t], state)
            state = new if valid is None else map_state(make_selector(valid[:, t]), new, state)
            ys.append(h_of(state))
            steps.append(step)
        y = xp.stack(ys, 1)                                 # y (B, S, H)
        y = y if valid is None else xp.where(valid, y, 0)
        return (y, state), Cache(steps=steps, valid=valid, out=(y, state))

    def backward(self, dout, cache):
        steps, valid, dxs = cache.steps, cache.valid, []
        dy, dstate = checked_gradients(dout, cache.out, type(self).__name__)
        for t in reversed(range(len(steps))):
            dh = dy[:, t]                                   # y_t = h_t, which step t + 1 reads, too
            if valid is None:
                dx, dstate = self.cell.backward(add_dh(dstate, dh), steps[t])
            else:                                           # after its end, a state does not change
                dnew = map_state(make_selector(valid[:, t]), add_dh(dstate, dh))
                dx, dread = self.cell.backward(dnew, steps[t])
                dstate = map_state(xp.add, dread, map_state(make_selector(~valid[:, t]), dstate))
            dxs.append(dx)
        dx = xp.stack(dxs[::-1], 1)                         # dx (B, S, D)
        return dx, dstate


class Recurrent(Layer):
    """y = layer_L(.. layer_2(layer_1(x))), L = `num_layers`, with dropout between the layers.

    forward(x, state, rng, lengths) maps x (B, S, D) to (y, last state). y (B, S, H) are the outputs
    of the top layer. `state` is the state before the first step, and None means zeros. Each array
    of a state is (L, B, H), with one entry for each layer.
    """

    def __init__(self, d_in, d_hidden, num_layers=1, *, bias=True, dropout=0.0, rng=0,
                 dtype="float32"):
        require_positive(num_layers=num_layers)
        rng, widths = generator(rng), [d_in] + [d_hidden] * (num_layers - 1)
        self.layers = [RecurrentLayer(self.cell(d, d_hidden, bias=bias, rng=rng, dtype=dtype))
                       for d in widths]
        self.dropout = Dropout(dropout)

    def forward(self, x, state=None, rng=None, lengths=None):
        starts, lasts, caches = split_by_layer(state, len(self.layers), type(self).__name__), [], []
        for layer, start in zip(self.layers, starts, strict=True):
            if caches:                                      # between two layers
                x, caches[-1].drop = self.dropout.forward(x, rng)
            (x, last), c_layer = layer.forward(x, start, lengths)
            lasts.append(last)
            caches.append(Cache(layer=c_layer, drop=None))
        state = map_state(lambda *parts: xp.stack(parts), *lasts)
        return (x, state), Cache(layers=caches, out=(x, state))

    def backward(self, dout, cache):
        dx, dstate = checked_gradients(dout, cache.out, type(self).__name__)
        dlasts, dstarts = split_by_layer(dstate, len(self.layers), type(self).__name__), []
        for i in reversed(range(len(self.layers))):
            c_layer, c_drop = cache.layers[i].layer, cache.layers[i].drop
            dx = dx if c_drop is None else self.dropout.backward(dx, c_drop)
            dx, dstart = self.layers[i].backward((dx, dlasts[i]), c_layer)
            dstarts.append(dstart)
        dstate = map_state(lambda *parts: xp.stack(parts), *dstarts[::-1])
        return dx, dstate


class RNN(Recurrent):
    cell = RNNCell


class GRU(Recurrent):
    cell = GRUCell


class LSTM(Recurrent):
    cell = LSTMCell


def split_by_layer(state, L, owner):
    """Split a state with arrays (L, B, H) into a list of L states. For None, return [None] * L."""
    if state is None:
        return [None] * L
    state = tuple(state) if isinstance(state, list) else state
    for part in state if isinstance(state, tuple) else (state,):
        if not is_array(part) or part.ndim != 3 or len(part) != L:
            raise InputError(f"{owner}: an array of the state is {describe(part)}; it must be "
                             f"({L}, B, H), with one entry for each layer")
    return [map_state(lambda part, i=i: part[i], state) for i in range(L)]


def add_dh(dstate, dh):
    """Return `dstate`, the gradient of a state, with dh added to the gradient of h."""
    return (dstate[0] + dh, *dstate[1:]) if isinstance(dstate, tuple) else dstate + dh


def make_selector(valid):
    """Return a function f(new, old=0) that returns new where `valid` is True, and old elsewhere.

    `valid` (B, 1) is True for the sequences for which a step is valid.
    """
    return lambda new, old=0: xp.where(valid, new, old)

"""A bidirectional RNN with one output for each step, and its loss."""

from npdl.backend import xp
from npdl.core import Cache, Layer, checked_gradients, require_layers
from npdl.errors import check_shapes
from npdl.functions import length_mask
from npdl.init import generator
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.linear import Linear
from npdl.layers.recurrent import RNN
from npdl.losses import SquaredError


class BiRNN(Layer):
    """h_f(t) = tanh(W_f x_t + U_f h_f(t-1)),  h_b(t) = tanh(W_b x_t + U_b h_b(t+1)),
    y_t = V_f h_f(t) + V_b h_b(t)

    forward(x, state, lengths) maps x (B, S, D) to (y, final states), with y (B, S, E). `state` is
    the pair of h_f before the first step and h_b after the last step. The final states are h_f at
    the last step and h_b at the first step. All states are (1, B, H). If `state` is None, h_f and
    h_b begin with zeros. With `lengths` (B,), y is zero after the last valid step of a sequence. H
    and E are equal to D by default, and there are no biases. In the code, vectors are rows, and the
    matrices of both RNNs are called W_x and W_h. So the first RNN computes W_f x_t as x_t W_x.
    """

    def __init__(self, d_in, d_hidden=None, d_out=None, *, rng=0, dtype="float32"):
        rng = generator(rng)
        d_hidden = d_in if d_hidden is None else d_hidden
        d_out = d_in if d_out is None else d_out
        ahead = RNN(d_in, d_hidden, bias=False, rng=rng, dtype=dtype)
        back = RNN(d_in, d_hidden, bias=False, rng=rng, dtype=dtype)
        self.rnn = Bidirectional(ahead, back)
        self.V_f = Linear(d_hidden, d_out, bias=False, rng=rng, dtype=dtype)
        self.V_b = Linear(d_hidden, d_out, bias=False, rng=rng, dtype=dtype)

    def forward(self, x, state=None, lengths=None):
        (h, final), c_rnn = self.rnn.forward(x, state, lengths=lengths)
        h_f, h_b = xp.split(h, 2, -1)                       # h_f (B, S, H)
        y_f, c_f = self.V_f.forward(h_f)
        y_b, c_b = self.V_b.forward(h_b)
        y = y_f + y_b                                       # y   (B, S, E)
        out = (y, final)
        return out, Cache(rnn=c_rnn, V_f=c_f, V_b=c_b, out=out)

    def backward(self, dout, cache):
        dy, dfinal = checked_gradients(dout, cache.out, "BiRNN")
        dh_f = self.V_f.backward(dy, cache.V_f)             # y = V_f h_f + V_b h_b
        dh_b = self.V_b.backward(dy, cache.V_b)
        dh = xp.concatenate([dh_f, dh_b], -1)
        dx, dstate = self.rnn.backward((dh, dfinal), cache.rnn)
        return dx, dstate


class BiRNNLoss(Layer):
    """L = sum over steps t and samples of ||z_t - y_t||^2, where y is the output of a BiRNN.

    forward(x, z, state, lengths) returns L. x (B, S, D), `state` and `lengths` are the arguments of
    the model, and z (B, S, E) are the targets. Steps after the last valid step of a sequence don't
    count.
    """

    def __init__(self, model):
        require_layers(type(self).__name__, [model])
        self.model = model
        self.squared_error = SquaredError(reduction="sum")

    def forward(self, x, z, state=None, lengths=None):
        (y, _), c_model = self.model.forward(x, state, lengths)
        check_shapes("BiRNNLoss", kinds="f", y=(y, "(B, S, E)"), z=(z, "(B, S, E)"))
        counted = True
        if lengths is not None:
            counted = length_mask(lengths, x.shape[1])[..., None]   # counted (B, S, 1)
            z = xp.where(counted, z, 0)                     # y is 0 there, too
        L, c_loss = self.squared_error.forward(y, z)
        return L, Cache(model=c_model, loss=c_loss, counted=counted)

    def backward(self, dL, cache):
        dy, dz = self.squared_error.backward(dL, cache.loss)
        dz = dz * cache.counted                             # z = where(counted, z, 0)
        dx, dstate = self.model.backward(dy, cache.model)
        return dx, dz, dstate

"""Bidirectional networks: two recurrent networks read a sequence from its two ends.

Schuster & Paliwal 1997.
"""

from npdl.backend import xp
from npdl.core import Cache, Layer, checked_gradients, require_layers
from npdl.errors import InputError, describe
from npdl.functions import reverse
from npdl.layers.dropout import Dropout
from npdl.layers.recurrent import Recurrent


class Bidirectional(Layer):
    """y_t = [a_t, b_t], the outputs of `ahead` and `back`, which read x in opposite directions.

    a_t is the output of `ahead` after it has read x_0 .. x_t, and b_t is the output of `back` after
    it has read x_{S-1} .. x_t, the last first. `ahead` and `back` are RNNs, GRUs or LSTMs with the
    same input width. Initialise them with different seeds:

        Bidirectional(LSTM(3, 5, rng=0), LSTM(3, 5, rng=1))

    forward(x, state, rng, lengths) maps x (B, S, D) to (y, last states), with y (B, S, H_a + H_b).
    `state` is the pair of the first states of `ahead` and `back`; None means zeros. With `lengths`
    (B,), `back` begins at the last valid step of a sequence.
    """

    def __init__(self, ahead, back):
        for layer in (ahead, back):
            if not isinstance(layer, Recurrent):
                raise InputError(f"Bidirectional: got {describe(layer)}; give two RNNs, GRUs or "
                                 "LSTMs, such as LSTM(3, 5)")
        if ahead.layers[0].cell.W_x.shape[0] != back.layers[0].cell.W_x.shape[0]:
            raise InputError("Bidirectional: the two layers have different input widths; they must "
                             "be equal, because both read the same input")
        self.ahead = ahead
        self.back = back
        self.d_ahead = ahead.layers[0].cell.d_hidden

    def forward(self, x, state=None, rng=None, lengths=None):
        start_a, start_b = (None, None) if state is None else state
        (y_a, last_a), c_a = self.ahead.forward(x, start_a, rng, lengths)
        (y_b, last_b), c_b = self.back.forward(reverse(x, lengths), start_b, rng, lengths)
        y = xp.concatenate([y_a, reverse(y_b, lengths)], -1)
        out = (y, (last_a, last_b))
        return out, Cache(ahead=c_a, back=c_b, lengths=lengths, out=out)

    def backward(self, dout, cache):
        dy, (dlast_a, dlast_b) = checked_gradients(dout, cache.out, "Bidirectional")
        dy_a, dy_b = xp.split(dy, [self.d_ahead], -1)       # y = [y_a, reverse(y_b)]
        dx_a, dstart_a = self.ahead.backward((dy_a, dlast_a), cache.ahead)
        dy_b = reverse(dy_b, cache.lengths)
        dx_b, dstart_b = self.back.backward((dy_b, dlast_b), cache.back)
        dx = dx_a + reverse(dx_b, cache.lengths)            # ahead and back read x
        return dx, (dstart_a, dstart_b)


class BidirectionalStack(Layer):
    """y = b_n(.. b_2(b_1(x))), a stack of Bidirectional layers with dropout between them.

        BidirectionalStack([Bidirectional(LSTM(3, 5, rng=0), LSTM(3, 5, rng=1)),
                            Bidirectional(LSTM(10, 5, rng=2), LSTM(10, 5, rng=3))])

    This example has the structure of torch.nn.LSTM(3, 5, num_layers=2, bidirectional=True). Each
    layer reads the outputs of both directions of the layer below. The arguments of forward are
    those of Bidirectional. It maps x (B, S, D) to y (B, S, H_a + H_b), the outputs of both
    directions, and the last states. `state` is a list with a pair for each layer: the first states
    of its two directions.
    """

    def __init__(self, layers, dropout=0.0):
        require_layers("layers", layers, "layers, such as [Bidirectional(LSTM(3, 5), LSTM(3, 5))]")
        self.layers = list(layers)
        self.dropout = Dropout(dropout)

    def forward(self, x, state=None, rng=None, lengths=None):
        starts = [None] * len(self.layers) if state is None else state
        lasts, caches = [], []
        for layer, start in zip(self.layers, starts, strict=True):
            if caches:                                      # between two layers
                x, caches[-1].drop = self.dropout.forward(x, rng)
            (x, last), c_layer = layer.forward(x, start, rng, lengths)
            lasts.append(last)
            caches.append(Cache(layer=c_layer, drop=None))
        out = (x, tuple(lasts))
        return out, Cache(layers=caches, out=out)

    def backward(self, dout, cache):
        dx, dlasts = checked_gradients(dout, cache.out, "BidirectionalStack")
        dstarts = []
        for i in reversed(range(len(self.layers))):
            c_layer, c_drop = cache.layers[i].layer, cache.layers[i].drop
            dx = dx if c_drop is None else self.dropout.backward(dx, c_drop)
            dx, dstart = self.layers[i].backward((dx, dlasts[i]), c_layer)
            dstarts.append(dstart)
        return dx, tuple(dstarts[::-1])

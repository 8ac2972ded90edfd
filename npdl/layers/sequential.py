"""A chain of layers."""

import inspect

from npdl.core import Cache, Layer, require_layers
from npdl.errors import InputError


class Sequential(Layer):
    """y = f_n(.. f_2(f_1(x))), where each layer f_i reads the output of the layer before it.

        Sequential(Embedding(9, 8), Dropout(0.1), LSTM(8, 16), Linear(16, 5))

    forward(x, **options) passes an option (rng, lengths, mask ..) to every layer whose forward
    takes it. If a layer has several outputs, such as an LSTM, the next layer reads the first.
    Raises InputError if an argument is not a layer, or if forward gets an option that no layer
    takes.
    """

    def __init__(self, *layers):
        require_layers("Sequential", layers,
                       "layers, such as Sequential(Linear(8, 16), Tanh(), Linear(16, 4))")
        self.layers = list(layers)

    def forward(self, x, **options):
        accepted = [forward_option_names(layer) & options.keys() for layer in self.layers]
        unknown = sorted(options.keys() - set().union(*accepted))
        if unknown:
            raise InputError(f"Sequential: no layer takes the option {unknown[0]!r}; leave it out")
        caches = []
        for layer, names in zip(self.layers, accepted, strict=True):
            y, cache = layer.forward(x, **{name: options[name] for name in names})
            x = first_output(y)
            caches.append(cache)
        return x, Cache(layers=caches)

    def backward(self, dy, cache):
        dx = dy
        for layer, c_layer in zip(self.layers[::-1], cache.layers[::-1], strict=True):
            dx = first_output(layer.backward(dx, c_layer))
        return dx


def forward_option_names(layer):
    """Return the names of all inputs of a layer's forward except the first."""
    if isinstance(layer, Sequential):
        return set().union(*map(forward_option_names, layer.layers))
    return set(list(inspect.signature(layer.forward).parameters)[1:])


def first_output(outputs):
    """Return the first of several outputs, or the only one."""
    return outputs[0] if isinstance(outputs, tuple) else outputs

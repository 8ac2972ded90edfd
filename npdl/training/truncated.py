"""Backpropagation through time, cut into segments (Williams & Peng 1990)."""

import numpy as np

from npdl.backend import xp
from npdl.core import walk
from npdl.errors import InputError, require_positive
from npdl.functions import checked_lengths
from npdl.layers.bidirectional import Bidirectional


def truncated_bptt(layer, x, dloss, segment, state=None, lengths=None, **options):
    """Forward and backward over x (B, S, ...), `segment` steps at a time.

    Each segment starts from the final state of the one before, taken as plain numbers: values
    are carried on, gradients stop. So the outputs are those of the whole sequence, and memory
    is that of one segment. When `segment` is at least S this is full backpropagation.

    layer    RNN, GRU, LSTM, or a model that maps (x, state) to (y, state, ...), such as LSTMLM
    dloss    dloss(y, span) -> the gradient of the loss with respect to y, the outputs of the
             steps in the slice `span`
    lengths  (B,) as in RecurrentLayer; `options` go to layer.forward
    Adds to the gradients of the layer's parameters. Returns y, the final state and dx of the
    whole sequence (dx None for integer x). Raises InputError for a segment below 1, and for a
    bidirectional layer, which needs the end before the beginning.
    """
    require_positive(segment=segment)
    if any(isinstance(part, Bidirectional) for part in walk(layer)):
        raise InputError("truncated_bptt: a bidirectional layer can't be cut into segments; "
                         "give it whole sequences")
    if getattr(x, "ndim", 0) < 2 or 0 in x.shape:
        raise InputError(f"truncated_bptt: the input has shape {np.shape(x)}; it must be "
                         "(B, S, ...), none of them 0")
    S, ys, dxs = x.shape[1], [], []
    if lengths is not None:
        lengths = checked_lengths(lengths, len(x), S, "truncated_bptt")
    for start in range(0, S, segment):
        span = slice(start, min(start + segment, S))
        if lengths is not None:
            options["lengths"] = np.clip(lengths - start, 0, span.stop - span.start)
        outputs, cache = layer.forward(x[:, span], state, **options)
        y, state = outputs[:2]
        dx, _ = layer.backward(dloss(y, span), cache)   # no gradient for the state: cut here
        ys.append(y)
        dxs.append(dx)
    whole_dx = None if dxs[0] is None else xp.concatenate(dxs, 1)
    return xp.concatenate(ys, 1), state, whole_dx

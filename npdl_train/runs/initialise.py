"""Other starting values than the layers' own."""

import math

from npdl.backend import to_device
from npdl.core import Param, embedding_names
from npdl.layers.embedding import Embedding

INITS = ("torch", "gpt2", "lecun", "xavier")
ONLY = {"gpt2": "gpt", "lecun": "gpt", "xavier": "lstm"}       # the model that starts so
STD = 0.02


def initialise(model, init, rng):
    """Give a fresh model the starting values named `init`; "torch" are the layers' own."""
    if init == "gpt2":
        gpt2_init(model, rng)
    elif init == "lecun":
        lecun_init(model, rng)
    elif init == "xavier":
        xavier_init(model, rng)


def gpt2_init(model, rng):
    """Start a GPT as GPT-2 does (Radford et al. 2019, section 2.3): small, and flat in depth.

    Every matrix is normal(0, 0.02); the two that write into the residual stream of each of the L
    blocks are smaller by sqrt(2L), so that the stream's variance does not grow with L. Biases are
    0, gains stay 1. With tied embeddings this matters: a standard-normal table would start with
    logits of size sqrt(D), and a loss far above log V.
    """
    _normal_init(model, rng, lambda param: STD)


def lecun_init(model, rng):
    """As gpt2_init, but a linear map of D inputs is normal(0, 1/sqrt(D)): it keeps the variance of
    what it reads (LeCun et al. 1998, Efficient BackProp, section 4.6). Tables stay at 0.02.

    At GPT-2's own widths, 768 to 1600, 1/sqrt(D) is 0.036 to 0.025; at 128 it is 0.088.
    """
    _normal_init(model, rng, lambda param: 1 / math.sqrt(param.shape[0]))


def _normal_init(model, rng, std_of):
    """Normal matrices, with std_of(param) for the linear maps; see gpt2_init."""
    residual = 1 / math.sqrt(2 * len(model.decoder.blocks))
    tables = embedding_names(model)
    for name, param in model.params():
        if param.data.ndim >= 2:
            std = STD if name in tables else std_of(param)
            std *= residual if name.endswith(("W_O.W", "down.W")) else 1
            values = rng.normal(0.0, std, param.shape)
            param.data[...] = to_device(values.astype(param.data.dtype))
        elif name.endswith(".b"):
            param.data[...] = 0
    table = model.embedding
    if isinstance(table, Embedding) and table.padding_id is not None:
        table.W.data[table.padding_id] = 0


def xavier_init(model, rng):
    """Start the gates of an LSTMLM as Glorot & Bengio 2010 propose, eq. 16; biases at 0.

    The map of one gate, [W U] of document 004's Problem 1, leads from D + H numbers to H, so its
    entries are uniform in +-sqrt(6 / (D + 2H)): twice as wide as the layer's own for D = H. Table
    and classifier keep their values.
    """
    for layer in model.lstm.layers:
        cell = layer.cell
        (D, _), H = cell.W_x.shape, cell.d_hidden
        bound = math.sqrt(6 / (D + 2 * H))
        for weight in (cell.W_x, cell.W_h):
            values = rng.uniform(-bound, bound, weight.shape)
            weight.data[...] = to_device(values.astype(weight.data.dtype))
        if isinstance(cell.b, Param):
            cell.b.data[...] = 0
